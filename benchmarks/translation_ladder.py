"""Every generation of translator on Multi30k by the same loop: LSTM, GRU, three kinds of attention, two Transformers.

de→en and en→de, test_2016_flickr, sacrebleu with its signature, beam 5. A run that is in the file of results is not
repeated, so that the command may be stopped and given again. Speed is measured by `time`, one run alone on the device;
the time to a BLEU is the tokens that a run of `quality` needed for it, at that speed.

usage: python benchmarks/translation_ladder.py quality --data multi30k --out ladder.jsonl --jobs 6 --plot ladder.svg
       python benchmarks/translation_ladder.py time --data multi30k --out ladder.jsonl
       python benchmarks/translation_ladder.py tables --data multi30k --out ladder.jsonl --plot ladder.svg
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
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from clearhead.training.settings import parse_settings
from translation_plot import lines_plot
from translation_run import ROWS, Run

Row = dict[str, Any]
DIRECTIONS = (("de", "en"), ("en", "de"))
# what is to be beaten: published tutorials' BLEU for de→en, and Wu et al. 2021 for en→de
PUBLISHED = {
    ("LSTM", "de"): 13.8,
    ("GRU", "de"): 20.6,
    ("GRU + additive", "de"): 28.3,
    ("Transformer", "de"): 36.5,
    ("Transformer", "en"): 41.0,
    ("Transformer + agreement", "en"): 41.0,
}
WRITING = Lock()


def read(out: Path) -> list[Row]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def carry_out(run: Run, out: Path, jobs: int = 1) -> bool:
    """Run in a process of its own; its last line goes to the file, what it complains of to the screen."""
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))}
    command = [sys.executable, str(Path(__file__).with_name("translation_run.py")), json.dumps(asdict(run))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads}, check=False)
    name = f"{run.row} {run.source}→{run.target} seed {run.seed}"
    if done.returncode:
        print(f"{name} failed:\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
        return False
    line = done.stdout.splitlines()[-1]
    with WRITING, out.open("a") as file:
        file.write(line + "\n")
    found = json.loads(line)
    told = f"{found['tokens_per_second']:.0f} tokens/s" if run.timed else f"BLEU {found['bleu']:.2f}"
    print(f"{name}: {told}, {found['wall']:.0f} s", file=sys.stderr, flush=True)
    return True


def of(rows: Iterable[Row], name: str, source: str, *, timed: bool) -> list[Row]:
    chosen = [row for row in rows if (row["run"]["row"], row["run"]["source"]) == (name, source)]
    return [row for row in chosen if (row["run"]["timed"] is not None) == timed]


def mean(values: Iterable[float]) -> str:
    known = list(values)
    return f"{statistics.fmean(known):.1f}" + (f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else "")


def quality_table(rows: list[Row], source: str, target: str) -> str:
    lines = [
        f"| {source}→{target} | BLEU | published | chrF | BLEU, lower case | parameters | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ROWS:
        if not (found := of(rows, name, source, timed=False)):
            continue
        cells = [mean(row[figure] for row in found) for figure in ("bleu", "chrf", "lowercase_bleu")]
        published = PUBLISHED.get((name, source), "–")
        size = f"{found[0]['parameters'] / 1e6:.1f} M"
        lines.append(f"| {name} | {cells[0]} | {published} | {cells[1]} | {cells[2]} | {size} | {len(found)} |")
    return "\n".join(lines)


def tokens_to(rows: list[Row], level: float) -> float | None:
    """Tokens, in the middle of all seeds, until the development set was translated so well; None if one never did."""
    reached = [next((tokens for _, tokens, bleu in row["curve"] if bleu >= level), None) for row in rows]
    known = [tokens for tokens in reached if tokens is not None]
    return statistics.median(known) if known and len(known) == len(reached) else None


def time_table(rows: list[Row], source: str, target: str, levels: tuple[float, ...]) -> str:
    head = " | ".join(f"time to BLEU {level:g}" for level in levels)
    lines = [f"| {source}→{target} | thousand tokens/s | {head} |", "|---|---|" + "---|" * len(levels)]
    for name in ROWS:
        if not (alone := of(rows, name, source, timed=True)):
            continue
        speed = statistics.median(row["tokens_per_second"] for row in alone)
        needed = [tokens_to(of(rows, name, source, timed=False), level) for level in levels]
        cells = " | ".join("–" if tokens is None else f"{tokens / speed:.0f} s" for tokens in needed)
        lines.append(f"| {name} | {speed / 1e3:.0f} | {cells} |")
    return "\n".join(lines)


def conditions(rows: list[Row]) -> list[str]:
    """Where and when all runs were, and how BLEU was counted."""
    return list(dict.fromkeys(row[name] for name in ("place", "signature") for row in rows if name in row))


def by_length(rows: list[Row], source: str) -> dict[str, dict[str, float]]:
    """BLEU of each row of the ladder by the number of words of the source, the mean over seeds."""
    curves = {}
    for name in ROWS:
        found = [row["by_length"] for row in of(rows, name, source, timed=False)]
        groups = sorted({group for one in found for group in one})
        if found:
            curves[name] = {g: statistics.fmean(one[g] for one in found if g in one) for g in groups}
    return curves


def planned(options: argparse.Namespace) -> list[Run]:
    timed = options.mode == "time"
    shared: Row = {
        "data": str(options.data),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "limit": options.limit,
        "changes": parse_settings(options.set),
        "timed": options.steps if timed else None,
        "warm": options.warm,
    }
    directions = DIRECTIONS[:1] if timed else [pair for pair in DIRECTIONS if pair[0] in options.sources]
    seeds = options.seeds[:1] if timed else options.seeds
    # the longest first, so that no run is left alone at the end
    return [
        Run(name, source, target, seed, **shared)
        for name in sorted(options.rows, key=list(ROWS).index, reverse=True)
        for seed in seeds
        for source, target in directions
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["quality", "time", "tables"])
    parser.add_argument("--data", type=Path, required=True, help="folder with train, val and test_2016_flickr")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one for each run")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--sources", nargs="+", choices=["de", "en"], default=["de", "en"], help="languages read")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="quality runs at a time on the device")
    parser.add_argument("--steps", type=int, default=200, help="steps of `time`")
    parser.add_argument("--warm", type=int, default=50, help="steps before them")
    parser.add_argument("--levels", nargs="+", type=float, default=[15.0, 25.0, 30.0], help="BLEU to be reached")
    parser.add_argument("--limit", type=int, help="pairs to read of every file; default: all")
    parser.add_argument("--set", action="append", default=[], help="change the recipe: model.dropout=0.4")
    parser.add_argument("--plot", type=Path, help="an SVG file: BLEU by source length")
    options = parser.parse_args()
    known = read(options.out)
    runs = [] if options.mode == "tables" else planned(options)
    left = [run for run in runs if asdict(run) not in [row["run"] for row in known]]
    jobs = options.jobs if options.mode == "quality" else 1
    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda run: carry_out(run, options.out, jobs), left))
    rows = read(options.out)
    print(*conditions(rows), sep="\n", end="\n\n")
    for source, target in DIRECTIONS:
        print(quality_table(rows, source, target), end="\n\n")
        if any(of(rows, name, source, timed=True) for name in ROWS):
            print(time_table(rows, source, target, tuple(options.levels)), end="\n\n")
    if options.plot is not None:
        options.plot.write_text(lines_plot(by_length(rows, "de"), "BLEU by words of the source, de→en"), "utf-8")
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
