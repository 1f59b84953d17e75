"""What every store does: one contract, whatever it is made of."""

import os
import threading

import numpy as np
import pytest

import clearhead as ch
from clearhead.data.documents import Document
from clearhead.errors import BadInput, NotFound
from clearhead.pipelines.search.index import Index
from clearhead.pipelines.search.stored import StoredIndex
from pipelines.peers import SENTENCES as FIVE
from pipelines.peers import peers

SENTENCES = [*FIVE, "The river is wide, and the bank is far."]
DOCUMENTS = [
    Document(text, f"{number}.txt", {"number": number, "lang": "en" if number % 2 else "de", "new": number > 3})
    for number, text in enumerate(SENTENCES)
]


@pytest.fixture
def stored(store_url, model):
    with StoredIndex.open(store_url, model) as index:
        index.add(DOCUMENTS)
        yield index


def sources(hits):
    return [hit.source for hit in hits]


def everything(index, **options):
    return index.search("the bank of the river", top_k=100, method="vectors", **options)


@pytest.mark.parametrize("method", ["hybrid", "vectors", "bm25"])
def test_a_store_finds_what_an_index_finds_with_the_same_scores(stored, model, method):
    index = model.index(DOCUMENTS)
    for query in ("the bank of the river", "Who lived in London?", "zebra", SENTENCES[2]):
        there, here = (one.search(query, top_k=5, method=method) for one in (stored, index))
        np.testing.assert_allclose([hit.score for hit in there], [hit.score for hit in here], atol=2e-5)
        assert {hit.source for hit in there} == {hit.source for hit in here}
        for hit in there:
            (document,) = [one for one in DOCUMENTS if one.source == hit.source]
            assert document.text[hit.start : hit.end] == hit.text
            assert dict(hit.metadata) == document.metadata
    many = stored.search(["the bank", "London"], top_k=2, method=method)
    # one query alone is computed by another way than several, and is the same up to rounding
    for hits, query in zip(many, ("the bank", "London"), strict=True):
        alone = stored.search(query, top_k=2, method=method)
        assert sources(hits) == sources(alone)
        np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in alone], atol=1e-5)


def test_hybrid_is_the_default_and_its_scores_are_probabilities(stored):
    hits = stored.search("the bank of the river", top_k=100)
    assert all(0 < hit.score < 1 for hit in hits)
    assert stored.search("the bank of the river", min_score=hits[1].score) == hits[:2]
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).ours
    again = stored.search("the bank of the river", top_k=3, rerank_with=cross)
    assert len(again) == 3
    assert [hit.score for hit in again] != [hit.score for hit in hits[:3]]


def test_answers_come_out_of_a_store(stored):
    reader = peers("BertForQuestionAnswering", seed=3).ours
    found = reader.answer("Who lived in London?", stored, threshold=float("inf"))
    (document,) = [one for one in DOCUMENTS if one.source == found.source]
    assert document.text[found.start : found.end] == found.text


def test_the_same_again_does_nothing_and_a_change_replaces(stored, store_url, model):
    assert len(stored) == len(SENTENCES)
    assert stored.add(DOCUMENTS).to_dict() == {
        "documents": 0,
        "passages": 0,
        "unchanged": len(SENTENCES),
        "repeated": 0,
    }
    changed = Document("A zebra crossed.\n\nThen another zebra came.", DOCUMENTS[0].source, {"number": 99})
    done = stored.add([*DOCUMENTS[1:], changed])
    assert (done.documents, done.passages, done.unchanged) == (1, 2, len(SENTENCES) - 1)
    assert len(stored) == len(SENTENCES) + 1
    assert sources(stored.search("zebra", method="bm25")) == [changed.source] * 2
    assert DOCUMENTS[0].text not in [hit.text for hit in everything(stored)]
    # what is known of it is part of it
    stored.add([Document(changed.text, changed.source, {"number": 100})])
    assert len(stored) == len(SENTENCES) + 1
    assert sources(everything(stored, where={"number": 100})) == [changed.source] * 2
    # fewer passages, then none
    stored.add([Document("A zebra.", changed.source)])
    assert len(stored.search("zebra", method="bm25")) == 1
    stored.add([Document(" \n", changed.source)])
    assert stored.search("zebra", method="bm25") == []
    assert len(stored) == len(SENTENCES) - 1
    # another who opens it finds the same as one that was made at once
    with StoredIndex.open(store_url, model) as again:
        expected = model.index(DOCUMENTS[1:]).search("the bank", top_k=4)
        found = again.search("the bank", top_k=4)
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=2e-5)


