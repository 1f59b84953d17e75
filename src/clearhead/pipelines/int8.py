"""A network in int8, calibrated on a sample, and what that changes on it."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadInput, WrongTask, require
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward
from clearhead.nn.heads import Network
from clearhead.nn.lora import LoRA
from clearhead.nn.quantisation import CalibratedFeedForward, CalibratedLinear, QuantisedLinear, Range, Weights, is_int8

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

log = logging.getLogger(__name__)

Ranges = dict[str, Range]
_ENOUGH = 100  # samples


@contextmanager
def ranges_of_inputs(encoder: nn.Module) -> Iterator[Ranges]:
    """Watch an encoder while it reads: the ranges grow under the names of its linear maps ("blocks.0.attention.qkv").

    Maps whose inputs bytes can hold once and for all are watched: those of an encoder's attention without rotary
    positions and of GELU feed-forwards. In ModernBERT's blocks, whose gates reach far now and then, fixed steps cost
    accuracy.
    """
    ranges: Ranges = {}
    lock = Lock()  # batches may run side by side

    def widen(name: str, x: Tensor) -> None:
        if not x.numel():
            return
        tokens = x.detach().reshape(-1, x.shape[-1]).float()
        low, high = tokens.amin(0), tokens.amax(0)
        with lock:
            if name in ranges:
                low, high = torch.minimum(low, ranges[name].low), torch.maximum(high, ranges[name].high)
            ranges[name] = Range(low, high)

    def watch_attention(name: str, part: MultiHeadAttention) -> None:
        handles.append(part.register_forward_pre_hook(lambda _, given: widen(f"{name}.qkv", given[0])))
        handles.append(part.attend.register_forward_hook(lambda _, __, out: widen(f"{name}.output", out.flatten(-2))))

    def watch_feedforward(name: str, part: FeedForward) -> None:
        handles.append(part.register_forward_pre_hook(lambda _, given: widen(f"{name}.up", given[0])))
        handles.append(part.register_forward_pre_hook(lambda _, given: widen(f"{name}.down", part.inner(given[0]))))

    handles: list[Any] = []
    try:
        for name, part in encoder.named_modules():
            if type(part) is MultiHeadAttention and part.rotary is None and not part.attend.causal:
                watch_attention(name, part)
            elif type(part) is FeedForward and part.act is F.gelu:
                watch_feedforward(name, part)
        yield ranges
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def in_int8(network: Network, ranges: Mapping[str, Range] | None = None) -> Network:
    """A copy whose encoder multiplies in 8 bits; embeddings, norms and heads are shared with the network as it is.

    So is the first feed-forward, if it is gated. Maps whose `ranges` are known from a sample have fixed steps; the
    others look at each token as it comes.
    """
    require(not is_int8(network), "this model is in int8 already", BadInput)
    seen = ranges or {}
    shared = {id(one): one for one in (*network.parameters(), *network.buffers())}
    copy = deepcopy(network, shared)
    made: dict[nn.Module, nn.Module] = {}
    for path, parent in list(copy.encoder.named_modules()):
        if type(parent) is LoRA or (type(parent) is GatedFeedForward and path.startswith("blocks.0.")):
            continue  # all layers build on it: in the built-in model it alone makes a third of the change
        for name, child in parent.named_children():
            if type(child) in (nn.Linear, LoRA, FeedForward):
                if child not in made:  # layers may share one
                    made[child] = _rounded(child, f"{path}.{name}", seen)
                setattr(parent, name, made[child])
    return copy


def _rounded(part: Any, name: str, seen: Mapping[str, Range]) -> nn.Module:
    if type(part) is not FeedForward:
        weights = _weights(part)
        return CalibratedLinear(*weights, seen[name]) if name in seen else QuantisedLinear(*weights)
    if f"{name}.down" in seen:
        up, down = _weights(part.up), _weights(part.down)
        return CalibratedFeedForward(up, down, seen[f"{name}.up"], seen[f"{name}.down"])
    return part  # its maps are met later, by themselves


def _weights(layer: Any) -> Weights:
    return Weights(layer.weight, layer.base.bias if isinstance(layer, LoRA) else layer.bias)


def quantised(model: "Model", sample: Sequence[Any], loss: float) -> "Model":
    """The model in 8 bits; refuse where it is further from the model than `loss` on the sample.

    Of answers, labels, tags, choices and words for masks, that is the share that differs; of vectors, 1 - cosine, on
    average. Steps are taken from every second sample: the others show what the steps are worth. A small sample cannot
    say what will come, so that its network looks at each token as it comes.
    """
    compared = _use(model, sample)
    ranges: Ranges = {}
    if len(sample) >= _ENOUGH:
        with ranges_of_inputs(model.network.encoder) as ranges:
            _results(model, compared, sample[::2])
    small = type(model)(replace(model.checkpoint, network=in_int8(model.network, ranges)))
    old, new = (_results(one, compared, sample) for one in (model, small))
    if compared == "vectors":
        change = float(np.mean([1 - one @ other for one, other in zip(old, new, strict=True)]))
    elif compared == "scores":
        change = float(np.mean(np.abs(np.subtract(old, new))))
    else:
        change = sum(one != other for one, other in zip(old, new, strict=True)) / max(len(old), 1)
    told = f"int8 changes the {compared} of {len(sample)} samples by {change:.4f}, more than loss={loss} allows"
    todo = "keep the model in fp32; in Python, a larger loss= allows more"
    require(change <= loss, f"{told}; {todo}", BadInput)
    log.info("int8 compared=%s samples=%d change=%.5f", compared.replace(" ", "_"), len(sample), change)
    return small


def _use(model: "Model", sample: Sequence[Any]) -> str:
    """What a model is mostly used for: its head says it, unless it was made for vectors."""
    require(len(sample) > 0, "the sample is empty; give texts of the kind that the model will read", BadInput)
    heads = model.network.heads
    require("causal_lm" not in heads, "a model that writes has no int8 form; quantise an encoder", WrongTask)
    if model.checkpoint.sentence is not None:
        return "vectors"
    if "masked_lm" in heads and all(model.tokenizer.special.get("mask", "") in text for text in sample):
        return "words for masks"
    if "classes" in heads:
        return "scores" if model.checkpoint.description.problem == "regression" else "labels"
    named = {"span": "answers", "choice": "choices", "tags": "tags"}
    return next((what for head, what in named.items() if head in heads), "vectors")


def _results(model: "Model", what: str, sample: Sequence[Any]) -> list[Any]:
    match what:
        case "vectors":
            return list(model.embed(sample, normalise=True))
        case "answers":
            questions, contexts = zip(*sample, strict=True)
            return [(one.start, one.end) for one in model.answer(questions, contexts)]
        case "choices":
            return [one.index for one in model.choose(sample)]
        case "tags":
            return [word.label for one in model.tag(sample) for word in one.words]
        case "labels":
            return [one.label for one in model.classify(sample)]
        case "scores":
            return [one.score for one in model.classify(sample)]
        case _:
            return [word.token for one in model.fill(sample, top_k=1) for word in one.predictions]
