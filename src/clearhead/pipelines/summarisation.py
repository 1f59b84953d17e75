"""Summaries: a text's own sentences (by LexRank and MMR, or by a head that learnt which), or a model's words."""

# S sentences · D width

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, Protocol, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from clearhead.decoding.config import GenerationOptions, check_length, with_beams
from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.models.rnnlm import RecurrentLM
from clearhead.models.t5 import T5Config
from clearhead.pipelines.embedding import Vectors
from clearhead.pipelines.generation import Generator, best_or_all
from clearhead.pipelines.results import Labelled, Tagged
from clearhead.pipelines.results import Sentence as Sentence
from clearhead.pipelines.results import Summary as Summary
from clearhead.pipelines.runner import Use, chunks_of_text, per_text
from clearhead.pipelines.translation import Rewritten, check_reads, rewrite
from clearhead.text.sentences import sentence_spans

_DAMPING = 0.85  # of LexRank (Erkan and Radev 2004), as in PageRank
_ROUNDS = 100  # 0.85 to the hundredth is below what single precision can tell
_CENTRAL = 0.85  # how much being central counts in MMR (Carbonell and Goldstein 1998); the rest is being new
_COPY = 0.95  # a sentence this near to a chosen one says nothing new


def summarise(
    texts: Iterable[str], embed: Callable[[Sequence[str]], Vectors], *, sentences: int = 3
) -> Iterator[Summary]:
    """The `sentences` that say most of each text; all of them, if it has no more. `embed` gives unit vectors."""
    require(sentences > 0, f"a summary of {sentences} sentences is none; choose 1 or more", BadInput)

    def results(chunk: list[str]) -> Iterator[Summary]:
        spans = [sentence_spans(text) for text in chunk]
        slices = [text[start:end] for text, own in zip(chunk, spans, strict=True) for start, end in own]
        vectors = embed(slices)
        done = 0
        for text, own in zip(chunk, spans, strict=True):
            yield _summary(text, own, vectors[done : done + len(own)], sentences)
            done += len(own)

    return chain.from_iterable(map(results, chunks_of_text(texts)))