def test_deletion_by_source(stored):
    assert stored.delete(["3.txt", "not there", "1.txt"]) == 2
    assert stored.delete("3.txt") == 0
    assert len(stored) == len(SENTENCES) - 2
    assert not {"1.txt", "3.txt"} & {*sources(everything(stored))}
    assert stored.delete([one.source for one in DOCUMENTS]) == len(SENTENCES) - 2
    assert len(stored) == 0
    assert stored.search("the bank") == stored.search("the bank", method="bm25") == []
    stored.add(DOCUMENTS[:2])
    assert len(stored) == 2


FILTERS = [
    ({"lang": "de"}, [0, 2, 4]),
    ({"lang": ["de", "en"]}, [0, 1, 2, 3, 4, 5]),
    ({"lang": []}, []),
    ({"number": 3}, [3]),
    ({"number": 3.0}, [3]),
    ({"number": "3"}, []),
    ({"number": {">=": 2, "<": 4}}, [2, 3]),
    ({"number": {">": 2.5}, "lang": "de"}, [4]),
    ({"lang": {">": "de"}}, [1, 3, 5]),
    ({"lang": {"<=": 3}}, []),
    ({"new": True}, [4, 5]),
    ({"new": {"<": True}}, [0, 1, 2, 3]),
    ({"new": 1}, []),
    ({"nobody": "knows"}, []),
    ({"nobody": {">": 1}}, []),
    ("number in 1,5", [1, 5]),
    (["number>=2", 'lang="de"'], [2, 4]),
    ("new=false", [0, 1, 2, 3]),
]


def test_filters(stored):
    for where, expected in FILTERS:
        for method in ("vectors", "hybrid", "bm25"):
            hits = stored.search(" ".join(SENTENCES), top_k=100, method=method, where=where)
            assert {*sources(hits)} == {f"{number}.txt" for number in expected}, (where, method)


EVIL = "'; DROP TABLE passages; --"


def test_what_is_asked_for_is_never_run(stored):
    evil = [
        Document("A zebra.", EVIL, {EVIL.replace("'", "’"): EVIL, "quote": '"\\%s {passages}'}),
        Document("A robot'); DELETE FROM t; -- \\ %s {words}", "robot"),
    ]
    stored.add(evil)
    before = len(stored)
    assert sources(everything(stored, where={EVIL.replace("'", "’"): EVIL})) == [EVIL]
    assert sources(everything(stored, where={"quote": '"\\%s {passages}'})) == [EVIL]
    for where in ({"lang": EVIL}, {"lang": {">": EVIL}}, {"lang": ["x", EVIL]}, "lang=' OR true --"):
        everything(stored, where=where)
    for query in (EVIL, "robot'); DELETE FROM t", "' | '", "%s {words} \\"):
        stored.search(query)
    assert stored.search("robot", method="bm25")[0].source == "robot"
    assert stored.delete([EVIL + "x", "%"]) == 0
    assert len(stored) == before
    assert stored.delete(EVIL) == 1


STRANGE = [
    Document("zero\0 byte, and half of a pair: \ud800 end", "nul\0", {"nul": "a\0b"}),
    Document("我爱北京天安门。\n\n天安门上太阳升。", "中文", {"язык": "китайский"}),
    Document("Der Fluß war groß; straße", "deutsch"),
    Document("كان الطقس جميلا", "arabic"),
    Document("𐌰" * 3000, "one word that never ends"),
    Document("x" * 5000 + " end", "x" * 5000),
    Document("", "empty"),
    Document("Price.", "csv", {"Price (€)": 3.5, "large": 2**60}),
]


