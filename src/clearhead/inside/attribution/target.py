"""The number that is explained: one answer of a model, as a function of the tokens it reads."""

# n sequences · T tokens · E embedding width · D width · C choices

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from clearhead.nn.layout import Packed
from clearhead.nn.network import Network
from clearhead.nn.record import evaluating

_BATCH_TOKENS = 8192

# hidden states (n·T, D) and their layout -> one table (n, C) for each choice that makes the answer
Reader = Callable[[Tensor, Packed], Sequence[Tensor]]


@dataclass(frozen=True)
class Target:
    """One answer: in each table that `read` gives, the column that was picked.

    Its logit is the sum over the tables (a span has two: start and end), its probability the product.
    """

    network: Network
    read: Reader = field(repr=False)
    picks: tuple[int, ...]
    use: str
    answer: str
    ids: Tensor  # (T,)
    segments: Tensor  # (T,)
    tokens: list[str]
    looks_from: list[int]  # where the head reads
    hidable: list[int]  # tokens of the text; the special ones are always there
    blank: int  # what stands for a hidden token

    def scores(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logit and probability of the answer for each row of ids (n, T): (n,) and (n,)."""
        logits, shares = [], []
        size = max(1, _BATCH_TOKENS // ids.shape[1])
        with torch.no_grad(), evaluating(self.network):
            for part in ids.split(size):
                tables = self._tables(part)
                logits.append(self._sum(tables))
                shares.append(torch.stack([t.softmax(-1)[:, i] for t, i in self._picked(tables)]).prod(0))
        return torch.cat(logits).cpu(), torch.cat(shares).cpu()

    def gradient(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n,) for token vectors (n, T, E) in the place of the tokens' own, and their gradient (n, T, E)."""
        logits, gradients = [], []
        size = max(1, _BATCH_TOKENS // vectors.shape[1])
        with torch.enable_grad(), evaluating(self.network):
            for part in vectors.detach().split(size):
                given = part.requires_grad_()
                with _replaced(self.network.encoder.embeddings.token, given.flatten(0, 1)):
                    logit = self._sum(self._tables(self.ids.expand(len(given), -1)))
                gradients.append(torch.autograd.grad(logit.sum(), given)[0])
                logits.append(logit.detach())
        return torch.cat(logits), torch.cat(gradients)

    def vectors(self, ids: Tensor) -> Tensor:
        """The token embeddings of ids (T,): (T, E)."""
        with torch.no_grad():
            found: Tensor = self.network.encoder.embeddings.token(ids)
        return found

    def hidden(self, positions: Sequence[int]) -> Tensor:
        """The ids with the tokens at these positions hidden: (T,)."""
        ids = self.ids.clone()
        ids[list(positions)] = self.blank
        return ids

    def _tables(self, ids: Tensor) -> Sequence[Tensor]:
        n, length = ids.shape
        layout = Packed.of([length] * n, ids.device)
        states = self.network.encoder(ids.flatten(), layout, self.segments.repeat(n))
        return [table.float() for table in self.read(states, layout)]

    def _picked(self, tables: Sequence[Tensor]) -> Iterator[tuple[Tensor, int]]:
        return zip(tables, self.picks, strict=True)

    def _sum(self, tables: Sequence[Tensor]) -> Tensor:
        return torch.stack([table[:, pick] for table, pick in self._picked(tables)]).sum(0)


@contextmanager
def _replaced(module: nn.Module, output: Tensor) -> Iterator[None]:
    """Let a module give this output, whatever it is asked."""
    handle = module.register_forward_hook(lambda *_: output)
    try:
        yield
    finally:
        handle.remove()
