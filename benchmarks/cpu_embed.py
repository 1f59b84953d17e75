"""Embedding on a CPU with the real all-MiniLM-L6-v2, fp32 and int8: ours, sentence-transformers, CTranslate2.

Every engine gets the same strings and gives unit vectors; tokenising is inside the time. The engines take turns, the
median over the rounds counts, and speeds are given as ratios to sentence-transformers at its default batch of 32: by
the clock, and by the processor's time, which other work on the machine moves less.

usage: python benchmarks/cpu_embed.py [--texts FILE] [--count 600] [--threads 2] [--rounds 5] [--json FILE]
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters import TransformersConverter
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

import clearhead
from clearhead.data.batch import group_by_length
from clearhead.nn.heads import SentenceVector
from docstrings import docstring_texts
from real_weights import minilm

Vectors = np.ndarray
Engine = Callable[[list[str]], Vectors]


def ours(folder: Path) -> Engine:
    model = clearhead.load(folder)
    return lambda texts: model.embed(texts)


def ours_int8(folder: Path) -> Engine:
    model = clearhead.load(folder).quantise(docstring_texts()[-200:])
    return lambda texts: model.embed(texts)


def ours_padded(folder: Path) -> Engine:
    """The same model and the same sorting, but rectangles with padding: what the packed layout saves."""
    model = clearhead.load(folder)
    from clearhead.nn.layout import Packed

    def run(texts: list[str]) -> Vectors:
        inputs = [model.tokenizer.template.wrap_ids(ids) for ids in model.tokenizer.ids_batch(texts)]
        vectors = np.zeros((len(texts), 384), np.float32)
        vector = SentenceVector("mean", normalise=True)
        for group in group_by_length([len(ids) for ids in inputs], 1024):
            tokens = torch.tensor([token for i in group for token in inputs[i]])
            ids, layout = Packed.of([len(inputs[i]) for i in group]).pad(tokens)
            with torch.inference_mode():
                vectors[group] = vector(model.encoder(ids, layout), layout).numpy()
        return vectors

    return run


def sentence_transformers(folder: Path) -> Engine:
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False, normalize_embeddings=True)


def ctranslate(folder: Path, scratch: Path, threads: int, kind: str) -> Engine:
    TransformersConverter(str(folder)).convert(str(scratch / kind))
    encoder = ctranslate2.Encoder(str(scratch / kind), device="cpu", intra_threads=threads, compute_type=kind)
    tokenizer = clearhead.Tokenizer.from_folder(folder)

    def run(texts: list[str]) -> Vectors:
        inputs = [tokenizer.template.wrap_ids(ids) for ids in tokenizer.ids_batch(texts)]
        vectors = np.zeros((len(texts), 384), np.float32)
        for group in group_by_length([len(ids) for ids in inputs], 2048):
            hidden = np.array(encoder.forward_batch([inputs[i] for i in group]).last_hidden_state)
            for row, i in enumerate(group):
                mean = hidden[row, : len(inputs[i])].mean(0)
                vectors[i] = mean / np.linalg.norm(mean)
        return vectors

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, help="one text a line; default: the standard library's docstrings")
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers_logging.disable_progress_bar()
    folder = minilm()
    lines = options.texts.read_text(encoding="utf-8").splitlines() if options.texts else docstring_texts()
    tokenizer = clearhead.Tokenizer.from_folder(folder)
    # beyond 256 tokens sentence-transformers truncates and we do not, so the work would differ
    texts = [line for line in lines if line.strip() and len(tokenizer.pieces(line)) <= 254][: options.count]
    lengths = [len(ids) + 2 for ids in tokenizer.ids_batch(texts)]
    print(f"{len(texts)} texts, {sum(lengths)} tokens, mean {statistics.mean(lengths):.1f}, longest {max(lengths)}")
    with tempfile.TemporaryDirectory() as scratch:
        engines = {
            "sentence-transformers, batch 32": sentence_transformers(folder),
            "CTranslate2 float32, length-sorted": ctranslate(folder, Path(scratch), options.threads, "float32"),
            "CTranslate2 int8, length-sorted": ctranslate(folder, Path(scratch), options.threads, "int8"),
            "clearhead, padded, length-sorted": ours_padded(folder),
            "clearhead": ours(folder),
            "clearhead int8": ours_int8(folder),
        }
        reference = engines["sentence-transformers, batch 32"](texts)
        found = {name: run(texts) for name, run in engines.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, run in engines.items():
                start, spent = time.perf_counter(), time.process_time()
                run(texts)
                times[name].append((time.perf_counter() - start, time.process_time() - spent))
    rows = []
    base = [statistics.median(column) for column in zip(*times["sentence-transformers, batch 32"], strict=True)]
    for name in engines:
        clock, spent = zip(*times[name], strict=True)
        rows.append(
            {
                "engine": name,
                "ktok_per_s": round(sum(lengths) / statistics.median(clock) / 1e3, 2),
                "ratio": round(base[0] / statistics.median(clock), 2),
                "spread": [round(base[0] / max(clock), 2), round(base[0] / min(clock), 2)],
                "ktok_per_cpu_s": round(sum(lengths) / statistics.median(spent) / 1e3, 2),
                "cpu_ratio": round(base[1] / statistics.median(spent), 2),
                "cpu_spread": [round(base[1] / max(spent), 2), round(base[1] / min(spent), 2)],
                "largest_difference": float(f"{np.abs(found[name] - reference).max():.1e}"),
                "mean_cosine": round(float((found[name] * reference).sum(1).mean()), 5),
            }
        )
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
