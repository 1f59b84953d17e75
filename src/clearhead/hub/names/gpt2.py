"""GPT-2 as transformers saves it: with its matrices lying on their sides."""

from clearhead.hub.names.table import Names

NAMES = Names(
    prefix="transformer",
    encoder={
        "embeddings.token": "wte",
        "embeddings.position": "wpe",
        "blocks.{}.norm_1": "h.{}.ln_1",
        "blocks.{}.attention.qkv": "h.{}.attn.c_attn",
        "blocks.{}.attention.output": "h.{}.attn.c_proj",
        "blocks.{}.norm_2": "h.{}.ln_2",
        "blocks.{}.feedforward.up": "h.{}.mlp.c_fc",
        "blocks.{}.feedforward.down": "h.{}.mlp.c_proj",
        "norm": "ln_f",
    },
    heads={
        "causal_lm": {},
        "classes": {"classifier": "score"},
        "tags": {"classifier": "classifier"},
    },
    architectures={
        "GPT2Model": (),
        "GPT2LMHeadModel": ("causal_lm",),
        "GPT2ForSequenceClassification": ("classes",),
        "GPT2ForTokenClassification": ("tags",),
    },
    transposed=(
        "blocks.{}.attention.qkv",
        "blocks.{}.attention.output",
        "blocks.{}.feedforward.up",
        "blocks.{}.feedforward.down",
    ),
    redundant={
        "lm_head.weight": "transformer.wte.weight",
        "transformer.h.{}.attn.bias": None,  # masks, in old files
        "transformer.h.{}.attn.masked_bias": None,
    },
    fixed={
        "add_cross_attention": False,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
    },
)
