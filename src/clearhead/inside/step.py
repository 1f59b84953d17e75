"""One head, one token at a time: its real query, keys, values, scores and weights."""

# T tokens · K head width

from collections.abc import Sequence
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.inside.layer import Layer
from clearhead.inside.numbers import rounded
from clearhead.inside.page import check_length, page
from clearhead.inside.view import View

SCRIPTS = ("shared/heatmap.js", "main.js")
LIMIT = 128  # tokens; the page holds three tables of their squares


def step_view(tokens: Sequence[str], layer: Layer, head: int, token: int) -> View:
    """Show how one head computes; the page opens at this token."""
    layer.check_head(head)
    last = len(tokens) - 1
    require(0 <= token <= last, f"token {token} does not exist, the text has tokens 0 to {last}", BadInput)
    check_length(len(tokens), LIMIT)
    q, k, v = layer.q[head], layer.k[head], layer.v[head]
    weights = layer.attention(head)
    data: dict[str, Any] = {
        "tokens": list(tokens),
        "layer": layer.index,
        "head": head,
        "token": token,
        "turned": layer.turned,
        "q": rounded(q, 3),
        "k": rounded(k, 3),
        "v": rounded(v, 3),
        "scores": rounded(q @ k.mT, 3),
        "scaled": rounded(q @ k.mT * q.shape[-1] ** -0.5, 3),
        "weights": rounded(weights),
        "output": rounded(weights @ v, 3),
    }
    return View("step", page("step", "One token, step by step", SCRIPTS, data), data)
