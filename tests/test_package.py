"""What is installed: the wheel holds the built-in model, and the model is no larger than a repository should carry."""

import shutil
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from clearhead.hub.remote import FOLDER
from clearhead.hub.skills import find_skills

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_model_with_its_skills(tmp_path, stand_in):
    root = tmp_path / "project"
    package = root / "src" / "clearhead"
    shutil.copytree(stand_in, package / "builtin")
    (package / "builtin" / "README.md").write_text("# card")
    shutil.copy(ROOT / "src" / "clearhead" / "__init__.py", package)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, root)
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    held = {f"clearhead/builtin/{path.relative_to(stand_in)}" for path in stand_in.rglob("*") if path.is_file()}
    assert held | {"clearhead/builtin/README.md"} <= names
    assert {f"clearhead/builtin/skills/{name}/adapter.safetensors" for name in find_skills(stand_in)} <= names


def test_binary_files_are_binary_to_git():
    assert "*.safetensors binary" in (ROOT / ".gitattributes").read_text(encoding="utf-8")


def test_the_model_fits_into_30_mebibytes_and_has_its_card():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 30 * 2**20
    assert set(find_skills(FOLDER)) == {"entities", "inference", "questions", "sentiment", "similarity", "spam"}
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for part in (
        "Data",
        "How it was made",
        "Skills",
        "Figures",
        "Limits",
        "What it must not be used for",
        "How it leans",
    ):
        assert f"\n## {part}\n" in card
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".md", ".safetensors", ".svg"}
