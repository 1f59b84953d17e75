"""Commands of clearhead, one after the other, each in two processes, started as torchrun would start them.

usage: python -m training.pair_of_commands COMMANDS    COMMANDS is a JSON list of lists of arguments
"""

import json
import os
import socket
import sys

import torch

from clearhead.cli import main
from clearhead.training.recipes import finetune, pretrain  # noqa: F401, loaded once, before the processes part


def run_as(rank: int, port: int, arguments: list[str]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sys.argv = ["clearhead", *arguments]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(int(end.code or 0))


def run_in_two(arguments: list[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(2):  # forked, because importing torch takes longer than training this
        child = os.fork()
        if not child:
            run_as(rank, port, arguments)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    for command in json.loads(sys.argv[1]):
        run_in_two(command)
