"""The service from outside: every use equals the Python API, and what is wrong is said in one sentence."""

import asyncio
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import clearhead as ch
from clearhead.serve.app import Service, create_app
from clearhead.serve.settings import Settings
from clearhead.serve.work import Done, Work
from serve.in_process import InProcess

HOST = "http://127.0.0.1"
KEY = "a key of some length"


def served(**options) -> TestClient:
    settings = Settings(**options)
    return TestClient(create_app(settings, InProcess(settings)), base_url=HOST, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def box(writing_box: Path) -> Iterator[Path]:
    patch = pytest.MonkeyPatch()
    patch.setattr("clearhead.hub.remote.FOLDER", writing_box)
    yield writing_box
    patch.undo()


@pytest.fixture(scope="module")
def service(box: Path, folder: Path, tmp_path_factory) -> Iterator[TestClient]:
    index = tmp_path_factory.mktemp("index") / "notes"
    ch.load().index(["Dogs bark at night.", "The animal was tired, so it stopped."]).save(index)
    with served(models={"small": str(folder)}, indexes={"notes": str(index)}) as client:
        yield client


@pytest.fixture(scope="module")
def built_in_model(box: Path) -> ch.Model:
    return ch.load()


def close(found, wanted) -> None:
    """The same, up to rounding."""
    if isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-5)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for name in wanted:
            close(found[name], wanted[name])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            close(one, other)
    else:
        assert found == wanted


TEXT, OTHER = "The animal was tired.", "He sat on the bank of the river. " * 20
CASES = [
    ("fill", {"text": "a [MASK]", "top_k": 2}, lambda m: {"text": "a [MASK]", **m.fill("a [MASK]", top_k=2).to_dict()}),
    ("classify", {"text": TEXT}, lambda m: {"text": TEXT, **m.classify(TEXT).to_dict()}),
    (
        "classify",
        {"text": [TEXT, OTHER], "model": "built-in:spam", "top_k": 1},
        lambda m: [{"text": one, **m.classify(one, skill="spam", top_k=1).to_dict()} for one in (TEXT, OTHER)],
    ),
    (
        "zero-shot",
        {"text": TEXT, "labels": ["animals", "money"]},
        lambda m: {"text": TEXT, **m.zero_shot(TEXT, ["animals", "money"]).to_dict()},
    ),
    (
        "compare",
        {"first": TEXT, "second": OTHER},
        lambda m: {"first": TEXT, "second": OTHER, **m.compare(TEXT, OTHER).to_dict()},
    ),
    (
        "follows",
        {"first": TEXT, "second": [OTHER, TEXT]},
        lambda m: [{"first": TEXT, "second": one, **m.follows(TEXT, one).to_dict()} for one in (OTHER, TEXT)],
    ),
    ("tag", {"text": TEXT}, lambda m: {"text": TEXT, **m.tag(TEXT).to_dict()}),
    (
        "answer",
        {"question": "Who?", "context": OTHER},
        lambda m: {"question": "Who?", "context": None, **m.answer("Who?", OTHER).to_dict()},
    ),
    (
        "rerank",
        {"query": "who?", "passages": [TEXT, OTHER]},
        lambda m: {"query": "who?", "results": [one.to_dict() for one in m.rerank("who?", [TEXT, OTHER])]},
    ),
    (
        "search",
        {"query": "who?", "documents": [TEXT, OTHER], "top_k": 2},
        lambda m: {"query": "who?", "results": [one.to_dict() for one in m.search("who?", [TEXT, OTHER], top_k=2)]},
    ),
    (
        "summarise",
        {"text": f"{TEXT} {OTHER}", "sentences": 1},
        lambda m: {"source": None, **m.summarise(f"{TEXT} {OTHER}", sentences=1).to_dict()},
    ),
    (
        "translate",
        {"text": "Ein Hund bellt.", "src_lang": "de", "tgt_lang": "en", "num_beams": 2},
        lambda m: _translated("Ein Hund bellt."),
    ),
    ("generate", {"text": "be alert", "max_new_tokens": 5}, lambda m: _generated("be alert")),
]


def _translated(text: str) -> dict[str, object]:
    found = ch.load("builtin:translator").translate(text, src_lang="de", tgt_lang="en", num_beams=2)
    return {"source": text, "translation": found.text, "parts": [one.to_dict() for one in found.parts]}


def _generated(text: str) -> dict[str, object]:
    return {"prompt": text, **ch.load("builtin:gpt").generate(text, max_new_tokens=5).to_dict()}


