"""The classic BERT of the box: what the lectures show of it can be seen. A stand-in, random and packed alike."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient
from torch.testing import assert_close

import clearhead as ch
from clearhead import inside
from clearhead.studio.pages import ENTRIES
from cli.conftest import run as run
from inside.models import tokenizer
from studio.in_process import create_app

BERT = "builtin:bert"
FIRST, SECOND = "he likes to train", "the animal was too tired"


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Path:
    """A folder with a BERT in it as make-model/pack.py makes one: in int8, with the two heads of 2018."""
    folder = tmp_path_factory.mktemp("box")
    words = tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
    config = ch.BertConfig(vocab_size=words.vocabulary, max_position_embeddings=64, **sizes)
    torch.manual_seed(0)
    trained = ch.Model.create(config, words, heads={"masked_lm": words.vocabulary, "next_sentence": 2})
    trained.save(folder / "trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "make-model"))
        patch.setattr(sys, "argv", ["pack.py", str(folder / "trained"), str(folder / "bert")])
        import_module("pack").main()
        sys.modules.pop("pack")
    return folder


@pytest.fixture(autouse=True)
def in_the_box(box, monkeypatch):
    monkeypatch.setattr("clearhead.hub.remote.FOLDER", box)


def test_it_is_a_bert_with_the_heads_of_2018():
    model = ch.load(BERT)
    assert model.family == "bert"
    assert {"masked_lm", "next_sentence"} <= set(model.network.heads)
    assert model.checkpoint.description.architecture == "BertForPreTraining"


def test_the_input_is_the_sum_of_token_segment_and_position():
    model = ch.load(BERT)
    data = inside.summed_input(model, FIRST, SECOND, features=32).data
    parts = {name: torch.tensor(rows) for name, rows in data["vectors"].items()}
    assert list(parts) == ["token", "position", "segment", "sum", "normalised"]
    assert_close(parts["token"] + parts["position"] + parts["segment"], parts["sum"], atol=2e-3, rtol=0)
    first = data["segments"].count(1)
    assert data["segments"] == [1] * first + [2] * (len(data["segments"]) - first)
    assert data["tokens"][0] == "[CLS]"
    assert data["tokens"][first - 1] == data["tokens"][-1] == "[SEP]"
    table = model.encoder.embeddings
    assert_close(parts["segment"][0], table.segment.weight[0].detach(), atol=1e-3, rtol=0)
    assert_close(parts["segment"][-1], table.segment.weight[1].detach(), atol=1e-3, rtol=0)


def test_the_positions_are_a_table_of_its_own():
    (own, *others) = inside.position_tables(ch.load(BERT)).data["tables"]
    assert own["name"] == "learned, of this model"
    assert others[-1]["name"] == "rotary"  # beside it, what came later


def test_the_trace_is_post_norm():
    traced = ch.trace(ch.load(BERT), FIRST, SECOND)
    assert len(traced.layers) == 4
    norm = ch.load(BERT).encoder.blocks[-1].norm_2  # what leaves the last block is normalised, and nothing comes after
    scaled = (traced.output - norm.bias) / norm.weight
    assert_close(scaled.mean(-1), torch.zeros(len(traced.tokens)), atol=1e-4, rtol=0)
    assert_close(scaled.var(-1, unbiased=False), torch.ones(len(traced.tokens)), atol=1e-3, rtol=0)


VERBS = {
    "info": ["info", BERT],
    "tokenize": ["tokenize", FIRST, "-m", BERT],
    "fill": ["fill", "the [MASK] was too tired", "-m", BERT],
    "follows": ["follows", FIRST, SECOND, "-m", BERT],
    "choose": ["choose", FIRST, SECOND, "apple", "-m", BERT],
    "embed": ["embed", FIRST, "-m", BERT],
    "attention": ["look", "attention", FIRST, SECOND, "-m", BERT],
    "step": ["look", "step", FIRST, "--token", "train", "--layer", "3", "-m", BERT],
    "input": ["look", "input", FIRST, SECOND, "-m", BERT],
    "positions": ["look", "positions", "-m", BERT],
    "layers": ["look", "layers", FIRST, SECOND, "-m", BERT],
    "senses": ["look", "senses", "train", FIRST, "he took a train", "-m", BERT],
    "why, of a mask": ["look", "why", "the [MASK] was too tired", "-m", BERT],
    "why, of two texts": ["look", "why", FIRST, SECOND, "-m", BERT],
}


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_takes_it(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*VERBS[name], "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    if name.startswith("why"):
        assert found["use"] == ("fill" if "mask" in name else "follows")
    if "file" in found:
        assert Path(found["file"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    code, out, err = run(*VERBS[name])
    assert (code, err) == (0, "")
    assert out


def test_what_it_has_no_head_for_is_one_sentence(run):
    for verb, told in {
        ("classify", FIRST): "it can fill, tell what follows, embed",
        ("compare", FIRST, SECOND): "ask it with follows",
        ("look", "decoding", FIRST): "this model writes no text",
    }.items():
        code, out, err = run(*verb, "-m", BERT)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert told in err


@pytest.mark.parametrize("path", [path for path, entry in ENTRIES.items() if entry.needs in ("model", "maybe model")])
def test_every_page_of_the_studio_opens_with_it_or_says_why_not(path):
    entry = ENTRIES[path]
    client = TestClient(create_app([BERT]), base_url="http://127.0.0.1:8642")
    values = {
        "/look/step": {"text": FIRST, "token": "train"},
        "/look/why": {"text": FIRST, "pair": SECOND},
        "/look/layers": {"text": FIRST},
        "/look/attention": {"text": FIRST, "pair": SECOND},
        "/look/input": {"text": FIRST, "pair": SECOND},
        "/look/senses": {"word": "train", "texts": "He took a train.\nHe likes to train."},
        "/use/fill": {"text": "the [MASK] was too tired"},
        "/use/follows": {"first": FIRST, "second": SECOND},
    }.get(path) or (dict(entry.examples[0]["values"]) if entry.examples else {})
    found = client.post(f"/api{path}", json=values)
    able = entry.head in (None, "masked_lm", "next_sentence") and path != "/look/heads"  # of which it has none
    # a page that writes looks for a writer in the box, and this one has none
    refused = 404 if entry.head == "causal_lm" else 400
    assert found.status_code == (200 if able else refused), found.text
    assert able or "error" in found.json()
    assert client.get("/api/model").json()["family"] == "bert"


def test_its_card_has_what_it_says_and_no_gap(box, tmp_path, monkeypatch):
    run = tmp_path / "work" / "bert"
    run.mkdir(parents=True)
    (run / "README.md").write_text(f"# a run\n\n## How it was trained\n\nby hand, in {run.parent}\n")
    tools = Path(__file__).parents[1] / "make-model"
    monkeypatch.syspath_prepend(str(tools))
    monkeypatch.setattr(sys, "argv", ["bert_card.py", str(run), str(box / "bert")])
    import_module("bert_card").main()
    for name in ("bert_card", "translator_card", "figures"):
        sys.modules.pop(name)
    card = (box / "bert" / "README.md").read_text(encoding="utf-8")
    assert not [gap for gap in ("SIZES", "FILLED", "FOLLOWED", "TRAINING") if f"\n{gap}\n" in card]
    assert "| layers | 4 |" in card
    assert "## How it was made\n\nby hand, in WORK" in card
    for part in ("Data", "Figures", "How it was made", "Limits"):
        assert f"\n## {part}\n" in card
