"""Examples become sequences and targets: texts, pairs, choices, tagged words, answers."""

import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from clearhead.data.batch import IGNORE_INDEX
from clearhead.data.encode import encode_answers, encode_choices, encode_pairs, encode_tags, encode_texts
from clearhead.data.examples import ChoiceExample, Labels, PairExample, QuestionExample, TextExample, WordsExample
from clearhead.errors import BadInput, InputTooLong
from clearhead.text.windows import windows
from data.small import SENTENCES, tokenizer

# ---- texts, pairs and choices

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


# ---- tagged words

TAGS = Labels(("B-PER", "I-PER", "O"))
words = st.text(st.sampled_from("abelrtuhTHE!?.,'-é你好😀\u0301\u200b0"), min_size=1, max_size=8)
sentences = st.lists(
    st.lists(st.tuples(words, st.sampled_from(TAGS.names)), min_size=1, max_size=30), min_size=1, max_size=3
)


def example(pairs):
    return WordsExample(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs))


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@given(data=sentences, length=st.integers(6, 20), overlap=st.sampled_from([None, 0, 1, 2]))
def test_tags_survive_the_way_to_pieces_and_back(kind, data, length, overlap):
    examples = [example(pairs) for pairs in data]
    found = encode_tags(examples, tokenizer(kind), TAGS, length=length, overlap=overlap)
    assert np.diff(found.encoded.offsets).max() <= length
    targets = found.encoded.token_targets["tags"]
    assert ((targets == IGNORE_INDEX) == (found.words < 0)).all()
    owners = np.repeat(found.owners, np.diff(found.encoded.offsets))
    for i, one in enumerate(examples):
        own = (owners == i) & (found.words >= 0)
        assert sorted(found.words[own]) == sorted(set(tokenizer(kind).words_batch([one.words])[0].words))
        assert [TAGS.names[label] for label in targets[own]] == [one.tags[word] for word in found.words[own]]


def test_the_label_is_on_the_first_piece():
    words = ("Blackburn", "sat")
    batch = encode_tags([WordsExample(words, ("B-PER", "O"))], tokenizer(), TAGS).encoded.batch(np.arange(1))
    encoding = tokenizer().encode(" ".join(words))
    assert batch.ids.tolist() == encoding.ids
    expected = [IGNORE_INDEX] * len(encoding)
    expected[encoding.words.index(0)], expected[encoding.words.index(1)] = 0, 2
    assert len(encoding) > 4
    assert batch.targets["tags"].tolist() == expected


def test_every_word_of_a_long_sentence_is_learnt_once():
    long = WordsExample(("cat", "Blackburn") * 50, ("O", "B-PER") * 50)
    found = encode_tags([WordsExample(("a",), ("O",)), long], tokenizer(), TAGS, length=16)
    assert len(found.encoded) > 10
    assert found.owners[0] == 0
    assert set(found.owners[1:]) == {1}
    spoken = found.words[found.encoded.offsets[1] :]
    assert sorted(spoken[spoken >= 0]) == list(range(100))


def test_prediction_needs_no_tags_but_training_does():
    assert encode_tags([WordsExample(("a",))], tokenizer()).encoded.token_targets == {}
    with pytest.raises(BadInput, match="Sentence 1 has no tags"):
        encode_tags([WordsExample(("a",))], tokenizer(), TAGS)
    with pytest.raises(BadInput, match="Sentence 2 has the label 'B-LOC'"):
        encode_tags([WordsExample(("a",), ("O",)), WordsExample(("a",), ("B-LOC",))], tokenizer(), TAGS)
    with pytest.raises(BadInput, match="Sentence 1 has no words"):
        encode_tags([WordsExample((), ())], tokenizer(), TAGS)


# ---- answers

CONTEXT = " ".join(SENTENCES) + " 😀 Peter sat."
KINDS = pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])


