"""With --server, a verb says what it says without, and loads neither a model nor torch."""

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import clearhead as ch
from clearhead.data.documents import read_documents
from conftest import SENTENCES
from stub_service import Service, running

TEXT = SENTENCES[0]
VERBS = {
    "ask": ["ask", "Who was tired?", "--context", "{file}", "--top-k", "2", "--threshold", "inf"],
    "ask of texts": ["ask", "Who was tired?", *SENTENCES[:2]],
    "fill": ["fill", "She went to the [MASK].", "--candidates", "bank,mask"],
    "classify": ["classify", "--in", "{file}"],
    "classify by a skill": ["classify", TEXT, "--skill", "spam", "--top-k", "2"],
    "classify by labels": ["classify", TEXT, "--labels", "animals,money"],
    "tag": ["tag", "--in", "{file}"],
    "tag words": ["tag", TEXT, "--no-words"],
    "tag parts of speech": ["tag", TEXT, "--skill", "part-of-speech"],
    "compare": ["compare", TEXT, SENTENCES[1]],
    "compare a table": ["compare", "--in", "{pairs}", "--skill", "similarity"],
    "follows": ["follows", TEXT, SENTENCES[1]],
    "choose": ["choose", TEXT, SENTENCES[1], SENTENCES[2]],
    "embed": ["embed", "--in", "{file}"],
    "embed layers": ["embed", TEXT, "--layers=0,-1", "--combine", "concat", "--dimensions", "8"],
    "embed bits": ["embed", TEXT, "--precision", "binary"],
    "search": ["search", "bank", "--in", "{file}", "--top-k", "2"],
    "search words": ["search", "bank", "--in", "{file}", "--method", "bm25"],
    "rerank": ["rerank", "bank", "--in", "{file}", "--top-k", "2"],
    "summarise": ["summarise", "--in", "{file}", "--sentences", "1"],
    "summarise in other words": ["summarise", TEXT, "--abstractive", "--max-new-tokens", "4", "--min-new-tokens", "1"],
    "translate": ["translate", "I have to go.", "--to", "fr", "--num-beams", "2"],
    "translate in two ways": ["translate", "I have to go.", "--to", "de", "--num-return-sequences", "2"],
    "generate": ["generate", "The old", "--max-new-tokens", "5", "--seed", "3", "--temperature", "0.9"],
    "generate many": ["generate", "The old", "I have", "--num-beams", "2", "--max-new-tokens", "5"],
}


@pytest.fixture(scope="module")
def service(writing_box, model) -> Iterator[Service]:
    names = {"built-in": "encoder", "translator": "translator", "gpt": "gpt"}
    models = {name: ch.load(writing_box / folder) for name, folder in names.items()} | {"small": model}
    with running(Service(models)) as found:
        yield found


@pytest.fixture
def called(run, tmp_path, writers):
    """Run a verb on a file with the sentences, or on one with pairs of them."""
    file, pairs = tmp_path / "texts.txt", tmp_path / "pairs.tsv"
    file.write_text("\n".join(SENTENCES), encoding="utf-8")
    pairs.write_text("".join(f"{one}\t{TEXT}\n" for one in SENTENCES), encoding="utf-8")
    places = {"file": file, "pairs": pairs, "folder": tmp_path, "out": tmp_path / "out.npy"}
    return lambda *words: run(*(str(word).format(**places) for word in words))


@pytest.mark.parametrize("how", [[], ["--json"]])
@pytest.mark.parametrize("verb", VERBS)
def test_the_output_is_the_same(called, service, verb, how):
    code, out, err = called(*VERBS[verb], *how, "--server", service.url)
    assert code == 0, err
    assert called(*VERBS[verb], *how)[1] == out
    assert out


def test_vectors_are_written_to_a_file(called, service, tmp_path):
    found = []
    for server in ([], ["--server", service.url]):
        code, _, err = called("embed", "--in", "{file}", "--out", "{out}", "--overwrite", *server)
        assert code == 0, err
        found.append(np.load(tmp_path / "out.npy"))
    assert found[0].dtype == found[1].dtype == np.float32
    assert np.array_equal(*found)


