"""A network in int8, calibrated on a sample, and what that changes on it."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import log_probabilities
from clearhead.errors import BadInput, require
from clearhead.nn.attention import MultiHeadAttention
from clearhead.nn.blocks import FeedForward, GatedFeedForward, PreNormBlock
from clearhead.nn.heads import Network, NextTokenHead, QuantisedNextTokenHead
from clearhead.nn.lora import LoRA
from clearhead.nn.quantisation import CalibratedFeedForward, CalibratedLinear, QuantisedLinear, Range, Weights, is_int8
from clearhead.pipelines.translation import told_languages

if TYPE_CHECKING:
    from clearhead.decoding.decoder import Output
    from clearhead.pipelines.generation import Generator
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.question_answering import Answer

log = logging.getLogger(__name__)

Ranges = dict[str, Range]
_ENOUGH = 100  # samples for steps that are fixed
_WATCHED = 32  # for the reach of features, to which steps are not bound


@contextmanager
def ranges_of_inputs(encoder: nn.Module) -> Iterator[Ranges]:
    """Watch an encoder while it reads: ranges grow under the names of its linear maps ("blocks.0.attention.qkv")."""
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
            if type(part) is MultiHeadAttention:
                watch_attention(name, part)
            elif type(part) in (FeedForward, GatedFeedForward):
                watch_feedforward(name, part)
        yield ranges
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def in_int8(network: Network, ranges: Mapping[str, Range] | None = None, *, fixed: bool = True) -> Network:
    """A copy whose encoder multiplies in 8 bits, and a decoder's head; all else is shared with the network as it is.

    With `ranges`, blocks with gates are smoothed; without, their first feed-forward stays as it is. If steps are to be
    `fixed`, maps whose inputs bytes can hold once and for all have those that their ranges show: an encoder's attention
    without rotary positions, and GELU feed-forwards. All other maps look at each token as it comes.
    """
    require(not is_int8(network), "this model is in int8 already", BadInput)
    seen = ranges or {}
    shared = {id(one): one for one in (*network.parameters(), *network.buffers())}
    copy = deepcopy(network, shared)
    for path, block in list(copy.encoder.named_modules()):
        if (
            type(block) is PreNormBlock
            and type(block.feedforward) is GatedFeedForward
            and f"{path}.attention.qkv" in seen
        ):
            _smooth(block, path, seen)
    made: dict[nn.Module, nn.Module] = {}
    for path, parent in list(copy.encoder.named_modules()):
        if type(parent) is LoRA or (type(parent) is GatedFeedForward and path.startswith("blocks.0.")):
            continue  # all layers build on it: in the built-in model it alone makes a third of the change
        steady = fixed and (
            type(parent) is not MultiHeadAttention or (parent.rotary is None and not parent.attend.causal)
        )
        for name, child in parent.named_children():
            if type(child) in (nn.Linear, LoRA, FeedForward):
                if child not in made:  # layers may share one
                    parts = 2 if type(parent) is GatedFeedForward and name == "up" else 1
                    made[child] = _rounded(child, f"{path}.{name}", seen if steady else {}, parts)
                setattr(parent, name, made[child])
    for name, head in copy.heads.items():
        if type(head) is NextTokenHead:
            copy.heads[name] = QuantisedNextTokenHead(head)
    return copy


def _rounded(part: Any, name: str, seen: Mapping[str, Range], parts: int) -> nn.Module:
    if type(part) is not FeedForward:
        weights = _weights(part)
        return CalibratedLinear(*weights, seen[name]) if name in seen else QuantisedLinear(*weights, parts)
    if f"{name}.down" in seen and part.act is F.gelu:
        up, down = _weights(part.up), _weights(part.down)
        return CalibratedFeedForward(up, down, seen[f"{name}.up"], seen[f"{name}.down"])
    return part  # its maps are met later, by themselves


_STRENGTH = 0.7  # how much of a feature's reach goes into the matrix; of 0.5 and 0.7, this keeps more answers
_SMALL = 1e-5


def _smooth(block: Any, path: str, seen: Mapping[str, Range]) -> None:
    """Quantise the four maps of a block after their inputs' features were brought to like reach (see `_Quantiser`).

    What is divided out of an input is multiplied into the matrix, and comes for nothing: the division is in the norm,
    the values' or the gates' rows before it.
    """
    attention, feedforward = block.attention, block.feedforward
    qkv, output = _weights(attention.qkv), _weights(attention.output)
    up, down = _weights(feedforward.up), _weights(feedforward.down)
    down, by = _times_reach(down, seen[f"{path}.feedforward.down"])
    up = _last_rows_divided(up, by)
    output, by = _times_reach(output, seen[f"{path}.attention.output"])
    qkv = _last_rows_divided(qkv, by)
    up, by = _times_reach(up, seen[f"{path}.feedforward.up"])
    block.norm_2 = _norm_divided(block.norm_2, by)
    if type(block.norm_1) is nn.LayerNorm:  # the first block has none
        qkv, by = _times_reach(qkv, seen[f"{path}.attention.qkv"])
        block.norm_1 = _norm_divided(block.norm_1, by)
    attention.qkv, attention.output = QuantisedLinear(*qkv), QuantisedLinear(*output)
    feedforward.up, feedforward.down = QuantisedLinear(*up, parts=2), QuantisedLinear(*down)


def _times_reach(weights: Weights, seen: Range) -> tuple[Weights, Tensor]:
    reach = torch.maximum(seen.high, -seen.low).clamp(min=_SMALL)
    by = reach**_STRENGTH / weights.matrix.abs().amax(0).clamp(min=_SMALL) ** (1 - _STRENGTH)
    return Weights(weights.matrix * by, weights.bias), by


def _last_rows_divided(weights: Weights, by: Tensor) -> Weights:
    factors = torch.ones(len(weights.matrix))
    factors[-len(by) :] = 1 / by
    return Weights(weights.matrix * factors[:, None], None if weights.bias is None else weights.bias * factors)


def _norm_divided(norm: nn.LayerNorm, by: Tensor) -> nn.LayerNorm:
    divided = deepcopy(norm, {})
    divided.weight = nn.Parameter(norm.weight / by)
    if norm.bias is not None:
        divided.bias = nn.Parameter(norm.bias / by)
    return divided


def _weights(layer: Any) -> Weights:
    return Weights(layer.weight, layer.base.bias if isinstance(layer, LoRA) else layer.bias)


def sample_size(network: Network) -> int:
    """How many texts show what int8 is worth: more where they fix the steps."""
    fixed = any(type(part) is FeedForward and part.act is F.gelu for part in network.encoder.modules())
    return 2 * _ENOUGH if fixed else 2 * _WATCHED


def quantised(model: "Model", sample: Sequence[Any], loss: float) -> "Model":
    """The model in 8 bits; refuse where it is further from the model than `loss` on the sample.

    Of vectors, that is 1 - cosine, on average; of tags, the share that differs; of answers, labels, choices and words
    for masks, by how much the model itself finds the other answer less probable: another one of two that are as good
    counts for nothing. Of texts that are written, greedily, the probability of a token counts, as a geometric mean over
    the text. Steps are taken from every second sample: the others show what the steps are worth. A small
    sample cannot say what will come, so that its network looks at each token as it comes.
    """
    compared = _use(model, sample)
    if compared == "texts written":  # no step of a decoder is fixed
        small = type(model)(replace(model.checkpoint, network=in_int8(model.network)))
        return _allowed(small, compared, len(sample), _change_of_texts(model, small, sample), loss)
    fixed = len(sample) >= _ENOUGH
    with ranges_of_inputs(model.network.encoder) as ranges:
        _results(model, compared, sample[::2] if fixed else sample[:_WATCHED])
    small = type(model)(replace(model.checkpoint, network=in_int8(model.network, ranges, fixed=fixed)))
    old, new = (_results(one, compared, sample) for one in (model, small))
    return _allowed(small, compared, len(sample), _change(compared, old, new), loss)


def _allowed(small: "Model", compared: str, count: int, change: float, loss: float) -> "Model":
    """The small model, if it changes no more than `loss`."""
    told = f"int8 changes the {compared} of {count} samples by {change:.4f}, more than loss={loss} allows"
    todo = "keep the model in fp32; in Python, a larger loss= allows more"
    require(change <= loss, f"{told}; {todo}", BadInput)
    log.info("int8 compared=%s samples=%d change=%.5f", compared.replace(" ", "_"), count, change)
    return small


_NEW_TOKENS = 32  # that go on from a prompt


def _change_of_texts(model: "Model", small: "Model", sample: Sequence[str]) -> float:
    """By how much the model finds a token of the small one's texts less probable than one of its own, on average."""
    generator, small_one = model.generator, small.generator
    told = [""] * len(sample)
    if generator.sourced and generator.tokenizer.languages is not None:
        (generator, before), (small_one, _) = (told_languages(one, None, None) for one in (generator, small_one))
        told = [before(text) for text in sample]
    read = generator.ids([tag + text for tag, text in zip(told, sample, strict=True)])
    # as `translate` bounds it, or as many as show how a prompt goes on
    limits = [2 * len(ids) + 8 if generator.sourced else _NEW_TOKENS for ids in read]
    greedy = GenerationConfig()
    own, other = (one.write(read, limits, greedy) for one in (generator, small_one))
    changes = []
    for ids, (mine,), (theirs,) in zip(read, own, other, strict=True):
        if mine.tokens == theirs.tokens:
            changes.append(0.0)
            continue
        likely = [_probability_of_token(generator, ids, one) for one in (mine, theirs)]
        changes.append(max(likely[0] - likely[1], 0.0))
    return float(np.mean(changes))