@pytest.mark.parametrize(
    ("use", "body", "wanted"), CASES, ids=[f"{use} {place}" for place, (use, _, _) in enumerate(CASES)]
)
def test_a_use_over_http_equals_the_python_api(service, built_in_model, use, body, wanted):
    found = service.post(
        f"/v1/{use}", json={"model": "built-in", **body} if use not in ("translate", "generate") else body
    )
    assert found.status_code == 200, found.text
    close(found.json(), json.loads(json.dumps(wanted(built_in_model))))


def test_vectors_are_exact(service, built_in_model):
    found = service.post("/v1/embed", json={"text": [TEXT, OTHER], "model": "built-in"}).json()
    np.testing.assert_allclose([one["vector"] for one in found], built_in_model.embed([TEXT, OTHER]), atol=1e-5)


def test_a_choice(service):
    small = service.post("/v1/choose", json={"context": TEXT, "candidates": ["it ran.", "it slept."], "model": "small"})
    assert small.status_code == 200, small.text
    assert small.json()["index"] in (0, 1)


def test_an_index_is_searched_and_asked(service):
    body = {"query": "tired animal", "index": "notes", "top_k": 1, "model": "built-in"}
    found = service.post("/v1/search", json=body)
    assert found.status_code == 200, found.text
    assert len(found.json()["results"]) == 1
    asked = service.post("/v1/answer", json={"question": "Who?", "index": "notes", "model": "built-in"})
    assert asked.status_code == 200, asked.text
    assert service.post("/v1/search", json={**body, "index": "nothing"}).status_code == 404


def test_what_is_given_comes_before_the_built_in_model(service):
    """TEI's clients name no model; the one that the service was started with is meant where it can do it."""
    models = service.get("/v1/models").json()["data"]
    assert {"small", "built-in", "built-in:spam", "built-in:translator", "built-in:gpt"} <= {
        one["id"] for one in models
    }
    assert len(service.post("/embed", json={"inputs": "a"}).json()[0]) == 32
    assert service.post("/v1/classify", json={"text": "good"}).json()["label"] in ("negative", "positive")


def test_an_unknown_model_is_never_the_base(service):
    for name in ("nothing", "built-in:nothing", "built-in:spam:more", "../small", ""):
        found = service.post("/v1/classify", json={"text": "a", "model": name})
        assert found.status_code == 404, (name, found.text)
        assert found.json()["error"]["code"] == "model_not_found"
    assert (
        "did you mean built-in:spam?" in service.post("/v1/classify", json={"text": "a", "model": "built-in:spm"}).text
    )
    assert service.post("/v1/classify", json={"text": "a", "model": "builtin:encoder"}).status_code == 200


def test_a_model_without_the_head_says_what_it_can(service):
    found = service.post("/v1/tag", json={"text": "a", "model": "small"})
    assert found.status_code == 422
    assert "it has no 'tags' head; it can fill" in found.json()["error"]["message"]


BAD = [
    (b"{", 422, "no JSON"),
    (b"[1]", 422, "send one object"),
    (b"null", 422, "send one"),
    (b'{"text": 1}', 422, "text"),
    (b'{"text": "a", "tpo_k": 1}', 422, "did you mean top_k"),
    (b'{"text": []}', 422, "text"),
    (b'{"text": "\\ud800"}', 422, "no JSON"),
    (b'{"text": "a", "top_k": 0}', 422, "top_k"),
    (b'{"text": "a", "x": ' + b"[" * 100 + b"]" * 100 + b"}", 422, "nested"),
    (b"[" * 100_000, 422, "nested"),
    (b'{"text": "' + b"a" * 2_000_001 + b'"}', 413, "2000000 bytes"),
]


@pytest.mark.parametrize(("body", "status", "said"), BAD, ids=range(len(BAD)))
def test_what_cannot_be_understood_is_said(service, body, status, said):
    found = service.post("/v1/classify", content=body, headers={"content-type": "application/json"})
    assert found.status_code == status, found.text
    assert said in found.json()["error"]["message"]


def test_other_bodies_paths_and_methods(service):
    assert service.post("/v1/classify", content="a", headers={"content-type": "text/plain"}).status_code == 415
    assert service.get("/v1/classify").status_code == 405
    assert service.post("/v1/nothing", json={}).status_code == 404
    assert service.get("/v1/models/nothing").status_code == 404
    assert service.post("/models/built-in/pipeline/nothing", json={"inputs": "a"}).status_code == 404


