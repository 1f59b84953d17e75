"""A network: an encoder with named heads. A head is called as `head(hidden, layout)` and gives logits or vectors."""

# B batch · M chosen tokens · E embedding width · D width · L labels · V vocabulary; … is (N) packed or (B, T) padded

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import BadInput, WrongTask, require
from clearhead.nn.blocks import activation
from clearhead.nn.embeddings import initialise
from clearhead.nn.features import LayerFeatures
from clearhead.nn.fused import project
from clearhead.nn.layout import Layout, Padded
from clearhead.nn.quantisation import QuantisedLinear

Pooling = Literal["mean", "first", "max", "weighted"]
HeadMakers = dict[str, Callable[[int], nn.Module]]  # from the number of outputs, by the head's name


class Network(nn.Module):
    """Ids to logits: one encoder, any number of named heads; with `features`, these read several of its layers."""

    def __init__(
        self, encoder: nn.Module, heads: Mapping[str, nn.Module], features: LayerFeatures | None = None
    ) -> None:
        super().__init__()
        self.encoder: Any = encoder
        self.heads = nn.ModuleDict(heads)
        self.features = features

    def forward(self, head: str, ids: Tensor, layout: Layout | None = None, beside: Any = None) -> Tensor:
        """Run the encoder and one head: ids (N,) packed or (B, T) padded -> what the head returns.

        `beside` is what the family reads beside the ids: segments, or the source of an encoder–decoder.
        """
        if head not in self.heads:
            raise WrongTask(f"this model has no head {head!r}; it has {', '.join(self.heads) or 'none'}")
        layout = layout or Padded.full(ids)
        if self.features is None:
            hidden = self.encoder(ids, layout, beside)
        else:
            hidden = self.features(self.features.choose(self.encoder, ids, layout, beside))
        return self.heads[head](hidden, layout)


def build_heads(makers: HeadMakers, outputs: Mapping[str, int], std: float) -> dict[str, nn.Module]:
    """Make the named heads, each with its number of outputs, and initialise their weights."""
    built = {name: makers[name](count) for name, count in outputs.items()}
    for head in built.values():
        initialise(head, std)
    return built


class MaskedLMHead(nn.Module):
    """Logits of the token at each position: dense, activation, norm, then the token embedding as output matrix."""

    def __init__(self, width: int, token: nn.Embedding, *, act: str, norm_eps: float, bias: bool = True) -> None:
        super().__init__()
        inner = token.embedding_dim
        self.dense = nn.Linear(width, inner, bias=bias)
        self.act = activation(act)
        self.norm = nn.LayerNorm(inner, eps=norm_eps, bias=bias)
        self.weight = token.weight  # the very same parameter, (V, E)
        self.bias = nn.Parameter(torch.zeros(token.num_embeddings))

    def forward(self, hidden: Tensor, layout: Layout, where: Tensor | None = None) -> Tensor:
        """Logits (…, V), or (M, V) for the tokens chosen by `where`: a bool mask (…) or indices into all tokens.

        Give `where` when few tokens are masked: the product with the vocabulary is most of the work.
        """
        return F.linear(self.norm(self.act(self.dense(_chosen(hidden, where)))), self.weight, self.bias)


