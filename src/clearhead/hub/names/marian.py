"""Marian (OPUS-MT) as transformers saves it; our own Transformers are saved the same way."""

from typing import Any

from clearhead.errors import require
from clearhead.hub.names.table import Names, Theirs


def read_config(content: dict[str, Any]) -> dict[str, Any]:
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


def write_config(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {
        **content,
        "decoder_vocab_size": content["vocab_size"],
        "decoder_start_token_id": content["pad_token_id"],
        "forced_eos_token_id": content["eos_token_id"],
        "is_encoder_decoder": True,
    }


def _block(side: str) -> dict[str, Theirs]:
    ours, theirs = f"{side}_blocks.{{}}", f"{side}.layers.{{}}"
    return {
        f"{ours}.attention.qkv": tuple(f"{theirs}.self_attn.{name}_proj" for name in "qkv"),
        f"{ours}.attention.output": f"{theirs}.self_attn.out_proj",
        f"{ours}.norm_1": f"{theirs}.self_attn_layer_norm",
        f"{ours}.feedforward.up": f"{theirs}.fc1",
        f"{ours}.feedforward.down": f"{theirs}.fc2",
    }


NAMES = Names(
    prefix="model",
    encoder={
        "embeddings.token": "shared",
        **_block("encoder"),
        "encoder_blocks.{}.norm_2": "encoder.layers.{}.final_layer_norm",
        **_block("decoder"),
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
    read_config=read_config,
    write_config=write_config,
)
