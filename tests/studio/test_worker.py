"""The studio computes in a process of its own: slow, lost or not wanted any more, it holds up nobody else."""

import asyncio
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
import uvicorn
from starlette.testclient import TestClient

from clearhead.errors import BadInput, NotFound
from clearhead.studio.app import Studio, create_app
from clearhead.studio.worker import Ask, StudioProcess, StudioProcesses, TooLong, Unavailable
from studio.in_process import InProcess

HAS_PROC = Path("/proc/self/task").is_dir()
TEXT = {"text": "the animal was tired"}


class Running:
    """A studio in a thread, with its worker in a process."""

    def __init__(self, folders: list[str], runs: list[Path]) -> None:
        self.folders, self.runs = folders, runs
        self.asked: list[str] = []  # what reached the worker
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.thread.start()
        self.started.wait()

    async def _serve(self) -> None:
        self.worker = StudioProcess(self.folders, self.runs)
        say = self.worker.say

        def noted(message) -> None:
            text = json.loads(message.given).get("text") if isinstance(message, Ask) else None
            self.asked.append(text)
            self.worker._deadline = 1.0 if text == "slow" else 600.0  # however busy the machine is
            say(message)

        self.worker.say = noted
        app = create_app(self.folders, self.runs, backend=self.worker)
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        while not self.worker.ready:
            await asyncio.sleep(0.01)
        self.started.set()
        await serving

    def get(self, path: str, **values: str) -> tuple[int, bytes]:
        address = f"http://127.0.0.1:{self.port}{path}?{urlencode(values)}"
        try:
            with urllib.request.urlopen(address) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def later(self, path: str, **values: str) -> tuple[threading.Thread, list[tuple[int, bytes]]]:
        """Ask in a thread, since the answer is long in coming."""
        found: list[tuple[int, bytes]] = []
        thread = threading.Thread(target=lambda: found.append(self.get(path, **values)))
        thread.start()
        return thread, found

    def send(self, path: str, **values: str) -> socket.socket:
        """Ask, as a page that may be closed."""
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.sendall(f"GET {path}?{urlencode(values)} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        return sock

    def stop_computing(self) -> int:
        """Let the worker compute nothing any more, as if it took for ever."""
        assert self.get("/api/model")[0] == 200  # what it does at its start is done
        pid = self.worker.pid
        os.kill(pid, signal.SIGSTOP)
        return pid


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


@contextmanager
def running(folders: list[str], runs: list[Path]) -> Iterator[Running]:
    studio = Running(folders, runs)
    try:
        yield studio
    finally:
        studio.server.should_exit = True
        studio.thread.join()


@pytest.fixture(scope="module")
def patient(folders, run_folder):
    with running(folders[:2], [run_folder]) as studio:
        yield studio


def test_it_answers_as_the_registry_does(patient, folders, run_folder):
    here = InProcess(folders[:2], [run_folder])
    asked = [
        ("about", "", {}),
        ("about", "/use/fill", {"model": "answers"}),
        ("data", "/look/by-hand", {}),
        ("data", "/look/input", TEXT),
        ("data", "/look/runs", {}),
        ("html", "/look/attention", TEXT),
    ]
    for wanted, path, given in asked:
        twin = "/api/model" if wanted == "about" else f"/api{path}" if wanted == "data" else f"/picture{path[5:]}"
        values = {**given, "page": path} if wanted == "about" else given
        assert patient.get(twin, **values) == (200, asyncio.run(here.ask(wanted, path, given))), path


@pytest.mark.parametrize(
    ("path", "values", "error", "status"),
    [
        ("/look/attention", {"text": "a", "model": "none"}, NotFound, 404),
        ("/look/attention", {}, BadInput, 400),
        ("/look/layers", {"text": "animal " * 200}, BadInput, 400),
    ],
)
def test_what_is_wrong_is_the_same_sentence(patient, folders, run_folder, path, values, error, status):
    here = InProcess(folders[:2], [run_folder])
    with pytest.raises(error) as refused:
        asyncio.run(here.ask("data", path, values))
    found, body = patient.get(f"/api{path}", **values)
    shorter = {"shorter": refused.value.shorter} if isinstance(refused.value, TooLong) else {}
    assert (found, json.loads(body)) == (status, {"error": str(refused.value), **shorter})


def test_a_body_may_hold_any_json(patient):
    for value in (2**80, "\ud800", [[[]]], {"a": None}, 1e300, True):
        body = json.dumps({"text": "a [MASK]", "top": value}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{patient.port}/api/use/fill", body, {"content-type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 400
        refused.value.close()


def test_a_slow_page_holds_up_nothing_else(patient):
    pid = patient.stop_computing()
    slow, found = patient.later("/api/look/input", text="long")
    until(lambda: "long" in patient.asked)
    for path in ("/", "/api/studio", "/static/main.js", "/look/why"):
        assert patient.get(path)[0] == 200
    assert not found
    os.kill(pid, signal.SIGCONT)
    slow.join()
    assert found[0][0] == 200


def test_a_page_ends_at_the_deadline_and_what_waits_behind_it_is_computed(patient):
    stopped = patient.stop_computing()
    slow, first = patient.later("/picture/attention", text="slow")
    until(lambda: "slow" in patient.asked)
    behind, second = patient.later("/api/look/attention", **TEXT)
    slow.join()
    behind.join()
    assert first[0][0] == 504
    assert b"this took more than 1 s and was ended; give a shorter text" in first[0][1]
    assert second[0][0] == 200  # by the next worker
    assert patient.worker.pid != stopped


@pytest.mark.skipif(not HAS_PROC, reason="the worker is found by Linux's /proc")
def test_the_next_worker_stands_by(patient):
    assert patient.get("/api/look/input", **TEXT)[0] == 200
    until(lambda: patient.worker._spare is not None and patient.worker._spare.done())
    spare = patient.worker._spare.result().pid
    os.kill(patient.worker.pid, signal.SIGKILL)
    assert patient.get("/api/look/input", **TEXT)[0] in (200, 503)  # 503 if it was sent to the one that died
    until(lambda: patient.worker.pid == spare)
    assert patient.get("/api/look/input", **TEXT)[0] == 200
    os.kill(patient.worker._spare.result().pid, signal.SIGKILL)  # one that dies unused is found out and replaced
    os.kill(spare, signal.SIGKILL)
    until(lambda: patient.get("/api/look/input", **TEXT)[0] == 200)


def test_a_closed_page_ends_its_work(patient):
    stopped = patient.stop_computing()
    computed, waiting = patient.send("/api/look/input", text="closed"), patient.send("/api/look/input", text="waiting")
    until(lambda: "closed" in patient.asked and len(patient.worker._jobs) == 2)
    behind, found = patient.later("/api/look/input", text="behind")
    until(lambda: len(patient.worker._jobs) == 3)
    waiting.close()
    computed.close()
    behind.join()
    assert found[0][0] == 200
    assert patient.worker.pid != stopped
    assert "behind" in patient.asked
    assert "waiting" not in patient.asked


def test_a_closed_page_ends_nothing_that_is_soon_done(patient, monkeypatch):
    monkeypatch.setattr("clearhead.studio.worker._SHORT", 60.0)
    pid = patient.stop_computing()
    page = patient.send("/api/look/input", text="soon")
    until(lambda: "soon" in patient.asked)
    page.close()
    os.kill(pid, signal.SIGCONT)
    assert patient.get("/api/look/input", text="after")[0] == 200
    assert patient.worker.pid == pid


def test_a_lost_worker_is_told_and_replaced(patient):
    lost = patient.stop_computing()
    asking, found = patient.later("/picture/input", text="lost")
    until(lambda: "lost" in patient.asked)
    os.kill(lost, signal.SIGKILL)
    asking.join()
    assert found[0][0] == 503
    assert b"was lost at this" in found[0][1]
    assert patient.get("/picture/input", text="lost")[0] == 200


def test_a_fault_of_our_own_is_told_without_details(folders):
    class Faulty(InProcess):
        async def ask(self, wanted, path, given):
            raise ZeroDivisionError

    app: Studio = create_app(folders[:1], backend=Faulty(folders[:1], []))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    assert client.get("/api/look/by-hand").status_code == 500


def test_what_does_not_run_says_so(folders):
    async def live() -> None:
        worker = StudioProcess(folders[:1], [])
        with pytest.raises(Unavailable, match="the studio is not running"):
            await worker.ask("about", "", {})
        await worker.start()
        waiting = asyncio.create_task(worker.ask("about", "", {}))
        await asyncio.sleep(0)
        await worker.stop()
        with pytest.raises(Unavailable, match="the studio is ending"):
            await waiting
        with pytest.raises(Unavailable, match="the studio is not running"):
            await worker.ask("about", "", {})

    asyncio.run(live())


def test_what_is_quick_does_not_wait_for_what_is_slow(folders):
    async def live() -> None:
        workers = StudioProcesses(folders[:1], [], deadline=600.0)
        with pytest.raises(Unavailable, match="the studio is not running"):
            await workers.ask("about", "", {})
        await workers.start()
        await workers.ask("about", "", {})
        stopped = workers._workers[0].pid
        os.kill(stopped, signal.SIGSTOP)
        slow = asyncio.create_task(workers.ask("data", "/look/input", TEXT))
        await asyncio.sleep(0)
        found = [await workers.ask("data", "/look/input", TEXT) for _ in range(2)]
        assert not slow.done()
        os.kill(stopped, signal.SIGCONT)
        assert found == [await slow] * 2
        assert [one.waiting for one in workers._workers] == [0, 0]
        ended = [one.pid for one in workers._workers]
        await workers.stop()
        assert not any(map(alive, ended))
        with pytest.raises(Unavailable, match="the studio is not running"):
            await workers.ask("about", "", {})

    asyncio.run(live())


# ---- the command --------------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def command(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`clearhead studio` in a process, and its port."""
    line = [sys.executable, "-u", "-m", "clearhead", "studio", "--no-browser", "--port", "0", *options]
    # what a shell starts behind itself ignores Ctrl-C, and so would its children
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        found = re.search(r"http://127.0.0.1:(\d+)/", process.stdout.readline())
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not HAS_PROC, reason="the worker is found by Linux's /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_signal_ends_it_whatever_it_computes(folders, number):
    with command("--model", folders[0]) as (process, port):
        address = f"http://127.0.0.1:{port}/api/model"
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200
        until(lambda: len(children(process.pid)) == 2)  # the one that computes, and the one that would be next
        worker, spare = children(process.pid)
        if number == signal.SIGINT:
            os.kill(worker, signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"GET /api/look/by-hand HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(0.2)  # it is on its way to the worker, or nearly
            process.send_signal(number)
            code = process.wait()
        if number == signal.SIGINT:
            assert code == 130
            assert "Traceback" not in process.stderr.read()
            assert not Path(f"/proc/{worker}").exists()
            assert not Path(f"/proc/{spare}").exists()
        else:  # a worker whose parent has gone ends by itself
            until(lambda: not alive(worker) and not alive(spare))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
