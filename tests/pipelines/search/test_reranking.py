import math
import shutil

import numpy as np
import pytest

import clearhead as ch
from clearhead.errors import BadInput, WrongTask
from clearhead.pipelines.search.index import Index
from clearhead.pipelines.search.ranking import Ranking, log_odds, probabilities, reranked
from clearhead.pipelines.search.reranking import READ_CHARACTERS, how_many
from pipelines.peers import LONG, SENTENCES, peers

QUERY = "Who lived in London?"
LABELS = {
    "one output": ("LABEL_0",),
    "two with names": ("irrelevant", "relevant"),
    "two without": ("LABEL_0", "LABEL_1"),
    "inference": ("contradiction", "neutral", "ENTAILMENT"),
}


def cross_encoder(labels, problem=None):
    return peers("BertForSequenceClassification", labels, problem).ours


@pytest.mark.parametrize("kind", LABELS)
def test_the_score_is_the_probability_of_the_label_that_means_yes(kind):
    model, labels = cross_encoder(LABELS[kind]), LABELS[kind]
    found = model.rerank(QUERY, SENTENCES)
    assert sorted(one.index for one in found) == list(range(len(SENTENCES)))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert one.text == SENTENCES[one.index]
        said = model.compare(QUERY, one.text).scores[labels[-1]]
        expected = 1 / (1 + math.exp(-said)) if len(labels) == 1 else said
        assert one.score == pytest.approx(expected, abs=1e-5)
    assert list(found[0].to_dict()) == ["text", "index", "score"]


def test_several_labels_at_once_are_probabilities_by_themselves():
    model = cross_encoder(("relevant", "old"), "multi_label_classification")
    (found,) = model.rerank(QUERY, SENTENCES[:1])
    assert found.score == pytest.approx(model.compare(QUERY, SENTENCES[0]).scores["relevant"], abs=1e-5)


def test_one_query_or_many_each_with_its_passages():
    model = cross_encoder(LABELS["one output"])
    one = model.rerank(QUERY, SENTENCES, top_k=2)
    assert one == model.rerank(QUERY, SENTENCES)[:2]
    assert model.rerank(QUERY, iter(SENTENCES), top_k=2) == one
    many = model.rerank([(QUERY, SENTENCES), ("a mask", SENTENCES[:3]), ("a bank", [])], top_k=2)
    assert [[(hit.index, pytest.approx(hit.score, abs=1e-5)) for hit in hits] for hits in many] == [
        [(hit.index, hit.score) for hit in one],
        [(hit.index, hit.score) for hit in model.rerank("a mask", SENTENCES[:3], top_k=2)],
        [],
    ]
    assert next(model.rerank(iter([(QUERY, SENTENCES)]), top_k=2)) == one
    done = []
    model.rerank(QUERY, SENTENCES, progress=done.append)
    assert sum(done) == len(SENTENCES)
    assert model.rerank(QUERY, [LONG])[0].text == LONG  # longer than the model reads at once


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((QUERY,), {}, "give a query and its passages, or a list of both"),
        (([(QUERY, SENTENCES)], SENTENCES), {}, "give a query and its passages, or a list of both"),
        ((" ", SENTENCES), {}, "the query is empty; give some words"),
        ((QUERY, "one text"), {}, "Passages must be a list of texts, not 'one text'"),
        (([QUERY],), {}, r"A query comes with its passages, \(query, passages\), not as 'Who lived"),
        ((QUERY, [3]), {}, "A text must be a string, not int"),
        ((QUERY, SENTENCES), {"top_k": 0}, "top_k=0 passages cannot be given"),
    ],
)
def test_bad_input_is_one_sentence(given, options, message):
    with pytest.raises(BadInput, match=message):
        cross_encoder(LABELS["one output"]).rerank(*given, **options)


def test_a_model_that_cannot_rerank_says_so(model):
    with pytest.raises(WrongTask, match="this model cannot rerank: it has neither a skill for that nor a head"):
        model.rerank(QUERY, SENTENCES)
    with pytest.raises(WrongTask, match="with the labels no, perhaps cannot rerank; it needs one output, two without"):
        cross_encoder(("no", "perhaps")).rerank(QUERY, SENTENCES)


def test_log_odds_and_back():
    scores = np.array([0.0, 0.1, 0.5, 1.0], np.float32)
    np.testing.assert_allclose(probabilities(log_odds(scores)), scores, atol=1e-6)
    assert probabilities(np.array([-1e6, 1e6])).tolist() == [0, 1]


def test_an_unsure_reading_brings_a_probability_nearer_to_a_half():
    ranking = Ranking(np.array([7, 3, 5]), np.array([0.9, 0.8, 0.7], np.float32))
    found = reranked(ranking, np.array([0.0]), 3, probable=True)
    assert found.places.tolist() == [3, 7, 5]
    np.testing.assert_allclose(found.scores, [0.8, 0.75, 0.7], atol=1e-6)
    alone = reranked(ranking, np.array([0.0, 1.0]), 3, probable=False)
    assert alone.places.tolist() == [3, 7]
    np.testing.assert_allclose(alone.scores, [1 / (1 + math.exp(-1)), 0.5], atol=1e-6)


def test_as_much_is_read_as_there_is_time_for():
    assert how_many("why?", []) == 0
    assert how_many("why?", ["a" * READ_CHARACTERS] * 3) == 1
    assert how_many("why?", ["a" * READ_CHARACTERS] * 3, least=2) == 2
    assert how_many("why?", ["a" * 796] * 99) == READ_CHARACTERS // 800
    assert how_many("why?", ["a"] * 500) == 100
    assert how_many("w" * 496, ["abcd"] * 500) == READ_CHARACTERS // 500


@pytest.fixture
def skilled(built_in):
    return ch.load()


