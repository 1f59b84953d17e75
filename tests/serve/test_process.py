"""The service as a process: it starts, loses its worker and gets another, exchanges a model, drains and ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
import uvicorn
from starlette.types import ASGIApp

import clearhead as ch
from clearhead.serve.app import create_app
from clearhead.serve.settings import Settings
from serve.in_process import InProcess

COMMAND = [sys.executable, "-m", "clearhead", "serve", "--port", "0"]


class Running:
    """A service in a process of its own."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"the service is at (http\S+),", line):
                self.url = found[1]
                break
        self.reading = threading.Thread(target=self.lines.extend, args=(self.process.stderr,))
        self.reading.start()

    def ask(self, path: str, body: object | None = None) -> tuple[int, dict]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    @property
    def worker(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def until(self, condition) -> None:
        while not condition():
            assert self.process.poll() is None, "".join(self.lines)
            time.sleep(0.05)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


@contextmanager
def running(*options: str) -> Iterator[Running]:
    service = Running(*options)
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait()
        service.reading.join()
        service.process.stderr.close()


def save(folder: Path, seed: int, *, overwrite: bool = False) -> ch.Model:
    torch.manual_seed(seed)
    tokenizer = ch.train_tokenizer(texts=["the animal was tired and sat on the bank"], vocabulary=60, min_frequency=1)
    config = ch.BertConfig(
        vocab_size=tokenizer.vocabulary, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    model = ch.Model.create(config, tokenizer, heads={"masked_lm": tokenizer.vocabulary})
    model.save(folder, overwrite=overwrite)
    return model


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the worker is found by Linux's /proc")
def test_a_life(tmp_path):
    """One service for all of it, since a start takes seconds."""
    folder = tmp_path / "small"
    first = save(folder, 0)
    with running("--model", f"small={folder}", "--reload-model", "--log-format", "json") as service:
        assert service.ask("/health") == (200, {"status": "ok"})
        assert service.ask("/ready") == (200, {"status": "ready"})
        status, found = service.ask("/v1/embed", {"text": "the animal"})
        assert status == 200
        assert found["vector"] == pytest.approx(first.embed("the animal").tolist(), abs=1e-5)

        # a lost worker is replaced, and who waited for it is answered
        answers: list[int] = []
        asking = threading.Event()

        def ask_on() -> None:
            while not asking.is_set():
                answers.append(service.ask("/v1/embed", {"text": ["the animal was tired " * 20] * 20})[0])

        threads = [threading.Thread(target=ask_on) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            before = len(answers)
            service.until(lambda before=before: len(answers) > before + 20)
            lost = service.worker
            os.kill(lost, signal.SIGKILL)
            service.until(lambda: service.ask("/health")[0] == 200 and service.ask("/ready")[0] == 200)
            assert service.worker != lost
        asking.set()
        for thread in threads:
            thread.join()
        assert set(answers) <= {200, 503}, set(answers)
        assert 200 in answers
        with urllib.request.urlopen(f"{service.url}/metrics") as metrics:
            assert b"clearhead_worker_restarts_total 2.0" in metrics.read()

        # a model is exchanged while requests are answered
        second = save(folder, 1, overwrite=True)
        wanted = pytest.approx(second.embed("the animal").tolist(), abs=1e-5)

        def exchanged() -> bool:
            status, found = service.ask("/v1/embed", {"text": "the animal"})
            assert status == 200
            return found["vector"] == wanted

        service.until(exchanged)

        # told to end, it answers what it has, takes nothing more, and goes with 0
        ended: list[int] = []

        def ask_to_the_end() -> None:
            with suppress(OSError):  # when nobody listens any more
                while True:
                    ended.append(service.ask("/v1/embed", {"text": ["the animal was tired " * 20] * 20})[0])

        threads = [threading.Thread(target=ask_to_the_end) for _ in range(4)]
        for thread in threads:
            thread.start()
        service.until(lambda: len(ended) > 20)
        worker = service.worker
        assert service.end() == 0
        for thread in threads:
            thread.join()
        assert set(ended) <= {200, 503}, set(ended)
        assert not Path(f"/proc/{worker}").exists()
        assert any("draining" in line for line in service.lines)


REFUSED = [
    (["--host", "0.0.0.0"], "there is no API key; give --api-key-file"),
    (["--model", "nothing"], "is not written as NAME=FOLDER"),
    (["--model", "a=./nowhere"], "the folder ./nowhere is not there"),
    (["--index", "a=./nowhere"], "holds no index"),
    (["--api-key", "short"], "fewer than 8 characters"),
    (["--studio", "--api-key", "a key of some length"], "sends no API key; leave out --studio"),
    (["--tls-cert", "a.pem"], "give both --tls-cert and --tls-key"),
    (["--max-memory", "much"], "is no size"),
    (["--log-format", "xml"], "is text or json"),
    (["--timeout", "0"], "must be more than 0"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_a_service_that_cannot_start_says_why(options, said):
    run = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
    assert run.returncode == 2
    lines = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, run.stderr
    assert said in lines[0]


def test_a_taken_port_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*COMMAND[:-1], str(taken.getsockname()[1])]
        run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert "cannot be used" in run.stderr


def test_the_process_that_speaks_http_never_imports_torch():
    script = "import sys, clearhead.serve.run, clearhead.cli.serve; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


# ---- sockets, against a server in a thread ------------------------------------------------------------------------


@contextmanager
def in_thread(app: ASGIApp) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def request(port: int, body: bytes, length: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    head = f"POST /v1/fill HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
    sock.sendall(head.encode() + body)
    return sock


def test_a_slow_body_is_given_up(built_in):
    settings = Settings(body_timeout=0.2)
    with in_thread(create_app(settings, InProcess(settings))) as port, request(port, b'{"text"', 100) as sock:
        assert sock.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_who_has_gone_is_not_computed_for(built_in):
    settings = Settings()
    backend = InProcess(settings)
    with in_thread(create_app(settings, backend)) as port:
        body = json.dumps({"text": ["the animal [MASK] tired " * 50] * 200}).encode()
        sock = request(port, body, len(body))
        while not backend.engine.tokens:
            time.sleep(0.001)
        sock.close()
        while backend.engine.tokens:
            time.sleep(0.01)
        sock = request(port, b'{"text": "a [MASK]"}', 20)
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
        sock.close()
