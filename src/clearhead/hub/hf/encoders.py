"""Encoders as transformers saves them: BERT, RoBERTa, ALBERT, DistilBERT, ELECTRA, ModernBERT."""

from typing import Any

from clearhead.errors import BadConfig, require
from clearhead.hub.hf.table import Names, Theirs

_BERT_POOLER = "bert.pooler.dense"
# RoBERTa and ELECTRA have the same
BLOCK: dict[str, Theirs] = {
    "blocks.{}.attention.qkv": (
        "encoder.layer.{}.attention.self.query",
        "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value",
    ),
    "blocks.{}.attention.output": "encoder.layer.{}.attention.output.dense",
    "blocks.{}.norm_1": "encoder.layer.{}.attention.output.LayerNorm",
    "blocks.{}.feedforward.up": "encoder.layer.{}.intermediate.dense",
    "blocks.{}.feedforward.down": "encoder.layer.{}.output.dense",
    "blocks.{}.norm_2": "encoder.layer.{}.output.LayerNorm",
}

BERT = Names(
    prefix="bert",
    encoder={
        "embeddings.token": "embeddings.word_embeddings",
        "embeddings.position": "embeddings.position_embeddings",
        "embeddings.segment": "embeddings.token_type_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
        **BLOCK,
    },
    heads={
        "masked_lm": {
            "dense": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "": "cls.predictions",
        },
        "pooled": {"dense": _BERT_POOLER},
        "next_sentence": {"pooler.dense": _BERT_POOLER, "classifier": "cls.seq_relationship"},
        "classes": {"pooler.dense": _BERT_POOLER, "classifier": "classifier"},
        "choice": {"pooler.dense": _BERT_POOLER, "classifier": "classifier"},
        "tags": {"classifier": "classifier"},
        "span": {"classifier": "qa_outputs"},
    },
    architectures={
        "BertModel": (),
        "BertForPreTraining": ("masked_lm", "next_sentence"),
        "BertForMaskedLM": ("masked_lm",),
        "BertForNextSentencePrediction": ("next_sentence",),
        "BertForSequenceClassification": ("classes",),
        "BertForMultipleChoice": ("choice",),
        "BertForTokenClassification": ("tags",),
        "BertForQuestionAnswering": ("span",),
    },
    companions=("masked_lm", "next_sentence", "pooled"),
    redundant={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
        "bert.embeddings.position_ids": None,
    },
    fixed={"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
)


_ROBERTA_POOLER = "roberta.pooler.dense"


def roberta(model: str) -> Names:
    """Make the table; `model` is how their class names begin."""
    return Names(
        prefix="roberta",
        encoder={
            "embeddings.token": "embeddings.word_embeddings",
            "embeddings.position": "embeddings.position_embeddings",
            "embeddings.segment": "embeddings.token_type_embeddings",
            "embeddings.norm": "embeddings.LayerNorm",
            **BLOCK,
        },
        heads={
            "masked_lm": {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "": "lm_head"},
            "pooled": {"dense": _ROBERTA_POOLER},
            "classes": {"pooler.dense": "classifier.dense", "classifier": "classifier.out_proj"},
            "choice": {"pooler.dense": _ROBERTA_POOLER, "classifier": "classifier"},
            "tags": {"classifier": "classifier"},
            "span": {"classifier": "qa_outputs"},
        },
        architectures={
            f"{model}Model": (),
            f"{model}ForMaskedLM": ("masked_lm",),
            f"{model}ForSequenceClassification": ("classes",),
            f"{model}ForMultipleChoice": ("choice",),
            f"{model}ForTokenClassification": ("tags",),
            f"{model}ForQuestionAnswering": ("span",),
        },
        companions=("masked_lm", "pooled"),
        redundant={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
            "roberta.embeddings.position_ids": None,
        },
        fixed={"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
    )


_ALBERT_POOLER = "albert.pooler"
_LAYER = "encoder.albert_layer_groups.{}.albert_layers.0"

ALBERT = Names(
    prefix="albert",
    encoder={
        "embeddings.inner.token": "embeddings.word_embeddings",
        "embeddings.inner.position": "embeddings.position_embeddings",
        "embeddings.inner.segment": "embeddings.token_type_embeddings",
        "embeddings.inner.norm": "embeddings.LayerNorm",
        "embeddings.project": "encoder.embedding_hidden_mapping_in",
        "groups.{}.attention.qkv": (
            f"{_LAYER}.attention.query",
            f"{_LAYER}.attention.key",
            f"{_LAYER}.attention.value",
        ),
        "groups.{}.attention.output": f"{_LAYER}.attention.dense",
        "groups.{}.norm_1": f"{_LAYER}.attention.LayerNorm",
        "groups.{}.feedforward.up": f"{_LAYER}.ffn",
        "groups.{}.feedforward.down": f"{_LAYER}.ffn_output",
        "groups.{}.norm_2": f"{_LAYER}.full_layer_layer_norm",
    },
    heads={
        "masked_lm": {"dense": "predictions.dense", "norm": "predictions.LayerNorm", "": "predictions"},
        "pooled": {"dense": _ALBERT_POOLER},
        "sentence_order": {"pooler.dense": _ALBERT_POOLER, "classifier": "sop_classifier.classifier"},
        "classes": {"pooler.dense": _ALBERT_POOLER, "classifier": "classifier"},
        "choice": {"pooler.dense": _ALBERT_POOLER, "classifier": "classifier"},
        "tags": {"classifier": "classifier"},
        "span": {"classifier": "qa_outputs"},
    },
    architectures={
        "AlbertModel": (),
        "AlbertForPreTraining": ("masked_lm", "sentence_order"),
        "AlbertForMaskedLM": ("masked_lm",),
        "AlbertForSequenceClassification": ("classes",),
        "AlbertForMultipleChoice": ("choice",),
        "AlbertForTokenClassification": ("tags",),
        "AlbertForQuestionAnswering": ("span",),
    },
    companions=("masked_lm", "sentence_order", "pooled"),
    redundant={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
        "albert.embeddings.position_ids": None,
    },
    fixed={"inner_group_num": 1, "position_embedding_type": "absolute"},
)


DISTILBERT = Names(
    prefix="distilbert",
    encoder={
        "embeddings.token": "embeddings.word_embeddings",
        "embeddings.position": "embeddings.position_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
        "blocks.{}.attention.qkv": (
            "transformer.layer.{}.attention.q_lin",
            "transformer.layer.{}.attention.k_lin",
            "transformer.layer.{}.attention.v_lin",
        ),
        "blocks.{}.attention.output": "transformer.layer.{}.attention.out_lin",
        "blocks.{}.norm_1": "transformer.layer.{}.sa_layer_norm",
        "blocks.{}.feedforward.up": "transformer.layer.{}.ffn.lin1",
        "blocks.{}.feedforward.down": "transformer.layer.{}.ffn.lin2",
        "blocks.{}.norm_2": "transformer.layer.{}.output_layer_norm",
    },
    heads={
        "masked_lm": {"dense": "vocab_transform", "norm": "vocab_layer_norm", "": "vocab_projector"},
        "classes": {"pooler.dense": "pre_classifier", "classifier": "classifier"},
        "choice": {"pooler.dense": "pre_classifier", "classifier": "classifier"},
        "tags": {"classifier": "classifier"},
        "span": {"classifier": "qa_outputs"},
    },
    architectures={
        "DistilBertModel": (),
        "DistilBertForMaskedLM": ("masked_lm",),
        "DistilBertForSequenceClassification": ("classes",),
        "DistilBertForMultipleChoice": ("choice",),
        "DistilBertForTokenClassification": ("tags",),
        "DistilBertForQuestionAnswering": ("span",),
    },
    companions=("masked_lm",),
    redundant={
        "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
        "distilbert.embeddings.position_ids": None,
    },
)


_EMBEDDINGS = {
    "token": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "segment": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}

ELECTRA = Names(
    prefix="electra",
    encoder={
        **{f"embeddings.{ours}": theirs for ours, theirs in _EMBEDDINGS.items()},
        # where they are projected to the model's width
        **{f"embeddings.inner.{ours}": theirs for ours, theirs in _EMBEDDINGS.items()},
        "embeddings.project": "embeddings_project",
        **BLOCK,
    },
    heads={
        "masked_lm": {
            "dense": "generator_predictions.dense",
            "norm": "generator_predictions.LayerNorm",
            "": "generator_lm_head",
        },
        "replaced": {
            "dense": "discriminator_predictions.dense",
            "classifier": "discriminator_predictions.dense_prediction",
        },
        "classes": {"pooler.dense": "classifier.dense", "classifier": "classifier.out_proj"},
        "choice": {"pooler.dense": "sequence_summary.summary", "classifier": "classifier"},
        "tags": {"classifier": "classifier"},
        "span": {"classifier": "qa_outputs"},
    },
    architectures={
        "ElectraModel": (),
        "ElectraForPreTraining": ("replaced",),
        "ElectraForMaskedLM": ("masked_lm",),
        "ElectraForSequenceClassification": ("classes",),
        "ElectraForMultipleChoice": ("choice",),
        "ElectraForTokenClassification": ("tags",),
        "ElectraForQuestionAnswering": ("span",),
    },
    companions=("masked_lm", "replaced"),
    redundant={
        "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
        "electra.embeddings.position_ids": None,
    },
    fixed={
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
    },
)


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


MODERNBERT = Names(
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
