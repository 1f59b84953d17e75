"""Vectors of the real all-MiniLM-L6-v2 over HTTP, closed loop: `clearhead serve` in fp32 and in int8 beside infinity.

Clients x texts a request: 1 x 1, 32 x 1 and 4 x 32. All get the same texts of natural length and the same body, that of
OpenAI with vectors in base64. The servers run side by side and are asked in turns, the median over the rounds counts,
and ratios are to infinity. Printed beside: what the load generator took of a core, and what the servers that were not
asked took meanwhile, which should be nothing. Before anything is timed, the vectors are compared with infinity's.

Then what the queue is worth: the p99 of single texts while another client sends lists of 1,000, against the p99 without
it, and the same of a server that has one lock in place of the queue (serve_lock.py).

infinity wants older packages than we do, so it has an environment of its own:

    python3.11 -m venv ../infinity
    ../infinity/bin/pip install torch==2.13.0     # the build for CPUs
    ../infinity/bin/pip install 'infinity_emb[server,torch]==0.0.78' 'transformers<5' 'huggingface_hub<1' 'click<8.2'

It is started offline, with its default batch and --no-bettertransformer, which newer versions of torch do not have.

usage: python benchmarks/serve_closed.py [--infinity ../infinity] [--seconds 20] [--rounds 5] [--json FILE]
"""

import argparse
import asyncio
import base64
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from docstrings import docstring_texts
from real_weights import minilm
from serve_load import (
    HOST,
    Connection,
    Seen,
    Server,
    clearhead_server,
    closed_loop,
    elsewhere,
    percentile,
    report,
    run,
)

SHAPES = ((1, 1), (32, 1), (4, 32))
PATH = "/v1/embeddings"
MODEL = "minilm"
LIST = 1000  # texts of the client that others must not wait behind


def texts_and_sample(count: int) -> tuple[list[str], list[str]]:
    """Texts to be asked for, which no server cuts, and others to quantise with."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = [text for text in docstring_texts() if len(tokenizer.encode(text).ids) <= 256]
    return found[:count], found[-200:]


def body(texts: list[str]) -> bytes:
    content = {"model": MODEL, "input": texts, "encoding_format": "base64"}
    return json.dumps(content, ensure_ascii=False).encode()


def bodies(texts: list[str], size: int) -> list[bytes]:
    """Every text once, so many in a request; the last request is filled from the front."""
    around = texts + texts[:size]
    return [body(around[i : i + size]) for i in range(0, len(texts), size)]


def vectors(reply: bytes) -> np.ndarray:
    data = json.loads(reply)["data"]
    return np.stack([np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in data])


async def load(server: Server, ready: list[bytes], clients: int, size: int, seconds: float) -> Seen:
    """Closed loop; every client begins at another place, so that no two ask for the same at once."""

    async def ask(connection: Connection, client: int, turn: int) -> tuple[int, int]:
        chosen = ready[(client * len(ready) // clients + turn) % len(ready)]
        return (await connection.post(PATH, chosen)).status, size

    return await closed_loop(server.port, clients, seconds, ask)


async def embedded(server: Server, texts: list[str]) -> np.ndarray:
    connection = Connection(server.port)
    found = []
    for i in range(0, len(texts), 32):
        reply = await connection.post(PATH, body(texts[i : i + 32]))
        if reply.status != 200:
            raise SystemExit(f"{server.command[:3]} answers {reply.status}: {reply.body[:300]!r}")
        found.append(vectors(reply.body))
    connection.close()
    return np.concatenate(found)


def compare(servers: dict[str, Server], texts: list[str]) -> dict[str, Any]:
    """The mean cosine of everyone's vectors with those of the first: that all compute the same."""
    found = {name: run(embedded(server, texts)) for name, server in servers.items()}
    unit = {name: one / np.linalg.norm(one, axis=1, keepdims=True) for name, one in found.items()}
    first = next(iter(unit.values()))
    cosines = {name: round(float((one * first).sum(1).mean()), 5) for name, one in unit.items()}
    print("mean cosine with the first:", cosines, flush=True)
    wrong = [name for name, cosine in cosines.items() if cosine < 0.99]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)}: other vectors; nothing was measured")
    return cosines


