"""Does memory stay flat? 100,000 requests of mixed uses and lengths, each text another; memory before, during, after.

Lengths are log-uniform from one word to --words; one request in fifty is a list. Growth is counted from a tenth of the
requests on, when every shape has been seen and what torch keeps is there. With --small a small untrained model is asked
in the place of the built-in one: then the time goes into what a request passes through, and little of it into products.

usage: python benchmarks/serve_soak.py [--requests 100000] [--minutes 120] [--words 400] [--clients 16] [--small]
                                       [--json FILE]
"""

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from docstrings import docstring_texts
from serve_load import Connection, Lost, Seen, Server, clearhead_server, elsewhere, measured, report, run

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from fuzz.serve import SMALL, small_models

USES = ("embed", "classify", "tag", "fill", "compare", "follows", "answer", "zero-shot")
GROWTH = 0.05  # of what a process held after a tenth of the requests
HUNG = 180.0


def vocabulary() -> list[str]:
    return sorted({word for text in docstring_texts() for word in text.split() if word.isascii()})


class Texts:
    """Texts of random words, hardly any of which comes twice."""

    def __init__(self, words: list[str], most: int, model: str | None = None, seed: int = 0) -> None:
        self.words, self.most, self.rng = words, most, random.Random(seed)
        self.model = {} if model is None else {"model": model}

    def text(self, most: int | None = None) -> str:
        length = math.exp(self.rng.uniform(0, math.log(most or self.most)))
        return " ".join(self.rng.choices(self.words, k=max(1, round(length))))

    def request(self) -> tuple[str, bytes]:
        """The path and the body of a request."""
        use, rng = self.rng.choice(USES), self.rng
        several = rng.random() < 0.02 and use in ("embed", "classify", "tag")
        body: dict[str, Any]
        if use in ("compare", "follows"):
            body = {"first": self.text(40), "second": self.text(40)}
        elif use == "answer":
            body = {"question": self.text(10), "context": self.text()}
        elif use == "zero-shot":
            body = {"text": self.text(60), "labels": [f"{rng.choice(self.words)} {i}" for i in range(3)]}
        elif use == "fill":
            body = {"text": f"{self.text(60)} [MASK] {self.text(10)}", "top_k": 2}
        else:
            body = {"text": [self.text(60) for _ in range(rng.randrange(2, 40))] if several else self.text()}
        return f"/v1/{use}", json.dumps({**body, **self.model}).encode()


async def soak(server: Server, texts: Texts, requests: int, minutes: float, clients: int) -> dict[str, Any]:
    seen, sent, until = Seen(), 0, time.perf_counter() + 60 * minutes
    rows: list[dict[str, Any]] = []
    messages: dict[str, int] = {}

    def sample() -> None:
        held = {part: round(size / 2**20, 1) for part, size in server.memory().items()}
        rows.append({"requests": sum(seen.statuses.values()), **held})
        print(rows[-1], flush=True)

    async def client() -> None:
        nonlocal sent
        connection = Connection(server.port)
        while sent < requests and time.perf_counter() < until:
            sent += 1
            path, body = texts.request()
            began = time.perf_counter()
            try:
                reply = await asyncio.wait_for(connection.post(path, body), HUNG)
            except Lost:
                seen.count("lost")
                continue
            except TimeoutError:
                seen.count("hung")
                continue
            seen.count(reply.status)
            if reply.status == 200:
                seen.latencies.append(time.perf_counter() - began)
                seen.done += 1
            else:
                told = reply.body[:160].decode(errors="replace")
                messages[told] = messages.get(told, 0) + 1
            if sum(seen.statuses.values()) % max(1, requests // 20) == 0:
                sample()
        connection.close()

    sample()
    with measured(seen):
        await asyncio.gather(*(client() for _ in range(clients)))
    await asyncio.sleep(5)
    sample()
    warm = next((row for row in rows if row["requests"] >= requests / 10), rows[-1])
    growth = {part: round(rows[-1][part] / warm[part] - 1, 4) if warm[part] else None for part in ("front", "worker")}
    return {**seen.row(), "messages": messages, "memory_mb": rows, "growth": growth}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=120, help="no longer than this")
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--small", action="store_true", help="ask a small untrained model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    texts = Texts(elsewhere(vocabulary), options.words, SMALL if options.small else None)
    with ExitStack() as stack:
        served = []
        if options.small:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            elsewhere(small_models, folder)
            served = ["--model", f"{SMALL}={folder / SMALL}"]
        server = stack.enter_context(clearhead_server("--preload", *served))
        found = run(soak(server, texts, options.requests, options.minutes, options.clients))
    print({name: value for name, value in found.items() if name != "memory_mb"})
    report(found, options.json)
    grown = any(share is None or share > GROWTH for share in found["growth"].values())
    return 1 if grown or set(found["statuses"]) - {"200", "429"} else 0


if __name__ == "__main__":
    raise SystemExit(main())
