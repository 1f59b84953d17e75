"""Ids to vectors: token, position and segment embeddings summed; words from their characters."""

# N words · C characters of a word · E embedding width · D width; … is (N) packed or (B, T) padded

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.errors import InputTooLong, require
from clearhead.nn.fused import bound_norm

UNLIMITED = sys.maxsize  # the `max_length` of a model whose positions are relative: no text is too long for it
CAPITAL_KINDS = 3  # words without capitals, with some, of nothing else


class SummedEmbeddings(nn.Module):
    """token + position + segment, normalised; the sizes are those of a configuration with BERT's field names.

    `first_position` is where RoBERTa starts to count (its table keeps rows for padding).
    """

    def __init__(self, config: Any, width: int, first_position: int = 0) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, width)
        self.position = nn.Embedding(config.max_position_embeddings, width)
        self.segment = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.first_position = first_position

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Ids, positions and segments (…) -> (…, E); without segments, all tokens are in the first."""
        x = self.token(ids) + self.position(positions + self.first_position)
        if self.segment is not None:
            x = x + (self.segment.weight[0] if segments is None else self.segment(segments))
        return self.dropout(self.norm(x))

    def capture(self) -> Callable[[Tensor, Tensor | None], Tensor]:
        """Ids and segments (N,) of a single text -> (N, E), with the weights as they are now, for inference."""
        token, norm = self.token.weight, bound_norm(self.norm)
        position = self.position.weight.detach()[self.first_position :]
        segment = None if self.segment is None else self.segment.weight.detach()
        plain = position if segment is None else position + segment[0]

        def embed(ids: Tensor, segments: Tensor | None) -> Tensor:
            x = torch.embedding(token, ids)
            if segments is None or segment is None:
                return norm(x.add_(plain[: ids.shape[0]]))
            return norm(x.add_(position[: ids.shape[0]]).add_(torch.embedding(segment, segments)))

        return embed


class FactorisedEmbeddings(nn.Module):
    """ALBERT's and small ELECTRA's: narrow embeddings, then a projection to the model's width."""

    def __init__(self, inner: SummedEmbeddings, width: int) -> None:
        super().__init__()
        self.inner = inner
        self.project = nn.Linear(inner.token.embedding_dim, width)

    @property
    def token(self) -> nn.Embedding:
        """The token embedding, for the masked-LM head to share."""
        return self.inner.token

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Ids, positions and segments (…) -> (…, D)."""
        return self.project(self.inner(ids, positions, segments))


class TokenEmbeddings(nn.Module):
    """Tokens alone, normalised: for models whose attention brings the positions in (rotary).

    `add_capitals` adds a table for what lower-casing loses, which starts at 0: nothing changes until it is trained.
    """

    def __init__(self, vocabulary: int, width: int, *, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.capital: nn.Embedding | None = None
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def add_capitals(self) -> Tensor:
        """Add a table with a row for each kind of word, and give its rows (3, D)."""
        weight = self.token.weight
        self.capital = nn.Embedding.from_pretrained(weight.new_zeros(CAPITAL_KINDS, weight.shape[1]), freeze=False)
        return self.capital.weight

    def forward(self, ids: Tensor, positions: Tensor | None = None, capitals: Tensor | None = None) -> Tensor:
        """Ids and kinds of words (…) -> (…, D); positions are ignored; without kinds, no word has capitals."""
        x = self.token(ids)
        if self.capital is not None:
            x = x + (self.capital.weight[0] if capitals is None else self.capital(capitals))
        return self.dropout(self.norm(x))

    def capture(self) -> Callable[[Tensor, Tensor | None], Tensor]:
        """Ids and kinds of words (N,) of a single text -> (N, D), with the weights as they are now, for inference."""
        token, norm = self.token.weight, bound_norm(self.norm)
        capital = None if self.capital is None else self.capital.weight.detach()

        def embed(ids: Tensor, capitals: Tensor | None) -> Tensor:
            x = torch.embedding(token, ids)
            if capital is not None:
                x.add_(capital[0] if capitals is None else torch.embedding(capital, capitals))
            return norm(x)

        return embed


class PositionedEmbeddings(nn.Module):
    """token · scale + position, normalised if there is a `norm`: for decoders and encoder–decoders.

    `position` gives a vector for a position: an `nn.Embedding`, or a fixed table.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        position: nn.Module,
        *,
        dropout: float,
        scale: float = 1.0,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = position
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.scale = scale

    def forward(self, ids: Tensor, positions: Tensor, places: "Places | None" = None) -> Tensor:
        """Ids and positions (…) -> (…, D); with `places`, their positions and norm in the place of its own."""
        own: Any = self if places is None else places
        tokens = self.token(ids) * self.scale
        x = (tokens + own.position(positions)).to(tokens.dtype)  # a fixed table stays in float32
        return self.dropout(x if own.norm is None else own.norm(x))


