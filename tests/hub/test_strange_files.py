"""What stands in the place of a checkpoint's file, and JSON of the wrong shape: refused in one sentence, unread."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clearhead as ch
from clearhead.errors import BadCheckpoint, ClearheadError, UnsafeCheckpoint
from clearhead.hub.weights import digest, write_tensors
from clearhead.pipelines.search.index import Index
from fuzz.folders import write_all

NAMES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
SKILL = ("skills/sentiment/skill.json", "skills/sentiment/adapter.safetensors")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("families"))["built-in"]


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))


def use(folder: Path) -> None:
    ch.load(folder).classify("a text")


@pytest.mark.parametrize("name", [*NAMES, *SKILL])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link", "link to a device", "circle"])
def test_no_plain_file(folder, tmp_path, name, kind):
    path = folder / name
    (tmp_path / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to({"link": tmp_path / "elsewhere", "circle": path}.get(kind, "/dev/random"))
    with pytest.raises(ClearheadError) as refused:
        use(folder)
    assert "\n" not in str(refused.value)
    if kind == "link":
        assert refused.type is UnsafeCheckpoint
        assert "outside of its folder; copy the file there instead" in str(refused.value)


def test_links_within_the_folder_and_of_the_hub_are_read(saved, tmp_path):
    cache = tmp_path / "models--owner--name"
    folder = Path(shutil.copytree(saved, cache / "snapshots" / "abc"))
    (cache / "blobs").mkdir()
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        path.rename(cache / "blobs" / str(number))
        path.symlink_to(os.path.relpath(cache / "blobs" / str(number), path.parent))
    use(folder)
    own = Path(shutil.copytree(saved, tmp_path / "own"))
    (own / "config.json").rename(own / "config-1.json")
    (own / "config.json").symlink_to("config-1.json")
    use(own)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "tokenizer.json", "skills/sentiment/skill.json"]
)
@pytest.mark.parametrize(
    "content", ["[" * 500 + "]" * 500, '{"a":' * 200 + "1" + "}" * 200, "[]", '"x"', "{", "NaN", ""]
)
def test_json_of_the_wrong_shape(folder, name, content):
    (folder / name).write_text(content)
    with pytest.raises(ClearheadError) as refused:
        use(folder)
    assert "\n" not in str(refused.value)


def test_a_file_without_end(folder):
    with (folder / "config.json").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadCheckpoint, match=r"has 1,099,511,627,776 bytes, of which"):
        use(folder)


WRONG = ["x", 3, -1, None, [], {}, [1], {"a": 1}, True, 1e308, "x" * 10_000]


@pytest.mark.parametrize(
    "name", ["encoder", "uses", "head", "outputs", "labels", "problem", "pooling", "scale", "threshold"]
)
def test_every_value_of_a_skill(folder, name):
    path = folder / "skills" / "sentiment" / "skill.json"
    content = json.loads(path.read_text())
    for value in WRONG:
        path.write_text(json.dumps(content | {name: value}))
        try:
            ch.load(folder).skill("sentiment").classify("a text")
        except ClearheadError as error:
            assert len(str(error)) < 1000  # noqa: PT017 – some values change nothing


@pytest.mark.parametrize(
    "content", [{}, [1], [{}], [{"type": 3, "path": ""}], [{"type": "a.Pooling", "path": 3}], [[]], 7]
)
def test_modules_of_the_wrong_shape(folder, content):
    (folder / "modules.json").write_text(json.dumps(content))
    with pytest.raises(BadCheckpoint, match=r"is not a list of modules with type and path"):
        use(folder)


# an index

ARRAYS = {
    "a passage of no document": ("spans", lambda x: x + 9),
    "a passage past its end": ("spans", lambda x: x * 1000),
    "a passage that ends before it starts": ("spans", lambda x: x[:, [0, 2, 1]]),
    "too few passages": ("spans", lambda x: x[:1]),
    "places that are no rows": ("spans", lambda x: x.flatten()),
    "places that are no integers": ("spans", lambda x: x.float()),
    "starts that go back": ("words.starts", lambda x: x.flip(0)),
    "starts past the end": ("words.starts", lambda x: x + 10**6),
    "one start": ("words.starts", lambda x: x[:1]),
    "postings of no passage": ("words.passages", lambda x: x - 1),
    "too many postings": ("words.passages", lambda x: torch.cat([x, x])),
    "no counts": ("words.counts", lambda x: x * 0),
    "lengths below nothing": ("words.lengths", lambda x: x - 10**6),
    "counts of another kind": ("words.counts", lambda x: x.float()),
}
TEXTS = ["The quick brown fox.", "A lazy dog sleeps.", "Foxes and dogs."]


def seal(folder: Path) -> None:
    """Write the digests that fit, as who changes a file on purpose would."""
    facts = json.loads((folder / "index.json").read_text())
    shas = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("documents.jsonl", "words.json")
    }
    facts["sha256"] = shas | {"index.safetensors": digest(load_file(folder / "index.safetensors"))}
    (folder / "index.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(("array", "change"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_do_not_belong_together(tmp_path, array, change):
    Index.build(TEXTS).save(tmp_path)
    tensors = load_file(tmp_path / "index.safetensors")
    tensors[array] = change(tensors[array]).contiguous()
    write_tensors(tensors, tmp_path / "index.safetensors")
    seal(tmp_path)
    with pytest.raises(BadCheckpoint, match="do not belong together; build the index again"):
        Index.load(tmp_path)


@pytest.mark.parametrize("name", ["index.json", "documents.jsonl", "words.json"])
@pytest.mark.parametrize(
    "content", ["[]", "{}", "[1]", '{"id": 1, "text": "a"}', "{", "[" * 9999, "é", "\x00", '["\ud800"]']
)
def test_files_of_an_index(tmp_path, name, content):
    Index.build(TEXTS).save(tmp_path)
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    if name != "index.json":
        seal(tmp_path)
    with pytest.raises(ClearheadError):
        Index.load(tmp_path).search("fox")
