"""Expected numbers were given by rouge_score 0.1.2 with nltk 3.10: (precision, recall, F1) for 1, 2, L, Lsum."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import BadInput
from clearhead.evaluation.rouge import KINDS, mean_rouge, oracle_sentences, porter_stem, rouge, words

ZERO = (0, 0, 0)
ONE = (1, 1, 1)


@pytest.mark.parametrize(
    ("reference", "summary", "expected"),
    [
        (
            "The quick brown fox jumps over the lazy dog",
            "The quick brown dog jumps on the log.",
            [(0.75, 0.666667, 0.705882), (0.285714, 0.25, 0.266667), *[(0.625, 0.555556, 0.588235)] * 2],
        ),
        ("a b a b a", "b a b", [(1, 0.6, 0.75), (1, 0.5, 0.666667), (1, 0.6, 0.75), (1, 0.6, 0.75)]),
        (
            "w1 w2 w3 w4 w5",
            "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5",  # section 3.2 of the paper: w1 w2 of one line, w1 w3 w5 of the other
            [(0.4, 0.8, 0.533333), (0.111111, 0.25, 0.153846), (0.4, 0.8, 0.533333), (0.4, 0.8, 0.533333)],
        ),
        (
            "the cat sat\nthe cat sat",
            "the cat\nsat the\n\ncat",  # Lsum depends on which longest subsequence is taken
            [(1, 0.833333, 0.909091), (1, 0.8, 0.888889), (1, 0.833333, 0.909091), (0.8, 0.666667, 0.727273)],
        ),
        (
            "Café déjà-vu: it's 3.5%",
            "cafe deja vu it s 3 5",
            [(0.714286, 0.625, 0.666667), (0.666667, 0.571429, 0.615385), *[(0.714286, 0.625, 0.666667)] * 2],
        ),
        ("", "anything", [ZERO] * 4),
        ("...", "!!", [ZERO] * 4),
        ("one", "one", [ONE, ZERO, ONE, ONE]),
    ],
)
@pytest.mark.parametrize("stem", [False, True])  # none of these words has an ending to lose
def test_same_numbers_as_rouge_score(reference, summary, expected, stem):
    scores = rouge(reference, summary, stem=stem)
    assert list(scores) == list(KINDS)
    for kind, numbers in zip(KINDS, expected, strict=True):
        assert scores[kind] == pytest.approx(numbers, abs=1e-6), kind


def test_stemming():
    killed = ("police killed the gunman", "the gunman kill police")
    assert rouge(*killed)["rouge1"].f1 == pytest.approx(0.75)
    assert rouge(*killed, stem=True)["rouge1"].f1 == pytest.approx(1)
    related = ("relational theology skies dying happily", "relate theological sky die happy")
    assert rouge(*related)["rouge1"].f1 == 0
    # "die" and "sky" have three letters and are left alone; "happily" and "happy" differ: 4 of 5
    scores = rouge(*related, stem=True)
    assert [scores[kind].f1 for kind in KINDS] == pytest.approx([0.8, 0.75, 0.8, 0.8])
    assert words("He was DYING", stem=True) == ["he", "was", "die"]


STEMS = """
caresses caress|ponies poni|ties tie|dies die|flies fli|died die|spied spi|feed feed|agreed agre|plastered plaster
bled bled|motoring motor|sing sing|conflated conflat|troubled troubl|sized size|hopping hop|falling fall|hissing hiss
filing file|happy happi|enjoy enjoy|spy spi|relational relat|rational ration|radically radic|hopefully hope
theology theolog|archaeology archaeolog|triplicate triplic|formative form|goodness good|revival reviv|adoption adopt
replacement replac|effective effect|bowdlerize bowdler|probate probat|rate rate|cease ceas|controll control|roll roll
skies sky|dying die|news news|innings inning|proceed proceed|syzygy syzygi|yyy yyy|oed o|2nded 2nded|by by
generalizations gener|oscillators oscil|vietnamization vietnam
"""


@pytest.mark.parametrize("case", STEMS.strip().replace("\n", "|").split("|"))
def test_stems_of_nltk(case):
    word, expected = case.split()
    assert porter_stem(word) == expected


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abcdegilnostuyz1", max_size=12))
def test_a_stem_is_a_word_and_never_longer(word):
    assert len(porter_stem(word)) <= len(word)
    assert bool(porter_stem(word)) == bool(word)


texts = st.lists(st.sampled_from(["the", "cat", "cats", "sat.", "\n", "é", "9"]), max_size=10).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(reference=texts, summary=texts)
def test_bounded_and_symmetric(reference, summary):
    here, there = rouge(reference, summary), rouge(summary, reference)
    for kind in KINDS:
        assert 0 <= here[kind].f1 <= 1 + 1e-12
    for kind in ("rouge1", "rouge2", "rougeL"):
        assert here[kind].precision == there[kind].recall


def test_several_references_and_the_mean():
    # each kind takes its own best reference: 1 and L share "the", "runs" with the first
    best = rouge(["a dog sat", "the cat runs"], "the dog runs")
    assert best["rouge1"].f1 == pytest.approx(2 / 3)
    assert mean_rouge(["a b", ["x", "a b"]], ["a b", "c"])["rouge1"] == (0.5, 0.5, 0.5)


def test_bad_input():
    with pytest.raises(BadInput, match="1 gold items and 2 summaries"):
        mean_rouge(["a"], ["a", "b"])
    with pytest.raises(BadInput, match="no reference"):
        rouge([], "a")


def test_the_oracle_takes_what_adds_most_and_stops_where_nothing_does():
    sentences = ["The moon is far.", "A dog barked at night.", "The dog barked.", "Cats slept.", "The dog barked."]
    assert oracle_sentences(sentences, "The dog barked. Cats slept.", most=3) == [2, 3]
    assert oracle_sentences(sentences, "The dog barked. Cats slept.", most=1) == [2]
    assert oracle_sentences(sentences, "Nothing of it", most=3) == []
    assert oracle_sentences([], "Nothing", most=3) == []
