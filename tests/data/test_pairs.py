import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.pretraining import SentencePairs, shorten
from clearhead.data.shards import Shards
from clearhead.errors import BadInput
from clearhead.text import Tokenizer

from .corpora import small_shards

Made = tuple[Shards, Tokenizer, list[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    shards, tokenizer, texts = small_shards(tmp_path_factory.mktemp("corpus"))
    return shards, tokenizer, [spelled(ids) for ids in tokenizer.ids_batch(texts)]


def spelled(ids: list[int]) -> str:
    return "," + ",".join(map(str, ids)) + ","


def pairs_of(source: SentencePairs, tokenizer: Tokenizer, batches: int) -> list[tuple[list[int], list[int], int]]:
    found = []
    for index in range(batches):
        batch = source.batch(index)
        assert batch.segments is not None
        (target,) = batch.targets.values()
        parts = zip(batch.layout.split(batch.ids), batch.layout.split(batch.segments), target.tolist(), strict=True)
        for ids, segments, label in parts:
            end = ids.tolist().index(tokenizer.sep_id)
            assert ids[0] == tokenizer.cls_id
            assert ids[-1] == tokenizer.sep_id
            assert segments.tolist() == [0] * (end + 1) + [1] * (len(ids) - end - 1)
            found.append((ids[1:end].tolist(), ids[end + 1 : -1].tolist(), label))
    return found


def stands_in(part: list[int], documents: list[str]) -> set[int]:
    marked = spelled(part)
    return {d for d, text in enumerate(documents) if marked in text}


def test_some_are_one_text_of_any_length(made: Made) -> None:
    shards, tokenizer, documents = made
    source = SentencePairs(shards, tokenizer, tokens=400, length=40, singles=0.25, validation_share=0)
    sizes, tokens, texts, pairs = [], 0, 0, 0
    for index in range(100):
        batch = source.batch(index)
        assert batch.segments is not None
        labels, tokens = batch.targets["next_sentence"], tokens + batch.tokens
        parts = zip(batch.layout.split(batch.ids), batch.layout.split(batch.segments), labels.tolist(), strict=True)
        for ids, segments, label in parts:
            assert (label == IGNORE_INDEX) == (ids.tolist().count(tokenizer.sep_id) == 1) == (not segments.any())
            if label == IGNORE_INDEX:
                assert ids[0] == tokenizer.cls_id
                assert ids[-1] == tokenizer.sep_id
                assert stands_in(ids[1:-1].tolist(), documents)
                sizes.append(len(ids) - 2)
        texts, pairs = texts + int((labels == IGNORE_INDEX).sum()), pairs + int((labels != IGNORE_INDEX).sum())
    assert abs(texts / (texts + pairs) - 0.25) < 3 * (0.25 * 0.75 / (texts + pairs)) ** 0.5
    assert min(sizes) < 4
    assert max(sizes) > 30
    assert tokens / 100 == pytest.approx(400, rel=0.1)


def test_next_sentences_are_true_or_from_another_document(made: Made) -> None:
    shards, tokenizer, documents = made
    source = SentencePairs(shards, tokenizer, kind="next", tokens=400, length=40, validation_share=0)
    labels = []
    for first, second, label in pairs_of(source, tokenizer, 60):
        assert 0 < len(first) + len(second) <= 40 - 3
        assert (
            stands_in(second, documents) - stands_in(first, documents)
            if label
            else stands_in(first + second, documents)
        )
        labels.append(label)
    assert abs(np.mean(labels) - 0.5) < 3 * 0.5 / len(labels) ** 0.5


def test_half_of_the_pairs_are_swapped(made: Made) -> None:
    shards, tokenizer, documents = made
    source = SentencePairs(shards, tokenizer, kind="order", tokens=400, length=300, validation_share=0)
    labels = []
    for first, second, label in pairs_of(source, tokenizer, 60):
        assert stands_in(second + first if label else first + second, documents)
        assert {first[-1], second[-1]} == {tokenizer.token_to_id(".")}
        labels.append(label)
    assert abs(np.mean(labels) - 0.5) < 3 * 0.5 / len(labels) ** 0.5


def test_every_document_with_two_sentences_is_seen_each_epoch(made: Made) -> None:
    shards, tokenizer, documents = made
    stop = tokenizer.token_to_id(".")
    assert stop is not None
    source = SentencePairs(shards, tokenizer, kind="order", tokens=300, length=300, validation_share=0)
    expected = {d for d, text in enumerate(documents) if text.count(spelled([stop])) > 1}
    whole = int(np.ceil(1 / source.epoch_of(1)))
    seen = {
        d
        for first, second, label in pairs_of(source, tokenizer, whole)
        for d in stands_in(second + first if label else first + second, documents)
    }
    assert seen == expected


def test_a_batch_depends_on_seed_and_number_alone(made: Made) -> None:
    shards, tokenizer, _ = made
    one, two = (SentencePairs(shards, tokenizer, tokens=500, length=50, seed=4) for _ in range(2))
    batches = [one.batch(index) for index in range(15)]
    for index in reversed(range(15)):
        again = two.batch(index)
        assert_close(again.ids, batches[index].ids, rtol=0, atol=0)
        assert_close(again.targets["next_sentence"], batches[index].targets["next_sentence"])
    assert one.epoch_of(15) > 2
    assert len({batch.layout.batch for batch in batches}) == 1
    assert abs(np.mean([batch.tokens for batch in batches]) - 500) < 100


lengths = st.integers(1, 50)


@given(lengths, lengths, st.integers(2, 60))
def test_the_longer_segment_is_cut(first: int, second: int, room: int) -> None:
    (start_a, a), (start_b, b) = shorten(
        (np.array([100]), np.array([first])), (np.array([200]), np.array([second])), room
    )
    assert a[0] + b[0] == min(first + second, room)
    assert (start_a[0] + a[0], start_b[0]) == (100 + first, 200)
    if a[0] < first and b[0] < second:
        assert abs(a[0] - b[0]) <= 1
    elif a[0] < first:
        assert a[0] >= b[0] - 1
    elif b[0] < second:
        assert b[0] >= a[0] - 1


def test_what_gives_no_pairs(made: Made) -> None:
    shards, tokenizer, _ = made
    with pytest.raises(BadInput, match="no pairs of kind 'last'; choose next or order"):
        SentencePairs(shards, tokenizer, kind="last")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="Pairs of 4 tokens have no room beside 3 special ones"):
        SentencePairs(shards, tokenizer, length=4)
    # a false pair needs another document, so that even a small share holds out two
    assert SentencePairs(shards, tokenizer, split="validation", validation_share=0.01).batch(0).tokens
