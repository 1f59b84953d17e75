"""One worker for every engine: what it takes, what it gives, and what it refuses at once."""

import inspect
import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import clearhead as ch
from bulk.rows import texts
from clearhead.bulk.uses import USES
from clearhead.decoding.config import GenerationOptions
from clearhead.errors import BadInput, NotFound, UnknownOption, WrongTask
from pipelines.writers import gpt_folder, translator

PAIR = {"premise": ["the street is wide", "the animal sat"], "hypothesis": ["it is wide", "it was tired"]}


def test_results_are_those_of_the_model(stand_in):
    model, given = ch.load(stand_in), [one or "" for one in texts(40)]
    found = ch.Worker("embed", model=str(stand_in))({"text": given})
    assert np.array_equal(found["vector"], model.embed(given))
    found = ch.Worker("classify", model=str(stand_in), skill="spam")({"text": given, "id": range(40)})
    said = model.classify(given, skill="spam")
    assert list(found) == ["text", "id", "label", "score", "scores", "error"]
    assert found["scores"] == [one.scores for one in said]
    assert found["error"] == [""] * 40
    found = ch.Worker("tag", model=str(stand_in), words=False, keep=[])({"text": given})
    assert list(found) == ["entities", "error"]
    assert found["entities"] == [one.to_dict()["entities"] for one in model.tag(given)]


@pytest.mark.parametrize("column", [np.array, pa.array, list, tuple], ids=["numpy", "arrow", "list", "tuple"])
def test_columns_of_every_library(stand_in, column):
    given = column(["the street is wide", "the animal sat"])
    found = ch.Worker("classify", model=str(stand_in))({"text": given})
    assert found["text"] is given
    assert found["label"] == [one.label for one in ch.load(stand_in).classify(["the street is wide", "the animal sat"])]


def test_a_bad_row_has_an_error_and_the_others_do_not_know(stand_in):
    worker = ch.Worker("embed", model=str(stand_in))
    given = ["the street", None, 5, float("nan"), "the animal", b"bytes"]
    found = worker({"text": given})
    assert found["error"] == [
        "",
        "text is missing",
        "text is 5, which is no text",
        "text is nan, which is no text",
        "",
        "text is b'bytes', which is no text",
    ]
    assert np.isnan(found["vector"]).all(axis=1).tolist() == [False, True, True, True, False, True]
    assert np.array_equal(found["vector"][[0, 4]], worker({"text": ["the street", "the animal"]})["vector"])
    assert worker({"text": [None, None]})["vector"].shape == worker({"text": ["a", "b"]})["vector"].shape
    assert worker({"text": []})["vector"].shape == (0, 32)


def test_a_row_that_the_model_refuses_is_found_among_the_others(folder):
    worker = ch.Worker("fill", model=str(folder), top_k=1)
    found = worker({"text": ["the [MASK]", "no mask", "a [MASK] is wide"]})
    assert [one is None for one in found["predictions"]] == [False, True, False]
    assert found["error"][1] == "There is no mask in 'no mask'; write [MASK] where a word is wanted."
    long = "the street is wide " * 40
    pairs = ch.Worker("follows", model=str(folder))({"text": ["a", long, "b"], "pair": ["b", long, "c"]})
    assert pairs["error"][0] == pairs["error"][2] == ""
    assert "Both texts of a pair are long" in pairs["error"][1]
    assert pairs["probability"][1] is None


