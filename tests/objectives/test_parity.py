"""Our losses on packed batches equal those that transformers computes inside its models on padded ones."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.hub.checkpoint import read_folder
from clearhead.nn.heads import Network
from clearhead.nn.layout import Padded
from clearhead.objectives.language import replaced_tokens
from clearhead.training.tasks.classification import Classify, FindSpans, MultiLabel, MultipleChoice, Regress
from clearhead.training.tasks.classification import TagTokens as Tag
from clearhead.training.tasks.language import MaskedLM, MaskedLMWithPairs
from references import MODELS, batch_for, randomised, save_theirs, theirs

LENGTHS = (11, 4, 2, 9)


def side_by_side(model: str, reference: nn.Module, folder: Path, **targets: Tensor) -> tuple[Network, Batch, Any]:
    """Our network with their weights, our packed batch, and their inputs."""
    drawn = batch_for(model, LENGTHS)
    layout = Padded.of(drawn.keep)
    (ids, packed), (segments, _) = layout.pack(drawn.ids), layout.pack(drawn.segments)
    batch = Batch(ids, packed, segments, targets)
    inputs = {"input_ids": drawn.ids, "attention_mask": drawn.keep.long(), "token_type_ids": drawn.segments}
    return read_folder(save_theirs(reference, folder)).network, batch, inputs


def tokens(values: Tensor, batch: Batch, fill: int = -100) -> Tensor:
    """Per-token values (N,) as transformers takes them, (B, T)."""
    return batch.layout.pad(values, fill)[0]


def mean(task: Any, batch: Batch) -> Tensor:
    losses = task.losses(batch)
    assert {name: int(loss.count) for name, loss in losses.items()} == task.counts(batch)
    return sum((task.weights[name] * loss.mean for name, loss in losses.items()), torch.zeros(()))


MASKED = {"where": torch.tensor([1, 4, 12, 20]), "labels": torch.tensor([7, 30, 9, 61])}


def masked_labels(batch: Batch) -> Tensor:
    return tokens(torch.full_like(batch.ids, -100).scatter(0, MASKED["where"], MASKED["labels"]), batch)


def test_masked_lm(tmp_path):
    reference = theirs("bert", "BertForMaskedLM")
    network, batch, inputs = side_by_side("bert", reference, tmp_path, **MASKED)
    assert_close(mean(MaskedLM(network), batch), reference(**inputs, labels=masked_labels(batch)).loss)


@pytest.mark.parametrize(
    ("model", "architecture", "kind", "name"),
    [
        ("bert", "BertForPreTraining", "next_sentence", "next_sentence_label"),
        ("albert", "AlbertForPreTraining", "sentence_order", "sentence_order_label"),
    ],
)
def test_masked_lm_with_pairs(model, architecture, kind, name, tmp_path):
    reference, pairs = theirs(model, architecture), torch.tensor([0, 1, 1, 0])
    network, batch, inputs = side_by_side(model, reference, tmp_path, **MASKED, **{kind: pairs})
    expected = reference(**inputs, labels=masked_labels(batch), **{name: pairs}).loss
    assert_close(mean(MaskedLMWithPairs(network, kind), batch), expected)


def test_classes(tmp_path):
    reference, classes = theirs("bert", "BertForSequenceClassification"), torch.tensor([0, 2, 1, 1])
    network, batch, inputs = side_by_side("bert", reference, tmp_path, classes=classes)
    assert_close(mean(Classify(network), batch), reference(**inputs, labels=classes).loss)


@pytest.mark.parametrize(
    ("task", "name", "labels", "problem"),
    [
        (Regress, "scores", torch.tensor([0.5, -1.0, 2.0, 0.0]), "regression"),
        (MultiLabel, "classes", torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1]]), "multi_label_classification"),
    ],
)
def test_regression_and_many_classes(task, name, labels, problem, tmp_path):
    settings = MODELS["bert"][1] | {"num_labels": 1 if labels.dim() == 1 else 2, "problem_type": problem}
    config = transformers.BertConfig(**settings)
    reference = randomised(transformers.BertForSequenceClassification(config), seed=0).eval()
    network, batch, inputs = side_by_side("bert", reference, tmp_path, **{name: labels})
    assert_close(mean(task(network), batch), reference(**inputs, labels=labels).loss)


def test_tags(tmp_path):
    reference, tags = theirs("bert", "BertForTokenClassification"), torch.arange(26) % 3
    tags[::4] = -100
    network, batch, inputs = side_by_side("bert", reference, tmp_path, tags=tags)
    assert_close(mean(Tag(network), batch), reference(**inputs, labels=tokens(tags, batch)).loss)


def test_spans(tmp_path):
    reference = theirs("bert", "BertForQuestionAnswering")
    starts, ends = torch.tensor([3, 0, 99, 8]), torch.tensor([5, 0, 99, 8])
    network, batch, inputs = side_by_side("bert", reference, tmp_path, starts=starts, ends=ends)
    # theirs lets an answer lie in the padding of its sequence, and spends chances there
    alone = [
        reference(
            **{k: v[b : b + 1, :n] for k, v in inputs.items()},
            start_positions=starts[b, None],
            end_positions=ends[b, None],
        )
        for b, n in enumerate(LENGTHS)
        if starts[b] < n
    ]
    assert_close(mean(FindSpans(network), batch), torch.stack([out.loss for out in alone]).mean())


def test_choices(tmp_path):
    reference = theirs("bert", "BertForMultipleChoice")
    targets = {"choice": torch.tensor([1, 0]), "choices": torch.tensor([2, 2])}
    network, batch, inputs = side_by_side("bert", reference, tmp_path, **targets)
    questions = {name: value.unflatten(0, (2, 2)) for name, value in inputs.items()}
    assert_close(mean(MultipleChoice(network), batch), reference(**questions, labels=targets["choice"]).loss)


def test_replaced_tokens(tmp_path):
    reference, replaced = theirs("electra", "ElectraForPreTraining"), (torch.arange(26) % 5 == 0).long()
    network, batch, inputs = side_by_side("electra", reference, tmp_path)
    loss = replaced_tokens(network("replaced", batch.ids, batch.layout, batch.segments), replaced)
    assert_close(loss.mean, reference(**inputs, labels=tokens(replaced, batch, 0)).loss)
