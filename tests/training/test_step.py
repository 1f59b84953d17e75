"""Many small passes give the gradient of one large one, and a compiled step serves batches of all shapes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, BadInput, ClearheadError
from clearhead.models.bert import Bert, BertConfig, heads
from clearhead.nn import attention as attend
from clearhead.nn.attention import MaskSpec
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.training.checkpoint import network_tensors
from clearhead.training.distributed import Ranks
from clearhead.training.step import (
    ForwardBackward,
    _Weighted,
    activation_checkpointing,
    fix_max_length,
    in_half,
    mark_dynamic,
    split,
    split_batch,
)
from clearhead.training.tasks.classification import Classify, FindSpans, TagTokens
from clearhead.training.tasks.language import MaskedLM
from clearhead.training.tasks.task import Task
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
        backprop.run([(index, 0, batch, True) for index, batch in enumerate(batches)], totals, pieces)
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
    assert [piece.layout.lengths for piece in split(batch, 3)] == [(3,), (2, 2)]  # two of one question
    plain = Batch.of([[1, 2]] * 7, targets={"classes": torch.arange(7)})
    assert [piece.targets["classes"].tolist() for piece in split(plain, 3)] == [[0, 1], [2, 3], [4, 5, 6]]


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


LENGTH = 16
TASKS = {"masked_lm": MaskedLM, "classes": Classify, "tags": TagTokens, "span": FindSpans}


def blockwise(q: Tensor, k: Tensor, v: Tensor, layout: Packed, _keys: Packed, _sight: MaskSpec) -> Tensor:
    """Attention that looks at offsets alone, as the variable-length kernel does."""
    owner = torch.searchsorted(layout.offsets.long(), torch.arange(q.shape[0]), right=True)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=owner[:, None] == owner)
    return out.squeeze(0).transpose(0, 1)


def make_task(kind: str) -> Task:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    bert = Bert(config)
    return TASKS[kind](Network(bert, heads(bert, {kind: {"masked_lm": 40, "span": 2}.get(kind, 3)})))


def make_batch(index: int) -> Batch:
    draw = np.random.default_rng((0, index))
    lengths = draw.integers(2, LENGTH, size=2 + index % 7).tolist()
    total = sum(lengths)
    where = torch.arange(0, total, 2 + index % 3)
    targets = {
        "where": where,
        "labels": where % 40,
        "classes": torch.arange(len(lengths)) % 3,
        "starts": torch.zeros(len(lengths), dtype=torch.int64),
        "ends": torch.tensor(lengths) - 1,
        "tags": torch.where(torch.arange(total) % 4 == 0, -100, torch.arange(total) % 3),
    }
    sequences = [draw.integers(0, 40, size=length).tolist() for length in lengths]
    return fix_max_length(Batch.of(sequences, [[0] * length for length in lengths], targets), LENGTH)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it loads its compiler
@pytest.mark.parametrize("kind", TASKS)
def test_few_compilations_for_batches_of_all_shapes(monkeypatch, kind):
    from torch._dynamo.testing import CompileCounterWithBackend  # loads the compiler

    torch._dynamo.reset()
    monkeypatch.setattr(attend, "_varlen", blockwise)
    monkeypatch.setattr(attend, "fastest", lambda *_: "varlen")
    task, plain = make_task(kind), make_task(kind)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(in_half(_Weighted(task)), backend=counter, fullgraph=True)
    batches = [make_batch(index) for index in range(20)]
    assert len({(batch.layout.batch, batch.tokens) for batch in batches}) > 15
    for batch in batches:
        mark_dynamic(batch)
        ours, theirs = (run(batch, torch.ones(1))[0] for run in (compiled, _Weighted(plain)))
        ours.backward()
        assert_close(ours, theirs, atol=0.5, rtol=0.05)
    assert counter.frame_count <= 2
