"""Capitals for an uncased checkpoint: a tokenizer that tells them, and a table for them beside the tokens'."""

import copy
from dataclasses import replace

import torch
from torch import Tensor

from clearhead.errors import BadConfig, require
from clearhead.hub.folder import Checkpoint
from clearhead.hub.names import NAMES


@torch.no_grad()
def tell_capitals(checkpoint: Checkpoint, table: Tensor | None = None) -> Checkpoint:
    """Give the checkpoint with an eye for capitals; its encoder gets other embeddings. `table` was learnt before."""
    family, tokenizer = checkpoint.description.family, checkpoint.tokenizer
    if tokenizer is None or not NAMES[family].reads_capitals:
        raise BadConfig(f"capitals are told to a model with a table for them, not to {family}; leave capitals out")
    encoder = checkpoint.network.encoder
    if encoder.embeddings.capital is not None and table is None:
        return checkpoint  # what it has learnt before is kept
    # the tokens' table stays the one that others share
    embeddings = copy.deepcopy(encoder.embeddings, {id(part): part for part in encoder.embeddings.parameters()})
    rows = embeddings.tell_capitals()
    if table is not None:
        fits = table.shape == rows.shape
        require(fits, f"a table for capitals has the shape {tuple(rows.shape)}, not {tuple(table.shape)}", BadConfig)
        rows.copy_(table)
    encoder.embeddings = embeddings
    return replace(checkpoint, tokenizer=tokenizer.telling_capitals())
