"""Fuzz a running `clearhead serve`: python tests/fuzz/serve.py --requests 1000000 --minutes 60.

What is sent are the examples of its own OpenAPI document with changes to their JSON or their bytes, JSON of great depth
and size, requests that are no HTTP or nearly, clients that say half and go, that hear only half, or that are slow. Most
ask small untrained models that are served beside the built-in ones, so that the time goes into reading, not computing.

Case number i is the same in every run with the same seed. An answer of 500, 501 or 502, no answer in --hung seconds, an
end of the worker, a good request that is not answered at the end, and memory that grows are failures, exit code 1; the
request is kept in the folder of finds. With --schemathesis FOLDER, an environment that has schemathesis, that tries the
same server too, before and by its own rules:

    python3.11 -m venv ../schemathesis && ../schemathesis/bin/pip install schemathesis

All goes to 127.0.0.1, and ends by count or by time, whichever is first.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from fuzz import mutate  # noqa: E402
from serve_load import HOST, Connection, Lost, Server, clearhead_server, elsewhere, get, read_reply, run  # noqa: E402

SMALL = "small"
BAD = {500, 501, 502}
GROWTH = 0.10  # of what a process held after a tenth of the requests
ENOUGH = 50_000  # requests, before which models are still being loaded and growth says nothing
ROUTES = ("GET /health", "GET /ready", "GET /metrics", "GET /v1/models", "GET /openapi.json", "GET /docs", "GET /info")
METHODS = ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "post", "POST\x00", "", "A" * 300)
PATHS = ("/", "*", "//", "/v1", "/v1/", "/v1/nothing", "/../etc/passwd", "/%00", "/%ff%fe", "/v1/models/%2e%2e%2f", "")
HEADERS = (
    "content-length: -1", "content-length: 99999999999999999999", "content-length: 1e3", "content-length: 5, 6",
    "content-length: 0", "transfer-encoding: chunked", "transfer-encoding: gzip", "content-encoding: gzip",
    "content-type: text/plain", "content-type: application/x-www-form-urlencoded", "content-type:", "host: example.com",
    "host:", "host: 127.0.0.1:99999", "expect: 100-continue", "connection: close", "connection: upgrade",
    "upgrade: websocket", "upgrade: h2c", "authorization: Bearer x", "authorization: Basic :", "x-timeout-ms: 0",
    "x-timeout-ms: -1", "x-timeout-ms: nan", "x-timeout-ms: 1e400", "x-timeout-ms: 9" + "9" * 400, "x-timeout-ms: 1",
    "origin: http://example.com", "accept: text/event-stream", "range: bytes=0-1", "x: \x00", "x: " + "a" * 70_000,
    "\x80\xff: x", "no colon", " folded: x", "a" * 9000 + ": x",
)  # fmt: skip


def small_models(folder: Path) -> None:
    """Write a small model with skills, and a small GPT, into a folder; it needs torch: run it elsewhere."""
    import clearhead as ch
    from built_in import write_built_in, write_gpt

    texts = [
        "The animal didn't cross the street.",
        "Be alert! BERT will hurt!",
        "If you don't want a virus, wear a mask.",
    ]
    words = ch.train_tokenizer(texts=texts, vocabulary=200, min_frequency=1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = ch.ModernBertConfig(
        vocab_size=words.vocabulary,
        **sizes,
        max_position_embeddings=128,
        global_attn_every_n_layers=1,
        pad_token_id=words.pad_id,
    )
    write_built_in(folder / SMALL, config, words)
    write_gpt(folder / "gpt")


def examples(document: dict[str, Any]) -> list[tuple[str, Any]]:
    """The path and the body of every example of an OpenAPI document, most of which ask the small model."""
    found: list[tuple[str, Any]] = []
    for template, methods in document["paths"].items():
        for method, said in methods.items():
            content = (
                said.get("requestBody", {}).get("content", {}).get("application/json", {}) if method == "post" else {}
            )
            bodies = [one["value"] for one in content.get("examples", {}).values() if "value" in one]
            bodies += [content["example"]] if "example" in content else []
            for body in bodies:
                found.append((_path(template, body, "built-in"), body))
                small = json.loads(json.dumps(body).replace("built-in", SMALL))
                if "model" in json.dumps(document["paths"][template]) and isinstance(small, dict):
                    small = {**small, **({} if "{" in template else {"model": _model(template, small)})}
                found += [(_path(template, body, SMALL), small)] * 4
    if not found:
        raise SystemExit("the OpenAPI document has no examples of bodies to change")
    return found


def _model(template: str, body: dict[str, Any]) -> str:
    writes = "generate" in template or "completions" in template
    return "gpt" if writes else str(body.get("model") or SMALL) if SMALL in str(body.get("model")) else SMALL


def _path(template: str, body: Any, model: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: model if match[1] == "model" else _task(body), template)


def _task(body: Any) -> str:
    return "fill-mask" if "[MASK]" in json.dumps(body) else "text-classification"


class Cases:
    """Draws case number i; each is how a client behaves and the bytes that it sends."""

    def __init__(self, seed: int, port: int, good: list[tuple[str, Any]]) -> None:
        self.seed, self.port, self.good = seed, port, good
        self.shares: dict[Callable[[random.Random], tuple[str, bytes]], float] = {
            self._changed: 76,
            self._raw_body: 8,
            self._deep: 1,
            self._strange_head: 6,
            self._raw_http: 4,
            self._noise: 1,
            self._gone: 2,
            self._half_closed: 1.5,
            self._pipelined: 0.5,
            self._slow: 0.002,
        }

    def draw(self, number: int) -> tuple[str, bytes]:
        """How it is sent, "kept", "ended", "gone" or "slow", and what."""
        rng = random.Random(f"{self.seed}/{number}")
        kind = rng.choices(list(self.shares), list(self.shares.values()))[0]
        return kind(rng)

    def _post(self, path: str, body: bytes, head: str = "") -> bytes:
        lines = f"POST {path} HTTP/1.1\r\nhost: {HOST}:{self.port}\r\ncontent-type: application/json\r\n"
        return f"{lines}content-length: {len(body)}\r\n{head}\r\n".encode("latin-1", "replace") + body

    def _changed(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        changed = mutate.value(rng, body) if rng.random() < 0.95 else body
        if rng.random() < 0.2:
            changed = _with_text(rng, changed)
        written = json.dumps(changed, ensure_ascii=rng.random() < 0.9).encode("utf-8", "surrogatepass")
        return "kept", self._post(path, written)

    def _raw_body(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        return "kept", self._post(path, mutate.raw(rng, json.dumps(body).encode()))

    def _deep(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        deep = rng.choice((50, 500, 5_000, 100_000))
        inner = rng.choice(('"a"', "1", "", "1" * 5_000, "-" + "9" * 400, "1e" + "9" * 20, "NaN"))
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
        nested = opening * deep + inner + closing * rng.choice((deep, deep, deep - 1, 0))
        name = next(iter(body), "text") if isinstance(body, dict) else "text"
        return "kept", self._post(path, f'{{"{name}":{nested}}}'.encode() if rng.random() < 0.8 else nested.encode())

    def _strange_head(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        written = json.dumps(body).encode()
        method = rng.choice(("POST", "POST", rng.choice(METHODS)))
        path = rng.choice((path, path, rng.choice(PATHS), rng.choice(ROUTES).split()[1], path + "?" + "a=b&" * 200))
        version = rng.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "", "ICY"))
        lines = [f"host: {HOST}:{self.port}", "content-type: application/json", f"content-length: {len(written)}"]
        for _ in range(rng.randrange(1, 4)):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(HEADERS))
        if rng.random() < 0.3:
            del lines[rng.randrange(len(lines))]
        head = "\r\n".join([f"{method} {path} {version}", *lines])
        return "ended", head.encode("latin-1", "replace") + b"\r\n\r\n" + written

    def _raw_http(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        return "ended", mutate.raw(rng, self._post(path, json.dumps(body).encode()))

    def _noise(self, rng: random.Random) -> tuple[str, bytes]:
        return "ended", rng.randbytes(rng.choice((1, 20, 400, 8_000)))

    def _gone(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        whole = self._post(path, json.dumps(body).encode())
        return "gone", whole[: rng.choice((len(whole), rng.randrange(len(whole)), len(whole) - 1))]

    def _half_closed(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        whole = self._post(path, json.dumps(body).encode())
        return "ended", whole[: rng.choice((len(whole), len(whole), rng.randrange(len(whole))))]

    def _pipelined(self, rng: random.Random) -> tuple[str, bytes]:
        several = [self._post(path, json.dumps(body).encode()) for path, body in rng.choices(self.good, k=3)]
        return "ended", b"".join(several)

    def _slow(self, rng: random.Random) -> tuple[str, bytes]:
        path, body = rng.choice(self.good)
        return "slow", self._post(path, json.dumps(body).encode())


def _with_text(rng: random.Random, content: Any) -> Any:
    """Some string of a body in other words: every script, and what is no character."""
    if isinstance(content, dict) and content:
        key = rng.choice(list(content))
        return {**content, key: _with_text(rng, content[key])}
    if isinstance(content, list) and content:
        place = rng.randrange(len(content))
        return [*content[:place], _with_text(rng, content[place]), *content[place + 1 :]]
    return mutate.text(rng) if isinstance(content, str) else content


class Fuzz:
    """Clients that send cases, and what came of them."""

    def __init__(self, server: Server, cases: Cases, options: argparse.Namespace) -> None:
        self.server, self.cases, self.options = server, cases, options
        self.statuses: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.next = self.finished = 0
        self.until = time.monotonic() + 60 * options.minutes
        self.memory: list[dict[str, int]] = []
        self.slow = asyncio.Semaphore(32)
        self.left: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        clients = [asyncio.create_task(self._client()) for _ in range(self.options.clients)]
        step = max(1, self.options.requests // 20)
        shown = -1
        while not all(client.done() for client in clients):
            if self.finished // step > shown:
                shown = self.finished // step
                self.memory.append({"requests": self.finished, **self.server.memory()})
                sizes = {part: f"{self.memory[-1][part] >> 20} MB" for part in ("front", "worker")}
                sys.stderr.write(f"{self.finished} requests, {sizes}, {dict(self.statuses.most_common(8))}\n")
            await asyncio.sleep(0.5)
        await asyncio.gather(*clients)
        if self.left:
            await asyncio.wait(self.left, timeout=self.options.hung)
        await asyncio.sleep(5)
        self.memory.append({"requests": self.finished, **self.server.memory()})

    async def _client(self) -> None:
        connection = Connection(self.server.port)
        while self.next < self.options.requests and time.monotonic() < self.until:
            number = self.next
            self.next += 1
            how, sent = self.cases.draw(number)
            self.kinds[how] += 1
            if how == "slow":  # beside the others, since it takes its time
                task = asyncio.create_task(self._tried(number, sent, self._slowly(sent)))
                self.left.add(task)
                task.add_done_callback(self.left.discard)
                continue
            asking = {"kept": self._kept, "ended": self._ended, "gone": self._left}[how](connection, sent)
            await self._tried(number, sent, asking)
        connection.close()

    async def _tried(self, number: int, sent: bytes, asking: Any) -> None:
        try:
            status = await asyncio.wait_for(asking, self.options.hung)
        except TimeoutError:
            self._keep("hung", number, sent)
            status = "hung"
        except (Lost, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            status = "closed"
        self.statuses[status] += 1
        self.finished += 1
        if status.isdigit() and int(status) in BAD:
            self._keep(status, number, sent)

    async def _kept(self, connection: Connection, sent: bytes) -> str:
        return str((await connection.send(sent)).status)

    async def _ended(self, connection: Connection, sent: bytes) -> str:
        """Say all, then that there is no more; the server may answer, or close."""
        reader, writer = await asyncio.open_connection(HOST, self.server.port, limit=1 << 22)
        try:
            writer.write(sent)
            await writer.drain()
            writer.write_eof()
            status = str((await read_reply(reader)).status)
            await reader.read()  # what else it says, until it closes
            return status
        finally:
            writer.close()

    async def _left(self, connection: Connection, sent: bytes) -> str:
        """Say something and go, at once or a little later, without hearing."""
        _, writer = await asyncio.open_connection(HOST, self.server.port)
        writer.write(sent)
        with contextlib.suppress(OSError):
            await writer.drain()
        await asyncio.sleep(0 if len(sent) % 2 else 0.003)
        writer.transport.abort()
        return "gone"

    async def _slowly(self, sent: bytes) -> str:
        """Say the body in drops, and stop before its end: the server must give up waiting."""
        async with self.slow:
            reader, writer = await asyncio.open_connection(HOST, self.server.port)
            head, _, body = sent.partition(b"\r\n\r\n")
            try:
                writer.write(head + b"\r\n\r\n")
                for place in range(min(5, len(body) - 1)):
                    writer.write(body[place : place + 1])
                    await writer.drain()
                    await asyncio.sleep(0.1)
                return str((await read_reply(reader)).status)
            finally:
                writer.close()

    def _keep(self, what: str, number: int, sent: bytes) -> None:
        self.failures[what] += 1
        if self.failures[what] <= 20:
            finds = Path(self.options.finds)
            finds.mkdir(parents=True, exist_ok=True)
            (finds / f"serve-{what}-{self.options.seed}-{number}.http").write_bytes(sent)
            sys.stderr.write(f"{what}: case {number}, {sent[:160]!r}\n")

    def growth(self) -> dict[str, float]:
        """By what share each process has grown since a tenth of the requests."""
        warm = next((row for row in self.memory if row["requests"] >= self.options.requests / 10), self.memory[-1])
        return {part: round(self.memory[-1][part] / max(1, warm[part]) - 1, 4) for part in ("front", "worker")}


def still_well(server: Server, good: list[tuple[str, Any]]) -> list[str]:
    """What does not work any more: the service's own routes, and a good request."""
    try:
        failed = [route for route in ROUTES if get(server.port, route.split()[1], 60)[0] >= 500]
    except OSError as error:
        return [f"the service is not there any more: {error}"]

    async def ask() -> int:
        return (
            await asyncio.wait_for(Connection(server.port).post("/v1/embed", b'{"text": "still well"}'), 120)
        ).status

    status = run(ask())
    return failed + ([] if status == 200 else [f"/v1/embed answers {status}"])


