"""What holds for every drop-in pipeline: how texts come in and results go out, and what is refused."""

import copy
import pickle

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

import clearhead as ch
from clearhead.errors import BadInput, NotFound
from clearhead.pipelines.compat.pipeline import TASKS
from pipelines.alike import alike
from pipelines.peers import SENTENCES, peers
from pipelines.writers import translator


@pytest.fixture(scope="module")
def model() -> ch.Model:
    return peers("BertForSequenceClassification", ("no", "yes"), seed=1).ours


@pytest.fixture(scope="module")
def classify(model):
    return ch.pipeline("text-classification", model)


class Numbered(Dataset):
    def __len__(self):
        return len(SENTENCES)

    def __getitem__(self, i):
        return SENTENCES[i % len(SENTENCES)]


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(SENTENCES)


@pytest.mark.parametrize(
    "column",
    [tuple(SENTENCES), pandas.Series(SENTENCES, index=list("vwxyz")), np.array(SENTENCES), pyarrow.array(SENTENCES)],
    ids=["tuple", "pandas", "numpy", "arrow"],
)
def test_columns_give_lists(classify, model, column):
    assert alike(classify(column), classify(SENTENCES))
    assert [one.label for one in model.classify(column)] == [one["label"] for one in classify(SENTENCES)]


def test_arrow_columns_pair_up(model):
    column = pyarrow.chunked_array([SENTENCES])
    found = model.compare(column, "a mask")
    assert [one.label for one in found] == [one.label for one in model.compare(SENTENCES, "a mask")]


@pytest.mark.parametrize(
    "make", [lambda: iter(SENTENCES), Numbered, Streamed], ids=["iterator", "numbered", "streamed"]
)
@pytest.mark.parametrize("size", [None, 1, 2])
def test_streams_give_iterators_in_order(classify, make, size):
    found = classify(make(), batch_size=size)
    assert not isinstance(found, list)
    assert alike(list(found), classify(SENTENCES))


def test_a_stream_is_read_only_so_far_ahead(classify):
    asked = 0

    def texts():
        nonlocal asked
        while True:
            asked += 1
            yield SENTENCES[asked % len(SENTENCES)]

    found = classify(texts(), batch_size=4)
    for _ in range(6):
        next(found)
    assert asked == 8


def test_nothing_gives_nothing(classify):
    assert classify([]) == []
    assert list(classify(iter([]))) == []


def test_options_without_effect_are_taken(model, classify):
    pipe = ch.pipeline(
        "text-classification", model, device=-1, framework="pt", truncation=True, padding=True, num_workers=2
    )
    assert pipe(SENTENCES, max_length=8, batch_size=3) == classify(SENTENCES)
    assert pipe.model.network is model.network
    assert pipe.model.skills is model.skills


def test_a_model_is_loaded_as_asked(model):
    folder = peers("BertForSequenceClassification", ("no", "yes"), seed=1).folder
    half = ch.pipeline("text-classification", folder, torch_dtype=torch.bfloat16, device="cpu")
    assert next(half.model.encoder.parameters()).dtype == torch.bfloat16
    for same in ("bfloat16", "torch.bfloat16"):
        again = ch.pipeline("text-classification", folder, torch_dtype=same)
        assert next(again.model.encoder.parameters()).dtype == torch.bfloat16
    with pytest.raises(BadInput, match="dtype='int8' is not known; choose float32, float16 or bfloat16"):
        ch.pipeline("text-classification", folder, torch_dtype="int8")
    other = ch.train_tokenizer(texts=["be alert"], vocabulary=40, min_frequency=1)
    assert ch.pipeline("text-classification", model, tokenizer=other).model.tokenizer is other
    assert model.tokenizer is not other


@pytest.mark.parametrize("task", ["text-classification", "sentiment-analysis"])
def test_what_v4_has_beside_the_call(task):
    pair = peers("BertForSequenceClassification", ("no", "yes"), seed=1)
    ours, theirs = ch.pipeline(task, str(pair.folder)), pair.pipeline(task)
    assert (ours.task, ours.framework, ours.device) == (theirs.task, "pt", theirs.device)
    assert ours.dtype == ours.torch_dtype == theirs.model.dtype
    for name in ("id2label", "label2id", "num_labels", "hidden_size", "vocab_size", "model_type"):
        assert getattr(ours.model.config, name) == getattr(theirs.model.config, name), name
    assert ours.tokenizer is ours.model.tokenizer
    assert ours.tokenizer.mask_token == theirs.tokenizer.mask_token
    with pytest.raises(AttributeError, match="hiden_size"):
        _ = ours.model.config.hiden_size
    again = pickle.loads(pickle.dumps(ours))
    assert again("be alert") == ours("be alert")
    assert again.model.config.id2label == {0: "no", 1: "yes"}
    assert copy.deepcopy(ours).model.config.num_labels == 2


