"""Decoders as transformers saves them: GPT-2, T5, Marian (and our own Transformers), BART, M2M-100, XLNet."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import require
from clearhead.hub.hf.table import Names, Table, Theirs, block

GPT2 = Names(
    model="GPT2",
    prefix="transformer.",
    encoder={
        "embeddings.token": "wte",
        "embeddings.position": "wpe",
        **block(
            "h.{}",
            norm_1="ln_1",
            qkv="attn.c_attn",
            output="attn.c_proj",
            norm_2="ln_2",
            up="mlp.c_fc",
            down="mlp.c_proj",
        ),
        "norm": "ln_f",
    },
    heads={"causal_lm": {}, "classes": {"classifier": "score"}, "tags": {"classifier": "classifier"}},
    transposed=True,
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


def _read_t5(content: dict[str, Any]) -> dict[str, Any]:
    """Keep apart what version 4 writes as one: whether the output matrix is shared, and what it is given divided."""
    content = _starting_with_padding(content, content.get("pad_token_id", 0))
    tied = content.get("tie_word_embeddings", True)
    if content.get("scale_decoder_outputs", tied) == tied:
        content.pop("scale_decoder_outputs", None)
    return content


def _settle_t5(config: Any, tensors: Mapping[str, Tensor]) -> Any:
    """See whether the file has an output matrix of its own: transformers 5 calls every T5's shared."""
    own, shared = tensors.get("lm_head.weight"), tensors.get("shared.weight")
    if own is None or shared is None or not config.tie_word_embeddings or torch.equal(own, shared):
        return config
    return replace(config, tie_word_embeddings=False, scale_decoder_outputs=True if config.scaled else None)


def _starting_with_padding(content: dict[str, Any], default: Any) -> dict[str, Any]:
    """The configuration without its decoder's first token, which must be the padding (id `default` if not said)."""
    content = dict(content)
    pad, start = content.get("pad_token_id", default), content.pop("decoder_start_token_id", default)
    require(start == pad, f"decoder_start_token_id {start!r} is not supported; clearhead starts with padding, {pad!r}")
    return content


