"""ModernBERT as transformers saves it."""

from typing import Any

from clearhead.errors import BadConfig, require
from clearhead.hub.names.table import Names

# our fields for the rotary rates ↔ the kinds of layer that transformers 5 files them under
_RATES = {"global_rope_theta": "full_attention", "local_rope_theta": "sliding_attention"}


def read_config(content: dict[str, Any]) -> dict[str, Any]:
    """Bring what transformers 5 writes (`layer_types`, `rope_parameters`) to the fields of the published files."""
    content = dict(content)
    kinds, rates = content.pop("layer_types", None), content.pop("rope_parameters", None)
    if kinds is not None:
        content["global_attn_every_n_layers"] = _period(kinds, content.get("num_hidden_layers"))
    for field, kind in _RATES.items():
        try:
            rate = (rates or {}).get(kind) or {}
            require(
                rate.get("rope_type", "default") == "default", f"rope_type {rate.get('rope_type')!r} is not supported"
            )
            if "rope_theta" in rate:
                content[field] = rate["rope_theta"]
        except AttributeError:
            raise BadConfig(
                f"rope_parameters must name each kind of layer with its rope_theta, got {rates!r}"
            ) from None
    return content


def write_config(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers 5 reads to what version 4 reads."""
    kinds = [_kind(layer, content["global_attn_every_n_layers"]) for layer in range(content["num_hidden_layers"])]
    rates = {kind: {"rope_type": "default", "rope_theta": content[field]} for field, kind in _RATES.items()}
    return {**content, "layer_types": kinds, "rope_parameters": rates}


def _period(kinds: Any, layers: Any) -> int:
    """Find n such that every n-th layer, from the first on, is global."""
    usable = isinstance(kinds, list) and kinds and len(kinds) == layers
    require(bool(usable), f"layer_types must list a kind for each of {layers} layers, got {kinds!r}")
    period = next((layer for layer, kind in enumerate(kinds) if layer and kind == "full_attention"), len(kinds))
    regular = all(kind == _kind(layer, period) for layer, kind in enumerate(kinds))
    require(regular, f"layer_types {kinds!r} is not supported; clearhead repeats one global layer and n - 1 local ones")
    return period


def _kind(layer: int, period: int) -> str:
    return "sliding_attention" if layer % period else "full_attention"


NAMES = Names(
    prefix="model",
    encoder={
        "embeddings.token": "embeddings.tok_embeddings",
        "embeddings.capital": "embeddings.capital_embeddings",  # our own; transformers leaves it aside
        "embeddings.norm": "embeddings.norm",
        "blocks.{}.norm_1": "layers.{}.attn_norm",
        "blocks.{}.attention.qkv": "layers.{}.attn.Wqkv",
        "blocks.{}.attention.output": "layers.{}.attn.Wo",
        "blocks.{}.norm_2": "layers.{}.mlp_norm",
        "blocks.{}.feedforward.up": "layers.{}.mlp.Wi",
        "blocks.{}.feedforward.down": "layers.{}.mlp.Wo",
        "norm": "final_norm",
    },
    heads={
        "masked_lm": {"dense": "head.dense", "norm": "head.norm", "": "decoder"},
        # no architecture of transformers has these two: it leaves them aside
        "next_sentence": {
            "pooler.transform.dense": "next_sentence.dense",
            "pooler.transform.norm": "next_sentence.norm",
            "classifier": "next_sentence.classifier",
        },
        "replaced": {"dense": "replaced.dense", "classifier": "replaced.classifier"},
        "classes": {
            "pooler.transform.dense": "head.dense",
            "pooler.transform.norm": "head.norm",
            "classifier": "classifier",
        },
        "choice": {
            "pooler.transform.dense": "head.dense",
            "pooler.transform.norm": "head.norm",
            "classifier": "classifier",
        },
        "tags": {"transform.dense": "head.dense", "transform.norm": "head.norm", "classifier": "classifier"},
        "span": {"transform.dense": "head.dense", "transform.norm": "head.norm", "classifier": "classifier"},
    },
    architectures={
        "ModernBertModel": (),
        "ModernBertForMaskedLM": ("masked_lm",),
        "ModernBertForSequenceClassification": ("classes",),
        "ModernBertForMultipleChoice": ("choice",),
        "ModernBertForTokenClassification": ("tags",),
        "ModernBertForQuestionAnswering": ("span",),
    },
    companions=("masked_lm", "next_sentence", "replaced"),
    redundant={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    fixed={
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "rope_scaling": None,
    },
    read_config=read_config,
    write_config=write_config,
)
