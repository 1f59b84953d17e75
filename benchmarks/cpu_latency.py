"""One short query after another on a CPU, and the first answer of the command line.

Each engine gets a string and gives a unit vector of the real all-MiniLM-L6-v2, tokenising included; ours, fp32 and
int8, beside ONNX Runtime (fp32, all graph optimisations). The engines take turns after every 20 queries, of which the
first is read twice and counted once: who serves queries has one engine, whose matrices are in the cache where they fit.

usage: python benchmarks/cpu_latency.py [--queries 200] [--threads 2] [--json FILE]
needs onnx, onnxruntime and onnxscript
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnxruntime
import tokenizers
import torch
import transformers

import clearhead
from docstrings import docstring_texts
from real_weights import minilm

Engine = Callable[[str], np.ndarray]
TURN = 20


def export_onnx(folder: Path, file: Path) -> None:
    """Write the encoder of a BERT as an ONNX file, for any number of texts of any length."""
    model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()
    ids = torch.ones(2, 9, dtype=torch.long)
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    torch.onnx.export(
        model,
        (ids, torch.ones_like(ids), torch.zeros_like(ids)),
        file,
        input_names=["input_ids", "attention_mask", "token_type_ids"],
        dynamic_shapes=dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), free),
        dynamo=True,
        verbose=False,
    )


def onnx(folder: Path, scratch: Path, threads: int) -> Engine:
    export_onnx(folder, scratch / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(scratch / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def run(text: str) -> np.ndarray:
        found = np.array([tokenizer.encode(text).ids], np.int64)
        given = {
            "input_ids": found,
            "attention_mask": np.ones_like(found),
            "token_type_ids": np.zeros_like(found),
        }
        (hidden, *_) = session.run(None, {name: given[name] for name in names})
        mean = hidden[0].mean(0)
        return mean / np.linalg.norm(mean)

    return run


def first_answer(folder: Path, runs: int = 5) -> list[float]:
    """Seconds from the start of the command to its end, by the clock and by the processor."""
    times = []
    for _ in range(runs):
        start, before = time.perf_counter(), os.times()
        subprocess.run(
            [sys.executable, "-m", "clearhead", "embed", "a short query", "--model", str(folder), "--json"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        times.append((time.perf_counter() - start, spent))
    return [round(sorted(column)[runs // 2], 2) for column in zip(*times, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    folder = minilm()
    texts = docstring_texts()
    model = clearhead.load(folder)
    queries = [" ".join(text.split()[:8]) for text in texts[: options.queries]]
    with tempfile.TemporaryDirectory() as scratch:
        engines: dict[str, Engine] = {
            "ONNX Runtime": onnx(folder, Path(scratch), options.threads),
            "clearhead": model.embed,
            "clearhead int8": model.quantise(texts[-200:]).embed,
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for query in queries[:10]:
            vectors = [run(query) for run in engines.values()]
            assert np.allclose(vectors[0], vectors[1], atol=1e-4), np.abs(vectors[0] - vectors[1]).max()
        for first in range(0, len(queries), TURN):
            for name, run in engines.items():
                run(queries[first])
                for query in queries[first : first + TURN]:
                    start, spent = time.perf_counter(), time.process_time()
                    run(query)
                    times[name].append((time.perf_counter() - start, time.process_time() - spent))
    rows = []
    for name, found in times.items():
        clock, spent = 1e3 * np.array(found).T
        rows.append({"engine": name, "median_ms": round(float(np.median(clock)), 2)})
        rows[-1]["p95_ms"] = round(float(np.percentile(clock, 95)), 2)
        rows[-1]["cpu_median_ms"] = round(float(np.median(spent)), 2)
        rows[-1]["cpu_p95_ms"] = round(float(np.percentile(spent, 95)), 2)
        print(rows[-1], flush=True)
    clock_s, cpu_s = first_answer(folder)
    rows.append({"engine": "clearhead embed, command", "seconds": clock_s, "cpu_s": cpu_s})
    print(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
