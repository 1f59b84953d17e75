import json
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead as ch
from clearhead.data.documents import Document
from clearhead.errors import BadCheckpoint, BadInput, NotFound, WrongTask
from clearhead.pipelines.search.graph import Graph
from clearhead.pipelines.search.index import Index
from pipelines.peers import SENTENCES, peers
from text.strategies import any_strings

DOCUMENTS = [*SENTENCES, " ".join(SENTENCES)]


@pytest.fixture(scope="module")
def index(model):
    return model.index(DOCUMENTS, max_characters=70)


@pytest.mark.parametrize("method", ["vectors", "bm25", "hybrid"])
def test_hits_are_slices_of_the_documents_best_first(index, method):
    hits = index.search("the bank of the river", top_k=4, method=method)
    assert len(hits) == 4
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert DOCUMENTS[int(hit.source)][hit.start : hit.end] == hit.text
        assert set(hit.to_dict()) == {"text", "source", "start", "end", "score"}
    assert "bank" in hits[0].text or method == "vectors"


def test_vectors_find_a_passage_by_its_own_words(index):
    for place in range(len(index)):
        (hit,) = index.search(index.passage(place), top_k=1, method="vectors")
        assert hit.text == index.passage(place)
        assert hit.score == pytest.approx(1, abs=1e-5)


@given(st.lists(st.sampled_from([*SENTENCES, "bank", "a mask"]), min_size=1, max_size=4))
@settings(max_examples=10)
def test_many_queries_get_what_each_gets_alone(index, queries):
    for method in ("vectors", "bm25", "hybrid"):
        for query, hits in zip(queries, index.search(queries, top_k=3, method=method), strict=True):
            assert [hit.text for hit in hits] == [hit.text for hit in index.search(query, top_k=3, method=method)]


def test_hybrid_is_the_default_and_its_scores_are_probabilities(index):
    hits = index.search("the bank of the river", top_k=len(index))
    assert hits == index.search("the bank of the river", top_k=len(index), method="hybrid")
    assert all(0 < hit.score < 1 for hit in hits)
    least = hits[2].score
    assert index.search("the bank of the river", top_k=9, min_score=least) == hits[:3]
    assert index.search("the bank of the river", min_score=1) == []


def test_words_decide_where_vectors_say_nothing(model):
    one = model.index(["the bank"])
    assert one.search("the bank")[0].score > 0.5 > one.search("zebra")[0].score
    same = model.index(["a bank"] * 5)
    assert len({hit.score for hit in same.search("a bank")}) == 1


def test_what_is_shown_of_an_index_is_short(index, model):
    assert repr(index) == f"Index({len(index)} passages of {len(DOCUMENTS)} documents, vectors of width 32)"
    assert repr(Index.build(SENTENCES)).endswith("documents, words only)")
    shown = model.index([Document("a bank", f"<b>{n}</b>") for n in range(12)])._repr_html_()
    assert shown.count("<tr>") == 11
    assert "&lt;b&gt;0&lt;/b&gt;" in shown
    assert "… 2 more" in shown


def test_answers_from_an_index_name_their_document(model):
    reader = peers("BertForQuestionAnswering", seed=3).ours
    index = Index.build(SENTENCES)
    question = "Who lived in London?"
    found = reader.answer(question, index, threshold=float("inf"), top_k=3)
    assert found.source == found.candidates[0].source
    for one in found.candidates:
        assert SENTENCES[int(one.source)][one.start : one.end] == one.text
    assert [one.score for one in found.candidates] == sorted((one.score for one in found.candidates), reverse=True)
    assert list(found.to_dict()) == ["answer", "start", "end", "score", "null_score", "candidates", "source"]
    several = reader.answer([question, "the bank?"], index, threshold=float("inf"), top_k=3)
    assert several[0] == found
    nothing = reader.answer(question, index, threshold=float("-inf"))
    assert (nothing.text, nothing.source) == (None, None)
    assert reader.answer("zebra", index).candidates == ()  # no passage shares the word


