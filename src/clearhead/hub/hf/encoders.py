"""Encoders as transformers saves them: BERT, RoBERTa, MPNet, ALBERT, DistilBERT, ELECTRA, DeBERTa, ModernBERT."""

from typing import Any

from torch import Tensor

from clearhead.errors import require
from clearhead.hub.hf.table import Names, Table, Theirs, block

# BERT, RoBERTa and ELECTRA have the same
_BLOCK = block(
    "encoder.layer.{}",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    output="attention.output.dense",
    norm_1="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm_2="output.LayerNorm",
)
_DENSE_CLASSES = ("classifier.dense", "classifier.out_proj")
_ENCODES = {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"}


def _embeddings(ours: str = "embeddings") -> dict[str, Theirs]:
    return {
        f"{ours}.token": "embeddings.word_embeddings",
        f"{ours}.position": "embeddings.position_embeddings",
        f"{ours}.segment": "embeddings.token_type_embeddings",
        f"{ours}.norm": "embeddings.LayerNorm",
    }


def _heads(
    masked_lm: tuple[str, str, str], pooler: str, classes: tuple[str, str] | None = None, **pretraining: Table
) -> dict[str, Table]:
    """The heads that all have: dense, norm and output of the masked LM; the pooler and the output of the others.

    A family may have other modules for `classes`.
    """
    dense, norm, output = masked_lm
    return {
        "masked_lm": {"dense": dense, "norm": norm, "": output},
        **pretraining,
        "classes": _pooled(*(classes or (pooler, "classifier"))),
        "choice": _pooled(pooler, "classifier"),
        "tags": {"classifier": "classifier"},
        "span": {"classifier": "qa_outputs"},
    }


def _pooled(pooler: str, classifier: str) -> Table:
    return {"pooler.dense": pooler, "classifier": classifier}


def _copies(prefix: str, output: str) -> dict[str, str | None]:
    """The tensors that repeat another: the masked LM's output, which shares the tokens' matrix, and its bias."""
    tokens = f"{prefix}embeddings.word_embeddings.weight"
    matrices = {f"{output}.weight": tokens, f"{output}.decoder.weight": tokens}
    return {**matrices, f"{output}.decoder.bias": f"{output}.bias", f"{prefix}embeddings.position_ids": None}


BERT = Names(
    model="Bert",
    prefix="bert.",
    encoder={**_embeddings(), **_BLOCK},
    heads=_heads(
        ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"),
        "bert.pooler.dense",
        pooled={"dense": "bert.pooler.dense"},
        next_sentence=_pooled("bert.pooler.dense", "cls.seq_relationship"),
    ),
    classes={"ForPreTraining": ("masked_lm", "next_sentence"), "ForNextSentencePrediction": ("next_sentence",)},
    redundant=_copies("bert.", "cls.predictions"),
    fixed=_ENCODES,
)


ROBERTA = Names(
    model="Roberta",
    prefix="roberta.",
    encoder=BERT.encoder,
    heads=_heads(
        ("lm_head.dense", "lm_head.layer_norm", "lm_head"),
        "roberta.pooler.dense",
        _DENSE_CLASSES,
        pooled={"dense": "roberta.pooler.dense"},
    ),
    redundant=_copies("roberta.", "lm_head"),
    fixed=_ENCODES,
)


MPNET = Names(
    model="MPNet",
    prefix="mpnet.",
    encoder={
        **{ours: theirs for ours, theirs in _embeddings().items() if ours != "embeddings.segment"},
        "bias.table": "encoder.relative_attention_bias",
        **block(
            "encoder.layer.{}",
            qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
            output="attention.attn.o",
            norm_1="attention.LayerNorm",
            up="intermediate.dense",
            down="output.dense",
            norm_2="output.LayerNorm",
        ),
    },
    heads=_heads(
        ("lm_head.dense", "lm_head.layer_norm", "lm_head"),
        "mpnet.pooler.dense",
        _DENSE_CLASSES,
        pooled={"dense": "mpnet.pooler.dense"},
    ),
    redundant=_copies("mpnet.", "lm_head"),
    fixed={"relative_attention_num_buckets": 32},  # transformers computes with 32, whatever the file says
)


ALBERT = Names(
    model="Albert",
    prefix="albert.",
    encoder={
        **_embeddings("embeddings.inner"),
        "embeddings.project": "encoder.embedding_hidden_mapping_in",
        **block(
            "encoder.albert_layer_groups.{}.albert_layers.0",
            ours="groups.{}",
            qkv=("attention.query", "attention.key", "attention.value"),
            output="attention.dense",
            norm_1="attention.LayerNorm",
            up="ffn",
            down="ffn_output",
            norm_2="full_layer_layer_norm",
        ),
    },
    heads=_heads(
        ("predictions.dense", "predictions.LayerNorm", "predictions"),
        "albert.pooler",
        pooled={"dense": "albert.pooler"},
        sentence_order=_pooled("albert.pooler", "sop_classifier.classifier"),
    ),
    classes={"ForPreTraining": ("masked_lm", "sentence_order")},
    redundant=_copies("albert.", "predictions"),
    fixed={"inner_group_num": 1, "position_embedding_type": "absolute"},
)


DISTILBERT = Names(
    model="DistilBert",
    prefix="distilbert.",
    encoder={
        **{ours: theirs for ours, theirs in _embeddings().items() if ours != "embeddings.segment"},
        **block(
            "transformer.layer.{}",
            qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            output="attention.out_lin",
            norm_1="sa_layer_norm",
            up="ffn.lin1",
            down="ffn.lin2",
            norm_2="output_layer_norm",
        ),
    },
    heads=_heads(("vocab_transform", "vocab_layer_norm", "vocab_projector"), "pre_classifier"),
    redundant=_copies("distilbert.", "vocab_projector"),
)


ELECTRA = Names(
    model="Electra",
    prefix="electra.",
    encoder={
        **_embeddings(),
        **_embeddings("embeddings.inner"),  # where they are projected to the model's width
        "embeddings.project": "embeddings_project",
        **_BLOCK,
    },
    heads=_heads(
        ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        "sequence_summary.summary",
        _DENSE_CLASSES,
        replaced={
            "dense": "discriminator_predictions.dense",
            "classifier": "discriminator_predictions.dense_prediction",
        },
    ),
    classes={"ForPreTraining": ("replaced",)},
    redundant=_copies("electra.", "generator_lm_head"),
    fixed={**_ENCODES, "summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"},
)


# what every published DeBERTa v2 and v3 has, and what a file means that does not say so
_DEBERTA = {
    "relative_attention": (True, False),
    "share_att_key": (True, False),
    "norm_rel_ebd": ("layer_norm", "none"),
    "position_biased_input": (False, True),
    "pooler_hidden_act": ("gelu", "gelu"),
    "type_vocab_size": (0, 0),
}


def _read_deberta(content: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is computed otherwise: the keys of published files all have one value, which is not the default."""
    content = dict(content)
    for name, (computed, otherwise) in _DEBERTA.items():
        value = content.pop(name, otherwise)
        require(value == computed, f"{name} = {value!r} is not supported; clearhead computes {computed!r}")
    kinds = content.pop("pos_att_type", None) or ()
    listed = kinds.lower().split("|") if isinstance(kinds, str) else kinds if isinstance(kinds, list) else ()
    named = sorted(str(kind).strip() for kind in listed)
    require(named == ["c2p", "p2c"], f"pos_att_type = {kinds!r} is not supported; clearhead computes 'p2c|c2p'")
    width, longest = content.get("hidden_size", 1536), content.get("max_position_embeddings", 512)
    # -1 is as many distances as there are positions
    for name, same in {"embedding_size": width, "pooler_hidden_size": width, "max_relative_positions": longest}.items():
        value = content.pop(name, same)
        fits = value == same or (name == "max_relative_positions" and value == -1)
        require(fits, f"{name} = {value!r} is not supported; clearhead computes {same!r}")
    buckets, kernel = content.get("position_buckets", -1), content.get("conv_kernel_size", 0)
    content["position_buckets"] = 0 if buckets == -1 else buckets
    act, groups = content.pop("conv_act", "tanh"), content.pop("conv_groups", 1)
    usual = not kernel or (act == "gelu" and groups == 1)
    require(
        usual, f"conv_act = {act!r} with conv_groups = {groups!r} is not supported; clearhead computes 'gelu' with 1"
    )
    heads, head = content.get("num_attention_heads", 24), content.pop("attention_head_size", None)
    fits = head is None or (type(heads) is int and head * heads == width)
    require(fits, f"attention_head_size = {head!r} is not supported; clearhead computes {width!r} / {heads!r}")
    return content


def _write_deberta(content: dict[str, Any]) -> dict[str, Any]:
    """Add what is always so, since transformers takes it to be otherwise where nothing is said."""
    always = {name: computed for name, (computed, _) in _DEBERTA.items()}
    content = {**content, **always, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": -1}
    return {**content, "conv_act": "gelu", "conv_groups": 1} if content["conv_kernel_size"] else content


# the masked LM's head is one computation under two names, by the `legacy` of a configuration
_OLD_HEAD = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions")
_NEW_HEAD = ("lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm", "lm_predictions.lm_head")


def _deberta(*, legacy: bool) -> Names:
    """The table of one version: which name the masked LM's head has; a file may have the other."""
    head, other = (_OLD_HEAD, _NEW_HEAD) if legacy else (_NEW_HEAD, _OLD_HEAD)
    leaves = [(f"{one}.{leaf}", f"{own}.{leaf}") for one, own in zip(other, head, strict=True) for leaf in _LEAVES]
    known = dict(leaves)

    def read_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {known.get(name, name): tensor for name, tensor in tensors.items()}

    return Names(
        model="DebertaV2",
        prefix="deberta.",
        encoder={
            "embeddings.token": "embeddings.word_embeddings",
            "embeddings.norm": "embeddings.LayerNorm",
            "distances.table": "encoder.rel_embeddings",
            "distances.norm": "encoder.LayerNorm",
            **_BLOCK,
            "blocks.{}.attention.qkv": _DISENTANGLED,
            "blocks.{}.convolution": "encoder.conv.conv",
            "blocks.{}.norm_3": "encoder.conv.LayerNorm",
        },
        heads=_heads(
            head,
            "pooler.dense",
            # no architecture of transformers has it: it is left aside there
            replaced={"dense": "replaced.dense", "classifier": "replaced.classifier"},
        ),
        # version 1's positions, which are in some files and which nothing reads
        redundant={**_copies("deberta.", _OLD_HEAD[2]), "deberta.embeddings.position_embeddings.weight": None},
        read_config=_read_deberta,
        write_config=_write_deberta,
        read_tensors=read_tensors,
        version=lambda config: _deberta(legacy=config.legacy),
    )


_LEAVES = ("weight", "bias")
_DISENTANGLED = tuple(f"encoder.layer.{{}}.attention.self.{part}_proj" for part in ("query", "key", "value"))
DEBERTA = _deberta(legacy=True)


# our fields for the rotary rates ↔ the kinds of layer that transformers 5 files them under
_RATES = {"global_rope_theta": "full_attention", "local_rope_theta": "sliding_attention"}


def _read_modernbert(content: dict[str, Any]) -> dict[str, Any]:
    """Bring what transformers 5 writes (`layer_types`, `rope_parameters`) to the fields of the published files."""
    content = dict(content)
    kinds, rates = content.pop("layer_types", None), content.pop("rope_parameters", None)
    if kinds is not None:
        content["global_attn_every_n_layers"] = _period(kinds, content.get("num_hidden_layers"))
    for field, kind in _RATES.items():
        rate = (rates.get(kind) or {}) if isinstance(rates, dict) else rates or {}
        named = isinstance(rate, dict)
        require(named, f"rope_parameters must name each kind of layer with its rope_theta, got {rates!r}")
        rope = rate.get("rope_type", "default")
        require(rope == "default", f"rope_type {rope!r} is not supported")
        if "rope_theta" in rate:
            content[field] = rate["rope_theta"]
    return content


def _write_modernbert(content: dict[str, Any]) -> dict[str, Any]:
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


_TRANSFORM = {"transform.dense": "head.dense", "transform.norm": "head.norm", "classifier": "classifier"}
_POOLED_TRANSFORM = {ours if ours == "classifier" else f"pooler.{ours}": theirs for ours, theirs in _TRANSFORM.items()}

MODERNBERT = Names(
    model="ModernBert",
    prefix="model.",
    encoder={
        "embeddings.token": "embeddings.tok_embeddings",
        "embeddings.capital": "embeddings.capital_embeddings",  # our own; transformers leaves it aside
        "embeddings.norm": "embeddings.norm",
        **block(
            "layers.{}",
            norm_1="attn_norm",
            qkv="attn.Wqkv",
            output="attn.Wo",
            norm_2="mlp_norm",
            up="mlp.Wi",
            down="mlp.Wo",
        ),
        "norm": "final_norm",
    },
    heads={
        "masked_lm": {"dense": "head.dense", "norm": "head.norm", "": "decoder"},
        # no architecture of transformers has these two: it leaves them aside
        "next_sentence": {ours: f"next_sentence.{ours.rpartition('.')[2]}" for ours in _POOLED_TRANSFORM},
        "replaced": {"dense": "replaced.dense", "classifier": "replaced.classifier"},
        "classes": _POOLED_TRANSFORM,
        "choice": _POOLED_TRANSFORM,
        "tags": _TRANSFORM,
        "span": _TRANSFORM,
    },
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
    read_config=_read_modernbert,
    write_config=_write_modernbert,
)
