"""Labels and their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.examples import Labels
from clearhead.errors import BadInput


def test_numbers_in_the_order_of_numbers():
    assert Labels.of(["10", "9", "-1", "2", "9"]).names == ("-1", "2", "9", "10")


def test_names_in_the_order_of_the_alphabet():
    assert Labels.of(["spam", "ham", "2"]).names == ("2", "ham", "spam")


@given(st.lists(st.text(max_size=4), min_size=1))
def test_ids_do_not_depend_on_the_order_of_the_data(labels):
    one, other = Labels.of(labels), Labels.of(reversed(labels))
    assert one == other
    assert [one.names[i] for i in one.ids(labels)] == labels


def test_a_label_only_in_dev_is_an_error():
    message = "dev.tsv has the label 'maybe', which the training data has not; known are 'no', 'yes'"
    with pytest.raises(BadInput, match=message):
        Labels.of(["yes", "no"]).ids(["yes", "maybe"], "dev.tsv")


def test_no_labels_and_labels_twice():
    with pytest.raises(BadInput, match="no labels"):
        Labels.of([])
    with pytest.raises(BadInput, match="named twice"):
        Labels(("a", "a"))
