import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clearhead.data.answers import encode_answers, encode_questions
from clearhead.data.examples import QuestionExample
from clearhead.errors import BadInput, InputTooLong
from clearhead.text.windows import windows
from data.small import SENTENCES, tokenizer

CONTEXT = " ".join(SENTENCES) + " 😀 Peter sat."
KINDS = pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])


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
    found = encode_answers([example], tokenizer(kind), length=length, overlap=overlap)
    starts, ends = found.encoded.targets["starts"], found.encoded.targets["ends"]
    holding = np.flatnonzero(starts)
    assert holding.size  # answers are shorter than the overlap
    for window in holding.tolist():
        assert found.text(window, starts[window], ends[window]) == answer
        assert found.characters(window, starts[window], ends[window]) == (start, end)
    assert ((starts == 0) == (ends == 0)).all()


@KINDS
@pytest.mark.parametrize("length", [30, 50, 400])
def test_windows_are_those_of_the_window_engine(kind, length):
    example = QuestionExample("1", "Who sat?", CONTEXT)
    found = encode_questions([example], tokenizer(kind), length=length, overlap=8)
    expected = windows(tokenizer(kind), CONTEXT, length=length, overlap=8, question="Who sat?")
    batch = found.encoded.batch(np.arange(len(found.encoded)))
    assert [ids.tolist() for ids in batch.layout.split(batch.ids)] == [window.encoding.ids for window in expected]
    assert found.first.tolist() == [window.first for window in expected]
    assert found.passage.tolist() == [window.passage.start for window in expected]
    assert found.count.tolist() == [len(window.passage) for window in expected]


def test_an_answer_inside_a_token_takes_the_token():
    example = QuestionExample("1", "When?", "In 1996-08-22 the cat", (("cat", 18),))
    inside = QuestionExample("2", "What?", "the cat sat", (("a", 5),))
    found = encode_answers([example, inside], tokenizer())
    starts, ends = found.encoded.targets["starts"], found.encoded.targets["ends"]
    assert found.text(0, starts[0], ends[0]) == "cat"
    assert "a" in found.text(1, starts[1], ends[1])


def test_impossible_questions_point_at_the_first_token():
    found = encode_answers([QuestionExample("1", "Who?", CONTEXT, (), True)], tokenizer(), length=40, overlap=8)
    assert len(found.encoded) > 2
    assert not found.encoded.targets["starts"].any()
    assert found.rejected == ()


def test_what_cannot_be_learnt_from_is_left_out_and_reported(caplog):
    good = QuestionExample("good", "Who?", "The cat sat.", (("cat", 4), ("elsewhere", 0)))
    examples = [
        QuestionExample("moved", "Who?", "The cat sat.", (("cat", 5),)),
        good,
        QuestionExample("unanswered", "Who?", "The cat sat."),
        QuestionExample("tokenless", "Who?", "The cat \u200b sat.", (("\u200b", 8),)),
    ]
    found = encode_answers(examples, tokenizer())
    assert [(item.id, item.reason) for item in found.rejected] == [
        ("moved", "the answer 'cat' is not at character 5, where 'at ' stands"),
        ("unanswered", "there is no answer, and it is not marked as impossible"),
        ("tokenless", "the answer '\\u200b' has no tokens"),
    ]
    assert len(found.encoded) == 1
    batch = found.encoded.batch(np.arange(1))
    assert batch.ids.tolist() == tokenizer().encode("Who?", "The cat sat.").ids
    assert found.text(0, int(batch.targets["starts"]), int(batch.targets["ends"])) == "cat"
    assert "3 questions cannot be learnt from and are left out; the first, 'moved': the answer 'cat'" in caplog.text
    with pytest.raises(BadInput, match=r"No question can be learnt from; the first, 'moved': the answer 'cat' is not"):
        encode_answers(examples[:1], tokenizer())
    assert len(encode_questions(examples, tokenizer()).encoded) == 4


def test_a_question_that_fills_the_window_is_named():
    with pytest.raises(InputTooLong, match=r"Question 'q7' has .* leaves no room for its context in windows of 20"):
        encode_questions([QuestionExample("q7", CONTEXT, "a")], tokenizer(), length=20)


def test_an_empty_context_is_one_window():
    assert encode_questions([QuestionExample("1", "Who?", "")], tokenizer()).count.tolist() == [0]
