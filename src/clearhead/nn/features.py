"""Features of a frozen encoder: some of its layers as one vector for each token, and heads that learn from these."""

# B batch · N packed tokens · K chosen layers · D width · F width of the features · I inner width · L labels

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from clearhead.errors import BadInput, require
from clearhead.nn.hooks import hidden_states, mix_layers
from clearhead.nn.layout import Layout
from clearhead.nn.recurrent import RecurrentLayers

Mix = Literal["mean", "sum", "concat", "weighted"]


class ScalarMix(nn.Module):
    """γ Σ softmax(w)_k h_k: layers as one vector, in shares that are learnt, equal at first (Peters et al. 2018)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """(…, K, D) -> (…, D)."""
        return self.scale * torch.einsum("k,...kd->...d", self.shares.softmax(0), states)


class LayerFeatures(nn.Module):
    """Some of an encoder's layers as one vector for each token: their mean, sum, concatenation, or a learnt mix.

    Layers count from 0, the embeddings, or from -1, the last. Each feature has mean 0 and deviation 1 over the data
    that `standardise` was given, so that no mix gains by its size alone.
    """

    def __init__(self, layers: Sequence[int], combine: Mix, width: int) -> None:
        super().__init__()
        known = get_args(Mix)
        require(combine in known, f"combine={combine!r} is not known; choose {', '.join(known)}", BadInput)
        require(len(layers) > 0, "no layers are chosen; name some, such as -4,-3,-2,-1", BadInput)
        self.layers, self.combine = tuple(layers), combine
        self.width = width * (len(layers) if combine == "concat" else 1)
        shape = (len(layers), width) if combine == "weighted" else (self.width,)
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))
        self.mix = ScalarMix(len(layers)) if combine == "weighted" else nn.Identity()

    def choose(self, encoder: Any, ids: Tensor, layout: Layout | None, segments: Tensor | None) -> Tensor:
        """Run the encoder, and keep what nothing is learnt of: (…, F), or all K layers of a learnt mix, (…, K, D)."""
        states = hidden_states(encoder, ids, layout, segments)
        if self.combine == "weighted":
            chosen = mix_layers(states, self.layers, "concat")
            return chosen.unflatten(-1, (len(self.layers), -1))
        return mix_layers(states, self.layers, self.combine)

    def forward(self, chosen: Tensor) -> Tensor:
        """What `choose` gave -> features (…, F)."""
        return self.mix((chosen.to(self.mean.dtype) - self.mean) / self.deviation)

    @torch.no_grad()
    def standardise(self, chosen: Tensor) -> None:
        """Take mean and deviation from a sample of what `choose` gave."""
        sample = chosen.float()
        self.mean.copy_(sample.mean(0))
        self.deviation.copy_(sample.std(0, correction=0).clamp(min=1e-6))


class BiLSTM(nn.Module):
    """Two bidirectional layers of LSTM over the tokens of a sequence (Devlin et al. 2018, section 5.3)."""

    def __init__(self, width: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.layers = RecurrentLayers(nn.LSTM(width, inner, num_layers=2, bidirectional=True, dropout=dropout))

    @property
    def inner(self) -> int:
        """The width of one direction."""
        return self.layers.core.hidden_size

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…, 2 I)."""
        read, _ = self.layers(self.dropout(hidden), layout)
        return read


class RecurrentTokenHead(nn.Module):
    """Logits of each token from a BiLSTM over its sequence."""

    def __init__(self, width: int, inner: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = BiLSTM(width, inner, dropout)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * inner, outputs)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…, L)."""
        return self.classifier(self.dropout(self.lstm(hidden, layout)))


class RecurrentPooler(nn.Module):
    """One vector for a sequence: the mean of what a BiLSTM says of its tokens."""

    def __init__(self, width: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.lstm = BiLSTM(width, inner, dropout)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, 2 I)."""
        return layout.mean(self.lstm(hidden, layout))
