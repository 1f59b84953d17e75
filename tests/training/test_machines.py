"""Two machines, each a torchrun of its own on this one: whatever is killed comes back, and the run ends the same."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clearhead.training.checkpoint import checkpoints, step_of
from training.test_commands_together import SETTINGS, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="ranks are found in /proc"),
]
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "training" / "machine.sh"
STEPS = 200
EVERY = 10  # steps between checkpoints
OPTIONS = {**SETTINGS, "train.accumulate": 2, "train.every.save": EVERY}


class Machines:
    """Two of them, that train one model."""

    def __init__(self, folder: Path, corpus: Path, *more: str) -> None:
        self.out, self.log = folder / "model", folder / "log"
        folder.mkdir(exist_ok=True)
        options = [part for name, value in OPTIONS.items() for part in ("--set", f"{name}={value}")]
        place = ["--out", str(self.out), "--device", "cpu", "--json", *options, *more]
        command = ["pretrain", "--corpus", str(corpus), "--preset", "tiny", "--steps", str(STEPS), "--vocabulary", "60"]
        self.command = [*command, *place]
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            **{"RENDEZVOUS": f"127.0.0.1:{free_port()}", "MACHINES": "2", "RANKS": "1", "PAUSE": "0"},
        }
        with self.log.open("wb") as log:
            self.scripts = [
                subprocess.Popen([SCRIPT, *self.command], env=self.environment, stdout=log, stderr=log)
                for _ in range(2)
            ]

    def at_step(self, step: int) -> None:
        """Wait until a checkpoint of this step or a later one is there."""
        while not any(step_of(path) >= step for path in checkpoints(self.out / "run")):
            assert all(script.poll() is None for script in self.scripts), self.log.read_text()
            time.sleep(0.05)

    def agents(self) -> list[int]:
        return [child for script in self.scripts for child in children(script.pid)]

    def ranks(self) -> dict[int, int]:
        """The processes of all ranks."""
        found = [child for agent in self.agents() for child in children(agent)]
        return {int(environment(child)["RANK"]): child for child in found}

    def end(self) -> str:
        """Wait for the end; gives the SHA-256 of the weights."""
        assert [script.wait() for script in self.scripts] == [0, 0], self.log.read_text()
        return hashlib.sha256((self.out / "model.safetensors").read_bytes()).hexdigest()

    def stop(self) -> None:
        for script in self.scripts:
            if script.poll() is None:
                script.terminate()
                script.wait()


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def environment(process: int) -> dict[str, str]:
    pairs = (one.partition("=") for one in Path(f"/proc/{process}/environ").read_text().split("\0"))
    return {name: value for name, _, value in pairs}


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Machines]]:
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n\n".join(f"the {i % 7} red stones are in river {i % 5} ." for i in range(3000)))
    started: list[Machines] = []

    def begin(name: str, *more: str) -> Machines:
        started.append(Machines(tmp_path / name, corpus, *more))
        return started[-1]

    yield begin
    for machines in started:
        machines.stop()


@pytest.mark.parametrize("more", [(), ("--shard",)], ids=["copies", "shards"])
def test_what_is_killed_comes_back_and_the_run_ends_the_same(start, more):
    undisturbed = start("undisturbed", *more).end()
    disturbed = start("disturbed", *more, "--restart")  # which is not to begin anew each time
    disturbed.at_step(EVERY)
    os.kill(disturbed.ranks()[1], signal.SIGKILL)
    disturbed.at_step(4 * EVERY)
    os.kill(disturbed.ranks()[0], signal.SIGKILL)
    disturbed.at_step(7 * EVERY)
    os.kill(disturbed.agents()[0], signal.SIGKILL)  # its rank is left behind
    disturbed.at_step(10 * EVERY)
    agent = disturbed.agents()[1]
    (rank,) = children(agent)  # a machine that is gone
    for process in (agent, rank):
        os.kill(process, signal.SIGKILL)
    assert disturbed.end() == undisturbed
    assert disturbed.log.read_text().count('"exit": "finished"') == 1


def test_a_stopped_run_is_saved_and_goes_on_with_one_process(start):
    machines = start("stopped", "--set", f"train.every.save={10**6}")
    while not (machines.out / "run" / "metrics.jsonl").exists():
        time.sleep(0.05)
    machines.stop()
    assert [script.returncode for script in machines.scripts] == [143, 143]
    (saved,) = checkpoints(machines.out / "run")
    assert 0 < step_of(saved) < STEPS
    alone = [sys.executable, "-m", "clearhead", *machines.command]
    assert f'"steps": {STEPS}' in subprocess.run(alone, env=machines.environment, capture_output=True, text=True).stdout
