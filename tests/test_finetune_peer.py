"""The fine-tuning benchmark: both systems see the same examples, and its tables say what was measured."""

import json

import pytest

from clearhead.text import Tokenizer
from clearhead.training.recipes.task_specs import TASK_SPECS
from finetune_peer import quality_table, speed_table
from finetune_systems import TASKS, Run, features, ours, shortened

WORDS = ["EU", "rejects", "German", "call"]
CONTEXT = "She went to the bank to get money."


def squad(paragraphs: int) -> str:
    asked = {"question": "Where?", "answers": [{"text": "the bank", "answer_start": CONTEXT.index("the bank")}]}
    qas = [[{**asked, "id": f"{number}-{twin}"} for twin in "ab"] for number in range(paragraphs)]
    return json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": rows} for rows in qas]}]})


@pytest.fixture
def data(tmp_path):
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "A cat\tThe cat\t2.5\n" * 9)
    tagged = "\n".join(f"{word} X X {'O' if n else 'B-PER'}" for n, word in enumerate(WORDS))
    (tmp_path / "eng.train").write_text("\n\n".join([tagged] * 9))
    (tmp_path / "squad.json").write_text(squad(9))
    (tmp_path / "short").mkdir()
    return tmp_path


def encoded(kind, path, folder):
    examples = TASK_SPECS[kind].read(path, {})
    return TASK_SPECS[kind].encode(examples, Tokenizer.from_folder(folder), TASK_SPECS[kind].labels(examples), 48)


@pytest.mark.parametrize(
    ("kind", "name", "targets"),
    [
        ("regress", "pairs.tsv", {"labels"}),
        ("tag", "eng.train", {"labels"}),
        ("answer", "squad.json", {"start_positions", "end_positions"}),
    ],
)
def test_the_trainer_sees_the_examples_of_our_recipe(data, folder, kind, name, targets):
    whole = encoded(kind, data / name, folder)
    rows = features(whole)
    assert [token for row in rows for token in row["input_ids"]] == whole.ids.tolist()
    paired = {"token_type_ids"} if kind != "tag" else set()
    assert set(rows[0]) == {"input_ids", "attention_mask"} | paired | targets


def test_an_answer_is_where_the_trainer_is_told(data, folder):
    row = features(encoded("answer", data / "squad.json", folder))[0]
    tokenizer = Tokenizer.from_folder(folder)
    answer = row["input_ids"][row["start_positions"] : row["end_positions"] + 1]
    assert answer == tokenizer.ids_batch(["the bank"])[0]


@pytest.mark.parametrize(("kind", "name"), [("regress", "pairs.tsv"), ("tag", "eng.train"), ("answer", "squad.json")])
def test_short_files_hold_the_first_rows(data, kind, name):
    every = TASK_SPECS[kind].read(data / name, {})
    assert len(TASK_SPECS[kind].read(shortened(data / name, 4, data / "short"), {})) == 4
    assert TASK_SPECS[kind].read(shortened(data / name, None, data / "short"), {}) == every


def test_only_steps_after_the_warm_up_are_timed(data, folder, tmp_path):
    run = Run("STS-B", "clearhead", 0, str(folder), str(data), "cpu", steps=3, warm=2)
    trained = ours(run, TASKS["STS-B"], data / "pairs.tsv", tmp_path / "model")
    per_step = len(encoded("regress", data / "pairs.tsv", folder).ids)
    assert (trained.steps, trained.tokens) == (3, 3 * per_step)


def row(task, system, seed, *, tokens=1000, **figures):
    run = {"task": task, "system": system, "seed": seed}
    return {"run": run, "tokens": tokens, "seconds": 0.5, "figures": figures}


def test_speed_compares_runs_of_one_seed():
    rows = [row("SST-2", "clearhead", seed, tokens=6000 + 3000 * seed) for seed in range(3)]
    rows += [row("SST-2", "transformers", seed, tokens=1000) for seed in range(3)]
    assert speed_table(rows).splitlines()[2:] == ["| SST-2 | 18.0 | 2.0 | 9.0 (6.0–12.0) | 5 |"]


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "yes"), (-0.9, "yes"), (-1.1, "no"), (5.0, "yes")])
def test_quality_is_judged_by_the_pooled_deviation(shift, verdict):
    rows = [row("RTE", "clearhead", seed, dev=60.0 + seed + shift) for seed in range(3)]
    rows += [row("RTE", "transformers", seed, dev=60.0 + seed) for seed in range(3)]
    (line,) = quality_table(rows).splitlines()[2:]
    assert line == f"| RTE | dev | {61 + shift:.2f} ± 1.00 | 61.00 ± 1.00 | {shift:+.2f} | {verdict} |"


def test_tables_leave_out_what_only_one_system_has_done():
    assert len(quality_table([row("RTE", "clearhead", 0, dev=1.0)]).splitlines()) == 2
    assert len(speed_table([row("RTE", "clearhead", 0)]).splitlines()) == 2
