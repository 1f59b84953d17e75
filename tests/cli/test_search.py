"""search, cluster, duplicates, summarise and senses, as a user types them."""

import json

import pytest

from conftest import SENTENCES
from pipelines.peers import peers


def rows(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*SENTENCES, SENTENCES[0]]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("method", ["vectors", "bm25", "hybrid"])
def test_search(run, folder, file, method):
    code, out, _ = run("search", "the bank", "--in", file, "--method", method, "--model", folder, "--json")
    assert code == 0
    (found,) = rows(out)
    assert set(found) == {"query", "results"}
    text = file.read_text()
    for hit in found["results"]:
        assert set(hit) == {"text", "source", "start", "end", "score"}
        assert text[hit["start"] : hit["end"]] == hit["text"]


def test_search_more_files_saves_and_loads_an_index(run, folder, file, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "The river is wide.", "id": "wide"}\n')
    saved = tmp_path / "index"
    code, out, _ = run("search", "river", "--in", file, other, "--index", saved, "-m", folder, "--top-k", 2)
    assert code == 0
    assert len(out.splitlines()) == 2
    assert run("search", "river", "--index", saved, "-m", folder, "--top-k", 2)[1] == out
    (wide, *_) = rows(run("search", "-", "--index", saved, "--method", "bm25", "--json", stdin="wide river\n")[1])
    assert wide["results"][0]["source"] == "wide"
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).folder
    code, out, _ = run("search", "river", "--index", saved, "-m", folder, "--rerank", cross, "--json")
    assert code == 0
    scores = [hit["score"] for hit in rows(out)[0]["results"]]
    assert scores == sorted(scores, reverse=True)


def test_a_cut_off_and_nothing_found(run, folder, file):
    call = ["search", "the bank of the river", "--in", file, "-m", folder]
    (found,) = rows(run(*call, "--json")[1])
    least = found["results"][0]["score"]
    (fewer,) = rows(run(*call, "--min-score", least, "--json")[1])
    assert fewer["results"] == found["results"][:1]
    assert run(*call, "--min-score", 1)[:2] == (0, "(nothing found)\n")


def test_cluster_and_duplicates(run, folder, file):
    code, out, _ = run("cluster", "--in", file, "--threshold", 0.9999, "--model", folder, "--json")
    assert code == 0
    assert rows(out)[0] == {"text": SENTENCES[0], "size": 2, "centre": 0, "members": [0, 4]}
    assert run("cluster", "--in", file, "--clusters", 2, "-m", folder)[1].count("\n") == 2
    code, out, _ = run("duplicates", "--in", file, "--threshold", 0.9999, "--model", folder, "--json")
    assert code == 0
    assert rows(out) == [{"first": 0, "second": 4, "score": 1.0, "exact": True, "texts": [SENTENCES[0]] * 2}]
    assert run("duplicates", "--in", file, "--threshold", 0.9999, "-m", folder)[1].startswith("copy   0 The animal")
    assert run("duplicates", "--in", file, "--threshold", 0.9999, "--drop", "-m", folder)[1].splitlines() == SENTENCES


def test_summarise(run, folder, file):
    code, out, _ = run("summarise", "--in", file, "--sentences", 2, "--model", folder)
    assert code == 0
    assert len(out.splitlines()) == 2
    text = file.read_text()
    (found,) = rows(run("summarise", "--sentences", 2, "-m", folder, "--json", stdin=text)[1])
    assert set(found) == {"source", "summary", "sentences"}
    assert [text[one["start"] : one["end"]] for one in found["sentences"]] == out.splitlines()
    assert run("summarise", "--in", file, file, "-m", folder)[1].count(f"{file}:") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "bank"], "nothing to search; name files or folders with --in"),
        (["search", "bank", "--in", "./nothing.txt"], "There is no file nothing.txt"),
        (["search", "bank", "--index", "./nothing"], "nothing holds no index"),
        (["cluster", "a", "b"], "give --threshold or --clusters, one of the two"),
        (["summarise", "--in", "./nothing.txt"], "There is no file nothing.txt"),
        (["senses", "zebra", "--in", "FILE"], "'zebra' is in none of the 5 texts"),
        (["senses", "bank", "--in", "FILE", "--layers", "x"], "is not a list of numbers"),
        (["embed", "text", "--precision", "int8"], "ranges are taken over two vectors or more"),
        (["embed", "text", "--dimensions", "33"], "dimensions=33 cannot be kept of 32"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, file, arguments, message):
    given = [file if one == "FILE" else one for one in arguments]
    code, out, err = run(*given, "--model", folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