def test_a_deadline_is_kept(service):
    found = service.post("/v1/tag", json={"text": [OTHER] * 50, "model": "built-in"}, headers={"x-timeout-ms": "1"})
    assert found.status_code in (504, 429), found.text
    wrong = service.post("/v1/tag", json={"text": "a"}, headers={"x-timeout-ms": "soon"})
    assert wrong.status_code == 422
    assert "x-timeout-ms" in wrong.json()["error"]["message"]


def test_where_the_time_went_is_told(service):
    headers = service.post("/v1/classify", json={"text": TEXT}).headers
    assert int(headers["x-compute-tokens"]) > 3
    for name in ("x-total-time", "x-queue-time", "x-inference-time", "x-tokenization-time"):
        assert int(headers[name]) >= 0
    assert headers["cache-control"] == "no-store"


def test_a_request_keeps_its_name(service, caplog):
    caplog.set_level("INFO", "clearhead.serve")
    found = service.post("/v1/classify", json={"text": TEXT}, headers={"x-request-id": "abc 1"})
    assert found.headers["x-request-id"] == "abc 1"
    assert "request_id=abc 1" in caplog.text
    wrong = service.post("/v1/classify", json={"text": TEXT}, headers={"x-request-id": "a" * 200})
    assert "x-request-id" not in wrong.headers


def test_a_cut_is_told_and_a_refusal_is_one(service):
    long = "the animal was tired " * 60
    cut = service.post(
        "/embed", json={"inputs": long, "truncate": True, "truncation_direction": "Left", "model": "small"}
    )
    assert cut.headers["x-truncated"] == "1"
    whole = service.post("/embed", json={"inputs": long, "model": "small"})
    assert "x-truncated" not in whole.headers
    assert whole.json() != cut.json()
    assert service.post("/embed", json={"inputs": long, "truncate": False, "model": "small"}).status_code in (413, 422)


def test_health_metrics_and_pages(service):
    service.post("/v1/classify", json={"text": TEXT})
    for path in ("/health", "/", "/ping", "/ready"):
        assert service.get(path).status_code == 200
    text = service.get("/metrics").text
    assert 'clearhead_requests_total{status="200",use="classify"}' in text
    assert "te_request_success" in text
    assert "clearhead_rejected_total" in text
    document = service.get("/openapi.json").json()
    assert "/v1/embeddings" in document["paths"]
    page = service.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "/v1/classify" in page.text


def test_text_is_streamed(service):
    body = {"model": "built-in:gpt", "prompt": "be alert", "max_tokens": 5, "temperature": 0, "stream": True}
    with service.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    text = "".join(choice["text"] for line in lines[:-1] for choice in json.loads(line)["choices"])
    assert text == ch.load("builtin:gpt").generate("be alert", max_new_tokens=5, num_beams=1).text
    wrong = service.post("/v1/completions", json={**body, "model": "small"})
    assert wrong.status_code >= 400
    assert "error" in wrong.json()


def test_openai_vectors_are_base64_and_counted(service, built_in_model):
    import base64

    body = {"model": "built-in", "input": [TEXT, OTHER], "encoding_format": "base64"}
    found = service.post("/v1/embeddings", json=body).json()
    rows = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in found["data"]]
    np.testing.assert_allclose(rows, built_in_model.embed([TEXT, OTHER]), atol=1e-5)
    assert found["usage"]["prompt_tokens"] > 100


# ---- who may come in, and how many --------------------------------------------------------------------------------


def test_a_key_is_needed_where_there_is_one(box):
    with served(api_keys=(KEY, "another of them")) as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer "}, {"x-api-key": KEY[:-1]}):
            found = client.post("/v1/fill", json={"text": "a [MASK]"}, headers=headers)
            assert found.status_code == 401
            assert found.headers["www-authenticate"] == "Bearer"
        for headers in ({"authorization": f"Bearer {KEY}"}, {"authorization": KEY}, {"x-api-key": "another of them"}):
            assert client.post("/v1/fill", json={"text": "a [MASK]"}, headers=headers).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/v1/models").status_code == 401
        assert client.post("/", json={"inputs": "a"}).status_code == 401  # where TEI's clients send their work


