"""What may be written, and when it is enough: the same rules for greedy, sampling and beam search."""

# B rows · V vocabulary

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.decoding.checks import check_number, check_whole
from clearhead.errors import BadInput, require


@dataclass(frozen=True, kw_only=True)
class Controls:
    """Rules for the tokens of one text. `end` are the tokens that end it; they are not part of the result.

    `repetition_penalty` divides positive scores of tokens that were there before and multiplies negative ones (Keskar
    et al. 2019); with `no_repeat=n`, no n tokens follow one another twice. `stop` strings need `decode`.
    """

    end: tuple[int, ...] = ()
    limit: int = 128  # new tokens, at most
    least: int = 0  # new tokens before the end, at least
    banned: tuple[int, ...] = ()
    repetition_penalty: float = 1.0
    no_repeat: int = 0
    stop: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        check_whole("limit", self.limit, least=1)
        check_whole("least", self.least)
        check_whole("no_repeat", self.no_repeat)
        penalty = self.repetition_penalty
        check_number("repetition_penalty", penalty)
        require(penalty > 0, f"repetition_penalty must be more than 0, got {penalty}; 1 is no penalty", BadInput)
        require(all(self.stop), "a stop string must not be empty", BadInput)
        require(not self.stop or self.decode is not None, "stop strings need decode, which makes text of ids", BadInput)

    def changes(self, count: int) -> bool:
        """Whether `apply` would change scores after `count` new tokens."""
        held_back = count < self.least and bool(self.end)
        return held_back or bool(self.banned) or self.repetition_penalty != 1.0 or self.no_repeat > 0

    def apply(self, scores: Tensor, texts: Sequence[Sequence[int]], count: int) -> Tensor:
        """Change the scores (B, V) of the next token of texts that have `count` new tokens."""
        return self.apply_(scores.clone(), texts, count) if self.changes(count) else scores

    def apply_(self, scores: Tensor, texts: Sequence[Sequence[int]], count: int) -> Tensor:
        """The same where the scores stand: nobody else may need them."""
        if self.repetition_penalty != 1.0:
            for row, text in enumerate(texts):
                seen = torch.tensor(sorted(set(text)), dtype=torch.int64, device=scores.device)
                old = scores[row, seen]
                scores[row, seen] = torch.where(old < 0, old * self.repetition_penalty, old / self.repetition_penalty)
        if self.no_repeat:
            for row, text in enumerate(texts):
                scores[row, _completions(text, self.no_repeat)] = -torch.inf
        scores[:, list(self.banned)] = -torch.inf
        if count < self.least:
            scores[:, list(self.end)] = -torch.inf
        return scores

    def stops(self, new: Sequence[int]) -> bool:
        """Whether one of the stop strings is in the text of the new tokens; asked after every token."""
        if not self.stop or self.decode is None:
            return False
        # a character takes up to four tokens of bytes, and what is further back was looked at before
        recent = self.decode(new[-4 * max(map(len, self.stop)) - 4 :])
        return any(stop in recent for stop in self.stop)


def _completions(text: Sequence[int], n: int) -> list[int]:
    """The tokens that would make the last n tokens of a text a repetition."""
    if len(text) + 1 < n:
        return []
    before = list(text[len(text) - n + 1 :])
    return [text[i + n - 1] for i in range(len(text) - n + 1) if list(text[i : i + n - 1]) == before]