def _probability_of_token(generator: "Generator", ids: Sequence[int], written: "Output") -> float:
    """The geometric mean of the probabilities of a text's tokens, of its end too, by the generator's model."""
    follow = [*written.tokens, *((generator.end,) if written.ended else ())]
    total = 0.0
    with torch.inference_mode():
        logits, state = generator.model.begin([list(ids)])
        for count, token in enumerate(follow, 1):
            total += float(log_probabilities(logits)[0, token])
            if count < len(follow):
                logits, state = generator.model.step(torch.tensor([token], device=logits.device), state)
    return math.exp(total / max(len(follow), 1))


def _change(compared: str, old: Sequence[Any], new: Sequence[Any]) -> float:
    """How much worse the new results are, by the old ones' own account; see `quantised`."""
    both = list(zip(old, new, strict=True))
    match compared:
        case "vectors":
            changes = [1 - one @ other for one, other in both]
        case "scores":
            changes = [abs(one - other) for one, other in both]
        case "tags":
            changes = [float(one != other) for one, other in both]
        case _:
            changes = [max(held[one] - held.get(other, 0.0), 0.0) for (one, held), (other, _) in both]
    return float(np.mean(changes)) if changes else 0.0


def _use(model: "Model", sample: Sequence[Any]) -> str:
    """What a model is mostly used for: its head says it, unless it was made for vectors."""
    require(len(sample) > 0, "the sample is empty; give texts of the kind that the model will read", BadInput)
    heads = model.network.heads
    if "causal_lm" in heads:
        return "texts written"
    if model.checkpoint.sentence is not None:
        return "vectors"
    if "masked_lm" in heads and all(model.tokenizer.special.get("mask", "") in text for text in sample):
        return "words for masks"
    if "classes" in heads:
        return "scores" if model.checkpoint.description.problem == "regression" else "labels"
    named = {"span": "answers", "choice": "choices", "tags": "tags"}
    return next((what for head, what in named.items() if head in heads), "vectors")


