"""Many small passes give the gradient of one large one: by accumulation, by cutting, by computing again."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, BadInput, ClearheadError
from clearhead.training.checkpoint import network_tensors
from clearhead.training.distributed import Ranks
from clearhead.training.step import ForwardBackward, _Weighted, activation_checkpointing, in_half, split, split_batch
from training.toy import ToySource, ToyTask, final_tensors, rows, run, settings

CPU = torch.device("cpu")


def joined(batches: list[Batch]) -> Batch:
    """One large batch of several."""
    starts = [sum(batch.tokens for batch in batches[:place]) for place in range(len(batches))]
    sequences = [part.tolist() for batch in batches for part in batch.layout.split(batch.ids)]
    targets = {
        "where": torch.cat([batch.targets["where"] + start for batch, start in zip(batches, starts, strict=True)]),
        **{name: torch.cat([batch.targets[name] for batch in batches]) for name in ("labels", "next_sentence")},
    }
    return Batch.of(sequences, [[0] * len(sequence) for sequence in sequences], targets)


def gradients(batches: list[Batch], pieces: int = 1, dropout: float = 0.0, **changes: object) -> dict[str, Tensor]:
    task = ToyTask(dropout=dropout)
    chosen = settings(clip=float("inf"), **changes)
    totals = {part: sum(task.counts(batch)[part] for batch in batches) for part in task.weights}
    with activation_checkpointing(task.network, chosen.checkpointing):
        backprop = ForwardBackward(task, chosen, CPU, Ranks())
        backprop.run([(index, batch, True) for index, batch in enumerate(batches)], totals, pieces)
    return {name: weight.grad for name, weight in task.network.named_parameters() if weight.grad is not None}


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    torch.set_num_threads(1)
    return [ToySource().batch(index) for index in range(4)]


def test_accumulation_equals_the_large_batch(batches):
    assert len({batch.layout.batch for batch in batches}) > 1  # unequal ones, where a mean of means would be wrong
    small, large = gradients(batches), gradients([joined(batches)])
    assert small.keys() == large.keys()
    for name in small:
        assert_close(small[name], large[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_cut_batches_give_the_same_gradient(batches, pieces):
    whole, cut = gradients(batches), gradients(batches, pieces)
    for name in whole:
        assert_close(cut[name], whole[name], atol=1e-6, rtol=1e-5)


def test_computing_blocks_again_changes_no_bit_not_even_of_dropout(batches):
    kept, again = gradients(batches, dropout=0.1), gradients(batches, dropout=0.1, checkpointing=True)
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_half_precision_is_near(batches):
    full, half = gradients(batches), gradients(batches, precision="bf16")
    name = "encoder.blocks.0.feedforward.up.weight"
    assert half[name].dtype == torch.float32
    assert 0 < (half[name] - full[name]).norm() / full[name].norm() < 0.05


def test_copies_in_half_precision_leave_shared_parameters_in_place(batches):
    task = ToyTask(dropout=0.0)  # its heads share a pooler, and one is tied to the embeddings
    before = dict(task.network.named_parameters())
    half = in_half(_Weighted(task))
    for batch in batches:
        half(batch, torch.ones(2))[0].backward()
    after = dict(task.network.named_parameters())
    assert all(after[name] is weight for name, weight in before.items())
    plain = ToyTask(dropout=0.0)
    for batch in batches:
        _Weighted(plain)(batch, torch.ones(2))[0].backward()
    for name, weight in plain.network.named_parameters():
        ours = after[name].grad
        assert (weight.grad is None) == (ours is None)
        if weight.grad is not None and ours is not None:
            assert ours.dtype == torch.float32
            assert (ours - weight.grad).norm() <= 0.1 * weight.grad.norm() + 1e-3, name


def test_out_of_memory_cuts_the_batch_and_keeps_the_step(tmp_path):
    def crowded(_passes: int, batch: Batch) -> None:
        if batch.layout.batch > 2:
            raise torch.OutOfMemoryError("no room for three")

    task, roomy = ToyTask(dropout=0.0, before=crowded), ToyTask(dropout=0.0)
    run(tmp_path / "cut", task, steps=4)
    run(tmp_path / "whole", roomy, steps=4)
    for name, tensor in network_tensors(roomy.network).items():
        assert_close(network_tensors(task.network)[name], tensor, atol=1e-4, rtol=1e-3)
    assert [row["tokens"] for row in rows(tmp_path / "cut")] == [row["tokens"] for row in rows(tmp_path / "whole")]
    assert_close(rows(tmp_path / "cut")[0]["loss"], rows(tmp_path / "whole")[0]["loss"], atol=1e-5, rtol=1e-5)


def test_out_of_memory_in_mid_backward_begins_the_step_anew(tmp_path):
    task, plain = ToyTask(dropout=0.0), ToyTask(dropout=0.0)
    failures = []

    def fail_once(_gradient: Tensor) -> None:
        if not failures:
            failures.append(1)
            raise torch.OutOfMemoryError("in the middle of the way back")

    task.network.encoder.blocks[0].norm_1.weight.register_hook(fail_once)
    run(tmp_path / "failed", task, steps=1)
    run(tmp_path / "plain", plain, steps=1)
    assert failures
    # AdamW's first step is the sign of the gradient, so its memory of the gradient is what to compare
    ours, theirs = final_tensors(tmp_path / "failed"), final_tensors(tmp_path / "plain")
    for name in (name for name in ours if name.endswith("exp_avg")):
        assert_close(ours[name], theirs[name], atol=1e-6, rtol=1e-5)


def test_out_of_memory_with_single_sequences_is_an_error(tmp_path):
    def never(_passes: int, _batch: Batch) -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(ClearheadError, match=r"out of memory with 2 sequences in 2 pieces.*fewer tokens"):
        run(tmp_path, ToyTask(before=never))


def test_split_by_sequences():
    targets = {
        "where": torch.tensor([0, 2, 4, 6]),
        "labels": torch.tensor([10, 12, 14, 16]),
        "tags": torch.arange(7),
        "classes": torch.tensor([0, 1, 2]),
        "choices": torch.tensor([1, 2]),
        "choice": torch.tensor([0, 1]),
    }
    batch = Batch.of([[1, 2, 3], [4, 5], [6, 7]], [[0, 0, 0], [0, 1], [1, 1]], targets)
    left, right = split_batch(batch)
    assert (left.layout.lengths, right.layout.lengths) == ((3,), (2, 2))
    assert right.ids.tolist() == [4, 5, 6, 7]
    assert right.segments is not None
    assert right.segments.tolist() == [0, 1, 1, 1]
    assert {name: target.tolist() for name, target in right.targets.items()} == {
        "where": [1, 3],
        "labels": [14, 16],
        "tags": [3, 4, 5, 6],
        "classes": [1, 2],
        "choices": [2],
        "choice": [1],
    }
    assert [piece.layout.lengths for piece in split(left, 4)] == [(3,)]


def test_what_belongs_together_is_not_cut():
    pairs = Batch.of([[1], [2], [3], [4]], targets={"similarity": torch.ones(2)})
    with pytest.raises(BadInput, match=r"targets \['similarity'\] cannot be cut in two"):
        split_batch(pairs)
    with pytest.raises(BadInput, match="one sequence cannot be cut"):
        split_batch(Batch.of([[1, 2]], targets={"classes": torch.tensor([0])}))
    question = Batch.of([[1], [2]], targets={"choices": torch.tensor([2]), "choice": torch.tensor([0])})
    with pytest.raises(BadInput, match="cannot be cut"):
        split_batch(question)


def test_compiling_is_for_gpus(tmp_path):
    with pytest.raises(BadConfig, match="compile is for GPUs, the device is cpu"):
        run(tmp_path, compile=True)
