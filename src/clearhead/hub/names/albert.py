"""ALBERT as transformers saves it."""

from clearhead.hub.names.table import Names

_POOLER = "albert.pooler"
_LAYER = "encoder.albert_layer_groups.{}.albert_layers.0"

NAMES = Names(
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
        "pooled": {"dense": _POOLER},
        "sentence_order": {"pooler.dense": _POOLER, "classifier": "sop_classifier.classifier"},
        "classes": {"pooler.dense": _POOLER, "classifier": "classifier"},
        "choice": {"pooler.dense": _POOLER, "classifier": "classifier"},
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