def test_names_of_labels_and_of_tasks():
    nameless = peers("BertForSequenceClassification").ours
    assert ch.pipeline("text-classification", nameless).model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    assert ch.pipeline("fill-mask", peers("BertForMaskedLM").ours).model.config.id2label == {}
    german = translator()
    assert ch.pipeline("translation_en_to_de", german).task == "translation_en_to_de"
    config = ch.pipeline("summarization", german).model.config
    assert (config.model_type, config.num_labels) == (german.family, 0)


def test_where_and_how_precisely(model):
    folder = peers("BertForSequenceClassification", ("no", "yes"), seed=1).folder
    half = {"dtype": "bfloat16"}, {"torch_dtype": torch.bfloat16}, {"model_kwargs": {"torch_dtype": "torch.bfloat16"}}
    for given in (*half, {"dtype": "bfloat16", "torch_dtype": torch.bfloat16}):
        assert ch.pipeline("text-classification", folder, **given).dtype == torch.bfloat16
    assert ch.pipeline("text-classification", folder, dtype="auto").dtype == torch.float32
    for place in ("cpu", -1, {"": "cpu"}, torch.device("cpu")):
        assert ch.pipeline("text-classification", folder, device_map=place).device == torch.device("cpu")
    assert ch.pipeline("text-classification", folder, device_map="auto").device.type in ("cpu", "cuda")
    so_anyway = {"low_cpu_mem_usage": True, "use_safetensors": True, "attn_implementation": "sdpa"}
    assert ch.pipeline("text-classification", folder, revision="main", model_kwargs=so_anyway)("be alert")
    assert ch.pipeline("text-classification", model, dtype="float32").model.network is model.network


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"revision": "v2"}, "revision='v2' is for a model of the hub, and .* is here; leave it out"),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, "dtype was given as float16 and as bfloat16; give it once"),
        ({"device": -1, "device_map": "auto"}, "device and device_map are one option; give one of the two"),
        ({"device_map": {"a": 0, "b": 1}}, "device_map names 2 devices, and clearhead computes on one; name one"),
        ({"model_kwargs": {"load_in_8bit": True}}, "load_in_8bit is no option of model_kwargs; there are dtype, "),
        ({"model_kwargs": {"torch_dtyp": "float16"}}, r"torch_dtyp is no option .*; did you mean torch_dtype\?"),
        ({"dtype": "float8_e4m3fn"}, "dtype='float8_e4m3fn' is not known"),
    ],
)
def test_what_of_v4_cannot_be_done_is_one_sentence(given, message):
    with pytest.raises(BadInput, match=message):
        ch.pipeline(
            "text-classification", peers("BertForSequenceClassification", ("no", "yes"), seed=1).folder, **given
        )


def test_a_loaded_model_is_what_it_is(model):
    with pytest.raises(BadInput, match="dtype is for a folder or a name of the hub, or load it so"):
        ch.pipeline("text-classification", model, dtype="bfloat16")
    with pytest.raises(BadInput, match="revision is for a folder or a name of the hub"):
        ch.pipeline("text-classification", model, revision="main")


def test_a_revision_of_the_hub(monkeypatch, model):
    asked = []
    monkeypatch.setattr("clearhead.pipelines.compat.pipeline.load", lambda name, **_: asked.append(name) or model)
    ch.pipeline("text-classification", "owner/name", revision="v2")
    ch.pipeline("text-classification", "owner/name", model_kwargs={"revision": "v3"})
    assert asked == ["owner/name@v2", "owner/name@v3"]
    with pytest.raises(BadInput, match="owner/name@v1 names its revision already; leave revision='v2' out"):
        ch.pipeline("text-classification", "owner/name@v1", revision="v2")


def test_what_is_refused(model, classify):
    with pytest.raises(NotFound, match=r"for 'text-clasification'; did you mean text-classification\?"):
        ch.pipeline("text-clasification", model)
    with pytest.raises(BadInput, match=r"topk is no option of this pipeline; did you mean top_k\?"):
        ch.pipeline("text-classification", model, topk=3)
    with pytest.raises(BadInput, match="temperature is no option of this pipeline; there are batch_size, top_k, "):
        classify("text", temperature=1)
    with pytest.raises(BadInput, match="Inputs are texts, not int"):
        classify(3)
    with pytest.raises(BadInput, match="not 3"):
        classify([3])
    with pytest.raises(BadInput, match="batch_size=-1 must be 1 or more"):
        classify(iter(SENTENCES), batch_size=-1)


def test_every_task_has_a_name_of_v4():
    assert {"question-answering", "fill-mask", "sentiment-analysis", "ner", "feature-extraction"} <= set(TASKS)
