"""The whole model on one page: a text on its way through the input sum, every block and the head, to the answer."""

# T tokens · S tokens of a source · D width · F features that are drawn

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.decoding.config import GenerationConfig
from clearhead.errors import WrongTask, keywords, require
from clearhead.inside.decoding import token_name, told_target
from clearhead.inside.input_view import embedding_parts
from clearhead.inside.page import LIMIT, View, check_length, rounded
from clearhead.inside.trace import Layer, Trace, encoded, heads_first, sides_of, trace_ids
from clearhead.nn.attention import causal_mask, scaled_scores
from clearhead.nn.blocks import ACTIVATIONS, GatedFeedForward
from clearhead.nn.decoder import EncoderDecoder, PreNormDecoderBlock
from clearhead.nn.embeddings import inner_of
from clearhead.nn.heads import LastTokenHead, Pooler, SentenceVector
from clearhead.nn.hooks import Call, evaluating, record
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.text import Encoding

SCRIPTS = ("shared/svg.js", "cells.js", "stack.js", "answer.js", "main.js")
WRITTEN = 24  # tokens that an encoder–decoder writes here
FEATURES = 16  # of each vector, drawn as colours
TOP = 5  # answers that are listed


@keywords
def whole_model(model: Model, text: str, pair: str | None = None) -> View:
    """Show one pass through all of a Transformer: every vector on the way, and the answer that comes out.

    Of an encoder–decoder there are two stacks, and the text is its source; the decoder's is what it writes greedily.
    """
    require(
        hasattr(model, "encoder"),
        f"a {model.family} is recurrent and has no blocks to draw; see how it writes: look decoding",
        WrongTask,
    )
    if isinstance(model.encoder, EncoderDecoder):
        require(pair is None, "an encoder–decoder reads one text, its source; leave the second out", WrongTask)
        data = _translator(model, text)
    else:
        encoding = encoded(model, text, pair)
        check_length(len(encoding), min(LIMIT, model.encoder.max_length))
        passed = trace_ids(
            model.encoder, encoding.ids, encoding.segments, encoding.tokens, sides_of(encoding, pair is not None)
        )
        said, answer = head_answer(model, encoding)
        side = _encoder_side(model.encoder, passed, encoding.segments)
        data = {"sides": [side | {"said": said}], "answer": answer}
    about = {
        "family": model.family,
        "parameters": model.parameters,
        "texts": [text] if pair is None else [text, pair],
        "width": model.encoder.width,
    }
    return View.of("model", "The whole model", SCRIPTS, about | data)


def _encoder_side(encoder: Any, passed: Trace, segments: Sequence[int]) -> dict[str, Any]:
    blocks: Any = encoder.encoder_blocks if isinstance(encoder, EncoderDecoder) else encoder.blocks
    pre_norm = torch.equal(passed.layers[0].middle, passed.layers[0].attention_sum)
    last = passed.layers[-1].hidden
    return {
        "name": "Decoder" if passed.layers[0].causal else "Encoder",
        "tokens": passed.tokens,
        "segments": passed.sides,
        "input": _input_rows(encoder, passed.ids, segments),
        "pre_norm": pre_norm,
        "anatomy": anatomy(encoder, blocks[0]),
        "blocks": [_steps(layer, block, pre_norm) for layer, block in zip(passed.layers, blocks, strict=True)],
        # only what leaves a pre-norm stack is normalised once more
        "output": None if torch.equal(last, passed.output) else _row("norm", passed.output),
    }


def _input_rows(encoder: Any, ids: Sequence[int], segments: Sequence[int]) -> list[dict[str, Any]]:
    return [_row(name, part) for name, part in embedding_parts(encoder.embeddings, list(ids), list(segments)).items()]


def _steps(layer: Layer, block: Any, pre_norm: bool) -> list[dict[str, Any]]:
    """The parts of a block in the order of the calculation, each with what it gave for every token.

    `normed`: its input is normalised on the way in; the first block of some stacks has its input normalised already.
    """
    weights = torch.stack([layer.attention(head) for head in range(layer.heads)]).mean(0)
    first, second = (pre_norm and not isinstance(norm, nn.Identity) for norm in (block.norm_1, block.norm_2))
    joined = "add" if pre_norm else "add & norm"
    return [
        _row("attention", layer.attention_output) | {"weights": rounded(weights, 3), "normed": first},
        _row(joined, layer.middle),
        _row("feed-forward", layer.feedforward_output) | {"normed": second},
        _row(joined, layer.hidden),
    ]


def _row(name: str, x: Tensor) -> dict[str, Any]:
    """One vector for each token: the first features, and the length of all of it."""
    return {"name": name, "values": rounded(x[:, :FEATURES], 3), "norms": rounded(x.norm(dim=-1), 2)}