def cut(kind, length, overlap):
    """The windows of a question over the context, as the window engine makes them."""
    words = tokenizer(kind)
    room = length - words.template.specials(pair=True) - len(words.pieces("Who sat?"))
    return windows(words, CONTEXT, length=length, overlap=min(overlap, room // 2), question="Who sat?")


@KINDS
@given(first=st.integers(0, 200), count=st.integers(1, 6), length=st.integers(30, 80), overlap=st.integers(8, 12))
def test_answers_are_found_and_slice_back_to_their_text(kind, first, count, length, overlap):
    offsets = tokenizer(kind).pieces(CONTEXT).offsets
    first = min(first, len(offsets) - count)
    start, end = offsets[first][0], offsets[first + count - 1][1]
    answer = CONTEXT[start:end]
    assume(answer and answer == answer.strip())  # some tokenizers write a space as a piece without characters
    # the bytes of one character may be in two pieces, and then both belong to an answer that ends there
    assume(all(e <= start for _, e in offsets[:first]) and all(s >= end for s, _ in offsets[first + count :]))
    example = QuestionExample("1", "Who sat?", CONTEXT, ((answer, start),))
    targets = encode_answers([example], tokenizer(kind), length=length, overlap=overlap).targets
    starts, ends = targets["starts"], targets["ends"]
    holding = np.flatnonzero(starts)
    assert holding.size  # answers are shorter than the overlap
    read = cut(kind, length, overlap)
    for window in holding.tolist():
        assert span_of(read[window].encoding, starts[window], ends[window]) == (start, end)
    assert ((starts == 0) == (ends == 0)).all()


@KINDS
@pytest.mark.parametrize("length", [30, 50, 400])
def test_windows_are_those_of_the_window_engine(kind, length):
    example = QuestionExample("1", "Who sat?", CONTEXT, (), True)
    encoded = encode_answers([example], tokenizer(kind), length=length, overlap=8)
    batch = encoded.batch(np.arange(len(encoded)))
    read = [window.encoding.ids for window in cut(kind, length, 8)]
    assert [ids.tolist() for ids in batch.layout.split(batch.ids)] == read


def test_an_answer_inside_a_token_takes_the_token():
    example = QuestionExample("1", "When?", "In 1996-08-22 the cat", (("cat", 18),))
    inside = QuestionExample("2", "What?", "the cat sat", (("a", 5),))
    assert answer_of(example) == "cat"
    assert "a" in answer_of(inside)


def span_of(encoding, first, last):
    return encoding.offsets[first][0], encoding.offsets[last][1]


def answer_of(example):
    targets = encode_answers([example], tokenizer()).targets
    encoding = tokenizer().encode(example.question, example.context)
    return example.context[slice(*span_of(encoding, targets["starts"][0], targets["ends"][0]))]


def test_impossible_questions_point_at_the_first_token(caplog):
    encoded = encode_answers([QuestionExample("1", "Who?", CONTEXT, (), True)], tokenizer(), length=40, overlap=8)
    assert len(encoded) > 2
    assert not encoded.targets["starts"].any()
    assert not caplog.records


def test_what_cannot_be_learnt_from_is_left_out_and_reported(caplog):
    good = QuestionExample("good", "Who?", "The cat sat.", (("cat", 4), ("elsewhere", 0)))
    bad = {
        "'moved': the answer 'cat' is not at character 5, where 'at ' stands": QuestionExample(
            "moved", "Who?", "The cat sat.", (("cat", 5),)
        ),
        "'unanswered': there is no answer, and it is not marked as impossible": QuestionExample(
            "unanswered", "Who?", "The cat sat."
        ),
        "'tokenless': the answer '\\u200b' has no tokens": QuestionExample(
            "tokenless", "Who?", "The cat \u200b sat.", (("\u200b", 8),)
        ),
    }
    for reason, example in bad.items():
        with pytest.raises(BadInput, match=re.escape(f"No question can be learnt from; the first, {reason}.")):
            encode_answers([example], tokenizer())
    batch = encode_answers([*bad.values(), good], tokenizer()).batch(np.arange(1))
    assert batch.ids.tolist() == tokenizer().encode("Who?", "The cat sat.").ids
    assert answer_of(good) == "cat"
    assert "3 questions cannot be learnt from and are left out; the first, 'moved': the answer 'cat'" in caplog.text


def test_a_question_that_fills_the_window_is_named():
    with pytest.raises(InputTooLong, match=r"Question 'q7' has .* leaves no room for its context in windows of 20"):
        encode_answers([QuestionExample("q7", CONTEXT, "a", (), True)], tokenizer(), length=20)


def test_an_empty_context_is_one_window():
    encoded = encode_answers([QuestionExample("1", "Who?", "", (), True)], tokenizer())
    assert (len(encoded), encoded.ids.tolist()) == (1, tokenizer().encode("Who?", "").ids)
