"""What the host does for each text in bulk work, beside the network: calls of Python functions and milliseconds.

The network is as good as none (2 layers, width 32), so that nearly all time is the host's: tokenising, packing,
batching and making results. Texts are sentences of the standard library's docstrings, and passages of 150 words of the
same; the tokenizer is trained on them, so that nothing is needed that is not on every machine. Two checkouts are
compared by running it with the sources of each, in turns: `--json` keeps the figures of one, and `--before` puts them
beside those of the other. The processor's time counts, of all threads: of that, how much the tokenizer's library takes
and how much the network. The rest is Python and numpy, which one core must do for each text while a GPU computes, so
that it is the ceiling of one process.

usage: python benchmarks/host_bulk.py [--count 2000] [--rounds 5] [--threads 1] [--json FILE]
       [--before FILE --record NAME]
"""

import argparse
import cProfile
import json
import os
import pstats
import time
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from clearhead import BertConfig, Model, train_tokenizer
from clearhead.pipelines.embedding import _Pooled
from clearhead.pipelines.runner import HeadForward
from docstrings import docstring_texts
from record import record

WORDS = 150  # of a passage
TARGETS = {"classify": 30_000, "tag": 8_000, "answer": 8_000}  # texts a second on an H200
COLUMNS = {
    "Use": "{}",
    "tokenizer": "{:.0f}",
    "Python before": "{:.1f}",
    "Python now": "{:.1f}",
    "calls before": "{:,.0f}",
    "calls now": "{:,.0f}",
    "texts/s a core now": "{:,.0f}",
    "target on an H200": "{:,.0f}",
}
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC"]


def passages(texts: list[str], count: int) -> list[str]:
    words = list(chain.from_iterable(text.split() for text in texts))
    return [" ".join(words[(WORDS * i) % (len(words) - WORDS) :][:WORDS]) for i in range(count)]


def tiny_model(texts: list[str]) -> Model:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(texts=texts, kind="wordpiece", vocabulary=8000)
    config = BertConfig(
        vocab_size=tokenizer.vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    model = Model.create(config, tokenizer, heads={"tags": len(TAGS), "span": 2}, labels=TAGS)
    with torch.no_grad():  # as in natural text, most words are outside
        model.network.heads["tags"].classifier.weight[1:] *= 20
        model.network.heads["tags"].classifier.bias[0] = 4
    return model


def uses(model: Model, texts: list[str], count: int) -> dict[str, tuple[int, Callable[[], Any]]]:
    long, asked = passages(texts, count), [f"What is number {i} said to be?" for i in range(count)]
    classes = Model.create(model.config, model.tokenizer, heads={"classes": 2}, labels=["no", "yes"])
    short = list(islice(chain.from_iterable(texts for _ in range(100)), count))
    return {
        "embed": (len(short), lambda: model.embed(short)),
        "classify": (len(short), lambda: classes.classify(short)),
        "tag": (len(long), lambda: model.tag(long)),
        "answer": (len(long), lambda: model.answer(asked, long)),
    }


class Timed:
    """Adds up the processor's time within a method."""

    def __init__(self, owner: Any, name: str) -> None:
        self.spent = 0.0
        method = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return method(*args, **options)
            finally:
                self.spent += time.process_time() - start

        setattr(owner, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--calls", action=argparse.BooleanOptionalAction, default=True, help="count function calls, too"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path, help="what --json kept of other sources")
    parser.add_argument("--record", metavar="NAME", help="keep both in benchmarks/results/NAME.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)  # the tokenizer's own threads
    texts = docstring_texts()
    model = tiny_model(texts)
    rows = []
    library = Timed(type(model.tokenizer), "_run")
    networks = Timed(HeadForward, "__call__"), Timed(_Pooled, "__call__")
    for name, (count, run) in uses(model, texts, options.count).items():
        run()
        turns = []
        for _ in range(options.rounds):
            for timed in (library, *networks):
                timed.spent = 0.0
            start = time.process_time()
            run()
            turns.append((time.process_time() - start, library.spent, sum(timed.spent for timed in networks)))
        whole, words, network = min(turns)
        row = {
            "use": name,
            "ms_per_1000": round(1e6 * whole / count, 1),
            "of_it_tokenizer": round(1e6 * words / count, 1),
            "of_it_network": round(1e6 * network / count, 1),
            "rest": round(1e6 * (whole - words - network) / count, 1),
            "spread": round(max(turns)[0] / whole, 2),
        }
        if options.calls:
            profile = cProfile.Profile()
            profile.runcall(run)
            row["calls_per_text"] = round(pstats.Stats(profile).total_calls / count, 1)  # type: ignore[attr-defined]
        rows.append(row)
        print(row, flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.record:
        old = {row["use"]: row for row in json.loads(options.before.read_text())}
        table = [
            [
                f"`{row['use']}`",
                row["of_it_tokenizer"],
                *(which["rest"] for which in (old[row["use"]], row)),
                *(which["calls_per_text"] for which in (old[row["use"]], row)),
                round(1e6 / row["rest"], -2),
                TARGETS.get(row["use"]),
            ]
            for row in rows
        ]
        record(options.record, COLUMNS, table, threads=options.threads, load="with much other work")


if __name__ == "__main__":
    main()