def test_fewer_asked_for_are_the_first_of_more(index):
    for method in ("vectors", "bm25", "hybrid"):
        assert index.search("the bank", top_k=2, method=method) == index.search("the bank", top_k=6, method=method)[:2]


def test_approximate_search_finds_the_same_in_a_small_index(index):
    exact, near = (index.search("the bank", top_k=5, method="vectors", approximate=asked) for asked in (False, True))
    assert [hit.text for hit in near] == [hit.text for hit in exact]
    np.testing.assert_allclose([hit.score for hit in near], [hit.score for hit in exact], atol=1e-5)
    both = [index.search("the bank", top_k=5, approximate=asked) for asked in (False, True)]
    assert [hit.text for hit in both[0]] == [hit.text for hit in both[1]]
    np.testing.assert_allclose([hit.score for hit in both[0]], [hit.score for hit in both[1]], atol=1e-4)
    assert len(index.search("the bank", top_k=500, method="vectors", approximate=True)) <= len(index)


def test_approximate_search_without_its_library_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(NotFound, match=r"Approximate search needs usearch.*pip install 'clearhead\[search\]'"):
        model.index(SENTENCES).search("bank", approximate=True)


def test_what_was_saved_is_loaded(index, model, tmp_path):
    index.save(tmp_path / "index")
    again = Index.load(tmp_path / "index", model)
    assert again.documents == index.documents
    for mine, theirs in [
        (again.spans, index.spans),
        (again.vectors.vectors, index.vectors.vectors),
        (again.words.weights, index.words.weights),
    ]:
        assert np.array_equal(mine, theirs)
    assert again.words.vocabulary == index.words.vocabulary
    for method in ("vectors", "bm25", "hybrid"):
        assert again.search("the bank", method=method) == index.search("the bank", method=method)
    # the same files, byte for byte
    again.save(tmp_path / "again")
    for file in (tmp_path / "index").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


@given(st.lists(any_strings, max_size=4))
@settings(max_examples=20)
def test_any_text_is_saved_as_it_is(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("any") / "index"
    index = Index.build([*texts, "bank"], max_characters=20)
    index.save(folder)
    again = Index.load(folder)
    assert again.documents == index.documents
    assert [again.passage(i) for i in range(len(again))] == [index.passage(i) for i in range(len(index))]


def test_an_index_of_another_model_is_refused(index, model, tmp_path):
    index.save(tmp_path / "index")
    other = ch.Model.create(model.config, model.tokenizer)
    with pytest.raises(BadInput, match="built with another model, of width 32; load that model, or build"):
        Index.load(tmp_path / "index", other)
    Index.build(SENTENCES).save(tmp_path / "words")
    assert Index.load(tmp_path / "words", model).search("London")[0].source == "4"


def test_without_a_model_words_can_be_searched(index, tmp_path):
    index.save(tmp_path)
    loaded = Index.load(tmp_path)
    assert loaded.search("the bank", method="bm25") == index.search("the bank", method="bm25")
    assert loaded.search("the bank") == loaded.search("the bank", method="bm25")
    with pytest.raises(NotFound, match="loaded without its model"):
        loaded.search("the bank", method="vectors")
    alone = Index.build(SENTENCES)
    assert alone.search("London")[0].source == "4"
    with pytest.raises(BadInput, match="built without a model"):
        alone.search("London", method="hybrid")


@pytest.mark.parametrize("name", ["documents.jsonl", "words.json", "index.safetensors"])
def test_damage_is_noticed(index, tmp_path, name):
    index.save(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadCheckpoint, match=f"{name} is damaged"):
        Index.load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(NotFound):
        Index.load(tmp_path)


def test_files_of_two_indexes_do_not_go_together(index, tmp_path):
    index.save(tmp_path)
    Index.build(SENTENCES).save(tmp_path / "other")
    (tmp_path / "other" / "index.safetensors").replace(tmp_path / "index.safetensors")
    with pytest.raises(BadCheckpoint, match="damaged or changed"):
        Index.load(tmp_path)


def test_a_folder_without_an_index_and_an_unknown_format(tmp_path):
    with pytest.raises(NotFound, match=r"holds no index \(index.json is not there\)"):
        Index.load(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(BadCheckpoint, match="written in format 9, this version reads 1"):
        Index.load(tmp_path)


def test_a_cross_encoder_and_hybrid_have_equal_say(index):
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).ours
    query, everything = "the bank", [index.passage(place) for place in range(len(index))]
    before = {hit.text: hit.score for hit in index.search(query, top_k=len(index))}
    read = {one.text: one.score for one in cross.rerank(query, everything)}
    odds = {text: (log_odds(before[text]) + log_odds(read[text])) / 2 for text in everything}
    hits = index.search(query, top_k=3, rerank_with=cross)
    assert [hit.text for hit in hits] == sorted(odds, key=lambda text: -odds[text])[:3]
    for hit in hits:
        assert hit.score == pytest.approx(1 / (1 + math.exp(-odds[hit.text])), abs=1e-5)


def log_odds(score):
    return math.log(score / (1 - score))


@pytest.mark.parametrize("method", ["vectors", "bm25"])
def test_by_other_methods_only_what_was_read_is_given(index, method):
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).ours
    found = [hit.text for hit in index.search("the bank", top_k=99, method=method)]
    hits = index.search("the bank", top_k=99, method=method, rerank_with=cross)
    assert [(hit.text, hit.score) for hit in hits] == [
        (one.text, pytest.approx(one.score, abs=1e-5)) for one in cross.rerank("the bank", found)
    ]


