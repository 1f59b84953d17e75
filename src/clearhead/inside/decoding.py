"""The decoding page: at each step the candidates and their probabilities, the attention, and the tree of beams.

Beside it another model may write the same text, and both may be judged by the length of what they translate.
"""

# R rows (hypotheses) of a step · L layers · H heads · K head width · S tokens attended · V vocabulary

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import Output, Recorder, Step
from clearhead.errors import BadInput, WrongTask, keywords, renamed, require
from clearhead.evaluation.translation import chrf
from clearhead.inside.page import LIMIT, View, check_length, rounded
from clearhead.nn.alignment import AttentionContext, FixedContext
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.heads import Network
from clearhead.nn.hooks import Call, evaluating, record
from clearhead.nn.layout import pack_ids
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.model import Model
from clearhead.pipelines.translation import told_languages
from clearhead.text import Tokenizer
from clearhead.text.languages import tag

SCRIPTS = ("shared/svg.js", "shared/heatmap.js", "tree.js", "spread.js", "beside.js", "main.js")
SPREAD = 32  # candidates whose probabilities follow the temperature
TEMPERATURES = [round(0.1 * tenth, 1) for tenth in range(1, 21)]
BINS = 4  # groups of sources by their length, of about the same size


@renamed(beams="num_beams", longest="max_new_tokens", top="top_k")
@keywords
def decoding(
    model: Model,
    text: str,
    *,
    num_beams: int = 1,
    max_new_tokens: int = 32,
    top_k: int = 5,
    beside: Model | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> View:
    """Show how a model decodes after a prompt, or beside a source: the steps of the best text, and all that was tried.

    `num_beams` hypotheses are kept at each step, one is greedy; the `top_k` candidates of each step are shown. The
    built-in translator goes by the language of the text, or by a tag before it, such as >>fr<<. `beside` is another
    model that translates, such as a recurrent one; of `pairs` of source and reference, quality by length is measured.
    """
    require(1 <= num_beams <= 8, f"num_beams={num_beams} cannot be drawn; choose 1 to 8", BadInput)
    fits = 1 <= max_new_tokens <= LIMIT
    require(fits, f"max_new_tokens={max_new_tokens} cannot be shown; choose 1 to {LIMIT}", BadInput)
    require(top_k > 0, f"top_k={top_k} candidates cannot be shown; choose 1 or more", BadInput)
    generator = model.generator
    given = text
    text = told_target(generator, text)
    check_length(len(generator.ids([text])[0]), LIMIT)
    seen = watch(generator, text, max_new_tokens=max_new_tokens, num_beams=num_beams, top_k=top_k)
    names = generator.tokenizer
    number_of = {tuple(step.written): number for number, step in enumerate(seen.steps)}
    best = seen.outputs[0].tokens
    prefixes = [tuple(best[:length]) for length in range(len(best) + 1)]
    path = [number_of[one] for one in prefixes if one in number_of]  # the limit cuts the last one off
    nodes = [_node(seen, number, number_of, names, top_k) for number in range(len(seen.steps))]
    if num_beams > 1 and seen.outputs[0].ended:  # a beam's step names what goes on, and the best text ended here
        ends = generator.habits.ends or (generator.end,)
        chosen = [token_name(names, token) for token, _ in seen.steps[path[-1]].candidates if token in ends]
        nodes[path[-1]]["chosen"][:0] = chosen[:1]
    running: list[float | None] = []
    for node in nodes:  # parents come before their children
        own, before = node.pop("log_prob"), 0.0 if node["parent"] is None else running[node["parent"]]
        running.append(None if own is None or before is None else before + own)
        node["score"] = None if running[-1] is None else round(running[-1], 4)
    data = {
        "family": model.family,
        "source": generator.sourced,
        "read": [token_name(names, token) for token in seen.read],
        "nodes": nodes,
        "path": path,
        "beams": len(seen.outputs),
        "results": [_result(names, one) for one in seen.outputs],
        "temperatures": TEMPERATURES,
        "spread": [_spread(seen, number, names) for number in path],
        "heads": [rounded(seen.heads[number], 3) for number in path] if seen.heads else [],
        "greedy": None if num_beams == 1 else _greedy(generator, text, max_new_tokens, number_of),
        "beside": None if beside is None else written_by(beside, given, max_new_tokens),
        "quality": None if pairs is None else by_length([model, *([beside] if beside else [])], pairs),
    }
    return View.of("decoding", "Decoding", SCRIPTS, data)


def _result(names: Tokenizer, one: Output) -> dict[str, Any]:
    return {
        "text": names.decode(one.tokens),
        "score": round(one.score, 4),
        "log_prob": round(sum(one.log_probabilities), 4),
        "mean": round(sum(one.log_probabilities) / max(1, len(one.log_probabilities)), 4),
        "ended": one.ended,
    }


def _spread(seen: "Watched", number: int, names: Tokenizer) -> dict[str, Any]:
    """The likeliest candidates of a step, and what their probabilities are divided by at each temperature."""
    tokens = seen.steps[number].candidates[:SPREAD]
    return {
        "names": [token_name(names, token) for token, _ in tokens],
        "log_probs": [round(math.log(max(share, 1e-45)), 4) for _, share in tokens],
        "normalisers": rounded(seen.normalisers[number], 4),
    }


def _greedy(
    generator: Generator, text: str, max_new_tokens: int, number_of: dict[tuple[int, ...], int]
) -> dict[str, Any]:
    """Where the likeliest token each time would have led, and how far the beams kept it."""
    ((output,),) = generator.write([generator.ids([text])[0]], [max_new_tokens], GenerationConfig())
    prefixes = [tuple(output.tokens[:length]) for length in range(len(output.tokens) + 1)]
    kept = [number_of[one] for one in prefixes if one in number_of]
    return _result(generator.tokenizer, output) | {"tokens": len(output.tokens), "nodes": kept}


def written_by(model: Model, text: str, max_new_tokens: int) -> dict[str, Any]:
    """The same text by another model: what it writes greedily, and its attention; or the one vector it has instead."""
    generator = model.generator
    require(generator.sourced, f"a {model.family} reads no source; give a model that translates", WrongTask)
    text = told_target(generator, text)
    check_length(len(generator.ids([text])[0]), LIMIT)
    seen = watch(generator, text, max_new_tokens=max_new_tokens, num_beams=1, top_k=1)
    names, output = generator.tokenizer, seen.outputs[0]
    written = [*(token_name(names, token) for token in output.tokens), *(["(end)"] if output.ended else [])]
    weights = [rounded(one.mean(0), 3) for one in seen.attention[: len(written)]]
    context = getattr(generator.module, "context", None)
    vector: Any = []
    if isinstance(context, FixedContext):
        module: Any = generator.module
        ids, layout = pack_ids([seen.read], "source", model.device)
        with torch.no_grad(), evaluating(module):
            _, memory = module.read(ids, layout)
        vector = rounded(memory.hidden[0, 0].float(), 3)
    found = {"family": model.family, "read": [token_name(names, token) for token in seen.read], "written": written}
    return found | _result(names, output) | {"attention": weights, "bottleneck": vector}


def by_length(models: Sequence[Model], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """chrF of every model's greedy translations, by the number of words of the source, in groups of equal size."""
    require(len(pairs) >= BINS, f"{len(pairs)} pairs are too few for groups by length; give {BINS} or more", BadInput)
    ordered = sorted(pairs, key=lambda pair: len(pair[0].split()))
    ends = [len(ordered) * part // BINS for part in range(BINS + 1)]
    groups = [ordered[start:end] for start, end in pairwise(ends)]
    lengths = [[len(group[0][0].split()), len(group[-1][0].split())] for group in groups]
    scores = []
    for model in models:
        written = iter(model.translate([source for source, _ in ordered], num_beams=1))
        found = [chrf([reference for _, reference in group], [next(written).text for _ in group]) for group in groups]
        scores.append({"family": model.family, "chrf": [round(one.score, 1) for one in found]})
    return {"pairs": len(pairs), "words": lengths, "scores": scores}


def told_target(generator: Generator, text: str) -> str:
    """A source as a translator of several directions reads it: with the tag of its target, if it has none yet."""
    languages = generator.tokenizer.languages
    if languages is None or not languages.directions or text.startswith(tuple(map(tag, languages.ids))):
        return text
    try:
        return told_languages(generator, None, None)[1](text) + text
    except BadInput as error:
        what, tags = str(error).partition("; ")[0], ", ".join(map(tag, languages.ids))
        raise BadInput(f"{what}; begin the text with the tag of the language that it becomes: {tags}") from None


@dataclass(frozen=True)
class Watched:
    """One text as it was decoded: what was read, every step of every hypothesis, and the outputs, the best first."""

    read: list[int]
    steps: list[Step]
    attention: list[Tensor]  # of each step (L, S), the mean of each layer's heads; empty where there is none
    heads: list[Tensor]  # of each step (L, H, S)
    normalisers: list[Tensor]  # of each step, log Σ p^(1/t) over all tokens, at each temperature t
    outputs: list[Output]


@dataclass
class _Temperatures(Recorder):
    """A recorder that also sums what all tokens would have at other temperatures."""

    normalisers: list[Tensor] = field(default_factory=list)

    def note(self, texts: Any, written: Any, logits: Tensor, chosen: Any) -> None:
        """Keep one step of all rows."""
        super().note(texts, written, logits, chosen)
        log_probs = logits.float().log_softmax(-1)
        self.normalisers += torch.stack([(log_probs / t).logsumexp(-1) for t in TEMPERATURES], -1).cpu().unbind(0)


def _node(
    seen: Watched, number: int, number_of: dict[tuple[int, ...], int], names: Tokenizer, top_k: int
) -> dict[str, Any]:
    step = seen.steps[number]
    token = step.written[-1] if step.written else None
    parent = number_of.get(tuple(step.written[:-1])) if step.written else None
    candidates = {} if parent is None else dict(seen.steps[parent].candidates)
    share = candidates.get(-1 if token is None else token)
    return {
        "parent": parent,
        "log_prob": 0.0 if token is None else None if share is None else math.log(max(share, 1e-45)),
        "token": None if token is None else token_name(names, token),
        "chance": None if share is None else round(share, 4),
        "written": names.decode(step.written),
        "candidates": [[token_name(names, one), round(share, 4)] for one, share in step.candidates[:top_k]],
        "chosen": [token_name(names, one) for one in step.chosen],
        "attention": rounded(seen.attention[number], 3) if seen.attention else [],
    }


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as people read it: the vocabulary's own name, but the characters where that name spells bytes."""
    name = tokenizer.id_to_token(token)
    if name is None:  # a network's table may have more rows than the vocabulary has tokens
        return f"id {token}"
    text = tokenizer.decode([token], special=True)
    mark = name[:1] if name[:1] in "Ġ▁" else ""
    return mark + text.strip() if text.strip() and "\ufffd" not in text and not name.startswith("##") else name


@renamed(beams="num_beams", longest="max_new_tokens", top="top_k")
def watch(generator: Generator, text: str, *, max_new_tokens: int, num_beams: int, top_k: int) -> Watched:
    """Decode one text, greedily or by beam search, and keep every step with its attention."""
    (read,) = generator.ids([text])
    # what goes on from a hypothesis is among its best 2 × num_beams continuations
    recorder = _Temperatures(top_k=max(top_k, 2 * num_beams, SPREAD))
    modules = attention_modules(generator)
    with record(*modules) as calls:
        config = GenerationConfig(num_beams=num_beams, num_return_sequences=num_beams)
        (outputs,) = generator.write([read], [max_new_tokens], config, recorder=recorder)
    heads: list[Tensor] = []
    # every round of all rows has one call of each layer
    rounds = [len(list(group)) for _, group in groupby(recorder.steps, key=lambda step: step.number)]
    for number, rows in enumerate(rounds if modules else []):
        layers = calls[number * len(modules) : (number + 1) * len(modules)]
        heads += torch.stack([_weights(call, rows) for call in layers], 1).float().cpu().unbind(0)
    attention = [one.mean(1) for one in heads]
    return Watched(read, recorder.steps, attention, heads, recorder.normalisers, outputs)


def attention_modules(generator: Generator) -> list[nn.Module]:
    """What to record: cross-attention to the source, a decoder's self-attention, or a recurrent model's alignment."""
    module: Any = generator.module
    if isinstance(module, Network):
        body: Any = module.encoder
        if generator.sourced:
            return [block.cross.attend for block in body.decoder_blocks]
        return [block.attention.attend for block in body.blocks]
    context = getattr(module, "context", None)
    return [context.align] if isinstance(context, AttentionContext) else []


def _weights(call: Call, rows: int) -> Tensor:
    """The weights (R, H, S) of one call."""
    if isinstance(call.output, Tensor) and len(call.inputs) == 2:  # an alignment gives its weights: (R, 1, S)
        return call.output
    q, k = call.inputs[:2]
    if q.dim() == 3:  # a prompt, packed: its last token decides
        q, k = q[-1:].unsqueeze(0), k.unsqueeze(0)
    q = q.flatten(0, 1).unsqueeze(2)  # (R, H, 1, K)
    k = k.transpose(1, 2).repeat_interleave(rows // k.shape[0], 0)  # (R, H, S, K)
    return scaled_dot_product(q, k, k)[1][:, :, 0]
