"""An index in a folder that is replaced by another while it is read: one of the two is read, and never both."""

import sys
import threading

import pytest

import clearhead as ch
from clearhead.data.documents import Document
from clearhead.errors import BadCheckpoint, BadInput, NotFound
from clearhead.hub import weights
from clearhead.pipelines.search import index as module
from clearhead.pipelines.search.index import Index
from clearhead.pipelines.search.stored import StoredIndex
from pipelines.peers import SENTENCES

TWO = [[Document(text, f"{name} {number}") for number, text in enumerate(SENTENCES)] for name in ("one", "two")]


@pytest.fixture(params=["exchanged", "moved aside", "file by file"])
def folder(request, tmp_path, monkeypatch):
    """A folder for an index, and each of the ways in which another comes into it."""
    place = tmp_path / "index"
    if request.param == "moved aside":  # where the system cannot exchange two folders
        monkeypatch.setattr("ctypes.CDLL", lambda _: None)
    if request.param == "file by file":
        place.mkdir()
        (place / "of somebody else.txt").write_text("stays")
    return place


@pytest.fixture
def two(model, monkeypatch):
    """Two indexes alike in all numbers, with graphs."""
    monkeypatch.setattr(module, "EXACT_UP_TO", 3)
    return model.index(TWO[0]), model.index(list(reversed(TWO[1])))


def whole(found, two):
    """Which of the two it is, in all its parts."""
    (which,) = [one for one in two if one.documents == found.documents]
    assert found.words.vocabulary == which.words.vocabulary
    assert (found.vectors.vectors == which.vectors.vectors).all()
    nearest = found.vectors.graph.nearest(which.vectors.vectors, 1)
    assert [one.tolist() for one in nearest] == [[place] for place in range(len(which))]
    return which


class Interrupted:
    """Does something once, before the line that is number `at` of all different ones that read an index."""

    def __init__(self, act=None, at=None):
        self._act, self._at, self.lines = act, at, set()

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, event, arg):
        return self._line if frame.f_code.co_filename in (module.__file__, weights.__file__) else None

    def _line(self, frame, event, arg):
        if event == "line" and len(self.lines) != self._at:
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
            if len(self.lines) == self._at:
                self._act()
        return self._line


def test_before_every_line_that_reads(two, tmp_path):
    one, other = two
    one.save(tmp_path / "index")
    with Interrupted() as counted:
        assert whole(Index.load(tmp_path / "index"), two) is one
    found = set()
    for line in range(1, len(counted.lines) + 1):
        with Interrupted(lambda it=other: it.save(tmp_path / "index", overwrite=True), line):
            found.add(whole(Index.load(tmp_path / "index"), two) is other)
        one, other = other, one
    assert found == {True, False}


def test_again_and_again(two, folder):
    two[0].save(folder, overwrite=True)
    over = threading.Event()
    wrong: list[BaseException] = []

    def read(times):
        try:
            with StoredIndex.open(folder) as stored:
                for _ in range(times):
                    whole(Index.load(folder), two)
                    assert len(stored.search("bank")) > 0
        except BaseException as error:
            wrong.append(error)
        finally:
            over.set()

    def write():
        turn = 0
        while not over.is_set():
            turn += 1
            two[turn % 2].save(folder, overwrite=True)

    threads = [threading.Thread(target=read, args=(20,)) for _ in range(2)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", ["documents.jsonl", "words.json", "index.safetensors", "index.usearch", "index.json"])
def test_real_damage_is_still_told(two, tmp_path, name):
    folder = tmp_path / "index"
    two[0].save(folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BadCheckpoint):
        Index.load(folder)
    (folder / name).unlink()
    with pytest.raises(NotFound, match=name):
        Index.load(folder)


def test_who_was_killed_between_two_files_is_not_waited_for(two, tmp_path, monkeypatch):
    folder = tmp_path / "index"
    two[0].save(folder)
    (folder / "index.json").unlink()
    (folder / ".saving-00000000").mkdir()
    (tmp_path / ".index.lock").touch()
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with pytest.raises(NotFound, match="holds no index"):
        Index.load(folder)
    two[1].save(folder, overwrite=True)
    assert whole(Index.load(folder), two) is two[1]


def test_one_is_found_that_goes_and_comes_between_the_looks(two, tmp_path, monkeypatch):
    """The folder is not there when it is opened, and nobody is at work on it when that is asked for: twice."""
    folder, aside = tmp_path / "index", tmp_path / "aside"
    two[0].save(folder)
    real = module.being_replaced
    folder.rename(aside)
    looks = []

    def being_replaced(place):
        looks.append(real(place))
        if len(looks) == 2:
            aside.rename(folder)
        return looks[-1]

    monkeypatch.setattr(module, "being_replaced", being_replaced)
    assert whole(Index.load(folder), two) is two[0]
    assert looks == [False, False]


def test_another_model_in_the_place_of_the_first_is_told(two, model, tmp_path):
    folder = tmp_path / "index"
    two[0].save(folder)
    other = ch.Model.create(model.config, model.tokenizer)
    with StoredIndex.open(folder, model) as opened, StoredIndex.open(folder) as words:
        assert opened.search("bank")
        other.index(TWO[1]).save(folder, overwrite=True)
        for act in (lambda: opened.search("bank"), lambda: opened.add(["more"]), lambda: opened.delete("two 0")):
            with pytest.raises(BadInput, match="was built again with another model; open it again"):
                act()
        assert words.search("bank")[0].source.startswith("two")
    assert len(Index.load(folder, other)) == len(TWO[1])