def anatomy(encoder: Any, block: Any) -> dict[str, Any]:
    """What a stack is made of, as its diagram says it: heads, widths, activation, gate, positions."""
    inner = inner_of(encoder.embeddings)
    attend, forward = block.attention, block.feedforward
    known = (name for name, function in ACTIVATIONS.items() if function is getattr(forward, "act", None))
    return {
        "heads": attend.heads,
        "inner": forward.down.weight.shape[1],
        "act": next(known, None),
        "gated": isinstance(forward, GatedFeedForward),
        "positions": _positions(inner, attend),
        "causal": bool(getattr(attend.attend, "causal", False)),
        "window": getattr(attend.attend, "window", None),
        "tied": sum(1 for one in getattr(encoder, "blocks", ()) if one is block) > 1,  # ALBERT's
    }


def _positions(inner: Any, attention: Any) -> str:
    if hasattr(inner, "position"):
        return "learned" if isinstance(inner.position, nn.Embedding) else "sinusoidal"
    return "rotary" if getattr(attention, "rotary", None) is not None else "relative"


# ---- what the head says -------------------------------------------------------------------------------------------

Said = list[list[Any] | None]  # for each token a label and its probability, where a head says something there


def head_answer(model: Model, encoding: Encoding, head: str | None = None) -> tuple[Said, dict[str, Any] | None]:
    """What is said at every token, and the answer: the head, the tokens that it reads, and the best with probabilities.

    Without a name, the head is the one that the text asks for: a mask is filled, of two texts it is told whether one
    follows.
    """
    name = head or _asked_head(model, encoding)
    nothing: Said = [None] * len(encoding)
    if name is None:
        return nothing, None
    batch = Batch.of([encoding.ids], [encoding.segments]).to(model.device)
    with torch.no_grad(), evaluating(model.network):
        logits = model.network(name, batch.ids, batch.layout, batch.segments).float().cpu()
    if name in ("masked_lm", "causal_lm"):
        return _words_said(model, encoding, name, logits)
    if name == "tags":
        best, label = logits.softmax(-1).max(-1)
        names = [_label(model, i) for i in label.tolist()]
        said: Said = [[one, share] for one, share in zip(names, rounded(best, 3), strict=True)]
        said = [one if encoding.part_of(place) is not None else None for place, one in enumerate(said)]
        places = [place for place, one in enumerate(said) if one is not None]
        return said, {"head": name, "reads": places, "items": []}
    if name == "span":
        return _span_said(encoding, logits)
    items = _items(logits[0].softmax(-1), [_label(model, i, name) for i in range(logits.shape[-1])])
    if logits.shape[-1] == 1:
        items = [["score", round(float(logits[0, 0]), 4)]]
    return nothing, {"head": name, "reads": _read(model.network.heads[name], len(encoding)), "items": items}


def _asked_head(model: Model, encoding: Encoding) -> str | None:
    heads = model.network.heads
    masked = model.tokenizer.special.get("mask") in encoding.tokens
    pairs = len(encoding.parts) > 1
    wanted = [
        ("masked_lm", masked),
        ("span", pairs),
        ("next_sentence", pairs),
        ("classes", True),
        ("tags", True),
        ("causal_lm", True),
        ("masked_lm", True),
    ]
    return next((name for name, fits in wanted if fits and name in heads), None)


def _label(model: Model, index: int, head: str = "classes") -> str:
    if head == "next_sentence":
        return ("the second text follows", "it does not")[index]
    return model.labels[index] if model.labels and index < len(model.labels) else f"class {index}"


def _items(probabilities: Tensor, names: Sequence[str]) -> list[list[Any]]:
    best = probabilities.topk(min(TOP, len(names)))
    return [[names[i], p] for i, p in zip(best.indices.tolist(), rounded(best.values), strict=True)]


def _words_said(model: Model, encoding: Encoding, name: str, logits: Tensor) -> tuple[Said, dict[str, Any]]:
    probabilities = logits.softmax(-1)
    best, token = probabilities.max(-1)
    said: Said = [
        [token_name(model.tokenizer, one), share] for one, share in zip(token.tolist(), rounded(best, 3), strict=True)
    ]
    mask = model.tokenizer.special.get("mask")
    asked = [place for place, one in enumerate(encoding.tokens) if one == mask]
    if name == "causal_lm":
        asked = [len(encoding) - 1]
    if not asked:
        return said, {"head": name, "reads": list(range(len(encoding))), "items": []}
    best5 = probabilities[asked[0]].topk(min(TOP, probabilities.shape[-1]))
    names = [token_name(model.tokenizer, one) for one in best5.indices.tolist()]
    items = [[one, share] for one, share in zip(names, rounded(best5.values), strict=True)]
    return said, {"head": name, "reads": asked, "items": items}