def test_passages_that_were_not_read_keep_their_scores(index, monkeypatch):
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).ours
    before = index.search("the bank", top_k=len(index))
    monkeypatch.setattr("clearhead.pipelines.search.reranking.READ_CHARACTERS", 1)
    hits = index.search("the bank", top_k=len(index), rerank_with=cross)
    assert {hit for hit in before if hit not in hits} == {before[0]}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    # as many as are shown, where scores would not compare
    shown = index.search("the bank", top_k=3, method="vectors", rerank_with=cross)
    assert len(shown) == 3
    assert all(0 < hit.score < 1 for hit in shown)


def test_many_queries_are_read_together(index):
    cross = peers("BertForSequenceClassification", ("LABEL_0",)).ours
    queries = ["the bank", "London", "a mask"]
    for query, hits in zip(queries, index.search(queries, top_k=3, rerank_with=cross), strict=True):
        alone = index.search(query, top_k=3, rerank_with=cross)
        assert [hit.text for hit in hits] == [hit.text for hit in alone]
        np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in alone], atol=1e-5)
    ten = index.search("the bank", top_k=10, rerank_with=cross)
    assert index.search("the bank", top_k=2, rerank_with=cross) == ten[:2]


def test_what_cannot_be_reranked(index, model):
    with pytest.raises(WrongTask, match="this model cannot rerank: it has neither a skill for that nor a head"):
        index.search("the bank", rerank=True)
    with pytest.raises(BadInput, match="this index has no model to rerank with; name a cross-encoder"):
        Index.build(SENTENCES).search("the bank", rerank=True)
    with pytest.raises(BadInput, match="rerank=False leaves rerank_with nothing to do"):
        index.search("the bank", rerank=False, rerank_with=model)
    inference = peers("BertForSequenceClassification", ("contradiction", "neutral", "ENTAILMENT")).ours
    assert index.search("zebra", method="bm25", rerank_with=inference) == []


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("bank", {"top_k": 0}, "top_k=0 passages cannot be given"),
        (" ", {}, "the query is empty"),
        ("bank", {"method": "magic"}, "method='magic' is not known; choose vectors, bm25, hybrid"),
    ],
)
def test_bad_questions_are_refused(index, query, options, message):
    with pytest.raises(BadInput, match=message):
        index.search(query, **options)


def test_nothing_to_search_and_no_text(model):
    with pytest.raises(BadInput, match="there is no text to search"):
        model.index(["", " \n"])
    with pytest.raises(BadInput, match="A document is a string or a Document, not int"):
        model.index([3])


