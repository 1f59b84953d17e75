"""Words and the words around them."""

import numpy as np
import pytest
import torch

import clearhead as ch
from clearhead.data.corpus import Corpus
from clearhead.data.shards import tokenise
from clearhead.data.word2vec import WordWindows, count_words, keep_probability, neighbours
from clearhead.errors import BadConfig

TEXTS = ["a b c d e", "f g", "a a a b", "h"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    (folder / "text.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    tokenizer = ch.train_tokenizer(texts=TEXTS, kind="word", min_frequency=1)
    return tokenise(Corpus(folder / "text.txt"), tokenizer, folder / "shards"), tokenizer


def test_words_are_counted_and_unknown_ones_are_not(parts):
    shards, tokenizer = parts
    counts = count_words(shards, tokenizer)
    assert counts[tokenizer.token_to_id("a")] == 4
    assert counts.sum() == 12
    assert not counts[[tokenizer.unk_id, tokenizer.pad_id]].any()


def test_frequent_words_are_thinned_out():
    kept = keep_probability(np.array([90.0, 10.0, 0.0]), threshold=0.1)
    assert kept[0] == pytest.approx(np.sqrt(0.1 / 0.9) + 0.1 / 0.9)
    assert kept.tolist()[1:] == [1.0, 0.0]


def test_neighbours_are_near_and_of_the_same_document():
    centres, others = neighbours(np.array([0, 0, 0, 1, 1]), np.array([1, 2, 2, 2, 1]), window=2)
    assert list(zip(centres.tolist(), others.tolist(), strict=True)) == [
        (0, 1), (1, 0), (1, 2), (2, 0), (2, 1), (3, 4), (4, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["cbow", "skipgram"])
def test_batches_hold_true_neighbours_and_come_again(parts, kind):
    shards, tokenizer = parts
    source = WordWindows(shards, tokenizer, kind=kind, seed=3, words=5, window=2, negatives=3, threshold=1.0)
    together = {frozenset(pair) for text in TEXTS for pair in zip(text.split(), text.split()[1:], strict=False)}
    together |= {frozenset(pair) for text in TEXTS for pair in zip(text.split(), text.split()[2:], strict=False)}
    assert source.batches_in(2) == 6
    seen = set()
    for index in range(source.batches_in(1)):
        batch, again = source.batch(index), source.batch(index)
        assert torch.equal(batch.targets["candidates"], again.targets["candidates"])
        assert batch.targets["candidates"].shape == (batch.layout.batch, 4)
        for bag, true in zip(batch.layout.split(batch.ids), batch.targets["candidates"][:, 0], strict=True):
            for word in bag:
                pair = frozenset(tokenizer.id_to_token(int(i)) for i in (word, true))
                assert pair in together
                seen.add(pair)
    assert frozenset("bc") in seen


def test_random_words_come_in_proportion_to_count_to_the_three_quarters(parts):
    shards, tokenizer = parts
    source = WordWindows(shards, tokenizer, kind="skipgram", seed=0, words=12, negatives=500, threshold=1.0)
    random = torch.cat([source.batch(i).targets["candidates"][:, 1:].flatten() for i in range(10)])
    found = np.bincount(random.numpy(), minlength=tokenizer.vocabulary) / len(random)
    wanted = count_words(shards, tokenizer) ** 0.75
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.01)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "bow"}, "there is no kind 'bow'; choose cbow or skipgram"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"threshold": 0.0}, "threshold must be positive, got 0.0; write 1 to keep every word"),
    ],
)
def test_bad_values_are_refused(parts, values, message):
    with pytest.raises(BadConfig, match=message):
        WordWindows(*parts, **{"kind": "cbow", "seed": 0, **values})
