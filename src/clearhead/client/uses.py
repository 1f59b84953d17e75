"""What a use asks of a service, and what its answer becomes: one description for the client and its asynchronous twin.

A description takes what the method of `Model` takes, with the keywords that a service can follow, and gives `Asked`.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from clearhead.client.request import (
    CHARACTERS,
    CHARACTERS_OF_NOTHING,
    WRITTEN,
    Asked,
    Item,
    Many,
    as_json,
    as_text,
    of_lists,
    of_pairs,
    of_texts,
    record,
    records,
)
from clearhead.errors import BadInput, keywords, require
from clearhead.io import Progress
from clearhead.pipelines.results import (
    Answer,
    Candidate,
    Choice,
    Classes,
    Filled,
    FoundAnswer,
    FoundCandidate,
    Hit,
    Labelled,
    NextSentence,
    Part,
    Prediction,
    Reranked,
    Rewritten,
    Sentence,
    Summary,
    Tagged,
    Written,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clearhead.decoding.config import GenerationOptions


@keywords
def fill(
    texts: Iterable[str],
    *,
    model: str | None = None,
    top_k: int | None = None,
    candidates: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Asked[Filled]:
    """Which words stand behind the masks of a text? With `candidates`, which of these."""
    said = as_json(model, None, {"top_k": top_k, "candidates": candidates})

    def result(found: Any) -> Filled:
        return Filled(records(Prediction, found["predictions"]))

    return Asked(use="fill", columns=of_texts(texts), said=said, result=result, progress=progress)


def _classes(found: Any) -> Classes:
    return record(Classes, found)


@keywords
def classify(
    texts: Iterable[str | tuple[str, str]],
    *,
    model: str | None = None,
    skill: str | None = None,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> Asked[Classes]:
    """Which class does a text belong to? Scores of all labels, or of the best `top_k`; documents of any length."""
    said = as_json(model, skill, {"top_k": top_k})
    return Asked(use="classify", columns=of_texts(texts), said=said, result=_classes, progress=progress)


@keywords
def zero_shot(
    texts: Iterable[str],
    labels: Sequence[str],
    *,
    model: str | None = None,
    skill: str | None = None,
    hypothesis_template: str | None = None,
    multi_label: bool | None = None,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> Asked[Classes]:
    """Which of these labels fits a text? With `multi_label`, several may fit."""
    options = {"labels": labels, "hypothesis_template": hypothesis_template, "multi_label": multi_label, "top_k": top_k}
    said = as_json(model, skill, options)
    return Asked(use="zero-shot", columns=of_texts(texts), said=said, result=_classes, progress=progress)


@keywords
def compare(
    first: Many,
    second: Many,
    *,
    model: str | None = None,
    skill: str | None = None,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> Asked[Classes]:
    """How do two texts relate? Classes of a pair, such as entailment; one text may be compared with many."""
    columns, said = of_pairs(("first", first), ("second", second)), as_json(model, skill, {"top_k": top_k})
    return Asked(use="compare", columns=columns, said=said, result=_classes, progress=progress)


@keywords
def follows(
    first: Many, second: Many, *, model: str | None = None, progress: Progress | None = None
) -> Asked[NextSentence]:
    """Does the second text follow the first? As BERT learnt it, by the head for next sentences."""
    columns = of_pairs(("first", first), ("second", second))

    def result(found: Any) -> NextSentence:
        return record(NextSentence, found)

    return Asked(use="follows", columns=columns, said=as_json(model, None, {}), result=result, progress=progress)


@keywords
def tag(
    texts: Iterable[str | Sequence[str]],
    *,
    model: str | None = None,
    skill: str | None = None,
    aggregation_strategy: str | None = None,
    progress: Progress | None = None,
) -> Asked[Tagged]:
    """Words with their labels, and entities, as slices of the text; each of many is a string or a list of words."""

    def result(found: Any) -> Tagged:
        return Tagged(records(Labelled, found["words"]), records(Labelled, found["entities"]))

    said = as_json(model, skill, {"aggregation_strategy": aggregation_strategy})
    return Asked(use="tag", columns=of_texts(texts), said=said, result=result, progress=progress)


@keywords
def answer(
    questions: Many,
    contexts: Many | None = None,
    *,
    index: str | None = None,
    model: str | None = None,
    skill: str | None = None,
    top_k: int | None = None,
    threshold: float | None = None,
    max_answer_length: int | None = None,
    whole_words: bool | None = None,
    progress: Progress | None = None,
) -> Asked[Any]:
    """Where in a text of any length is the answer? Many questions about one text, one about many, or pairs.

    Of an `index`, which is the name of one that the service was started with, the answer names its document.
    """
    told = "give contexts to look in, or the name of an index of the service, one of the two"
    require((contexts is None) != (index is None), told, BadInput)
    how = {"top_k": top_k, "threshold": threshold, "max_answer_length": max_answer_length, "whole_words": whole_words}
    said = as_json(model, skill, {**how, "index": index})
    if index is not None:
        columns = of_texts(questions, "question")
        return Asked(use="answer", columns=columns, said=said, result=_found_answer, progress=progress)
    columns = of_pairs(("question", questions), ("context", contexts))
    return Asked(use="answer", columns=columns, said=said, result=_answer, progress=progress)


def _answer(found: Any) -> Answer:
    candidates = records(Candidate, found["candidates"])
    return Answer(found["answer"], found["start"], found["end"], found["score"], found["null_score"], candidates)


def _found_answer(found: Any) -> FoundAnswer:
    candidates = records(FoundCandidate, found["candidates"])
    span = found["answer"], found["start"], found["end"]
    return FoundAnswer(*span, found["score"], found["null_score"], candidates, found["context"])


@keywords
def choose(
    contexts: str | Iterable[tuple[str, Sequence[str]]],
    candidates: Sequence[str] | None = None,
    *,
    model: str | None = None,
    progress: Progress | None = None,
) -> Asked[Choice]:
    """Which candidate fits the context best? One context with its candidates, or many (context, candidates)."""
    columns = of_lists(("context", "candidates"), contexts, candidates)

    def result(found: Any) -> Choice:
        return Choice(found["text"], found["index"], found["score"], tuple(found["scores"]))

    return Asked(use="choose", columns=columns, said=as_json(model, None, {}), result=result, progress=progress)


@keywords
def embed(
    texts: Many,
    *,
    model: str | None = None,
    skill: str | None = None,
    layers: Sequence[int] | None = None,
    combine: str | None = None,
    pooling: str | None = None,
    normalise: bool | None = None,
    dimensions: int | None = None,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Asked[bytes]:
    """One vector per text, (texts, D); for a single string, (D,). See `vectors`, which makes an array of the answers.

    Vectors come as base64 of their bytes: the very numbers, in a quarter of what they take in digits.
    """
    told = "int8 is cut by the ranges of all vectors, which a service does not see at once"
    require(precision != "int8", f"{told}; ask for float32 here, and quantise these", BadInput)
    own = {"layers": layers, "combine": combine, "pooling": pooling, "normalise": normalise}
    options = {**own, "dimensions": dimensions, "precision": precision, "encoding_format": "base64"}

    def result(found: Any) -> bytes:
        return base64.b64decode(found["vector"], validate=True)

    said = as_json(model, skill, options)
    return Asked(use="embed", columns=of_texts(texts), said=said, result=result, progress=progress)


def vectors(asked: Asked[bytes], found: Sequence[bytes]) -> NDArray[Any]:
    """The array that vectors come to: float32, or the bits of precision="binary" in uint8."""
    import numpy as np

    kind = np.dtype(np.uint8 if asked.said.get("precision") == "binary" else "<f4")
    array = np.frombuffer(b"".join(found), kind).reshape(len(found), -1 if found else 0)
    # such as np.float32, in the order of this machine, and not tied to the bytes that were received
    array = array.astype(kind.newbyteorder("="))
    return array[0] if asked.one else array


@keywords
def search(
    query: Many,
    documents: Iterable[Any] | None = None,
    *,
    index: str | None = None,
    model: str | None = None,
    skill: str | None = None,
    top_k: int | None = None,
    method: str | None = None,
    min_score: float | None = None,
    rerank: bool | None = None,
) -> Asked[list[Hit]]:
    """The passages that fit a query best, of a few documents, or of an `index` that the service was started with."""
    told = "give documents to search, or the name of an index of the service, one of the two"
    require((documents is None) != (index is None), told, BadInput)
    options: dict[str, Any] = {"top_k": top_k, "method": method, "min_score": min_score, "rerank": rerank}
    where: dict[str, Any] = {"index": index}
    sources: list[str] = []
    if documents is not None:
        held = list(documents)
        where = {"documents": [as_text(getattr(one, "text", one)) for one in held]}
        sources = [getattr(one, "source", str(number)) for number, one in enumerate(held)]

    def result(found: Any) -> list[Hit]:
        hits = records(Hit, ({"metadata": {}, **one} for one in found["results"]))
        # a service knows documents by their numbers
        return [replace(hit, source=sources[int(hit.source)]) for hit in hits] if sources else list(hits)

    said = {**where, **as_json(model, skill, options)}
    return Asked(use="search", columns=of_texts(query, "query"), said=said, result=result)


@keywords
def rerank(
    query: str | Iterable[tuple[str, Iterable[str]]],
    passages: Iterable[str] | None = None,
    *,
    model: str | None = None,
    skill: str | None = None,
    top_k: int | None = None,
    progress: Progress | None = None,
) -> Asked[list[Reranked]]:
    """Which passages are what the query looks for? One query with its passages, or many (query, passages)."""
    ranking = _Ranking(top_k)
    held = None if passages is None else list(passages)
    return Asked(
        use="rerank",
        columns=of_lists(("query", "passages"), query, held, ranking.cut),
        said=as_json(model, skill, {"top_k": top_k}),
        result=ranking.result,
        progress=progress,
        count=lambda part: sum(len(passages) for _, passages in part),
    )


class _Ranking:
    """Cuts many passages of a query into several lists, each of which is read by itself, and joins their rankings."""

    def __init__(self, top_k: int | None) -> None:
        self._top_k = top_k
        self._asked: deque[tuple[int, bool]] = deque()  # where each list begins, and whether it is a query's last
        self._found: list[Reranked] = []

    def cut(self, item: Item) -> Iterator[Item]:
        query, passages = item
        begin = size = 0
        for place, passage in enumerate(passages):
            more = len(passage) + len(query) + CHARACTERS_OF_NOTHING
            if place > begin and size + more > CHARACTERS:
                self._asked.append((begin, False))
                yield query, passages[begin:place]
                begin, size = place, 0
            size += more
        self._asked.append((begin, True))
        yield query, passages[begin:]

    def result(self, found: Any) -> list[Reranked] | None:
        begin, last = self._asked.popleft()
        self._found += (replace(one, index=begin + one.index) for one in records(Reranked, found["results"]))
        if not last:
            return None
        ranked = self._found if begin == 0 else sorted(self._found, key=lambda one: -one.score)
        self._found = []
        return ranked[: self._top_k]


def generate(
    texts: Iterable[str],
    *,
    model: str | None = None,
    max_new_tokens: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[GenerationOptions],
) -> Asked[Written]:
    """Write on from a prompt, or anew from a source, as `Model.generate`; without `tokens`, which a service keeps.

    Texts of one call are drawn from one random stream, up to 64: those after them begin it anew.
    """

    def result(found: Any) -> Written:
        return Written(found["generated"], found["score"], found["ended"], ())

    said = as_json(model, None, {"max_new_tokens": max_new_tokens, **options})
    return _written("generate", texts, said, result, progress)


def translate(
    texts: Iterable[str],
    *,
    model: str | None = None,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    prefix: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[GenerationOptions],
) -> Asked[Rewritten]:
    """A text in the other language, sentence by sentence, as `Model.translate`."""

    def result(found: Any) -> Rewritten:
        return Rewritten(found["translation"], records(Part, found["parts"]))

    said = as_json(model, None, {"src_lang": src_lang, "tgt_lang": tgt_lang, "prefix": prefix, **options})
    return _written("translate", texts, said, result, progress)


def summarise(
    texts: Iterable[str],
    *,
    model: str | None = None,
    sentences: int | None = None,
    abstractive: bool = False,
    max_new_tokens: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[GenerationOptions],
) -> Asked[Any]:
    """The sentences that say most of a text; or `abstractive`, in other words, as `Model.summarise` without parts."""

    def result(found: Any) -> Summary | Rewritten:
        if abstractive:
            return Rewritten(found["summary"], ())
        return Summary(records(Sentence, found["sentences"]))

    own = {"sentences": sentences, "abstractive": abstractive or None, "max_new_tokens": max_new_tokens}
    return _written("summarise", texts, as_json(model, None, {**own, **options}), result, progress)


def _written(
    use: str, texts: Any, said: dict[str, Any], result: Callable[[Any], Any], progress: Progress | None
) -> Asked[Any]:
    """A use that writes: of each text one, or a list for whoever has said how many."""
    several = "num_return_sequences" in said

    def all_of(found: Any) -> list[Any]:
        return [result(one) for one in found]

    each = all_of if several else result
    return Asked(use=use, columns=of_texts(texts), said=said, result=each, progress=progress, most=WRITTEN)
