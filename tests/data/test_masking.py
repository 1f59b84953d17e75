"""Masking and permutations: shares, whole words, spans, ranks."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.data.masking import (
    MaskedBatches,
    Masking,
    PermutedBatches,
    Vocabulary,
    choose_spans,
    choose_words,
    mask,
    permute,
    span_lengths,
)
from clearhead.data.pretraining import PackedText
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadConfig
from clearhead.text import train_tokenizer
from clearhead.training.step import split_batch

from .corpora import small_shards, word_tokenizer

# ---- masking

TOKENIZER = word_tokenizer()
VOCABULARY = Vocabulary.of(TOKENIZER)
WORDS = [i for i in range(TOKENIZER.vocabulary) if not VOCABULARY.special[i] and not VOCABULARY.continues[i]]
PIECES = [i for i in range(TOKENIZER.vocabulary) if VOCABULARY.continues[i]]
VARIANTS = [Masking(), Masking(whole_words=True), Masking(spans=True), Masking(ngrams=3)]


def batch_of(sequences: int = 30, length: int = 40, seed: int = 0) -> Batch:
    """Sequences of words of one to four pieces."""
    draw = np.random.default_rng(seed)
    made = []
    for _ in range(sequences):
        ids = [TOKENIZER.cls_id]
        while len(ids) < length - 5:
            ids += [int(draw.choice(WORDS)), *draw.choice(PIECES, draw.choice([0, 0, 0, 1, 2, 3])).tolist()]
        made.append([*ids, TOKENIZER.sep_id])
    return Batch.of(made)


class Same:
    """A source of one and the same batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def batch(self, index: int) -> Batch:
        return self._batch

    def batches_in(self, epochs: float) -> int:
        return int(epochs)

    def epoch_of(self, index: int) -> float:
        return index


def words_of(batch: Batch) -> np.ndarray:
    """The number of the word each token belongs to; special tokens have their own."""
    ids = batch.ids.numpy()
    return np.cumsum(~VOCABULARY.continues[ids])


def test_the_vocabulary_of_each_family() -> None:
    assert [TOKENIZER.id_to_token(i) for i in np.flatnonzero(VOCABULARY.special)] == list(TOKENIZER.special.values())
    assert [TOKENIZER.token_to_id(f"##{i}") for i in range(40)] == PIECES
    for kind in ("bpe", "unigram"):
        tokenizer = train_tokenizer(texts=["Hello there, hello."] * 3, kind=kind, vocabulary=300, min_frequency=1)
        found = Vocabulary.of(tokenizer)
        ids = tokenizer.ids_batch(["hello there, hello"])[0]
        starts = [tokenizer.id_to_token(i) for i in ids[1:] if not found.continues[i]]
        assert [token[:1] for token in starts if token] == [starts[0][:1], ",", starts[0][:1]]  # type: ignore[index]
        assert found.special.sum() == 5


@pytest.mark.parametrize("masking", VARIANTS)
@pytest.mark.parametrize("rate", [0.15, 0.4, 0.9])
def test_exactly_the_stated_number_is_chosen_and_nothing_special(masking: Masking, rate: float) -> None:
    masking = replace(masking, rate=rate)
    batch = batch_of()
    ordinary = ~VOCABULARY.special[batch.ids.numpy()]
    for index in range(50):
        masked = mask(batch, VOCABULARY, masking, rng(Stream.MASKING, 0, index))
        where, labels = masked.targets["where"], masked.targets["labels"]
        assert len(where) == round(rate * ordinary.sum())
        assert bool((where.diff() > 0).all())
        assert bool(ordinary[where.numpy()].all())
        assert_close(labels, batch.ids[where])
        untouched = torch.ones(batch.tokens, dtype=torch.bool)
        untouched[where] = False
        assert_close(masked.ids[untouched], batch.ids[untouched])


def test_counts_are_rounded_to_a_multiple() -> None:
    assert [Masking(multiple=8).count(n) for n in (0, 3, 10, 100, 1000)] == [0, 3, 8, 16, 152]
    assert [Masking().count(n) for n in (0, 1, 10, 1000)] == [0, 1, 2, 150]
    batch = mask(batch_of(), VOCABULARY, Masking(multiple=32), rng(Stream.MASKING, 0))
    assert len(batch.targets["where"]) % 32 == 0