def schemathesis(server: Server, environment: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Let schemathesis try the same server: no server errors, as many examples as fit the time."""
    command = [str(environment.resolve() / "bin" / "schemathesis"), "run", f"{server.url}/openapi.json"]
    options = f"--seed {seed} --max-time {int(seconds)} --max-examples 1000 --request-timeout 60 --no-color"
    command += [*options.split(), "--checks", "not_a_server_error", "--continue-on-failure"]
    # a deadline of a millisecond is rightly answered with 504, which counts as a server's error there
    command += ["--generation-database", "none", "--header", "x-timeout-ms: 60000"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, cwd=tempfile.gettempdir())
    except subprocess.TimeoutExpired as ended:
        return {"exit": None, "said": (ended.stdout or b"")[-2000:].decode(errors="replace")}
    return {"exit": done.returncode, "said": (done.stdout + done.stderr)[-20_000:]}


def main() -> int:
    """Start a server, fuzz it, print the counts as JSON; exit 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hung", type=float, default=90, help="seconds without an answer")
    parser.add_argument("--finds", default="fuzz-finds")
    parser.add_argument("--schemathesis", type=Path, help="an environment with it; it gets a third of the minutes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        elsewhere(small_models, folder)
        served = ["--model", f"{SMALL}={folder / SMALL}", "--model", f"gpt={folder / 'gpt'}"]
        with clearhead_server("--preload", *served) as server:
            good = examples(json.loads(get(server.port, "/openapi.json")[1]))
            found: dict[str, Any] = {
                "seed": options.seed,
                "examples": len(good),
                "paths": len({one for one, _ in good}),
            }
            worker = server.worker()
            if options.schemathesis:
                found["schemathesis"] = schemathesis(server, options.schemathesis, 20 * options.minutes, options.seed)
            fuzz = Fuzz(server, Cases(options.seed, server.port, good), options)
            began = time.monotonic()
            run(fuzz.run())
            found |= {
                "requests": fuzz.finished,
                "per_s": round(fuzz.finished / (time.monotonic() - began)),
                "statuses": dict(fuzz.statuses.most_common()),
                "kinds": dict(fuzz.kinds),
                "failures": dict(fuzz.failures),
                "worker_lost": server.worker() != worker,
                "not_well": still_well(server, good),
                "memory_mb": [
                    {name: n if name == "requests" else n >> 20 for name, n in row.items()} for row in fuzz.memory
                ],
                "growth": fuzz.growth(),
            }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    grown = found["requests"] >= ENOUGH and any(share > GROWTH for share in found["growth"].values())
    beside = options.schemathesis and found["schemathesis"]["exit"] not in (0, None)
    return 1 if found["failures"] or found["worker_lost"] or found["not_well"] or grown or beside else 0


if __name__ == "__main__":
    sys.exit(main())