def test_text_of_every_kind(store_url, model):
    with StoredIndex.open(store_url, model) as index:
        index.add([*DOCUMENTS, *STRANGE])
        assert index.add([*DOCUMENTS, *STRANGE]).documents == 0
        assert sources(index.search("天安门", method="bm25"))[:2] == ["中文", "中文"]
        assert sources(index.search("FLUSS STRASSE", method="bm25"))[:1] == ["deutsch"]
        assert index.search("الطقس", method="bm25")[0].text == "كان الطقس جميلا"
        (zero,) = index.search("zero byte", method="bm25", top_k=1)
        assert zero.text.replace("\0", "\ufffd") == STRANGE[0].text.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
        assert sources(everything(index, where={"язык": "китайский"})) == ["中文", "中文"]
        assert sources(everything(index, where="Price (€)>=3")) == ["csv"]
        assert sources(everything(index, where={"large": 2**60})) == ["csv"]
        assert len(everything(index, where={"nul": "a\0b"})) == 1
        assert index.search("𐌰" * 800, method="bm25", top_k=3)
        assert index.delete(["nul\0", "x" * 5000]) == 2


def test_a_large_document_and_repeated_sources(store_url, model):
    large = Document("\n\n".join(f"The bank number {n} is on river {n}." for n in range(400)), "large")
    with StoredIndex.open(store_url, model) as index:
        done = index.add([large, Document("another", "large"), *DOCUMENTS, DOCUMENTS[0]])
        assert (done.documents, done.passages, done.repeated) == (1 + len(SENTENCES), 400 + len(SENTENCES), 2)
        assert index.search("bank 377", method="bm25", top_k=1)[0].text == "The bank number 377 is on river 377."
        assert index.add([large, Document("another", "large"), *DOCUMENTS, DOCUMENTS[0]]).documents == 0


def test_vectors_of_another_model_are_refused(stored, store_url, model):
    other = ch.Model.create(model.config, model.tokenizer)
    with pytest.raises(BadInput, match="was built with another model, of width 32; load that model, or build"):
        StoredIndex.open(store_url, other)
    with StoredIndex.open(store_url) as words:
        assert sources(words.search("London")) == sources(stored.search("London", method="bm25"))
        with pytest.raises(NotFound, match="opened without a model"):
            words.search("London", method="vectors")
        with pytest.raises(BadInput, match="open the store with the model"):
            words.add(["more"])


def test_a_store_that_is_not_there_yet(store_url, model):
    with StoredIndex.open(store_url, model) as index:
        with pytest.raises(NotFound, match="fill it first"):
            index.search("the bank")
        assert index.delete("nothing") == 0
        with pytest.raises(BadInput, match="no text to store"):
            index.add(["", " \n"])
        index.add(["a bank"])
        assert sources(index.search("bank")) == ["0"]


def test_an_ingestion_that_was_ended_goes_on(store_url, model, monkeypatch):
    """It may end within a batch, which then is not there at all."""

    def documents(fail_at=None):
        for number in range(30):
            if number == fail_at:
                raise KeyboardInterrupt
            yield Document(f"The bank number {number}.\n\nA river.", str(number))

    with StoredIndex.open(store_url, model) as index:
        monkeypatch.setattr(type(index.store), "batch", 8)
        monkeypatch.setattr("clearhead.pipelines.search.stored._LOOKED_UP", 1)
        with pytest.raises(KeyboardInterrupt):
            index.add(documents(fail_at=11))
        assert len(index) == 16
        broken = index.store.add

        def half(entries):
            broken(entries[:0])
            raise RuntimeError("power")

        monkeypatch.setattr(index.store, "add", half)
        with pytest.raises(RuntimeError, match="power"):
            index.add(documents())
        monkeypatch.setattr(index.store, "add", broken)
        done = index.add(documents())
        assert (done.documents, done.unchanged) == (22, 8)
        assert len(index) == 60
        assert len(index.search("number 17", method="bm25", top_k=100)) == 30


