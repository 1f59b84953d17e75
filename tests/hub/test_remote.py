from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from clearhead.errors import BadInput, NotFound, UnsafeCheckpoint
from clearhead.hub.remote import BOX, UNASKED, find, in_the_box, unasked
from hub.client import asking, call
from hub.stand_in import Hub, Repository

MODEL = {"config.json": b"{}", "model.safetensors": b"weights", "vocab.txt": b"[PAD]\n", "1_Pooling/config.json": b"{}"}
NEVER = {"pytorch_model.bin": b"pickle", "modeling.py": b"code", "tokenizer.pkl": b"pickle", "onnx/model.onnx": b""}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def fetch(name: str, hub: Hub, home: Path, **settings: str) -> Path:
    return Path(call("find", name, home=home, url=hub.url, settings=settings))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_returned_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find(tmp_path) == tmp_path
    assert find("owner/name") == Path("owner/name")
    assert find("~/owner") == tmp_path / "owner"


def test_a_built_in_model_has_a_name_of_its_own(built_in: Path) -> None:
    assert find("builtin:encoder") == built_in
    assert in_the_box() == ["builtin:encoder"] == [unasked()]
    with pytest.raises(NotFound, match=r"has no built-in model 'bert'; .* make it with: make model"):
        find("builtin:bert")
    for name in ("birt", "", "encoder/skills", "../encoder"):
        with pytest.raises(NotFound, match=f"there is no built-in model '{name}'; there are builtin:encoder, builtin:"):
            find(f"builtin:{name}")
    with pytest.raises(NotFound, match="the folder builtin:encoder is not there"):
        find(Path("builtin:encoder"))


def test_what_a_use_takes_unasked_is_in_the_box() -> None:
    assert set(UNASKED.values()) <= set(BOX)
    assert [unasked(use) for use in ("translate", "generate", "fill")] == [
        "builtin:translator",
        "builtin:gpt",
        "builtin:encoder",
    ]


@pytest.mark.parametrize("name", ["./model", "../model", "/model", "~/model", "C:model", "a\\b", "a/b/c", "a/b/"])
def test_a_path_that_is_not_there_is_never_looked_up_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="is not there; check the path"):
        find(name)


def test_a_path_object_is_never_a_hub_name() -> None:
    with pytest.raises(NotFound, match="folder owner/name is not there"):
        find(Path("owner/name"))


def test_names_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="is a file; give the folder"):
        find(tmp_path / "file")
    with pytest.raises(BadInput, match="is empty"):
        find(" ")
    with pytest.raises(NotFound, match="cannot be looked up"):
        find("x" * 10_000)
    with pytest.raises(NotFound, match="not a valid hub name"):
        find("two words")


def test_only_the_files_we_read_are_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["owner/name"] = Repository(files=MODEL | NEVER)
    folder = fetch("owner/name", hub, tmp_path)
    assert contents(folder) == MODEL
    assert not [request for request in hub.requests if any(request.endswith(name) for name in NEVER)]


def test_a_revision_can_be_named(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["owner/name"] = Repository(files=MODEL)
    commit = hub.repositories["owner/name"].commit
    assert contents(fetch(f"owner/name@{commit}", hub, tmp_path)) == MODEL
    with pytest.raises(NotFound, match="owner/name@v9 is not on the hub: it has no such revision"):
        fetch("owner/name@v9", hub, tmp_path)


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (404, "RepoNotFound", "owner/name is not on the hub, or is private; check its spelling"),
        (401, "RepoNotFound", "owner/name is not on the hub, or is private"),
        (401, "", r"owner/name: the hub denies access \(401\)"),
        (403, "GatedRepo", "owner/name is gated; ask for access"),
        (403, "", r"owner/name: the hub denies access \(403\)"),
        (500, "", "owner/name: the hub answers with error 500; try again later"),
    ],
)
def test_what_the_hub_refuses_is_not_found(hub: Hub, tmp_path: Path, status: int, code: str, text: str) -> None:
    hub.answer = (status, {"X-Error-Code": code}, b"{}")
    with asking(hub, tmp_path), pytest.raises(NotFound, match=text):
        find("owner/name")


def test_a_page_that_is_no_hub(hub: Hub, tmp_path: Path) -> None:
    hub.answer = (200, {}, b"<html>log in to the airport network</html>")
    with asking(hub, tmp_path), pytest.raises(NotFound, match="owner/name is not accepted"):
        find("owner/name")


def test_a_repository_with_only_a_pickle_is_refused_and_not_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["owner/name"] = Repository(files={"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    with pytest.raises(UnsafeCheckpoint, match=r"only as pytorch_model.bin, a pickle.*hf download owner/name"):
        fetch("owner/name", hub, tmp_path)
    assert not list(tmp_path.rglob("*.bin"))


def test_no_connection_is_not_found(tmp_path: Path) -> None:
    with Hub() as closed:
        pass
    with (
        asking(closed, tmp_path),
        pytest.raises(
            NotFound, match=r"^there is no folder owner/name, and .* out of reach at http://127.0.0.1.*check"
        ),
    ):
        find("owner/name")


def test_a_hub_that_does_not_answer_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_slow(*_: object, **__: object) -> None:
        try:
            raise huggingface_hub.utils.httpx.ReadTimeout("timed out")
        except huggingface_hub.utils.httpx.HTTPError as error:
            raise LocalEntryNotFoundError("An error happened\nwhile trying") from error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", too_slow)
    with pytest.raises(NotFound, match=r"owner/name is out of reach.*\(ReadTimeout: timed out\); check the network"):
        find("owner/name")


def test_offline_with_an_empty_cache_is_not_found_and_asks_nobody(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="owner/name is not in the cache and HF_HUB_OFFLINE is set"):
        fetch("owner/name", hub, tmp_path, HF_HUB_OFFLINE="1")
    assert hub.requests == []


def test_offline_after_a_fetch_works_from_the_cache(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["owner/name"] = Repository(files=MODEL)
    online = fetch("owner/name", hub, tmp_path)
    hub.requests.clear()
    assert fetch("owner/name", hub, tmp_path, HF_HUB_OFFLINE="1") == online
    assert contents(online) == MODEL
    assert hub.requests == []