def test_the_address_may_be_in_the_environment(called, service, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_SERVER", service.url)
    service.asked.clear()
    assert called("fill", "a [MASK]", "--model", "small")[0] == 0
    assert service.asked[0][2]["model"] == "small"


def test_a_skill_is_one_of_the_model(called, service):
    service.asked.clear()
    called("classify", "a", "--model", "built-in", "--skill", "spam", "--server", service.url)
    called("classify", "a", "--skill", "spam", "--server", service.url)
    called("ask", "Who?", "a", "--skill", "questions", "--server", service.url)
    assert [body["model"] for _, _, body in service.asked] == ["built-in:spam", "built-in:spam", "built-in:questions"]


def test_an_index_is_one_of_the_service(called, service, tmp_path):
    assert called("search", "bank", "--in", "{file}", "--index", tmp_path / "notes")[0] == 0
    expected = [called(*words, "--index", tmp_path / "notes")[1] for words in (["search", "bank"], ["ask", "Who?"])]
    documents = read_documents([tmp_path / "texts.txt"])
    service.indexes["notes"] = service.models["built-in"].index(documents)
    server = ["--index", "notes", "--server", service.url]
    assert [called(*words, *server)[1] for words in (["search", "bank"], ["ask", "Who?"])] == expected


def test_what_an_encoder_reads_is_not_said_again(called, service):
    """A model with an encoder writes anew, so that the prompt is no part of the text."""
    prompt = ["generate", "I have to go.", "--max-new-tokens", "4", "--server", service.url]
    alone = service.models["translator"].generate("I have to go.", max_new_tokens=4).text
    assert called(*prompt, "--model", "translator")[1] == f"{alone}\n"
    assert called(*prompt, "--num-beams", "2")[1].startswith("I have to go.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fill", "a [MASK]", "--int8"], "--int8 is for a model that is loaded here"),
        (["classify", "a", "--labels", "b,c", "--int8"], "--int8 is for a model that is loaded here"),
        (["search", "bank", "--in", "{file}", "--int8"], "--int8 needs a model that is loaded here"),
        (["search", "bank", "--in", "{file}", "--index", "{out}"], "--index together with --in needs a model that is"),
        (["search", "bank", "--in", "{file}", "--rerank-with", "a"], "--rerank-with needs a model that is loaded here"),
        (["ask", "Who?", "--context", "{folder}"], "a service does not search "),
        (["embed", "a", "--precision", "int8"], "int8 is cut by the ranges of all vectors"),
        (["classify", "a", "--skill", "spa"], "there is no skill 'spa'; there are "),
        (["reply"], "No such command"),
    ],
)
def test_what_needs_a_model_here_is_refused_in_one_sentence(called, service, words, told):
    code, out, err = called(*words, "--server", service.url)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1 or told == "No such command"


def test_an_address_that_is_none_is_refused(called):
    code, out, err = called("tag", "Ada", "--server", "localhost")
    assert (code, out) == (2, "")
    assert err == "error: 'localhost' is no address of a service; write one such as http://127.0.0.1:8643\n"


def test_verbs_that_only_work_here_have_no_such_option(called):
    for words in (["cluster", "a", "--threshold", "0.5"], ["look", "attention", "a"]):
        assert "No such option" in called(*words, "--server", "http://127.0.0.1:1")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_torch_is_not_imported(called, service, tmp_path, verb):
    called("fill", "a [MASK]")  # which writes the files
    places = {"file": tmp_path / "texts.txt", "pairs": tmp_path / "pairs.tsv"}
    words = [word.format(**places) for word in VERBS[verb]]
    script = f"""
import sys
from clearhead.cli import main
sys.argv = ["clearhead", *{words!r}, "--server", {service.url!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code
assert "torch" not in sys.modules
"""
    environment = {**os.environ, "CLEARHEAD_QUIET": "1"}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
