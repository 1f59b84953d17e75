"""Multiple choice: which of a question's candidates is right?"""

# B sequences, one for each candidate · Q questions

from torch import Tensor

from clearhead.objectives.loss import Loss
from clearhead.objectives.segments import group_log_softmax, group_max, owners


def right_choice(logits: Tensor, choices: Tensor, choice: Tensor) -> Loss:
    """Compare logits (B, 1) with the right candidate `choice` (Q,) of each question, which has `choices` (Q,) of them.

    The softmax goes over each question's own candidates, however many there are.
    """
    count = choices.shape[0]
    owner = owners(choices, logits.shape[0])
    log_chances = group_log_softmax(logits.float(), owner, count)  # (B, 1)
    chosen = log_chances[choices.cumsum(0) - choices + choice]  # (Q, 1)
    right = chosen >= group_max(log_chances.detach(), owner, count)
    return Loss(-chosen.sum(), count, {"accuracy": (right.sum(), count)})
