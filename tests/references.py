"""Tiny random models of transformers, to compare ours with: every family, every architecture, no download."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.utils import logging

from clearhead.hub.checkpoint import Checkpoint, build_network
from clearhead.hub.config import NAMES, Description
from clearhead.models import ENCODERS
from clearhead.nn.layout import Layout, Padded

logging.disable_progress_bar()
torch.set_num_threads(1)  # for tiny models, threads cost more than they bring

PER_TOKEN = ("hidden", "masked_lm", "replaced", "tags", "span")
LABELS = 3

_COMMON = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
_DISTIL = {"vocab_size": 64, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
_MODERN = {**_COMMON, "local_attention": 6, "pad_token_id": 3, "num_hidden_layers": 4}

# family and settings of each model that is compared; a variant is there for a branch in the family's code
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", _COMMON),
    "roberta": ("roberta", {**_COMMON, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "camembert": ("camembert", {**_COMMON, "hidden_act": "relu"}),
    "xlm-roberta": ("xlm-roberta", {**_COMMON, "type_vocab_size": 1, "pad_token_id": 4}),
    "distilbert": ("distilbert", _DISTIL),
    "distilbert-sinusoidal": ("distilbert", {**_DISTIL, "sinusoidal_pos_embds": True, "activation": "relu"}),
    "albert": ("albert", {**_COMMON, "embedding_size": 12}),
    "albert-groups": ("albert", {**_COMMON, "embedding_size": 32, "num_hidden_groups": 2, "hidden_act": "gelu"}),
    "electra": ("electra", {**_COMMON, "embedding_size": 12}),
    "electra-wide": ("electra", {**_COMMON, "embedding_size": 32, "hidden_act": "relu"}),
    "mpnet": ("mpnet", {**_COMMON, "layer_norm_eps": 1e-5}),
    "deberta-v2": ("deberta-v2", {**_COMMON, "position_buckets": 8, "conv_kernel_size": 3}),
    "deberta-v3": ("deberta-v2", {**_COMMON, "position_buckets": 8, "legacy": False, "hidden_act": "relu"}),
    "deberta-every-distance": ("deberta-v2", _COMMON),
    "modernbert": ("modernbert", _MODERN),
    "modernbert-mean": ("modernbert", {**_MODERN, "classifier_pooling": "mean", "global_attn_every_n_layers": 2}),
}

EVERY_ARCHITECTURE = [
    pytest.param(model, architecture, id=f"{model}-{architecture}")
    for model, (family, _) in MODELS.items()
    for architecture in NAMES[family].architectures
]


@dataclass(frozen=True)
class Batch:
    """A padded batch with real lengths, as both sides take it."""

    ids: Tensor
    keep: Tensor
    segments: Tensor = field(repr=False)


def batch_for(model: str, lengths: tuple[int, ...] = (11, 4, 1, 9), seed: int = 1) -> Batch:
    """Draw ids and pairs of segments; the padding is on the right."""
    family, settings = MODELS[model]
    pad = ENCODERS[family].config(**_ours(family, settings)).pad_token_id
    rng = torch.Generator().manual_seed(seed)
    keep = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(5, settings["vocab_size"], keep.shape, generator=rng).where(keep, pad)
    second = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None] // 2
    return Batch(ids, keep, (second & keep).long())


def theirs(model: str, architecture: str, seed: int = 0) -> nn.Module:
    """Build a model of transformers with random weights, biases and norms."""
    family, settings = MODELS[model]
    labelled = architecture.endswith(("ForSequenceClassification", "ForTokenClassification"))
    labels = {"num_labels": LABELS} if labelled else {}
    written = NAMES[family].write_config(asdict(ENCODERS[family].config(**settings)))
    config = transformers.AutoConfig.for_model(family, **written, **labels)
    return randomised(getattr(transformers, architecture)(config), seed).eval()


def ours(model: str, architecture: str, seed: int = 0) -> Checkpoint:
    """Build the same model of ours with random weights, biases and norms."""
    family, settings = MODELS[model]
    config = ENCODERS[family].config(**_ours(family, settings))
    outputs = {name: outputs_of(name, config) for name in heads_of(model, architecture)}
    description = Description(family=family, config=config, architecture=architecture)
    network = randomised(build_network(description, outputs), seed).eval()
    return Checkpoint(description=description, network=network, tokenizer=None)


def their_answers(network: nn.Module, model: str, architecture: str, batch: Batch) -> dict[str, Tensor]:
    """Run transformers: our head's name -> its answer, with (B, …) for a sequence and (B, T, …) for tokens."""
    inputs = {"input_ids": batch.ids, "attention_mask": batch.keep.long()}
    if _has_segments(model):
        inputs["token_type_ids"] = batch.segments
    heads = heads_of(model, architecture)
    if "choice" in heads:
        inputs = {name: value[None] for name, value in inputs.items()}
    with torch.no_grad():
        out = network(**inputs)
    answers = {name: _pick(out, name) for name in heads}
    return answers if NAMES[MODELS[model][0]].architectures[architecture] else answers | {"hidden": out[0]}