def same(hits, others):
    assert [hit.text for hit in hits] == [hit.text for hit in others]
    np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in others], atol=1e-5)


def test_a_model_with_the_skill_reranks_unasked_unless_another_method_is_named(skilled):
    index = skilled.index(SENTENCES)
    read, plain = (index.search(QUERY, rerank=asked) for asked in (True, False))
    assert [hit.score for hit in read] != [hit.score for hit in plain]
    same(index.search(QUERY), read)
    same(index.search(QUERY, method="hybrid"), read)
    same(skilled.search(QUERY, SENTENCES), read)
    same(skilled.search(QUERY, SENTENCES, rerank=False), plain)
    same(index.search(QUERY, rerank_with=skilled.skill("rerank")), read)
    for method in ("vectors", "bm25"):
        alone = index.search(QUERY, method=method)
        same(alone, index.search(QUERY, method=method, rerank=False))
        again = index.search(QUERY, method=method, rerank=True)
        same(again, skilled.rerank(QUERY, [hit.text for hit in alone]))
    # of a skill that was named nothing is known of others
    one = skilled.skill("search")
    same(one.index(SENTENCES).search(QUERY), plain)


def test_all_that_searches_takes_the_skill_for_search(skilled):
    vectors = skilled.skill("search").embed([QUERY, SENTENCES[0]])
    assert not np.allclose(vectors, skilled.embed([QUERY, SENTENCES[0]]), atol=1e-3)
    (hit,) = skilled.search(QUERY, SENTENCES[:1], method="vectors")
    assert hit.score == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    by_similarity = skilled.skill("similarity").embed([QUERY, SENTENCES[0]])
    (hit,) = skilled.search(QUERY, SENTENCES[:1], method="vectors", skill="similarity")
    assert hit.score == pytest.approx(float(by_similarity[0] @ by_similarity[1]), abs=1e-5)
    alone = {name: skilled.skill(name) for name in ("search", "similarity")}
    texts = [*SENTENCES, SENTENCES[0] + " It was."]
    for use, options in (("cluster", {"threshold": 0.9}), ("duplicates", {"threshold": 0.5})):
        found = getattr(skilled, use)
        assert found(texts, **options) == getattr(alone["search"], use)(texts, **options)
        assert found(texts, skill="similarity", **options) == getattr(alone["similarity"], use)(texts, **options)


def test_without_a_skill_for_search_vectors_are_those_of_embed(home_without):
    model = ch.load(home_without)
    assert model.uses["search"] == "similarity"
    assert "rerank" not in model.uses
    vectors = model.embed([QUERY, SENTENCES[0]])
    (hit,) = model.search(QUERY, SENTENCES[:1], method="vectors")
    assert hit.score == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    with pytest.raises(WrongTask, match="this model cannot rerank"):
        model.search(QUERY, SENTENCES, rerank=True)


@pytest.fixture
def home_without(stand_in, tmp_path):
    """The stand-in as it was before it learnt to search."""
    folder = tmp_path / "before"
    shutil.copytree(stand_in, folder)
    for name in ("search", "rerank"):
        shutil.rmtree(folder / "skills" / name)
    return folder


def test_an_index_from_before_the_skill_says_what_to_do(skilled, home_without, tmp_path):
    ch.load(home_without).index(SENTENCES).save(tmp_path / "index")
    with pytest.raises(BadInput) as told:
        Index.load(tmp_path / "index", skilled)
    assert str(told.value) == (
        f"the index in {tmp_path / 'index'} was built with the skill 'similarity', and would be searched with "
        "'search'; build the index again, or name the old skill: skill='similarity', --skill similarity"
    )
    index = Index.load(tmp_path / "index", skilled, skill="similarity")
    same(index.search(QUERY, rerank=False), ch.load(home_without).search(QUERY, SENTENCES))
    assert index.search(QUERY)[0].score != index.search(QUERY, rerank=False)[0].score
    other = ch.Model.create(skilled.config, skilled.tokenizer)
    other.index(SENTENCES).save(tmp_path / "other")
    with pytest.raises(BadInput, match="built with another model, of width 32; load that model, or build"):
        Index.load(tmp_path / "other", skilled)


def test_answers_are_looked_for_where_a_cross_encoder_says(skilled):
    words = Index.build(SENTENCES)
    hits = words.search(QUERY, rerank_with=skilled)
    found = skilled.answer(QUERY, words, threshold=math.inf, top_k=99)
    assert {one.source for one in found.candidates} <= {hit.source for hit in hits}
    best = max(found.candidates, key=lambda one: one.score)
    share = next(hit.score for hit in hits if hit.source == best.source) / hits[0].score
    alone = skilled.answer(QUERY, SENTENCES[int(best.source)], threshold=math.inf)
    assert best.score == pytest.approx(share * alone.candidates[0].score, abs=1e-4)


def test_labels_by_vectors(skilled):
    near, labels = skilled.skill("search"), ["a tired animal", "money"]
    found = near.zero_shot(SENTENCES[0], labels)
    assert found == skilled.zero_shot(SENTENCES[0], labels, skill="search")
    cosines = near.embed([f"This text is about {label}." for label in labels]) @ near.embed(SENTENCES[0])
    shares = np.exp(20 * cosines) / np.exp(20 * cosines).sum()
    assert [found.scores[label] for label in labels] == pytest.approx(shares.tolist(), abs=1e-5)
    assert len(near.zero_shot(SENTENCES, labels, top_k=1)[1].scores) == 1
    assert sum(skilled.zero_shot(SENTENCES[0], labels).scores.values()) == pytest.approx(1)  # by inference
    with pytest.raises(BadInput, match="multi_label asks of each label by itself, which vectors do not tell"):
        near.zero_shot(SENTENCES[0], labels, multi_label=True)
