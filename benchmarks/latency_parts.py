"""Where the time of `embed` goes for one short text on one CPU thread, by the processor's time.

MiniLM and queries of 8 words, as in cpu_latency.py; all parts take turns for each query. The blocks read 43 MB of
matrices, which throws all else out of the cache: before each of the parts around them they compute once, so that it is
as slow as in a real call.

usage: python benchmarks/latency_parts.py [--queries 60] [--rounds 4] [--load WORDS] [--record NAME]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

import clearhead
from clearhead.nn import fused
from clearhead.pipelines import runner
from docstrings import docstring_texts
from real_weights import minilm
from record import record

ALL = "**`model.embed`, all**"
Part = Callable[[int], object]  # of the number of a query


def parts(model: clearhead.Model, queries: list[str]) -> tuple[dict[str, Part], dict[str, Part]]:
    """The whole, and what is inside; and what stands around the blocks."""
    encoder, tokenizer = model.encoder, model.tokenizer

    def prepare(i: int) -> runner.Prepared[None]:
        return runner.prepare_texts(tokenizer, [queries[i]], encoder.max_length)

    batches = [runner._batch_of_one(prepare(i).sequences) for i in range(len(queries))]
    captured = fused.captured(encoder, batches[0].layout)
    assert captured is not None
    embed = captured.embed
    assert embed is not None
    hidden = [embed(batch.ids, batch.segments) for batch in batches]
    maps = [
        (fused.bound(one.attention.qkv), fused.bound_add(one.attention.output), one.feedforward.capture())
        for one in encoder.blocks
    ]

    def products(i: int) -> None:
        for qkv, output, feedforward in maps:
            qkv(hidden[i])
            output(hidden[i], hidden[i])
            feedforward(hidden[i], hidden[i])

    def blocks(i: int) -> None:
        x = hidden[i]
        for block in captured.blocks:
            x = block(x)

    whole: dict[str, Part] = {
        ALL: lambda i: model.embed(queries[i]),
        "products": products,
        "blocks": blocks,
    }
    around: dict[str, Part] = {
        "library": lambda i: tokenizer._library.encode(queries[i], add_special_tokens=False),
        "prepare": prepare,
        "embeddings": lambda i: embed(batches[i].ids, batches[i].segments),
        "changed": lambda _: captured.holds(),
        "training": lambda _: (runner._is_training(encoder), next(encoder.parameters()).device),
    }
    return whole, around


@torch.inference_mode()
def measure(model: clearhead.Model, queries: list[str], rounds: int) -> dict[str, float]:
    """Milliseconds of the processor, medians, for each row of the table."""
    whole, around = parts(model, queries)
    times: dict[str, list[float]] = {name: [] for name in (*whole, *around)}
    for i in list(range(len(queries))) * (rounds + 1):
        for name, run in (whole | around).items():
            if name in around:
                whole["blocks"](i)
            start = time.process_time()
            run(i)
            times[name].append(1e3 * (time.process_time() - start))
    found = {name: float(np.median(column[len(queries) :])) for name, column in times.items()}
    rows = {
        "products of the six blocks": found["products"],
        "attention and norms between them": found["blocks"] - found["products"],
        "embeddings": found["embeddings"],
        "tokenizer's library": found["library"],
        "arrays and special tokens": found["prepare"] - found["library"],
        "has a weight, a part or a hook changed?": found["changed"],
        "is a part to be trained, and on which device?": found["training"],
    }
    rows["the rest: calls of functions, pooling, the result"] = found[ALL] - sum(rows.values())
    return {**rows, ALL: found[ALL]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--load", default="", help="what else computed on the machine")
    parser.add_argument("--record", metavar="NAME", help="keep the figures in benchmarks/results/NAME.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = docstring_texts()
    queries = [" ".join(text.split()[:8]) for text in texts[: options.queries]]
    found = measure(clearhead.load(minilm()), queries, options.rounds)
    print({row: round(value, 3) for row, value in found.items()})
    if options.record:
        heads = {"Part of one query": "{}", "ms": "{:.2f}", "share": "{:.0%}"}
        rows = [[row, value, value / found[ALL]] for row, value in found.items()]
        record(options.record, heads, rows, threads=1, load=options.load)


if __name__ == "__main__":
    main()
