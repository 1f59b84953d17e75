"""`clearhead serve --studio`: one application has the uses for programs and the studio for browsers."""

import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from clearhead.errors import BadInput
from clearhead.serve.app import DIALECTS, create_app
from clearhead.serve.settings import Settings
from clearhead.serve.work import Catalogue, Refusal
from clearhead.studio import app as studio
from clearhead.studio.pages import ENTRIES
from clearhead.studio.security import POLICY
from serve.test_process import running
from studio.in_process import InProcess
from studio.test_worker import HAS_PROC, alive, children

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Idle:
    """A backend of the service of which nobody asks anything."""

    ready = True
    catalogue = Catalogue(models=[], default={})

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def perform(self, work, *, client, timeout):
        raise Refusal("unavailable", "nothing is done here")

    def stream(self, work, *, client, timeout):
        raise Refusal("unavailable", "nothing is done here")


class Noting(InProcess):
    """A backend of the studio that notes when it starts and ends."""

    def __init__(self, models: Sequence[str] | Mapping[str, str]) -> None:
        super().__init__(models, [])
        self.noted: list[str] = []

    async def start(self) -> None:
        self.noted.append("start")

    async def stop(self) -> None:
        self.noted.append("stop")


@pytest.fixture
def both(folders):
    models = {"mine": folders[0]}
    settings = Settings(models=models, studio=True)
    beside = studio.create_app(models, hosts=settings.allowed_hosts, backend=Noting(models))
    return TestClient(create_app(settings, Idle(), [beside]), base_url="http://localhost")


def test_a_browser_gets_the_studio_and_a_program_the_health(both):
    assert both.get("/").json() == {"status": "ok"}
    for path in ("/", "/studio", *ENTRIES):
        page = both.get(path, headers=BROWSER)
        assert page.text.startswith("<!doctype html>"), path
        assert page.headers["content-security-policy"] == POLICY
    assert both.post("/", json={"inputs": "a"}, headers=BROWSER).json() != {"status": "ok"}  # TEI's own
    assert both.get("/docs", headers=BROWSER).headers["content-security-policy"] != POLICY


def test_the_studio_has_the_models_of_the_service(both):
    assert both.get("/api/studio").json()["models"][0] == "mine"
    assert both.get("/api/model").json()["name"] == "mine"
    found = both.post("/api/use/fill", json={"text": "the [MASK] was tired", "model": "mine"})
    assert len(found.json()["predictions"]) == 5
    picture = both.get("/picture/attention", params={"text": "the animal"})
    assert picture.headers["content-security-policy"] == "frame-ancestors 'self'"


def test_what_is_wrong_is_told_as_each_of_them_does(both):
    assert both.get("/api/use/fill").json() == {"error": "'Text' is empty; give text"}
    assert both.get("/static/none").json() == {"error": "there is no file 'none' here"}
    assert both.get("/nowhere", headers=BROWSER).status_code == 404
    assert "there is nothing at /nowhere" in both.get("/nowhere", headers=BROWSER).text
    assert both.get("/v1/embed").status_code == 405
    assert both.get("/api/studio", headers={"host": "evil.example"}).status_code == 403
    assert both.get("/api/studio", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert both.get("/studio", headers={"host": "evil.example", **BROWSER}).status_code == 403


def test_no_path_of_a_client_is_the_studios():
    taken = [Route(path, studio.Studio) for path in studio.Studio.paths if path != "/"]
    for dialect in DIALECTS:
        for path in [*(post.path for post in dialect.posts), *(get.path for get in dialect.gets)]:
            asked = re.sub("{.*?}", "any", path)
            assert not [route.path for route in taken if route.path_regex.match(asked)], path


def test_it_lives_as_long_as_the_service(folders):
    backend = Noting(folders[:1])
    beside = studio.create_app(folders[:1], backend=backend)
    with TestClient(create_app(Settings(studio=True), Idle(), [beside])):
        assert backend.noted == ["start"]
    assert backend.noted == ["start", "stop"]


def test_keys_and_the_studio_do_not_go_together():
    with pytest.raises(BadInput, match="a browser, which sends no API key; leave out --studio, or the keys"):
        Settings(studio=True, api_keys=("a key of some length",))


@pytest.mark.skipif(not HAS_PROC, reason="the workers are found by Linux's /proc")
def test_a_life_of_both(folders):
    with running("--studio", "--model", f"mine={folders[0]}", "--no-preload") as service:
        status, found = service.ask("/v1/fill", {"text": "the [MASK] was tired", "model": "mine"})
        assert status == 200
        drawn = service.ask("/api/use/fill", {"text": "the [MASK] was tired", "model": "mine"})[1]
        words = [[one["token"] for one in answer["predictions"]] for answer in (found, drawn)]
        assert words[0] == words[1]
        request = urllib.request.Request(f"{service.url}/", headers=BROWSER)
        with urllib.request.urlopen(request) as page:
            assert page.read().startswith(b"<!doctype html>")
        assert service.ask("/health")[0] == 200
        workers = children(service.process.pid)
        assert len(workers) == 3  # the service's, the studio's, and the one that would be the studio's next
        assert service.end() == 0
        assert not any(map(alive, workers))
