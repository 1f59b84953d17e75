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
    named = run("search", "river", "--index", saved, "-m", folder, "--rerank-with", cross, "--json")
    assert (named[0], named[2]) == (0, "")
    scores = [hit["score"] for hit in rows(named[1])[0]["results"]]
    assert scores == sorted(scores, reverse=True)
    for old in (["--rerank", cross], [f"--rerank={cross}"]):
        code, out, err = run("search", "river", "--index", saved, "-m", folder, *old, "--json")
        assert (code, out) == named[:2]
        assert err == "warning: --rerank MODEL is now called --rerank-with; the old name goes with the next release\n"


def test_search_reranks_where_the_model_can_and_when_it_is_told(run, built_in, file):
    call = ["search", "the bank of the river", "--in", file, "--json"]

    def scores(*more):
        code, out, err = run(*call, *more)
        assert (code, err) == (0, "")
        return [hit["score"] for hit in rows(out)[0]["results"]]

    assert scores() == scores("--rerank") == scores("--method", "hybrid")
    assert scores() != scores("--no-rerank")
    for method in ("vectors", "bm25"):
        assert scores("--method", method) == scores("--method", method, "--no-rerank")
        assert all(0 < score < 1 for score in scores("--method", method, "--rerank"))
    assert scores("--no-rerank") != scores("--no-rerank", "--skill", "similarity")
    # what follows the switch is a file, unless it is a model
    assert scores("--rerank", file) != scores()


def test_an_index_of_another_skill_says_which_to_name(run, built_in, file, tmp_path):
    saved = tmp_path / "index"
    assert run("search", "bank", "--in", file, "--index", saved, "--skill", "similarity")[0] == 0
    code, out, err = run("search", "bank", "--index", saved)
    assert (code, out) == (2, "")
    assert err.endswith("or name the old skill: skill='similarity', --skill similarity\n")
    assert run("search", "bank", "--index", saved, "--skill", "similarity")[0] == 0
    # answers are found with the skill for questions, passages with another
    built = tmp_path / "built"
    assert run("search", "bank", "--in", file, "--index", built)[0] == 0
    assert run("ask", "Who was tired?", "--index", built, "--skill", "questions")[0] == 0


def test_rerank(run, built_in, file, tmp_path):
    code, out, _ = run("rerank", "the bank", "--in", file, "--json")
    assert code == 0
    (found,) = rows(out)
    assert found["query"] == "the bank"
    assert {(one["index"], one["line"], one["text"]) for one in found["results"]} == {
        (place, place + 1, text) for place, text in enumerate([*SENTENCES, SENTENCES[0]])
    }
    assert [one["score"] for one in found["results"]] == sorted(
        (one["score"] for one in found["results"]), reverse=True
    )
    code, out, _ = run("rerank", "the bank", *SENTENCES, "--top-k", 2)
    assert (code, len(out.splitlines())) == (0, 2)
    assert {line.split("  ", 1)[1] for line in out.splitlines()} <= set(SENTENCES)
    other = tmp_path / "other.txt"
    other.write_text("The river is wide.\n")
    (found,) = rows(run("rerank", "the bank", "--in", file, other, "--document", "--json")[1])
    assert {one["source"] for one in found["results"]} == {str(file), str(other)}
    assert all(set(one) == {"source", "index", "score"} for one in found["results"])
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).folder
    (found,) = rows(run("rerank", "the bank", "-", "-m", cross, "--json", stdin="a bank\na mask\n")[1])
    assert len(found["results"]) == 2


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
        (["search", "bank", "--in", "FILE", "--rerank"], "this model cannot rerank: it has neither a skill"),
        (["search", "bank", "--in", "FILE", "--method", "bm25", "--rerank"], "this model cannot rerank"),
        (["search", "bank", "--in", "FILE", "--method", "bm25", "--skill", "x"], "--skill x is for vectors, and bm25"),
        (
            ["search", "bank", "--in", "FILE", "--method", "bm25", "--int8"],
            "--int8 is for vectors, and bm25 makes none",
        ),
        (["search", "bank", "--in", "FILE", "--skill", "x"], "there is no skill 'x'; there are none"),
        (["search", "bank", "--in", "FILE", "--no-rerank", "--rerank-with", "MODEL"], "nothing to do; give one of"),
        (["rerank", "bank", "a bank"], "this model cannot rerank: it has neither a skill"),
        (["rerank", " ", "a bank"], "the text is empty"),
        (["rerank", "bank", "a bank", "--top-k", "0"], "top_k=0 passages cannot be given"),
        (["cluster", "a", "b"], "give --threshold or --clusters, one of the two"),
        (["summarise", "--in", "./nothing.txt"], "There is no file nothing.txt"),
        (["senses", "zebra", "--in", "FILE"], "'zebra' is in none of the 5 texts"),
        (["senses", "bank", "--in", "FILE", "--layers", "x"], "is not a list of numbers"),
        (["embed", "text", "--precision", "int8"], "ranges are taken over two vectors or more"),
        (["embed", "text", "--dimensions", "33"], "dimensions=33 cannot be kept of 32"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, folder, file, arguments, message):
    given = [{"FILE": file, "MODEL": folder}.get(one, one) for one in arguments]
    code, out, err = run(*given, "--model", folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
