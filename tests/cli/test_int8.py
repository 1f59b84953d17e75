"""`--int8`, where many texts are read: measured on the user's own texts, refused in one sentence."""

import json
from inspect import unwrap

import pytest

from clearhead.nn.quantisation import available
from clearhead.pipelines.model import Model
from pipelines.peers import SENTENCES, TAGS, peers

pytestmark = pytest.mark.skipif(not available(), reason="this processor has no VNNI")

CLASSES = ("contradiction", "neutral", "entailment")
VERBS = {
    "embed": (["--in", "{lines}"], ("BertForMaskedLM",), "vectors of 2"),
    "search": (["river", "--in", "{lines}"], ("BertForMaskedLM",), "vectors of 2"),
    "cluster": (["--in", "{lines}", "--threshold", "0.5"], ("BertForSequenceClassification", CLASSES), "vectors of 2"),
    "duplicates": (["--in", "{lines}", "--drop"], ("BertForMaskedLM",), "vectors of 2"),
    "classify": (["--in", "{lines}"], ("BertForSequenceClassification", CLASSES), "labels of 2"),
    "tag": (["--in", "{lines}"], ("BertForTokenClassification", TAGS), "tags of 2"),
    "fill": (["the [MASK] is", "a [MASK]"], ("BertForMaskedLM",), "words for masks of 2"),
}


@pytest.fixture
def allow(monkeypatch):
    """Say how much int8 may change; random weights are moved more than trained ones."""
    return lambda loss: monkeypatch.setitem(unwrap(Model.quantise).__kwdefaults__, "loss", loss)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two texts are enough to be measured."""
    monkeypatch.setattr("clearhead.cli.options.INT8_SAMPLE", 2)


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(SENTENCES[:4]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_int8_gives_the_same_kind_of_answer_or_refuses(run, allow, lines, verb):
    arguments, peer, measured = VERBS[verb]
    given = [verb, *(one.format(lines=lines) for one in arguments), "--model", peers(*peer).folder, "--json"]
    plain = [json.loads(line) for line in run(*given)[1].splitlines()]
    allow(1.0)
    code, out, _ = run(*given, "--int8")
    assert code == 0
    assert [list(json.loads(line)) for line in out.splitlines()] == [list(row) for row in plain]
    allow(-1.0)
    code, out, err = run(*given, "--int8")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: int8 changes the {measured} samples by ")
    assert err.count("\n") == 1


def test_labels_of_ones_own_are_measured_as_pairs(run, allow, lines):
    given = ["classify", "--in", lines, "--labels", "money,animals"]
    given += ["--model", peers("BertForSequenceClassification", CLASSES).folder]
    allow(1.0)
    assert run(*given, "--int8")[0] == 0
    allow(-1.0)
    assert "labels of 2 samples" in run(*given, "--int8")[2]


def test_a_long_file_is_measured_by_its_beginning(run, allow, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.cli.options.INT8_SAMPLE", 200)
    file = tmp_path / "long.txt"
    file.write_text("a river\n" * 250, encoding="utf-8")
    folder = peers("BertForMaskedLM").folder
    allow(1.0)
    assert run("embed", "--in", file, "--int8", "-m", folder)[1].count("\n") == 250
    allow(-1.0)
    assert "vectors of 200 samples" in run("embed", "--in", file, "--int8", "-m", folder)[2]


def test_each_use_of_a_model_with_skills(run, allow, built_in, lines):
    allow(1.0)
    by_vectors = ["classify", "--labels", "money,animals", "--skill", "search"]
    for verb in (["classify"], by_vectors, ["tag"], ["embed"], ["embed", "--layers=-2"], ["search", "river"]):
        assert run(*verb, "--in", lines, "--int8")[0] == 0, verb
    assert run("fill", "a [MASK]", "--int8")[0] == 0


def test_words_alone_need_no_int8(run, lines):
    code, _, err = run("search", "river", "--in", lines, "--method", "bm25", "--int8")
    assert code == 2
    assert "bm25 makes none" in err


def test_few_texts_are_read_as_they_are(run, allow, lines, monkeypatch):
    monkeypatch.setattr("clearhead.cli.options.INT8_SAMPLE", 5)
    given = ["tag", "--in", lines, "--model", peers("BertForTokenClassification", TAGS).folder]
    allow(-1.0)
    code, out, err = run(*given, "--int8")
    assert (code, out) == (0, run(*given)[1])
    assert "note: so few texts (4) are read sooner than int8 is measured on them; --int8 is left out" in err


def test_long_texts_are_not_all_read_to_measure(run, allow, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.cli.options.INT8_SAMPLE", 99)
    monkeypatch.setattr("clearhead.cli.options._INT8_CHARACTERS", 10)
    (tmp_path / "lines.txt").write_text("\n".join(SENTENCES[:4]) + "\n", encoding="utf-8")
    allow(-1.0)
    given = ["tag", "--in", tmp_path / "lines.txt", "--model", peers("BertForTokenClassification", TAGS).folder]
    assert "the tags of 1 samples" in run(*given, "--int8")[2]
