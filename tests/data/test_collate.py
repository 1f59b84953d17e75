import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.encode import encode_choices, encode_pairs, encode_texts
from clearhead.data.examples import ChoiceExample, Labels, PairExample, TextExample
from clearhead.errors import BadInput, InputTooLong
from data.small import tokenizer

ALL = np.arange
YES_NO = Labels(("no", "yes"))


def sequences(batch):
    return [ids.tolist() for ids in batch.layout.split(batch.ids)]


def test_single_texts():
    texts = ["the cat", "", "Be alert!"]
    encoded = encode_texts([TextExample(t, None, "yes") for t in texts], tokenizer(), YES_NO)
    batch = encoded.batch(np.array([2, 0, 1]))
    assert sequences(batch) == [tokenizer().encode(texts[i]).ids for i in (2, 0, 1)]
    assert batch.segments is None
    assert batch.targets["classes"].tolist() == [1, 1, 1]
    assert batch.targets["classes"].dtype == batch.ids.dtype == torch.int64
    assert encoded.lengths().tolist() == [len(tokenizer().encode(text)) for text in texts]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_pairs_of_texts_are_what_the_tokenizer_makes(kind):
    texts = [("the cat", "sat on the mat"), ("Peter", ""), ("", "café")]
    encoded = encode_texts([TextExample(*pair, 0.5) for pair in texts], tokenizer(kind))
    batch = encoded.batch(ALL(3))
    expected = [tokenizer(kind).encode(*pair) for pair in texts]
    assert sequences(batch) == [encoding.ids for encoding in expected]
    segments = [s for encoding in expected for s in encoding.segments]
    assert segments == ([0] * len(segments) if batch.segments is None else batch.segments.tolist())
    assert batch.targets["scores"].tolist() == [0.5] * 3
    layout = batch.layout
    assert layout.offsets.dtype == torch.int32
    assert torch.equal(layout.positions, type(layout).of(layout.lengths).positions)
    assert torch.equal(layout.offsets, type(layout).of(layout.lengths).offsets)
    assert layout.max_length == max(layout.lengths)


def test_several_labels_are_multi_hot():
    examples = [TextExample("a", None, ("yes", "no")), TextExample("b", None, ())]
    batch = encode_texts(examples, tokenizer(), YES_NO).batch(ALL(2))
    assert batch.targets["classes"].tolist() == [[1, 1], [0, 0]]
    assert batch.targets["classes"].dtype == torch.float32


@given(st.integers(0, 12), st.integers(0, 12), st.integers(5, 20))
def test_what_is_too_long_is_cut_the_longer_text_first(first, second, length):
    example = TextExample(" ".join(["a"] * first), " ".join(["a"] * second))
    encoded = encode_texts([example], tokenizer(), length=length)
    batch = encoded.batch(ALL(1))
    assert batch.tokens == min(length, first + second + 3)
    kept_first, kept_second = ((batch.segments == s).sum().item() - extra for s, extra in ((0, 2), (1, 1)))
    if first + second + 3 > length:
        assert (kept_first, kept_second) in {
            (first, kept_second), (kept_first, second), ((length - 3) // 2, (length - 2) // 2),
            ((length - 2) // 2, (length - 3) // 2),
        }  # fmt: skip
        assert kept_first >= min(first, (length - 3) // 2)
        assert kept_second >= min(second, (length - 3) // 2)


def test_no_room_for_text():
    with pytest.raises(InputTooLong, match="4 tokens have no room for text: special tokens take 3"):
        encode_texts([TextExample("a", "b")], tokenizer(), length=4)


@pytest.mark.parametrize(
    ("examples", "labels", "message"),
    [
        ([], None, "at least one"),
        ([TextExample("a"), TextExample("a", "b")], None, "all single texts or all pairs"),
        ([TextExample("a", None, "yes"), TextExample("a")], YES_NO, "several kinds: NoneType, str"),
        ([TextExample("a", None, "yes")], None, "give the labels of the training data"),
        ([TextExample("a", None, "maybe")], YES_NO, "the label 'maybe', which the training data has not"),
    ],
)
def test_texts_that_do_not_go_together(examples, labels, message):
    with pytest.raises(BadInput, match=message):
        encode_texts(examples, tokenizer(), labels)


def test_contrastive_pairs_are_all_first_texts_then_all_second():
    examples = [
        PairExample("the cat", "a cat", 0.5),
        PairExample("Be alert!", "alert", 1.0),
        PairExample("a", "b", 0.0),
    ]
    batch = encode_pairs(examples, tokenizer()).batch(np.array([2, 0]))
    texts = ["a", "the cat", "b", "a cat"]
    assert sequences(batch) == [tokenizer().encode(text).ids for text in texts]
    assert batch.targets["similarity"].tolist() == [0.0, 0.5]
    assert encode_pairs([PairExample("a", "b")], tokenizer()).batch(ALL(1)).targets == {}
    with pytest.raises(BadInput, match="Some pairs have a score"):
        encode_pairs([PairExample("a", "b"), PairExample("a", "b", 1.0)], tokenizer())


def test_choices_of_different_number():
    examples = [ChoiceExample("He", ("ran", "sat", "will"), 2), ChoiceExample("It", ("was", "cat"), 0)]
    encoded = encode_choices(examples, tokenizer())
    batch = encoded.batch(np.array([1, 0]))
    pairs = [("It", "was"), ("It", "cat"), ("He", "ran"), ("He", "sat"), ("He", "will")]
    assert sequences(batch) == [tokenizer().encode(*pair).ids for pair in pairs]
    assert batch.targets["choices"].tolist() == [2, 3]
    assert batch.targets["choice"].tolist() == [0, 2]
    assert encoded.lengths().tolist() == [sum(map(len, sequences(encoded.batch(np.array([i]))))) for i in (0, 1)]
