"""A compiled step serves batches of all shapes: few compilations, whatever the numbers of sequences and tokens."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.models.bert import Bert, BertConfig, heads
from clearhead.nn import attention as attend
from clearhead.nn.attention import MaskSpec
from clearhead.nn.heads import Network
from clearhead.nn.layout import Packed
from clearhead.training.step import _Weighted, fix_max_length, in_half, mark_dynamic
from clearhead.training.tasks.classification import Classify, FindSpans, TagTokens
from clearhead.training.tasks.language import MaskedLM
from clearhead.training.tasks.task import Task

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
