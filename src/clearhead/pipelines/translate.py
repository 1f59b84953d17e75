"""Texts to their translations, sentence by sentence, by any model that reads a source: recurrent or Transformer."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from clearhead.decoding.results import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.manner import Manner
from clearhead.pipelines.portions import Portions, portions
from clearhead.pipelines.write import Writer
from clearhead.text import Tokenizer

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
    writer: Writer,
    texts: Iterable[str],
    manner: Manner,
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


def room_for(writer: Writer, prefix: str, limit: int) -> int:
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


def check_reads(writer: Writer) -> None:
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
    writer = Writer.of(network, tokenizer)
    read = [[*ids[:longest], writer.end] for ids in tokenizer.ids_batch(list(texts))]
    written = writer.write(read, [_enough_for(len(ids)) for ids in read], Manner(beams=beams))
    return [tokenizer.decode(best.tokens) for best, *_ in written]


def _enough_for(length: int) -> int:
    """Twice the next power of two and some: texts of like length have one limit, so that they run together."""
    return 2 * 2 ** length.bit_length() + 8


def _parts(cut: Portions, new: Sequence[str], scores: Sequence[float]) -> tuple[Part, ...]:
    return tuple(Part(*row) for row in zip(cut.texts, new, scores, strict=True))
