"""Many inputs are cut into batches."""

from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.batch import chunks, group_by_length


@given(st.lists(st.integers(1, 50)), st.integers(1, 100))
def test_budgets_hold_every_input_once_and_stay_within_bounds(lengths, budget):
    groups = group_by_length(lengths, budget)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or sum(lengths[i] for i in group) <= budget


def test_chunks_of_a_stream():
    assert list(chunks(iter(range(5)), 2)) == [[0, 1], [2, 3], [4]]
