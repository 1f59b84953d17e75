"""The lectures' own examples, each by the built-in model as it comes: what a slide states is what it must say."""

import re

import pytest

import clearhead as ch
from clearhead.demo import BANKS
from clearhead.evaluation.squad import normalise
from clearhead.inside import senses_of
from clearhead.inside.senses import EXAMPLES
from lecture_examples import ANIMAL, BERT_LARGE, HAM, NUS, PAIRS, PHARMACY, REVIEWS, SPAM


def misses(says: str) -> pytest.MarkDecorator:
    """What this model does not reach yet; a better one makes the test fail, and the mark has to go."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"the model says {says}")


# what one may lift
PART = re.compile(
    "body|face|feet|foot|"
    "(arm|chest|chin|ear|elbow|eye|finger|hand|head|heel|knee|leg|lip|neck|nose|shoulder|thumb|toe|tongue|wrist)s?"
)


@pytest.fixture(scope="module")
def model():
    return ch.load()


@misses("a quotation mark, then 'cigar'")
def test_a_mask_against_viruses(model):
    found = model.fill("If you don't want to inhale virus, you should wear a [MASK]")
    assert found.predictions[0].token == "mask"


def test_bert_lifts_a_part_of_the_body(model):
    assert PART.fullmatch(model.fill("BERT, lift your [MASK]").predictions[0].token)


# the slide prints lower-case pieces; SQuAD's own comparison leaves case, articles and punctuation aside
@pytest.mark.parametrize(
    ("question", "passage", "answer"),
    [
        (
            "What can we learn in NUS?",
            NUS,
            "sciences , medicine and dentistry , design and environment , law , arts and social sciences , "
            "engineering , business , computing and music",
        ),
        pytest.param(
            "What does NUS mean?",
            NUS,
            "national university of singapore",
            marks=misses("'comprehensive research university'"),
        ),
        (*BERT_LARGE, "340M"),
    ],
)
def test_questions(model, question, passage, answer):
    found = model.answer(question, passage)
    assert found.text is not None
    assert normalise(found.text) == normalise(answer)
    assert passage[found.start : found.end] == found.text


def test_no_answer_where_the_passage_has_none(model):
    found = model.answer("Who painted the ceiling of the chapel?", NUS)
    assert found.text is None
    assert 0.5 < found.score <= 1


@pytest.mark.parametrize(("label", "first", "second"), PAIRS)
def test_pairs_of_sentences(model, label, first, second):
    assert model.compare(first, second).label == label


@pytest.mark.parametrize(
    ("text", "skill", "label"),
    [
        (SPAM, "spam", "spam"),
        (HAM, "spam", "ham"),
        (REVIEWS[0], "sentiment", "positive"),
        (REVIEWS[1], "sentiment", "negative"),
    ],
)
def test_a_sentence_and_its_class(model, text, skill, label):
    found = model.classify(text, skill=skill)
    assert found.label == label
    assert sum(found.scores.values()) == pytest.approx(1)


def test_bert_makes_dirt(model):
    words = model.tag("BERT makes dirt").words
    kinds = {"PER": "PERSON", "O": "OTHER"}
    assert [(word.text, kinds.get(word.label.rpartition("-")[2])) for word in words] == [
        ("BERT", "PERSON"),
        ("makes", "OTHER"),
        ("dirt", "OTHER"),
    ]


@pytest.mark.parametrize("word", EXAMPLES)
def test_a_sense_is_closer_to_itself_than_to_another(model, word):
    near = senses_of(model, word).data["gaps"][-1]
    assert near["same"] > near["different"]


def test_two_trains(model):
    texts = ["He took a train.", "He likes to train in the mornings.", "The train to London leaves at nine."]
    cosines = model.senses("train", texts).cosines
    assert cosines[0, 2] > cosines[0, 1]
    assert cosines[0, 2] > cosines[1, 2]


def test_bank_falls_into_money_and_rivers(model):
    assert [one.sense for one in model.senses("bank", BANKS).occurrences] == [0, 0, 1, 1]


@pytest.mark.parametrize("word", EXAMPLES)
def test_senses_come_apart(model, word):
    by_sense = EXAMPLES[word].values()
    found = model.senses(word, [text for texts in by_sense for text in texts])  # how many there are is found too
    expected = [sense for sense, texts in enumerate(by_sense) for _ in texts]
    assert [one.sense for one in found.occurrences] == expected


def test_bank_has_another_vector_in_each_context(model):
    texts = [
        "It is safest to deposit your money in the bank.",
        "All the animals lined up along the river bank.",
        "Today, blood banks collect blood.",
    ]
    cosines = model.senses(["bank", "banks"], texts).cosines
    assert cosines[0, 1] < 0.99
    assert cosines[0, 2] < 0.99
    assert cosines[1, 2] < 0.99


def test_a_head_links_it_to_the_animal(model):
    traced = ch.trace(model, ANIMAL)
    it, animal = traced.position("it"), traced.position("animal")
    most = [
        traced.attention(link.layer, link.head)[it].argmax().item() == animal for link in traced.links("it", "animal")
    ]
    assert any(most)


@pytest.mark.parametrize("method", ["vectors", "hybrid"])
def test_medicine_for_someone_else(model, method):
    query, notes, _ = PHARMACY
    documents = notes.split("\n\n")
    assert model.search(query, documents, top_k=1, method=method)[0].text == documents[0]


def test_sentences_become_vectors(model):
    vectors = model.embed([ANIMAL, SPAM])
    assert vectors.shape == (2, model.config.hidden_size)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        # Tatoeba says "have to" where the slide has "must"
        ("Ich muss auf den Markt gehen.", ("I have to go to the market.", "I must go to the market.")),
        ("Je suis étudiant", ("I'm a student", "I'm a student.", "I am a student", "I am a student.")),
    ],
)
def test_translations(source, said):
    assert ch.load("builtin:translator").translate(source).text in said
