"""What a release is checked for: `make release` does the rest, which takes minutes."""

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import clearhead
import release

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tracked(monkeypatch):
    monkeypatch.setattr(release, "run", lambda *_, **__: "src/clearhead/__init__.py\nsrc/clearhead/py.typed\n")


def wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as held:
        for name in names:
            held.writestr(name, "")
    return path


def test_a_good_wheel_has_nothing_wrong(tmp_path, tracked):
    names = ("clearhead/__init__.py", "clearhead/py.typed", "clearhead-0.1.0.dist-info/METADATA")
    assert release.wrong_in(wheel(tmp_path / "a.whl", *names)) == []


def test_what_a_wheel_should_not_hold_and_what_it_lacks_are_named(tmp_path, tracked):
    found = release.wrong_in(wheel(tmp_path / "a.whl", "clearhead/__init__.py", "clearhead/weights.bin", "tests/x.py"))
    assert found == ["holds tests/x.py", "holds clearhead/weights.bin", "lacks src/clearhead/py.typed"]


def test_what_an_sdist_lacks_is_named(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as held:
        for name in release.WANTED:
            if name != "Makefile":
                held.addfile(tarfile.TarInfo(f"clearhead-0.1.0/{name}"), io.BytesIO())
    assert release.wrong_in_source(tmp_path / "a.tar.gz") == ["lacks Makefile"]
    assert [name for name in release.WANTED if not (ROOT / name).is_file()] == []


def test_a_command_that_fails_ends_the_release(tmp_path):
    with pytest.raises(SystemExit, match="ended with 3"):
        release.run("bash", "-c", "exit 3", cwd=tmp_path)


def test_the_citation_names_the_version_and_the_licence():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert clearhead.__version__.startswith(cited["version"])
    assert cited["license"] == project["license"]


def test_workflows_call_targets_that_there_are():
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = [
        step["run"]
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert called
    for command in called:
        assert f"\n{command.removeprefix('make ')}:" in made
