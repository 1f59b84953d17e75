import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clearhead.data.encode import encode_answers
from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, InputTooLong
from clearhead.text.windows import windows
from data.small import SENTENCES, tokenizer

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
        assert read[window].encoding.span_of_pieces(starts[window], ends[window]) == (start, end)
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


def answer_of(example):
    targets = encode_answers([example], tokenizer()).targets
    encoding = tokenizer().encode(example.question, example.context)
    return example.context[slice(*encoding.span_of_pieces(targets["starts"][0], targets["ends"][0]))]


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