def centrality(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """LexRank: where a reader ends up who goes from sentence to sentence by likeness; the mean is 1. (S, S) -> (S,)."""
    likeness = cosines.clip(min=0)
    steps = likeness / likeness.sum(1, keepdims=True)
    rank = np.ones(len(cosines), np.float32)
    for _ in range(_ROUNDS):
        rank = 1 - _DAMPING + _DAMPING * (rank @ steps)
    return rank


def select(scores: NDArray[np.float32], cosines: NDArray[np.float32], count: int) -> list[int]:
    """MMR: again and again the sentence that is central and unlike those chosen already; `scores` up to 1."""
    chosen: list[int] = []
    worth, redundancy = _CENTRAL * scores, np.zeros_like(scores)
    while len(chosen) < min(count, len(scores)):
        gain = worth - (1 - _CENTRAL) * redundancy
        gain[redundancy >= _COPY] -= 1  # after all others, whose gains are less than 1 apart
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        redundancy = np.maximum(redundancy, cosines[chosen[-1]])
    return chosen


def _summary(text: str, spans: Sequence[tuple[int, int]], vectors: Vectors, count: int) -> Summary:
    if not spans:
        return Summary(())
    cosines = vectors @ vectors.T
    rank = centrality(cosines)
    chosen = sorted(select(rank / rank.max(), cosines, count))
    return Summary(tuple(Sentence(text[slice(*spans[i])], *spans[i], float(rank[i])) for i in chosen))


# what a trained summariser says of a sentence, in the order of its head's outputs, and the key of its config.json for
# how many sentences its training summaries had
SENTENCE_LABELS = ("leave", "keep")
USUAL_SENTENCES = "summary_sentences"
_REPEATED = 3  # words in a row that no two sentences of a summary share (Paulus et al. 2018)


def summarise_trained(
    texts: Iterable[str], tag: Callable[[list[list[str]]], Sequence[Tagged]], *, sentences: int
) -> Iterator[Summary]:
    """The `sentences` that a trained head would keep before all others; one that repeats another comes after all."""
    require(sentences > 0, f"a summary of {sentences} sentences is none; choose 1 or more", BadInput)

    def results(chunk: list[str]) -> Iterator[Summary]:
        spans = [sentence_spans(text) for text in chunk]
        slices = [[text[start:end] for start, end in own] for text, own in zip(chunk, spans, strict=True)]
        found = iter(tag([own for own in slices if own]))
        for text, own, written in zip(chunk, spans, slices, strict=True):
            keep = [] if not own else [_kept(one) for one in next(found).words]
            chosen = _unlike(written, sorted(range(len(own)), key=lambda i: -keep[i]))[:sentences]
            yield Summary(tuple(Sentence(text[slice(*own[i])], *own[i], keep[i]) for i in sorted(chosen)))

    return chain.from_iterable(map(results, chunks_of_text(texts)))


def _kept(sentence: Labelled) -> float:
    """The probability that a sentence is one of the summary; without a piece, a sentence says nothing."""
    if sentence.label not in SENTENCE_LABELS:
        return 0.0
    return sentence.score if sentence.label == SENTENCE_LABELS[1] else 1 - sentence.score


def _unlike(sentences: Sequence[str], order: Sequence[int]) -> list[int]:
    """The same order, with those last that share three words in a row with one before them."""
    seen: set[tuple[str, ...]] = set()
    new: list[int] = []
    again: list[int] = []
    for place in order:
        words = re.findall(r"\w+", sentences[place].lower())
        runs = set(zip(*(words[i:] for i in range(_REPEATED)), strict=False))
        (again if runs & seen else new).append(place)
        if not runs & seen:
            seen |= runs
    return new + again


WINDOW = 512  # tokens read at once; T5 was trained with no more
TLDR = "\nTL;DR:"  # what a GPT goes on from with a summary (Radford et al. 2019, section 3.6)

# what T5's own files say for summaries
USUAL: GenerationOptions = {"length_penalty": 2.0, "min_new_tokens": 30, "no_repeat_ngram_size": 3}
MAX_NEW_TOKENS = 200


def summarise_abstractive(
    generator: Generator,
    texts: Iterable[str],
    options: GenerationOptions,
    *,
    max_new_tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Summarise each text in new words; one longer than the model reads at once, in as many chunks as needed.

    Of each chunk at most `max_new_tokens` are written, four beams unless the options or the model's own files say
    otherwise; by a T5, as its first files say. A GPT goes on from the text and "TL;DR:".
    """
    if isinstance(generator.module, RecurrentLM):
        check_reads(generator)  # it remembers no text of several sentences
    most = generator.habits.limit(max_new_tokens, MAX_NEW_TOKENS)
    check_length(most)
    prefix = summary_prefix(generator)
    usual: GenerationOptions = {**(USUAL if prefix else {}), **generator.habits.options}
    if "min_new_tokens" in usual:
        usual["min_new_tokens"] = min(usual["min_new_tokens"], most)
    config = with_beams(options, usual)
    check_length(most, config.min_new_tokens)
    suffix = "" if generator.sourced else TLDR
    found = rewrite(
        *(generator, texts, config),
        prefix=prefix,
        suffix=suffix,
        limit=WINDOW,
        whole=True,
        max_new_tokens=most,
        progress=progress,
    )
    return best_or_all(found, options)


def summary_prefix(generator: Generator) -> str:
    """What T5 was taught to read before a text to be summarised; other models were taught one task and need none."""
    return "summarize: " if isinstance(generator.config, T5Config) else ""


class AbstractiveOptions(GenerationOptions, total=False):
    """What an abstractive summary may be told."""

    max_new_tokens: int
    progress: Progress | None


class Summarises(Protocol):
    """The call of `Model.summarise`: a text's own sentences, or new words, and then perhaps several sequences."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, texts: str, *, sentences: int | None = None, progress: Progress | None = None
    ) -> Summary: ...
    @overload
    def __call__(
        self, texts: Collection[str], *, sentences: int | None = None, progress: Progress | None = None
    ) -> list[Summary]: ...
    @overload
    def __call__(
        self, texts: Iterator[str], *, sentences: int | None = None, progress: Progress | None = None
    ) -> Iterator[Summary]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, texts: str, *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]
    ) -> Rewritten: ...
    @overload
    def __call__(
        self, texts: Collection[str], *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]
    ) -> list[Rewritten]: ...
    @overload
    def __call__(
        self, texts: Iterator[str], *, abstractive: Literal[True], **options: Unpack[AbstractiveOptions]
    ) -> Iterator[Rewritten]: ...
    @overload
    def __call__(
        self, texts: str, *, abstractive: Literal[True], num_return_sequences: int, **options: Any
    ) -> list[Rewritten]: ...
    @overload
    def __call__(
        self, texts: Collection[str], *, abstractive: Literal[True], num_return_sequences: int, **options: Any
    ) -> list[list[Rewritten]]: ...
    @overload
    def __call__(
        self, texts: Iterator[str], *, abstractive: Literal[True], num_return_sequences: int, **options: Any
    ) -> Iterator[list[Rewritten]]: ...
    @overload
    def __call__(self, texts: Iterable[str], *, abstractive: bool, **options: Any) -> Iterable[Summary | Rewritten]: ...


def per_summary(use: Callable[..., Iterator[Any]]) -> Use[Summarises]:
    """`per_text` with these types."""
    return cast("Use[Summarises]", per_text(use))