def _results(model: "Model", what: str, sample: Sequence[Any]) -> list[Any]:
    """A vector, score or tag each; of all else, the answer and the probabilities of what it was chosen from."""
    match what:
        case "vectors":
            return list(model.embed(sample, normalise=True))
        case "answers":
            questions, contexts = zip(*sample, strict=True)
            threshold = model.checkpoint.description.threshold
            return [_chosen(one, threshold) for one in model.answer(questions, contexts, top_k=_CANDIDATES)]
        case "choices":
            return [(one.index, dict(enumerate(one.scores))) for one in model.choose(sample)]
        case "tags":
            return [word.label for one in model.tag(sample) for word in one.words]
        case "labels":
            return [(one.label, one.scores) for one in model.classify(sample)]
        case "scores":
            return [one.score for one in model.classify(sample)]
        case _:
            words = [(i, one) for i, found in enumerate(model.fill(sample)) for one in found.predictions]
            masks = [list(group) for _, group in groupby(words, lambda pair: (pair[0], pair[1].mask))]
            return [(mask[0][1].token, {one.token: one.score for _, one in mask}) for mask in masks]


_CANDIDATES = 5


def _chosen(found: "Answer", threshold: float) -> tuple[Any, dict[Any, float]]:
    """The span that was chosen, None for no answer, and the probabilities of the best spans and of none."""
    logits: dict[Any, float] = {(one.start, one.end): one.logit for one in found.candidates}
    logits[None] = found.null_score - threshold if logits else 0.0  # which is how the two are compared
    shares = torch.tensor(list(logits.values())).softmax(0).tolist()
    return None if found.start is None else (found.start, found.end), dict(zip(logits, shares, strict=True))
