"""Fine-tuning the real all-MiniLM-L6-v2: clearhead's recipe beside the transformers Trainer.

Same weights, data, epochs, batch size, learning rate, schedule and optimiser, bf16 on a GPU. The Trainer groups texts
by length and pads each batch to its longest. `speed` times optimiser steps, one run alone on the device at a time:
real tokens per second, without padding. `quality` trains all epochs and scores both by the official metrics.
Every run is a process of its own and adds a line to --out; runs that are there already are not repeated.

usage: python benchmarks/finetune_peer.py speed --data DIR --out speed.jsonl [--steps 200] [--warm 50]
       python benchmarks/finetune_peer.py quality --data DIR --out quality.jsonl [--jobs 6]
       both: [--model DIR] [--tasks SST-2 …] [--seeds 0 1 2] [--limit ROWS] [--set train.compile=true …]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from clearhead.training.settings import parse_settings
from finetune_systems import TASKS, Run
from real_weights import minilm

OURS, THEIRS = "clearhead", "transformers"
TARGETS = {"SST-2": 5, "CoNLL-2003": 5, "SQuAD 1.1": 3}  # times as fast

Row = dict[str, Any]


def carry_out(run: Run, out: Path) -> bool:
    """Start one run, wait for it and keep its line."""
    program = [sys.executable, str(Path(__file__).with_name("finetune_systems.py")), json.dumps(asdict(run))]
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    if done.returncode:
        print(f"{run.task}, {run.system}, seed {run.seed} failed:\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
        return False
    line = done.stdout.splitlines()[-1]
    with out.open("a") as file:
        file.write(line + "\n")
    row = json.loads(line)
    rate = row["tokens"] / row["seconds"] / 1e3
    figures = "  ".join(f"{name} {value:.2f}" for name, value in row["figures"].items())
    print(
        f"{run.task:<11} {run.system:<13} seed {run.seed}  {row['steps']} steps  {rate:.1f} thousand tokens/s  "
        f"{row['wall']:.0f} s in all  {figures}",
        file=sys.stderr,
        flush=True,
    )
    return True


def read(out: Path) -> list[Row]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def of(rows: Iterable[Row], task: str, system: str) -> dict[int, Row]:
    """The rows of one system on one task, by seed."""
    return {row["run"]["seed"]: row for row in rows if (row["run"]["task"], row["run"]["system"]) == (task, system)}


def speed_table(rows: list[Row]) -> str:
    lines = [
        "| Task | clearhead, thousand real tokens/s | transformers Trainer | ratio (range) | target |",
        "|---|---|---|---|---|",
    ]
    for task in TASKS:
        rates = [
            {seed: row["tokens"] / row["seconds"] / 1e3 for seed, row in of(rows, task, system).items()}
            for system in (OURS, THEIRS)
        ]
        if not (both := rates[0].keys() & rates[1].keys()):
            continue
        ratios = [rates[0][seed] / rates[1][seed] for seed in both]
        middle = " | ".join(f"{statistics.median(rate.values()):.1f}" for rate in rates)
        spread = f"{statistics.median(ratios):.1f} ({min(ratios):.1f}–{max(ratios):.1f})"
        lines.append(f"| {task} | {middle} | {spread} | {TARGETS.get(task, '–')} |")
    return "\n".join(lines)


def quality_table(rows: list[Row]) -> str:
    """Mean ± standard deviation over seeds; one deviation is that of both systems, pooled."""
    lines = [
        "| Task | figure | clearhead | transformers Trainer | difference | within one deviation or better |",
        "|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        found = [list(of(rows, task, system).values()) for system in (OURS, THEIRS)]
        if not all(found):
            continue
        for figure in found[0][0]["figures"]:
            values = [[row["figures"][figure] for row in side] for side in found]
            means = [statistics.fmean(side) for side in values]
            spreads = [statistics.stdev(side) if len(side) > 1 else 0.0 for side in values]
            one = (sum(spread**2 for spread in spreads) / 2) ** 0.5
            cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means, spreads, strict=True)]
            gap = means[0] - means[1]
            lines.append(f"| {task} | {figure} | {' | '.join(cells)} | {gap:+.2f} | {'yes' if gap >= -one else 'no'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["speed", "quality"])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds glue, conll2003 and squad")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one for each run")
    parser.add_argument("--model", type=Path, help="checkpoint folder; default: the real all-MiniLM-L6-v2")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=200, help="timed steps of a speed run")
    parser.add_argument("--warm", type=int, default=50, help="steps before them")
    parser.add_argument("--jobs", type=int, default=1, help="quality runs at a time on the device")
    parser.add_argument("--limit", type=int, help="rows to read of every data file; default: all")
    parser.add_argument("--set", action="append", default=[], help="change clearhead's recipe: train.compile=true")
    options = parser.parse_args()
    timed = options.mode == "speed"
    shared: Row = {
        "model": str(options.model or minilm()),
        "data": str(options.data),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "limit": options.limit,
        "steps": options.steps if timed else None,
        "warm": options.warm,
    }
    changes = {OURS: parse_settings(options.set), THEIRS: {}}
    # neighbours in time are compared; where runs share the device, the longest come first
    runs = [
        Run(task, system, seed, **shared, changes=changes[system])
        for task in (options.tasks if timed else sorted(options.tasks, key=("SQuAD 1.1", "SST-2").__contains__)[::-1])
        for seed in options.seeds
        for system in (OURS, THEIRS)
    ]
    known = [row["run"] for row in read(options.out)]
    with ThreadPoolExecutor(1 if timed else options.jobs) as pool:
        done = list(pool.map(lambda run: carry_out(run, options.out), [r for r in runs if asdict(r) not in known]))
    place = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{date.today()}, {place}, torch {torch.__version__}, transformers {version('transformers')}\n")
    rows = [row for row in read(options.out) if row["run"] in map(asdict, runs)]
    print((speed_table if timed else quality_table)(rows))
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
