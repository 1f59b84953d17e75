"""The attention page of the real all-MiniLM-L6-v2 (6 layers of 12 heads): time to trace and to build it, its size.

usage: python benchmarks/attention_page.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

import clearhead as ch
from real_weights import minilm

SENTENCE = "the animal didn't cross the street because it was too tired and the bank of the river was wide"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(2)
    model = ch.load(minilm())
    ch.trace(model, "warm up")
    for tokens in (30, 128, 512):
        text = " ".join([SENTENCE] * (tokens // 15))
        while len(model.tokenizer.encode(text)) > tokens:
            text = text.rsplit(" ", 1)[0]
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            trace = ch.trace(model, text)
            traced = time.perf_counter()
            page = Path(folder) / "page.html"
            trace.heads().save(page)
            saved = time.perf_counter()
            size = page.stat().st_size / 1e6
        print(
            f"{len(trace.tokens)} tokens: trace {traced - start:.3f} s, page {saved - traced:.3f} s, file {size:.2f} MB"
        )


if __name__ == "__main__":
    main()