def test_one_search_needs_no_index(model):
    assert model.search("the bank", SENTENCES, top_k=2) == model.index(SENTENCES).search("the bank", top_k=2)


def test_half_precision_is_still_the_same_model(index, folder, tmp_path):
    index.save(tmp_path)
    assert Index.load(tmp_path, ch.load(folder, dtype=torch.bfloat16)).search("the bank")


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr("clearhead.pipelines.search.index.EXACT_UP_TO", 3)


def test_a_graph_is_saved_and_used_where_there_are_many(model, tmp_path, few_are_many):
    model.index(DOCUMENTS).save(tmp_path / "index")
    assert (tmp_path / "index" / "index.usearch").is_file()
    again = Index.load(tmp_path / "index", model)
    assert again.vectors.graph is not None
    for method in ("vectors", "hybrid"):
        near, exact = (again.search("the bank", top_k=4, method=method, approximate=one) for one in (None, False))
        assert [hit.text for hit in near] == [hit.text for hit in exact]
        np.testing.assert_allclose([hit.score for hit in near], [hit.score for hit in exact], atol=1e-5)
    again.save(tmp_path / "again")
    assert Index.load(tmp_path / "again", model).search("the bank") == again.search("the bank")


def test_a_graph_that_is_damaged_or_of_another_index_is_refused(model, tmp_path, few_are_many):
    for name, texts in (("one", DOCUMENTS), ("two", DOCUMENTS[:4])):
        model.index(texts).save(tmp_path / name)
    graph = tmp_path / "one" / "index.usearch"
    content = bytearray(graph.read_bytes())
    content[len(content) // 2] ^= 1
    graph.write_bytes(content)
    with pytest.raises(BadCheckpoint, match=r"index.usearch is damaged"):
        Index.load(tmp_path / "one", model)
    facts = json.loads((tmp_path / "one" / "index.json").read_text())
    graph.write_bytes((tmp_path / "two" / "index.usearch").read_bytes())
    facts["sha256"]["index.usearch"] = json.loads((tmp_path / "two" / "index.json").read_text())["sha256"][graph.name]
    (tmp_path / "one" / "index.json").write_text(json.dumps(facts))
    with pytest.raises(BadCheckpoint, match=r"is no graph of 6 vectors of width 32; build the index again"):
        Index.load(tmp_path / "one", model)


def test_without_its_library_a_saved_graph_is_left_alone(model, tmp_path, few_are_many, monkeypatch):
    model.index(DOCUMENTS).save(tmp_path / "index")
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    found = Index.load(tmp_path / "index", model)
    assert found.vectors.graph is None
    assert found.search("the bank", method="vectors")
    model.index(DOCUMENTS).save(tmp_path / "other")
    assert not (tmp_path / "other" / "index.usearch").exists()


def test_a_graph_is_led_on_when_documents_come_and_go():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 24)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = np.arange(3000)
    graph = Graph.build(keys[:2000], vectors[:2000])
    later = graph.changed(keys[:500], keys[2000:], vectors[2000:])
    assert (len(graph), len(later)) == (2000, 2500)
    wanted = vectors[::29]
    right = np.argsort(-(wanted @ vectors[500:].T), axis=1)[:, :10] + 500
    found = later.nearest(wanted, 10)
    assert all((one >= 500).all() for one in found)
    assert np.mean([len({*one.tolist()} & {*two.tolist()}) / 10 for one, two in zip(found, right, strict=True)]) > 0.95
    assert all(len(one) == 10 for one in graph.nearest(wanted, 10))


def test_an_index_of_the_first_format_is_read(index, tmp_path, model):
    """As it was written before there were graphs and metadata: the same files, and nothing else in them."""
    index.save(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith(".")) == [
        *("documents.jsonl", "index.json", "index.safetensors", "words.json"),
    ]
    assert json.loads((tmp_path / "documents.jsonl").read_text().splitlines()[0]).keys() == {"id", "text"}
    assert json.loads((tmp_path / "index.json").read_text())["format"] == 1
