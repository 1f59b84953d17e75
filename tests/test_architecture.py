"""The rooms of docs/architecture.md: imports point up the list, model files never import one another."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "clearhead"
ROOMS = [
    "errors",
    "io",
    "nn",
    "models",
    "text",
    "hub",
    "data",
    "objectives",
    "decoding",
    "pipelines",
    "evaluation",
    "bulk",
    "training",
    "inside",
    "serve",
    "studio",
    "client",
    "clearhead",  # the package itself, which offers names of all rooms above
    "cli",
    "demo",
    "__main__",
]


def first_party_imports() -> list[tuple[Path, str]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} has a relative import; write it out"
                targets = [node.module or ""]
                if node.module in ("clearhead", "clearhead.models"):
                    targets = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                continue
            found += [(path, target) for target in targets if target.split(".")[0] == "clearhead"]
    return found


def room(name: str) -> str:
    return name.split(".")[1] if "." in name and name != "clearhead.__version__" else "clearhead"


def test_imports_point_up():
    imports = first_party_imports()
    assert len(imports) > 50
    for path, target in imports:
        here = path.relative_to(SOURCE).with_suffix("").parts[0]
        if here == "__init__":
            continue
        there = room(target)
        assert there in ROOMS, f"{path}: {target} is in no room"
        assert ROOMS.index(there) <= ROOMS.index(here), f"{path} must not import {target}"


def test_the_document_names_every_file_of_every_room():
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name, files in re.findall(r"^\| `(\w+)/` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE):
        stems = {path.stem for path in (SOURCE / name).rglob("[!_]*.py")}
        assert set(re.findall(r"\w+", files)) & stems == stems, f"docs/architecture.md: {name}/ has {sorted(stems)}"


def test_model_files_never_import_one_another():
    for path, target in first_party_imports():
        if path.parent.name == "models" and path.name != "__init__.py":
            assert room(target) != "models", f"{path} must not import {target}"


@pytest.mark.parametrize(
    "module", ["clearhead", "clearhead.text", "clearhead.errors", "clearhead.serve.run", "clearhead.client"]
)
def test_import_is_quiet_and_light(module):
    script = f"import sys, {module}; print(sorted({{'torch', 'transformers', 'huggingface_hub'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
    assert run.stderr == ""


def test_public_names_are_there_and_nothing_else_is_promised():
    import clearhead

    assert sorted(clearhead.__all__) == dir(clearhead)
    for name in clearhead.__all__:
        assert getattr(clearhead, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'; public names: "):
        _ = clearhead.nothing  # type: ignore[attr-defined]
