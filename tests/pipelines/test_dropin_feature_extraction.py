import numpy as np
import pytest
import torch

import clearhead as ch
from pipelines.peers import LONG, SENTENCES, peers


@pytest.mark.parametrize("family", ["Bert", "Roberta", "Albert"])
def test_same_as_transformers(family):
    pair = peers(f"{family}Model")
    ours, theirs = ch.pipeline("feature-extraction", pair.folder), pair.pipeline("feature-extraction")
    for mine, expected in zip(ours(SENTENCES), theirs(SENTENCES), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-5)
    found = ours(SENTENCES[0], return_tensors=True)
    torch.testing.assert_close(found, theirs(SENTENCES[0], return_tensors=True), atol=1e-5, rtol=0)


def test_every_token_of_a_long_text_has_its_features():
    pair = peers("BertModel")
    found = ch.pipeline("feature-extraction", pair.folder, return_tensors=True)(LONG)
    assert found.shape == (1, len(pair.ours.tokenizer.encode(LONG)), 32)
    first = ch.windows(pair.ours.tokenizer, LONG, length=pair.ours.encoder.max_length)[0]
    with torch.no_grad():
        expected = pair.ours.encoder(torch.tensor([first.encoding.ids]))[0]
    torch.testing.assert_close(found[0, : first.best.stop], expected[: first.best.stop], atol=1e-5, rtol=0)
