"""RoBERTa, and the models that differ from it in vocabulary alone, as transformers saves them."""

from clearhead.hub.names.bert import BLOCK
from clearhead.hub.names.table import Names

_POOLER = "roberta.pooler.dense"


def names(model: str) -> Names:
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
            "pooled": {"dense": _POOLER},
            "classes": {"pooler.dense": "classifier.dense", "classifier": "classifier.out_proj"},
            "choice": {"pooler.dense": _POOLER, "classifier": "classifier"},
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
