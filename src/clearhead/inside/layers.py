"""The layers page: hidden states, how alike the tokens are, the logit lens, and choices of features.

The logit lens (nostalgebraist 2020) reads every layer's hidden states with the head of the language model.
"""

# T tokens · L layers · D width · k best

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, WrongTask, keywords, renamed, require
from clearhead.inside.page import LIMIT, View, check_length, cosines, rounded
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.hooks import Combine, evaluating, hidden_states, mix_layers
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.text import Encoding

SCRIPTS = ("shared/heatmap.js", "shared/layers.js", "main.js")
# F1 on CoNLL-2003's development set, by what is fed to the tagger: BERT-base in the lectures, and the built-in encoder
# with one linear map and with a BiLSTM, as docs/benchmarks.md has measured them
CONLL = {
    "embeddings": [91.0, 45.9, 83.6],
    "last": [94.9, 75.7, 88.2],
    "sum of all": [95.5, 79.2, 90.7],
    "second-to-last": [95.6, 78.3, 89.9],
    "sum of last four": [95.9, 79.4, 90.4],
    "last four side by side": [96.1, 81.9, 89.4],
}


@renamed(top="top_k")
@keywords
def through_layers(model: Model, text: str, pair: str | None = None, *, features: int = 48, top_k: int = 5) -> View:
    """Show the hidden states of every layer: similarity, the `top_k` tokens a head would say, choices of features."""
    require(top_k > 0, f"top_k={top_k} tokens cannot be shown; choose 1 or more", BadInput)
    require(features > 0, f"features={features} cannot be shown; choose 1 or more", BadInput)
    encoding = model.tokenizer.encode(text, pair)
    check_length(len(encoding), min(LIMIT, model.encoder.max_length))
    (states,) = layer_states(model, [encoding])
    head = next((name for name in ("masked_lm", "causal_lm") if name in model.network.heads), None)
    data = {
        "tokens": encoding.tokens,
        "width": states.shape[-1],
        "hidden": rounded(states[..., :features], 2),
        "similarity": rounded(cosines(states), 3),
        "kept": rounded(cosine_similarity(states[1:], states[:-1], dim=-1), 3),
        "stream": hasattr(model.encoder, "norm"),  # only what leaves a pre-norm encoder is normalised
        "head": head,
        "said": None if head is None else _logit_lens(model, head, states, top_k),
        "features": {name: rounded(cosines(x), 3) for name, x in feature_choices(states).items()},
        "conll": CONLL,
    }
    return View.of("layers", "Through the layers", SCRIPTS, data)


def layer_states(model: Model, encodings: Sequence[Encoding]) -> list[Tensor]:
    """For each encoding the embeddings, then what each layer gave: (L + 1, T, D), float32 on the CPU."""
    require(
        not isinstance(model.encoder, EncoderDecoder),
        "an encoder–decoder has two stacks of layers and makes no vectors of a text; see how it writes: look decoding",
        WrongTask,
    )
    batch = Batch.of([one.ids for one in encodings], [one.segments for one in encodings]).to(model.device)
    with torch.no_grad(), evaluating(model.encoder):
        states = torch.stack(hidden_states(model.encoder, batch.ids, batch.layout, batch.segments)).float().cpu()
    return list(states.split(batch.layout.lengths, 1))


def feature_choices(states: Tensor) -> dict[str, Tensor]:
    """The lectures' ways to take word vectors from the layers (L + 1, T, D): those that the model has layers for."""
    layers, four = range(1, len(states)), range(-4, 0)
    choices: dict[str, tuple[Sequence[int], Combine]] = {
        "embeddings": ([0], "sum"),
        "last": ([-1], "sum"),
        "sum of all": (layers, "sum"),
    }
    if len(layers) >= 2:
        choices["second-to-last"] = ([-2], "sum")
    if len(layers) >= 4:
        choices |= {"sum of last four": (four, "sum"), "last four side by side": (four, "concat")}
    return {name: mix_layers(states, *choice) for name, choice in choices.items()}


def _logit_lens(model: Model, head: str, states: Tensor, top_k: int) -> list[list[list[list[Any]]]]:
    """For every layer and token, the language model's best tokens with their probabilities."""
    network: Network = model.network
    layout = Packed.of([states.shape[1]], model.device)
    # a pre-norm encoder normalises its last states only, and the head knows nothing else
    norm = getattr(model.encoder, "norm", lambda hidden: hidden)
    found = []
    with torch.no_grad(), evaluating(network):
        *inner, last = states.to(next(network.parameters()))
        for hidden in (*map(norm, inner), last):
            probabilities = network.heads[head](hidden, layout).float().softmax(-1)
            best = probabilities.topk(min(top_k, probabilities.shape[-1]))
            rows = zip(best.indices.tolist(), rounded(best.values), strict=True)
            found.append([_named(model, *row) for row in rows])
    return found


def _named(model: Model, ids: list[int], probabilities: list[float]) -> list[list[Any]]:
    return [[model.tokenizer.id_to_token(i) or f"id {i}", p] for i, p in zip(ids, probabilities, strict=True)]
