"""Which of the candidates are masked: single pieces, whole words, or spans of words, always a given number of pieces.

Every function gives the chosen candidates in order, and for each the number of the lot that decides its fate.
"""

import numpy as np

from clearhead.data.shards import Ints, spread

# SpanBERT, section 3.1: geometric with p = 0.2, no span longer than 10 words, so that the mean is 3.8
_LENGTHS = np.arange(1, 11)
_CHANCES = 0.2 * 0.8 ** (_LENGTHS - 1)


def choose_pieces(candidates: int, count: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose `count` candidates, each as likely as any other."""
    return np.sort(draw.choice(candidates, count, replace=False, shuffle=False)), np.arange(count)


def choose_words(sizes: Ints, count: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose whole words of these sizes, in random order, as long as they fit into `count` pieces.

    The last that does not fit is passed over for shorter ones, so fewer pieces are chosen only where no word is short
    enough, and short words are favoured by two or three in a batch.
    """
    mixed = draw.permutation(len(sizes))
    filled = np.cumsum(sizes[mixed])
    taken = int(np.searchsorted(filled, count, "right"))
    words = [mixed[:taken]]
    missing = count - int(filled[taken - 1]) if taken else count
    rest = mixed[taken:]
    while missing and len(fitting := np.flatnonzero(sizes[rest] <= missing)):
        words.append(rest[fitting[:1]])
        missing -= int(sizes[rest[fitting[0]]])
        rest = rest[fitting[0] + 1 :]
    chosen = np.sort(np.concatenate(words))
    pieces = _pieces(sizes, chosen)
    return pieces, np.arange(len(pieces))


def choose_spans(sizes: Ints, count: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Choose spans of whole words, all pieces of a span with one lot; the last span drawn is cut to fit.

    Spans never overlap, and every word is as likely as any other: free words and spans are mixed, and the row of
    words is a ring. A span over the end of a sequence goes on in the next one.
    """
    words = len(sizes)
    lengths = span_lengths(min(count, words), draw)  # a word has at least one piece, so these are enough
    free = words - int(lengths.sum())
    places = np.sort(draw.choice(free + len(lengths), len(lengths), replace=False, shuffle=False))
    begins = places + np.cumsum(lengths) - lengths - np.arange(len(lengths))
    mixed = draw.permutation(len(lengths))
    covered = np.repeat(begins[mixed], lengths[mixed]) + spread(lengths[mixed])
    covered = (covered + draw.integers(words)) % words
    pieces = _pieces(sizes, covered)
    lots = np.repeat(np.repeat(np.arange(len(mixed)), lengths[mixed]), sizes[covered])
    pieces, lots = pieces[:count], lots[:count]
    in_order = np.argsort(pieces)
    return pieces[in_order], lots[in_order]


def span_lengths(total: int, draw: np.random.Generator) -> Ints:
    """Draw lengths of spans until they cover `total` words; the last is cut to fit."""
    # even if all had length 1, so many would do
    drawn = draw.choice(_LENGTHS, size=total, p=_CHANCES / _CHANCES.sum())
    ends = np.cumsum(drawn)
    last = int(np.searchsorted(ends, total))
    lengths = drawn[: last + 1]
    lengths[-1] -= ends[last] - total
    return lengths


def _pieces(sizes: Ints, words: Ints) -> Ints:
    """The pieces of words, word by word."""
    starts = np.cumsum(sizes) - sizes
    return np.repeat(starts[words], sizes[words]) + spread(sizes[words])
