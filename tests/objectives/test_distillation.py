"""Distillation: the published losses, and students that start from their teachers."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.models.albert import Albert, AlbertConfig
from clearhead.models.bert import Bert, BertConfig, heads
from clearhead.models.distilbert import DistilBert, DistilBertConfig
from clearhead.models.distilbert import heads as distilbert_heads
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.objectives.distillation import (
    alternate_layers,
    cosine_distance,
    relations,
    soft_similarities,
    soft_targets,
    spread,
)

torch.set_num_threads(1)


def network(layers: int, width: int = 8, **outputs: int) -> Network:
    bert = Bert(
        BertConfig(
            vocab_size=20,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
        )
    )
    return Network(bert, heads(bert, {"masked_lm": 20, **outputs}))


def test_soft_targets_are_the_published_loss():
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 7, requires_grad=True), torch.randn(5, 7)
    published = torch.nn.KLDivLoss(reduction="batchmean")(
        torch.log_softmax(student / 2, -1), torch.softmax(teacher / 2, -1)
    )
    loss = soft_targets(student, teacher)
    assert loss.count == 5
    assert_close(loss.mean, published * 2.0**2)
    (got,), (wanted,) = torch.autograd.grad(loss.mean, student), torch.autograd.grad(published * 4, student)
    assert_close(got, wanted)


def test_directions_are_the_published_loss():
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 7), torch.randn(5, 7)
    published = torch.nn.CosineEmbeddingLoss(reduction="mean")(student, teacher, torch.ones(5))
    assert_close(cosine_distance(student, teacher).mean, published)
    assert_close(cosine_distance(3 * teacher, teacher).total, torch.tensor(0.0), atol=1e-6, rtol=0)


def test_layers_are_spread_as_published():
    assert spread(12, 6) == [0, 2, 4, 7, 9, 11]
    assert spread(12, 1) == [0]
    for teacher in range(1, 25):
        for student in range(1, teacher + 1):
            chosen = spread(teacher, student)
            assert len(set(chosen)) == student
            assert chosen == sorted(chosen)
            assert student == 1 or (chosen[0] == 0 and chosen[-1] == teacher - 1)
    with pytest.raises(BadInput, match="the student has 3 layers and the teacher 2; give the student fewer"):
        spread(2, 3)


def test_a_student_starts_from_its_teacher():
    teacher, student = network(4, next_sentence=2), network(2, next_sentence=2, classes=3)
    fresh = {name: p.clone() for name, p in student.heads["classes"].classifier.named_parameters()}
    assert alternate_layers(teacher, student) == [0, 3]
    source = teacher.state_dict()
    for name, tensor in student.state_dict().items():
        if name.startswith("heads.classes.classifier"):
            assert torch.equal(tensor, fresh[name.rsplit(".", 1)[1]])  # the teacher has none: left as it was
        elif not name.startswith("heads.classes"):
            assert torch.equal(tensor, source[name.replace("blocks.1.", "blocks.3.")]), name
    assert student.heads["masked_lm"].weight is student.encoder.embeddings.token.weight
    with torch.no_grad():
        student.encoder.embeddings.token.weight.zero_()
    assert teacher.encoder.embeddings.token.weight.abs().sum() > 0  # a copy


def test_a_full_student_is_its_teacher():
    teacher, student = network(3).eval(), network(3).eval()
    alternate_layers(teacher, student)
    ids = torch.randint(20, (2, 9))
    assert torch.equal(student("masked_lm", ids), teacher("masked_lm", ids))


def test_a_distilbert_starts_from_a_bert():
    config = DistilBertConfig(vocab_size=20, dim=8, n_layers=2, n_heads=2, hidden_dim=16, max_position_embeddings=16)
    encoder = DistilBert(config)
    teacher, student = network(4), Network(encoder, distilbert_heads(encoder, {"masked_lm": 20}))
    assert alternate_layers(teacher, student) == [0, 3]
    assert torch.equal(encoder.embeddings.position.weight, teacher.encoder.embeddings.position.weight)


def test_shared_layers_are_copied_once():
    config = {"vocab_size": 20, "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 2}
    config |= {"intermediate_size": 16, "max_position_embeddings": 16}
    teacher, student = (Network(Albert(AlbertConfig(**config, num_hidden_layers=n)), {}) for n in (4, 2))
    alternate_layers(teacher, student)
    for ours, theirs in zip(student.parameters(), teacher.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_strangers_are_refused():
    with pytest.raises(BadInput, match=r"token.weight is \(20, 16\) in the teacher and \(20, 8\) in the student; only"):
        alternate_layers(network(4, width=16), network(2))
    config = AlbertConfig(vocab_size=20, embedding_size=8, hidden_size=8, num_hidden_layers=4, num_attention_heads=2)
    with pytest.raises(BadInput, match=r"the teacher has no encoder\.embeddings\..*; choose a student of its family"):
        alternate_layers(Network(Albert(config), {}), network(2))


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


def test_similarities_are_the_teachers():
    ours, theirs = torch.randn(2, 6, 5)
    scores = [F.normalize(x, dim=-1)[:2] @ F.normalize(x, dim=-1)[2:].T * 20 for x in (ours, theirs)]
    expected = F.kl_div(scores[0].log_softmax(-1), scores[1].softmax(-1), reduction="sum")
    loss = soft_similarities(ours, theirs, texts=3)
    assert_close(loss.total, expected)
    assert loss.count == 2
    assert_close(soft_similarities(theirs, 3 * theirs, texts=3).total, torch.tensor(0.0), atol=1e-5, rtol=0)
