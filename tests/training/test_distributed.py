"""Two processes learn what one learns, from the same batches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from clearhead.training.distributed import Ranks
from training.toy import ToySource, final_tensors, rows, run

ROOT = Path(__file__).parents[2]


def test_batches_are_dealt_out_equally():
    assert Ranks(0, 2).share([7, 8, 9]) == [(7, True), (9, True)]
    assert Ranks(1, 2).share([7, 8, 9]) == [(8, True), (7, False)]
    assert Ranks(0, 1).share([7, 8, 9]) == [(7, True), (8, True), (9, True)]
    assert Ranks(2, 3).share([7]) == [(7, False)]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("one")
    # 3 micro-batches for 2 ranks, and a last step of one: some passes do not count
    run(folder, source=ToySource(batches=10), steps=None, epochs=1.0, evaluate=lambda: {"f1": 0.5}, metric="f1")
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


def test_two_processes_equal_one_even_if_they_are_stopped(tmp_path, one):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "training.pair", str(tmp_path / "whole"), str(tmp_path / "halves")]
    output = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    ).stdout.split()
    assert output == ["finished"] * 2 + ["interrupted"] * 2 + ["finished"] * 2
    assert_near(tmp_path / "whole", one)
    assert_near(tmp_path / "halves", one)
