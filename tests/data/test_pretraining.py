"""Packed text, running text and sentence pairs: nothing is lost, and nothing comes twice."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.corpus import Corpus
from clearhead.data.pretraining import (
    PackedText,
    RunningText,
    SentencePairs,
    _cut_some_in_two,
    document_boundaries,
    shorten,
)
from clearhead.data.shards import Shards, tokenise
from clearhead.errors import BadInput
from clearhead.text import Tokenizer, train_tokenizer

from .corpora import small_shards

# ---- packed text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shards, Tokenizer, list[str]]:
    return small_shards(tmp_path_factory.mktemp("corpus"))


def owner_of(ids: list[int], tokenizer: Tokenizer) -> set[str | None]:
    """Which documents these ids come from: every continuation names one."""
    return {token for i in ids if (token := tokenizer.id_to_token(i) or "").startswith("##")}


def test_every_batch_has_exactly_the_tokens_asked_for(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    for tokens, length in ((64, 16), (100, 33), (37, 37), (5000, 12)):
        source = PackedText(shards, tokenizer, tokens=tokens, length=length, seed=3)
        for index in range(12):
            batch = source.batch(index)
            assert batch.tokens == tokens == sum(batch.layout.lengths)
            assert max(batch.layout.lengths) <= length
            assert min(batch.layout.lengths) >= 1


def test_sequences_are_wrapped_and_hold_one_document(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    source = PackedText(shards, tokenizer, tokens=128, length=16, seed=1)
    specials = {tokenizer.cls_id, tokenizer.sep_id}
    for index in range(source.batches_in(3)):
        sequences = [sequence.tolist() for sequence in source.batch(index).layout.split(source.batch(index).ids)]
        for place, ids in enumerate(sequences):
            if len(ids) > 1:
                assert (ids[0], ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
            else:  # a cut fell right behind the first or before the last special token
                assert place in (0, len(sequences) - 1)
                assert set(ids) <= specials
            assert not specials & set(ids[1:-1])
            assert len(owner_of(ids, tokenizer)) <= 1


def test_an_epoch_holds_every_token_but_those_at_the_cuts(tmp_path: Path) -> None:
    # as many documents as words, so that every document is known by its tokens
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)]
    tokenizer = train_tokenizer(texts=[" ".join(words)] * 3, vocabulary=2000, min_frequency=1)
    texts = [" ".join(words[i : i + 1 + i % 37]) for i in range(0, 560, 7)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    shards = tokenise(Corpus(tmp_path / "a.jsonl"), tokenizer, tmp_path / "shards", shard_tokens=200)
    source = PackedText(shards, tokenizer, tokens=100, length=12, seed=5, validation_share=0)
    whole = source.batches_in(1)
    counts = torch.zeros(tokenizer.vocabulary, dtype=torch.int64)
    for index in range(whole):
        counts += source.batch(index).ids.bincount(minlength=tokenizer.vocabulary)
    counts[[tokenizer.cls_id, tokenizer.sep_id]] = 0
    stored = torch.tensor(np.bincount(np.concatenate(tokenizer.ids_batch(texts)), minlength=tokenizer.vocabulary))
    assert bool((counts <= stored).all())
    # every cut costs two tokens of text, and the epoch's last tokens go into the batch that the next epoch fills up
    assert int((stored - counts).sum()) <= 2 * whole + 100
    assert source.epoch_of(whole) <= 1 < source.epoch_of(whole + 1)


def test_a_batch_depends_on_seed_and_number_alone(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    source = PackedText(shards, tokenizer, tokens=256, length=32, seed=1)
    forward = [source.batch(index).ids for index in range(20)]
    fresh = PackedText(shards, tokenizer, tokens=256, length=32, seed=1)
    for index in reversed(range(20)):
        assert_close(fresh.batch(index).ids, forward[index], rtol=0, atol=0)
    assert not torch.equal(PackedText(shards, tokenizer, tokens=256, length=32, seed=2).batch(0).ids, forward[0])
    assert source.epoch_of(19) > 2, "the test must see several epochs"


def test_validation_documents_are_never_trained_on(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    train, held = (shards.split(name, 0.2) for name in ("train", "validation"))
    assert sorted([*train, *held]) == list(range(40))
    assert len(held) == 8
    assert held.tolist() == Shards(shards.folder).split("validation", 0.2).tolist()
    seen = {}
    for name, documents in (("train", train), ("validation", held)):
        source = PackedText(shards, tokenizer, tokens=100, length=20, split=name, validation_share=0.2)
        ids = [i for index in range(source.batches_in(2)) for i in source.batch(index).ids.tolist()]
        seen[name] = owner_of(ids, tokenizer)
        assert seen[name] <= {f"##{d}" for d in documents}
    assert not seen["train"] & seen["validation"]


def test_other_families_bring_their_own_special_tokens(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(texts=["some text to read"] * 3, kind="bpe", vocabulary=300, min_frequency=1)
    (tmp_path / "a.txt").write_text("some text to read\n" * 9, "utf-8")
    shards = tokenise(Corpus(tmp_path / "a.txt"), tokenizer, tmp_path / "shards")
    batch = PackedText(shards, tokenizer, tokens=24, length=8, validation_share=0).batch(0)
    assert batch.ids[0] == tokenizer.cls_id
    assert tokenizer.decode(batch.layout.split(batch.ids)[0].tolist()) in "some text to read"


def test_what_cannot_be_packed(made: tuple[Shards, Tokenizer, list[str]]) -> None:
    shards, tokenizer, _ = made
    with pytest.raises(BadInput, match="Sequences of 2 tokens have no room beside 2 special ones"):
        PackedText(shards, tokenizer, length=2)
    with pytest.raises(BadInput, match="Batches of 100 tokens cannot hold sequences of 512"):
        PackedText(shards, tokenizer, tokens=100)
    with pytest.raises(BadInput, match="There is no split 'test'; choose train or validation"):
        PackedText(shards, tokenizer, split="test")
    with pytest.raises(BadInput, match="The split 'validation' of 40 documents is empty"):
        PackedText(shards, tokenizer, split="validation", validation_share=0)
    with pytest.raises(BadInput, match="made with another tokenizer"):
        PackedText(shards, train_tokenizer(texts=["w1 w2"], vocabulary=40, min_frequency=1))


def test_one_piece_in_ten_is_cut_in_two() -> None:
    starts, lengths = _cut_some_in_two(np.arange(0, 30_000, 30), np.full(1000, 30), 0.1, seed=0)
    assert 1060 < len(starts) < 1140
    assert (lengths > 0).all()
    assert np.array_equal(starts, np.cumsum(lengths) - lengths)  # nothing is lost, nothing comes twice
    assert lengths.sum() == 30_000


# ---- running text


@pytest.fixture(scope="module")
def made_running(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shards, Tokenizer, list[str]]:
    return small_shards(tmp_path_factory.mktemp("corpus"))


def row_of(source: RunningText, batches: int) -> list[int]:
    return torch.cat([source.batch(index).ids for index in range(batches)]).tolist()


@pytest.mark.parametrize(("tokens", "length"), [(64, 16), (100, 33), (7, 7), (3000, 128)])
def test_batches_are_rectangles_and_know_what_comes_next(made_running, tokens, length):
    shards, tokenizer, _ = made_running
    source = RunningText(shards, tokenizer, tokens=tokens, length=length, seed=3)
    for index in range(9):
        batch, following = source.batch(index), source.batch(index + 1)
        assert set(batch.layout.lengths) == {length}
        assert batch.tokens == tokens // length * length
        row = torch.cat([batch.ids, following.ids[:1]])
        assert torch.equal(batch.targets["next"], row[1:])
        assert torch.equal(source.batch(index).ids, batch.ids)


def test_an_epoch_is_every_document_once(made_running):
    shards, tokenizer, texts = made_running
    source = RunningText(shards, tokenizer, tokens=50, length=10, seed=1, validation_share=0.0)
    epoch = source.batches_in(3) * 50
    row = np.array(row_of(source, source.batches_in(3) + 1))
    each = epoch // 3 + 1
    wanted = sorted([tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.ids_batch(texts))
    size = sum(map(len, wanted))
    assert abs(each - size) < 50
    for number in range(2):
        part = row[number * size : (number + 1) * size].tolist()
        ends = [i + 1 for i, token in enumerate(part) if token == tokenizer.sep_id]
        found = [part[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        assert sorted(found) == wanted
        assert found != wanted  # shuffled
    assert source.epoch_of(source.batches_in(1)) == pytest.approx(1, abs=50 / size)


def test_the_order_of_epochs_differs_and_depends_on_the_seed(made_running):
    shards, tokenizer, _ = made_running
    one, other = (RunningText(shards, tokenizer, tokens=60, length=20, seed=seed) for seed in (0, 1))
    assert row_of(one, 3) != row_of(other, 3)
    assert row_of(one, 3) == row_of(RunningText(shards, tokenizer, tokens=60, length=20, seed=0), 3)


def test_a_tokenizer_that_puts_nothing_round_a_text_still_ends_it(tmp_path: Path):
    texts = ["one two three four", "five six seven", "eight nine"] * 3
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(texts), "utf-8")
    tokenizer = train_tokenizer(texts=texts, kind="gpt2", vocabulary=300, min_frequency=1)
    shards = tokenise(Corpus(path), tokenizer, tmp_path / "shards")
    assert document_boundaries(tokenizer) == ((), (tokenizer.sep_id,))
    source = RunningText(shards, tokenizer, tokens=8, length=4, validation_share=0.0)
    written = tokenizer.decode(row_of(source, source.batches_in(1) + 1), special=True)
    assert set(written.split("<|endoftext|>")[:9]) == set(texts)


def test_what_cannot_be_cut_is_refused(made_running):
    shards, tokenizer, _ = made_running
    with pytest.raises(BadInput, match="Batches of 8 tokens cannot hold sequences of 9"):
        RunningText(shards, tokenizer, tokens=8, length=9)
    with pytest.raises(BadInput, match="Sequences of 0 tokens are empty"):
        RunningText(shards, tokenizer, tokens=8, length=0)


# ---- sentence pairs

Made = tuple[Shards, Tokenizer, list[str]]


@pytest.fixture(scope="module")
def made_pairs(tmp_path_factory: pytest.TempPathFactory) -> Made:
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


def test_some_are_one_text_of_any_length(made_pairs: Made) -> None:
    shards, tokenizer, documents = made_pairs
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


def test_next_sentences_are_true_or_from_another_document(made_pairs: Made) -> None:
    shards, tokenizer, documents = made_pairs
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


def test_half_of_the_pairs_are_swapped(made_pairs: Made) -> None:
    shards, tokenizer, documents = made_pairs
    source = SentencePairs(shards, tokenizer, kind="order", tokens=400, length=300, validation_share=0)
    labels = []
    for first, second, label in pairs_of(source, tokenizer, 60):
        assert stands_in(second + first if label else first + second, documents)
        assert {first[-1], second[-1]} == {tokenizer.token_to_id(".")}
        labels.append(label)
    assert abs(np.mean(labels) - 0.5) < 3 * 0.5 / len(labels) ** 0.5


def test_every_document_with_two_sentences_is_seen_each_epoch(made_pairs: Made) -> None:
    shards, tokenizer, documents = made_pairs
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


def test_a_batch_depends_on_seed_and_number_alone_of_pairs(made_pairs: Made) -> None:
    shards, tokenizer, _ = made_pairs
    one, two = (SentencePairs(shards, tokenizer, tokens=500, length=50, seed=4) for _ in range(2))
    batches = [one.batch(index) for index in range(15)]
    for index in reversed(range(15)):
        again = two.batch(index)
        assert_close(again.ids, batches[index].ids, rtol=0, atol=0)
        assert_close(again.targets["next_sentence"], batches[index].targets["next_sentence"])
    assert one.epoch_of(15) > 2
    assert len({batch.layout.batch for batch in batches}) == 1
    assert abs(np.mean([batch.tokens for batch in batches]) - 500) < 100


def test_duplicates_are_made_once_and_taken_in_turn(made_pairs: Made) -> None:
    shards, tokenizer, _ = made_pairs
    source = SentencePairs(shards, tokenizer, tokens=400, length=40, duplicates=2, short=0.3, validation_share=0)
    size = round(source.batch(0).layout.batch / source.epoch_of(1))  # pairs of an epoch
    found = [(tuple(a), tuple(b), label) for a, b, label in pairs_of(source, tokenizer, 4 * size)]
    epochs = [sorted(found[start : start + size]) for start in range(0, 4 * size, size)]
    assert epochs[0] == epochs[2] != epochs[1] == epochs[3]
    assert found[:size] != found[2 * size : 3 * size]  # in another order
    anew = SentencePairs(shards, tokenizer, tokens=400, length=40, short=0.3, validation_share=0)
    third = [(tuple(a), tuple(b), label) for a, b, label in pairs_of(anew, tokenizer, 4 * size)]
    assert sorted(third[:size]) != sorted(third[2 * size : 3 * size])


def test_some_pairs_are_short_and_true_ones_still_meet(made_pairs: Made) -> None:
    shards, tokenizer, documents = made_pairs
    whole, short = (
        pairs_of(
            SentencePairs(shards, tokenizer, tokens=400, length=40, short=share, validation_share=0), tokenizer, 60
        )
        for share in (0.0, 0.5)
    )
    sizes = [[len(first) + len(second) for first, second, _ in pairs] for pairs in (whole, short)]
    assert np.mean(sizes[1]) < 0.85 * np.mean(sizes[0])
    assert min(sizes[1]) == 2
    assert all(first and second for first, second, _ in short)
    assert all(stands_in(first + second, documents) for first, second, label in short if not label)


@pytest.mark.parametrize("option", [{"short": 1.0}, {"singles": -0.1}])
def test_shares_that_are_none(made_pairs: Made, option: dict[str, float]) -> None:
    shards, tokenizer, _ = made_pairs
    with pytest.raises(BadInput, match=r"(short|singles) is a share in \[0, 1\), got"):
        SentencePairs(shards, tokenizer, **option)  # type: ignore[arg-type]


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


def test_what_gives_no_pairs(made_pairs: Made) -> None:
    shards, tokenizer, _ = made_pairs
    with pytest.raises(BadInput, match="no pairs of kind 'last'; choose next or order"):
        SentencePairs(shards, tokenizer, kind="last")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="Pairs of 4 tokens have no room beside 3 special ones"):
        SentencePairs(shards, tokenizer, length=4)
    # a false pair needs another document, so that even a small share holds out two
    assert SentencePairs(shards, tokenizer, split="validation", validation_share=0.01).batch(0).tokens