def our_answers(network: Any, model: str, batch: Batch, *, packed: bool) -> dict[str, Tensor]:
    """Run ours in either layout; token answers come back as (N, …), in order."""
    layout: Layout = Padded.of(batch.keep)
    ids, segments = batch.ids, batch.segments
    if packed:
        assert isinstance(layout, Padded)
        (segments, _), (ids, layout) = layout.pack(segments), layout.pack(ids)
    given = segments if _has_segments(model) else None
    with torch.no_grad():
        answers = {name: network(name, ids, layout, given) for name in network.heads}
        answers["hidden"] = network.encoder(ids, layout, given)
    return {name: x if packed or name not in PER_TOKEN else x[batch.keep] for name, x in answers.items()}


def heads_of(model: str, architecture: str) -> tuple[str, ...]:
    """Our heads in an architecture of theirs; a bare encoder has the pooler where the family has one."""
    names = NAMES[MODELS[model][0]]
    bare = ("pooled",) if "pooled" in names.heads else ()
    return names.architectures[architecture] or bare


def outputs_of(head: str, config: Any) -> int:
    """Choose how many outputs a head has."""
    counts = {"masked_lm": config.vocab_size, "pooled": config.hidden_size, "classes": LABELS, "tags": LABELS}
    return counts.get(head, 1 if head in ("choice", "replaced") else 2)


def randomised(network: Any, seed: int) -> Any:
    """Draw every parameter, so that two that were swapped are noticed."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            scale = 1.0 if parameter.dim() == 1 and name.endswith("weight") else 0.0  # a norm
            parameter.normal_(mean=scale, std=0.2, generator=rng)
    return network


def save_theirs(network: Any, folder: Path) -> Path:
    """Save in safetensors."""
    network.save_pretrained(folder)
    return folder


def _has_segments(model: str) -> bool:
    return (
        MODELS[model][0] not in ("deberta-v2", "distilbert", "modernbert", "mpnet")
        and MODELS[model][1].get("type_vocab_size") != 1
    )


def _ours(family: str, settings: dict[str, Any]) -> dict[str, Any]:
    known = ENCODERS[family].config.__dataclass_fields__
    assert settings.keys() <= known.keys()
    return settings


def _pick(out: Any, head: str) -> Tensor:
    if head == "span":
        return torch.stack([out.start_logits, out.end_logits], -1)
    if head == "choice":
        return out.logits.squeeze(0).unsqueeze(-1)
    own = {
        "masked_lm": "prediction_logits",
        "next_sentence": "seq_relationship_logits",
        "sentence_order": "sop_logits",
        "pooled": "pooler_output",
    }
    return out[own[head]] if own.get(head) in out else out.logits