def test_other_hosts_and_other_sites_are_refused(service):
    body = {"text": "a [MASK]", "model": "small"}
    assert service.post("/v1/fill", json=body, headers={"host": "evil.example"}).status_code == 403
    found = service.post("/v1/fill", json=body, headers={"origin": "https://evil.example"})
    assert found.status_code == 403
    assert "access-control-allow-origin" not in found.headers
    assert service.post("/v1/fill", json=body, headers={"origin": HOST}).status_code == 200


def test_sites_that_are_named_may_ask(box):
    with served(cors_origins=("https://good.example",)) as client:
        origin = {"origin": "https://good.example"}
        asked = {**origin, "access-control-request-method": "POST"}
        before = client.options("/v1/fill", headers=asked)
        assert before.status_code == 204
        assert "authorization" in before.headers["access-control-allow-headers"]
        found = client.post("/v1/fill", json={"text": "a [MASK]"}, headers=origin)
        assert found.headers["access-control-allow-origin"] == "https://good.example"
        assert (
            client.post("/v1/fill", json={"text": "a [MASK]"}, headers={"origin": "https://e.example"}).status_code
            == 403
        )


def test_a_full_queue_refuses_lists_and_single_texts_alike(box):
    with served(max_queue_tokens=200) as client:
        assert client.post("/v1/classify", json={"text": ["a"] * 10}).status_code == 200
        large = client.post("/v1/classify", json={"text": ["some words here"] * 100})
        assert large.status_code == 413
        assert "send it in parts" in large.json()["error"]["message"]
        lane = client.app._backend.engine._reading  # type: ignore[attr-defined]
        lane.tokens += 195
        full = client.post("/v1/classify", json={"text": "some words that do not fit any more"})
        assert full.status_code == 429
        assert int(full.headers["retry-after"]) >= 1
        assert "ask again in" in full.json()["error"]["message"]
        assert client.get("/ready").status_code == 200  # busy, not broken
        lane.tokens -= 195
        assert client.post("/v1/classify", json={"text": "some words"}).status_code == 200
        assert lane.tokens == 0


def test_while_draining_nothing_is_taken(box):
    with served() as client:
        client.app.draining = True  # type: ignore[attr-defined]
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
        found = client.post("/v1/classify", json={"text": "a"})
        assert found.status_code == 503
        assert found.headers["retry-after"] == "1"


class Slow:
    """A backend that answers when it is told to."""

    ready, catalogue = True, None

    def __init__(self) -> None:
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def perform(self, work: Work, *, client: str, timeout: float) -> Done:
        self.asked.set()
        await self.may.wait()
        return Done(results=[{"label": "a", "score": 1.0, "scores": {"a": 1.0}}], model="m")


def test_draining_waits_for_what_is_being_answered_but_not_longer_than_the_grace():
    async def ask(service: Service) -> int:
        scope = {"type": "http", "method": "POST", "path": "/v1/classify", "query_string": b"", "http_version": "1.1"}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("localhost", 1)}
        parts = iter([{"type": "http.request", "body": b'{"text": "a"}', "more_body": False}])
        found: list[int] = []

        async def receive() -> dict:
            return next(parts, None) or await asyncio.Event().wait()

        async def send(message: dict) -> None:
            found.append(message.get("status", 0))

        await service(scope, receive, send)
        return found[0]

    async def life() -> None:
        backend = Slow()
        service = create_app(Settings(grace=30), backend)  # type: ignore[arg-type]
        asked = asyncio.ensure_future(ask(service))
        await backend.asked.wait()
        draining = asyncio.ensure_future(service.drain())
        await asyncio.sleep(0.05)
        assert not draining.done()
        assert await ask(service) == 503
        backend.may.set()
        await draining
        assert await asked == 200

        backend = Slow()
        service = create_app(Settings(grace=0.05), backend)  # type: ignore[arg-type]
        asked = asyncio.ensure_future(ask(service))
        await backend.asked.wait()
        await service.drain()
        assert not asked.done()
        asked.cancel()

    asyncio.run(life())


def test_logs_have_no_texts_unless_asked(box, caplog):
    caplog.set_level("INFO", "clearhead.serve")
    secret = "my secret text"
    with served(log_format="json") as client:
        client.post("/v1/classify", json={"text": secret})
    facts = json.loads(caplog.records[-1].message)
    assert (facts["status"], facts["use"], facts["items"]) == (200, "classify", 1)
    assert secret not in caplog.text
    with served(log_texts=True) as client:
        client.post("/v1/classify", json={"text": secret})
    assert secret in caplog.text
