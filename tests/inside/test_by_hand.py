"""Attention by hand starts with the slides' numbers, and its steps are what torch computes."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput
from clearhead.inside.by_hand import Example, by_hand
from clearhead.nn.attention import self_attention

DATA = by_hand().data


def test_the_slides_numbers():
    """Thinking Machines: scores 112 and 96, divided by 8 they are 14 and 12, the softmax is 0.88 and 0.12."""
    head = DATA["heads"][0]
    assert DATA["words"] == ["Thinking", "Machines"]
    assert head["scores"][0] == [112, 96]
    assert head["scaled"][0] == [14, 12]
    assert [round(weight, 2) for weight in head["weights"][0]] == [0.88, 0.12]


def test_every_step_follows_from_the_one_before():
    x = torch.tensor(DATA["x"])
    parts = []
    for head in DATA["heads"]:
        step = {name: torch.tensor(value) for name, value in head.items()}
        assert_close(step["q"], x @ step["query"])
        assert_close(step["k"], x @ step["key"])
        assert_close(step["v"], x @ step["value"])
        assert_close(step["scores"], step["q"] @ step["k"].T)
        assert_close(step["scaled"], step["scores"] / DATA["key_width"] ** 0.5)
        assert_close(step["weights"], step["scaled"].softmax(-1), atol=1e-4, rtol=0)
        assert_close(step["z"], step["weights"] @ step["v"], atol=1e-3, rtol=0)
        parts.append(step["z"])
    assert_close(torch.tensor(DATA["joined"]), torch.cat(parts, -1))
    assert_close(
        torch.tensor(DATA["output"]), torch.cat(parts, -1) @ torch.tensor(DATA["output_matrix"]), atol=1e-3, rtol=0
    )


def test_without_parameters():
    x, basic = torch.tensor(DATA["x"]), DATA["basic"]
    assert_close(torch.tensor(basic["plain"]), x @ x.T @ x)
    assert_close(torch.tensor(basic["z"]), self_attention(x), atol=1e-4, rtol=0)


def test_man_woman_child():
    mapping = DATA["mapping"]
    assert mapping["scores"] == [[0.7, 0], [0, 0.7]]
    assert mapping["output"] == [[0.7, 0, 0.7], [0.7, 0.7, 0]]


def test_your_own_numbers():
    rng = torch.Generator().manual_seed(0)
    x, query, key, value = (torch.randn(*shape, generator=rng) for shape in [(3, 4), *[(1, 4, 2)] * 3])
    data = by_hand(Example(("a", "b", "c"), x, query, key, value, torch.eye(2, 4), 2)).data
    expected = torch.nn.functional.scaled_dot_product_attention(x @ query[0], x @ key[0], x @ value[0])
    assert_close(torch.tensor(data["heads"][0]["z"]), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("words", "width", "message"),
    [(("a",), 2, "do not fit 1 words"), (("a", "b"), 1, "key_width=1 is less than the 2 features drawn")],
)
def test_what_does_not_fit_is_refused(words, width, message):
    matrices = torch.ones(1, 4, 2)
    with pytest.raises(BadInput, match=message):
        Example(words, torch.ones(2, 4), matrices, matrices, matrices, torch.ones(2, 4), width)
