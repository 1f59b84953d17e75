"""Intervals are those of metrics computed again over drawn examples, for every task, seeded."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.data.examples import PairExample, QuestionExample, TextExample, WordsExample
from clearhead.data.rng import Stream, rng
from clearhead.errors import BadInput
from clearhead.evaluation import scores
from clearhead.evaluation.bootstrap import Resampling, by_example, by_query, by_question, intervals
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.evaluation.translation import bleu, by_translation, chrf, score_translations

DRAW = np.random.default_rng(0)


def classes(count=60, names="ab"):
    gold = DRAW.choice(list(names), size=count)
    said = np.where(DRAW.random(count) < 0.7, gold, DRAW.choice(list(names), size=count))
    return [TextExample("x", None, str(one)) for one in gold], [{"predicted": str(one)} for one in said]


def drawn(number, count):
    return rng(Stream.BOOTSTRAP, 0, number).integers(count, size=count).tolist()


def test_an_interval_of_accuracy_is_that_of_a_mean():
    examples, rows = classes(400)
    found = EVALUATIONS["classify"].measured(examples, rows, bootstrap=2000)
    share = found.metrics["accuracy"] / 100
    width = 100 * 1.96 * math.sqrt(share * (1 - share) / 400)  # of the normal approximation
    low, high = found.intervals["accuracy"]
    assert low == pytest.approx(100 * share - width, abs=0.6)
    assert high == pytest.approx(100 * share + width, abs=0.6)
    assert found.to_dict()["intervals"]["f1"] == list(found.intervals["f1"])


def test_spans_are_counted_again():
    words = [WordsExample(("a", "b"), tags) for tags in (("B-X", "O"), ("O", "O"), ("B-X", "I-X"), ("O", "B-Y"))]
    said = [("B-X", "O"), ("B-X", "O"), ("B-X", "O"), ("O", "B-Y")]
    found = EVALUATIONS["tag"].measured(words, [{"predicted": tags} for tags in said], bootstrap=200)
    values = []
    for number in range(200):
        chosen = drawn(number, 4)
        values.append(conlleval([words[i].tags for i in chosen], [said[i] for i in chosen]).metrics()["f1"])
    assert found.intervals["f1"] == tuple(np.percentile(values, [2.5, 97.5]))


def test_bleu_is_computed_again_over_what_was_drawn():
    texts = ["the cat sat on the mat", "a dog ran home", "it rains today in the city", "no one was there at all"]
    said = ["the cat sat on a mat", "a dog ran to his home", "it rains in the city today", "nobody was there at all"]
    examples, rows = [PairExample("s", text) for text in texts], [{"predicted": text} for text in said]
    resampling = by_translation(score_translations, examples, rows)
    for number in range(20):
        chosen = drawn(number, 4)
        some = [texts[i] for i in chosen], [said[i] for i in chosen]
        wanted = {"bleu": bleu(*some).score, "chrf": chrf(*some).score}
        assert resampling.metrics(np.array(chosen)) == pytest.approx(wanted)
    found = EVALUATIONS["translation"].measured(examples, rows, bootstrap=100)
    assert found.intervals["bleu"][0] <= found.metrics["bleu"] <= found.intervals["bleu"][1]


def test_questions_that_are_drawn_twice_are_two():
    examples = [QuestionExample(str(i), "?", "a b", (("a", 0),)) for i in range(3)]
    rows = [{"predicted": text} for text in ("a", "b", "a b")]
    resampling = by_question(scores.score_answers, examples, rows, None)
    found = resampling.metrics(np.array([0, 0, 1]))
    assert found["exact_match"] == pytest.approx(200 / 3)


def test_queries_are_drawn_with_all_of_their_passages():
    grades = {"p": [1.0, 0.0], "q": [0.0, 1.0], "none": [0.0, 0.0]}
    examples = [TextExample(query, str(i), grade) for query, some in grades.items() for i, grade in enumerate(some)]
    rows = [{"predicted": score} for score in (0.9, 0.1, 0.8, 0.2, None, None)]
    resampling = by_query(scores.score_search, examples, rows, None)
    assert resampling.units == 2
    assert resampling.metrics(np.array([0, 0]))["mrr"] == 100
    assert resampling.metrics(np.array([1, 1]))["mrr"] == 50
    assert resampling.metrics(np.array([0, 1])) == scores.score_search(examples, rows).metrics
    found = EVALUATIONS["search"].measured(examples, rows, bootstrap=100)
    assert "queries" not in found.intervals  # a count


def test_a_sample_without_a_class_is_of_the_same_task():
    examples, rows = [TextExample("x", None, one) for one in "abc"], [{"predicted": one} for one in "abb"]
    resampling = by_example(scores.score_classes, examples, rows, None)
    # of two classes, f1 would be that of the second alone
    assert resampling.metrics(np.array([0, 1, 0]))["f1"] == pytest.approx(100)
    assert resampling.metrics(np.array([0, 2, 2]))["f1"] == pytest.approx(100 / 3)


def test_draws_depend_on_the_seed_alone():
    first, second = classes(50), classes(50)
    one = by_example(scores.score_classes, *first, None)
    assert intervals(one, {"accuracy": 1.0}, 100) == intervals(one, {"accuracy": 1.0}, 100)
    assert intervals(one, {"accuracy": 1.0}, 100) != intervals(one, {"accuracy": 1.0}, 100, seed=1)
    seen = []
    for some in (first, second):
        whole = by_example(scores.score_classes, *some, None)
        seen.append([])
        watched = Resampling(50, lambda drawn, whole=whole: seen[-1].append(drawn.tolist()) or whole.metrics(drawn))
        intervals(watched, {"accuracy": 1.0}, 100)
    assert seen[0] == seen[1]


def test_what_is_not_defined_has_no_interval():
    undefined = Resampling(
        3, lambda drawn: {"pearson": math.nan, "spearman": float(drawn[0]) if drawn[0] else math.nan}
    )
    found = intervals(undefined, {"pearson": 1.0, "spearman": 1.0, "total": 3}, 100)
    assert found.keys() == {"spearman"}
    assert 1 <= found["spearman"][0] <= found["spearman"][1] <= 2
    with pytest.raises(BadInput, match="one example alone has no interval"):
        intervals(Resampling(1, lambda _: {}), {}, 100)
    with pytest.raises(BadInput, match="needs 100 samples or more, got 10; 1000 is usual"):
        intervals(undefined, {}, 10)


def test_the_command_line_shows_intervals(tmp_path):
    examples, rows = classes(80, "abc")
    data, said = tmp_path / "data.jsonl", tmp_path / "said.jsonl"
    data.write_text(
        "".join(json.dumps({"text": f"t {i}", "label": one.label}) + "\n" for i, one in enumerate(examples))
    )
    said.write_text("".join(json.dumps({"text": f"t {i}"} | row) + "\n" for i, row in enumerate(rows)))
    asked = ["evaluate", "classify", "--data", str(data), "--predictions", str(said), "--bootstrap", "100"]
    told = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert told["intervals"].keys() == {"accuracy", "f1", "matthews"}
    low, high = told["intervals"]["accuracy"]
    assert low < told["accuracy"] < high
    assert f"accuracy          {told['accuracy']:.2f}  [{low:.2f}, {high:.2f}]" in CliRunner().invoke(app, asked).stdout
    for arguments, message in (
        (["--bootstrap", "5"], "--bootstrap takes 100 samples or more, got 5; 1000 is usual"),
        (["--bootstrap", "-1"], "--bootstrap takes 100 samples or more, got -1"),
    ):
        assert message in str(CliRunner().invoke(app, [*asked[:-2], *arguments]).exception)
    refused = CliRunner().invoke(app, ["evaluate", "perplexity", "--data", str(data), "--bootstrap", "100"])
    assert "perplexity is a mean over running text" in str(refused.exception)
    (texts := tmp_path / "references.txt").write_text("the cat sat\na dog ran home\nit rains\n")
    (short := tmp_path / "short.txt").write_text("the cat\na dog home\nsun\n")
    asked = ["evaluate", "summaries", "--data", str(texts), "--predictions", str(short), "--bootstrap", "100", "--json"]
    told = json.loads(CliRunner().invoke(app, asked).stdout)
    assert told["intervals"]["rouge1"][0] < told["rouge1"] < told["intervals"]["rouge1"][1]
