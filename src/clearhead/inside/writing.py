"""What a decoder did, step by step: its candidates, what went on from each beginning, and where it looked."""

# R rows (beginnings) of a step · L layers · H heads · K head width · S tokens looked at

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.decoding.results import Output, Recorder, Step
from clearhead.nn.alignment import AttentionContext
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.network import Network
from clearhead.nn.record import Call, record
from clearhead.pipelines.manner import Manner
from clearhead.pipelines.write import Writer


@dataclass(frozen=True)
class Watched:
    """One text as it was written: what was read, every step of every beginning, and how it ended, the best first."""

    read: list[int]
    steps: list[Step]
    attention: list[Tensor]  # of each step (L, S), the mean of each layer's heads; empty where there is none to see
    outputs: list[Output]


def watch(writer: Writer, text: str, *, longest: int, beams: int, top: int) -> Watched:
    """Write one text, greedily or by beams, and keep what can be seen."""
    (read,) = writer.ids([text])
    # what goes on from a beginning is among its best 2 × beams continuations
    recorder = Recorder(top=max(top, 2 * beams))
    parts = looking_parts(writer)
    with record(*parts) as calls:
        (outputs,) = writer.write([read], [longest], Manner(beams=beams, best=beams), recorder=recorder)
    attention = [] if not parts else _by_step(recorder.steps, calls, len(parts))
    return Watched(read, recorder.steps, attention, outputs)


def looking_parts(writer: Writer) -> list[nn.Module]:
    """What to watch: cross-attention to the source, a decoder's look back, or a recurrent model's alignment."""
    module: Any = writer.module
    if isinstance(module, Network):
        body: Any = module.encoder
        if writer.sourced:
            return [block.cross.attend for block in body.decoder_blocks]
        return [block.attention.attend for block in body.blocks]
    context = getattr(module, "context", None)
    return [context.align] if isinstance(context, AttentionContext) else []


def _by_step(steps: list[Step], calls: list[Call], layers: int) -> list[Tensor]:
    """One (L, S) for each recorded step: every round of all rows has one call of each layer."""
    found: list[Tensor] = []
    rounds = [len(list(group)) for _, group in groupby(steps, key=lambda step: step.number)]
    for number, rows in enumerate(rounds):
        some = calls[number * layers : (number + 1) * layers]
        found += torch.stack([_weights(call, rows) for call in some], 1).float().cpu().unbind()
    return found


def _weights(call: Call, rows: int) -> Tensor:
    """The weights (R, S) of one call, the mean of its heads."""
    if isinstance(call.output, Tensor) and len(call.inputs) == 2:  # an alignment gives its weights: (R, 1, S)
        return call.output[:, 0]
    q, k = call.inputs[:2]
    if q.dim() == 3:  # a prompt, packed: its last token decides
        q, k = q[-1:].unsqueeze(0), k.unsqueeze(0)
    q = q.flatten(0, 1).unsqueeze(2)  # (R, H, 1, K)
    k = k.transpose(1, 2).repeat_interleave(rows // k.shape[0], 0)  # (R, H, S, K)
    return scaled_dot_product(q, k, k)[1].mean(1)[:, 0]
