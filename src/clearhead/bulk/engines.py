"""Who does the shards: processes of this machine, or actors of a Ray cluster. Both are asked and answer alike.

A worker is started, says that it is ready, is given one shard after another, and may be lost at any moment.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any, Literal, Protocol

from clearhead.bulk.job import Job, Unwritable
from clearhead.errors import BadInput, ClearheadError
from clearhead.io import PACKAGE, optional


@dataclass(frozen=True)
class Event:
    """What a worker says: it can be given a shard; so many more rows are done; a shard is done, or cannot be.

    "stop": nothing more can be done, by any worker. "lost": there is no such worker any more.
    """

    kind: Literal["ready", "rows", "done", "failed", "stop", "lost"]
    rows: int = 0
    errors: int = 0
    why: str = ""


class Engine(Protocol):
    """Workers, by their numbers."""

    def start(self, worker: int) -> None:
        """Begin a worker, in the place of one that was lost if there was one."""

    def give(self, worker: int, shard: int) -> None:
        """Let a worker that is ready, or done, do a shard."""

    def events(self, seconds: float) -> Iterator[tuple[int, Event]]:
        """What workers said, if need be after a while."""

    def stop(self) -> None:
        """End all workers at once."""


def begun(job: Job) -> Event:
    """Load what a worker needs."""
    try:
        _ = job.tool
    except ClearheadError as wrong:
        return Event("stop", why=str(wrong))
    return Event("ready")


def done(job: Job, shard: int, progress: Any = None) -> Event:
    """Do a shard; what is no error of ours is raised, and costs the worker."""
    try:
        rows, errors = job.do(shard, progress)
    except Unwritable as wrong:
        return Event("stop", why=str(wrong))
    except ClearheadError as wrong:
        return Event("failed", why=str(wrong))
    return Event("done", rows, errors)


# ---- processes of this machine ------------------------------------------------------------------------------------


class Local:
    """Processes that are told shards, and tell events, a line of JSON each; those whose driver has gone end."""

    command = (sys.executable, "-c", f"from {__name__} import main; main()")

    def __init__(self, job: Job) -> None:
        self._job = job
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._said: Queue[tuple[int, Event]] = Queue()

    def start(self, worker: int) -> None:
        """Begin a process; the model is loaded there."""
        # this very package, wherever it was imported from; and on a machine with several GPUs one of them
        path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
        environment = {"LOCAL_RANK": str(worker), "MALLOC_ARENA_MAX": "2", **os.environ, "PYTHONPATH": path}
        pipe = subprocess.PIPE
        process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True, env=environment)  # noqa: S603
        self._processes[worker] = process
        self._tell(process, self._job.to_json())
        Thread(target=self._listen, args=(worker, process), daemon=True).start()

    def give(self, worker: int, shard: int) -> None:
        """Tell the process the number of a shard."""
        self._tell(self._processes[worker], str(shard))

    def _tell(self, process: "subprocess.Popen[str]", line: str) -> None:
        assert process.stdin is not None  # noqa: S101
        with suppress(OSError):  # it has just ended, which is heard
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _listen(self, worker: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None  # noqa: S101
        with process.stdout:
            for line in process.stdout:
                self._said.put((worker, Event(**json.loads(line))))
        ended = process.wait()
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        by = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit code {ended}"
        self._said.put((worker, Event("lost", why=f"its worker ended with {by}")))

    def events(self, seconds: float) -> Iterator[tuple[int, Event]]:
        """What was said meanwhile."""
        with suppress(Empty):
            yield self._said.get(timeout=seconds)
            while True:
                yield self._said.get_nowait()

    def stop(self) -> None:
        """Kill what is left: whatever it was writing is not there yet."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()


