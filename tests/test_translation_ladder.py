"""The translation ladder: a run of each kind on a few pairs, and tables and a plot that say what was measured."""

import json
from dataclasses import asdict, replace
from xml.etree import ElementTree

import pytest

from translation_ladder import by_length, conditions, quality_table, time_table, tokens_to
from translation_plot import lines_plot
from translation_run import ROWS, Run, carry_out, group_of

SMALL = {
    "vocabulary": 280,
    "tokens": 200,
    "train.epochs": None,
    "train.steps": 4,
    "train.every.evaluate": 2,
    "train.every.save": 1,
}
RECURRENT = {"model.embedding_size": 8, "model.hidden_size": 8}
TRANSFORMER = {"model.d_model": 8, "model.encoder_layers": 1, "model.decoder_layers": 1}


@pytest.fixture
def data(tmp_path):
    for part, count in (("train", 30), ("val", 4), ("test_2016_flickr", 6)):
        for language, words in (("de", "ein Hund läuft"), ("en", "a dog runs")):
            text = "\n".join(" ".join([words] * (1 + i % 5)) for i in range(count))
            (tmp_path / f"{part}.{language}").write_text(text, encoding="utf-8")
    return tmp_path


def run_of(row, data):
    sizes = TRANSFORMER if row == "Transformer" else RECURRENT
    return Run(row, "de", "en", 0, str(data), "cpu", changes={**SMALL, **sizes})


@pytest.mark.parametrize("row", ["LSTM", "GRU + additive", "Transformer"])
def test_a_run_says_how_well_and_how_fast(row, data):
    run = run_of(row, data)
    found = carry_out(run)
    assert found["steps"] == 4
    assert found["signature"].startswith("nrefs:1|case:mixed")
    assert [step for step, _, _ in found["curve"]] == [2, 4]
    assert set(found["by_length"]) == {"01–08", "09–11", "12–14", "15–17"}
    timed = carry_out(replace(run, timed=3, warm=1))
    assert timed["tokens_per_second"] > 0
    assert "bleu" not in timed
    json.dumps([asdict(run), found, timed])


def line(row, bleu, seed=0, timed=None):
    run = {"row": row, "source": "de", "seed": seed, "timed": timed}
    figures = {"bleu": bleu, "chrf": 40.0, "lowercase_bleu": bleu + 1, "parameters": 3_000_000}
    curve = [[100, 1000, 5.0], [200, 2000, bleu]]
    return {"run": run, **figures, "curve": curve, "tokens_per_second": 500.0, "by_length": {"01–08": bleu}}


def test_tables_and_plot():
    rows = [line("LSTM", 20.0), line("LSTM", 22.0, seed=1), line("Transformer", 38.0), line("LSTM", 0.0, timed=200)]
    assert "| LSTM | 21.0 ± 1.4 | 13.8 | 40.0 ± 0.0 | 22.0 ± 1.4 | 3.0 M | 2 |" in quality_table(rows, "de", "en")
    assert "| LSTM | 0 | 4 s | – |" in time_table(rows, "de", "en", (15.0, 25.0))
    assert tokens_to(rows[:2], 5.0) == 1000
    assert by_length(rows, "de") == {"LSTM": {"01–08": 21.0}, "Transformer": {"01–08": 38.0}}
    picture = ElementTree.fromstring(lines_plot(by_length(rows, "de"), "BLEU & more"))
    assert len(picture.findall("{*}polyline")) == 2


def test_conditions_are_those_of_the_runs():
    rows = [{"place": "H200", "signature": "nrefs:1"}, {"place": "H200", "signature": "nrefs:1"}, {"place": "CPU"}]
    assert conditions(rows) == ["H200", "CPU", "nrefs:1"]


def test_groups_sort_by_length():
    names = [group_of(words) for words in range(1, 40)]
    assert names == sorted(names)
    assert names[-1] == "22 and more"
    assert set(ROWS) >= {"LSTM", "Transformer"}