@pytest.mark.parametrize("masking", VARIANTS)
def test_masks_random_tokens_and_kept_ones_have_their_shares(masking: Masking) -> None:
    source = MaskedBatches(Same(batch_of()), VOCABULARY, masking)
    became, was = [], []
    for index in range(400):
        masked = source.batch(index)
        became.append(masked.ids[masked.targets["where"]])
        was.append(masked.targets["labels"])
    new, old = torch.cat(became), torch.cat(was)
    n = len(new)
    drawn_from = TOKENIZER.vocabulary - 5
    shares = {0.8: new == TOKENIZER.mask_id, 0.1 + 0.1 / drawn_from: new == old}
    # the fate of a span is one draw for all its tokens, so that their shares vary more
    draws = n / 6 if masking.spans else n
    for share, found in shares.items():
        assert abs(found.double().mean() - share) < 4 * (share * (1 - share) / draws) ** 0.5
    random = new[(new != old) & (new != TOKENIZER.mask_id)]
    assert not VOCABULARY.special[random.numpy()].any()
    counts = random.bincount(minlength=TOKENIZER.vocabulary)[5:].double()
    expected = len(random) / drawn_from
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < drawn_from + 4 * (2 * drawn_from) ** 0.5


@pytest.mark.parametrize("masking", VARIANTS)
def test_all_positions_are_equally_likely(masking: Masking) -> None:
    batch = Batch.of([[TOKENIZER.cls_id, *WORDS[:n], TOKENIZER.sep_id] for n in (9, 4, 11, 1, 11, 7)])
    source = MaskedBatches(Same(batch), VOCABULARY, masking)
    draws = 3000
    times = torch.zeros(batch.tokens, dtype=torch.float64)
    for index in range(draws):
        times[source.batch(index).targets["where"]] += 1
    share = times[torch.from_numpy(~VOCABULARY.special[batch.ids.numpy()])] / draws
    expected = Masking().count(len(share)) / len(share)
    assert float((share - expected).abs().max()) < 4 * (expected * (1 - expected) / draws) ** 0.5


