"""What the documents say is run."""

import re
from pathlib import Path

from pipelines.writers import translator

ROOT = Path(__file__).parents[1]


def test_the_readmes_python_runs(tmp_path, monkeypatch, built_in):
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert names["vectors"].shape == (2, 32)
    assert (tmp_path / "attention.html").is_file()


def test_the_built_in_model_says_what_the_readme_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec("import clearhead as ch\nmodel = ch.load()", names)
    shown = re.findall(r"^(model\..*)  # '(.*)'$", text, re.MULTILINE)
    assert len(shown) == 3
    for line, said in shown:
        assert eval(line, names) == said


def test_the_figures_of_the_built_in_model_are_those_of_its_card():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    card = (ROOT / "src/clearhead/builtin/encoder/README.md").read_text(encoding="utf-8")
    section = text.split("## The built-in model")[1].split("##")[0]
    heads, _, figures = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    for name, figure in zip(heads.split("|"), figures.split("|"), strict=True):
        task, kind = name.strip().lower().replace("squad 1.1", "squad-1.1").split(", ")
        assert f"| {task}, {kind} | {figure.strip()} |" in card.lower()
    for said in ("27.0 million", "35.1 MiB", "33.1 minutes"):
        assert said in section
        assert said in card


def test_the_walk_through_a_translator_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    translator("seq2seq-lstm-additive").save("de-en")
    text = (ROOT / "docs" / "sequences.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], names)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(names["seen"].steps)
    assert all("; looked most at " in line for line in shown)
    assert len(names["ways"]) == 3
    assert (tmp_path / "steps.html").is_file()


def test_every_benchmark_is_named():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "benchmarks").glob("*.py") if path.name not in text] == []


def test_links_and_files_named_in_the_documents_are_there():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        for named in re.findall(
            r"`((?:benchmarks|tests)/\w+\.py|(?:nn|models|text|hub|data|objectives|pipelines|evaluation|training|inside)/[a-z_/]+\.py)`",
            text,
        ):
            assert any((base / named).is_file() for base in (ROOT, ROOT / "src" / "clearhead")), f"{page.name}: {named}"
