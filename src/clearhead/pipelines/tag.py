"""What is each word, and where are the entities: labels of words, and spans of the text with a label."""

# P pieces of the whole text · L labels

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.nn.network import Network
from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.engine import Input, PerToken, Progress, check_head, run
from clearhead.pipelines.entities import OUTSIDE, Labelled, entities_of
from clearhead.pipelines.inputs import windows_of_texts
from clearhead.pipelines.joined import join_words
from clearhead.text import Tokenizer, Window, windows

Strategy = Literal["simple", "first", "average", "max"]


@dataclass(frozen=True, slots=True)
class Tagged:
    """Every word with its label, and the entities: neighbouring words (or pieces) of one kind, "O" left out.

    Texts are verbatim slices, text[start:end]; of a list of words, offsets count characters of " ".join(words).
    """

    words: tuple[Labelled, ...]
    entities: tuple[Labelled, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "entities": [entity.to_dict() for entity in self.entities],
            "words": [word.to_dict() for word in self.words],
        }


def tag(
    network: Network,
    tokenizer: Tokenizer,
    texts: Iterable[str | Sequence[str]],
    *,
    labels: Sequence[str] | None = None,
    strategy: Strategy = "first",
    progress: Progress | None = None,
) -> Iterator[Tagged]:
    """Tag texts, each a string or a list of words, in order; long ones in windows, each piece where it sees most.

    A word's label is its first piece's. Entities group pieces ("simple"), or words whose label is that of the first
    piece ("first"), of the mean of the pieces ("average"), or of the surest piece ("max"). Words are those given, or
    the tokenizer's with U.S., O'Brien and AT&T joined, as taggers learn them; transformers guesses them piece by piece.
    """
    known = get_args(Strategy)
    require(strategy in known, f"strategy={strategy!r} is not known; choose {', '.join(known)}", BadInput)

    def result(read: TagWindows) -> Tagged:
        if isinstance(read.text, str):
            return _result(read.text, read.windows, read.logits, labels, strategy, plain=True)
        found = _result(" ".join(read.text), read.windows, read.logits, labels, strategy, plain=False)
        return Tagged(_as_given(read.text, found.words), found.entities)

    return map(result, tag_windows(network, tokenizer, texts, progress=progress))


@dataclass(frozen=True, slots=True)
class TagWindows:
    """A text (or a list of words), the windows it is read in, and the logits (tokens, L) of each."""

    text: str | Sequence[str]
    windows: list[Window]
    logits: list[Tensor]


def tag_windows(
    network: Network,
    tokenizer: Tokenizer,
    texts: Iterable[str | Sequence[str]],
    *,
    overlap: int | None = None,
    progress: Progress | None = None,
) -> Iterator[TagWindows]:
    """The logits of texts, in order; windows of long ones share `overlap` pieces (default: a third of the room)."""
    check_head(network, "tags")
    reader = PerToken(network, "tags")
    limit = network.encoder.max_length

    def results(chunk: list[str | Sequence[str]]) -> Iterator[TagWindows]:
        whole = iter(windows_of_texts(tokenizer, [text for text in chunk if isinstance(text, str)], limit, overlap))
        cut = [
            next(whole) if isinstance(text, str) else windows(tokenizer, text, length=limit, overlap=overlap)
            for text in chunk
        ]
        inputs = [[Input(one.encoding.ids, one.encoding.segments) for one in item] for item in cut]
        outputs = run(reader, inputs, progress=progress)
        for text, item, tables in zip(chunk, cut, outputs, strict=True):
            yield TagWindows(text, item, tables)

    return chain.from_iterable(map(results, chunks_of_text(texts)))


def _result(
    text: str,
    item: list[Window],
    tables: list[Tensor],
    labels: Sequence[str] | None,
    strategy: Strategy,
    *,
    plain: bool,
) -> Tagged:
    parts = [(one.encoding, position) for one in item for position in one.best]
    spans = [span for encoding, i in parts if (span := encoding.offsets[i]) is not None]
    owners = [word for encoding, i in parts if (word := encoding.words[i]) is not None]
    if not owners:
        return Tagged((), ())
    if plain:
        owners = join_words(text, spans, owners)
    logits = [table[one.best.start : one.best.stop] for one, table in zip(item, tables, strict=True)]
    scores = torch.cat(logits).softmax(-1)  # (P, L)
    names = labels or [f"LABEL_{i}" for i in range(scores.shape[-1])]

    firsts = [i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1]]
    word_spans = [(spans[i][0], spans[j - 1][1]) for i, j in zip(firsts, [*firsts[1:], len(owners)], strict=True)]
    words = _labelled(text, word_spans, scores[firsts], names)
    match strategy:
        case "first":
            return Tagged(words, entities_of(text, words))
        case "simple":
            return Tagged(words, entities_of(text, _labelled(text, spans, scores, names)))
        case _:
            joined = torch.stack([_join(pieces, strategy) for pieces in scores.tensor_split(firsts[1:])])
            return Tagged(words, entities_of(text, _labelled(text, word_spans, joined, names)))


def _as_given(words: Sequence[str], found: Sequence[Labelled]) -> tuple[Labelled, ...]:
    """One entry for each word that was given: what the tokenizer makes nothing of is outside, with score 0."""
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
    by_word = {bisect_right(ends, one.start): one for one in reversed(found)}
    outside = Labelled("", OUTSIDE, 0, 0, 0.0)
    return tuple(
        replace(by_word.get(i, outside), text=word, start=end - len(word), end=end)
        for i, (word, end) in enumerate(zip(words, ends, strict=True))
    )


def _join(pieces: Tensor, strategy: Strategy) -> Tensor:
    """Scores of a word's pieces -> the word's scores (L,)."""
    return pieces.mean(0) if strategy == "average" else pieces[pieces.amax(-1).argmax()]


def _labelled(
    text: str, spans: Sequence[tuple[int, int]], scores: Tensor, names: Sequence[str]
) -> tuple[Labelled, ...]:
    best, index = scores.max(-1)
    return tuple(
        Labelled(text[start:end], names[i], start, end, score)
        for (start, end), i, score in zip(spans, index.tolist(), best.tolist(), strict=True)
    )
