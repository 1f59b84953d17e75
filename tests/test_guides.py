"""The guides: the first commands of each are run, all others are read by the real command line, their Python runs."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from clearhead.cli import app
from clearhead.cli.samples import HOLDS
from cli.conftest import run as run

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "guides"
GUIDES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
# what takes half a minute looks at its data alone here, or trains for a moment; what never ends is read only
SHORTER = {
    "domain-bert": ["--minutes", "0.02"],
    "labels": ["--dry-run"],
    "serve": None,
}


def blocks(guide: str, language: str) -> list[str]:
    """The blocks of code of a guide, those within lists too."""
    text = (FOLDER / f"{guide}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return ["\n".join(line.removeprefix(indent) for line in block.splitlines()) for indent, block in found]


def lines(block: str) -> list[str]:
    """The commands of a block; one may go on over several lines."""
    return [line for line in block.replace("\\\n", " ").replace("(\n", "(").splitlines() if line]


def commands(block: str) -> Iterator[list[str]]:
    """The calls of clearhead in a block, as the shell would cut them."""
    for line in lines(block):
        if line.startswith("clearhead "):
            yield shlex.split(line)[1:]


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty folder, as a newcomer has one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_guide_is_in_the_list_of_guides():
    listed = re.findall(r"\]\((\S+)\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == GUIDES
    assert len(GUIDES) == 12


@pytest.mark.parametrize("guide", GUIDES)
def test_the_first_commands_work_as_they_stand(guide, empty, run, capsys):
    text = (FOLDER / f"{guide}.md").read_text(encoding="utf-8")
    assert re.match(r"# .+\n\n```sh\n", text), "a guide begins with a command"
    first, more = blocks(guide, "sh")[0], SHORTER.get(guide, [])
    assert first.startswith(("clearhead ", "python -c "))
    for line in lines(first):
        words = shlex.split(line)
        if words[0] == "python":
            done = subprocess.run([sys.executable, *words[1:3]], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip()
            if words[3:4] == [">"]:
                Path(words[4]).write_text(done.stdout, encoding="utf-8")
        elif more is not None:
            code, out, err = run(*words[1:], *(() if words[1] == "samples" else more))
            assert code == 0, err
            assert out.strip()


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_is_one(guide, empty):
    found = [words for block in blocks(guide, "sh") for words in commands(block)]
    for words in found:
        command, rest = typer.main.get_command(app), words
        while rest and hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(words[0], list(rest))  # a wrong option, or a value of the wrong kind, is refused


@pytest.mark.parametrize("guide", [guide for guide in GUIDES if blocks(guide, "python")])
def test_the_python_of_a_guide_runs(guide):
    names: dict[str, object] = {"__name__": guide}
    for block in blocks(guide, "python"):
        exec(compile(block, guide, "exec"), names)


def test_an_answer_is_what_the_guide_promises(empty, run):
    samples, says, silent = commands(blocks("questions", "sh")[0])
    run(*samples)
    assert "  27.0 million  " in run(*says)[1]
    assert "(no answer)" in run(*silent)[1]


def test_files_of_ones_own_are_kept(empty, run):
    said = run("samples")[1].splitlines()
    assert [line.partition(":")[0] for line in said] == [f"wrote samples/{name}" for name in HOLDS]
    assert sorted(path.name for path in Path("samples").iterdir()) == sorted(HOLDS)
    for name, rows in (("messages.csv", 60), ("messages-dev.csv", 20), ("pairs.tsv", 108), ("pairs-dev.tsv", 12)):
        assert HOLDS[name].startswith(str(rows))
        assert len(Path("samples", name).read_text(encoding="utf-8").splitlines()) == rows + name.startswith("messages")
    Path("samples/pairs.tsv").write_text("mine\tours\n", encoding="utf-8")
    said = [json.loads(line) for line in run("samples", "--json")[1].splitlines()]
    assert not any(one["written"] for one in said)
    assert Path("samples/pairs.tsv").read_text(encoding="utf-8") == "mine\tours\n"


def test_a_wrong_answer_is_as_wrong_as_the_guide_says(empty, run):
    found = blocks("wrong-answer", "sh")
    for block, said in ((found[0], ["negative", "positive"]), (found[3], ["negative", "negative", "positive"])):
        classify, *_ = commands(block)
        lines = run(*classify, "--json")[1].splitlines()
        assert [json.loads(line)["label"] for line in lines] == said
