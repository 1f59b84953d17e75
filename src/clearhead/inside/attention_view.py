"""The attention page of a trace: the weights of every layer and head, opened at the head that tells most."""

# T tokens · H heads · S side of a small picture

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.inside.page import View, check_length, page

if TYPE_CHECKING:
    from clearhead.inside.trace import Trace

# A weight is stored as whole thousandths and shown with three decimals, so the page shows exactly what is stored.
# 12 × 12 heads of 512 tokens: 14 MB, against 32 MB with four decimals and 7 MB with one byte, which shows only two.
SCALE = 1000
SMALL = 32
LIMIT = 1024  # tokens; the page grows with their square, to some 50 MB here
SCRIPTS = (
    "data.js",
    "state.js",
    "lines.js",
    "matrix.js",
    "details.js",
    "overview.js",
    "finder.js",
    "masking.js",
    "main.js",
)


# words that stand for another one, which a head may find: the lectures' "it" that is the animal
PRONOUNS = "it he she they him her them his its their er sie es ihn ihm il elle ils elles lui"
# words of grammar, of which a link says little
GRAMMAR = (
    "the a an and or but because so that of to in on at by for with from as is was were are be been do did does didn t "
    "s not too will der die das den dem ein eine einen und oder ist war zu nicht le la les l un une et ou de du des est"
)
APART = 2  # how far two words stand at least, for their link to say more than that they are neighbours


@dataclass(frozen=True)
class Telling:
    """The head that a page opens at, and why: how much `token` looks at `other` there; None if no two words do."""

    layer: int
    head: int
    token: int | None = None
    other: int | None = None
    weight: float = 0.0
    pronoun: bool = False


def telling_head(trace: "Trace", layers: Sequence[int], head: int | None = None) -> Telling:
    """The head with the strongest link from one word to another that is no neighbour, pronouns first.

    Special tokens and punctuation tell nothing, since most heads look there when they have nothing else to look at;
    nor do words of grammar, and pieces that go on with a word.
    """
    pronouns, grammar = frozenset(PRONOUNS.split()), frozenset(GRAMMAR.split())
    names = [token.lstrip("Ġ▁").casefold() for token in trace.tokens]
    special = {place for place, span in enumerate(trace.spans) if span is None}
    words = [
        any(map(str.isalnum, name)) and place not in special and name[0] not in "[<#" and name not in grammar
        for place, name in enumerate(names)
    ]
    word, place = torch.tensor(words), torch.arange(len(words))
    pronoun = torch.tensor([name in pronouns for name in names]) & word
    apart = (place[:, None] - place).abs() >= APART
    may = word[:, None] & word & apart
    # a pronoun stands for a word before it, and not for another pronoun
    back = may & pronoun[:, None] & ~pronoun & (place[:, None] > place)
    for wanted, is_pronoun in ((back, True), (may, False)):
        if not wanted.any():
            continue
        found = []
        for layer in layers:
            for one in range(trace.layers[layer].heads) if head is None else [head]:
                weights = trace.layers[layer].attention(one).masked_fill(~wanted, 0)
                best = int(weights.argmax())
                found.append((float(weights.flatten()[best]), -layer, -one, best))
        weight, layer, one, best = max(found)
        token, other = divmod(best, len(words))
        return Telling(-layer, -one, token, other, round(weight, 3), is_pronoun)
    return Telling(layers[0], head or 0)


def heads_view(trace: "Trace", layer: int, head: int | None, telling: Telling | None = None) -> View:
    """Show every layer and head; the page opens at this layer and head, None being the average of all heads."""
    check_length(len(trace.tokens), LIMIT)
    chunks, small, side = {}, [], min(SMALL, len(trace.tokens))
    for one in trace.layers:
        # one head after the other, since those of a long text are large and need not be kept
        heads = torch.stack([one.attention(number) for number in range(one.heads)])
        planes = torch.cat([heads, heads.mean(0, keepdim=True)])  # (H + 1, T, T)
        chunks[f"layer-{one.index}"] = pack_weights(planes)
        # (H + 1, S, S) bytes: the largest weight of each patch, lifted so that small ones can be seen
        small.append((F.adaptive_max_pool2d(planes, side).sqrt() * 255).round().to(torch.uint8))
    chunks["small"] = zlib.compress(torch.stack(small).numpy().tobytes())
    data = {
        "tokens": trace.tokens,
        "segments": trace.sides,
        "layers": len(small),
        "heads": trace.layers[0].heads,
        "telling": None if telling is None else asdict(telling),
    }
    shown = {"scale": SCALE, "small": side, "layer": layer, "head": head}
    text = {"texts": list(trace.texts), "spans": [span and list(span) for span in trace.spans], "mask": trace.mask}
    return View("attention", page("attention", "Attention", SCRIPTS, data | shown | text, chunks), data)


def pack_weights(weights: Tensor) -> bytes:
    """Weights (…) in 0 … 1 as thousandths: all low bytes, then all high bytes, deflated. Within 0.0005 of the trace."""
    # in double precision the product is exact, so this rounds as writing the weight with three decimals does
    counts = (weights.double() * SCALE).round().to(torch.int16).flatten()
    halves = torch.stack([counts & 0xFF, counts >> 8]).to(torch.uint8)
    # long runs of equal bytes are all there is to find: as small as a full search, six times as fast
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    return deflate.compress(halves.numpy().tobytes()) + deflate.flush()
