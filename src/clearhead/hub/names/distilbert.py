"""DistilBERT as transformers saves it."""

from clearhead.hub.names.table import Names

NAMES = Names(
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
