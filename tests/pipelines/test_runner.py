from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead import pipeline
from clearhead.errors import BadInput, WrongTask
from clearhead.pipelines import runner as batches
from clearhead.pipelines.runner import Input, listed, paired, per_sequence, per_token, prepare_pairs, run, through
from clearhead.text.packed import Sequences
from pipelines.peers import LONG, SENTENCES, TAGS, peers

MODEL = peers("BertForTokenClassification", TAGS).ours


def tables(items: list[list[Input]], **options: object) -> list[list[torch.Tensor]]:
    """The tags' logits of every input of every item."""
    flat = [one for item in items for one in item]
    sequences = Sequences.of([one.ids for one in flat], [one.segments for one in flat])
    owners = np.repeat(np.arange(len(items)), [len(item) for item in items])
    rows = run(MODEL.network, through(MODEL.network, "tags"), per_token, sequences, owners=owners, **options)
    parts = iter(rows.split(sequences.lengths.tolist()) if flat else ())
    return [[next(parts) for _ in item] for item in items]


def alone(one: Input) -> torch.Tensor:
    """The logits of one input by itself, in a rectangle."""
    segments = torch.tensor([list(one.segments)]) if one.segments else None
    with torch.no_grad():
        return MODEL.network("tags", torch.tensor([list(one.ids)]), None, segments)[0]


numbers = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.lists(st.integers(5, 60), min_size=n, max_size=n), st.lists(st.just(1), max_size=n))
)
inputs = numbers.map(lambda pair: Input(pair[0], pair[1] and [0] * (len(pair[0]) - len(pair[1])) + pair[1]))


