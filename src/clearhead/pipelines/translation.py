"""Texts to their translations, sentence by sentence, by any model that reads a source."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.io import Progress
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.runner import chunks_of_text
from clearhead.text import Tokenizer
from clearhead.text.sentences import sentence_spans

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Portions:
    """A text's portions, text[start:end], with nothing but white space between them."""

    text: str
    spans: tuple[Span, ...]

    @property
    def texts(self) -> list[str]:
        """The portions."""
        return [self.text[start:end] for start, end in self.spans]

    def join(self, written: Sequence[str]) -> str:
        """Put what was written for each portion together, with the text's own white space between."""
        ends = [0, *(end for _, end in self.spans)]
        gaps = [self.text[end:start] for end, (start, _) in zip(ends, self.spans, strict=False)]
        # a sentence that was cut where no space stands still needs one
        parts = [(gap or " ") + new for gap, new in zip(gaps[1:], written[1:], strict=True)]
        return "".join([*written[:1], *parts])


def portions(tokenizer: Tokenizer, text: str, limit: int, *, whole: bool = False) -> Portions:
    """Cut a text into sentences of at most `limit` tokens, or with `whole` into as few portions as hold so many."""
    require(limit > 0, f"{limit} tokens hold no portion of a text; give 1 or more", BadInput)
    fine: list[tuple[Span, int]] = []
    for start, end in sentence_spans(text):
        offsets = tokenizer.pieces(text[start:end]).offsets
        fine += [
            ((start + a, start + b), count) for (a, b), count in _cut(text[start:end], [o[0] for o in offsets], limit)
        ]
    if whole:
        fine = _merged(fine, limit)
    return Portions(text, tuple(span for span, _ in fine))


def _cut(sentence: str, starts: Sequence[int], limit: int) -> list[tuple[Span, int]]:
    """Cut a sentence before a word, or before a piece if one word is all there is: spans and their tokens."""
    cuts, first = [(0, 0)], 0  # where each portion begins: character and piece
    while len(starts) - first > limit:
        last = first + limit
        at = next((i for i in range(last, first, -1) if sentence[starts[i] - 1 : starts[i]].isspace()), last)
        if starts[at] <= cuts[-1][0]:  # several pieces spell one character, which is not cut
            at = bisect_right(starts, cuts[-1][0])
        if at == len(starts):
            break
        cuts.append((starts[at], at))
        first = at
    found = []
    for (begin, first), (stop, last) in pairwise([*cuts, (len(sentence), len(starts))]):
        if words := sentence[begin:stop].strip():
            start = begin + sentence[begin:stop].index(words)
            found.append(((start, start + len(words)), last - first))
    return found


def _merged(fine: Sequence[tuple[Span, int]], limit: int) -> list[tuple[Span, int]]:
    merged: list[tuple[Span, int]] = []
    for (start, end), count in fine:
        if merged and merged[-1][1] + count <= limit:
            (before, _), held = merged[-1]
            merged[-1] = ((before, end), held + count)
        else:
            merged.append(((start, end), count))
    return merged


LONGEST = 127  # tokens of a source that is read at once: models for sentences have seen no longer ones
_SLACK = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A portion of the text, what was written for it, and its score as in `Written`."""

    source: str
    text: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"source": self.source, "text": self.text, "score": self.score}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text written anew, such as its translation, and the parts it was put together from."""

    text: str
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text, "parts": [part.to_dict() for part in self.parts]}

    def __str__(self) -> str:
        return self.text


def rewrite(
    writer: Generator,
    texts: Iterable[str],
    manner: GenerationConfig,
    *,
    prefix: str = "",
    limit: int = LONGEST,
    whole: bool = False,
    longest: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Write each text anew, in portions of at most `limit` tokens that follow `prefix`; see `portions`.

    A portion may become twice as long as the next power of two, or have `longest` tokens. Where several ways are
    asked for, each text gets a list: of several portions, the second ways make the second text.
    """
    check_reads(writer)
    room = room_for(writer, prefix, limit)
    chances = manner.chances()

    def results(chunk: list[str]) -> Iterator[Any]:
        cut = [portions(writer.tokenizer, text, room, whole=whole) for text in chunk]
        read = writer.ids([prefix + portion for one in cut for portion in one.texts])
        limits = [longest or _enough_for(len(ids)) for ids in read]
        written = iter(writer.write(read, limits, manner, chances=chances, progress=progress))
        for one in cut:
            found = [next(written) for _ in one.spans]
            ways = [joined(one, [outputs[:way][-1] for outputs in found]) for way in range(1, manner.best + 1)]
            yield ways if manner.best > 1 else ways[0]

    def joined(cut: Portions, outputs: Sequence[Output]) -> Rewritten:
        new = [writer.tokenizer.decode(output.tokens) for output in outputs]
        return Rewritten(cut.join(new), _parts(cut, new, [output.score for output in outputs]))

    return chain.from_iterable(map(results, chunks_of_text(texts, writer.ahead)))


def room_for(writer: Generator, prefix: str, limit: int) -> int:
    """How many tokens a portion may have, of `limit` at most, beside a prefix and the end token."""
    # a word that comes to stand at the beginning may be spelt with more pieces than before
    most = limit if writer.positions is None else min(limit, writer.positions - _SLACK)
    taken = len(writer.ids([prefix])[0])
    require(
        not prefix or taken < most,
        f"the prefix and the end have {taken} tokens, of {most} that are read at once; give a shorter prefix",
        BadInput,
    )
    return most - taken


def check_reads(writer: Generator) -> None:
    """Refuse a model that knows no source."""
    if not writer.sourced:
        raise WrongTask(
            "this model goes on from a prompt and reads no source; it can generate, but not translate or summarise"
        )


def translate_texts(
    network: Any, tokenizer: Tokenizer, texts: Sequence[str], *, beams: int = 1, longest: int = LONGEST
) -> list[str]:
    """Translate each text, which should be a sentence, as it is; one beam is greedy.

    A source of more than `longest` tokens is cut there, as in training.
    """
    writer = Generator.of(network, tokenizer)
    read = [[*ids[:longest], writer.end] for ids in tokenizer.ids_batch(list(texts))]
    written = writer.write(read, [_enough_for(len(ids)) for ids in read], GenerationConfig(beams=beams))
    return [tokenizer.decode(best.tokens) for best, *_ in written]


def _enough_for(length: int) -> int:
    """Twice the next power of two and some: texts of like length have one limit, so that they run together."""
    return 2 * 2 ** length.bit_length() + 8


def _parts(cut: Portions, new: Sequence[str], scores: Sequence[float]) -> tuple[Part, ...]:
    return tuple(Part(*row) for row in zip(cut.texts, new, scores, strict=True))
