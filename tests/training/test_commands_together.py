"""The training commands under torchrun: one vocabulary, one corpus, one result, whether copied or in shards."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from clearhead.cli import main
from clearhead.hub.weights import read_tensors

ROOT = Path(__file__).parents[2]
SETTINGS = {"tokens": 256, "length": 32, "masking.multiple": 1, "model.hidden_size": 16, "model.intermediate_size": 32}
SMALL = ["--vocabulary", 60, "--preset", "tiny", "--steps", 3, "--device", "cpu", "--json"]
SMALL += [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n\n".join(f"the {i % 7} red stones are in river {i % 5} ." for i in range(300)))
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_in_two(*commands: list[object]) -> list[dict]:
    """Run commands in two processes each; gives what was printed, which is JSON."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    written = json.dumps([list(map(str, command)) for command in commands])
    done = subprocess.run(
        [sys.executable, "-m", "training.pair_of_commands", written],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_alone(monkeypatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["clearhead", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_two_processes_in_shards_train_what_one_trains(corpus, tmp_path, monkeypatch):
    torch.set_num_threads(1)
    rows = [{"text": f"the red stone {i % 5}", "label": "odd" if i % 2 else "even"} for i in range(24)]
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    short = [part for setting in ("train.steps=2", "items=8", "lora=2") for part in ("--set", setting)]
    place = ["--model", tmp_path / "two", "--out", tmp_path / "tuned", "--device", "cpu", "--json"]
    pretrained, tuned = run_in_two(
        ["pretrain", "--corpus", corpus, "--out", tmp_path / "two", *SMALL, "--shard"],
        ["finetune", "classify", "--data", data, "--dev", data, *place, *short, "--shard"],
    )  # each says once what came out
    assert pretrained["exit"] == "finished"
    assert set(tuned["figures"]) == {"accuracy", "f1", "matthews", "calibration_error"}
    assert run_alone(monkeypatch, "pretrain", "--corpus", corpus, "--out", tmp_path / "one", *SMALL) == 0
    ours, theirs = (read_tensors(tmp_path / name / "model.safetensors") for name in ("two", "one"))
    assert ours.keys() == theirs.keys()
    for name in ours:  # to the last bit, with Muon, which works in bf16
        assert_close(ours[name], theirs[name], atol=0, rtol=0)
    card = (tmp_path / "two" / "README.md").read_text(encoding="utf-8")
    assert "torchrun --nnodes 1 --nproc-per-node 2 -m clearhead pretrain --corpus" in card


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "distil"])
def test_one_process_has_nobody_to_share_with(verb, tmp_path, monkeypatch, capsys):
    needed = {
        "pretrain": ["--corpus", "a.txt"],
        "finetune": ["classify", "--data", "a.csv", "--model", "./m"],
        "distil": ["--corpus", "a.txt", "--teacher", "./m"],
    }
    assert run_alone(monkeypatch, verb, *needed[verb], "--out", tmp_path / "out", "--shard") == 2
    error = capsys.readouterr().err
    assert f"--shard needs several processes; start them with: torchrun --nproc-per-node 2 -m clearhead {verb}" in error
