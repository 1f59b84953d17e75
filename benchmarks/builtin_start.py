"""How soon the built-in model answers: loading it, and commands from their start to their end, on a CPU.

Each figure is the median over fresh processes, by the clock and by the processor's time.

usage: python benchmarks/builtin_start.py [--model FOLDER] [--before CHECKOUT] [--only tag] [--runs 5] [--json FILE]
       python benchmarks/builtin_start.py --phases [--runs 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

Once = Callable[[], tuple[float, float]]

LOAD = """
import sys, time
import clearhead
clearhead.load  # which imports torch and the rest
start, spent = time.perf_counter(), time.process_time()
clearhead.load(*sys.argv[1:])
print(time.perf_counter() - start, time.process_time() - spent)
"""
# where the time of `clearhead tag "one line"` goes, in the processor's seconds, each since the one before
PHASES = """
import gc, time
gc.set_threshold(100_000, 50, 50)  # as the command line does
spent = [("Python", time.process_time())]
tick = lambda name: spent.append((name, time.process_time()))
import clearhead.cli; tick("import the command line")
import torch; tick("import torch")
import clearhead.pipelines.model; tick("import clearhead")
model = clearhead.load(); tick("load the encoder")
model._encoder_digest(); tick("digest of the encoder, for the skill")
model.skill("entities"); tick("read the skill")
model.tag("Ada Lovelace lived in London."); tick("first answer")
model.tag("Ada Lovelace lived in London."); tick("second answer")
last = 0.0
for name, now in spent:
    print(f"{name}\\t{now - last:.3f}")
    last = now
"""
COMMANDS = {
    "fill": ["fill", "If you don't want to inhale virus, you should wear a [MASK]."],
    "classify": ["classify", "A warm, funny and clever film."],
    "classify, skill spam": ["classify", "WINNER! Call now to claim your prize.", "--skill", "spam"],
    "tag": ["tag", "Ada Lovelace lived in London."],
    "compare": ["compare", "A man sleeps.", "Nobody is awake."],
    "embed": ["embed", "a short query"],
}


def bare_once() -> tuple[float, float]:
    """A process that imports torch and does nothing: what no command can be faster than."""
    return process_once(["-c", "import torch"])


def load_once(model: list[str]) -> tuple[float, float]:
    run = subprocess.run([sys.executable, "-c", LOAD, *model], check=True, capture_output=True, text=True)
    clock, spent = map(float, run.stdout.split())
    return clock, spent


def command_once(arguments: list[str], source: Path | None = None) -> tuple[float, float]:
    return process_once(["-m", "clearhead", *arguments, "--json"], source)


def process_once(arguments: list[str], source: Path | None = None) -> tuple[float, float]:
    found = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=found)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, spent


def print_phases(runs: int) -> None:
    """The medians of each phase; one thread, as the command line has for short texts."""
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        run = subprocess.run(
            [sys.executable, "-c", PHASES],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for line in run.stdout.splitlines():
            name, spent = line.split("\t")
            found.setdefault(name, []).append(float(spent))
    for name, column in found.items():
        print(f"{statistics.median(column):.3f}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder as the built-in model's; else the built-in model itself")
    parser.add_argument("--before", type=Path, help="another checkout, whose commands take turns with these")
    parser.add_argument("--only", action="append", help="one of the commands; more may be named")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--phases", action="store_true", help="where the time of a one-line tag goes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled beforehand
    if options.phases:
        print_phases(options.runs)
        return
    named = [] if options.model is None else [options.model]
    option = [] if options.model is None else ["--model", options.model]
    turns: dict[str, Once] = {"import torch": bare_once, "load": partial(load_once, named)}
    for name, arguments in COMMANDS.items():
        if options.only is None or name in options.only:
            turns[name] = partial(command_once, [*arguments, *option])
            if options.before is not None:
                turns[f"{name}, before"] = partial(command_once, [*arguments, *option], options.before / "src")
    # all take turns, so that other work on the machine meets all of them; the first round warms the disk
    rounds = [{name: once() for name, once in turns.items()} for _ in range(options.runs + 1)][1:]
    rows = []
    for name in turns:
        clock, spent = zip(*(one[name] for one in rounds), strict=True)
        rows.append({"what": name, "seconds": round(statistics.median(clock), 2), "fastest": round(min(clock), 2)})
        rows[-1]["cpu_s"] = round(statistics.median(spent), 2)
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
