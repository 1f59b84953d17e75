"""The page about search says what can be run."""

import re
import shutil
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "search.md"


def test_the_pages_python_runs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "my-model")
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(snippet, names)
    assert len(names["again"]) == len(names["words"]) == 4
