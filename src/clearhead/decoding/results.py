"""What decoding gives back, and what can be seen of its steps."""

# B rows · V vocabulary

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from clearhead.errors import BadCheckpoint


@dataclass(frozen=True)
class Output:
    """One text that was written: its new tokens, without the one that ended it."""

    tokens: list[int]
    score: float  # sum of the log probabilities; of a beam, divided by length ** length_penalty
    log_probabilities: list[float]  # of each token, and of the end if there is one
    ended: bool  # by an end token or a stop string, not by the limit


@dataclass(frozen=True)
class Step:
    """What the model believed before one token: the likeliest tokens of one row."""

    number: int
    text: int  # which prompt or source
    written: list[int]  # new tokens so far
    candidates: list[tuple[int, float]]  # token and probability, likeliest first
    chosen: list[int]  # the token taken; of a beam, those that went on from here


@dataclass
class Recorder:
    """Give one to a decoder to see its steps. Attention is seen with `nn.record` on the `Attend` parts."""

    top: int = 5
    steps: list[Step] = field(default_factory=list)

    def note(
        self,
        texts: Sequence[int],
        written: Sequence[Sequence[int]],
        logits: Tensor,
        chosen: Sequence[Sequence[int]],
    ) -> None:
        """Keep one step of all rows: which text each belongs to, and its logits (B, V) before any control."""
        values, tokens = logits.topk(min(self.top, logits.shape[-1]))
        chances = (values - logits.logsumexp(-1, keepdim=True)).exp()
        for row, text in enumerate(texts):
            candidates = list(zip(tokens[row].tolist(), chances[row].tolist(), strict=True))
            number = len(written[row])
            self.steps.append(Step(number, text, list(written[row]), candidates, list(chosen[row])))


def log_probabilities(logits: Tensor) -> Tensor:
    """Log probabilities of all tokens, (B, V) -> (B, V); refuse a model that computes no numbers."""
    # on a CPU quicker than torch.logsumexp, though it makes a number for every token
    found = logits.float().log_softmax(-1)
    if found[:, 0].isnan().any():  # one bad number in a row is in every sum
        raise BadCheckpoint(
            "the model's scores are not numbers (NaN or infinite): its weights are damaged, or too large for their "
            "type; use another checkpoint"
        )
    return found
