"""The examples of docs/serving.md are requests that the service understands, and the answers are its own."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clearhead.serve.dialects.dialect import Call
from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.perform import perform
from clearhead.serve.registry import Registry
from clearhead.serve.settings import Settings
from clearhead.serve.work import Done, Use

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^curl -s \S+?(/v1/[\w-]+) --json '(.*)'\n(\{.*\})?", PAGE, re.MULTILINE)
ANSWERED = [example for example in EXAMPLES if example[2]]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(Settings())


def read(path: str, body: str) -> Call:
    content = json.loads(body)
    (post,) = [post for post in NATIVE.posts if post.path == path and post.takes(content)]
    return post.read(content, {})


def shortened(value: Any) -> Any:
    """The same with numbers as the page has them."""
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in value]
    return pytest.approx(value, abs=6e-4) if isinstance(value, float) else value


def test_every_use_has_an_example():
    shown = {path.removeprefix("/v1/") for path, _, _ in EXAMPLES}
    assert shown == {post.path.removeprefix("/v1/") for post in NATIVE.posts}
    assert shown <= set(msgspec.inspect.type_info(Use).values)


@pytest.mark.parametrize(("path", "body", "shown"), EXAMPLES)
def test_every_example_is_understood(path, body, shown):
    assert read(path, body).work.use == path.removeprefix("/v1/")


@pytest.mark.parametrize(("path", "body", "shown"), ANSWERED)
def test_answers_are_those_of_the_built_in_models(registry, path, body, shown):
    call = read(path, body)
    model, name = registry.model(call.work.model, call.work.use)
    results = perform(model, call.work, registry.index)
    said = json.loads(msgspec.json.encode(call.answer(Done(results=results, model=name))))
    assert json.loads(shown) == shortened(said)
    assert list(json.loads(shown)) == list(said)
