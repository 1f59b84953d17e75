"""An encoder with the heads that stand on it."""

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from clearhead.errors import WrongTask
from clearhead.nn.layout import Layout, Padded


class Encoder(Protocol):
    """What every encoder in models/ is: embeddings, then blocks, then perhaps a last norm."""

    embeddings: Any
    blocks: nn.ModuleList

    @property
    def config(self) -> Any:
        """The family's configuration."""

    @property
    def width(self) -> int:
        """Width of a hidden state, D."""

    @property
    def max_length(self) -> int:
        """Longest sequence there are positions for."""

    def __call__(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) packed or (B, T) padded -> hidden states (…, D)."""


class Network(nn.Module):
    """Ids to logits: one encoder, any number of named heads."""

    def __init__(self, encoder: nn.Module, heads: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.encoder: Any = encoder  # an Encoder and a Module
        self.heads = nn.ModuleDict(heads)

    def forward(self, head: str, ids: Tensor, layout: Layout | None = None, beside: Any = None) -> Tensor:
        """Run the encoder and one head: ids (N,) packed or (B, T) padded -> what the head returns.

        `beside` is what the family reads beside the ids: segments, or the `Source` of an encoder–decoder.
        """
        if head not in self.heads:
            raise WrongTask(f"this model has no head {head!r}; it has {', '.join(self.heads) or 'none'}")
        layout = layout or Padded.full(ids)
        return self.heads[head](self.encoder(ids, layout, beside), layout)
