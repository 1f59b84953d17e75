"""Folders of sentence-transformers over the encoders that most of them have: both read what the other wrote."""

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import clearhead as ch
from pipelines.peers import SENTENCES, peers


@pytest.mark.parametrize("architecture", ["BertModel", "MPNetModel", "DebertaV2Model"])
def test_the_same_vectors_both_ways(architecture, tmp_path):
    """As all-mpnet-base-v2 is laid out: the mean of the tokens' vectors, normalised."""
    folder = peers(architecture).folder
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    theirs = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES, show_progress_bar=False)
    model = ch.load(folder)
    np.testing.assert_allclose(model.embed(SENTENCES), theirs, atol=1e-5)
    model.save(tmp_path / "ours")
    again = SentenceTransformer(str(tmp_path / "ours"), device="cpu").encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(again, theirs, atol=1e-5)
