"""How many files data crosses, and that docs/architecture.md names them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
JOURNEYS = ["answer", "pretrain", "raw", "look", "load"]


@pytest.fixture(scope="module")
def traced():
    # in a process of its own: what other tests have loaded, hooked or cached is on no journey
    script = [sys.executable, str(ROOT / "tests" / "routes.py"), "--json"]
    return json.loads(subprocess.run(script, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize("journey", JOURNEYS)
def test_data_crosses_few_files(traced, journey):
    files, target = traced[journey]["files"], traced[journey]["target"]
    assert len(files) > 5
    assert len(files) <= target, "\n".join(files)


@pytest.mark.parametrize("journey", JOURNEYS)
def test_the_documented_route_is_the_real_one(traced, journey):
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(rf"^```text routes: {journey}\n(\d+) files\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    again = "docs/architecture.md must hold what this prints: python tests/routes.py --markdown"
    assert found, again
    # as sets: a window may open while a thread is in the middle of its work
    assert {line.split()[0] for line in found[2].splitlines()} == set(traced[journey]["files"]), again
    assert int(found[1]) == len(traced[journey]["files"]), again


def test_every_journey_is_tested(traced):
    assert list(traced) == JOURNEYS