def test_every_use_gives_its_columns(stand_in, folder):
    translator().save(german := stand_in.parent / "german", overwrite=True)
    several = {"query": ["river", "street"], "passages": [["the bank", "it sat"], ["it is wide"]]}
    one_text = {"text": ["the street is wide", "the animal sat on the bank"]}
    calls = {
        "embed": (stand_in, one_text, {}),
        "classify": (stand_in, one_text, {}),
        "zero-shot": (stand_in, one_text, {"labels": ["wide", "tired"]}),
        "tag": (stand_in, one_text, {}),
        "answer": (stand_in, {"question": ["Who sat?"] * 2, "context": ["the animal sat", "it sat"]}, {}),
        "fill": (folder, {"text": ["the [MASK] is wide", "[MASK]"]}, {}),
        "compare": (stand_in, PAIR, {}),
        "follows": (folder, PAIR, {}),
        "choose": (folder, {"context": ["it", "a"], "choices": [["sat", "is"], ["river", "bank"]]}, {}),
        "rerank": (stand_in, several, {}),
        "summarise": (stand_in, one_text, {"sentences": 1}),
        "translate": (german, one_text, {"num_beams": 1}),
        "generate": (gpt_folder(), one_text, {"max_new_tokens": 4}),
        "tokenize": (stand_in, one_text, {}),
    }
    assert set(calls) == set(USES)
    for use, (model, batch, options) in calls.items():
        worker = ch.Worker(use, model=str(model), keep=[], **options)
        found = worker(batch)
        assert list(found) == [*USES[use].columns, "error"] == worker.columns, use
        assert found["error"] == ["", ""], use
        assert all(one is not None for name in USES[use].columns for one in found[name]) or use == "answer"


def test_options_are_those_of_the_model():
    for name, use in USES.items():
        if use.of_tokenizer:  # which no method of a model is
            continue
        known = set(inspect.signature(getattr(ch.Model, name.replace("-", "_"))).parameters)
        if "options" in known:
            known |= set(GenerationOptions.__annotations__)
        assert set(use.options) - {"words"} <= known, name


def test_what_is_wrong_is_refused_at_once():
    with pytest.raises(BadInput, match=r"'clasify' is no use in bulk; did you mean classify\?"):
        ch.Worker("clasify")
    with pytest.raises(UnknownOption, match=r"topk is no option of Worker\('classify'\); did you mean top_k?"):
        ch.Worker("classify", topk=3)
    with pytest.raises(BadInput, match="classify: top_k = '3' is not of type int"):
        ch.Worker("classify", top_k="3")
    with pytest.raises(BadInput, match="zero-shot needs labels; give labels=…"):
        ch.Worker("zero-shot")
    with pytest.raises(BadInput, match="embed: precision = 'int8' is not 'float32' or 'binary'"):
        ch.Worker("embed", precision="int8")
    with pytest.raises(BadInput, match="threads=0 compute nothing"):
        ch.Worker("embed", threads=0)


def test_what_is_wrong_for_all_rows_is_no_error_of_each(stand_in, tmp_path):
    for model, use, error in ((stand_in, "generate", WrongTask), (tmp_path / "none", "embed", NotFound)):
        with pytest.raises(error):
            ch.Worker(use, model=str(model))({"text": ["a"]})
    with pytest.raises(BadInput, match="the batch has no column 'body'; it has 'text'"):
        ch.Worker("embed", model=str(stand_in), text="body")({"text": ["a"]})
    with pytest.raises(BadInput, match="give a dictionary of columns, not list"):
        ch.Worker("embed", model=str(stand_in))(["a"])
    with pytest.raises(BadInput, match="the batch has no column with a usual name for embed; it has 'a', 'b'"):
        ch.Worker("embed", model=str(stand_in))({"a": ["x"], "b": ["y"]})


def test_no_column_is_lost_to_a_result(stand_in):
    batch = {"text": ["the street"], "score": [5]}
    with pytest.raises(BadInput, match="the column 'score' would be lost to one of the results"):
        ch.Worker("classify", model=str(stand_in))(batch)
    found = ch.Worker("classify", model=str(stand_in), result_prefix="found_")(batch)
    assert list(found) == ["text", "score", "found_label", "found_score", "found_scores", "found_error"]
    assert "score" in ch.Worker("classify", model=str(stand_in), keep=["text"])(batch)


def test_a_worker_is_small_to_pickle_and_loads_where_it_is_called(stand_in):
    worker = ch.Worker("classify", model=str(stand_in), top_k=1)
    before = worker({"text": ["the street is wide"]})
    pickled = pickle.dumps(worker)
    assert len(pickled) < 1000
    script = "import pickle, sys, json; worker = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
    script += "light = 'torch' not in sys.modules\n"
    script += "found = worker({'text': ['the street is wide']}); import torch\n"
    script += "print(json.dumps([light, torch.get_num_threads(), found]))"
    ran = subprocess.run([sys.executable, "-c", script, pickled.hex()], stdout=subprocess.PIPE, check=True)
    assert json.loads(ran.stdout) == [True, 1, before]
