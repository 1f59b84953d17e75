"""What is installed: the wheel holds the built-in models, and they are no larger than a repository should carry."""

import shutil
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from clearhead.hub.remote import BOX, FOLDER
from clearhead.hub.skills import find_skills

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_model_with_its_skills(tmp_path, stand_in):
    root = tmp_path / "project"
    package = root / "src" / "clearhead"
    for name in BOX:
        shutil.copytree(stand_in, package / "builtin" / name)
        (package / "builtin" / name / "README.md").write_text("# card")
    shutil.copy(ROOT / "src" / "clearhead" / "__init__.py", package)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, root)
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path.relative_to(stand_in) for path in stand_in.rglob("*") if path.is_file()} | {Path("README.md")}
    assert {f"clearhead/builtin/{name}/{file}" for name in BOX for file in files} <= names
    assert {f"clearhead/builtin/encoder/skills/{name}/adapter.safetensors" for name in find_skills(stand_in)} <= names


def test_binary_files_are_binary_to_git():
    assert "*.safetensors binary" in (ROOT / ".gitattributes").read_text(encoding="utf-8")


def size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def test_the_box_holds_no_more_than_a_repository_should_carry():
    assert size(FOLDER) <= 60
    assert {path.name for path in FOLDER.iterdir()} <= set(BOX)
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".md", ".safetensors", ".svg"}


@pytest.mark.parametrize(("name", "most"), [("translator", 8), ("gpt", 8), ("bert", 5)])
def test_every_small_model_is_small_and_has_its_card(name, most):
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"this copy has no {name}")
    assert size(folder) <= most
    card = (folder / "README.md").read_text(encoding="utf-8")
    for part in ("Data", "How it was made", "Figures", "Limits"):
        assert f"\n## {part}\n" in card


def test_the_encoder_has_its_skills_and_its_card():
    folder = FOLDER / "encoder"
    assert set(find_skills(folder)) >= {"entities", "inference", "questions", "sentiment", "similarity", "spam"}
    card = (folder / "README.md").read_text(encoding="utf-8")
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
