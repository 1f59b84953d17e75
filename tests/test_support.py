"""docs/support.md: old names go when they were promised to, and every place names the same versions."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

import clearhead
import release
from clearhead.cli.options import RENAMED, SWITCHES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def promised() -> dict[tuple[str, str], str]:
    """Old and new name, and the version with which the old one goes."""
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| [^|]+ \| (\d+\.\d+\.\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == len({row[:2] for row in rows})
    return {(old, new): version for old, new, version in rows}


def renamed_keywords() -> Iterator[tuple[str, str]]:
    """What `@renamed(old="new")` says anywhere in the package."""
    for path in sorted((ROOT / "src" / "clearhead").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tables = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "renamed":
                    for keyword in call.keywords:
                        value = keyword.value if keyword.arg else tables[ast.unparse(keyword.value)]
                        found = ast.literal_eval(value)
                        yield from found.items() if keyword.arg is None else [(keyword.arg, found)]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def test_every_old_name_is_in_the_table_and_all_of_the_table_is_still_read():
    in_code = {*renamed_keywords(), *RENAMED.items(), *SWITCHES.items()}
    assert ("top", "top_k") in in_code
    assert set(promised()) == in_code


def test_no_old_name_has_outlived_its_version():
    late = {
        old: version for (old, _), version in promised().items() if numbers(version) <= numbers(clearhead.__version__)
    }
    assert late == {}, "these names were to go with this version: take them out of the code and of docs/support.md"
    assert all(version.endswith(".0") for version in promised().values()), "a PATCH takes nothing away"


def test_every_place_names_the_same_pythons():
    supported = re.search(r"^\| Python \| ([\d., ]+) \|", PAGE, re.MULTILINE)[1].split(", ")
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", one)]
    assert supported == named == list(release.PYTHONS) == ci()["python"]
    assert PROJECT["requires-python"] == f">={supported[0]}"


def test_every_place_names_the_same_torch():
    supported = re.search(r"^\| torch \| ([\d., ]+) \|", PAGE, re.MULTILINE)[1].split(", ")
    oldest, newest = supported[0], supported[-1]
    above = f"{newest.partition('.')[0]}.{int(newest.partition('.')[2]) + 1}"
    assert f"torch>={oldest},<{above}" in PROJECT["dependencies"]
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^TORCH \?= torch==(\d+\.\d+)", made, re.MULTILINE)[1] == newest
    assert release.TORCH.startswith("torch==")
    tried = [*ci()["torch"], *(one["torch"] for one in ci()["include"])]
    assert {one.rpartition(".")[0] for one in tried} == {oldest, newest}
    assert f"torch {oldest} to {newest}" in (ROOT / "README.md").read_text(encoding="utf-8")


def ci() -> dict[str, list]:
    """The matrix of the tests on GitHub."""
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    return flow["jobs"]["test"]["strategy"]["matrix"]


def test_the_newest_changes_are_of_this_version_or_to_come():
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert first == "Unreleased" or numbers(first) == numbers(clearhead.__version__)
