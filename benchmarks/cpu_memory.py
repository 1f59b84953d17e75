"""Memory and cost of `clearhead embed --in FILE --out FILE.npy` as the file grows.

Each size runs in a process of its own: peak memory as the system counts it, processor seconds of the command without
the start of Python. One layer of the real all-MiniLM-L6-v2 keeps the run short; what could grow (texts, tokens,
vectors of 384 numbers) is the same as with six. For millions of lines, --width makes a fresh layer that is narrower.

usage: python benchmarks/cpu_memory.py [--lines 100 1000 10000 100000] [--layers 1] [--width 64] [--json FILE]
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch

import clearhead
from clearhead.cli import main as command
from real_weights import minilm


def first_layers(folder: Path, layers: int) -> None:
    import transformers

    transformers.BertModel.from_pretrained(minilm(), num_hidden_layers=layers).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm()).save_pretrained(folder)


def fresh(folder: Path, layers: int, width: int) -> None:
    """Save an untrained model of this width that reads with MiniLM's tokenizer."""
    tokenizer = clearhead.Tokenizer.from_folder(minilm())
    sizes = {"hidden_size": width, "num_attention_heads": 2, "intermediate_size": 4 * width}
    config = clearhead.BertConfig(vocab_size=tokenizer.vocabulary, num_hidden_layers=layers, **sizes)
    clearhead.Model.create(config, tokenizer).save(folder, overwrite=True)


def measure(folder: Path, texts: Path, out: Path, answers: "multiprocessing.Queue[dict[str, float]]") -> None:
    torch.set_num_threads(1)
    one = texts.with_suffix(".one")
    one.write_text("A line to start with.\n", encoding="utf-8")
    _embed(folder, one, out)
    start = time.process_time()
    _embed(folder, one, out)
    fixed = time.process_time() - start
    before = _peak()
    start = time.process_time()
    _embed(folder, texts, out)
    spent = time.process_time() - start
    answers.put({"cpu_s": spent, "of_it_loading_s": fixed, "started_mb": before, "peak_mb": _peak()})


def _peak() -> float:
    """Most memory that this process has held, in MB (getrusage would count its parent's too)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _embed(folder: Path, texts: Path, out: Path) -> None:
    sys.argv = ["clearhead", "embed", "--in", str(texts), "--out", str(out), "--overwrite", "--model", str(folder)]
    try:
        command()
    except SystemExit as stop:
        if stop.code:
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--width", type=int, help="of a fresh model; without it, MiniLM's own layers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from docstrings import docstring_texts  # here: it imports the whole standard library

    lines = [" ".join(text[:100].split()) for text in docstring_texts()]
    rows = []
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch:
        folder, texts, out = (Path(scratch) / name for name in ("model", "texts.txt", "vectors.npy"))
        if options.width is None:
            first_layers(folder, options.layers)
        else:
            fresh(folder, options.layers, options.width)
        tokenizer = clearhead.Tokenizer.from_folder(folder)
        lengths = [len(ids) + 2 for ids in tokenizer.ids_batch(lines)]
        for count in options.lines:
            with texts.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in islice(cycle(lines), count))
            tokens = sum(islice(cycle(lengths), count))
            answers: multiprocessing.Queue[dict[str, float]] = processes.Queue()
            child = processes.Process(target=measure, args=(folder, texts, out, answers))
            child.start()
            found = answers.get()
            child.join()
            assert np.load(out, mmap_mode="r").shape == (count, options.width or 384)
            rows.append({"lines": count, "tokens": tokens, **{key: round(value, 2) for key, value in found.items()}})
            rows[-1]["us_per_token"] = round(1e6 * (found["cpu_s"] - found["of_it_loading_s"]) / tokens, 2)
            print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
