import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadInput, InputTooLong
from clearhead.pipelines import question_answering
from clearhead.pipelines.question_answering import Search, answer
from pipelines.peers import LONG, SENTENCES, peers, word_spans
from text.strategies import any_strings

QUESTION = "Where did Ada Lovelace live?"
PLAIN = {"threshold": math.inf, "whole_words": False}


@pytest.fixture(scope="module", params=["Bert", "Roberta", "Albert"])
def model(request: pytest.FixtureRequest) -> ch.Model:
    return peers(f"{request.param}ForQuestionAnswering", seed=3).ours


@pytest.fixture(scope="module")
def bert() -> ch.Model:
    return peers("BertForQuestionAnswering", seed=3).ours


def brute_force(model: ch.Model, question: str, context: str, search: Search) -> tuple[dict, float, float]:
    """Every span of every window, one by one: its best logit, the logit of no answer, the logarithm of the total."""
    spans: dict[tuple[int, int], float] = {}
    nulls = []
    length = min(search.window, model.encoder.max_length)
    taken = len(model.tokenizer.encode(question, ""))
    overlap = min(search.overlap, (length - taken) // 2)
    for window in ch.windows(model.tokenizer, context, length=length, overlap=overlap, question=question):
        ids, segments = (torch.tensor([row]) for row in (window.encoding.ids, window.encoding.segments))
        with torch.no_grad():
            start, end = model.network("span", ids, None, segments)[0].unbind(-1)
        nulls.append(float(start[0] + end[0]))
        for first in window.passage:
            for last in range(first, min(first + search.max_answer_length, window.passage.stop)):
                key = (window.piece(first), window.piece(last))
                spans[key] = max(spans.get(key, -math.inf), float(start[first] + end[last]))
    total = sum(math.exp(logit) for logit in [*spans.values(), min(nulls)])
    return spans, min(nulls), math.log(total)


@pytest.mark.parametrize("context", [SENTENCES[-1], LONG], ids=["one window", "many windows"])
def test_every_span_of_every_window_is_looked_at(model, context):
    search = Search(top_k=20, max_answer_length=12, window=60, overlap=20, **PLAIN)
    spans, null, total = brute_force(model, QUESTION, context, search)
    (found,) = answer(model, [(QUESTION, context)], search)
    best = sorted(spans.values(), reverse=True)
    offsets = model.tokenizer.pieces(context).offsets
    logits: dict[tuple[int, int], float] = {}
    for (first, last), logit in sorted(spans.items(), key=lambda item: -item[1]):
        logits.setdefault((offsets[first][0], offsets[last][1]), logit)
    assert found.null_score == pytest.approx(null, abs=1e-4)
    assert found.candidates[0].logit == pytest.approx(best[0], abs=1e-4)
    for one in found.candidates:
        assert one.logit == pytest.approx(logits[one.start, one.end], abs=1e-4)
        assert one.score == pytest.approx(math.exp(one.logit - total), rel=1e-3)
    kept = [logit for (start, end), logit in logits.items() if context[start:end].strip()]
    assert [one.logit for one in found.candidates] == pytest.approx(sorted(kept, reverse=True)[:20], abs=1e-4)


def test_probabilities_of_all_spans_and_of_none_sum_to_one(bert):
    found = bert.answer(QUESTION, "a mask, a bank", top_k=1000, threshold=-math.inf, whole_words=False)
    assert found.text is None
    pieces = len(bert.tokenizer.pieces("a mask, a bank"))
    assert len(found.candidates) == pieces * (pieces + 1) / 2
    assert found.score + sum(one.score for one in found.candidates) == pytest.approx(1, abs=1e-5)


def test_answers_are_whole_words(bert):
    text = SENTENCES[-1]
    words = word_spans(bert.tokenizer.encode(text)).values()
    found = bert.answer(QUESTION, text, top_k=30, threshold=math.inf)
    assert {one.start for one in found.candidates} <= {start for start, _ in words}
    assert {one.end for one in found.candidates} <= {end for _, end in words}
    assert len({(one.start, one.end) for one in found.candidates}) == len(found.candidates) == 30


def test_abstaining_is_a_matter_of_the_threshold(bert):
    sure = bert.answer(QUESTION, LONG, threshold=math.inf)
    assert sure.text == LONG[sure.start : sure.end]
    assert sure.margin == sure.null_score - sure.candidates[0].logit
    assert bert.answer(QUESTION, LONG, threshold=sure.margin + 0.01).text == sure.text
    abstained = bert.answer(QUESTION, LONG, threshold=sure.margin - 0.01)
    assert (abstained.text, abstained.start, abstained.end) == (None, None, None)
    assert abstained.candidates[0].text == sure.text
    assert abstained.to_dict()["answer"] is None


def test_nothing_to_read_has_no_answer(bert):
    for context in ("", "   ", "\u200b"):
        found = bert.answer(QUESTION, context, threshold=math.inf)
        assert found.text is None or found.text.strip()
    empty = bert.answer(QUESTION, "")
    assert (empty.text, empty.score, empty.margin, empty.candidates) == (None, pytest.approx(1), math.inf, ())


def test_questions_and_contexts_pair_up(bert):
    one = bert.answer(QUESTION, LONG)
    for many in (
        bert.answer([QUESTION, "Who?"], LONG),
        bert.answer(QUESTION, [LONG, "a mask"]),
        bert.answer([QUESTION, "Who?"], [LONG, "a mask"]),
        list(bert.answer(iter([QUESTION]), LONG)),
    ):
        assert (many[0].text, many[0].start) == (one.text, one.start)
        assert many[0].score == pytest.approx(one.score, rel=1e-4)
    assert set(one.to_dict()) == {"answer", "start", "end", "score", "null_score", "candidates"}


def test_the_end_of_a_very_long_text_is_read(bert):
    quiet = "a mask, " * 400
    far = bert.answer(QUESTION, quiet + SENTENCES[-1], top_k=3000, threshold=math.inf)
    assert any(one.start >= len(quiet) for one in far.candidates)


@given(st.lists(st.tuples(any_strings, any_strings | st.just(LONG)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=40, deadline=None)
def test_answers_are_slices_and_neighbours_change_nothing(bert, pairs, whole_words):
    pairs = [(question[:20], context) for question, context in pairs]
    search = Search(top_k=3, whole_words=whole_words, threshold=math.inf)
    together = list(answer(bert, pairs, search))
    for (question, context), found in zip(pairs, together, strict=True):
        for one in found.candidates:
            assert context[one.start : one.end] == one.text
            assert one.text.strip()
        (single,) = answer(bert, [(question, context)], search)
        assert single.score == pytest.approx(found.score, rel=1e-3)
        assert single.null_score == pytest.approx(found.null_score, abs=1e-4)


def test_what_cannot_be_asked_is_refused(bert):
    with pytest.raises(InputTooLong, match="no room is left for the text"):
        bert.answer(LONG, "a mask")
    for wrong in ({"top_k": 0}, {"max_answer_length": 0}):
        with pytest.raises(BadInput, match="must be 1 or more"):
            bert.answer(QUESTION, "a mask", **wrong)
    with pytest.raises(BadInput, match="threshold=nan is no number"):
        Search(threshold=math.nan)
    with pytest.raises(BadInput, match="overlap=-1 must not be negative"):
        Search(overlap=-1)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 30])
def test_the_highest_of_neighbours(size):
    values = np.random.default_rng(size).standard_normal(64).astype(np.float32)
    values[10:20] = -np.inf
    expected = np.lib.stride_tricks.sliding_window_view(values, size).max(1)
    assert question_answering._sliding_max(values, size).tolist() == expected.tolist()
