"""Two processes that train together, started as torchrun would start them.

usage: python -m training.pair WHOLE HALVES    the run in HALVES is stopped by SIGTERM to one of the two, and resumed
"""

import os
import signal
import socket
import sys
from pathlib import Path

import torch

from clearhead.data.batch import Batch
from training.toy import ToySource, ToyTask, run


def stop_rank_one(passes: int, _batch: Batch) -> None:
    if passes == 3 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)


def train_as(rank: int, port: int, folder: Path, stopped: bool) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    task = ToyTask(before=stop_rank_one if stopped else None)
    options = {"steps": None, "epochs": 1.0, "evaluate": lambda: {"f1": 0.5}, "metric": "f1"}
    result = run(folder, task, ToySource(batches=10), **options)
    os.write(1, f"{result.exit}\n".encode())


def main() -> None:
    torch.set_num_threads(1)
    whole, halves = Path(sys.argv[1]), Path(sys.argv[2])
    for folder, stopped in ((whole, False), (halves, True), (halves, False)):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        children = []
        for rank in range(2):  # forked, because importing torch takes longer than training this
            child = os.fork()
            if not child:
                train_as(rank, port, folder, stopped)
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main()
