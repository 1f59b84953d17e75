from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.hub.card import model_card, write_card
from clearhead.hub.remote import publish
from hub.client import asking, call
from hub.stand_in import Hub, Repository
from hub.test_card import TAGGER

FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights", "1_Pooling/config.json": b"{}"}
LEFTOVERS = (".saving-abc/model.safetensors", ".hidden", "optimizer.pt", "pytorch_model.bin", "step-10/config.json")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with a card, and beside it what must stay at home."""
    folder = tmp_path / "model"
    for name, content in {**FILES, **dict.fromkeys(LEFTOVERS, b"private")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    write_card(model_card(TAGGER, name="me/tagger"), folder)
    return folder


def send(folder: Path, name: str, hub: Hub, token: str | None = "secret", offline: str = "0", **options: object) -> str:
    settings = {"HF_HUB_OFFLINE": offline, **({} if token is None else {"HF_TOKEN": token})}
    return call("publish", folder, name, home=folder.parent / "home", url=hub.url, settings=settings, **options)


def test_publish_uploads_the_checkpoint_and_nothing_else_in_one_commit(hub: Hub, folder: Path) -> None:
    assert send(folder, "me/tagger", hub) == f"{hub.url}/me/tagger"
    repository = hub.repositories["me/tagger"]
    card = {"README.md": (folder / "README.md").read_bytes()}
    assert repository.files == {".gitattributes": b"", **FILES, **card}
    assert repository.messages == ["Publish with clearhead"]
    assert not repository.private


def test_a_name_without_owner_is_published_under_the_own_one(hub: Hub, folder: Path) -> None:
    assert send(folder, "tagger", hub) == f"{hub.url}/me/tagger"


def test_published_and_fetched_files_are_identical(hub: Hub, folder: Path, tmp_path: Path) -> None:
    send(folder, "me/tagger", hub)
    fetched = Path(call("find", "me/tagger", home=tmp_path / "other", url=hub.url, settings={}))
    names = {path.relative_to(fetched).as_posix() for path in fetched.rglob("*") if path.is_file()}
    assert names == {*FILES, "README.md"}
    assert all((fetched / name).read_bytes() == (folder / name).read_bytes() for name in names)


def test_publishing_again_replaces_the_checkpoint_and_keeps_what_is_not_of_it(hub: Hub, folder: Path) -> None:
    old = {"modules.json": b"[]", "model-00001-of-00002.safetensors": b"old", "notes.md": b"mine", "README.md": b"card"}
    hub.repositories["me/tagger"] = Repository(files=old)
    (folder / "README.md").unlink()
    send(folder, "me/tagger", hub)
    assert hub.repositories["me/tagger"].files == {**FILES, "notes.md": b"mine", "README.md": b"card"}
    assert hub.repositories["me/tagger"].messages == ["Publish with clearhead"]


def test_a_card_is_made_only_where_there_is_none(hub: Hub, folder: Path) -> None:
    written = (folder / "README.md").read_bytes()
    send(folder, "me/with", hub, card="made")
    assert hub.repositories["me/with"].files["README.md"] == written
    (folder / "README.md").unlink()
    send(folder, "me/with", hub, card="made")
    assert hub.repositories["me/with"].files["README.md"] == written
    card = model_card(TAGGER, name="me/without")
    send(folder, "me/without", hub, card=card)
    assert hub.repositories["me/without"].files["README.md"] == card.encode()
    assert not (folder / "README.md").exists()


def test_private_is_never_sent_to_a_public_repository(hub: Hub, folder: Path) -> None:
    send(folder, "me/secret", hub, private=True)
    assert hub.repositories["me/secret"].private
    hub.repositories["me/open"] = Repository()
    with pytest.raises(BadInput, match="me/open exists and is public; make it private"):
        send(folder, "me/open", hub, private=True)
    assert hub.repositories["me/open"].messages == []


def test_without_a_token_the_advice_is_to_log_in(hub: Hub, folder: Path) -> None:
    with pytest.raises(BadInput, match="me/tagger needs a valid token of yours; run: hf auth login"):
        send(folder, "me/tagger", hub, token=None)
    assert hub.repositories == {}


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (401, BadInput, "me/tagger needs a valid token"),
        (403, BadInput, r"me/tagger: the hub denies access \(403\); use a token that has it"),
        (404, NotFound, "me/tagger is not on the hub, or is private"),
        (500, NotFound, "me/tagger: the hub answers with error 500"),
    ],
)
def test_what_the_hub_refuses(hub: Hub, folder: Path, status: int, error: type[Exception], text: str) -> None:
    hub.answer = (status, {}, b"{}")
    with asking(hub, folder.parent), pytest.raises(error, match=text):
        publish(folder, "me/tagger")


def test_a_card_that_the_hub_cannot_read(hub: Hub, folder: Path) -> None:
    (folder / "README.md").write_text("no front matter")
    with pytest.raises(BadInput, match=r"me/tagger is not accepted \(Invalid metadata in README.md. - no front matter"):
        send(folder, "me/tagger", hub)
    assert hub.repositories["me/tagger"].messages == []


def test_offline_nothing_is_sent(hub: Hub, folder: Path) -> None:
    with pytest.raises(NotFound, match="me/tagger is out of reach while HF_HUB_OFFLINE is set"):
        send(folder, "me/tagger", hub, offline="1")
    assert hub.requests == []


def test_arguments_are_checked_before_anything_is_sent(folder: Path) -> None:
    with pytest.raises(BadInput, match="'not a name' is not a folder and not a valid hub name"):
        publish(folder, "not a name")
    with pytest.raises(NotFound, match="no-such-folder is not there"):
        publish(folder / "no-such-folder", "me/tagger")
    (folder / "model.safetensors").unlink()
    with pytest.raises(NotFound, match=r"has no config\.json with model\.safetensors"):
        publish(folder, "me/tagger")
