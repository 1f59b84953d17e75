"""The snippets of docs/pipelines.md run, one after the other, on tiny models."""

import re
from pathlib import Path

from clearhead.pipelines.compat.pipeline import TASKS
from pipelines.peers import TAGS, peers
from pipelines.writers import gpt_folder, translator

PAGE = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text(encoding="utf-8")


def test_the_snippets_run(tmp_path, monkeypatch, writers):
    (tmp_path / "models").mkdir()
    for name, pair in {
        "answers": peers("BertForQuestionAnswering", seed=3),
        "masks": peers("BertForMaskedLM", seed=2),
        "classes": peers("BertForSequenceClassification", ("no", "yes"), seed=1),
        "tags": peers("BertForTokenClassification", TAGS, seed=1),
        "inference": peers("BertForSequenceClassification", ("contradiction", "neutral", "entailment"), seed=4),
    }.items():
        (tmp_path / "models" / name).symlink_to(pair.folder)
    (tmp_path / "models" / "gpt").symlink_to(gpt_folder())
    translator().save(tmp_path / "models" / "german")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(snippet, names)
    assert [len(names[name]) for name in ("best", "words", "two", "every")] == [3, 3, 2, 2]
    assert names["features"].shape[2] == 32
    assert len(names["ways"]) == 3


def test_every_task_and_its_keys_are_in_the_table():
    for task in TASKS:
        assert re.search(rf"^\| .*`{task}`.* \|.*\|.*\|$", PAGE, re.MULTILINE), task
