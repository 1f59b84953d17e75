"""The keys that docs/cli.md promises to programs."""

import json
import re
from pathlib import Path

import pytest

from pipelines.peers import LONG, SENTENCES, TAGS, peers
from pipelines.writers import gpt_folder, translator

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
KEYS = {
    verb: keys.split(", ")
    for verb, keys in re.findall(r"^\| `(\w+)` \| ([a-z_, ]+) \|$", PAGE.split("Keys of an object")[1], re.MULTILINE)
}


@pytest.fixture
def calls(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(LONG, encoding="utf-8")
    masked, labels = peers("BertForMaskedLM").folder, peers("BertForSequenceClassification", ("no", "yes")).folder
    translator().save(german := tmp_path / "german")
    return {
        "ask": ("Who lived?", "--context", file, "-m", peers("BertForQuestionAnswering").folder),
        "fill": ("Wear a [MASK]!", "-m", masked),
        "classify": (SENTENCES[0], "-m", labels),
        "tag": (SENTENCES[2], "-m", peers("BertForTokenClassification", TAGS).folder),
        "compare": (*SENTENCES[:2], "-m", labels),
        "follows": (*SENTENCES[:2], "-m", peers("BertForNextSentencePrediction").folder),
        "choose": (SENTENCES[0], "a mask", "the river", "-m", peers("BertForMultipleChoice").folder),
        "embed": (SENTENCES[0], "-m", masked),
        "index": (file, "--store", tmp_path / "store", "-m", masked),
        "search": ("river", "--in", file, "-m", masked),
        "rerank": ("river", *SENTENCES, "-m", labels),
        "summarise": ("--in", file, "-m", masked),
        "translate": (SENTENCES[0], "-m", german),
        "generate": (SENTENCES[0], "--max-new-tokens", 4, "-m", gpt_folder()),
    }


def test_every_verb_gives_the_keys_of_the_page(run, calls):
    assert set(calls) == set(KEYS)
    for verb, arguments in calls.items():
        code, out, _ = run(verb, *arguments, "--json")
        assert code == 0
        (line,) = out.splitlines()
        assert list(json.loads(line)) == KEYS[verb], verb


def test_keys_within(run, calls):
    found = {verb: json.loads(run(verb, *calls[verb], "--json")[1]) for verb in ("ask", "fill", "tag")}
    assert list(found["ask"]["candidates"][0]) == ["text", "start", "end", "score", "logit"]
    assert list(found["fill"]["predictions"][0]) == ["token", "score", "sequence", "mask", "id"]
    assert set(found["tag"]["words"][0]) == {"text", "label", "start", "end", "score"}
