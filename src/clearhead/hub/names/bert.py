"""BERT as transformers saves it."""

from clearhead.hub.names.table import Names, Theirs

_POOLER = "bert.pooler.dense"
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

NAMES = Names(
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
        "pooled": {"dense": _POOLER},
        "next_sentence": {"pooler.dense": _POOLER, "classifier": "cls.seq_relationship"},
        "classes": {"pooler.dense": _POOLER, "classifier": "classifier"},
        "choice": {"pooler.dense": _POOLER, "classifier": "classifier"},
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
