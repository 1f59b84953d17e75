"""Every task: learns one batch by heart, reaches its parameters, counts what it sums, and may be cut into pieces."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, WrongTask
from clearhead.models import albert, bert, deberta, electra
from clearhead.nn.embeddings import initialise
from clearhead.nn.heads import Network, ReplacedTokenHead, SentenceVector
from clearhead.training.tasks.classification import (
    Classify,
    Contrastive,
    CosineRegression,
    FindSpans,
    MultiLabel,
    MultipleChoice,
    Regress,
    SimilarityRanking,
    TagTokens,
)
from clearhead.training.tasks.distillation import Distillation, RelationDistillation
from clearhead.training.tasks.language import MaskedLM, MaskedLMWithPairs, ReplacedAndMasked, ReplacedTokens
from clearhead.training.tasks.task import Task

torch.set_num_threads(1)
V, MASK = 24, 4
SMALL = {"vocab_size": V, "intermediate_size": 24, "max_position_embeddings": 16, "num_attention_heads": 2}
# weights large enough that tokens differ, so that gradients are more than rounding
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.2}
ROWS = range(6)

_rng = torch.Generator().manual_seed(0)
FIRST, SECOND = (
    [torch.randint(5, V, (n,), generator=_rng).tolist() for n in lengths]
    for lengths in ((5, 3, 3, 8, 4, 6), (4, 4, 7, 3, 5, 3))
)


def small_bert(*, width: int = 16, layers: int = 2, heads: int = 2, **outputs: int) -> Network:
    settings = SMALL | STILL | {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    encoder = bert.Bert(bert.BertConfig(**settings))
    return Network(encoder, bert.heads(encoder, outputs))


def small_electra(head: str, *, width: int, embedding: int = 8) -> Network:
    settings = SMALL | STILL | {"embedding_size": embedding, "hidden_size": width, "num_hidden_layers": 2}
    encoder = electra.Electra(electra.ElectraConfig(**settings))
    return Network(encoder, electra.heads(encoder, {head: V}))


def small_albert(layers: int) -> Network:
    settings = SMALL | {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": layers}
    encoder = albert.Albert(albert.AlbertConfig(**settings, classifier_dropout_prob=0.0))
    network = Network(encoder, albert.heads(encoder, {"masked_lm": V, "sentence_order": 2}))
    initialise(network, std=0.2)
    return network


def sure_teacher(*, width: int = 16, layers: int = 3, heads: int = 2) -> Network:
    """Draw a teacher whose tokens attend unequally and whose answers are near certain."""
    teacher = small_bert(width=width, layers=layers, heads=heads, masked_lm=V)
    for parameter in teacher.parameters():
        nn.init.normal_(parameter, std=0.3)
    nn.init.constant_(teacher.heads["masked_lm"].norm.weight, 20.0)
    return teacher


# examples, by their rows, to a batch: half of them make half of a batch


def plain(rows: Sequence[int]) -> Batch:
    return Batch.of([FIRST[row] for row in rows])


def masked(rows: Sequence[int]) -> Batch:
    sequences = [[MASK if place % 3 == 1 else token for place, token in enumerate(FIRST[row])] for row in rows]
    text = [token for row in rows for token in FIRST[row]]
    offsets = accumulate((len(sequence) for sequence in sequences[:-1]), initial=0)
    places = [start + place for start, s in zip(offsets, sequences, strict=True) for place in range(1, len(s), 3)]
    labels = torch.tensor([text[place] for place in places])
    return Batch.of(sequences, targets={"where": torch.tensor(places), "labels": labels})


def labelled(**values: Tensor) -> Callable[[Sequence[int]], Batch]:
    return lambda rows: Batch.of(
        [FIRST[row] for row in rows], targets={name: value[list(rows)] for name, value in values.items()}
    )


def masked_pairs(kind: str) -> Callable[[Sequence[int]], Batch]:
    def make(rows: Sequence[int]) -> Batch:
        batch = masked(rows)
        batch.targets[kind] = torch.tensor([row % 2 for row in rows])
        return batch

    return make


def tagged(rows: Sequence[int]) -> Batch:
    tags = [token % 3 if place else -100 for row in rows for place, token in enumerate(FIRST[row])]
    return Batch.of([FIRST[row] for row in rows], targets={"tags": torch.tensor(tags)})


def questions(rows: Sequence[int]) -> Batch:
    candidates = [[*FIRST[row], 5 + n] for row in rows for n in range(2 + row % 3)]
    choices = torch.tensor([2 + row % 3 for row in rows])
    return Batch.of(candidates, targets={"choices": choices, "choice": torch.tensor(list(rows)) % choices})


def pairs(rows: Sequence[int]) -> Batch:
    similarity = torch.tensor([1.0, 0.2, -0.5, 0.9, 0.0, -0.8])
    sequences = [FIRST[row] for row in rows] + [SECOND[row] for row in rows]
    return Batch.of(sequences, targets={"similarity": similarity[list(rows)]})


def distilled(rows: Sequence[int]) -> Batch:
    """Mask tokens that the teacher of the distillation is sure of, so that its parts agree."""
    batch = masked(rows)
    with torch.no_grad():
        logits = TEACHER.eval()("masked_lm", batch.ids, batch.layout)
    batch.targets["labels"] = logits[batch.targets["where"]].argmax(-1)
    return batch


torch.manual_seed(1)
TEACHER = sure_teacher()
STARTS, ENDS = torch.tensor([1, 0, 9, 7, 2, 3]), torch.tensor([2, 0, 9, 7, 3, 5])  # the third is outside
MULTI = torch.tensor([[1.0, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1], [1, 0, 0]])
MEAN = SentenceVector("mean")

CASES: dict[str, tuple[Callable[[], Task], Callable[[Sequence[int]], Batch]]] = {
    "masked": (lambda: MaskedLM(small_bert(masked_lm=V)), masked),
    "next sentence": (
        lambda: MaskedLMWithPairs(small_bert(masked_lm=V, next_sentence=2), "next_sentence"),
        masked_pairs("next_sentence"),
    ),
    "sentence order": (
        lambda: MaskedLMWithPairs(small_albert(2), "sentence_order"),
        masked_pairs("sentence_order"),
    ),
    "replaced": (
        lambda: ReplacedTokens(small_electra("masked_lm", width=12), small_electra("replaced", width=16)),
        masked,
    ),
    "distillation": (lambda: Distillation(small_bert(masked_lm=V), TEACHER), distilled),
    "relations": (
        lambda: RelationDistillation(small_bert(), sure_teacher(width=24, heads=4), relation_heads=4),
        plain,
    ),
    "classes": (
        lambda: Classify(small_bert(classes=3), class_weights=torch.tensor([1.0, 2.0, 0.5])),
        labelled(classes=torch.tensor([0, 1, 2, 0, 2, 1])),
    ),
    "multi-label": (lambda: MultiLabel(small_bert(classes=3)), labelled(classes=MULTI)),
    "regression": (
        lambda: Regress(small_bert(classes=1)),
        labelled(scores=torch.tensor([2.5, 1.0, 4.0, 2.0, 3.5, 0.5])),
    ),
    "tags": (lambda: TagTokens(small_bert(tags=3), class_weights=torch.tensor([1.0, 2.0, 0.5])), tagged),
    "spans": (lambda: FindSpans(small_bert(span=2)), labelled(starts=STARTS, ends=ENDS)),
    "choices": (lambda: MultipleChoice(small_bert(choice=1)), questions),
    "contrast": (lambda: Contrastive(small_bert(), MEAN), pairs),
    "cosines": (lambda: CosineRegression(small_bert(), MEAN), pairs),
    "order": (lambda: SimilarityRanking(small_bert(), MEAN), pairs),
}
every_task = pytest.mark.parametrize("name", CASES)


def build(name: str) -> tuple[Task, Callable[[Sequence[int]], Batch]]:
    torch.manual_seed(0)
    make, batch = CASES[name]
    return make(), batch


def backward(task: Task, batches: Sequence[Batch]) -> float:
    """Do what the loop does in a step before its optimiser: sums over micro-batches, divided by the step's totals."""
    counts = [task.counts(batch) for batch in batches]
    totals = {part: sum(count[part] for count in counts) for part in task.weights}
    loss = 0.0
    for batch in batches:
        losses = task.losses(batch)
        assert losses.keys() == task.weights.keys()
        part = sum(task.weights[p] * losses[p].total / totals[p] for p in losses)
        part.backward()
        loss += float(part.detach())
    return loss


