"""The vectors that a teacher gives to the texts of pairs, in their order: a .npy file for `finetune similar --teacher`.

usage: python make-model/teach.py TEACHER PAIRS.jsonl OUT.npy [WORKERS]

Several workers share a GPU: one of them alone waits for its tokenizer most of the time.
"""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import clearhead

COLUMNS = ("first", "second", "negative")


def embed(teacher: str, pairs: Path, out: Path, rows: range) -> int:
    """Write the vectors of some rows to their places in the file."""
    torch.set_num_threads(1)
    device, dtype = ("cuda", "float16") if torch.cuda.is_available() else ("cpu", "float32")
    model = clearhead.load(teacher, device=device, dtype=dtype)
    with pairs.open(encoding="utf-8") as lines:
        found = [json.loads(line) for number, line in enumerate(lines) if number in rows]
    texts = [row[name] for row in found for name in COLUMNS]
    vectors = np.lib.format.open_memmap(out, mode="r+")
    vectors[rows.start * len(COLUMNS) : rows.stop * len(COLUMNS)] = model.embed(texts, normalise=True)
    return len(texts)


def main() -> None:
    teacher, pairs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with pairs.open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    width = clearhead.load(teacher).config.hidden_size
    np.lib.format.open_memmap(out, mode="w+", dtype=np.float16, shape=(count * len(COLUMNS), width))
    borders = np.linspace(0, count, workers + 1).astype(int).tolist()
    parts = [range(start, stop) for start, stop in pairwise(borders)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(embed, teacher, pairs, out, part) for part in parts]
        print(f"{sum(one.result() for one in done):,} vectors in {out}")


if __name__ == "__main__":
    main()
