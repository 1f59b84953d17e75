"""One masked-LM training step of BERT-base on a GPU: real tokens per second, ours beside transformers.

Natural lengths: texts of log-normal length, mean about 70 tokens, at most 512. Ours packs 65,536 tokens;
transformers pads 128 texts to the longest. Fixed lengths 128 and 512: the same 65,536 tokens for both.
Every step is forward, backward and AdamW with fp32 master weights and bf16 arithmetic, 15 % of tokens masked.

usage: python benchmarks/gpu_mlm.py [--json FILE] [--only ours|theirs] [--autotune]
"""

import argparse
import gc
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from clearhead.models.bert import PRESETS, Bert, heads
from clearhead.nn.layout import Layout, Packed, Padded

DEVICE = "cuda"
TOKENS = 65_536
RATE = 0.15


def seconds(step: Callable[[], object], warm: int = 6, repeats: int = 20) -> float:
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def peak() -> float:
    """Tflop/s of a large bf16 product, the ceiling that shares are taken of."""
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / seconds(lambda: a @ b) / 1e12


def flops_per_token(config: object, length: float, vocabulary: int) -> float:
    """Forward and backward (twice the forward), counting matrix products only."""
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    layer = 2 * (4 * width**2 + 2 * width * inner) + 4 * length * width
    return 3 * (layers * layer + RATE * 2 * width * (vocabulary + width))


def natural_lengths(total: int, rng: random.Random) -> list[int]:
    lengths: list[int] = []
    while sum(lengths) < total:
        lengths.append(max(8, min(512, int(rng.lognormvariate(4.0, 0.7)))))
    lengths[-1] -= sum(lengths) - total
    return lengths


class MaskedLM(nn.Module):
    """Encoder, head and loss as one function of a batch, which is what gets compiled."""

    def __init__(self, config: object) -> None:
        super().__init__()
        self.bert = Bert(config)
        self.head = heads(self.bert, {"masked_lm": config.vocab_size})["masked_lm"]

    def forward(self, ids: Tensor, layout: Layout, where: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.bert(ids, layout), layout, where).float(), targets)


def our_step(batches: list[tuple[Tensor, Layout]], mode: str | None) -> Callable[[], Tensor]:
    # a vocabulary rounded up to a multiple of 64 keeps the rows of the output matrix aligned
    config = replace(PRESETS["base"], vocab_size=30_592, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    torch.manual_seed(0)
    model = MaskedLM(config).to(DEVICE)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    chosen = int(RATE * TOKENS) // 64 * 64
    ready = []
    for ids, layout in batches:
        where = torch.randperm(TOKENS, device=DEVICE)[:chosen].sort().values
        ready.append((ids, layout, where, ids.flatten()[where]))

    def loss_of(*batch: object) -> Tensor:
        half = {name: parameter.bfloat16() for name, parameter in model.named_parameters()}
        return functional_call(model, half, batch)

    compiled = torch.compile(loss_of, mode=mode)
    turn = iter(range(10**9))

    def step() -> Tensor:
        loss = compiled(*ready[next(turn) % len(ready)])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss

    return step


def their_step(ids: Tensor, keep: Tensor) -> Callable[[], object]:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(attn_implementation="sdpa")).to(DEVICE).train()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    labels = ids.masked_fill((torch.rand(ids.shape, device=DEVICE) > RATE) | (keep == 0), -100)
    compiled = torch.compile(model)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, attention_mask=keep, labels=labels).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def random_ids(*shape: int) -> Tensor:
    return torch.randint(1000, 30_000, shape, device=DEVICE)


def our_batches(length: int | None) -> list[tuple[Tensor, Layout]]:
    """Four different batches, so that nothing is specialised to one."""
    if length is not None:
        shape = (TOKENS // length, length)
        return [(ids, Padded.full(ids)) for ids in (random_ids(*shape) for _ in range(4))]
    every = [natural_lengths(TOKENS, random.Random(seed)) for seed in range(4)]
    slots = max(map(len, every))  # empty sequences at the end keep the shapes equal
    layouts = [Packed.of([*lengths, *[0] * (slots - len(lengths))], DEVICE) for lengths in every]
    return [(random_ids(TOKENS), replace(layout, max_length=512)) for layout in layouts]


def their_batch(length: int | None) -> tuple[Tensor, Tensor]:
    if length is not None:
        ids = random_ids(TOKENS // length, length)
        return ids, torch.ones_like(ids)
    lengths = torch.tensor(natural_lengths(TOKENS, random.Random(0))[:128], device=DEVICE)
    keep = (torch.arange(int(lengths.max()), device=DEVICE) < lengths[:, None]).long()
    return random_ids(*keep.shape) * keep, keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=["ours", "theirs"])
    parser.add_argument("--autotune", action="store_true", help="compile ours with max-autotune-no-cudagraphs")
    options = parser.parse_args()
    mode = "max-autotune-no-cudagraphs" if options.autotune else None
    ceiling = peak()
    rows = [{"device": torch.cuda.get_device_name(), "torch": torch.__version__, "peak_tflops": round(ceiling)}]
    print(rows[0], flush=True)
    for length in (None, 128, 512):
        for who in ("ours", "theirs"):
            if options.only not in (None, who):
                continue
            torch._dynamo.reset()
            if who == "ours":
                batches = our_batches(length)
                tokens, mean = TOKENS, length or 70
                step = our_step(batches, mode)
            else:
                ids, keep = their_batch(length)
                tokens, mean = int(keep.sum()), length or 70
                step = their_step(ids, keep)
            start = time.perf_counter()
            rate = tokens / seconds(step)
            share = rate * flops_per_token(PRESETS["base"], mean, 30_522) / 1e12 / ceiling
            memory = torch.cuda.max_memory_allocated() / 2**30
            row = {
                "length": length or "natural",
                "who": who,
                "ktok_per_s": round(rate / 1e3, 1),
                "share_of_peak": round(share, 3),
                "memory_gib": round(memory, 1),
                "setup_s": round(time.perf_counter() - start),
            }
            rows.append(row)
            print(row, flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
            del step
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
