"""What gradient checkpointing (`--set train.checkpointing=true`) saves and costs: a step of BERT-base on a GPU.

Forward and backward in bf16, random ids in sequences of 512 tokens, without an optimiser, which both would have alike.

usage: python benchmarks/gpu_checkpointing.py [--tokens 16384 65536] [--record NAME]
"""

import argparse
import time

import torch

from clearhead.models.bert import PRESETS, Bert
from clearhead.nn.layout import Packed
from clearhead.training.step import activation_checkpointing
from record import record

LENGTH, WARM, STEPS = 512, 2, 6
COLUMNS = {"Tokens a step": "{:,.0f}", "checkpointing": "{}", "ms a step": "{:.0f}", "peak memory, GB": "{:.1f}"}


def measure(encoder: Bert, tokens: int, *, wanted: bool) -> tuple[float, float]:
    """Milliseconds of a step, and the most memory that it held."""
    ids = torch.randint(1000, 30_000, (tokens,), device="cuda")
    layout = Packed.of([LENGTH] * (tokens // LENGTH), "cuda")
    with activation_checkpointing(encoder, wanted):
        for step in range(WARM + STEPS):
            if step == WARM:
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                start = time.perf_counter()
            with torch.autocast("cuda", torch.bfloat16):
                encoder(ids, layout).float().pow(2).mean().backward()
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS * 1e3, torch.cuda.max_memory_allocated() / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16_384, 65_536])
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    options = parser.parse_args()
    encoder = Bert(PRESETS["base"]).cuda().train()
    for part in encoder.modules():  # as clearhead trains: the kernel for packed tokens has no dropout
        if hasattr(part, "dropout") and isinstance(part.dropout, float):
            part.dropout = 0.0
    rows = []
    for tokens in options.tokens:
        for wanted in (False, True):
            rows.append([tokens, "yes" if wanted else "no", *measure(encoder, tokens, wanted=wanted)])
            print(rows[-1], flush=True)
    if options.record is not None:
        record(options.record, COLUMNS, rows, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