class Places(nn.Module):
    """The positions and the norm of a decoder that shares its tokens with the encoder, and nothing else (BART)."""

    def __init__(self, position: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.position = position
        self.norm = norm


def check_length(longest: int, limit: int) -> None:
    """Refuse a sequence that has more tokens than the model has positions."""
    require(
        longest <= limit,
        f"Input has {longest} tokens, the model has {limit} positions. Cut it into windows "
        "(clearhead.text.windows) or choose a checkpoint with more positions.",
        InputTooLong,
    )


def inner_of(embeddings: Any) -> Any:
    """The embeddings that are summed, without the projection that some families have after them."""
    return embeddings.inner if isinstance(embeddings, FactorisedEmbeddings) else embeddings


def initialise(module: nn.Module, std: float) -> None:
    """Draw all matrices from N(0, std²) and set biases to 0, norms to 1, as BERT does."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


_PAD, _BEGIN, _END, _FIRST = 0, 1, 2, 3
CHARACTERS = _FIRST + 256
_SPREAD = 8.0  # times torch's own scale at first, with which all words seem alike: those of a table differ by one


def spell(words: Sequence[str], longest: int) -> Tensor:
    """The bytes of words between a begin and an end, (N, longest) int16; a longer word loses its last bytes."""
    table = torch.full((len(words), longest), _PAD, dtype=torch.int16)
    for row, word in enumerate(words):
        letters = [_BEGIN, *(byte + _FIRST for byte in word.encode()[: longest - 2]), _END]
        table[row, : len(letters)] = torch.tensor(letters, dtype=torch.int16)
    return table


class Highway(nn.Module):
    """A highway layer (Srivastava et al. 2015): a gate chooses between input and transformation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, 2 * width)
        nn.init.constant_(self.map.bias[width:], 1.0)  # the gate starts open for the input

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        new, keep = self.map(x).chunk(2, -1)
        keep = keep.sigmoid()
        return keep * x + (1 - keep) * new.relu()


class CharacterCNN(nn.Module):
    """ELMo's words from their characters: convolutions, max-pooling, highways; `filters` are (width, how many)."""

    def __init__(self, embed: int, filters: Sequence[tuple[int, int]], highways: int, width: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(CHARACTERS, embed, padding_idx=_PAD)
        self.convolutions = nn.ModuleList(nn.Conv1d(embed, count, letters) for letters, count in filters)
        total = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.project = nn.Linear(total, width)
        self._widest = max(letters for letters, _ in filters)
        with torch.no_grad():
            self.project.weight.mul_(_SPREAD)

    def forward(self, spelled: Tensor) -> Tensor:
        """(N, C) -> (N, D). Each spelling is worked out once, however often it stands there."""
        different, which = spelled.unique(dim=0, return_inverse=True)
        # past the longest word, as many pads are read as a filter sees: more would all give the same
        longest = int((different != _PAD).any(0).sum())
        letters = self.letter(different[:, : longest + self._widest].long()).mT  # (N, E, C)
        x = torch.cat([F.relu(convolution(letters).amax(-1)) for convolution in self.convolutions], -1)
        for highway in self.highways:
            x = highway(x)
        return self.project(x)[which]
