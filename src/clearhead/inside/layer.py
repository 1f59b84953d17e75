"""One layer of a trace: what was recorded as tensors, what follows from it on demand."""

# T tokens · D width · H heads · K head width

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, require
from clearhead.nn.attention import scaled_scores
from clearhead.nn.lora import LoRA
from clearhead.nn.record import Call
from clearhead.nn.sight import causal_mask, window_mask

# the parts of a block that are watched beside the block itself
PARTS = ("attention.attend", "attention", "norm_1", "feedforward", "norm_2")


@dataclass(frozen=True, repr=False)
class Layer:
    """What one layer did to T tokens. Scores and weights (H, T, T) are derived when asked for.

    before -> attention_sum = before + attention_output -> middle -> feedforward_sum = middle + feedforward_output
    -> hidden. A post-norm block normalises both sums; in a pre-norm block `middle` and `hidden` are the sums.
    """

    index: int
    before: Tensor  # (T, D), the hidden states that entered
    q: Tensor  # (H, T, K), after the rotation where there is one
    k: Tensor  # (H, T, K)
    v: Tensor  # (H, T, K)
    window: int | None  # how far a token sees to either side
    head_output: Tensor  # (H, T, K), weights · v
    output_matrix: Tensor  # (D, H·K), W^O
    attention_output: Tensor  # (T, D), all heads side by side times W^O, plus the bias
    attention_sum: Tensor  # (T, D)
    middle: Tensor  # (T, D)
    feedforward_output: Tensor  # (T, D)
    feedforward_sum: Tensor  # (T, D)
    hidden: Tensor  # (T, D), the hidden states that leave
    turned: bool = False  # whether queries and keys were turned by their positions
    causal: bool = False  # whether a token sees only itself and what is before it

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.q.shape[0]

    @property
    def raw_scores(self) -> Tensor:
        """Every query times every key: (H, T, T)."""
        return self.q @ self.k.mT

    @property
    def scores(self) -> Tensor:
        """The same divided by √K: (H, T, T)."""
        return scaled_scores(self.q, self.k)

    @cached_property
    def weights(self) -> Tensor:
        """Softmax of the scores over the tokens in sight: (H, T, T), each row sums to 1."""
        return _weights(self.q, self.k, self.window, causal=self.causal)

    def attention(self, head: int) -> Tensor:
        """One head's weights, (T, T), without computing and keeping those of the others."""
        self.check_head(head)
        return _weights(self.q[head], self.k[head], self.window, causal=self.causal)

    def contribution(self, head: int) -> Tensor:
        """What one head adds to the residual stream: (T, D). All heads and the bias make `attention_output`."""
        self.check_head(head)
        width = self.v.shape[-1]
        return self.head_output[head] @ self.output_matrix[:, head * width : (head + 1) * width].mT

    def check_head(self, head: int) -> None:
        """Refuse a head that is not there."""
        last = self.heads - 1
        require(0 <= head <= last, f"head {head} does not exist, layer {self.index} has heads 0 to {last}", BadInput)

    def __repr__(self) -> str:
        tokens, width = self.hidden.shape
        reach = "" if self.window is None else f", window {self.window}"
        return f"Layer({self.index}: {tokens} tokens × {width}, {self.heads} heads × {self.q.shape[-1]}{reach})"


def watched(blocks: Iterable[nn.Module]) -> list[nn.Module]:
    """List the modules whose calls `read_layers` needs."""
    return [part for block in blocks for part in (block, *(block.get_submodule(name) for name in PARTS))]


def read_layers(blocks: Iterable[nn.Module], calls: Iterable[Call]) -> list[Layer]:
    """Sort the calls of the watched modules into layers: a block returns after all of its parts."""
    names = {block.get_submodule(name): name for block in blocks for name in PARTS}
    layers: list[Layer] = []
    parts: dict[str, Call] = {}
    for call in calls:
        if call.module in names:
            parts[names[call.module]] = call
        else:
            layers.append(_layer(len(layers), parts, call))
            parts = {}
    return layers


def _layer(index: int, parts: dict[str, Call], block: Call) -> Layer:
    attend, norm_1, norm_2 = parts["attention.attend"], parts["norm_1"], parts["norm_2"]
    q, k, v = (_heads_first(x) for x in attend.inputs[:3])
    # a pre-norm block normalises the very tensor that enters it, a post-norm block the sum
    pre_norm = norm_1.inputs[0] is block.inputs[0]
    attention_sum = norm_2.inputs[0] if pre_norm else norm_1.inputs[0]
    return Layer(
        index=index,
        before=_plain(block.inputs[0]),
        q=q,
        k=k,
        v=v,
        window=getattr(attend.module, "window", None),
        head_output=_heads_first(attend.output),
        output_matrix=_matrix(block.module.get_submodule("attention.output")),
        attention_output=_plain(parts["attention"].output),
        attention_sum=_plain(attention_sum),
        middle=_plain(attention_sum if pre_norm else norm_1.output),
        feedforward_output=_plain(parts["feedforward"].output),
        feedforward_sum=_plain(block.output if pre_norm else norm_2.inputs[0]),
        hidden=_plain(block.output),
        turned=getattr(block.module.get_submodule("attention"), "rotary", None) is not None,
        causal=getattr(attend.module, "causal", False),
    )


def _weights(q: Tensor, k: Tensor, window: int | None, *, causal: bool) -> Tensor:
    scores = scaled_scores(q, k)
    if causal:
        scores = scores.masked_fill(~causal_mask(q.shape[-2], q.device), -torch.inf)
    if window is not None:
        scores = scores.masked_fill(~window_mask(q.shape[-2], window, q.device), -torch.inf)
    return scores.softmax(-1)


def _plain(x: Tensor) -> Tensor:
    return x.detach().float().cpu()


def _heads_first(x: Any) -> Tensor:
    return _plain(x).transpose(0, 1)  # (T, H, K) -> (H, T, K)


def _matrix(linear: nn.Module) -> Tensor:
    """Copy W^O, (D, H·K), with its adapter if it has one, so that later training leaves the trace alone."""
    if isinstance(linear, LoRA):
        correction = 0.0 if linear.merged else linear.up @ linear.down * linear.scale
        return _plain(linear.base.weight + correction)
    return _plain(linear.get_parameter("weight")).clone()
