"""The senses page: one word in several texts, and how near its occurrences are in every layer, by cosine and PCA."""

# n occurrences · L layers · D width

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from clearhead.errors import BadInput, keywords, require
from clearhead.inside.layers import layer_states
from clearhead.inside.page import View, cosines, rounded
from clearhead.io import read_json
from clearhead.pipelines.model import Model
from clearhead.pipelines.senses import Occurrence, find_word, forms_of

SCRIPTS = ("shared/heatmap.js", "shared/layers.js", "shared/svg.js", "map.js", "main.js")
LIMIT = 100  # occurrences; a table of their squares is kept for every layer

# the lectures' words, each with senses and texts
EXAMPLES: dict[str, dict[str, list[str]]] = read_json(Path(__file__).with_name("senses.json"))


@keywords
def senses_of(model: Model, word: str, texts: Sequence[str] | Mapping[str, Sequence[str]] | None = None) -> View:
    """Show the occurrences of a word in texts, or in texts by sense: {"money": […], "river": […]}.

    Without texts, those of the lectures are taken: bank, apple, train.
    """
    by_sense = _by_sense(word, texts)
    names, lines = list(by_sense), [text for group in by_sense.values() for text in group]
    found = occurrences(word, by_sense)
    vectors = occurrence_vectors(model, lines, found)  # (L + 1, n, D)
    maps = [principal_plane(layer) for layer in vectors]
    near = cosines(vectors)
    data = {
        "word": word,
        "occurrences": [
            {"text": lines[one.index], "start": one.start, "end": one.end, "sense": names[one.sense]} for one in found
        ],
        "cosines": rounded(near, 3),
        "maps": [rounded(places, 3) for places, _ in maps],
        "shares": [rounded(shares, 3) for _, shares in maps],
        "gaps": None if "" in names else _gaps(near, found),
        "astray": None if "" in names else _astray(near, found),
    }
    return View.of("senses", f"Senses of {word}", SCRIPTS, data)


def _by_sense(word: str, texts: Sequence[str] | Mapping[str, Sequence[str]] | None) -> Mapping[str, Sequence[str]]:
    if texts is None:
        message = f"there are no example texts for {word!r}; give some, or choose {', '.join(EXAMPLES)}"
        require(word in EXAMPLES, message, BadInput)
        texts = EXAMPLES[word]
    require(not isinstance(texts, str), "texts must be a list of texts, not one text", BadInput)
    return texts if isinstance(texts, Mapping) else {"": texts}


def occurrences(word: str, by_sense: Mapping[str, Sequence[str]]) -> list[Occurrence]:
    """Where the word stands, whole or with -s, in upper or lower case; texts and senses are numbered in their order."""
    require(bool(word.strip()), "the word is empty; name one", BadInput)
    texts = [(sense, text) for sense, group in enumerate(by_sense.values()) for text in group]
    found = [
        Occurrence(text[start:end], index, start, end, sense)
        for index, (sense, text) in enumerate(texts)
        for start, end in find_word(forms_of(word), text)
    ]
    message = f"the word {word!r} occurs {len(found)} times in the texts; 2 to {LIMIT} occurrences can be compared"
    require(2 <= len(found) <= LIMIT, message, BadInput)
    return found


def occurrence_vectors(model: Model, texts: Sequence[str], found: Sequence[Occurrence]) -> Tensor:
    """One vector for each layer and occurrence, the mean over the word's pieces: (L + 1, n, D)."""
    needed = sorted({one.index for one in found})  # a text with the word twice is read once
    encodings = model.tokenizer.encode_batch([texts[index] for index in needed])
    read = dict(zip(needed, zip(encodings, layer_states(model, encodings), strict=True), strict=True))
    vectors = []
    for one in found:
        encoding, states = read[one.index]
        pieces = encoding.pieces_of_span(one.start, one.end)
        require(len(pieces) > 0, f"the tokenizer writes no piece for {one.text!r}", BadInput)
        vectors.append(states[:, pieces.start : pieces.stop].mean(1))
    return torch.stack(vectors, 1)


def principal_plane(x: Tensor) -> tuple[Tensor, Tensor]:
    """The first two principal components: vectors (n, D) -> places (n, 2), and their shares of the variance (2,).

    The sign of each axis is fixed, so that the same vectors always give the same map.
    """
    centred = (x - x.mean(0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    places = pad(left * sizes, (0, 2))[:, :2]
    signs = places.gather(0, places.abs().argmax(0, keepdim=True)).sign()
    # what equal vectors differ by when they are subtracted from their mean is rounding, and no variance
    rounding = 1e-10 * (x.double() ** 2).sum().clamp(min=1e-12)
    shares = pad(sizes**2 / (sizes**2).sum().clamp(min=rounding), (0, 2))[:2]
    return (places * signs.where(signs != 0, 1.0)).float(), shares.float()


def _astray(near: Tensor, found: Sequence[Occurrence]) -> list[list[list[int]]] | None:
    """By layer, the occurrences as near to one of another sense as to their own, each with that one.

    None astray, and the senses are apart; None where no sense has two occurrences, or there are not two senses.
    """
    senses = torch.tensor([one.sense for one in found])
    same = senses[:, None] == senses
    if same.all() or (same.sum(1) == 1).all():
        return None
    alone = same.sum(1) == 1  # which can be near to others only
    # equal vectors, as the embeddings of one word are, differ by rounding, which tells nothing apart
    near = near.round(decimals=4)
    own = near.masked_fill(~same | torch.eye(len(found), dtype=torch.bool), -2).amax(-1)  # (L + 1, n)
    other, nearest = near.masked_fill(same, -2).max(-1)
    wrong = (other >= own) & ~alone
    return [[[int(i), int(layer[i])] for i in lost.nonzero()[:, 0]] for layer, lost in zip(nearest, wrong, strict=True)]


def _gaps(near: Tensor, found: Sequence[Occurrence]) -> list[dict[str, Any]] | None:
    """By layer, the mean cosine within senses and between them; None where there are not two senses to compare."""
    senses = torch.tensor([one.sense for one in found])
    same = senses[:, None] == senses
    others = ~torch.eye(len(found), dtype=torch.bool)
    if same.all() or not (same & others).any():
        return None
    within, between = near[:, same & others].mean(-1), near[:, ~same].mean(-1)
    pairs = zip(rounded(within, 3), rounded(between, 3), strict=True)
    return [{"same": a, "different": b} for a, b in pairs]