def gradients(task: Task, batches: Sequence[Batch]) -> Tensor:
    task.network.zero_grad()
    torch.manual_seed(3)  # what the generator draws
    backward(task, batches)
    return torch.cat([p.grad.flatten() for p in task.network.parameters() if p.grad is not None])


@every_task
def test_counts_are_known_before_the_pass(name):
    task, batch = build(name)
    for rows in (ROWS, ROWS[:2], ROWS[2:3]):
        losses = task.losses(batch(rows))
        assert task.counts(batch(rows)) == {part: int(loss.count) for part, loss in losses.items()}
        for loss in losses.values():
            assert loss.total.shape == ()
            assert loss.total.dtype == torch.float32
            assert all(0 <= float(total) <= float(count) for total, count in loss.metrics.values())


@every_task
def test_one_batch_is_learnt_by_heart(name):
    task, batch = build(name)
    optimiser = torch.optim.AdamW(task.network.parameters(), lr=0.01, weight_decay=0.0)
    curve = []
    for _ in range(160 if name == "replaced" else 80):  # whose labels change while the generator learns
        optimiser.zero_grad()
        torch.manual_seed(3)  # the generator draws with the same luck each time: a batch that changes has no heart
        curve.append(backward(task, [batch(ROWS)]))
        optimiser.step()
    assert curve[-1] < curve[0] / 10, curve[::10]


