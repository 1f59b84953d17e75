"""One short query after another on a CPU, and the first answer of the command line.

Three uses of the real all-MiniLM-L6-v2, tokenising and reading the result included: `embed` a query of 8 words,
`classify` it (a head of three classes with random weights), `answer` a question of 8 words on a passage of 40 (so too).
Ours in fp32 and int8 beside ONNX Runtime in fp32 (all graph optimisations) and in dynamic int8 (a scale for each
output). The engines take turns after every 20 queries, and begin after a pause, in which the other's threads fall
asleep; two queries are read before it counts: who serves queries has one engine, whose matrices are in the cache where
they fit. Beside the clock's medians stand the processor's, which say more where others compute on the machine.

usage: python benchmarks/cpu_latency.py [--queries 200] [--threads 1 2] [--uses …] [--no-start] [--json FILE]
       [--record NAME] [--load WORDS]
needs onnx, onnxruntime and onnxscript
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx as onnx_files
import onnxruntime
import tokenizers
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic

import clearhead
from docstrings import docstring_texts
from real_weights import minilm
from record import record

Engine = Callable[[str, str], object]  # of a query and a passage
Times = list[tuple[float, float]]  # milliseconds by the clock and of the processor
TURN = 20
PAUSE_S = 0.05
LABELS = ["negative", "neutral", "positive"]
HEADS = {
    "embed": transformers.BertModel,
    "classify": transformers.BertForSequenceClassification,
    "answer": transformers.BertForQuestionAnswering,
}


def save_models(scratch: Path, uses: Iterable[str] = HEADS) -> dict[str, Path]:
    """MiniLM as it is, and with random heads: a folder for each use that both read, and the two ONNX files therein."""
    folders = {}
    for use in uses:
        kind = HEADS[use]
        torch.manual_seed(0)
        extra = {"add_pooling_layer": False} if use == "embed" else {}
        named = {"num_labels": len(LABELS), "id2label": dict(enumerate(LABELS))} if use == "classify" else {}
        model = kind.from_pretrained(minilm(), attn_implementation="eager", **extra, **named).eval()
        folders[use] = minilm() if use == "embed" else scratch / use
        if use != "embed":
            model.save_pretrained(folders[use])
            for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
                if (minilm() / name).exists():
                    shutil.copy(minilm() / name, folders[use])
        ids = torch.ones(2, 9, dtype=torch.long)
        free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
        names = ["input_ids", "attention_mask", "token_type_ids"]
        torch.onnx.export(
            model,
            (ids, torch.ones_like(ids), torch.zeros_like(ids)),
            scratch / f"{use}.onnx",
            input_names=names,
            dynamic_shapes=dict.fromkeys(names, free),
            dynamo=True,
            verbose=False,
        )
        plain = onnx_files.load(scratch / f"{use}.onnx")
        del plain.graph.value_info[:]  # the exporter's shapes, which the quantiser finds contradictory
        onnx_files.save(plain, scratch / f"{use}-plain.onnx")
        quantize_dynamic(
            scratch / f"{use}-plain.onnx", scratch / f"{use}-int8.onnx", per_channel=True, weight_type=QuantType.QInt8
        )
    return folders


def onnx(use: str, file: Path, threads: int) -> Engine:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    tokenizer = tokenizers.Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def run(query: str, passage: str) -> object:
        encoded = tokenizer.encode(query, passage) if use == "answer" else tokenizer.encode(query)
        found = np.array([encoded.ids], np.int64)
        given = {
            "input_ids": found,
            "attention_mask": np.ones_like(found),
            "token_type_ids": np.array([encoded.type_ids], np.int64),
        }
        first, *rest = session.run(None, {name: given[name] for name in names})
        if use == "embed":
            mean = first[0].mean(0)
            return mean / np.linalg.norm(mean)
        if use == "classify":
            shares = np.exp(first[0] - first[0].max())
            return LABELS[int(first[0].argmax())], shares / shares.sum()
        # the best span of at most 30 tokens in the passage
        begins = encoded.type_ids.index(1)
        start, end = first[0][begins:-1], rest[0][0][begins:-1]
        spans = np.triu(np.tril(start[:, None] + end[None, :], 29))
        i, j = np.unravel_index(spans.argmax(), spans.shape)
        return passage[encoded.offsets[begins + i][0] : encoded.offsets[begins + j][1]]

    return run


def ours(use: str, model: clearhead.Model) -> Engine:
    if use == "embed":
        return lambda query, _: model.embed(query)
    if use == "classify":
        return lambda query, _: model.classify(query)
    return lambda query, passage: model.answer(query, passage)


def measure(use: str, engines: dict[str, Engine], queries: list[str], passages: list[str]) -> dict[str, Times]:
    times: dict[str, Times] = {name: [] for name in engines}
    for first in range(0, len(queries), TURN):
        for name, run in engines.items():
            time.sleep(PAUSE_S)
            for _ in range(2):
                run(queries[first], passages[first])
            for query, passage in zip(queries[first : first + TURN], passages[first : first + TURN], strict=True):
                start, before = time.perf_counter(), time.process_time()
                run(query, passage)
                times[name].append((1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - before)))
    return times


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
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--uses", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--no-start", action="store_true", help="leave the command line's first answer out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    parser.add_argument("--load", default="", help="what else computed on the machine")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    texts = docstring_texts()
    queries = [" ".join(text.split()[:8]) for text in texts[: options.queries]]
    words = " ".join(texts).split()
    passages = [" ".join(words[40 * i : 40 * i + 40]) for i in range(len(queries) + 200)]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folders = save_models(scratch, options.uses)
        for use in options.uses:
            model = clearhead.load(folders[use])
            about = list(zip(texts[-200:], passages[-200:], strict=True)) if use == "answer" else texts[-200:]
            small = model.quantise(about, loss=1.0)  # random heads have no preference that could be kept
            for threads in options.threads:
                torch.set_num_threads(threads)
                engines: dict[str, Engine] = {
                    "ONNX Runtime": onnx(use, scratch / f"{use}.onnx", threads),
                    "clearhead": ours(use, model),
                    "ONNX Runtime int8": onnx(use, scratch / f"{use}-int8.onnx", threads),
                    "clearhead int8": ours(use, small),
                }
                if use == "embed":
                    both = [engines[name](queries[0], "") for name in ("ONNX Runtime", "clearhead")]
                    assert np.allclose(*both, atol=1e-4)
                medians = {}
                for engine, found in measure(use, engines, queries, passages[: len(queries)]).items():
                    medians[engine] = np.median(found, 0)  # by the clock, and of the processor
                    clock, cpu = (medians[engine] / medians[engine.replace("clearhead", "ONNX Runtime")]).tolist()
                    row = {
                        "use": use,
                        "threads": threads,
                        "engine": engine,
                        "median_ms": round(float(medians[engine][0]), 3),
                    }
                    row |= {"p95_ms": round(float(np.percentile(found, 95, 0)[0]), 3), "times_onnx": round(clock, 2)}
                    row |= {"cpu_ms": round(float(medians[engine][1]), 3), "cpu_times_onnx": round(cpu, 2)}
                    rows.append(row)
                    print(row, flush=True)
    if options.record:
        engines_of = {"fp32": "clearhead", "int8": "clearhead int8"}
        columns = {"": "{}", "threads": "{}"} | {
            f"{kind}, {by}": "{:.2f}, {:.2f}: {:.2f}" for kind in engines_of for by in ("by the clock", "processor")
        }
        by_engine = {(row["use"], row["threads"], row["engine"]): row for row in rows}
        table = [
            [f"`{use}`", threads]
            + [
                [
                    by_engine[use, threads, engine.replace("clearhead", name)][key]
                    for name in ("clearhead", "ONNX Runtime")
                ]
                + [by_engine[use, threads, engine][times]]
                for engine in engines_of.values()
                for key, times in (("median_ms", "times_onnx"), ("cpu_ms", "cpu_times_onnx"))
            ]
            for use in options.uses
            for threads in options.threads
        ]
        record(options.record, columns, table, threads=max(options.threads), load=options.load)
    if not options.no_start:
        clock_s, cpu_s = first_answer(minilm())
        rows.append({"engine": "clearhead embed, command", "seconds": clock_s, "cpu_s": cpu_s})
        print(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
