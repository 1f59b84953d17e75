"""Expected numbers are those of conlleval; where a case is tricky its rule is beside it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import BadInput
from clearhead.evaluation.conll import conlleval, spans


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A I-A O B-A", [(0, 2, "A"), (3, 4, "A")]),
        ("O I-A I-A", [(1, 3, "A")]),  # I after O starts a span (startOfChunk: O, I)
        ("B-A I-B", [(0, 1, "A"), (1, 2, "B")]),  # a change of type ends and starts
        ("I-A B-A", [(0, 1, "A"), (1, 2, "A")]),  # IOB1: B parts two spans of one type
        ("I-A I-A B-A I-A I-B", [(0, 2, "A"), (2, 4, "A"), (4, 5, "B")]),
        ("B-A B-A", [(0, 1, "A"), (1, 2, "A")]),
        ("B-A O I-A", [(0, 1, "A"), (2, 3, "A")]),
        ("S-A S-A B-A E-A S-B", [(0, 1, "A"), (1, 2, "A"), (2, 4, "A"), (4, 5, "B")]),
        ("B-A I-A E-A I-A", [(0, 3, "A"), (3, 4, "A")]),  # E, I: E ends a span
        ("E-A E-A", [(0, 1, "A"), (1, 2, "A")]),  # O, E starts; E, E ends and starts
        ("B-A E-A B-A E-A", [(0, 2, "A"), (2, 4, "A")]),
        ("B-A E-B", [(0, 1, "A"), (1, 2, "B")]),
        ("B-X-Y I-X-Y I-X", [(0, 2, "X-Y"), (2, 3, "X")]),  # the first hyphen separates
        ("B I O I", [(0, 2, ""), (3, 4, "")]),  # without types
        ("O O", []),
        ("", []),
    ],
)
def test_spans(tags, expected):
    assert spans(tags.split()) == expected


def test_report_is_that_of_conlleval():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "I-ORG", "O"], ["I-LOC", "I-LOC"]]
    predicted = [["B-PER", "I-PER", "O", "I-LOC"], ["B-ORG", "O", "I-PER"], ["B-LOC", "I-ORG"]]
    # gold PER 0-2, LOC 3-4; ORG 0-2; LOC 0-2: 4 spans
    # found PER 0-2, LOC 3-4 (I after O); ORG 0-1, PER 2-3; LOC 0-1, ORG 1-2: 6, the first two are right
    # tags: sentence 1 has 3 of 4 right (B-LOC is not I-LOC), sentence 2 has 1 of 3, sentence 3 none of 2: 4 of 9
    result = conlleval(gold, predicted)
    assert result.report() == (
        "processed 9 tokens with 4 phrases; found: 6 phrases; correct: 2.\n"
        "accuracy:  44.44%; precision:  33.33%; recall:  50.00%; FB1:  40.00\n"
        "              LOC: precision:  50.00%; recall:  50.00%; FB1:  50.00  2\n"
        "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  2\n"
        "              PER: precision:  50.00%; recall: 100.00%; FB1:  66.67  2\n"
    )
    assert result.overall.f1 == pytest.approx(40)
    assert result.types["PER"].recall == 100


def test_other_scheme_same_spans_but_other_accuracy():
    # IOB1 against IOB2: the same spans, so F1 is 100, while only the second tag of each span is the same
    result = conlleval([["I-A", "I-A", "O", "I-B", "I-B"]], [["B-A", "I-A", "O", "B-B", "I-B"]])
    assert (result.overall.f1, result.accuracy) == (100, 60)


def test_spans_do_not_cross_sentences():
    assert conlleval([["B-A"], ["I-A"]], [["B-A"], ["I-A"]]).overall.gold == 2


def test_found_all_too_long_or_nothing():
    # a span that goes on too long is not right: 0 of 1, though one tag of two is
    result = conlleval([["B-A", "O"]], [["B-A", "I-A"]])
    assert (result.overall.precision, result.overall.recall, result.overall.f1, result.accuracy) == (0, 0, 0, 50)
    nothing = conlleval([["O", "O"]], [["O", "O"]])
    assert (nothing.overall.f1, nothing.accuracy, nothing.types) == (0, 100, {})


@pytest.mark.parametrize(
    "written",
    [
        "I-A I-A B-A O I-B I-A",  # IOB1
        "B-A I-A B-A O B-B B-A",  # IOB2
        "B-A E-A S-A O S-B S-A",  # IOBES
    ],
)
def test_all_schemes_are_read(written):
    assert spans(written.split()) == [(0, 2, "A"), (2, 3, "A"), (4, 5, "B"), (5, 6, "A")]


tags = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-A", "E-B", "S-B", "B", "I-C-D"])
sentences = st.lists(st.lists(tags, min_size=1, max_size=8), min_size=1, max_size=6)
pairs = st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=8), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(gold=sentences)
def test_perfect_is_perfect(gold):
    result = conlleval(gold, gold)
    assert result.accuracy == 100
    assert result.overall.f1 == (100 if result.overall.gold else 0)


@settings(max_examples=60, deadline=None)
@given(pairs=pairs, data=st.data())
def test_bounded_symmetric_and_blind_to_names_and_order(pairs, data):
    gold = [[a for a, _ in row] for row in pairs]
    guess = [[b for _, b in row] for row in pairs]
    result, swapped = conlleval(gold, guess), conlleval(guess, gold)
    assert 0 <= result.overall.f1 <= 100
    assert 0 <= result.accuracy <= 100
    assert result.overall.f1 == swapped.overall.f1
    assert result.overall.precision == swapped.overall.recall
    assert result.overall.correct == sum(score.correct for score in result.types.values())

    renamed = [[[tag.replace("-A", "-Z") for tag in row] for row in side] for side in (gold, guess)]
    assert conlleval(*renamed).overall == result.overall
    order = data.draw(st.permutations(range(len(pairs))))
    assert conlleval([gold[i] for i in order], [guess[i] for i in order]) == result


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conlleval([["O"]], []), "1 gold items and 0 predicted sentences"),
        (lambda: conlleval([], []), "no gold items"),
        (lambda: conlleval([["O", "O"]], [["O"]]), "Sentence 0 has 2 gold and 1 predicted tags"),
        (lambda: conlleval([[]], [[]]), "no tokens"),
        (lambda: spans(["PER"]), "'PER' is not a tag"),
        (lambda: spans(["O-PER"]), "'O-PER' is not a tag"),
        (lambda: spans([""]), "'' is not a tag"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