def _span_said(encoding: Encoding, logits: Tensor) -> tuple[Said, dict[str, Any]]:
    """The start and the end that are likeliest together, in the second text."""
    start, end = logits.softmax(0).T
    own = encoding.parts[-1]
    scores = start[own.start : own.stop, None] * end[None, own.start : own.stop]
    scores = scores.triu()
    first, last = divmod(int(scores.argmax()), len(own))
    first, last = first + own.start, last + own.start
    said: Said = [None] * len(encoding)
    said[first] = ["start", round(float(start[first]), 3)]
    said[last] = ["end", round(float(end[last]), 3)] if last != first else ["start, end", round(float(end[last]), 3)]
    text = " ".join(encoding.tokens[first : last + 1]).replace(" ##", "")
    items = [[text, round(float(start[first] * end[last]), 4)], ["no answer", round(float(start[0] * end[0]), 4)]]
    return said, {"head": "span", "reads": [first, last], "items": items}


def _read(head: nn.Module, length: int) -> list[int]:
    """The tokens whose vectors a head of whole sequences reads."""
    if isinstance(head, LastTokenHead):
        return [length - 1]
    pooled = next((part.pooling for part in head.modules() if isinstance(part, Pooler | SentenceVector)), "first")
    return {"first": [0], "last": [length - 1]}.get(pooled, list(range(length)))


# ---- an encoder–decoder -------------------------------------------------------------------------------------------


def _translator(model: Model, text: str) -> dict[str, Any]:
    """Both stacks: the source as it is read, and the target as it is written, all of it in one pass."""
    generator, body = model.generator, model.encoder
    (source,) = generator.ids([told_target(generator, text)])
    check_length(len(source), LIMIT)
    ((output,),) = generator.write([source], [WRITTEN], GenerationConfig())
    start = getattr(generator.model, "start", body.decoder_start_token_id)
    target = [start, *output.tokens]
    names = generator.tokenizer
    read = trace_ids(body, source, tokens=[token_name(names, one) for one in source])
    layout = Packed.of([len(target)], model.device)
    blocks = body.decoder_blocks
    watched = [part for block in blocks for part in (*block.children(), block.attention.attend, block.cross.attend)]
    ids = torch.tensor(target, device=model.device)
    with torch.no_grad(), evaluating(model.network), record(*watched, *blocks) as calls:
        states = body.encode(torch.tensor(source, device=model.device), Packed.of([len(source)], model.device))
        hidden = body.decode(ids, layout, states)
        probabilities = model.network.heads["causal_lm"](hidden, layout).float().softmax(-1).cpu()
    written = [*output.tokens, *([generator.end] if output.ended else [int(probabilities[-1].argmax())])]
    said: Said = [
        [token_name(names, token), round(float(probabilities[place, token]), 3)] for place, token in enumerate(written)
    ]
    pre_norm = isinstance(blocks[0], PreNormDecoderBlock)
    own_places = getattr(body, "places", None) is not None
    writes = {
        "name": "Decoder",
        "tokens": [token_name(names, one) for one in target],
        "segments": [0] * len(target),
        "input": [] if own_places else _input_rows(body, target, [0] * len(target)),
        "pre_norm": pre_norm,
        "anatomy": anatomy(body, blocks[0]),
        "blocks": _decoder_steps(calls, blocks, pre_norm),
        "output": _row("norm", hidden.float().cpu()) if pre_norm else None,
        "said": said,
    }
    reads = _encoder_side(body, read, [0] * len(source)) | {"said": [None] * len(source)}
    places = list(range(len(written)))
    answer = {"head": "causal_lm", "reads": places, "items": [], "text": names.decode(output.tokens)}
    return {"sides": [reads, writes], "answer": answer}


def _decoder_steps(calls: Sequence[Call], blocks: Any, pre_norm: bool) -> list[list[dict[str, Any]]]:
    found, parts = [], {}
    for call in calls:
        parts[call.module] = call
        if call.module not in set(blocks):
            continue
        block: Any = call.module
        before_cross, before_forward = parts[block.norm_2], parts[block.norm_3]
        first, second = (
            (before_cross.inputs[0], before_forward.inputs[0])
            if pre_norm
            else (parts[block.norm_1].output, before_cross.output)
        )
        joined = "add" if pre_norm else "add & norm"
        rows = [
            ("masked attention", parts[block.attention].output, parts[block.attention.attend]),
            (joined, first, None),
            ("cross-attention", parts[block.cross].output, parts[block.cross.attend]),
            (joined, second, None),
            ("feed-forward", parts[block.feedforward].output, None),
            (joined, call.output, None),
        ]
        found.append(
            [
                _row(name, x.float().cpu())
                | ({} if attend is None else {"weights": rounded(_mean(attend), 3)})
                | ({} if name == joined else {"normed": pre_norm})
                for name, x, attend in rows
            ]
        )
    return found


def _mean(attend: Call) -> Tensor:
    """The weights (T, S) of one attention, the mean of its heads."""
    q, k = (heads_first(x) for x in attend.inputs[:2])
    scores = scaled_scores(q, k)
    if len(attend.inputs) > 5 and attend.inputs[5] is not None:
        scores = scores + attend.inputs[5].float().cpu().reshape(-1, *scores.shape[-2:])
    if getattr(attend.module, "causal", False):
        scores = scores.masked_fill(~causal_mask(scores.shape[-1], scores.device), -torch.inf)
    return scores.softmax(-1).mean(0)
