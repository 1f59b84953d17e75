import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import jsonschema
import msgspec
import pytest
from openapi_spec_validator import validate

from clearhead.serve.dialects.cohere import COHERE
from clearhead.serve.dialects.dialect import Call, Dialect, Get, Post, openai_error
from clearhead.serve.dialects.huggingface import HUGGINGFACE
from clearhead.serve.dialects.jina import JINA
from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.dialects.openai import OPENAI
from clearhead.serve.dialects.tei import TEI
from clearhead.serve.docs_page import docs_page, docs_policy
from clearhead.serve.openapi import document
from clearhead.serve.work import Refusal, Work

ALL = (NATIVE, OPENAI, COHERE, JINA, TEI, HUGGINGFACE)


def made(*dialects, secured=False):
    """As a client reads it."""
    return json.loads(msgspec.json.encode(document(dialects, title="clearhead", version="1.2.3", secured=secured)))


@pytest.fixture(scope="module")
def whole():
    return made(*ALL, secured=True)


class Ping(msgspec.Struct):
    """One text."""

    ping: str


class Pong(msgspec.Struct):
    """Many texts."""

    pong: list[str]
    stream: bool = False


def ping(content, params):
    return Call(Work(use="embed", items=[content["ping"]]), lambda done: done.results)


FIRST = Dialect(
    "first",
    [Post("/x/{model:path}", ping, Ping, "Sends a ping.", {"ping": "a"})],
    [Get("/tell/{name}", lambda catalogue, params: [], "Tells.")],
    openai_error,
)
SECOND = Dialect(
    "The Second",
    [
        Post("/x/{model}", ping, Pong, "Sends a pong.", {"pong": ["a"]}),
        Post("/x/{model}", ping, Pong, "Sends two.", {"pong": ["a", "b"]}),
    ],
    [Get("/health", lambda catalogue, params: {}, "Is it there?")],
    lambda refusal: (400 if refusal.reason == "invalid" else refusal.status, {"message": refusal.message}),
)


@pytest.mark.parametrize("secured", [True, False])
@pytest.mark.parametrize("dialects", [(), (NATIVE,), ALL, (FIRST, SECOND)])
def test_the_document_is_valid(dialects, secured):
    validate(made(*dialects, secured=secured))


def test_every_route_is_there(whole):
    for dialect in ALL:
        for post in dialect.posts:
            path = re.sub(r":\w+}", "}", post.path)
            assert dialect.name in whole["paths"][path]["post"]["tags"]
        for get in dialect.gets:
            assert "get" in whole["paths"][re.sub(r":\w+}", "}", get.path)]
    assert {"/health", "/ready", "/metrics"} <= whole["paths"].keys()
    names = [one["operationId"] for item in whole["paths"].values() for one in item.values()]
    assert len(names) == len(set(names))


def schema_of(whole, path):
    content = whole["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    schema = {**content["schema"], "components": whole["components"]}
    return jsonschema.Draft202012Validator(schema), content["examples"]


def test_every_post_has_an_example_that_fits_its_schema(whole):
    counted = 0
    for path, item in whole["paths"].items():
        if "post" in item:
            schema, examples = schema_of(whole, path)
            for one in examples.values():
                schema.validate(one["value"])
            counted += len(examples)
    assert counted == sum(len(dialect.posts) for dialect in ALL)


@pytest.mark.parametrize(
    ("use", "body"),
    [
        ("classify", {}),
        ("classify", {"text": []}),
        ("classify", {"text": "a", "top_k": 0}),
        ("classify", {"text": "a", "top": 1}),
        ("classify", {"text": [["a"]]}),
        ("fill", {"text": " "}),
        ("zero-shot", {"text": "a", "labels": []}),
        ("answer", {"question": "a", "context": "b", "threshold": "often"}),
        ("generate", {"text": "a", "temperature": 0}),
        ("tag", {"text": "a", "aggregation_strategy": "none"}),
    ],
)
def test_what_the_schema_refuses_is_refused(use, body):
    schema, _ = schema_of(made(NATIVE), f"/v1/{use}")
    assert not schema.is_valid(body)
    (post,) = (post for post in NATIVE.posts if post.path == f"/v1/{use}")
    with pytest.raises(Refusal):
        post.read(body, {})


def test_names_that_are_alike_are_told_apart_without_a_path(whole):
    names = whole["components"]["schemas"]
    assert {"native_requests.RerankRequest", "tei.RerankRequest"} <= names.keys()
    assert not any("clearhead" in name for name in names)
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(whole)))
    assert references == set(names)


