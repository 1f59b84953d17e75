"""Two processes learn what one learns, from the same batches."""

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.testing import assert_close

from clearhead.data.batch import Batch
from clearhead.errors import BadConfig, BadInput, ClearheadError
from clearhead.training.checkpoint import checkpoints
from clearhead.training.distributed import Ranks, Sharding, _one_sentence, meet
from clearhead.training.loop import TrainResult, _parts
from clearhead.training.step import ForwardBackward
from training.pair import train_parts, train_spoilt
from training.toy import ToySource, ToyTask, final_tensors, rows, run, settings

ROOT = Path(__file__).parents[2]


def test_batches_are_dealt_out_equally():
    assert Ranks(0, 2).share([7, 8, 9]) == [(7, 0, True), (9, 0, True)]
    assert Ranks(1, 2).share([7, 8, 9]) == [(8, 0, True), (7, 0, False)]
    assert Ranks(0, 1).share([7, 8, 9]) == [(7, 0, True), (8, 0, True), (9, 0, True)]
    assert Ranks(2, 3).share([7]) == [(7, 0, False)]


def test_batches_are_dealt_out_in_parts():
    assert [Ranks(rank, 5).share([7, 8], 2) for rank in range(5)] == [
        [(7, 0, True)],
        [(7, 1, True)],
        [(8, 0, True)],
        [(8, 1, True)],
        [(7, 0, False)],
    ]


def train_alone(folder: Path) -> TrainResult:
    # 3 micro-batches for 2 ranks, and a last step of one: some passes do not count
    options = {"steps": None, "epochs": 1.0, "evaluate": lambda: {"f1": 0.5}, "metric": "f1"}
    return run(folder, source=ToySource(batches=10), **options)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("one")
    train_alone(folder)
    return folder


def assert_near(folder: Path, other: Path) -> None:
    assert [row["step"] for row in rows(folder)] == [row["step"] for row in rows(other)]
    for ours, theirs in zip(rows(folder), rows(other), strict=True):
        for name in ("loss", "masked_lm", "next_sentence", "masked_lm/accuracy", "tokens", "learning_rate"):
            assert_close(ours[name], theirs[name], atol=1e-5, rtol=1e-5)
    ours, theirs = final_tensors(folder), final_tensors(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert_close(ours[name], theirs[name], atol=1e-5, rtol=1e-5)


def train_together(mode: str, *folders: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "training.pair", mode, *map(str, folders)]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return output.stdout.split()


@pytest.mark.parametrize("mode", ["copies", "shards"])
def test_two_processes_equal_one_even_if_they_are_stopped(tmp_path, one, mode):
    whole, halves, begun = (tmp_path / name for name in ("whole", "halves", "begun"))
    shutil.copytree(one, begun)
    shutil.rmtree(checkpoints(begun)[-1])
    assert train_together(mode, whole, halves, halves, begun) == [
        *["finished"] * 2,
        *["interrupted"] * 2,
        *["finished"] * 4,
    ]
    for folder in (whole, halves, begun):  # two went on where one had begun
        assert_near(folder, one)
    shutil.rmtree(checkpoints(whole)[-1])
    assert train_alone(whole).exit == "finished"  # and one goes on where two had
    assert_near(whole, one)


def test_two_processes_go_back_together(tmp_path):
    assert train_together("spoilt", tmp_path / "two") == ["finished"] * 2
    train_spoilt(tmp_path / "one")
    assert_near(tmp_path / "two", tmp_path / "one")


def test_one_batch_is_spread_over_two_processes(tmp_path):
    all_tokens, read, same, other = map(int, train_together("parts", tmp_path / "two"))
    _, alone = train_parts(tmp_path / "one")
    assert all_tokens == same == alone == read + other
    assert 0.4 < read / alone < 0.6
    assert_near(tmp_path / "two", tmp_path / "one")


def test_ranks_without_work_are_told_of(caplog):
    source = ToySource()
    assert _parts(source, settings(accumulate=1), Ranks(0, 4)) == 4
    assert _parts(source, settings(accumulate=3), Ranks(0, 4)) == 1
    assert _parts(source, settings(accumulate=2), Ranks(0, 1)) == 1
    source.batch = lambda _: Batch.of([[1], [2]])  # pairs that are told apart from all others
    assert _parts(source, settings(accumulate=1), Ranks(0, 4)) == 1
    message = "3 of 4 ranks have nothing to do: these batches cannot be cut; set train.accumulate=4"
    assert caplog.messages == [message]


def test_shards_are_not_compiled():
    task = ToyTask()
    with pytest.raises(BadConfig, match="in shards is not compiled; set compile=False or shard=False"):
        ForwardBackward(task, settings(compile=True), torch.device("cpu"), Ranks(), Sharding(task.network))


def test_shards_of_one_process_are_the_whole(tmp_path):
    task = ToyTask()
    assert run(tmp_path, task, steps=2, shard=True).exit == "finished"
    assert all(type(weight) is torch.nn.Parameter for weight in task.network.parameters())


def meet_in_threads(store: distributed.Store, ranks: list[int], world: int) -> list[distributed.Store]:
    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(lambda rank: meet(store, rank, world, 20.0), ranks))


def test_ranks_that_were_started_again_meet_apart_from_the_dead():
    store = distributed.HashStore()
    for rank, place in enumerate(meet_in_threads(store, [0, 1, 2], 3)):
        place.set(f"address/{rank}", "old")
    # of the next attempt, the first is there long before the others, who died without a word
    for order in ([0, 1, 2], [2, 1, 0]):
        places = meet_in_threads(store, order, 3)
        assert not any(place.check([f"address/{rank}"]) for place in places for rank in range(3))
        for rank, place in zip(order, places, strict=True):
            place.set(f"address/{rank}", "new")
        assert all(place.get(f"address/{rank}") == b"new" for place in places for rank in range(3))


def test_a_rank_that_meets_nobody_says_what_to_do():
    for rank in (0, 1):
        with pytest.raises(
            ClearheadError, match=f"rank {rank} of 2 did not meet .* TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
        ):
            meet(distributed.HashStore(), rank, 2, patience=0.1)


def test_a_lost_rank_is_told_of_in_one_sentence():
    with (
        pytest.raises(
            ClearheadError, match=r"another process of this run has ended .*Connection closed.* --max-restarts"
        ),
        _one_sentence(),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection closed by peer")
    for error in (RuntimeError("shapes do not match"), BadInput("no connection is meant here")):
        with pytest.raises(type(error), match=str(error)), _one_sentence():
            raise error


ORPHAN = """
import os, signal, sys, time
from clearhead.training.distributed import end_with_agent
end_with_agent()
end_with_agent()
signal.signal(signal.SIGTERM, lambda number, frame: (os.write(1, b"saved"), os._exit(143)))
os.write(1, b"ready ")
time.sleep(60)
"""


def test_a_rank_ends_when_its_agent_is_gone():
    agent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {ORPHAN!r}]); time.sleep(60)"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TORCHELASTIC_RUN_ID": "job"}
    with subprocess.Popen([sys.executable, "-c", agent], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"ready "
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b"saved"


def test_a_job_that_is_started_again_does_not_begin_anew_again(tmp_path, monkeypatch):
    run(tmp_path, steps=6)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "first")
    assert run(tmp_path, steps=6, restart=True).began == 0
    assert run(tmp_path, steps=6, restart=True).began == 6  # torchrun repeats the command as it was
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "second")
    assert run(tmp_path, steps=6, restart=True).began == 0
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # a job without a name is another one
    assert [run(tmp_path, steps=6, restart=True).began for _ in range(2)] == [0, 0]
