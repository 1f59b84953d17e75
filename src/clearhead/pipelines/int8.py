"""A network in 8 bits, and what that changes on a sample: vectors turn a little, or answers become others."""

import logging
from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from clearhead.errors import BadInput, WrongTask, require
from clearhead.nn.lora import LoRA
from clearhead.nn.network import Network
from clearhead.nn.quantised import QuantisedLinear, is_int8

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

log = logging.getLogger(__name__)


@torch.no_grad()
def in_int8(network: Network) -> Network:
    """A copy whose encoder multiplies in 8 bits; embeddings, norms and heads are shared with the network as it is."""
    require(not is_int8(network), "this model is in int8 already", BadInput)
    shared = {id(one): one for one in (*network.parameters(), *network.buffers())}
    copy = deepcopy(network, shared)
    made: dict[nn.Module, QuantisedLinear] = {}
    for parent in list(copy.encoder.modules()):
        for name, child in parent.named_children():
            if type(child) in (nn.Linear, LoRA):
                if child not in made:  # layers may share one
                    made[child] = _rounded(child)
                setattr(parent, name, made[child])
    return copy


def _rounded(layer: Any) -> QuantisedLinear:
    if type(layer) is nn.Linear:
        return QuantisedLinear(layer.weight, layer.bias)
    weight = layer.base.weight if layer.merged else layer.base.weight + layer.up @ layer.down * layer.scale
    return QuantisedLinear(weight, layer.base.bias)


def check_change(before: "Model", after: "Model", sample: Sequence[Any], loss: float) -> None:
    """Refuse where the two are further apart on the sample than `loss`."""
    measured, compared = change(before, after, sample)
    require(
        measured <= loss,
        f"int8 changes the {compared} of {len(sample)} samples by {measured:.4f}, more than loss={loss} allows; "
        "keep the model in fp32 or allow more",
        BadInput,
    )
    log.info("int8 compared=%s samples=%d change=%.5f", compared.replace(" ", "_"), len(sample), measured)


def change(before: "Model", after: "Model", sample: Sequence[Any]) -> tuple[float, str]:
    """How far the two are apart on a sample of what the model is used for, and what was compared.

    Of answers, labels, tags, choices and words for masks: the share that differs. Of vectors: 1 - cosine, on average.
    """
    require(len(sample) > 0, "the sample is empty; give texts of the kind that the model will read", BadInput)
    if "causal_lm" in before.network.heads:
        raise WrongTask("a model that writes has no int8 form; quantise an encoder")
    compared = _use(before, sample)
    if compared == "vectors":
        first, second = (model.embed(sample, normalise=True) for model in (before, after))
        return float(np.mean(1 - (first * second).sum(-1))), compared
    old, new = (_results(model, compared, sample) for model in (before, after))
    if compared == "scores":
        return float(np.mean(np.abs(np.subtract(old, new)))), compared
    return sum(one != other for one, other in zip(old, new, strict=True)) / max(len(old), 1), compared


def _use(model: "Model", sample: Sequence[Any]) -> str:
    """What a model is mostly used for: its head says it, unless it was made for vectors."""
    heads = model.network.heads
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
            return [word.token for one in model.fill(sample, top=1) for word in one.predictions]
