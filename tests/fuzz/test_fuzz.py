"""A short fuzz of every target, and every find of the long ones again."""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError
from fuzz.targets import Bench

FINDS = json.loads(Path(__file__).with_name("finds.json").read_text(encoding="utf-8"))
TARGETS = ("config", "weights", "tokenizer", "skill", "index", "sentence", "state", "strings", "data", "studio")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    found = Bench(tmp_path_factory.mktemp("bench"))
    yield found
    found.close()


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_own_errors(bench, name):
    target = bench.targets[name]
    for place in range(3 if name == "strings" else 40):
        case = target.draw(random.Random(f"here/{name}/{place}"))
        assert json.loads(json.dumps(case)) == case
        with suppress(ClearheadError):
            target.run(case)


def test_a_seed_draws_the_same_case(bench):
    for target in bench.targets.values():
        first, again = (target.draw(random.Random("0")) for _ in range(2))
        assert first == again


@pytest.mark.parametrize("find", FINDS, ids=[find["what"] for find in FINDS])
def test_what_was_found_before(bench, find):
    try:
        bench.targets[find["target"]].run(find["case"])
    except ClearheadError as error:
        assert "\n" not in str(error)  # noqa: PT017 – what was mended may be accepted now
