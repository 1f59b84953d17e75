"""Kill the process that computes, again and again, under load: is every request answered, and how soon again?

A closed loop of clients asks for all uses mixed (serve_mix.py). Every few seconds the worker is killed with SIGKILL;
measured is the time from the kill until a request that was sent after it is answered with 200. A request that is not
answered at all, whether its connection ended or nothing came, is a failure, as is a wrong answer.

usage: python benchmarks/serve_kills.py [--kills 20] [--between 3] [--clients 8] [--json FILE]
"""

import argparse
import asyncio
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from serve_load import Connection, Lost, Seen, Server, clearhead_server, elsewhere, get, report, run
from serve_mix import RERANKER, Ask, agrees, make_mix

HUNG = 120.0  # seconds without an answer
AGAIN = 120.0  # seconds until answers must come again


class Clients:
    """A closed loop that goes on until it is stopped, and remembers when the latest answered request was sent."""

    def __init__(self, server: Server, mix: list[Ask], count: int) -> None:
        self.server, self.mix, self.count = server, mix, count
        self.seen = Seen()
        self.wrong = 0
        self.messages: dict[str, int] = {}  # what refusals said
        self.latest = 0.0  # when the request was sent that was answered with 200 and sent last
        self.stop = False
        self.rng = random.Random(0)

    async def client(self) -> None:
        connection = Connection(self.server.port)
        while not self.stop:
            ask, began = self.rng.choice(self.mix), time.perf_counter()
            try:
                reply = await asyncio.wait_for(connection.post(ask.path, ask.body), HUNG)
            except Lost:
                self.seen.count("lost")
                continue
            except OSError:
                self.seen.count("no connection")
                await asyncio.sleep(0.05)
                continue
            except TimeoutError:
                self.seen.count("hung")
                continue
            self.seen.count(reply.status)
            if reply.status == 200:
                self.seen.latencies.append(time.perf_counter() - began)
                self.wrong += not agrees(ask, reply.body)
                self.latest = max(self.latest, began)
            else:
                told = reply.body[:160].decode(errors="replace")
                self.messages[told] = self.messages.get(told, 0) + 1
                await asyncio.sleep(0.02)
        connection.close()

    async def kill(self, between: float) -> dict[str, Any]:
        """Wait, kill the worker, wait until answers come again."""
        await asyncio.sleep(between)
        worker = self.server.worker()
        if worker is None:
            raise SystemExit("the server has no process that computes")
        before = dict(self.seen.statuses)
        os.kill(worker, signal.SIGKILL)
        killed = time.perf_counter()
        while self.latest <= killed and time.perf_counter() - killed < AGAIN:
            await asyncio.sleep(0.01)
        since = {status: n - before.get(status, 0) for status, n in self.seen.statuses.items()}
        return {
            "again_s": round(time.perf_counter() - killed, 2) if self.latest > killed else None,
            "meanwhile": {status: n for status, n in since.items() if n},
        }


async def kills(server: Server, mix: list[Ask], count: int, between: float, clients: int) -> dict[str, Any]:
    load = Clients(server, mix, clients)
    tasks = [asyncio.create_task(load.client()) for _ in range(clients)]
    rows = []
    for number in range(count):
        rows.append(await load.kill(between))
        print(f"kill {number + 1}: {rows[-1]}", flush=True)
    await asyncio.sleep(between)
    load.stop = True
    await asyncio.gather(*tasks)
    times = [row["again_s"] for row in rows if row["again_s"] is not None]
    return {
        "kills": rows,
        "statuses": dict(sorted(load.seen.statuses.items())),
        "wrong": load.wrong,
        "messages": load.messages,
        "not_again": count - len(times),
        "again_median_s": statistics.median(times) if times else None,
        "again_worst_s": max(times) if times else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--between", type=float, default=3, help="seconds of answers before the next one")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "reranker"
        mix = elsewhere(make_mix, folder, 6)
        with clearhead_server("--model", f"{RERANKER}={folder}", "--preload") as server:
            found = run(kills(server, mix, options.kills, options.between, options.clients))
            lines = get(server.port, "/metrics")[1].decode().splitlines()
            found["restarts"] = [line for line in lines if line.startswith("clearhead_worker_restarts_total")]
            found["memory_mb"] = {part: size >> 20 for part, size in server.memory().items()}
            found["exit"] = server.stop()
    print({name: value for name, value in found.items() if name != "kills"})
    report(found, options.json)
    failed = found["wrong"] or found["not_again"] or {"lost", "hung", "no connection", "500"} & set(found["statuses"])
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
