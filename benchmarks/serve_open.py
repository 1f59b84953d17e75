"""Overload: open loop with Poisson arrivals at 0.5, 0.8, 1, 2 and 4 x what the service can do, all uses mixed.

Capacity is what a closed loop of clients gets answered of the same mix, before or after the rest, whichever is more;
everything is asked once before, since models that were never asked are slower. Requests of the open loop come at random
times, whether or not those before were answered, as on the internet, and a latency counts from the time that a request
was due. Every request has a number of its own and must be answered once: what is not answered is lost, bytes that
nobody asked for are an answer too many, and what a 200 says must be what the Python API says (serve_mix.py). Goodput is
what was answered rightly within the deadline, as a share of capacity: in requests, and in characters, since a queue
that refused the long ones would look better by the first alone.

usage: python benchmarks/serve_open.py [--seconds 60] [--loads 0.5,0.8,1,2,4] [--deadline 60] [--json FILE]
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from serve_load import (
    Connection,
    Lost,
    Pool,
    Seen,
    Server,
    clearhead_server,
    closed_loop,
    elsewhere,
    measured,
    milliseconds,
    percentile,
    report,
    run,
)
from serve_mix import RERANKER, Ask, agrees, make_mix

ALLOWED = {"200", "429"}


async def warm(server: Server, mix: list[Ask], clients: int) -> None:
    """Ask for everything once: models are loaded, skills read, and memory taken."""
    todo = iter(mix)

    async def client() -> None:
        connection = Connection(server.port)
        for ask in todo:
            await asyncio.wait_for(connection.post(ask.path, ask.body), 300)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))


async def capacity(server: Server, mix: list[Ask], clients: int, seconds: float) -> tuple[Seen, float]:
    """Answers a second of a closed loop, and characters a second."""
    rng, characters, wrong = random.Random(1), 0, 0

    async def ask(connection: Connection, client: int, turn: int) -> tuple[int, int]:
        nonlocal characters, wrong
        chosen = rng.choice(mix)
        reply = await connection.post(chosen.path, chosen.body)
        if reply.status == 200:
            characters += len(chosen.body)
            wrong += not agrees(chosen, reply.body)
        return reply.status, 1

    seen = await closed_loop(server.port, clients, seconds, ask)
    if wrong or set(seen.statuses) != {"200"}:
        raise SystemExit(f"closed loop: {wrong} answers are not the Python API's; statuses {seen.statuses}")
    return seen, characters / seen.seconds


class OpenLoop:
    """Requests at random times, so many a second on average, and what became of each."""

    def __init__(self, server: Server, mix: list[Ask], rate: float, deadline: float, seed: int) -> None:
        self.server, self.mix, self.rate, self.deadline = server, mix, rate, deadline
        self.rng = random.Random(seed)
        self.pool: Pool | None = None
        self.seen = Seen()
        self.sent = 0
        self.characters = 0  # of what was answered rightly
        self.wrong: list[int] = []
        self.answered: Counter[int] = Counter()  # how often each number was answered
        self.by_use: Counter[tuple[str, str]] = Counter()
        self.late = 0.0  # the most that the load generator itself was behind
        self.memory: list[dict[str, float]] = []

    async def run(self, seconds: float) -> None:
        self.pool = Pool(self.server.port)
        tasks: set[asyncio.Task[None]] = set()
        watch = asyncio.create_task(self._watch())
        with measured(self.seen):
            began = time.perf_counter()
            due = began + self.rng.expovariate(self.rate)
            while due < began + seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                self.late = max(self.late, time.perf_counter() - due)
                task = asyncio.create_task(self._one(self.sent, self.rng.choice(self.mix), due))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                self.sent += 1
                due += self.rng.expovariate(self.rate)
            if tasks:
                await asyncio.wait(set(tasks), timeout=self.deadline + 60)
            for task in tasks:
                task.cancel()
                self.seen.count("hung")
        watch.cancel()
        self.pool.close()
        self.seen.done = len(self.seen.latencies)

    async def _one(self, number: int, ask: Ask, due: float) -> None:
        assert self.pool is not None
        headers = f"x-request-id: {number}\r\nx-timeout-ms: {int(self.deadline * 1000)}\r\n"
        try:
            reply = await self.pool.post(ask.path, ask.body, headers)
        except (Lost, OSError):
            self.seen.count("lost")
            return
        taken = time.perf_counter() - due
        self.answered[number] += 1
        self.seen.count(reply.status)
        self.by_use[ask.use, str(reply.status)] += 1
        if reply.status == 200:
            self.seen.latencies.append(taken)
            if not agrees(ask, reply.body) or reply.headers.get("x-request-id", str(number)) != str(number):
                self.wrong.append(number)
            elif taken <= self.deadline:
                self.characters += len(ask.body)

    async def _watch(self) -> None:
        began = time.perf_counter()
        while True:
            held = self.server.memory()
            row = {part: round(size / 2**20, 1) for part, size in held.items()}
            self.memory.append({"second": round(time.perf_counter() - began), **row})
            await asyncio.sleep(2)

    def row(self, load: float, seconds: float, most: float, characters: float) -> dict[str, Any]:
        good = sum(taken <= self.deadline for taken in self.seen.latencies) - len(self.wrong)
        # what was answered after the last arrival was computed in time that belongs to it
        span = max(seconds, self.seen.seconds)
        memory = {part: [m[part] for m in self.memory] for part in ("front", "worker")}
        assert self.pool is not None
        return {
            "load": load,
            "offered_per_s": round(self.sent / seconds, 1),
            "goodput": round(good / span / most, 3),
            "goodput_characters": round(self.characters / span / characters, 3),
            "sent": self.sent,
            "statuses": dict(sorted(self.seen.statuses.items())),
            "other_statuses": sorted(set(self.seen.statuses) - ALLOWED),
            "p50_ms": milliseconds(percentile(self.seen.latencies, 50)),
            "p99_ms": milliseconds(percentile(self.seen.latencies, 99)),
            "lost": self.sent - len(self.answered),
            "answered_twice": sum(count > 1 for count in self.answered.values()),
            "stray_bytes": self.pool.stray,
            "wrong": len(self.wrong),
            "seconds": round(self.seen.seconds, 1),
            "memory_mb": {part: [sizes[0], max(sizes), sizes[-1]] for part, sizes in memory.items()},
            "client_cpu": round(self.seen.client_cpu, 3),
            "client_late_ms": milliseconds(self.late),
            "accepted_by_use": {
                use: round(self.by_use[use, "200"] / max(1, sum(n for (u, _), n in self.by_use.items() if u == use)), 3)
                for use in sorted({ask.use for ask in self.mix})
            },
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--loads", default="0.5,0.8,1,2,4")
    parser.add_argument("--deadline", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64, help="of the closed loop, so many that batches are full")
    parser.add_argument("--each", type=int, default=12, help="different requests of each use")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "reranker"
        mix = elsewhere(make_mix, folder, options.each)
        uses = sorted({ask.use for ask in mix})
        print(f"{len(mix)} different requests of {len(uses)} uses: {', '.join(uses)}", flush=True)
        with clearhead_server("--model", f"{RERANKER}={folder}", "--preload") as server:
            run(warm(server, mix, options.clients))
            most = [run(capacity(server, mix, options.clients, options.seconds))]
            print("capacity before", most[0][0].row(), flush=True)
            loops = []
            for number, load in enumerate(float(one) for one in options.loads.split(",")):
                loops.append((load, OpenLoop(server, mix, load * most[0][0].rate, options.deadline, seed=number)))
                run(loops[-1][1].run(options.seconds))
                print(load, loops[-1][1].seen.row(), flush=True)
            most.append(run(capacity(server, mix, options.clients, options.seconds)))
            print("capacity after", most[1][0].row(), flush=True)
    rate, characters = max(seen.rate for seen, _ in most), max(found for _, found in most)
    rows = [loop.row(load, options.seconds, rate, characters) for load, loop in loops]
    for row, (_, loop) in zip(rows, loops, strict=True):
        print(row)
        row["memory_over_time"] = loop.memory
    found = {"capacity": [seen.row() for seen, _ in most], "characters_per_s": round(characters), "loads": rows}
    report(found, options.json)


if __name__ == "__main__":
    main()
