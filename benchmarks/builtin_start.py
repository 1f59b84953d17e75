"""How soon the built-in model answers: loading it, and commands from their start to their end, on a CPU.

Each figure is the median over fresh processes, by the clock and by the processor's time.

usage: python benchmarks/builtin_start.py [--model FOLDER] [--runs 5] [--json FILE]
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


def command_once(arguments: list[str]) -> tuple[float, float]:
    return process_once(["-m", "clearhead", *arguments, "--json"])


def process_once(arguments: list[str]) -> tuple[float, float]:
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder as the built-in model's; else the built-in model itself")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled beforehand
    named = [] if options.model is None else [options.model]
    option = [] if options.model is None else ["--model", options.model]
    turns: dict[str, Once] = {"import torch": bare_once, "load": partial(load_once, named)}
    turns |= {name: partial(command_once, [*arguments, *option]) for name, arguments in COMMANDS.items()}
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
