"""What the documents say is run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readmes_python_runs(tmp_path, monkeypatch, built_in):
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert names["vectors"].shape == (2, 32)
    assert (tmp_path / "attention.html").is_file()


def test_links_and_files_named_in_the_documents_are_there():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        for named in re.findall(
            r"`((?:benchmarks|tests)/\w+\.py|(?:nn|models|text|hub|data|objectives|pipelines|evaluation|training|inside)/[a-z_/]+\.py)`",
            text,
        ):
            assert any((base / named).is_file() for base in (ROOT, ROOT / "src" / "clearhead")), f"{page.name}: {named}"
