"""MiniLM-v2: relations of a packed batch equal the plain computation, sequence by sequence and head by head."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.nn.layout import Packed
from clearhead.objectives.distillation import relations

torch.set_num_threads(1)
LENGTHS = [3, 3, 5, 0, 1, 3]


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(15, 2, 4, generator=rng).requires_grad_(), torch.randn(15, 3, 4, generator=rng)


def plain(student: torch.Tensor, teacher: torch.Tensor, heads: int) -> torch.Tensor:
    total = torch.zeros(())
    for ours, theirs in zip(student.split(LENGTHS), teacher.split(LENGTHS), strict=True):
        for head in range(heads):
            chances = []
            for x in (ours.flatten(1), theirs.flatten(1)):
                width = x.shape[1] // heads
                part = x[:, head * width : (head + 1) * width]
                chances.append((part @ part.T / width**0.5).softmax(-1))
            total = total + (chances[1] * (chances[1].log() - chances[0].log())).sum() / heads
    return total


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_same_as_one_head_of_one_sequence_at_a_time(heads):
    student, teacher = tensors()
    loss, expected = relations(student, teacher, Packed.of(LENGTHS), heads), plain(student, teacher, heads)
    assert loss.count == 15
    assert_close(loss.total, expected)
    (got,), (wanted,) = torch.autograd.grad(loss.total, student), torch.autograd.grad(expected, student)
    assert_close(got, wanted)


def test_a_student_that_relates_alike_has_nothing_to_learn():
    student, _ = tensors()
    assert_close(relations(student, student.detach(), Packed.of(LENGTHS), 2).total, torch.tensor(0.0))


def test_half_precision_is_computed_in_full():
    student, teacher = (x.detach().bfloat16() for x in tensors())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = relations(student, teacher, Packed.of(LENGTHS), 2)
    assert_close(loss.total, plain(student.float(), teacher.float(), 2))


def test_heads_that_do_not_fit_are_refused():
    student, teacher = tensors()
    with pytest.raises(BadInput, match="3 relation heads do not divide the student's width 8"):
        relations(student, teacher, Packed.of(LENGTHS), 3)