def test_a_shared_path_takes_the_body_of_either():
    found = made(FIRST, SECOND)["paths"]["/x/{model}"]["post"]
    content = found["requestBody"]["content"]["application/json"]
    references = [{"$ref": "#/components/schemas/Ping"}, {"$ref": "#/components/schemas/Pong"}]
    assert content["schema"] == {"anyOf": references}
    assert content["examples"] == {
        "first": {"summary": "Sends a ping.", "value": {"ping": "a"}, "x-dialect": "first"},
        "the-second": {"summary": "Sends a pong.", "value": {"pong": ["a"]}, "x-dialect": "The Second"},
        "the-second-2": {"summary": "Sends two.", "value": {"pong": ["a", "b"]}, "x-dialect": "The Second"},
    }
    assert found["tags"] == ["first", "The Second"]
    assert found["description"] == "Sends a ping. Sends a pong. Sends two."
    assert found["parameters"][0]["name"] == "model"
    assert set(found["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}


def test_errors_are_those_of_the_dialects():
    found = made(FIRST, SECOND, secured=True)
    responses = found["paths"]["/x/{model}"]["post"]["responses"]
    statuses = "200 400 401 403 404 408 413 415 422 429 500 503 504"
    assert sorted(responses) == statuses.split()
    bad = found["components"]["responses"]["first-the-second-post-400"]
    assert list(bad["content"]["application/json"]["examples"]) == ["the-second-invalid"]
    told = found["components"]["responses"]["first-the-second-post-429"]
    assert "retry-after" in told["headers"]
    example = told["content"]["application/json"]["examples"]["first-overloaded"]["value"]
    assert example["error"]["code"] == "rate_limit_exceeded"
    assert sorted(found["paths"]["/tell/{name}"]["get"]["responses"]) == ["200", "401", "403", "404", "500", "503"]


def test_a_key_is_asked_for_where_one_is_needed():
    found = made(FIRST, secured=True)
    assert found["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    assert found["security"] == [{"key": []}]
    assert found["paths"]["/health"]["get"]["security"] == []
    plain = made(FIRST)
    assert "security" not in plain
    assert "401" not in plain["paths"]["/x/{model}"]["post"]["responses"]


def test_the_services_own_health_goes_before_a_dialects():
    assert made(SECOND)["paths"]["/health"]["get"]["tags"] == ["service"]


class Read(HTMLParser):
    """The parts of the page that tests look at."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.bodies, self.curls, self.within = [], [], [], None
        self.texts = {"style": "", "script": ""}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "textarea":
            self.bodies.append("")
        self.within = "curl" if dict(attrs).get("class") == "curl" else tag

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        if self.within in self.texts:
            self.texts[self.within] += data
        elif self.within == "textarea":
            self.bodies[-1] += data
        elif self.within == "curl":
            self.curls.append(data)


def test_the_page_shows_every_route_with_its_example(whole):
    page = Read(docs_page(whole))
    routes = [attrs for tag, attrs in page.tags if tag == "details"]
    posts = [(post.path, dict(post.example)) for dialect in ALL for post in dialect.posts]
    shown = [route["data-path"] for route in routes if route["data-method"] == "POST"]
    assert sorted(shown) == sorted(re.sub(r":\w+}", "}", path) for path, _ in posts)
    bodies = [json.dumps(json.loads(body), sort_keys=True) for body in page.bodies]
    assert sorted(bodies) == sorted(json.dumps(example, sort_keys=True) for _, example in posts)
    assert len(page.curls) == len(routes)
    assert "/ready" in [route["data-path"] for route in routes]
    sections = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert sections == [*(dialect.name for dialect in ALL), "service"]


def test_a_curl_line_can_be_taken_to_a_terminal():
    example = {"ping": "it's <b>"}
    one = Dialect("d", [Post("/x/{model}", ping, Ping, "About.", example)], [], openai_error)
    plain = [line for line in Read(docs_page(made(one))).curls if "/x/" in line]
    body = """-H 'content-type: application/json' -d '{"ping": "it'\\''s <b>"}'"""
    assert plain == [f"curl 'http://127.0.0.1:8643/x/built-in' {body}"]
    secured = Read(docs_page(made(one, secured=True))).curls
    key = '-H "authorization: Bearer $CLEARHEAD_API_KEY"'
    assert secured[0] == f"curl 'http://127.0.0.1:8643/x/built-in' {key} {body}"
    assert secured[1] == "curl 'http://127.0.0.1:8643/health'"


def test_the_page_runs_its_own_script_and_nothing_else(whole):
    page = Read(docs_page(whole))
    policy = docs_policy()
    for kind, text in page.texts.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
        assert [tag for tag, _ in page.tags].count(kind) == 1
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for _, attrs in page.tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attrs)
    links = [attrs["href"] for tag, attrs in page.tags if "href" in attrs]
    assert all(link.startswith("#") or link == "openapi.json" for link in links)


def test_what_an_example_holds_is_text():
    wild = {"ping": "</textarea><script>alert(1)</script>"}
    one = Dialect('d"<i>', [Post("/x", ping, Ping, "<b>About</b>", wild)], [], openai_error)
    page = Read(docs_page(made(one)))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "b" not in [tag for tag, _ in page.tags]
    assert "i" not in [tag for tag, _ in page.tags]
    assert json.loads(page.bodies[0]) == wild


@pytest.mark.parametrize("secured", [True, False])
def test_there_is_a_field_for_a_key_where_one_is_needed(secured):
    fields = [attrs for tag, attrs in Read(docs_page(made(FIRST, secured=secured))).tags if tag == "input"]
    assert any(attrs.get("id") == "key" for attrs in fields) == secured
