"""The block page: one block of a real pass, part by part, and the residual stream of each token as bars."""

# T tokens · D width · F features that are drawn

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import WrongTask, keywords, require
from clearhead.inside.model_view import anatomy
from clearhead.inside.page import View, rounded
from clearhead.inside.trace import trace_of_short
from clearhead.nn.decoder import EncoderDecoder
from clearhead.pipelines.model import Model

SCRIPTS = ("shared/svg.js", "bars.js", "main.js")
FEATURES = 48  # of each vector, one bar each


@keywords
def one_block(model: Model, text: str, pair: str | None = None, *, layer: int = 0) -> View:
    """Show attention, addition, norm and feed-forward of every block; the page opens at this layer, from 0.

    Of an encoder–decoder, its encoder's blocks.
    """
    told = f"a {model.family} is recurrent and has no blocks; see how it writes: look decoding"
    require(hasattr(model, "encoder"), told, WrongTask)
    passed = trace_of_short(model, text, pair)
    passed.attention(layer, 0)  # refuses a layer that is not there
    blocks: Any = model.encoder.encoder_blocks if isinstance(model.encoder, EncoderDecoder) else model.encoder.blocks
    pre_norm = torch.equal(passed.layers[0].middle, passed.layers[0].attention_sum)
    stages = []
    for one in passed.layers:
        parts = {
            "before": one.before,
            "attention": one.attention_output,
            "first sum": one.attention_sum,
            **({} if pre_norm else {"first norm": one.middle}),
            "feed-forward": one.feedforward_output,
            "second sum": one.feedforward_sum,
            **({} if pre_norm else {"second norm": one.hidden}),
        }
        stages.append({name: _vectors(x) for name, x in parts.items()})
    data = {
        "family": model.family,
        "tokens": passed.tokens,
        "width": model.encoder.width,
        "layer": layer,
        "pre_norm": pre_norm,
        "anatomy": anatomy(model.encoder, blocks[0]),
        # the first block of some stacks has its input normalised already
        "normed": [pre_norm and not isinstance(block.norm_1, nn.Identity) for block in blocks],
        "blocks": stages,
    }
    return View.of("block", "One block", SCRIPTS, data)


def _vectors(x: Tensor) -> dict[str, Any]:
    return {"values": rounded(x[:, :FEATURES], 3), "norms": rounded(x.norm(dim=-1), 2)}
