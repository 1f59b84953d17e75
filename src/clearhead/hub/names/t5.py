"""T5 as transformers saves it."""

from typing import Any

from clearhead.errors import require
from clearhead.hub.names.table import Names, Theirs


def read_config(content: dict[str, Any]) -> dict[str, Any]:
    """Bring what transformers 5 writes for version 1.1 (`scale_decoder_outputs`) to the published field."""
    content = dict(content)
    pad = content.get("pad_token_id", 0)
    start = content.pop("decoder_start_token_id", pad)
    require(start == pad, f"decoder_start_token_id {start!r} is not supported; clearhead starts with padding, {pad!r}")
    if content.pop("scale_decoder_outputs", True) is False:
        content["tie_word_embeddings"] = False
    return content


def write_config(content: dict[str, Any]) -> dict[str, Any]:
    """Add what transformers needs to generate."""
    return {**content, "decoder_start_token_id": content["pad_token_id"], "is_encoder_decoder": True}


def _block(side: str, last: int, *, gated: bool) -> dict[str, Theirs]:
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


def names(*, gated: bool, tied: bool) -> Names:
    """The table of one version: its feed-forward, and whether the output matrix is its own."""
    copies = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", *(["lm_head.weight"] if tied else [])]
    return Names(
        prefix="",
        encoder={
            "embeddings.token": "shared",
            "encoder_bias.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_block("encoder", 1, gated=gated),
            "encoder_norm": "encoder.final_layer_norm",
            "decoder_bias.table": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
            **_block("decoder", 2, gated=gated),
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
        read_config=read_config,
        write_config=write_config,
        version=lambda config: names(gated=config.gated, tied=config.tie_word_embeddings),
    )


NAMES = names(gated=False, tied=True)
