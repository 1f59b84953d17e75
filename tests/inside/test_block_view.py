"""The block page: every bar is the trace's, in the order in which the model computes."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.errors import BadInput, WrongTask
from clearhead.inside import one_block
from clearhead.inside.block_view import FEATURES
from clearhead.inside.trace import trace
from inside.models import small
from pipelines.writers import TEXTS, translator

TEXT = "the animal was tired"


@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2"])
def test_every_bar_is_the_traces(family):
    model = small(family, None)
    traced, data = trace(model, TEXT), one_block(model, TEXT, layer=1).data
    assert data["tokens"] == traced.tokens
    assert data["normed"] == {"bert": [False] * 4, "modernbert": [False, True, True, True], "gpt2": [True] * 4}[family]
    names = {
        "before": "before",
        "attention": "attention_output",
        "first sum": "attention_sum",
        "first norm": "middle",
        "feed-forward": "feedforward_output",
        "second sum": "feedforward_sum",
        "second norm": "hidden",
    }
    assert ("first norm" in data["blocks"][0]) is (family == "bert")
    for shown, layer in zip(data["blocks"], traced.layers, strict=True):
        for name, part in shown.items():
            x = getattr(layer, names[name])
            assert_close(torch.tensor(part["values"]), x[:, :FEATURES], atol=5.1e-4, rtol=0)
            assert_close(torch.tensor(part["norms"]), x.norm(dim=-1), atol=5.1e-3, rtol=0)


def test_of_an_encoder_decoder_it_is_the_encoders():
    data = one_block(translator(), TEXTS[0]).data
    assert len(data["blocks"]) == len(trace(translator(), TEXTS[0]).layers)


def test_what_cannot_be_shown_is_said():
    with pytest.raises(BadInput, match="layer 9 does not exist"):
        one_block(small(), TEXT, layer=9)
    with pytest.raises(WrongTask, match="is recurrent and has no blocks"):
        one_block(translator("seq2seq-gru"), TEXT)
    with pytest.raises(BadInput, match="this page shows at most 128"):
        one_block(small(), f"{TEXT} " * 40)
