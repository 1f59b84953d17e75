"""Random numbers belong to a stream and a place in it, and to no other."""

from itertools import product

import numpy as np

from clearhead.data.rng import Stream, order, rng


def test_streams_and_places_never_share_their_numbers():
    places = [(stream, seed, index) for stream, seed, index in product(Stream, range(4), range(4))]
    drawn = {tuple(rng(*place).integers(2**63, size=2)) for place in places}
    assert len(drawn) == len(places)


def test_a_place_always_has_the_same_numbers():
    assert np.array_equal(rng(Stream.MASKING, 1, 2).random(5), rng(Stream.MASKING, 1, 2).random(5))
    # the masks of published perplexities
    assert rng(Stream.EVALUATION, 7).integers(1000, size=3).tolist() == [
        802,
        173,
        49,
    ]


def test_an_order_holds_everything_once():
    first, second = order(50, 0, 0), order(50, 0, 1)
    assert sorted(first) == sorted(second) == list(range(50))
    assert not np.array_equal(first, second)
