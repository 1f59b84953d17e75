"""Fuzz clearhead for some minutes: `make fuzz MINUTES=10`, or python tests/fuzz/run.py --minutes 10 --jobs 16.

Case number i of a target is the same in every run with the same seed. Each worker is a process under watch: a case that
takes too long or too much memory, ends its process, or raises anything but a ClearheadError is a find, which is written
to the folder of finds with what it takes to run it again. The counts are printed as JSON, and kept in --state, from
which a later run goes on.
"""

import argparse
import json
import logging
import multiprocessing
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# how much of the time each target gets
SHARES = {
    "config": 20, "weights": 14, "tokenizer": 14, "skill": 3, "index": 3, "sentence": 1, "state": 1, "strings": 80,
    "data": 2, "studio": 2,
}  # fmt: skip
SLOW = 30.0  # seconds of one case that are too many
LARGE = 3 << 30  # bytes of one worker that are too many
WARM = 120.0  # seconds until a worker has its memory
TURN = 2.0  # seconds for one target before it is the next one's turn


def worker(
    number: int, jobs: int, seed: int, shares: dict[str, int], begin: dict[str, int], room: str, wire: Any, beat: Any
) -> None:
    """Run case number, number + jobs, number + 2 jobs … of each target, in turns, and send what happened."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1", XDG_CACHE_HOME=room)
    # oneDNN and torch keep what they compiled for the last 1,024 shapes each; with fewer, any growth is ours
    os.environ.update(ONEDNN_PRIMITIVE_CACHE_CAPACITY="64", LRU_CACHE_CAPACITY="64")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic of the tokenizers' library says so before we can catch it
    from clearhead.errors import ClearheadError
    from fuzz.targets import Bench

    try:
        bench = Bench(Path(room))
    except BaseException as error:
        wire.put(("broken", "".join(traceback.format_exception(error))))
        time.sleep(60)
        return
    places = {name: begin[name] + number for name in shares}
    counts = {name: [0, 0, 0.0] for name in shares}  # accepted, refused, seconds
    turn = random.Random(f"{seed} {number}")
    sent = time.monotonic()
    began, held = sent, 0
    while True:
        name = turn.choices(list(shares), list(shares.values()))[0]
        target = bench.targets[name]
        until = time.monotonic() + TURN
        while (now := time.monotonic()) < until:
            place = places[name]
            spent = time.process_time()
            beat[0], beat[1], beat[2] = now, float(list(shares).index(name)), float(place)
            case = None
            try:
                case = target.draw(random.Random(f"{seed}/{name}/{place}"))
                target.run(case)
                counts[name][0] += target.count
            except ClearheadError as error:
                counts[name][1] += target.count
                if len(str(error)) > 5000 or "\n" in str(error)[:-1]:
                    wire.put(
                        ("find", name, place, case, f"a message of {len(str(error))} characters: {str(error)[:200]}")
                    )
            except BaseException as error:
                wire.put(("find", name, place, case, "".join(traceback.format_exception(error))[-3000:]))
            places[name] += jobs
            counts[name][2] += time.process_time() - spent
        beat[0] = 0.0
        if time.monotonic() - sent > 5:
            # growth counts from when caches of words and shapes are full
            held = held or (_resident() if time.monotonic() - began > WARM else 0)
            wire.put(("counts", number, {n: list(c) for n, c in counts.items()}, dict(places), held, _resident()))
            sent = time.monotonic()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Watch:
    """Starts the workers, listens to them, and ends those that hang or grow."""

    def __init__(self, options: argparse.Namespace, shares: dict[str, int]) -> None:
        self.options, self.shares = options, shares
        self.context = multiprocessing.get_context("spawn")
        self.wire: Any = self.context.Queue()
        self.finds = Path(options.finds)
        self.distinct: dict[str, int] = {}
        self.hangs = self.deaths = self.growth = self.peak = 0
        self.slowest = 0.0
        self.totals: dict[int, dict[str, list[float]]] = {}
        self.done: dict[str, list[float]] = {name: [0, 0, 0.0] for name in shares}  # of workers that ended
        self.begin = dict.fromkeys(shares, 0)
        self.earlier: dict[str, Any] = {}
        if options.state and Path(options.state).exists():
            self.earlier = json.loads(Path(options.state).read_text())
            self.begin |= {name: place for name, place in self.earlier.get("next", {}).items() if name in shares}
        self.next = dict(self.begin)
        base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
        self.room = Path(tempfile.mkdtemp(prefix="clearhead-fuzz-", dir=base))
        self.workers: dict[int, tuple[Any, Any]] = {}
        self.skip = 0

    def start(self, number: int) -> None:
        beat = self.context.Array("d", 3, lock=False)
        room = self.room / f"{number}-{self.skip}"
        room.mkdir()
        self.skip += 1
        arguments = (
            number,
            self.options.jobs,
            self.options.seed,
            self.shares,
            dict(self.next),
            str(room),
            self.wire,
            beat,
        )
        process = self.context.Process(target=worker, args=arguments, daemon=True)
        process.start()
        self.workers[number] = (process, beat)

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        for number in range(self.options.jobs):
            self.start(number)
        try:
            while time.monotonic() - began < 60 * self.options.minutes:
                self.listen()
                self.look()
        finally:
            for process, _ in self.workers.values():
                process.terminate()
            for process, _ in self.workers.values():
                process.join(10)
            shutil.rmtree(self.room, ignore_errors=True)
        return self.report(time.monotonic() - began)

    def listen(self) -> None:
        """Take what the workers have sent within half a second."""
        until = time.monotonic() + 0.5
        while (left := until - time.monotonic()) > 0:
            try:
                kind, *what = self.wire.get(timeout=left)
            except Exception:
                return
            if kind == "broken":
                raise SystemExit(what[0])
            if kind == "find":
                self.keep(*what)
            else:
                number, counts, places, before, now = what
                self.totals[number] = counts
                self.next = {name: max(self.next[name], places[name]) for name in places}
                self.peak = max(self.peak, now)
                self.growth = max(self.growth, now - before if before else 0)

    def look(self) -> None:
        """End a worker whose case takes too long or too much; count one that ended by itself."""
        names = list(self.shares)
        for number, (process, beat) in list(self.workers.items()):
            began, name, place = beat[0], names[int(beat[1])], int(beat[2])
            taken = time.monotonic() - began if began else 0.0
            self.slowest = max(self.slowest, taken)
            try:
                size = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
            except OSError:
                size = 0
            ended = not process.is_alive()
            if not (ended or taken > SLOW or size > LARGE):
                continue
            why = f"ended with {process.exitcode}" if ended else f"took {taken:.0f} s, {size >> 20} MB"
            self.hangs += not ended
            self.deaths += ended
            process.kill()
            self.keep(name, place, None, f"the process {why}")
            for one, held in self.totals.pop(number, {}).items():
                self.done[one] = [a + b for a, b in zip(self.done[one], held, strict=True)]
            self.next[name] = max(self.next[name], place + self.options.jobs)
            self.start(number)

    def keep(self, name: str, place: int, case: Any, how: str) -> None:
        """Write a find down, once for each place in the code."""
        lines = [re.sub(r"/\S*/clearhead-fuzz-\S*", "…", line.strip()) for line in how.strip().splitlines()]
        where = [line for line in lines if "/clearhead/" in line][-1:] or lines[-1:]
        key = f"{name}: {lines[-1][:100]} {''.join(where)[-160:]}"
        self.distinct[key] = self.distinct.get(key, 0) + 1
        if self.distinct[key] == 1:
            self.finds.mkdir(parents=True, exist_ok=True)
            content = {"target": name, "seed": self.options.seed, "place": place, "case": case, "how": how}
            (self.finds / f"{name}-{place}.json").write_text(json.dumps(content, indent=1))
            sys.stderr.write(f"find in {name}, case {place}: {lines[-1][:200]}\n")

    def report(self, seconds: float) -> dict[str, Any]:
        from_now = {name: list(held) for name, held in self.done.items()}
        for counts in self.totals.values():
            for name, held in counts.items():
                from_now[name] = [a + b for a, b in zip(from_now[name], held, strict=True)]
        targets = {}
        for name, (accepted, refused, spent) in from_now.items():
            before = self.earlier.get("targets", {}).get(name, {})
            targets[name] = {
                "cases": int(accepted + refused) + before.get("cases", 0),
                "accepted": int(accepted) + before.get("accepted", 0),
                "per_second_and_core": round((accepted + refused) / spent, 1) if spent else 0,
            }
        kinds = {"strings": ("strings",), "data": ("data",), "studio": ("studio",)}
        named = {name for names in kinds.values() for name in names}
        total = {
            kind: sum(targets[name]["cases"] for name in names if name in targets) for kind, names in kinds.items()
        }
        total["checkpoint"] = sum(held["cases"] for name, held in targets.items() if name not in named)
        content = {
            "seed": self.options.seed,
            "jobs": self.options.jobs,
            "minutes": round(seconds / 60 + self.earlier.get("minutes", 0), 2),
            "totals": total,
            "targets": targets,
            "raw_errors": len(self.distinct) + self.earlier.get("raw_errors", 0),
            "hangs": self.hangs + self.earlier.get("hangs", 0),
            "deaths": self.deaths + self.earlier.get("deaths", 0),
            "slowest_case_s": round(max(self.slowest, self.earlier.get("slowest_case_s", 0)), 1),
            "peak_mb": max(self.peak >> 20, self.earlier.get("peak_mb", 0)),
            "growth_mb": max(self.growth >> 20, self.earlier.get("growth_mb", 0)),
            "finds": self.distinct,
            "next": self.next,
        }
        if self.options.state:
            Path(self.options.state).write_text(json.dumps(content, indent=1))
        return content


def main() -> int:
    """Read the options, fuzz, print the counts; exit 1 if anything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default="", help=f"some of {', '.join(SHARES)}, by commas")
    parser.add_argument("--state", default="", help="a file of counts to go on from")
    parser.add_argument("--finds", default="fuzz-finds")
    options = parser.parse_args()
    known = [name for name in SHARES if name != "studio" or find_spec("starlette")]  # which is optional
    chosen = [name for name in options.targets.split(",") if name] or known
    content = Watch(options, {name: SHARES[name] for name in chosen}).run()
    sys.stdout.write(json.dumps(content, indent=1) + "\n")
    return 1 if content["raw_errors"] or content["hangs"] or content["deaths"] else 0


if __name__ == "__main__":
    sys.exit(main())