@pytest.mark.parametrize("choose", [choose_words, choose_spans])
def test_long_words_are_as_likely_as_short_ones(choose: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    sizes = np.random.default_rng(0).integers(1, 5, 4000)
    count = round(0.15 * sizes.sum())
    owner = np.repeat(np.arange(len(sizes)), sizes)
    draws = 100
    times = np.zeros(len(owner))
    for index in range(draws):
        times[choose(sizes, count, rng(Stream.MASKING, 6, index))[0]] += 1
    for size in range(1, 5):
        here = sizes[owner] == size
        # spans make neighbours rise and fall together, so a word is not an independent draw
        draws_here = draws * here.sum() / size / (6 if choose is choose_spans else 1)
        assert abs(times[here].mean() / draws - 0.15) < 4 * (0.15 * 0.85 / draws_here) ** 0.5


def test_whole_words_are_whole() -> None:
    batch = batch_of()
    words = words_of(batch)
    for index in range(50):
        where = (
            mask(batch, VOCABULARY, Masking(whole_words=True), rng(Stream.MASKING, 1, index)).targets["where"].numpy()
        )
        assert np.isin(words, words[where]).sum() == len(where)


def test_a_word_that_does_not_fit_is_passed_over() -> None:
    for index in range(30):
        chosen, _ = choose_words(np.array([4, 4, 1, 4]), 5, rng(Stream.MASKING, 2, index))
        assert chosen.tolist() in ([0, 1, 2, 3, 8], [4, 5, 6, 7, 8], [8, 9, 10, 11, 12])
        assert len(choose_words(np.array([2, 2, 2]), 3, rng(Stream.MASKING, 2, index))[0]) == 2


def test_words_end_with_their_sequence() -> None:
    batch = Batch.of([[TOKENIZER.cls_id, WORDS[0], PIECES[0]], [PIECES[1], PIECES[2], TOKENIZER.sep_id]])
    for index in range(20):
        where = (
            mask(batch, VOCABULARY, Masking(rate=0.5, whole_words=True), rng(Stream.MASKING, 3, index))
            .targets["where"]
            .tolist()
        )
        assert where in ([1, 2], [3, 4])


def test_span_lengths_are_those_of_spanbert() -> None:
    lengths = span_lengths(400_000, rng(Stream.MASKING, 4))[:-1]
    chances = 0.2 * 0.8 ** np.arange(10)
    chances /= chances.sum()
    counts = np.bincount(lengths, minlength=11)[1:]
    assert len(counts) == 10
    spread = np.sqrt(chances * (1 - chances) / len(lengths))
    assert np.all(np.abs(counts / len(lengths) - chances) < 4 * spread)
    assert abs(lengths.mean() - 3.8) < 0.02


def test_spans_are_runs_of_whole_words_of_one_fate() -> None:
    sizes = np.random.default_rng(0).integers(1, 4, 2000)
    owner = np.repeat(np.arange(2000), sizes)
    found = []
    for index in range(60):
        pieces, groups = choose_spans(sizes, 600, rng(Stream.MASKING, 5, index))
        assert len(pieces) == len(set(pieces.tolist())) == 600
        cut = 0
        for group in np.unique(groups):
            words, counts = np.unique(owner[pieces[groups == group]], return_counts=True)
            ring = np.diff(words) % 2000
            assert (ring != 1).sum() <= 1  # one jump, where a span goes over the end of the ring
            cut += int((counts != sizes[words]).sum())
            found.append(len(words))
        assert cut <= 1
    assert abs(np.mean(found) - 3.8) < 0.1
    assert max(found) == 10


@pytest.mark.parametrize("masking", VARIANTS)
def test_a_masked_batch_depends_on_seed_and_number_alone(masking: Masking) -> None:
    one, two = (MaskedBatches(Same(batch_of()), VOCABULARY, masking, seed=7) for _ in range(2))
    batches = [one.batch(index) for index in range(6)]
    for index in reversed(range(6)):
        assert_close(two.batch(index).ids, batches[index].ids, rtol=0, atol=0)
        assert_close(two.batch(index).targets, batches[index].targets, rtol=0, atol=0)
    assert not torch.equal(batches[0].ids, batches[1].ids)
    assert not torch.equal(MaskedBatches(Same(batch_of()), VOCABULARY, masking, seed=8).batch(0).ids, batches[0].ids)
    assert (one.batches_in(3), one.epoch_of(2)) == (3, 2)


class Shuffled(Same):
    """A source whose epochs are the same sequences, in an order of their own, in two batches."""

    def batch(self, index: int) -> Batch:
        rows = np.split(self._batch.ids.numpy(), np.cumsum(self._batch.layout.lengths)[:-1])
        mixed = np.random.default_rng(index // 2).permutation(len(rows))
        half = len(rows) // 2
        return Batch.of([rows[i].tolist() for i in mixed[index % 2 * half :][:half]])

    def epoch_of(self, index: int) -> float:
        return index / 2


def masks_of(source: MaskedBatches, text: Shuffled, index: int) -> dict[bytes, bytes]:
    """What each sequence of a batch was, and what it became."""
    true, masked = text.batch(index), source.batch(index)
    cuts = np.cumsum(true.layout.lengths)[:-1]
    both = zip(np.split(true.ids.numpy(), cuts), np.split(masked.ids.numpy(), cuts), strict=True)
    return {one.tobytes(): other.tobytes() for one, other in both}


def test_duplicates_come_again_with_the_masks_they_had() -> None:
    text = Shuffled(batch_of(sequences=20))
    source = MaskedBatches(text, VOCABULARY, Masking(duplicates=3), seed=1)
    epochs = [masks_of(source, text, 2 * epoch) | masks_of(source, text, 2 * epoch + 1) for epoch in range(6)]
    assert len(epochs[0]) == 20
    assert epochs[:3] == epochs[3:]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert sum(epochs[one][text] == epochs[other][text] for text in epochs[one]) <= 2
    again = MaskedBatches(text, VOCABULARY, Masking(duplicates=3), seed=2)
    assert masks_of(again, text, 0) != masks_of(source, text, 0)


def test_a_sequence_has_no_more_masks_than_the_most() -> None:
    batch = batch_of(sequences=40, length=40)
    masked = mask(batch, VOCABULARY, Masking(rate=0.5, most=7), rng(Stream.MASKING, 0))
    ends = batch.layout.offsets.numpy()
    assert set(np.histogram(masked.targets["where"].numpy(), ends)[0]) == {7}
    few = mask(batch, VOCABULARY, Masking(most=7), rng(Stream.MASKING, 0))
    expected = [round(0.15 * (length - 2)) for length in batch.layout.lengths]
    assert np.histogram(few.targets["where"].numpy(), ends)[0].tolist() == expected
    assert torch.equal(batch.ids[few.targets["where"]], few.targets["labels"])


def test_n_grams_are_short_more_often_and_each_token_has_its_fate() -> None:
    lengths = span_lengths(60_000, rng(Stream.MASKING, 4), 1 / np.arange(1, 4))
    shares = np.bincount(lengths, minlength=4)[1:] / len(lengths)
    assert np.abs(shares - np.array([6, 3, 2]) / 11).max() < 0.01  # section 3.1: 1/n, of n up to 3
    batch = batch_of(sequences=200)
    masked = mask(batch, VOCABULARY, Masking(ngrams=3), rng(Stream.MASKING, 0))
    where = masked.targets["where"].numpy()
    neighbours = where[:-1][np.diff(where) == 1]
    hidden = masked.ids.numpy() == TOKENIZER.mask_id
    assert (hidden[neighbours] != hidden[neighbours + 1]).mean() > 0.2  # independent: 2 · 0.8 · 0.2


@pytest.mark.parametrize("masking", VARIANTS)
def test_batches_with_nothing_to_mask(masking: Masking) -> None:
    empty = mask(Batch.of([[TOKENIZER.cls_id, TOKENIZER.sep_id]]), VOCABULARY, masking, rng(Stream.MASKING, 0))
    assert len(empty.targets["where"]) == len(empty.targets["labels"]) == 0


def test_the_original_batch_and_its_targets_stay() -> None:
    batch = batch_of()
    batch.targets["next_sentence"] = torch.zeros(30, dtype=torch.int64)
    before = batch.ids.clone()
    masked = mask(batch, VOCABULARY, Masking(), rng(Stream.MASKING, 0))
    assert_close(batch.ids, before)
    assert set(masked.targets) == {"next_sentence", "where", "labels"}
    assert set(batch.targets) == {"next_sentence"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "The masking rate is 0.0"),
        ({"mask_share": 0.9, "random_share": 0.2}, "0.9 masks and 0.2 random"),
        ({"whole_words": True, "spans": True}, "choose one of the three"),
        ({"ngrams": 2, "spans": True}, "choose one of the three"),
        ({"most": 0}, "masking.most is 0; choose 1 or more"),
        ({"duplicates": 2, "multiple": 64}, "no multiple of 64 is met; set masking.multiple=1"),
        ({"multiple": 0}, "multiple of 0"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        Masking(**wrong)  # type: ignore[arg-type]


# ---- permutations

SPECIAL = np.arange(40) < 5


def asked(lengths, seed=0, share=1 / 6):
    draw = np.random.default_rng(seed)
    texts = [[*draw.integers(5, 40, n).tolist(), 4, 3] for n in lengths]
    return permute(Batch.of(texts), SPECIAL, share, rng(Stream.PERMUTATION, seed))


def test_ranks_are_an_order_of_the_asked_words():
    batch = asked([12, 30, 1, 0, 7])
    text = batch.source
    assert batch.layout.lengths == (2, 5, 0, 0, 1)
    for ids, rank, places, words in zip(
        text.layout.split(text.ids),
        text.layout.split(text.targets["rank"]),
        batch.layout.split(batch.targets["place"]),
        batch.layout.split(batch.ids),
        strict=True,
    ):
        assert sorted(rank[places].tolist()) == list(range(1, len(places) + 1))
        assert rank.count_nonzero() == len(places)
        assert torch.equal(ids[places], words)
        assert (words >= 5).all()


def test_all_orders_are_equally_likely():
    """Of four words two are asked for, in 12 orders."""
    count = 12_000
    found = Counter(tuple(asked([4], seed, share=0.5).source.targets["rank"].tolist()) for seed in range(count))
    assert len(found) == 12
    chi = sum((seen - count / 12) ** 2 / (count / 12) for seen in found.values())
    assert chi < 31.3  # what chance exceeds once in a thousand with 11 degrees of freedom


def test_batches_are_functions_of_their_number_and_can_be_cut_in_two(tmp_path):
    shards, tokenizer, _ = small_shards(tmp_path)
    source = PermutedBatches(PackedText(shards, tokenizer, tokens=96, length=24), tokenizer, seed=2)
    first, again, other = source.batch(3), source.batch(3), source.batch(4)
    assert torch.equal(first.source.targets["rank"], again.source.targets["rank"])
    assert not torch.equal(first.source.targets["rank"], other.source.targets["rank"])
    parts = split_batch(first)
    assert torch.equal(torch.cat([part.ids for part in parts]), first.ids)
    assert torch.equal(torch.cat([part.source.targets["rank"] for part in parts]), first.source.targets["rank"])
    assert torch.equal(torch.cat([part.targets["place"] for part in parts]), first.targets["place"])


def test_the_last_token_is_in_a_segment_of_its_own(tmp_path):
    texts = ["one two three four five six seven"] * 9
    tokenizer = train_tokenizer(texts=texts, kind="xlnet", vocabulary=60, min_frequency=1)

    class Plain:
        def batch(self, index):
            return Batch.of([tokenizer.encode(text).ids for text in texts])

    text = PermutedBatches(Plain(), tokenizer).batch(0).source
    assert torch.equal(text.segments == 2, text.ids == tokenizer.cls_id)
    assert (text.segments == 2).sum() == len(texts)
    with pytest.raises(BadConfig, match="The share to guess is 0"):
        PermutedBatches(Plain(), tokenizer, share=0)
