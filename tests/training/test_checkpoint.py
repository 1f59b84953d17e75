"""Killed anywhere and resumed, a run ends bit-identical to an undisturbed one; the last checkpoints can be averaged."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead.errors import BadCheckpoint, BadConfig, BadInput
from clearhead.hub.weights import read_tensors
from clearhead.training import checkpoint
from clearhead.training.checkpoint import NUMBERS, TENSORS, checkpoints, network_tensors, step_of
from clearhead.training.settings import Every, Settings
from training.toy import ToySource, ToyTask, assert_same, final_tensors, rows, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(folder).exit == "finished"
    return folder


def die_and_resume(folder: Path, deaths: list[tuple[str, int]]) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "training.toy", str(folder), json.dumps(deaths)]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    ).stdout.splitlines()


def test_killed_at_random_passes(tmp_path, undisturbed):
    draw = random.Random(0)
    deaths = [("kill", draw.randint(1, 14)) for _ in range(6)]  # a step has 3 passes, a checkpoint comes every 9
    codes = die_and_resume(tmp_path, deaths)
    assert codes[-1] == "finished"
    assert codes.count("-9") >= 3
    assert_same(tmp_path, undisturbed)


def test_killed_while_writing(tmp_path, undisturbed):
    # a checkpoint syncs two files, its folder, and the folder it is renamed in
    deaths = [("tensors", 1), ("sync", 1), ("sync", 2), ("sync", 3), ("sync", 4), ("tensors", 2), ("sync", 7)]
    codes = die_and_resume(tmp_path, deaths)
    assert codes == ["-9"] * 7 + ["finished"]
    assert not list(tmp_path.glob(".unfinished*"))
    assert_same(tmp_path, undisturbed)


def test_sigterm_saves_and_stops(tmp_path, undisturbed):
    codes = die_and_resume(tmp_path, [("term", 4), ("term", 5), ("kill", 2), ("term", 1)])
    assert codes == ["3", "3", "-9", "3", "finished"]
    assert_same(tmp_path, undisturbed)


def test_full_disk_leaves_the_last_checkpoint(tmp_path, undisturbed, monkeypatch):
    real, calls = checkpoint.write_tensors, []

    def full(tensors, path):
        calls.append(path)
        if len(calls) == 2:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(BadInput, match=r"cannot save to .*step-00000006.*No space left on device.*make room"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["step-00000003"]
    assert run(tmp_path).exit == "finished"
    assert_same(tmp_path, undisturbed)


def test_a_finished_run_stays_finished(tmp_path, undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob(TENSORS)}
    task = ToyTask()
    result = run(undisturbed, task)
    assert (result.exit, result.step, task.passes) == ("finished", 12, 0)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob(TENSORS)} == before
    assert torch.equal(task.network.encoder.embeddings.token.weight, _embedding(final_tensors(undisturbed)))


def _embedding(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return tensors["network.encoder.embeddings.token.weight"]


def test_only_the_newest_are_kept(undisturbed):
    assert [path.name for path in checkpoints(undisturbed)] == ["step-00000009", "step-00000012"]


def test_rows_come_once(undisturbed):
    assert [row["step"] for row in rows(undisturbed)] == [2, 4, 6, 8, 10, 12]


def test_a_run_of_another_data_order_is_refused(undisturbed, monkeypatch):
    monkeypatch.setattr(checkpoint, "DATA_ORDER", 3)
    with pytest.raises(BadConfig, match=r"in order 2, this version of clearhead in order 3; end the run with"):
        run(undisturbed)


def test_changed_settings_are_named(undisturbed):
    other = r"holds another run, which differs in learning_rate: 0.02 instead of 0.01; seed: 1 instead of 0. Give what"
    with pytest.raises(BadConfig, match=other):
        run(undisturbed, learning_rate=0.02, seed=1)
    with pytest.raises(BadConfig, match=r"every.evaluate: 5 instead of 4\. .*, choose another folder, or .* --restart"):
        run(undisturbed, every=Every(evaluate=5))
    assert run(undisturbed, every=Every(log=7, save=5, evaluate=4, keep=9)).exit == "finished"


def test_what_a_run_was_made_of_is_compared_by_content(tmp_path):
    data = {"name": "a.csv", "sha256": "1"}
    made = {"the training data": data, "the labels": ["b", "a"], "the length": 128}
    run(tmp_path, steps=2, fingerprint=made)
    assert run(tmp_path, steps=2, fingerprint={**made, "the training data": {**data, "name": "b.csv"}}).began == 2
    for changes, told in (
        ({"the training data": {"name": "b.csv", "sha256": "2"}}, r"the training data: b.csv instead of a.csv\."),
        ({"the training data": {"name": "a.csv", "sha256": "2"}}, r"the training data: a.csv is not what it was\."),
        ({"the labels": ["a", "b"]}, r"the labels: a, b instead of b, a\."),
        ({"the model": "c"}, r"the model: c instead of none\."),
        ({"the length": 64, "the labels": None}, r"the labels: none instead of b, a; the length: 64 instead of 128"),
    ):
        with pytest.raises(BadConfig, match=f"holds another run, which differs in {told}"):
            run(tmp_path, steps=2, fingerprint=made | changes)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("name", [TENSORS, NUMBERS])
def test_a_damaged_checkpoint_is_passed_over_and_told_of(tmp_path, undisturbed, caplog, name):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    damage(folder / "step-00000012" / name)
    assert run(folder).began == 9
    assert f"step-00000012/{name} is " in caplog.text
    assert "going on from step 9 instead, and kept it as damaged-step-00000012" in caplog.text
    assert_same(folder, undisturbed)
    shutil.rmtree(folder / "damaged-step-00000012")
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in undisturbed.iterdir())


def test_a_number_that_was_changed_by_hand_is_not_believed(tmp_path, undisturbed, caplog):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    path = folder / "step-00000012" / NUMBERS
    text = path.read_text()
    assert '"index": 36' in text
    path.write_text(text.replace('"index": 36', '"index": 75'))
    assert run(folder).began == 9
    assert "does not match the SHA-256" in caplog.text


def test_no_damaged_byte_of_the_state_is_believed(tmp_path, undisturbed):
    source = checkpoints(undisturbed)[-1] / NUMBERS
    content, known, draw = source.read_bytes(), checkpoint.read_numbers(source.parent), random.Random(0)
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] = draw.randrange(256)
        (tmp_path / NUMBERS).write_bytes(changed[:place] if place % 5 == 0 else changed)
        try:
            assert checkpoint.read_numbers(tmp_path) == known  # a space for a line break, say
        except BadCheckpoint:
            continue


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_order", "2"), ("state", []), ("settings", {}), ("settings", None), ("made_of", 5), ("more", 1)],
)
def test_a_state_of_another_shape_is_no_state(tmp_path, undisturbed, name, value):
    numbers = {**checkpoint.read_numbers(checkpoints(undisturbed)[-1]), name: value}
    (tmp_path / NUMBERS).write_text(json.dumps({"sha256": checkpoint._digest(numbers), "run": numbers}))
    with pytest.raises(BadCheckpoint, match=name):
        checkpoint.read_numbers(tmp_path)


def test_a_run_without_a_whole_checkpoint_is_refused(tmp_path, undisturbed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    for path in checkpoints(folder):
        damage(path / TENSORS)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(BadCheckpoint, match=r"no checkpoint in .* is whole \(.*damaged.*or begin anew .* --restart"):
        run(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert run(folder, restart=True).began == 0
    assert_same(folder, undisturbed)


def test_a_run_that_did_not_note_what_it_was_made_of_is_refused(tmp_path, undisturbed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    for path in checkpoints(folder):
        numbers = json.loads((path / NUMBERS).read_text())["run"]
        (path / NUMBERS).write_text(json.dumps(numbers))
    with pytest.raises(
        BadConfig, match="begun by a version of clearhead that did not note what it was made of; end it"
    ):
        run(folder)


def test_checkpoints_come_by_the_clock_too(tmp_path, undisturbed):
    clock = [0.0]

    def take_time(passes, _batch):
        clock[0] += 10.0  # a step has 3 passes
        if passes == 28:
            raise KeyError

    def write_slowly(_stage):
        clock[0] += 3.0

    rarely = Every(log=2, save=100, evaluate=4, minutes=0.9)
    options = {"clock": lambda: clock[0], "on_save": write_slowly}
    with pytest.raises(KeyError):
        run(tmp_path, ToyTask(before=take_time), every=rarely, **options)
    # after two steps, and then when 50 times the 3 seconds are over
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002", "step-00000007"]
    run(tmp_path, every=rarely)
    assert_same(tmp_path, undisturbed)


def test_restart_begins_anew(tmp_path, undisturbed):
    run(tmp_path, seed=7, steps=20)
    assert run(tmp_path, restart=True).began == 0
    assert_same(tmp_path, undisturbed)


def test_more_goes_on_from_a_run_that_is_over(tmp_path):
    whole = {"fingerprint": {"the labels": ["a"]}, "schedule": "constant", "warmup": 0.0}
    run(tmp_path / "whole", steps=12, **whole)
    folder = tmp_path / "parts"
    run(folder, steps=5, **whole)
    over = r"is over after steps = 5, and steps = 12 is asked for; go on from its end with --more, .* --restart"
    with pytest.raises(BadConfig, match=over):
        run(folder, steps=12, **whole)
    with pytest.raises(BadConfig, match=r"is over after steps = 5 \(5 steps\), which steps = 4 is no longer than"):
        run(folder, steps=4, more=True, **whole)
    with pytest.raises(BadConfig, match=r"the labels: none instead of a; .*steps: 12 instead of 5"):
        run(folder, more=True, **{**whole, "fingerprint": {}})
    longer = run(folder, steps=12, more=True, **whole)
    assert (longer.exit, longer.began, longer.step, longer.parts) == ("finished", 5, 12, ("steps = 5 (5 steps)",))
    # a rate that does not go down makes one run of the two
    ours, theirs = final_tensors(folder), final_tensors(tmp_path / "whole")
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    again = run(folder, steps=12, more=True, **whole)
    assert (again.began, again.parts) == (12, longer.parts)


def test_more_can_be_stopped_and_goes_on_like_any_run(tmp_path):
    torch.set_num_threads(1)
    for name in ("whole", "stopped"):
        run(tmp_path / name, steps=5)

    def press(passes, _batch):
        if passes == 4:
            os.kill(os.getpid(), signal.SIGINT)

    assert run(tmp_path / "stopped", ToyTask(before=press), steps=12, more=True).step == 7
    with pytest.raises(BadConfig, match=r"differs in steps: 20 instead of 12\."):  # it is not over
        run(tmp_path / "stopped", steps=20, more=True)
    for name in ("whole", "stopped"):
        run(tmp_path / name, steps=12, more=True)
    assert_same(tmp_path / "stopped", tmp_path / "whole")


def test_another_network_is_refused(undisturbed):
    task = ToyTask()
    task.network.heads["classes"].classifier = torch.nn.Linear(16, 4)
    with pytest.raises(BadCheckpoint, match=r"classes.classifier.weight has shape \(3, 16\) there, \(4, 16\) here"):
        run(undisturbed, task)


@pytest.mark.parametrize("optimiser", ["muon", "lamb", "adafactor"])
def test_other_optimisers_resume_too(tmp_path, optimiser):
    torch.set_num_threads(1)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    run(whole, optimiser=optimiser, steps=6)

    def break_off(passes, _batch):
        if passes == 14:
            raise KeyError

    with pytest.raises(KeyError):
        run(halves, ToyTask(before=break_off), optimiser=optimiser, steps=6)
    run(halves, optimiser=optimiser, steps=6)
    assert_same(halves, whole)


def test_on_save_adds_to_the_folder(tmp_path):
    run(tmp_path, steps=1, on_save=lambda stage: (stage / "config.json").write_text("{}"))
    assert (checkpoints(tmp_path)[-1] / "config.json").read_text() == "{}"


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file; give a folder to train in"):
        run(tmp_path / "file")


def test_global_random_state_is_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    task = ToyTask()
    torch.manual_seed(5)
    run(tmp_path, task, ToySource(), steps=2)
    assert torch.equal(torch.random.get_rng_state(), before)


def every(average: int = 1, evaluate: int = 100) -> Every:
    return Every(log=100, save=3, evaluate=evaluate, keep=1, average=average)


def test_the_run_ends_with_the_mean_of_its_last_checkpoints(tmp_path):
    task = ToyTask()
    run(tmp_path, task, steps=11, every=every(3))
    paths = checkpoints(tmp_path)
    assert [step_of(path) for path in paths] == [6, 9, 11]
    saved = [read_tensors(path / TENSORS) for path in paths]
    for name, tensor in network_tensors(task.network).items():
        mean = sum(one[f"network.{name}"].double() for one in saved) / 3
        torch.testing.assert_close(tensor, mean.to(tensor.dtype), atol=1e-7, rtol=0)


def test_a_run_without_averaging_ends_with_its_last_weights(tmp_path):
    task = ToyTask()
    run(tmp_path, task, steps=4, every=every())
    (last,) = checkpoints(tmp_path)
    saved = read_tensors(last / TENSORS)
    for name, tensor in network_tensors(task.network).items():
        assert torch.equal(tensor, saved[f"network.{name}"])


def test_a_resumed_run_averages_the_same(tmp_path):
    whole, stopped = ToyTask(), ToyTask()
    run(tmp_path / "whole", whole, steps=11, every=every(2))

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    run(tmp_path / "stopped", ToyTask(), steps=11, every=every(2, evaluate=7), evaluate=interrupt)
    assert [step_of(path) for path in checkpoints(tmp_path / "stopped")] == [6, 8]
    run(tmp_path / "stopped", stopped, steps=11, every=every(2, evaluate=7))
    for one, other in zip(whole.network.parameters(), stopped.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(BadConfig, match=r"every\.average 2 takes the last weights, metric 'f1' the best"):
        Settings(steps=1, every=every(2), metric="f1")
    with pytest.raises(BadConfig, match="the schedule noam needs a warmup"):
        Settings(steps=1, schedule="noam", warmup=0.0)
