"""The best spans of a text, from the logits of its windows: every span of every window, without a loop over tokens."""

# P pieces of the whole text · n pieces of a window · A longest answer, in pieces

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SpanTable:
    """`logits[p, a]` is start + end logit of pieces p … p + a, the larger one where windows overlap; -inf: no span.

    `null` is the logit of "no answer": [CLS] as start and end, in the window that believes in it least.
    """

    logits: Tensor  # (P, A)
    null: float

    @classmethod
    def of(
        cls, pieces: int, firsts: Sequence[int], passages: Sequence[range], tables: Sequence[Tensor], longest: int
    ) -> "SpanTable":
        """Collect the windows: `firsts` their first pieces, `passages` their token positions, `tables` (tokens, 2)."""
        logits = torch.full((pieces, longest), -torch.inf)
        for first, passage, table in zip(firsts, passages, tables, strict=True):
            if not passage:  # an empty text
                continue
            start, end = table[passage.start : passage.stop].unbind(-1)
            ends = F.pad(end, (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)  # (n, A)
            part = logits[first : first + len(passage)]
            torch.maximum(part, start[:, None] + ends, out=part)
        # [CLS] is the first token of every family that reads pairs
        return cls(logits, min(float(table[0].sum()) for table in tables))

    @property
    def log_total(self) -> float:
        """The logarithm of the sum over all spans and "no answer", by which a logit becomes a probability."""
        return float(torch.cat([self.logits.flatten(), torch.tensor([self.null])]).logsumexp(0))

    def best(self) -> Iterator[tuple[int, int, float]]:
        """First piece, last piece and logit of every span, the best first."""
        flat, longest = self.logits.flatten(), self.logits.shape[1]
        given, count = 0, min(32, len(flat))
        while given < count:
            values, places = flat.topk(count)
            for value, place in zip(values[given:].tolist(), places[given:].tolist(), strict=True):
                if value == -torch.inf:
                    return
                yield place // longest, place // longest + place % longest, value
            given, count = count, min(8 * count, len(flat))