def main() -> None:
    """Be a worker: the first line is the job, each other a shard; nothing more to read means that nobody asks."""
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything prints does not get between the lines
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal it goes to the driver too, which decides

    def say(event: Event) -> None:
        with suppress(OSError):
            said.write(json.dumps(asdict(event)) + "\n")
            said.flush()

    told: Queue[str] = Queue()

    def listen() -> None:
        for line in sys.stdin:
            told.put(line)
        os._exit(0)  # the driver has gone, or is content: nothing is half written under its name

    Thread(target=listen, daemon=True).start()
    job = Job.from_json(told.get())
    say(begun(job))
    while True:
        say(done(job, int(told.get()), lambda more: say(Event("rows", more))))


# ---- actors of a Ray cluster --------------------------------------------------------------------------------------


class Actor:
    """What Ray runs on some machine, where the files have the same names."""

    def __init__(self, job: str) -> None:
        self._job = Job.from_json(job)

    def begin(self) -> Event:
        """Load the model."""
        return begun(self._job)

    def do(self, shard: int) -> Event:
        """Do a shard."""
        return done(self._job, shard)


# Less than a core, so that as many actors as cores leave something for what Ray itself has to place: it hangs where
# actors take every CPU (ray#44687).
_CPUS = 0.9


class Ray:
    """Actors that hold the model; one that is lost is replaced by another, on any machine."""

    def __init__(self, job: Job) -> None:
        self._ray = optional("ray", "--on ray", "scale")
        self._own = not self._ray.is_initialized()
        if self._own:  # the cluster of RAY_ADDRESS, or that of this machine, or a new one
            self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self._job = job.to_json()
        threads, device = job.worker.get("threads", 1), job.worker.get("device", "auto")
        there = self._ray.cluster_resources()
        # "auto" is a GPU where the cluster has one for each worker
        self._gpus = 1 if device.startswith("cuda") or (device == "auto" and there.get("GPU", 0) >= 1) else 0
        self._cpus = _CPUS * threads
        self.room = int(there.get("GPU", 0)) if self._gpus else int(there.get("CPU", 1) // threads)
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}

    def start(self, worker: int) -> None:
        """Begin an actor."""
        made = self._ray.remote(Actor).options(num_cpus=self._cpus, num_gpus=self._gpus, max_restarts=0)
        self._actors[worker] = made.remote(self._job)
        self._asked[self._actors[worker].begin.remote()] = worker

    def give(self, worker: int, shard: int) -> None:
        """Ask the actor for a shard."""
        self._asked[self._actors[worker].do.remote(shard)] = worker

    def events(self, seconds: float) -> Iterator[tuple[int, Event]]:
        """What actors answered."""
        ready, _ = self._ray.wait(list(self._asked), timeout=seconds)
        for one in ready:
            worker = self._asked.pop(one)
            try:
                yield worker, self._ray.get(one)
            except self._ray.exceptions.RayError as wrong:
                with suppress(Exception):  # it may be there still, as one whose GPU went wrong
                    self._ray.kill(self._actors[worker])
                # of what it raised itself the last line says what it was; of its end, the first
                lines = str(wrong).strip().splitlines() or [type(wrong).__name__]
                raised = isinstance(wrong, self._ray.exceptions.RayTaskError)
                yield worker, Event("lost", why=lines[-1 if raised else 0])

    def stop(self) -> None:
        """End the actors, and leave the cluster if it was entered here."""
        for actor in self._actors.values():
            with suppress(Exception):
                self._ray.kill(actor)
        if self._own:
            self._ray.shutdown()


def make_engine(on: str, job: Job) -> tuple[Engine, int]:
    """The engine of a name, and how many workers it has room for."""
    if on == "ray":
        ray = Ray(job)
        return ray, max(ray.room, 1)
    if on != "local":
        raise BadInput(f"--on {on} is not known; choose local, ray or torchrun")
    return Local(job), max(_local_room(job), 1)


def _local_room(job: Job) -> int:
    """As many workers as GPUs, where these are meant; else as many as cores, each with its threads."""
    device = job.worker.get("device", "auto")
    if device.startswith("cuda") or (device == "auto" and os.path.exists("/dev/nvidiactl")):  # noqa: PTH110
        import torch

        if torch.cuda.is_available():
            return torch.cuda.device_count()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores // int(job.worker.get("threads", 1))
