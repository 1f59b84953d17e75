"""Prompts to the texts that go on from them, whole or piece by piece as they are written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from clearhead.decoding.results import Output
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.manner import Manner, check_length
from clearhead.pipelines.write import Writer
from clearhead.text import Tokenizer

_HALF = "\ufffd"  # what a character whose bytes are not all there is decoded to


@dataclass(frozen=True, slots=True)
class Written:
    """New text. `score` is its log probability, of beams for a length of one; `ended`: not cut off by the limit."""

    text: str
    score: float
    ended: bool
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, output: Output, tokenizer: Tokenizer) -> "Written":
        """Decode what was written."""
        return cls(tokenizer.decode(output.tokens), output.score, output.ended, tuple(output.tokens))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"generated": self.text, "score": self.score, "ended": self.ended}

    def __str__(self) -> str:
        return self.text


def generate(
    writer: Writer, prompts: Iterable[str], longest: int, manner: Manner, progress: Progress | None = None
) -> Iterator[Any]:
    """Write on from each prompt, `longest` tokens at most: one `Written`, or a list where several ways are asked for.

    Of an encoder–decoder the prompt is the source, and what is written stands alone.
    """
    check_length(longest, manner.least)
    chances = manner.chances()

    def results(chunk: list[str]) -> Iterator[Any]:
        ids = writer.ids(chunk)
        for outputs in writer.write(ids, [longest] * len(ids), manner, chances=chances, progress=progress):
            ways = [Written.of(output, writer.tokenizer) for output in outputs]
            yield ways if manner.best > 1 else ways[0]

    return chain.from_iterable(map(results, chunks_of_text(prompts, writer.ahead)))


def stream_text(writer: Writer, prompt: str, longest: int, manner: Manner) -> Iterator[str]:
    """Give the text as it is written; put together, the pieces are what `generate` gives."""
    check_length(longest, manner.least)
    (ids,) = writer.ids([prompt])
    tokens: list[int] = []
    shown = ""
    for token in writer.stream(ids, longest, manner):
        tokens.append(token)
        text = writer.tokenizer.decode(tokens)
        # a character of several tokens waits for its last one
        if len(text) > len(shown) and text.startswith(shown) and not text.endswith(_HALF):
            yield text[len(shown) :]
            shown = text
    rest = writer.tokenizer.decode(tokens)
    if len(rest) > len(shown):
        yield rest[len(shown) :]
