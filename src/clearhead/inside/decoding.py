"""The decoding page: at each step the candidates and their probabilities, the attention, and the tree of beams."""

# R rows (hypotheses) of a step · L layers · H heads · K head width · S tokens attended

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import Output, Recorder, Step
from clearhead.errors import BadInput, keywords, renamed, require
from clearhead.inside.page import View, check_length, rounded
from clearhead.nn.alignment import AttentionContext
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.heads import Network
from clearhead.nn.hooks import Call, record
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.model import Model
from clearhead.pipelines.translation import told_languages
from clearhead.text import Tokenizer
from clearhead.text.languages import tag

SCRIPTS = ("shared/svg.js", "shared/heatmap.js", "tree.js", "main.js")
LIMIT = 128  # tokens read; the page holds what every step attended of them


@renamed(beams="num_beams", longest="max_new_tokens", top="top_k")
@keywords
def decoding(model: Model, text: str, *, num_beams: int = 1, max_new_tokens: int = 32, top_k: int = 5) -> View:
    """Show how a model decodes after a prompt, or beside a source: the steps of the best text, and all that was tried.

    `num_beams` hypotheses are kept at each step, one is greedy; the `top_k` candidates of each step are shown. The
    built-in translator goes by the language of the text, or by a tag before it, such as >>fr<<.
    """
    require(1 <= num_beams <= 8, f"num_beams={num_beams} cannot be drawn; choose 1 to 8", BadInput)
    fits = 1 <= max_new_tokens <= LIMIT
    require(fits, f"max_new_tokens={max_new_tokens} cannot be shown; choose 1 to {LIMIT}", BadInput)
    require(top_k > 0, f"top_k={top_k} candidates cannot be shown; choose 1 or more", BadInput)
    generator = model.generator
    text = _told_target(generator, text)
    check_length(len(generator.ids([text])[0]), LIMIT)
    seen = watch(generator, text, max_new_tokens=max_new_tokens, num_beams=num_beams, top_k=top_k)
    names = generator.tokenizer
    number_of = {tuple(step.written): number for number, step in enumerate(seen.steps)}
    best = seen.outputs[0].tokens
    prefixes = [tuple(best[:length]) for length in range(len(best) + 1)]
    data = {
        "source": generator.sourced,
        "read": [token_name(names, token) for token in seen.read],
        "nodes": [_node(seen, number, number_of, names, top_k) for number in range(len(seen.steps))],
        "path": [number_of[one] for one in prefixes if one in number_of],  # the limit cuts the last one off
        "beams": len(seen.outputs),
        "results": [
            {"text": names.decode(one.tokens), "score": round(one.score, 4), "ended": one.ended} for one in seen.outputs
        ],
    }
    return View.of("decoding", "Word by word", SCRIPTS, data)


def _told_target(generator: Generator, text: str) -> str:
    """A source as a translator of several directions reads it: with the tag of its target, if it has none yet."""
    languages = generator.tokenizer.languages
    if languages is None or not languages.directions or text.startswith(tuple(map(tag, languages.ids))):
        return text
    return told_languages(generator, None, None)[1](text) + text


@dataclass(frozen=True)
class Watched:
    """One text as it was decoded: what was read, every step of every hypothesis, and the outputs, the best first."""

    read: list[int]
    steps: list[Step]
    attention: list[Tensor]  # of each step (L, S), the mean of each layer's heads; empty where there is none
    outputs: list[Output]


def _node(
    seen: Watched, number: int, number_of: dict[tuple[int, ...], int], names: Tokenizer, top_k: int
) -> dict[str, Any]:
    step = seen.steps[number]
    token = step.written[-1] if step.written else None
    parent = number_of.get(tuple(step.written[:-1])) if step.written else None
    candidates = {} if parent is None else dict(seen.steps[parent].candidates)
    return {
        "parent": parent,
        "token": None if token is None else token_name(names, token),
        "chance": round(candidates[token], 4) if token in candidates else None,
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
    recorder = Recorder(top_k=max(top_k, 2 * num_beams))
    modules = attention_modules(generator)
    with record(*modules) as calls:
        config = GenerationConfig(num_beams=num_beams, num_return_sequences=num_beams)
        (outputs,) = generator.write([read], [max_new_tokens], config, recorder=recorder)
    attention: list[Tensor] = []
    # every round of all rows has one call of each layer
    rounds = [len(list(group)) for _, group in groupby(recorder.steps, key=lambda step: step.number)]
    for number, rows in enumerate(rounds if modules else []):
        layers = calls[number * len(modules) : (number + 1) * len(modules)]
        attention += torch.stack([_weights(call, rows) for call in layers], 1).float().cpu().unbind()
    return Watched(read, recorder.steps, attention, outputs)


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
    """The weights (R, S) of one call, the mean of its heads."""
    if isinstance(call.output, Tensor) and len(call.inputs) == 2:  # an alignment gives its weights: (R, 1, S)
        return call.output[:, 0]
    q, k = call.inputs[:2]
    if q.dim() == 3:  # a prompt, packed: its last token decides
        q, k = q[-1:].unsqueeze(0), k.unsqueeze(0)
    q = q.flatten(0, 1).unsqueeze(2)  # (R, H, 1, K)
    k = k.transpose(1, 2).repeat_interleave(rows // k.shape[0], 0)  # (R, H, S, K)
    return scaled_dot_product(q, k, k)[1].mean(1)[:, 0]