@every_task
def test_gradients_reach_every_parameter(name):
    task, batch = build(name)
    backward(task, [batch(ROWS)])
    unreached = {n for n, p in task.network.named_parameters() if p.grad is None or not p.grad.any()}
    if name == "relations":  # the last layer's queries, keys and values are the end of it
        after = ("attention.output", "norm_1", "norm_2", "feedforward")
        assert all(n.startswith(tuple(f"encoder.blocks.1.{part}" for part in after)) for n in unreached)
    else:  # a bias that is the same for all candidates changes no choice
        assert unreached == ({"heads.choice.classifier.bias"} if name == "choices" else set())


# pairs that are compared with their neighbours feel where a batch is cut
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("contrast", "order")])
def test_micro_batches_add_up_to_the_batch(name):
    task, batch = build(name)
    whole = gradients(task, [batch(ROWS)])
    parts = gradients(task, [batch(ROWS[:2]), batch(ROWS[2:3]), batch(ROWS[3:])])
    assert whole.norm() > 0
    assert (whole - parts).norm() <= 1e-6 * whole.norm()


def test_generator_and_discriminator_share_their_embeddings():
    task, _ = build("replaced")
    generator, discriminator = task.network["generator"], task.network["discriminator"]
    table = discriminator.encoder.embeddings.token.weight
    assert generator.encoder.embeddings.token.weight is table
    assert generator.heads["masked_lm"].weight is table
    assert generator.encoder.embeddings.project is not discriminator.encoder.embeddings.project
    names = dict(task.network.named_parameters())
    assert sum(parameter is table for parameter in names.values()) == 1


def test_narrow_generators_share_with_an_unprojected_discriminator():
    generator, discriminator = small_electra("masked_lm", width=8), small_electra("replaced", width=16, embedding=16)
    with pytest.raises(BadConfig, match=r"share their embeddings, but have .*; give both the same vocabulary"):
        ReplacedTokens(generator, discriminator)
    generator = small_electra("masked_lm", width=8, embedding=16)
    ReplacedTokens(generator, discriminator)
    assert generator.encoder.embeddings.inner is discriminator.encoder.embeddings


def test_teachers_neither_learn_nor_drop_out():
    teacher = small_bert(masked_lm=V).train()
    task = Distillation(small_bert(masked_lm=V), teacher)
    assert not teacher.training
    backward(task, [masked(ROWS)])
    assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())


def test_relations_of_a_shared_layer_are_those_of_its_last_turn():
    teacher, batch = small_albert(3), plain(ROWS)
    losses = {}
    for turns in (2, 3, 4):
        student = small_albert(turns)
        student.load_state_dict({name: teacher.state_dict().get(name, p) for name, p in student.state_dict().items()})
        losses[turns] = RelationDistillation(student, teacher, relation_heads=2).losses(batch)["queries"].total.item()
    assert losses[3] == pytest.approx(0, abs=1e-6)
    assert losses[2] > 1e-6
    assert losses[4] > 1e-6


def test_relations_of_a_model_that_attends_in_rectangles():
    def small_deberta() -> Network:
        config = deberta.DebertaV2Config(**SMALL, **STILL, hidden_size=16, num_hidden_layers=2, position_buckets=8)
        return Network(deberta.DebertaV2(config), {})

    teacher, student = small_deberta(), small_deberta()
    task = RelationDistillation(student, teacher, relation_heads=2)
    apart = task.losses(plain(ROWS))["queries"].total.item()
    student.load_state_dict(teacher.state_dict())
    assert task.losses(plain(ROWS))["queries"].total.item() == pytest.approx(0, abs=1e-5)
    assert apart > 1e-4


def test_what_cannot_be_trained_is_refused_at_once():
    bare, filler = small_bert(), small_bert(masked_lm=V)
    with pytest.raises(WrongTask, match="this model has no head 'classes' to train; it has none"):
        Classify(bare)
    with pytest.raises(WrongTask, match="this model has no head 'sentence_order' to train; it has masked_lm"):
        MaskedLMWithPairs(filler, "sentence_order")
    with pytest.raises(WrongTask, match="the discriminator has no head 'replaced' to train; it has masked_lm"):
        ReplacedTokens(small_electra("masked_lm", width=16), small_electra("masked_lm", width=16))

    with pytest.raises(BadConfig, match="hidden_size is 16 in the student and 24 in the teacher; this distillation"):
        Distillation(filler, small_bert(width=24, masked_lm=V))


def test_one_mask_in_five_is_left_for_the_discriminator() -> None:
    discriminator = small_bert(masked_lm=V)
    discriminator.heads["replaced"] = ReplacedTokenHead(16, act="gelu")
    task = ReplacedAndMasked(small_bert(layers=1, masked_lm=V), discriminator, MASK)
    seen = []
    discriminator.encoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    batch = masked(ROWS)
    losses = task.losses(batch)
    where = batch.targets["where"]
    assert (seen[0][where[::5]] == MASK).all()
    assert int(losses["masked_lm"].count) == task.counts(batch)["masked_lm"] == -(-len(where) // 5)
    untouched = torch.ones(batch.tokens, dtype=torch.bool)
    untouched[where] = False
    assert torch.equal(seen[0][untouched], batch.ids[untouched])
    sum(loss.mean for loss in losses.values()).backward()
    assert all(p.grad is not None for p in task.network.parameters() if p.requires_grad)
