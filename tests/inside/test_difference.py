"""Two passes compared: the numbers are those of the traces, and nothing is compared that does not belong together."""

import sys
import zlib
from base64 import b64decode

import numpy as np
import pytest
import torch

from clearhead.errors import BadInput
from clearhead.inside import difference
from clearhead.inside.difference import aligned
from clearhead.inside.trace import trace
from inside.models import small
from inside.pages import Page

MODULE = sys.modules["clearhead.inside.difference"]  # the name is the function's
TIRED, WIDE = "the animal was too tired", "the animal was too alert"


def change(view, layer, head):
    page, size = Page(view.html), len(view.data["tokens"])
    low, high = np.frombuffer(zlib.decompress(b64decode(page.scripts[f"layer-{layer}"])), np.uint8).reshape(2, -1)
    return ((low.astype(int) | high.astype(int) << 8) - 1000).reshape(-1, size, size)[head] / 1000


def test_one_word_for_another():
    view = difference(small(), small(), TIRED, WIDE)
    one, two = trace(small(), TIRED), trace(small(), WIDE)
    assert view.data["tokens"][-2] == "tired | alert"
    assert view.data["pairs"] == [[i, i] for i in range(len(one.tokens))]
    for layer, head in ((0, 0), (2, 1)):
        expected = two.attention(layer, head) - one.attention(layer, head)
        assert change(view, layer, head) == pytest.approx(expected.numpy(), abs=6e-4)
        assert view.data["differ"][layer][head] == pytest.approx(float(expected.abs().sum(-1).mean()) / 2, abs=6e-4)
    assert view.data["moved"][0][1] == 0
    cosine = torch.cosine_similarity(one.layers[1].hidden, two.layers[1].hidden, dim=-1)
    assert view.data["moved"][2] == pytest.approx((1 - cosine).tolist(), abs=6e-4)
    facts = Page(view.html).facts
    assert view.data["differ"][facts["layer"]][facts["head"]] == max(map(max, view.data["differ"]))


def test_the_same_is_the_same():
    view = difference(small(), small(), TIRED)
    assert not np.any(view.data["differ"])
    assert not np.any(view.data["moved"])


def test_words_that_only_one_has_count_as_elsewhere():
    view = difference(small(), small(), "the animal was tired", "the animal was very tired")
    assert len(view.data["pairs"]) == len(view.data["first"]) < len(view.data["second"])
    assert min(map(min, view.data["differ"])) > 0


def test_models_of_other_sizes_are_compared_by_their_means():
    view = difference(small(), small(layers=2), TIRED)
    assert (view.data["by_head"], view.data["moved"]) == (False, None)
    one, two = (
        torch.stack([layer.weights.mean(0) for layer in trace(m, TIRED).layers]).mean(0)
        for m in (small(), small(layers=2))
    )
    assert change(view, 0, 0) == pytest.approx((two - one).numpy(), abs=6e-4)


def test_alignment():
    assert aligned(list("abc"), list("axc")) == [(0, 0), (1, 1), (2, 2)]
    assert aligned(list("abc"), list("axyc")) == [(0, 0), (2, 3)]
    assert aligned(["a"], ["b", "c"]) == []


def test_what_cannot_be_compared_is_told(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "aligned", lambda first, second: [])  # as without special tokens
        with pytest.raises(BadInput, match="no token in common"):
            difference(small(), small(), "river", "be alert")
    monkeypatch.setattr(MODULE, "LIMIT", 4)
    with pytest.raises(BadInput, match="this page shows at most 4"):
        difference(small(), small(), TIRED)
