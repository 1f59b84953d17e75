"""The page about views is run as it stands."""

import re
from pathlib import Path

from inside.models import small
from studio.runs import write_run

PAGE = Path(__file__).parents[2] / "docs" / "inside.md"


def test_the_snippets_run(tmp_path, monkeypatch, writers):
    small().save(tmp_path / "my-model")
    write_run(tmp_path / "my-model")
    small(head="classes", outputs=2, labels=("ham", "spam")).save(tmp_path / "my-classifier")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(snippet, names)
    saved = re.findall(r'save\("([\w-]+\.html)"\)', PAGE.read_text(encoding="utf-8"))
    assert len(saved) == 22
    assert all((tmp_path / name).is_file() for name in saved)