@given(st.lists(st.lists(inputs, max_size=3), max_size=5), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_results_come_back_in_order_and_know_nothing_of_their_neighbours(items, budget):
    counted: list[int] = []
    found = tables(items, batch_tokens=budget, progress=counted.append)
    assert [len(item) for item in found] == [len(item) for item in items]
    for item, results in zip(items, found, strict=True):
        for one, result in zip(item, results, strict=True):
            torch.testing.assert_close(result, alone(one), atol=1e-5, rtol=1e-5)
    assert sum(counted) == sum(bool(item) for item in items)


def test_threads_that_work_side_by_side_give_the_same_and_leave_the_setting_alone():
    items = [[Input([2, *range(5, 5 + n), 3], ())] for n in range(1, 30)]
    expected = tables(items, batch_tokens=32)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = tables(items, batch_tokens=32)
        layered = MODEL.embed(SENTENCES * 3, layers=[0, -1], batch_tokens=16)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one[0], other[0], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(layered, MODEL.embed(SENTENCES * 3, layers=[0, -1]), atol=1e-5)


def test_one_row_for_each_sequence():
    model = peers("BertForSequenceClassification", ("a", "b", "c")).ours
    sequences = Sequences.of([[2, 9, 3], [2, 3]], [(), ()])
    assert run(model.network, through(model.network, "classes"), per_sequence, sequences).shape == (2, 3)


def test_a_network_in_training_answers_without_dropout_and_every_part_stays_in_its_mode():
    items = [[Input([2, 9, 8, 3], ())]]
    before = tables(items)
    MODEL.network.train()
    frozen = MODEL.network.encoder.blocks[0].eval()
    try:
        after = tables(items)
        assert MODEL.network.training
        assert not frozen.training
        MODEL.network.training = False  # a part may be trained alone
        again = tables(items)
        assert MODEL.network.encoder.blocks[1].training
    finally:
        MODEL.network.eval()
    assert torch.equal(before[0][0], after[0][0])
    assert torch.equal(before[0][0], again[0][0])


def test_requests_at_once_change_no_thread_but_their_own_workers():
    items = [[Input([2, *range(5, 5 + n), 3], ())] for n in range(1, 30)]
    expected = tables(items, batch_tokens=32)
    common = torch.get_num_threads()
    torch.set_num_threads(3)
    seen: list[int] = []
    found: list[object] = []

    def serve() -> None:
        for _ in range(5):
            found.append(tables(items, batch_tokens=32))
        seen.append(torch.get_num_threads())

    try:
        batches._pool(3)  # which is when the common number changes for a moment
        servers = [Thread(target=serve) for _ in range(2)]
        for server in servers:
            server.start()
        while any(server.is_alive() for server in servers):
            new = Thread(target=lambda: seen.append(torch.get_num_threads()))
            new.start()
            new.join()
            seen.append(torch.get_num_threads())
        alone = [batches._pool(3).submit(torch.get_num_threads).result() for _ in range(6)]
    finally:
        torch.set_num_threads(common)
    assert set(seen) == {3}
    assert set(alone) == {1}
    assert len(found) == 10
    for results in found:
        for one, other in zip(expected, results, strict=True):
            torch.testing.assert_close(one[0], other[0], atol=1e-5, rtol=1e-5)


def test_an_error_in_one_batch_is_told_and_leaves_no_work_behind():
    items = [[Input([2, 5, 3], ())] for _ in range(20)]
    common = torch.get_num_threads()
    torch.set_num_threads(2)

    def fail(done: int) -> None:
        raise RuntimeError("enough")

    try:
        with pytest.raises(RuntimeError, match="enough"):
            tables(items, batch_tokens=6, progress=fail)
        assert len(tables(items, batch_tokens=6)) == 20
    finally:
        torch.set_num_threads(common)


def test_a_stream_is_read_as_it_is_used(monkeypatch):
    monkeypatch.setattr(batches, "_CHUNK_CHARACTERS", 1000)
    taken = 0

    def stream():
        nonlocal taken
        while True:
            taken += 1
            yield SENTENCES[taken % len(SENTENCES)]

    results = MODEL.tag(stream())
    for _ in range(10):
        next(results)
    assert taken < 20


@pytest.mark.parametrize("swap", [False, True])
def test_of_a_long_pair_the_longer_text_is_read_in_windows(swap):
    pair = (LONG, SENTENCES[0]) if swap else (SENTENCES[0], LONG)
    tokenizer = MODEL.tokenizer
    found = prepare_pairs(tokenizer, [pair], 60)
    ids = [found.sequences.ids[i:j].tolist() for i, j in pairwise(found.sequences.starts)]
    assert len(ids) > 3
    assert max(map(len, ids)) <= 60
    assert found.windows.weight.sum() == len(tokenizer.pieces(LONG))
    short = tokenizer.pieces(SENTENCES[0]).ids
    for one in ids:
        assert one[1:-1][-len(short) :] == short if swap else one[1 : 1 + len(short)] == short
    with pytest.raises(BadInput, match="Both texts of a pair are long"):
        prepare_pairs(tokenizer, [(LONG, LONG)], 60)


def test_the_wrong_model_says_what_it_can_do():
    with pytest.raises(WrongTask, match="cannot classify or compare: it has no 'classes' head; it can tag, embed"):
        MODEL.classify("text")
    for use in (lambda: MODEL.fill("[MASK]"), lambda: MODEL.answer("?", "x"), lambda: MODEL.choose("x", ["y"])):
        with pytest.raises(WrongTask, match="it can tag, embed"):
            use()


@pytest.mark.parametrize("wrong", [None, 5, b"bytes"])
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(BadInput, match="A text must be a string, not "):
        MODEL.tag([wrong])


def test_one_text_is_a_list_of_one():
    assert listed("a text") == ["a text"]
    assert listed(("a", "b")) == ("a", "b")
    assert list(listed(letter for letter in "ab")) == ["a", "b"]


@pytest.mark.parametrize("given", [None, 3, 0.5, b"bytes", {"text": "a"}])
def test_what_holds_no_texts_is_refused_at_once(given):
    message = f"give a text or a list of texts, not {type(given).__name__}"
    with pytest.raises(BadInput, match=message):
        listed(given)
    with pytest.raises(BadInput, match=message):
        paired("a question", given)
    with pytest.raises(BadInput, match=message):
        paired(given, "a text")


def test_pairs():
    assert list(paired("a", "b")) == [("a", "b")]
    assert list(paired("a", ["b", "c"])) == [("a", "b"), ("a", "c")]
    assert list(paired(iter("ab"), "c")) == [("a", "c"), ("b", "c")]
    assert list(paired(["a", "b"], ["c", "d"])) == [("a", "c"), ("b", "d")]


def test_uses_of_many_texts_take_one_whole(model):
    assert [one.text for one in model.index("a mask of the street").documents] == ["a mask of the street"]
    assert model.duplicates("aa") == []
    assert model.cluster("a mask", threshold=0.5)[0].members == (0,)
    assert model.senses("mask", "a mask").occurrences[0].start == 2


def test_a_table_is_not_read_as_the_names_of_its_columns():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for table in (pandas.DataFrame({"text": ["one", "two"]}), pyarrow.table({"text": ["one", "two"]})):
        with pytest.raises(BadInput, match=f"give one column of the {type(table).__name__}, such as table"):
            listed(table)
        assert len(list(listed(table["text"]))) == 2


def test_nor_by_a_pipeline_as_labels_or_as_choices():
    table = pytest.importorskip("pandas").DataFrame({"text": ["one", "two"]})
    inference = peers("BertForSequenceClassification", ("contradiction", "neutral", "entailment")).ours
    with pytest.raises(BadInput, match="give one column of the DataFrame"):
        pipeline("text-classification", inference)(table)
    for labels in (table, {"a": 1}, b"ab", [1, 2]):
        with pytest.raises(BadInput, match=r"give one column|not dict|not bytes|at least one text, not \[1, 2\]"):
            inference.zero_shot("a text", labels)
    chooser = peers("BertForMultipleChoice").ours
    for questions in (table, {"a": 1}, ["a text"], [("a", ["b"], "c")]):
        with pytest.raises(BadInput, match=r"give one column|not dict|A question is a pair \(context, candidates\)"):
            chooser.choose(questions)
