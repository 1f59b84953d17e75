import subprocess
import sys

from clearhead.demo import NUS, TOUR, main
from clearhead.hub.remote import FOLDER


def test_the_tour_shows_each_line_with_its_result(tmp_path, capsys, writers):
    main(tmp_path / "demo")
    out = capsys.readouterr().out
    steps = dict(part.split("\n", 1) for part in out.split("\n>>> ")[1:])
    assert list(steps)[1:] == [line for line, _ in TOUR]
    for line, result in steps.items():
        assert result.strip(), line
    answer = steps['model.answer("What does NUS stand for?", passage)'].strip()
    assert answer == "(no answer)" or answer.split("'")[1] in NUS
    assert "positive" in steps['model.classify("A warm, funny and clever film.")']
    assert "similarity" in next(result for line, result in steps.items() if 'skill="similarity"' in line)
    assert (tmp_path / "demo" / "attention.html").stat().st_size > 10_000
    assert "Try next" in out


def test_without_the_model_it_says_one_sentence(tmp_path):
    script = (
        "import pathlib, runpy, clearhead.hub.remote as builtin; builtin.FOLDER = pathlib.Path('nowhere'); "
        "runpy.run_module('clearhead.demo', run_name='__main__')"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "x")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("error: this copy of clearhead has no built-in model")
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_the_model_lies_in_the_package():
    assert FOLDER.parts[-2:] == ("clearhead", "builtin")
