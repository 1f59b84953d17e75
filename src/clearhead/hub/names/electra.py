"""ELECTRA as transformers saves it."""

from clearhead.hub.names.bert import BLOCK
from clearhead.hub.names.table import Names

_EMBEDDINGS = {
    "token": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "segment": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}

NAMES = Names(
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