def test_many_passages_are_found_through_a_graph(store_url, model, monkeypatch):
    for module in ("index", "postgres", "lance"):
        monkeypatch.setattr(f"clearhead.pipelines.search.{module}.EXACT_UP_TO", 200)
    words = [word for text in SENTENCES for word in text.split()]
    documents = [
        Document(" ".join((words * 3)[number : number + 5 + number % 7]) + f" {number}", str(number), {"n": number})
        for number in range(len(words) * 2)
    ]
    documents += [Document(f"{one.text} again {number}", f"more {number}") for number, one in enumerate(documents)]
    documents += [Document(f"then {one.text}", f"then {number}") for number, one in enumerate(documents)]
    assert len(documents) > 300
    with StoredIndex.open(store_url, model) as index:
        index.add(documents)
        shared = []
        for query in words[:20]:
            exact, near = ({*sources(index.search(query, method="vectors", approximate=one))} for one in (False, None))
            shared.append(len(exact & near) / 10)
        assert np.mean(shared) > 0.9
        # with a filter as many are found as fit
        assert {*sources(everything(index, where={"n": {"<": 7}}))} == {str(number) for number in range(7)}
        # what comes later is found too, and what goes is not
        index.add([Document("A zebra crossed the river", "late")])
        assert "late" in sources(index.search("A zebra crossed the river", method="vectors"))
        index.delete(["late", "1"])
        assert {*sources(everything(index, where={"n": {"<": 7}}))} == {"0", *map(str, range(2, 7))}
        assert "late" not in sources(index.search("A zebra crossed the river", method="vectors"))


def test_two_who_write_at_once_lose_nothing(store_url, model):
    """They take turns; of a folder, the second is refused by a sentence, and may come again."""
    with StoredIndex.open(store_url, model) as first:
        first.add(["begun"])
    wrong: list[str] = []

    def write(name):
        with StoredIndex.open(store_url, model) as index:
            waiting = [Document(f"The bank {number}", f"{name} {number}") for number in range(6)]
            waiting += [Document("What both know.", "both")]
            while waiting:
                try:
                    index.add(waiting[:1])
                    waiting.pop(0)
                except BadInput as error:
                    wrong.append(str(error))

    writers = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert all("is being written to by another process" in one for one in wrong)
    with StoredIndex.open(store_url, model) as index:
        assert len(index) == 14
        assert sources(index.search("both know", method="bm25")) == ["both"]
        assert index.store.frequencies(["bank"]) == {"bank": 12}


def test_many_search_while_one_writes(stored, store_url, model):
    wrong: list[BaseException] = []
    over = threading.Event()

    def search():
        try:
            while not over.is_set():
                hits = stored.search("the bank of the river", top_k=3)
                assert len(hits) == 3
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=search) for _ in range(3)]
    for one in readers:
        one.start()
    try:
        with StoredIndex.open(store_url, model) as writer:
            for number in range(4):
                writer.add([Document(f"The bank of the river {number}.", f"new {number}")])
                writer.delete(f"new {number - 1}")
    finally:
        over.set()
        for one in readers:
            one.join()
    assert wrong == []
    assert len(stored) == len(SENTENCES) + 1


def disguised(new, old):
    """Put an index into the folder of another: a new file may get the number, and the tick of the clock, of the old."""
    facts = (old / "index.json").stat()
    for path in new.iterdir():
        (old / path.name).write_bytes(path.read_bytes())
    os.utime(old / "index.json", ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_a_folder_that_looks_untouched_is_read_again(model, tmp_path):
    model.index(DOCUMENTS[:2]).save(tmp_path / "index")
    model.index(DOCUMENTS).save(tmp_path / "later")
    with StoredIndex.open(tmp_path / "index", model) as index:
        assert len(index) == 2
        disguised(tmp_path / "later", tmp_path / "index")
        assert len(index) == len(SENTENCES)


def test_an_index_folder_is_a_store_and_a_store_an_index(model, tmp_path):
    model.index(DOCUMENTS).save(tmp_path / "index")
    with StoredIndex.open(tmp_path / "index", model) as index:
        assert index.add([*DOCUMENTS, Document("A zebra.", "new")]).unchanged == len(SENTENCES)
    again = Index.load(tmp_path / "index", model)
    assert again.search("zebra", method="bm25")[0].source == "new"
    assert sources(again.search("the bank", where={"lang": "de"}, top_k=100, method="vectors")) == sources(
        model.index([one for one in DOCUMENTS if one.metadata["lang"] == "de"]).search(
            "the bank", top_k=100, method="vectors"
        )
    )