def _write_padded(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {**content, "decoder_start_token_id": content["pad_token_id"], "is_encoder_decoder": True}


def _write_t5(content: dict[str, Any]) -> dict[str, Any]:
    """The same; whether outputs are divided is said only where it does not follow from the shared matrix."""
    unsaid = ("scale_decoder_outputs",) if content["scale_decoder_outputs"] is None else ()
    return _write_padded({name: value for name, value in content.items() if name not in unsaid})


def _t5_block(side: str, feedforward: int, *, gated: bool) -> dict[str, Theirs]:
    """The block of a stack, whose feed-forward is the layer of this number: cross-attention may stand before it."""
    dense = f"{feedforward}.DenseReluDense"
    found = block(
        f"{side}.block.{{}}.layer",
        ours=f"{side}_blocks.{{}}",
        qkv=tuple(f"0.SelfAttention.{name}" for name in "qkv"),
        output="0.SelfAttention.o",
        norm_1="0.layer_norm",
        up=(f"{dense}.wi_0", f"{dense}.wi_1") if gated else f"{dense}.wi",
        down=f"{dense}.wo",
        norm_2="1.layer_norm",
    )
    return found | {f"{side}_blocks.{{}}.norm_{feedforward + 1}": f"{side}.block.{{}}.layer.{feedforward}.layer_norm"}


def _cross_attention(layer: str, query: str, key: str, value: str, output: str) -> dict[str, Theirs]:
    return {
        "decoder_blocks.{}.cross.query": f"{layer}.{query}",
        "decoder_blocks.{}.cross.key_value": (f"{layer}.{key}", f"{layer}.{value}"),
        "decoder_blocks.{}.cross.output": f"{layer}.{output}",
    }


def _t5(*, gated: bool, tied: bool) -> Names:
    """The table of one version: its feed-forward, and whether the output matrix is its own."""
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", *(["lm_head.weight"] if tied else [])]
    return Names(
        model="T5",
        prefix="",
        encoder={
            "embeddings.token": "shared",
            "encoder_bias.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_t5_block("encoder", 1, gated=gated),
            "encoder_norm": "encoder.final_layer_norm",
            "decoder_bias.table": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_t5_block("decoder", 2, gated=gated),
            **_cross_attention("decoder.block.{}.layer.1.EncDecAttention", "q", "k", "v", "o"),
            "decoder_norm": "decoder.final_layer_norm",
        },
        heads={"causal_lm": {} if tied else {"": "lm_head"}},
        classes={"ForConditionalGeneration": ("causal_lm",)},
        redundant={
            **dict.fromkeys(copies, "shared.weight"),
            # the first files have a table here that nothing reads
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": None,
        },
        read_config=_read_t5,
        write_config=_write_t5,
        settle=_settle_t5,
        version=lambda config: _t5(gated=config.gated, tied=config.tie_word_embeddings),
    )


T5 = replace(_t5(gated=False, tied=True), variants=(_t5(gated=True, tied=False),))


def _read_marian(content: dict[str, Any]) -> dict[str, Any]:
    """Check what the published fields say about the start and about two vocabularies."""
    content = _starting_with_padding(content, 58100)
    size = content.get("vocab_size", 58101)
    target = content.pop("decoder_vocab_size", None) or size
    require(target == size, f"decoder_vocab_size {target!r} is not supported; clearhead has one vocabulary of {size!r}")
    content.pop("forced_eos_token_id", None)  # it only says that a text cut short gets an end all the same
    return content


def _write_marian(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    more = {"decoder_vocab_size": content["vocab_size"], "forced_eos_token_id": content["eos_token_id"]}
    return _write_padded(content) | more


def _marian_block(side: str, norm_2: str) -> dict[str, Theirs]:
    return block(
        f"{side}.layers.{{}}",
        ours=f"{side}_blocks.{{}}",
        qkv=tuple(f"self_attn.{name}_proj" for name in "qkv"),
        output="self_attn.out_proj",
        norm_1="self_attn_layer_norm",
        up="fc1",
        down="fc2",
        norm_2=norm_2,
    )


MARIAN = Names(
    model="Marian",
    prefix="model.",
    encoder={
        "embeddings.token": "shared",
        **_marian_block("encoder", "final_layer_norm"),
        **_marian_block("decoder", "encoder_attn_layer_norm"),
        **_cross_attention("decoder.layers.{}.encoder_attn", "q_proj", "k_proj", "v_proj", "out_proj"),
        "decoder_blocks.{}.norm_3": "decoder.layers.{}.final_layer_norm",
    },
    heads={"causal_lm": {"bias": "final_logits_bias"}},
    classes={"MTModel": ("causal_lm",)},
    redundant={
        "lm_head.weight": "model.shared.weight",
        **{f"model.{side}.embed_tokens.weight": "model.shared.weight" for side in ("encoder", "decoder")},
        **{f"model.{side}.embed_positions.weight": None for side in ("encoder", "decoder")},  # sines and cosines
    },
    fixed={
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    },
    read_config=_read_marian,
    write_config=_write_marian,
)

# Marian's, with positions that are learned
_BART_ENCODER: Table = {
    **MARIAN.encoder,
    "embeddings.position": "encoder.embed_positions",
    "embeddings.norm": "encoder.layernorm_embedding",
    "places.position": "decoder.embed_positions",
    "places.norm": "decoder.layernorm_embedding",
}
_END_NORMS: Table = {f"{side}_norm": f"{side}.layer_norm" for side in ("encoder", "decoder")}
_COPIES = {name: original for name, original in MARIAN.redundant.items() if original is not None}
_VERSIONS: dict[str, str | None] = {f"model.{side}.version": None for side in ("encoder", "decoder")}  # fairseq's


def _write_shared_tokens(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {**content, "is_encoder_decoder": True}


BART = Names(
    model="Bart",
    prefix="model.",
    encoder=_BART_ENCODER,
    heads={
        "causal_lm": MARIAN.heads["causal_lm"],
        "classes": {"pooler.dense": "classification_head.dense", "classifier": "classification_head.out_proj"},
        "span": {"classifier": "qa_outputs"},
    },
    classes={"ForConditionalGeneration": ("causal_lm",)},
    redundant={**_COPIES, **_VERSIONS},
    zeros=("final_logits_bias",),
    unlabelled=3,
    fixed={
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
        "static_position_embeddings": False,
    },
    write_config=_write_shared_tokens,
)

MBART = replace(
    BART,
    model="MBart",
    encoder={**_BART_ENCODER, **_END_NORMS},
    heads={"causal_lm": MARIAN.heads["causal_lm"]},
    fixed={**BART.fixed, "normalize_before": True, "add_final_layer_norm": True},
)

M2M100 = Names(
    model="M2M100",
    prefix="model.",
    encoder={**MARIAN.encoder, **_END_NORMS},
    heads={"causal_lm": {}},
    classes={"ForConditionalGeneration": ("causal_lm",)},
    redundant={
        **_COPIES,
        **_VERSIONS,
        # sines and cosines, in old files
        **{f"model.{side}.embed_positions.weights": None for side in ("encoder", "decoder")},
    },
    fixed={"tie_word_embeddings": True},
    write_config=_write_shared_tokens,
)


_ATTENTION = "rel_attn"
_MATRIX = re.compile(rf"\.{_ATTENTION}\.([qkvro])$")
_QUERY = "transformer.mask_emb"


def _read_xlnet(content: dict[str, Any]) -> dict[str, Any]:
    """Look that a head's width is the one that fits; it is not ours to choose."""
    content = dict(content)
    width, heads, share = (content.get(name) for name in ("d_model", "n_head", "d_head"))
    fits = not (isinstance(width, int) and isinstance(heads, int) and share is not None) or width == heads * share
    require(fits, f"d_head = {share!r} is not supported; clearhead computes d_model {width} / n_head {heads}")
    content.pop("d_head", None)
    return content


def _xlnet(heads: int) -> Names:  # D width · H heads · K head width
    """The table of a configuration with so many heads."""

    def flat(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Make linear maps of their matrices (D, H, K), (H × K, D), and of the output's, (D, H × K)."""
        found = {}
        for name, tensor in tensors.items():
            matrix = _MATRIX.search(name) if tensor.dim() == 3 else None
            if matrix is not None:
                linear = tensor.flatten(1)
                found[f"{name}.weight"] = linear if matrix[1] == "o" else linear.mT.contiguous()
            else:
                found[name] = tensor.flatten() if name == _QUERY else tensor
        return found

    def folded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The inverse of `flat`."""
        found = {}
        for name, tensor in tensors.items():
            owner = name.removesuffix(".weight")
            matrix = _MATRIX.search(owner)
            if matrix is not None:
                theirs = tensor if matrix[1] == "o" else tensor.mT
                found[owner] = theirs.unflatten(1, (heads, -1)).contiguous()
            else:
                found[name] = tensor[None, None] if name == _QUERY else tensor
        return found

    attention = f"layer.{{}}.{_ATTENTION}"
    summary = {"pooler.dense": "sequence_summary.summary", "classifier": "logits_proj"}
    return Names(
        model="XLNet",
        prefix="transformer.",
        encoder={
            "embeddings.token": "word_embedding",
            "query": "mask_emb",
            "blocks.{}.attention.query": f"{attention}.q",
            "blocks.{}.attention.key_value": (f"{attention}.k", f"{attention}.v"),
            "blocks.{}.attention.distance": f"{attention}.r",
            "blocks.{}.attention.output": f"{attention}.o",
            "blocks.{}.attention.content_bias": f"{attention}.r_w_bias",
            "blocks.{}.attention.distance_bias": f"{attention}.r_r_bias",
            "blocks.{}.attention.segment_bias": f"{attention}.r_s_bias",
            "blocks.{}.attention.segment": f"{attention}.seg_embed",
            "blocks.{}.norm_1": f"{attention}.layer_norm",
            "blocks.{}.feedforward.up": "layer.{}.ff.layer_1",
            "blocks.{}.feedforward.down": "layer.{}.ff.layer_2",
            "blocks.{}.norm_2": "layer.{}.ff.layer_norm",
        },
        heads={
            "permutation_lm": {"": "lm_loss"},
            "classes": summary,
            "choice": summary,
            "tags": {"classifier": "classifier"},
            "span": {"classifier": "qa_outputs"},
        },
        classes={"ForQuestionAnsweringSimple": ("span",)},
        redundant={"lm_loss.weight": "transformer.word_embedding.weight"},
        fixed={
            "attn_type": "bi",
            "bi_data": False,
            "clamp_len": -1,
            "same_length": False,
            "summary_type": "last",
            "summary_use_proj": True,
            "summary_activation": "tanh",
            "tie_word_embeddings": True,
            "untie_r": True,
        },
        read_config=_read_xlnet,
        read_tensors=flat,
        write_tensors=folded,
        version=lambda config: _xlnet(config.n_head),
    )


XLNET = _xlnet(1)
