"""The studio listens on this machine alone, at a port that is free."""

import socket

import pytest

from clearhead.errors import BadInput
from clearhead.studio import serve


@pytest.fixture
def taken():
    with socket.socket() as other:
        other.bind((serve.HOST, 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_taken_port_is_one_sentence(taken):
    with pytest.raises(BadInput, match=f"port {taken} cannot be used .*; choose another with --port"):
        serve._listen(taken)


def test_a_port_that_does_not_exist_is_one_sentence():
    with pytest.raises(BadInput, match="port 99999 cannot be used"):
        serve._listen(99999)


def test_the_usual_port_gives_way(taken, monkeypatch):
    monkeypatch.setattr(serve, "PORT", taken)
    with serve._listen(None) as door:
        host, port = door.getsockname()
    assert host == "127.0.0.1"
    assert port != taken


def test_it_tells_its_address_opens_the_browser_and_serves(folders, monkeypatch):
    told, opened, served = [], [], []
    monkeypatch.setattr(serve.webbrowser, "open", opened.append)
    monkeypatch.setattr(serve.uvicorn.Server, "run", lambda self, sockets: served.extend(sockets))
    serve.serve(folders, [], port=None, browser=True, tell=told.append)
    serve.serve(folders, [], port=None, browser=False, tell=told.append)
    assert opened == told[:1]
    assert told[0].startswith("http://127.0.0.1:")
    for door in served:
        door.close()