class NextTokenHead(nn.Module):
    """Logits of the next token: the output matrix is the token embedding itself, or one of its own (`tied=False`).

    `scale` multiplies the hidden states before; `bias` is kept as a row, (1, V), as Marian has it.
    """

    def __init__(self, token: nn.Embedding, *, tied: bool = True, bias: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.tied = tied
        self.weight = token.weight if tied else nn.Parameter(torch.empty_like(token.weight))  # (V, D)
        self.bias = nn.Parameter(torch.zeros(1, token.num_embeddings)) if bias else None
        self.scale = scale

    def forward(self, hidden: Tensor, layout: Layout, where: Tensor | None = None) -> Tensor:
        """Logits (…, V), or (M, V) for the tokens chosen by `where`: a bool mask (…) or indices into all tokens."""
        hidden = _chosen(hidden, where)
        scaled = hidden if self.scale == 1.0 else hidden * self.scale
        return project(self, scaled, self.weight, None if self.bias is None else self.bias[0])


class QuantisedNextTokenHead(nn.Module):
    """Stands for a `NextTokenHead` in int8: in a small decoder, the vocabulary is half of what is multiplied with."""

    def __init__(self, head: NextTokenHead) -> None:
        super().__init__()
        self.tied = head.tied
        self.weight = head.weight  # as it was: the token embedding may be the same
        self.scale = head.scale
        self.rounded = QuantisedLinear(head.weight, None if head.bias is None else head.bias[0])
        self.training = False

    def forward(self, hidden: Tensor, layout: Layout, where: Tensor | None = None) -> Tensor:
        """Logits (…, V), or (M, V) for the tokens chosen by `where`: a bool mask (…) or indices into all tokens."""
        hidden = _chosen(hidden, where)
        logits: Tensor = self.rounded(hidden if self.scale == 1.0 else hidden * self.scale)
        return logits


def _chosen(hidden: Tensor, where: Tensor | None) -> Tensor:
    if where is None:
        return hidden
    return hidden[where] if where.dtype == torch.bool else hidden.flatten(0, -2)[where]


class LastTokenHead(nn.Module):
    """Classes of a sequence from its last token, the only one that attends to all others in a decoder."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, outputs, bias=False)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, L)."""
        return self.classifier(layout.last(hidden))


class Pooler(nn.Module):
    """One vector for a sequence: its first token ([CLS]) or its last, through a dense layer of its own."""

    def __init__(
        self, width: int, *, act: str, dropout: float = 0.0, pooling: Literal["first", "last"] = "first"
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.act = activation(act)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, D)."""
        token = layout.first(hidden) if self.pooling == "first" else layout.last(hidden)
        return self.act(self.dense(self.dropout(token)))


class Transform(nn.Module):
    """ModernBERT's layer between encoder and classifier: dense, activation, norm; no biases."""

    def __init__(self, width: int, *, act: str, norm_eps: float) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width, bias=False)
        self.act = activation(act)
        self.norm = nn.LayerNorm(width, eps=norm_eps, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)."""
        return self.norm(self.act(self.dense(x)))


class TransformedPooler(nn.Module):
    """One vector for a sequence: its first token or the mean of all, then a `Transform`."""

    def __init__(self, pooling: Pooling, transform: Transform) -> None:
        super().__init__()
        self.pool = SentenceVector(pooling)
        self.transform = transform

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, D)."""
        return self.transform(self.pool(hidden, layout))


class SequenceHead(nn.Module):
    """Logits of a sequence: classes, regression, next sentence, sentence order, score of a choice.

    For choices the batch holds one sequence per choice and `outputs` is 1; the caller groups the scores.
    """

    def __init__(self, pooler: nn.Module, width: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pooler = pooler
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, outputs)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, L)."""
        return self.classifier(self.dropout(self.pooler(hidden, layout)))


class TokenHead(nn.Module):
    """Logits of each token: tags (L labels) or answer spans (2: the start and the end of an answer)."""

    def __init__(self, width: int, outputs: int, dropout: float = 0.0, transform: nn.Module | None = None) -> None:
        super().__init__()
        self.transform = transform or nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, outputs)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…, L)."""
        return self.classifier(self.dropout(self.transform(hidden)))


class ReplacedTokenHead(nn.Module):
    """ELECTRA's discriminator: a positive logit where a token was replaced."""

    def __init__(self, width: int, *, act: str) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.act = activation(act)
        self.classifier = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (…)."""
        return self.classifier(self.act(self.dense(hidden))).squeeze(-1)


class SentenceVector(nn.Module):
    """One vector for a text, without parameters: the mean, maximum or first of its token vectors.

    "weighted" is the mean in which the n-th token counts n times.
    """

    def __init__(self, pooling: Pooling = "mean", *, normalise: bool = False) -> None:
        super().__init__()
        known = get_args(Pooling)
        require(pooling in known, f"pooling={pooling!r} is not known; choose {', '.join(known)}", BadInput)
        self.pooling: Pooling = pooling
        self.normalise = normalise

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """(…, D) -> (B, D)."""
        return sentence_vectors(hidden, layout, self.pooling, normalise=self.normalise)


def sentence_vectors(hidden: Tensor, layout: Layout, pooling: Pooling, *, normalise: bool) -> Tensor:
    """One vector for each text, of its token vectors: (…, D) -> (B, D)."""
    vector: Tensor = getattr(layout, pooling)(hidden)
    if not normalise:
        return vector
    # F.normalize in half the calls
    return vector / torch.linalg.vector_norm(vector, dim=-1, keepdim=True).clamp_min(1e-12)
