"""What holds for every drop-in pipeline: how texts come in and results go out, and what is refused."""

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
    assert pipe.model is model


def test_a_model_is_loaded_as_asked(model):
    folder = peers("BertForSequenceClassification", ("no", "yes"), seed=1).folder
    half = ch.pipeline("text-classification", folder, torch_dtype=torch.bfloat16, device="cpu")
    assert next(half.model.encoder.parameters()).dtype == torch.bfloat16
    for same in ("bfloat16", "torch.bfloat16"):
        again = ch.pipeline("text-classification", folder, torch_dtype=same)
        assert next(again.model.encoder.parameters()).dtype == torch.bfloat16
    with pytest.raises(BadInput, match="torch_dtype='int8' is not known; choose float32, float16 or bfloat16"):
        ch.pipeline("text-classification", folder, torch_dtype="int8")
    other = ch.train_tokenizer(texts=["be alert"], vocabulary=40, min_frequency=1)
    assert ch.pipeline("text-classification", model, tokenizer=other).model.tokenizer is other
    assert model.tokenizer is not other


def test_what_is_refused(model, classify):
    with pytest.raises(NotFound, match=r"there is no pipeline for 'text-clasification'; clearhead has .*, fill-mask, "):
        ch.pipeline("text-clasification", model)
    with pytest.raises(BadInput, match="topk is no option of this pipeline; it has batch_size, top_k, "):
        ch.pipeline("text-classification", model, topk=3)
    with pytest.raises(BadInput, match="temperature is no option"):
        classify("text", temperature=1)
    with pytest.raises(BadInput, match="Inputs are texts, not int"):
        classify(3)
    with pytest.raises(BadInput, match="not 3"):
        classify([3])
    with pytest.raises(BadInput, match="batch_size=-1 must be 1 or more"):
        classify(iter(SENTENCES), batch_size=-1)


def test_every_task_has_a_name_of_v4():
    assert {"question-answering", "fill-mask", "sentiment-analysis", "ner", "feature-extraction"} <= set(TASKS)
