"""Decoders to test with: tiny networks, what transformers writes with them, and a model that is a table."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding.decoder import Decoder, as_decoder
from clearhead.hub.checkpoint import read_folder
from generators import their_decoder
from references import save_theirs


@cache
def theirs(model: str, seed: int = 0) -> Any:
    """A network of transformers."""
    return their_decoder(model, seed)


def ours(model: str, folder: Any, seed: int = 0) -> Decoder:
    """The same network of ours."""
    return as_decoder(read_folder(save_theirs(theirs(model, seed), folder)).network)


def their_texts(model: str, prompt: list[int], seed: int = 0, **how: Any) -> tuple[list[list[int]], list[float]]:
    """What transformers writes after one prompt or source, without ends, and its scores if there are any."""
    network = theirs(model, seed)
    settings = {"max_new_tokens": 20, "do_sample": False, "num_beams": 1, "forced_eos_token_id": None, **how}
    ids = torch.tensor([prompt])
    out = network.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        return_dict_in_generate=True,
        output_scores=True,
        eos_token_id=1,
        pad_token_id=0,
        **settings,
    )
    start = 1 if network.config.is_encoder_decoder else len(prompt)
    texts = []
    for row in out.sequences[:, start:].tolist():
        texts.append(row[: row.index(1)] if 1 in row else row)
    scores = out.sequences_scores.tolist() if "sequences_scores" in out else []
    return texts, scores


class Table:
    """A model whose next token depends on the last one alone: logits (V, V)."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.rows: list[int] = []  # how many rows each step had

    def begin(self, prompts: Any) -> tuple[Tensor, "TableState"]:
        """Look up the last token of each prompt."""
        return self.step(torch.tensor([prompt[-1] for prompt in prompts]), TableState())

    def step(self, tokens: Tensor, state: "TableState") -> tuple[Tensor, "TableState"]:
        """Look up each token."""
        self.rows.append(len(tokens))
        return self.logits[tokens], state


class TableState:
    """Nothing to remember."""

    def select(self, rows: Tensor) -> "TableState":
        """Nothing to select."""
        return self
