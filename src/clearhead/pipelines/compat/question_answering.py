"""`pipeline("question-answering")`: answers that are slices of the context, scored as transformers v4 scored them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.pipelines.compat.base import Options, Pipeline, at_least_one
from clearhead.pipelines.question_answering import Search, SpanTable, read_passages, spans_of_text
from clearhead.pipelines.runner import paired
from clearhead.text import Pieces, Window


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionOptions(Options):
    """As in v4; `topk` is its older name of `top_k`.

    Neighbouring windows share `doc_stride` pieces, but never more than half of what a window holds of the context.
    """

    top_k: int | None = None
    topk: int | None = None
    doc_stride: int | None = None
    max_answer_len: int | None = None
    max_seq_len: int | None = None
    handle_impossible_answer: bool | None = None
    align_to_words: bool | None = None

    def search(self, positions: int) -> Search:
        """The same as `Model.answer` has it, for a model with so many positions."""
        best = next((one for one in (self.top_k, self.topk) if one is not None), 1)
        length = 15 if self.max_answer_len is None else self.max_answer_len
        at_least_one("max_answer_len", length)
        window = min(384, positions) if self.max_seq_len is None else self.max_seq_len
        overlap = min(window // 2, 128) if self.doc_stride is None else self.doc_stride
        words = self.align_to_words is not False
        return Search(top_k=best, max_answer_length=length, window=window, overlap=overlap, whole_words=words)


class QuestionAnswering(Pipeline[QuestionOptions]):
    """Dictionaries with score, start, end and answer, where context[start:end] is the answer; "" for none.

    A score is the probability of the start times that of the end, within a window; answers that read the same are one,
    with the sum of their scores. `Model.answer` scores all windows together, so that its scores compare.
    """

    options = QuestionOptions
    head, use = "span", "answer"

    def __call__(self, *inputs: Any, question: Any = None, context: Any = None, **options: Any) -> Any:
        """Answer question= and context=, {"question": …, "context": …}, a list of such, or a stream of such."""
        given = _given(inputs, question, context, options)
        found = super().__call__(given, **options)
        # v4 gives a list of one question the answer to that question
        return found[0] if isinstance(found, list) and isinstance(given, Sized) and len(given) == 1 else found

    def _results(self, inputs: Sequence[Any], options: QuestionOptions) -> Iterator[Any]:
        search = options.search(self.model.encoder.max_length)
        read = read_passages(self.model, map(_pair, inputs), search)
        for context, pieces, passages, tables in read:
            found, null = _answers(context, pieces, passages, tables, search)
            nothing = {"score": null if options.handle_impossible_answer else 0.0, "start": 0, "end": 0, "answer": ""}
            if options.handle_impossible_answer or not found:
                found.append(nothing)
            best = sorted(found, key=lambda one: -one["score"])[: search.top_k]
            yield best[0] if len(best) == 1 else best


def _given(inputs: tuple[Any, ...], question: Any, context: Any, options: dict[str, Any]) -> Any:
    """Bring the ways v4 may be called to one: a dictionary, or many."""
    for name in ("X", "data"):
        if name in options:
            inputs = (options.pop(name),)
    if len(inputs) == 2 and all(isinstance(one, str) for one in inputs):
        question, context = inputs
    elif inputs:
        return inputs[0] if len(inputs) == 1 else list(inputs)
    require(
        question is not None and context is not None,
        'give question= and context=, or {"question": …, "context": …}, or a list of these',
        BadInput,
    )
    if isinstance(question, str) and isinstance(context, str):
        return {"question": question, "context": context}
    return [{"question": asked, "context": text} for asked, text in paired(question, context)]


def _pair(item: Any) -> tuple[str, str]:
    fits = isinstance(item, Mapping) and "question" in item and "context" in item
    require(fits, f'A question comes as {{"question": …, "context": …}}, not {item!r}.', BadInput)
    for name in ("question", "context"):
        value = item[name]
        require(isinstance(value, str) and bool(value), f"{name}={value!r} must be a text that is not empty", BadInput)
    return item["question"], item["context"]


def _answers(
    context: str, pieces: Pieces, windows: list[Window], tables: Iterable[Tensor], search: Search
) -> tuple[list[dict[str, Any]], float]:
    """The best answers of every window, and the score of "no answer", where it is least likely."""
    found: dict[str, dict[str, Any]] = {}
    null = 1.0
    for window, table in zip(windows, tables, strict=True):
        passage = window.passage
        # logits (tokens, 2) -> log-probabilities among [CLS] and the context
        may_answer = torch.zeros(len(table), 1, dtype=torch.bool)
        may_answer[0] = may_answer[passage.start : passage.stop] = True
        log_probs = table.masked_fill(~may_answer, -torch.inf).log_softmax(0)
        spans = SpanTable.of(len(passage), [(0, passage, log_probs)], search.max_answer_length)
        null = min(null, math.exp(spans.null))
        best = spans_of_text(context, pieces, spans, search, offset=window.first)
        for start, end, log_prob in islice(best, search.top_k):
            text = context[start:end]
            same = found.setdefault(text.lower(), {"score": 0.0, "start": start, "end": end, "answer": text})
            same["score"] += math.exp(log_prob)
    return list(found.values()), null
