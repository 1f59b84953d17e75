"""The scripts behind "The lectures' claims": each part runs, and measures what it says."""

import argparse
import json
import math

import pytest
import torch
from torch import nn

import choices
import claims
import clearhead as ch
import mechanisms
import record
from clearhead.data.examples import ChoiceExample
from clearhead.nn.layout import Packed
from clearhead.objectives.loss import Loss

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SENTENCES = [
    f"The {LETTERS[i % 26] * 3} {LETTERS[i * 7 % 26] * 4} sees a {LETTERS[i * 5 % 26] * 3}." for i in range(26)
]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Texts and tasks of a few lines, small networks, and figures that are kept aside."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(claims, "VOCABULARY", 80)
    monkeypatch.setattr(claims, "TOKENS", 256)
    monkeypatch.setattr(mechanisms, "TOKENS", 256)
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": " ".join(SENTENCES * 4)}) + "\n" for _ in range(300)), "utf-8")
    data = tmp_path / "data"
    for task, header in (("SST-2", "sentence\tlabel"), ("MRPC", "sentence1\tsentence2\tlabel")):
        (data / "glue" / task).mkdir(parents=True)
        for part in ("train", "dev"):
            rows = ["\t".join([*SENTENCES[i : i + header.count("\t")], str(i % 2)]) for i in range(20)]
            (data / "glue" / task / f"{part}.tsv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    (data / "conll2003").mkdir()
    (data / "wic").mkdir()
    tags = ("O", "I-PER", "O", "O", "O", "I-LOC")
    lines = [f"{word} NN NP {tag}" for word, tag in zip(["The", "aaa", "went", "to", "see", "Rome"], tags, strict=True)]
    for name in ("eng.train", "eng.testa"):
        (data / "conll2003" / name).write_text("\n".join([*lines, "", *lines, ""]), "utf-8")
    for part in ("train", "dev"):
        pair = "\t".join(("sees", "V", "3-3", *SENTENCES[:2]))
        (data / "wic" / f"{part}.data.txt").write_text(f"{pair}\n{pair}\n", "utf-8")
        (data / "wic" / f"{part}.gold.txt").write_text("T\nF\n", "utf-8")
    given = {"text": [text], "data": data, "out": tmp_path / "out", "teraflops": 3e-3, "rows": 20, "seeds": [0]}
    return argparse.Namespace(**given, threads=1, steps=2)


@pytest.mark.parametrize("name", claims.SYSTEMS)
def test_a_system_learns_is_probed_and_fine_tuned(options, name):
    options.out.mkdir()
    for step in (claims.pretrain, claims.probe, claims.finetune) * 2:  # what is there is not done again
        step(name, options)
    claims.table(options)
    ((_, _, tokens, spent, _, loss),) = _rows(options, "claims_compute")
    assert tokens > 0
    assert loss > 0
    assert spent <= 3e-3  # no more than all were given
    ((of, *figures),) = _rows(options, "claims")
    assert of == name
    assert len(figures) == 6
    assert len(claims.rows_in(options.out / "finetuned.jsonl")) == len(claims.TASKS)


def _rows(options, name):
    return json.loads((options.out.parent / f"{name}.json").read_text("utf-8"))["rows"]


def test_all_are_counted_by_one_rule():
    class Task:
        def __init__(self, network, call):
            self.network, self.call = network, call

        def losses(self, batch):
            return {"": Loss(self.call(self.network).sum(), 1)}

    x = torch.randn(3, 7, 8, requires_grad=True)
    lstm = nn.LSTM(8, 8)
    assert claims.operations(Task(nn.Linear(8, 5), lambda net: net(x)), None) == 3 * 2 * 21 * 8 * 5
    assert claims.operations(Task(lstm, lambda net: net(x)[0]), None) == 3 * 2 * 21 * 8 * 8 * 8
    attend = nn.functional.scaled_dot_product_attention
    rows = x.view(1, 3, 7, 8)
    assert claims.operations(Task(nn.Identity(), lambda net: attend(rows, rows, rows)), None) == 14 * 3 * 7 * 7 * 8


def test_gpt_sees_what_is_before_alone():
    torch.manual_seed(0)
    tokenizer = ch.train_tokenizer(texts=SENTENCES * 5, vocabulary=60)
    ids, layout = torch.arange(5, 15), Packed.of([10])
    other = ids.clone()
    other[-1] = 20
    changed = {}
    for name in ("GPT, forward only", "BERT, masked tokens"):
        reader = claims.SYSTEMS[name](tokenizer).reader.eval()
        changed[name] = (reader(ids, layout) - reader(other, layout))[0].abs().max() > 1e-6
    assert changed == {"GPT, forward only": False, "BERT, masked tokens": True}


def test_gradients_by_distance(options):
    mechanisms.gradients(options)
    rows = _rows(options, "gradients")
    assert [row[0] for row in rows] == [*mechanisms.NETWORKS] * 2
    shares = {row[0]: row[4:] for row in rows if row[1] == "as drawn"}
    assert all(found[0] == 1 for found in shares.values())
    assert shares["LSTM"][-1] < 1e-3 < 0.1 < shares["Transformer"][-1]


def test_scaling(options):
    options.seeds = [0, 1]
    mechanisms.scaling(options)
    for width, way, variance, *_ in _rows(options, "scaled_softmax"):
        assert variance == pytest.approx(1 if way == "divided by √K" else width, rel=0.2)
    entropy = {(width, way): first for width, way, first, _ in _rows(options, "scaled_training")}
    assert entropy[128, "as they are"] < 0.3 < 0.7 < entropy[128, "divided by √K"]


def test_a_random_order_is_what_chance_says():
    asked = [ChoiceExample("", ("a", "b", "c", "d"), label) for label in range(4)]
    found = choices.figures(asked, [[0.9, 0.4, 0.3, 0.1]] * 4)
    assert found == pytest.approx(choices.chance(asked))
    assert math.isclose(found["mrr"], 100 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_a_head_for_choices_begins_as_that_for_next_sentences():
    model = ch.load("builtin:encoder")
    question = ("It rained all day.", ["So we stayed at home.", "Dividends are taxed twice.", "The bank opened."])
    before, after = (one.choose([question])[0].scores for one in (model, choices.for_choices(model)))
    assert after == pytest.approx(before, abs=1e-4)


def test_an_ending_is_the_sentence_that_follows():
    text = "Title\n\n" + " ".join(
        f"Sentence {LETTERS[i] * 2} says something of its own here and there." for i in range(12)
    )
    (question,) = choices._endings(text, choices.random.Random(0))
    place = text.index(question.context) + len(question.context) + 1
    assert text[place:].startswith(question.choices[question.label])
    assert len(set(question.choices)) == 4
