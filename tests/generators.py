"""Tiny random decoders of transformers, to compare ours with: logits, and what they write."""

from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn

from clearhead.hub.checkpoint import Checkpoint, build_network
from clearhead.hub.config import Description
from clearhead.models import GENERATORS
from clearhead.nn.layout import Layout, Packed, Padded
from references import randomised

V = 64  # tokens; 0, 1 and 2 are padding and ends
GPT: dict[str, Any] = {
    "vocab_size": V,
    "n_positions": 60,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
MARIAN: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "activation_function": "swish",
    "max_position_embeddings": 60,
    "scale_embedding": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
BART: dict[str, Any] = {
    **MARIAN,
    "activation_function": "gelu",
    "scale_embedding": False,
    "bos_token_id": 2,
    "decoder_start_token_id": 1,
}
M2M = {**BART, "pad_token_id": 2, "bos_token_id": 0}  # its positions pass over padding, with which targets begin here
T5: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 32,
    "d_kv": 6,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
}

# family and settings of each model that is compared; a variant is there for a branch in the family's code
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("bart", BART),
    "bart-scaled": ("bart", {**BART, "scale_embedding": True, "decoder_start_token_id": 5}),
    "gpt2": ("gpt2", GPT),
    "gpt2-inner": ("gpt2", {**GPT, "n_inner": 20, "activation_function": "relu"}),
    "m2m_100": ("m2m_100", {**M2M, "activation_function": "relu", "scale_embedding": True}),
    "m2m_100-unscaled": ("m2m_100", M2M),
    "marian": ("marian", MARIAN),
    "marian-unscaled": ("marian", {**MARIAN, "scale_embedding": False, "activation_function": "relu"}),
    "mbart": ("mbart", BART),
    "t5": ("t5", T5),
    "t5-v1.1": (
        "t5",
        {**T5, "num_decoder_layers": 1, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
}
WRITERS = {
    "bart": "BartForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "m2m_100": "M2M100ForConditionalGeneration",
    "marian": "MarianMTModel",
    "mbart": "MBartForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
}
PROMPTS = [[5, 9, 33, 17, 8], [40, 41], [12, 60, 7], [22, 21, 20, 19, 18, 17, 16], [8]]


class Source(NamedTuple):
    """What an encoder–decoder reads."""

    ids: Tensor
    layout: Layout


def their_decoder(model: str, seed: int = 0) -> Any:
    """Build a model of transformers with random weights, biases and norms."""
    family, settings = DECODERS[model]
    extra = {"decoder_start_token_id": 0, "forced_eos_token_id": None} if family != "gpt2" else {}
    config = transformers.AutoConfig.for_model(family, **extra | settings)
    network = getattr(transformers, WRITERS[family])(config)
    if model == "t5-v1.1":
        network.lm_head.weight = nn.Parameter(torch.empty_like(network.lm_head.weight))
        network.config.tie_word_embeddings = False
    randomised(network, seed)
    if hasattr(network, "final_logits_bias"):
        network.final_logits_bias.normal_(generator=torch.Generator().manual_seed(seed))
    if family == "marian":
        for side in (network.model.encoder, network.model.decoder):  # sines and cosines, which were just drawn over
            side.embed_positions.weight.data.copy_(side.embed_positions.create_weight())
    return network.eval()


def our_decoder(model: str, seed: int = 0) -> Checkpoint:
    """Build the same model of ours with random weights, biases and norms."""
    family, settings = DECODERS[model]
    config = GENERATORS[family].config(**settings)
    description = Description(family=family, config=config, architecture=WRITERS[family])
    network = randomised(build_network(description, {"causal_lm": V}), seed).eval()
    return Checkpoint(description=description, network=network, tokenizer=None)


def rectangle(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Pad on the right: ids and keep."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    keep = torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]
    return ids, keep


def laid_out(rows: list[list[int]], *, packed: bool) -> Source:
    """The same rows in either layout."""
    if packed:
        return Source(torch.tensor([token for row in rows for token in row]), Packed.of([len(row) for row in rows]))
    ids, keep = rectangle(rows)
    return Source(ids, Padded.of(keep))


def targets(rows: list[list[int]]) -> list[list[int]]:
    """Something to have been written for each source, from the start token on."""
    return [[0, *(3 + (7 * token + i) % (V - 3) for i, token in enumerate(row[::-1] * 2))] for row in rows]


def their_logits(network: Any, rows: list[list[int]]) -> Tensor:
    """All logits of real tokens, in order: (N, V)."""
    with torch.no_grad():
        if not network.config.is_encoder_decoder:
            ids, keep = rectangle(rows)
            return network(input_ids=ids, attention_mask=keep.long()).logits[keep]
        (ids, keep), (written, real) = rectangle(rows), rectangle(targets(rows))
        return network(input_ids=ids, attention_mask=keep.long(), decoder_input_ids=written).logits[real]


def our_logits(network: Any, rows: list[list[int]], *, packed: bool) -> Tensor:
    """The same from ours."""
    source = None
    if hasattr(network.encoder, "encode"):
        source, rows = laid_out(rows, packed=packed), targets(rows)
    ids, layout = laid_out(rows, packed=packed)
    with torch.no_grad():
        logits = network("causal_lm", ids, layout, source)
    return logits if packed else logits[layout.keep]
