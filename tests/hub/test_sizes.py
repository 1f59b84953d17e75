"""No size that a file claims is believed before the weights are seen: every absurd one is one sentence, at once."""

import json
import resource
import shutil
import struct
import time
from pathlib import Path

import pytest

import clearhead as ch
from clearhead.errors import BadCheckpoint, ClearheadError
from clearhead.hub.checkpoint import read_outline
from clearhead.models import ALL_FAMILIES, RECURRENT_FAMILIES
from fuzz.folders import write_all

ABSURD = (2**12, 2**20, 2**24, 2**31, 2**63, 10**30, 0, -1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("families"))


@pytest.fixture
def little_memory():
    """Let nothing take more than a few gigabytes of addresses beyond what is held now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**31, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("family", [*ALL_FAMILIES, *RECURRENT_FAMILIES])
def test_absurd_sizes_are_one_sentence_at_once(folders, tmp_path, family, little_memory):
    folder = Path(shutil.copytree(folders[family], tmp_path / family))
    content = json.loads((folder / "config.json").read_text())
    for name, value in content.items():
        if type(value) is not int:
            continue
        for absurd in ABSURD:
            (folder / "config.json").write_text(json.dumps(content | {name: absurd}))
            for read in (ch.load, read_outline) if family in ALL_FAMILIES else (ch.load,):
                began = time.perf_counter()
                try:
                    read(folder)
                except ClearheadError as error:
                    assert "\n" not in str(error)  # noqa: PT017 – a value that changes nothing may be absurd
                assert time.perf_counter() - began < 5, (name, absurd)


@pytest.mark.parametrize("outputs", [*ABSURD, "2", None, [2]])
def test_absurd_outputs_of_a_skill(folders, tmp_path, outputs, little_memory):
    folder = Path(shutil.copytree(folders["built-in"], tmp_path / "model"))
    path = folder / "skills" / "sentiment" / "skill.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"outputs": outputs}))
    model = ch.load(folder)
    with pytest.raises(BadCheckpoint):
        model.skill("sentiment")


def test_a_file_of_holes(folders, tmp_path):
    folder = Path(shutil.copytree(folders["bert"], tmp_path / "model"))
    size = 2**40
    header = json.dumps({"x": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    with pytest.raises(BadCheckpoint, match=r"274,877,906,944 numbers, .* take a smaller model, or set CLEARHEAD_MAX"):
        ch.load(folder)


def test_the_limit_can_be_set(folders, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_MAX_PARAMETERS", "100")
    with pytest.raises(BadCheckpoint, match="at most 100 are read here"):
        ch.load(folders["bert"])
