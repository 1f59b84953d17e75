"""Nobody but this machine's user gets an answer, and text is never markup."""

import pytest
from starlette.testclient import TestClient

from clearhead.studio.security import MAX_BODY
from inside.models import small
from inside.pages import NASTY, Page
from studio.in_process import create_app


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8642", "", "0.0.0.0"]
)
def test_another_host_name_is_refused(client, host):
    response = client.get("/api/studio", headers={"host": host})
    assert response.status_code == 403
    assert "is not this machine" in response.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:9", "LOCALHOST"])
def test_this_machine_is_not(client, host):
    assert client.get("/api/studio", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_link_but_not_ask(client, site):
    headers = {"sec-fetch-site": site}
    assert client.get("/look/by-hand", headers=headers).status_code == 200
    for path in ("/api/look/by-hand", "/picture/by-hand", "/api/studio"):
        assert client.get(path, headers=headers).status_code == 403


def test_a_form_of_another_site_cannot_post(client):
    response = client.post("/api/use/fill", content="text=[MASK]", headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["error"][:26]) == (400, "the body is 'text/plain'; ")


@pytest.mark.parametrize("body", ["", "[1]", "{", "null", "[" * 100_000, '{"text": 1', b"\xff"])
def test_a_body_that_is_no_object_is_refused(client, body):
    response = client.post("/api/use/fill", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "send one object" in response.json()["error"]


def test_a_body_has_an_end(client):
    def endless():
        for _ in range(MAX_BODY // 1000 + 2):
            yield b" " * 1000

    response = client.post("/api/use/fill", content=endless(), headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert "send a part of the text" in response.json()["error"]


@pytest.mark.parametrize(
    "path", ["/", "/look/attention", "/api/studio", "/api/look/none", "/static/main.js", "/nowhere"]
)
def test_every_answer_has_a_strict_policy(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_failure_is_told_without_details_and_with_headers(folders, monkeypatch):
    monkeypatch.setattr("clearhead.studio.registry.parse", lambda fields, given: 1 / 0)
    client = TestClient(create_app(folders), base_url="http://localhost", raise_server_exceptions=False)
    response = client.get("/api/look/by-hand")
    assert response.status_code == 500
    assert response.json() == {"error": "the studio failed at this; its terminal says why"}
    assert "content-security-policy" in response.headers


@pytest.mark.parametrize("text", NASTY)
def test_hostile_text_is_json_or_a_fact(client, text):
    given = f"{text} bank [MASK]"
    answer = client.post("/api/use/fill", json={"text": given})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["text"] == given
    picture = client.get("/picture/input", params={"text": given})
    plain = client.get("/picture/input", params={"text": "bank [MASK]"})
    assert [tag for tag, _ in Page(picture.text).elements] == [tag for tag, _ in Page(plain.text).elements]
    refused = client.get("/picture/attention", params={"text": given, "model": text})
    assert [tag for tag, _ in Page(refused.text).elements].count("script") == 2
    assert repr(text) in Page(refused.text).facts["message"]


def test_a_hostile_folder_name_is_text(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    small().save(folder)
    client = TestClient(create_app([str(folder)]), base_url="http://localhost")
    assert client.get("/api/studio").json()["models"][0] == folder.name
    assert "onerror" not in client.get("/").text
    assert client.get("/api/model", params={"model": folder.name}).json()["name"] == folder.name


def test_static_files_ask_for_nothing_outside_and_write_no_markup():
    from importlib.resources import files

    for one in (files("clearhead.studio") / "static").iterdir():
        text = one.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (one.name, word)
        assert len(text.splitlines()) <= 200, one.name
