"""Decoders as transformers saves them: GPT-2, T5, Marian (and our own Transformers), XLNet."""

from typing import Any

from torch import Tensor

from clearhead.errors import require
from clearhead.hub.hf.table import Names, Theirs

GPT2 = Names(
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


def _read_t5(content: dict[str, Any]) -> dict[str, Any]:
    """Bring what transformers 5 writes for version 1.1 (`scale_decoder_outputs`) to the published field."""
    content = dict(content)
    pad = content.get("pad_token_id", 0)
    start = content.pop("decoder_start_token_id", pad)
    require(start == pad, f"decoder_start_token_id {start!r} is not supported; clearhead starts with padding, {pad!r}")
    if content.pop("scale_decoder_outputs", True) is False:
        content["tie_word_embeddings"] = False
    return content


def _write_t5(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {**content, "decoder_start_token_id": content["pad_token_id"], "is_encoder_decoder": True}


def _t5_block(side: str, last: int, *, gated: bool) -> dict[str, Theirs]:
    ours, theirs = f"{side}_blocks.{{}}", f"{side}.block.{{}}.layer"
    dense = f"{theirs}.{last}.DenseReluDense"
    return {
        f"{ours}.attention.qkv": tuple(f"{theirs}.0.SelfAttention.{name}" for name in "qkv"),
        f"{ours}.attention.output": f"{theirs}.0.SelfAttention.o",
        f"{ours}.norm_1": f"{theirs}.0.layer_norm",
        f"{ours}.feedforward.up": (f"{dense}.wi_0", f"{dense}.wi_1") if gated else f"{dense}.wi",
        f"{ours}.feedforward.down": f"{dense}.wo",
        f"{ours}.norm_{last + 1}": f"{theirs}.{last}.layer_norm",
    }


def _t5(*, gated: bool, tied: bool) -> Names:
    """The table of one version: its feed-forward, and whether the output matrix is its own."""
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", *(["lm_head.weight"] if tied else [])]
    return Names(
        prefix="",
        encoder={
            "embeddings.token": "shared",
            "encoder_bias.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_t5_block("encoder", 1, gated=gated),
            "encoder_norm": "encoder.final_layer_norm",
            "decoder_bias.table": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_t5_block("decoder", 2, gated=gated),
            "decoder_blocks.{}.cross.query": "decoder.block.{}.layer.1.EncDecAttention.q",
            "decoder_blocks.{}.cross.key_value": (
                "decoder.block.{}.layer.1.EncDecAttention.k",
                "decoder.block.{}.layer.1.EncDecAttention.v",
            ),
            "decoder_blocks.{}.cross.output": "decoder.block.{}.layer.1.EncDecAttention.o",
            "decoder_blocks.{}.norm_2": "decoder.block.{}.layer.1.layer_norm",
            "decoder_norm": "decoder.final_layer_norm",
        },
        heads={"causal_lm": {} if tied else {"": "lm_head"}},
        architectures={"T5Model": (), "T5ForConditionalGeneration": ("causal_lm",)},
        redundant={
            **dict.fromkeys(copies, "shared.weight"),
            # the first files have a table here that nothing reads
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": None,
        },
        read_config=_read_t5,
        write_config=_write_t5,
        version=lambda config: _t5(gated=config.gated, tied=config.tie_word_embeddings),
    )


T5 = _t5(gated=False, tied=True)


def _read_marian(content: dict[str, Any]) -> dict[str, Any]:
    """Check what the published fields say about the start and about two vocabularies."""
    content = dict(content)
    pad = content.get("pad_token_id", 58100)
    start = content.pop("decoder_start_token_id", 58100)
    require(start == pad, f"decoder_start_token_id {start!r} is not supported; clearhead starts with padding, {pad!r}")
    size = content.get("vocab_size", 58101)
    target = content.pop("decoder_vocab_size", None) or size
    require(target == size, f"decoder_vocab_size {target!r} is not supported; clearhead has one vocabulary of {size!r}")
    content.pop("forced_eos_token_id", None)  # it only says that a text cut short gets an end all the same
    return content


def _write_marian(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {
        **content,
        "decoder_vocab_size": content["vocab_size"],
        "decoder_start_token_id": content["pad_token_id"],
        "forced_eos_token_id": content["eos_token_id"],
        "is_encoder_decoder": True,
    }


def _marian_block(side: str) -> dict[str, Theirs]:
    ours, theirs = f"{side}_blocks.{{}}", f"{side}.layers.{{}}"
    return {
        f"{ours}.attention.qkv": tuple(f"{theirs}.self_attn.{name}_proj" for name in "qkv"),
        f"{ours}.attention.output": f"{theirs}.self_attn.out_proj",
        f"{ours}.norm_1": f"{theirs}.self_attn_layer_norm",
        f"{ours}.feedforward.up": f"{theirs}.fc1",
        f"{ours}.feedforward.down": f"{theirs}.fc2",
    }


MARIAN = Names(
    prefix="model",
    encoder={
        "embeddings.token": "shared",
        **_marian_block("encoder"),
        "encoder_blocks.{}.norm_2": "encoder.layers.{}.final_layer_norm",
        **_marian_block("decoder"),
        "decoder_blocks.{}.cross.query": "decoder.layers.{}.encoder_attn.q_proj",
        "decoder_blocks.{}.cross.key_value": (
            "decoder.layers.{}.encoder_attn.k_proj",
            "decoder.layers.{}.encoder_attn.v_proj",
        ),
        "decoder_blocks.{}.cross.output": "decoder.layers.{}.encoder_attn.out_proj",
        "decoder_blocks.{}.norm_2": "decoder.layers.{}.encoder_attn_layer_norm",
        "decoder_blocks.{}.norm_3": "decoder.layers.{}.final_layer_norm",
    },
    heads={"causal_lm": {"bias": "final_logits_bias"}},
    architectures={"MarianModel": (), "MarianMTModel": ("causal_lm",)},
    redundant={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_positions.weight": None,  # sines and cosines
        "model.decoder.embed_positions.weight": None,
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


_ATTENTION = "rel_attn"
_QUERY = "transformer.mask_emb"


def _read_xlnet(content: dict[str, Any]) -> dict[str, Any]:
    """Look that a head's width is the one that fits; it is not ours to choose."""
    content = dict(content)
    width, heads, share = (content.get(name) for name in ("d_model", "n_head", "d_head"))
    fits = not (isinstance(width, int) and isinstance(heads, int) and share is not None) or width == heads * share
    require(fits, f"d_head = {share!r} is not supported; clearhead computes d_model {width} / n_head {heads}")
    content.pop("d_head", None)
    return content


def _xlnet(heads: int) -> Names:
    """The table of a configuration with so many heads."""

    def flat(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Make linear maps of their matrices: what goes in lies in the second dimension."""
        found = {}
        for name, tensor in tensors.items():
            leaf = name.rpartition(".")[2]
            if name == _QUERY:
                found[name] = tensor.flatten()
            elif f".{_ATTENTION}." in name and leaf in "qkvr" and tensor.dim() == 3:
                found[f"{name}.weight"] = tensor.flatten(1).mT.contiguous()
            elif f".{_ATTENTION}." in name and leaf == "o" and tensor.dim() == 3:
                found[f"{name}.weight"] = tensor.flatten(1)
            else:
                found[name] = tensor
        return found

    def folded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The inverse of `flat`."""
        found = {}
        for name, tensor in tensors.items():
            owner, leaf = name.removesuffix(".weight"), name.removesuffix(".weight").rpartition(".")[2]
            if name == _QUERY:
                found[name] = tensor[None, None]
            elif f".{_ATTENTION}." in name and leaf in "qkvr" and owner != name:
                found[owner] = tensor.mT.unflatten(1, (heads, -1)).contiguous()
            elif f".{_ATTENTION}." in name and leaf == "o":
                found[owner] = tensor.unflatten(1, (heads, -1))
            else:
                found[name] = tensor
        return found

    attention = f"layer.{{}}.{_ATTENTION}"
    summary = {"pooler.dense": "sequence_summary.summary", "classifier": "logits_proj"}
    return Names(
        prefix="transformer",
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
        architectures={
            "XLNetModel": (),
            "XLNetLMHeadModel": ("permutation_lm",),
            "XLNetForSequenceClassification": ("classes",),
            "XLNetForMultipleChoice": ("choice",),
            "XLNetForTokenClassification": ("tags",),
            "XLNetForQuestionAnsweringSimple": ("span",),
        },
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
