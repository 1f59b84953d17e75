"""Two passes side by side: where their attention differs, and how far each token's vector has moved.

Two texts, two models, or a model before and after fine-tuning: tokens that both have are compared.
"""

# P pairs of tokens · L layers · H heads · D width

import zlib
from difflib import SequenceMatcher

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from clearhead.errors import BadInput, keywords, require
from clearhead.inside.page import View, page, rounded
from clearhead.inside.trace import Trace, trace_of_short
from clearhead.pipelines.model import Model

SCRIPTS = ("shared/heatmap.js", "main.js")
LIMIT = 192  # tokens; the page holds a table of their squares for every head
SCALE = 1000


@keywords
def difference(
    first: Model,
    second: Model,
    text: str,
    other: str | None = None,
    pair: str | None = None,
    other_pair: str | None = None,
) -> View:
    """Compare how two models read a text, or how they read two texts: `other`, and its pair, is for the second."""
    one = trace_of_short(first, text, pair, most=LIMIT)
    other_pair = pair if other_pair is None else other_pair
    two = trace_of_short(second, text if other is None else other, other_pair, most=LIMIT)
    pairs = aligned(one.tokens, two.tokens)
    nothing = "the two texts have no token in common, so there is nothing to compare; give texts that share words"
    require(bool(pairs), nothing, BadInput)
    rows, columns = (torch.tensor([both[side] for both in pairs], dtype=torch.long) for side in (0, 1))
    alike = len(one.layers) == len(two.layers) and one.layers[0].heads == two.layers[0].heads
    data = {
        "tokens": [_name(one.tokens[i], two.tokens[j]) for i, j in pairs],
        "first": one.tokens,
        "second": two.tokens,
        "pairs": [list(both) for both in pairs],
        "by_head": alike,
        "differ": None,
        "moved": _moved(one, two, rows, columns),
    }
    planes: list[Tensor] = []  # (H, P, P) each
    differ = []
    for mine, theirs in zip(_weights(one, alike), _weights(two, alike), strict=True):
        change = theirs[:, columns][:, :, columns] - mine[:, rows][:, :, rows]
        # half of all that was moved from one token to another: 0 is the same attention, 1 is another altogether
        outside = 2 - theirs[:, columns][:, :, columns].sum(-1) - mine[:, rows][:, :, rows].sum(-1)
        differ.append(((change.abs().sum(-1) + outside) / 2).mean(-1))
        planes.append(change)
    data["differ"] = rounded(torch.stack(differ), 3)
    chunks = {f"layer-{index}": _packed(plane) for index, plane in enumerate(planes)}
    most = torch.stack(differ).flatten().argmax().item()
    layer, head = divmod(int(most), len(differ[0]))
    facts = data | {"scale": SCALE, "layer": layer, "head": head}
    return View("difference", page("difference", "Difference", SCRIPTS, facts, chunks), data)


def aligned(first: list[str], second: list[str]) -> list[tuple[int, int]]:
    """The places of tokens that both texts have, in order; words that stand for one another are compared, too."""
    found: list[tuple[int, int]] = []
    for kind, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and b - a == d - c):
            found += zip(range(a, b), range(c, d), strict=True)
    return found


def _name(first: str, second: str) -> str:
    return first if first == second else f"{first} | {second}"


def _weights(traced: Trace, by_head: bool) -> list[Tensor]:
    """For each layer its heads' weights (H, T, T); of models of different sizes the mean over all, (1, T, T)."""
    layers = [layer.weights for layer in traced.layers]
    return layers if by_head else [torch.stack([weights.mean(0) for weights in layers]).mean(0, keepdim=True)]


def _moved(one: Trace, two: Trace, rows: Tensor, columns: Tensor) -> list[list[float]] | None:
    """1 − cosine of both vectors of a token, in the embeddings and after each block: (L + 1, P), where sizes agree."""
    if len(one.layers) != len(two.layers) or one.embeddings.shape[-1] != two.embeddings.shape[-1]:
        return None
    states = [[traced.embeddings, *(layer.hidden for layer in traced.layers)] for traced in (one, two)]
    moved = [1 - cosine_similarity(a[rows], b[columns], dim=-1) for a, b in zip(*states, strict=True)]
    table: list[list[float]] = rounded(torch.stack(moved), 3)
    return table


def _packed(change: Tensor) -> bytes:
    """Differences (H, P, P) in −1 … 1 as thousandths, with 1000 added: all low bytes, then all high bytes, deflated."""
    counts = (change.double() * SCALE).round().to(torch.int16).flatten() + SCALE
    return zlib.compress(torch.stack([counts & 0xFF, counts >> 8]).to(torch.uint8).numpy().tobytes())
