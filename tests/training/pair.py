"""Two processes that train together, started as torchrun would start them.

usage: python -m training.pair MODE FOLDER...    MODE is "copies" of the network on both, or "shards" of it; with
"spoilt" copies, steps in a row are bad; with "parts", a step has one batch for the two. A folder that is named twice is
a run stopped by SIGTERM to one of the two, and resumed.
"""

import math
import os
import signal
import socket
import sys
from pathlib import Path

import torch

from clearhead.data.batch import Batch
from clearhead.training.loop import TrainResult
from clearhead.training.settings import Every
from training.toy import Poisoned, ToySource, ToyTask, run


def stop_rank_one(passes: int, _batch: Batch) -> None:
    if passes == 3 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)


def judge(task: ToyTask) -> dict[str, float]:
    """Run the network on one rank alone."""
    with torch.no_grad():
        task.losses(ToySource().batch(0))
    task.passes -= 1
    return {"f1": 0.5, "embedding": task.network.encoder.embeddings.token.weight.norm()}


def train_spoilt(folder: Path) -> TrainResult:
    """Go back from five bad steps, of which the loop hears when the next is under way."""
    task = ToyTask()
    return run(folder, task, Poisoned(task, 12, 26, math.inf), every=Every(log=100, save=3, evaluate=100))


def train_parts(folder: Path) -> tuple[TrainResult, int]:
    """Train with one batch in a step; gives how many tokens this process read, too. Dropout would be drawn anew."""
    read: list[int] = []
    task = ToyTask(dropout=0.0, before=lambda _passes, batch: read.append(batch.tokens))
    return run(folder, task, accumulate=1), sum(read)


def train_as(rank: int, port: int, folder: Path, stopped: bool, mode: str) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if mode == "spoilt":
        os.write(1, f"{train_spoilt(folder).exit}\n".encode())
        return
    if mode == "parts":
        result, tokens = train_parts(folder)
        os.write(1, f"{result.tokens} {tokens}\n".encode())
        return
    task = ToyTask(before=stop_rank_one if stopped else None)
    before = list(task.network.named_parameters())
    options = {"steps": None, "epochs": 1.0, "evaluate": lambda: judge(task), "metric": "f1", "shard": mode == "shards"}
    result = run(folder, task, ToySource(batches=10), **options)
    # the network is as it was: whole, and the same parameters
    assert all(weight is now for (_, weight), now in zip(before, task.network.parameters(), strict=True))
    assert torch.isfinite(judge(task)["embedding"])
    os.write(1, f"{result.exit}\n".encode())


def main() -> None:
    torch.set_num_threads(1)
    mode, folders = sys.argv[1], sys.argv[2:]
    for place, folder in enumerate(folders):
        stopped = folder in folders[place + 1 :]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        children = []
        for rank in range(2):  # forked, because importing torch takes longer than training this
            child = os.fork()
            if not child:
                train_as(rank, port, Path(folder), stopped, mode)
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main()