def throughput(servers: dict[str, Server], texts: list[str], seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Every shape, every server in its turn; medians over the rounds."""
    rows = []
    for clients, size in SHAPES:
        ready = bodies(texts, size)
        seen: dict[str, list[Seen]] = {name: [] for name in servers}
        others: dict[str, list[float]] = {name: [] for name in servers}
        for server in servers.values():
            run(load(server, ready, clients, size, min(3.0, seconds)))  # not counted: the first requests warm up
        for _ in range(rounds):
            for name, server in servers.items():
                idle = [other for other in servers.values() if other is not server]
                before = sum(other.cpu_seconds() for other in idle)
                seen[name].append(run(load(server, ready, clients, size, seconds)))
                spent = sum(other.cpu_seconds() for other in idle) - before
                others[name].append(spent / seen[name][-1].seconds)
        base = statistics.median(one.rate for one in next(iter(seen.values())))
        for name, runs in seen.items():
            rates = [one.rate for one in runs]
            rows.append(
                {
                    "clients": clients,
                    "texts": size,
                    "server": name,
                    "texts_per_s": round(statistics.median(rates), 1),
                    "spread": [round(min(rates), 1), round(max(rates), 1)],
                    "ratio": round(statistics.median(rates) / base, 2) if base else None,
                    "p50_ms": _median_ms(runs, 50),
                    "p99_ms": _median_ms(runs, 99),
                    "requests": sum(len(one.latencies) for one in runs),
                    "statuses": _summed(runs),
                    "client_cpu": round(statistics.median(one.client_cpu for one in runs), 3),
                    "idle_servers_cpu": round(statistics.median(others[name]), 3),
                }
            )
            print(rows[-1], flush=True)
    return rows


def _median_ms(runs: list[Seen], percent: float) -> float:
    return round(statistics.median(percentile(one.latencies, percent) for one in runs) * 1000, 1)


def _summed(runs: list[Seen]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in runs:
        for status, count in one.statuses.items():
            found[status] = found.get(status, 0) + count
    return found


async def beside_lists(server: Server, singles: list[bytes], long: bytes, seconds: float) -> tuple[Seen, Seen]:
    """One client with single texts, and one with lists, from before the first is timed until after the last."""
    lists, stop = Seen(), asyncio.Event()

    async def sender() -> None:
        connection = Connection(server.port)
        while not stop.is_set():
            began = time.perf_counter()
            reply = await asyncio.wait_for(connection.post(PATH, long), 600)
            lists.count(reply.status)
            if reply.status == 200:
                lists.latencies.append(time.perf_counter() - began)
                lists.done += LIST
            else:
                await asyncio.sleep(0.5)
        connection.close()

    task = asyncio.create_task(sender())
    await asyncio.sleep(1)
    began = time.perf_counter()
    alone = await load(server, singles, 1, 1, seconds)
    lists.seconds = time.perf_counter() - began
    stop.set()
    await task
    return alone, lists


def fairness(servers: dict[str, Server], texts: list[str], seconds: float, rounds: int) -> list[dict[str, Any]]:
    """The p99 of single texts, with and without a client that sends lists of 1,000."""
    singles = bodies(texts, 1)
    long = body([texts[i % len(texts)] for i in range(LIST)])
    seen: dict[str, list[tuple[Seen, Seen, Seen]]] = {name: [] for name in servers}
    for server in servers.values():
        run(load(server, singles, 1, 1, min(3.0, seconds)))
    for _ in range(rounds):
        for name, server in servers.items():
            idle = run(load(server, singles, 1, 1, seconds))
            seen[name].append((idle, *run(beside_lists(server, singles, long, seconds))))
    rows = []
    for name, runs in seen.items():
        idle, busy, lists = ([one[i] for one in runs] for i in range(3))
        rows.append(
            {
                "server": name,
                "idle_p50_ms": _median_ms(idle, 50),
                "idle_p99_ms": _median_ms(idle, 99),
                "beside_lists_p50_ms": _median_ms(busy, 50),
                "beside_lists_p99_ms": _median_ms(busy, 99),
                "p99_ratio": round(_median_ms(busy, 99) / _median_ms(idle, 99), 2),
                "singles": sum(len(one.latencies) for one in busy),
                "singles_statuses": _summed(busy),
                "lists_statuses": _summed(lists),
                "list_seconds": round(statistics.median([t for one in lists for t in one.latencies] or [0]), 2),
                "client_cpu": round(statistics.median(one.client_cpu for one in busy), 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def infinity(folder: Path, environment: Path) -> Server:
    options = ["--model-id", str(folder), "--served-model-name", MODEL, "--engine", "torch", "--device", "cpu"]
    options += ["--dtype", "float32", "--no-bettertransformer", "--host", HOST, "--port", "{port}"]
    options += ["--url-prefix", "/v1", "--log-level", "error"]
    offline = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    return Server([str(environment / "bin" / "infinity_emb"), "v2", *options], "/health", offline)


def ours(folder: Path, *options: str) -> Server:
    return clearhead_server("--model", f"{MODEL}={folder}", "--preload", *options)


def lock(folder: Path) -> Server:
    script = Path(__file__).with_name("serve_lock.py")
    return Server([sys.executable, str(script), "--model", str(folder), "--port", "{port}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infinity", type=Path, help="its environment; without one only ours are measured")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=600, help="texts that are asked for, again and again")
    parser.add_argument("--only", choices=("throughput", "fairness"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = minilm()
    texts, sample = elsewhere(texts_and_sample, options.count)
    found: dict[str, Any] = {"texts": len(texts), "seconds": options.seconds, "rounds": options.rounds}
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "sample.txt"
        lines.write_text("\n".join(sample) + "\n", encoding="utf-8")
        if options.only != "fairness":
            made = {"infinity": infinity(folder, options.infinity.resolve())} if options.infinity else {}
            made |= {"clearhead": ours(folder), "clearhead int8": ours(folder, "--int8", str(lines))}
            with contextlib.ExitStack() as stack:
                servers = {name: stack.enter_context(server) for name, server in made.items()}
                found["cosines"] = compare(servers, texts[:64])
                found["throughput"] = throughput(servers, texts, options.seconds, options.rounds)
                found["memory_mb"] = {
                    name: {part: size >> 20 for part, size in server.memory().items()}
                    for name, server in servers.items()
                }
                print("memory, MB:", found["memory_mb"])
        if options.only != "throughput":
            with contextlib.ExitStack() as stack:
                made = {"queue": ours(folder), "lock": lock(folder)}
                servers = {name: stack.enter_context(server) for name, server in made.items()}
                found["fairness"] = fairness(servers, texts, options.seconds, options.rounds)
    report(found, options.json)


if __name__ == "__main__":
    main()
