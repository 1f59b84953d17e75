"""A search tries what it was told to, goes on where it was stopped, and leaves the best trial's model."""

import json
import math
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.errors import BadConfig, BadInput, ClearheadError, NotFound
from clearhead.training.recipes.finetune import Finetune
from clearhead.training.recipes.tune import Choice, Range, parse_search, tune
from clearhead.training.settings import override

pytest.importorskip("optuna")
SPACE = parse_search(["train.learning_rate=loguniform(1e-5,1e-2)", "items=integer(4,32)"])


class Training:
    """Stands in for a recipe: the best learning rate is 1e-3. `fails` is asked before each trial."""

    def __init__(self, fails=lambda calls, recipe: None) -> None:
        self.seen, self.folders, self.fails = [], [], fails

    def __call__(self, folder, *, recipe):
        self.seen.append((recipe.train.learning_rate, recipe.items))
        self.folders.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if (error := self.fails(len(self.seen), recipe)) is not None:
            raise error
        away = abs(math.log10(recipe.train.learning_rate) + 3) + recipe.items / 1000
        (folder / "config.json").write_text(f"{away}")
        (folder / "run").mkdir(exist_ok=True)
        (folder / "run" / "metrics.jsonl").write_text("{}\n")
        (folder / "run" / "step-00000001").mkdir(exist_ok=True)
        figures = {"accuracy": 100 - away, "loss": away}
        return SimpleNamespace(result=SimpleNamespace(exit="finished"), metrics=figures)


def search(out, train=None, trials=8, space=SPACE, **options):
    return tune(train or Training(), Finetune(), space, out, trials=trials, **options)


def test_spaces_as_they_are_typed():
    assert parse_search(
        ["a=loguniform(1e-5, 5e-4)", "b=uniform(0,0.3)", "c=integer(1,4)", "d=choice(4,none,cosine)"]
    ) == {
        "a": Range(low=1e-5, high=5e-4, log=True),
        "b": Range(low=0, high=0.3),
        "c": Range(low=1, high=4, whole=True),
        "d": Choice(values=(4, None, "cosine")),
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("items", "--search 'items' is not key=space, such as train.learning_rate=…; a space is loguniform"),
        ("items=normal(0,1)", r"a space is loguniform\(1e-5,5e-4\), uniform\(0,0.3\), integer\(1,4\) or choice\(4,8\)"),
        ("items=uniform(1)", r"'items=uniform\(1\)': uniform has a lower and an upper end, got \[1\]"),
        ("items=uniform(a,b)", r"uniform has a lower and an upper end, got \['a', 'b'\]"),
        ("items=uniform(2,1)", "a range goes from a smaller number to a larger one, not from 2 to 1"),
        ("items=loguniform(0,1)", "loguniform needs a lower end above 0, got 0"),
        ("items=integer(1,2.5)", r"the ends are no integers: \[1, 2.5\]"),
        ("items=choice(4)", r"a choice is of two values or more, got \[4\]"),
    ],
)
def test_what_is_no_space(written, message):
    with pytest.raises(BadConfig, match=message):
        parse_search([written])
    with pytest.raises(BadConfig, match="names items twice"):
        parse_search(["items=choice(1,2)", "items=choice(3,4)"])


def test_the_best_model_is_kept_and_no_other(tmp_path):
    out, told = tmp_path / "mine", []
    found = search(out, trials=12, watch=lambda trial, of: told.append((trial.number, of)))
    assert told == [(number, 12) for number in range(12)]
    assert found.metric == "accuracy"
    assert found.best == max(found.trials, key=lambda trial: trial.value)
    assert all(1e-5 <= one.params["train.learning_rate"] <= 1e-2 for one in found.trials)
    assert all(one.params["items"] in range(4, 33) for one in found.trials)
    assert float((out / "config.json").read_text()) == found.best.figures["loss"]
    assert sorted(path.name for path in (out / "run").iterdir()) == ["metrics.jsonl", "search"]
    kept = [path for path in (out / "run" / "search").rglob("*") if path.is_file()]
    names = ["journal.jsonl", *["metrics.jsonl"] * 12, "search.json"]  # of every trial its rows, of none its model
    assert sorted(path.name for path in kept) == names
    assert not list((out / "run").rglob("step-*"))
    assert json.loads(json.dumps(found.to_dict()))["best"]["params"] == found.best.params


def test_less_may_be_better(tmp_path):
    found = search(tmp_path / "out", metric="-loss")
    assert (found.metric, found.best.value) == ("loss", min(one.value for one in found.trials))


@pytest.mark.parametrize("stopped", [KeyboardInterrupt(), None])
def test_a_stopped_search_goes_on_as_if_it_had_not_been(tmp_path, stopped):
    whole, first = Training(), Training(lambda calls, _: stopped if calls == 5 else None)
    wanted = search(tmp_path / "whole", whole)
    if stopped is not None:  # killed
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "out", first)
    else:
        ended = SimpleNamespace(metrics={}, result=SimpleNamespace(exit="interrupted"))
        halted = search(
            tmp_path / "out", lambda folder, recipe: ended if len(first.seen) == 4 else first(folder, recipe=recipe)
        )
        assert halted.interrupted is ended.result
        assert len(halted.trials) == 4
    second = Training()
    found = search(tmp_path / "out", second)
    assert [one.params for one in found.trials] == [one.params for one in wanted.trials]
    assert [one.value for one in found.trials] == [one.value for one in wanted.trials]
    assert second.seen == whole.seen[4:]  # the one that was at work is redone, none of those before
    assert second.folders[0].parent.name == "4"
    if stopped is not None:
        assert second.folders[0] == first.folders[-1]  # where it goes on by itself
    third = Training()
    assert search(tmp_path / "out", third) == found
    assert not third.seen  # the search is over
    assert len(search(tmp_path / "out", third, trials=10).trials) == 10
    assert len(third.seen) == 2
    assert (tmp_path / "out" / "config.json").is_file()


def test_values_that_were_tried_are_not_trained_again(tmp_path):
    train = Training()
    found = search(tmp_path / "out", train, trials=9, space={"items": Choice(values=(4, 8))})
    assert len(found.trials) == 9
    assert sorted(items for _, items in train.seen) == [4, 8]


def test_trials_that_fail(tmp_path):
    train = Training(lambda calls, _: ClearheadError("training diverged at step 3") if calls in (1, 3) else None)
    found = search(tmp_path / "out", train, trials=4)
    assert [one.failure for one in found.trials] == ["training diverged at step 3", None] * 2
    assert found.best.number in (1, 3)
    with pytest.raises(ClearheadError, match="all 2 trials failed, the last one: no"):
        search(tmp_path / "none", Training(lambda *_: ClearheadError("no")), trials=2)
    with pytest.raises(BadInput, match="the disk is full"):
        search(tmp_path / "full", Training(lambda *_: BadInput("the disk is full")))
    with pytest.raises(ClearheadError, match="all 1 trials failed, the last one: the metric 'bleu' is not defined"):
        search(tmp_path / "blind", metric="bleu", trials=1)


def test_what_cannot_be_searched(tmp_path, monkeypatch):
    for written, message in (
        ("train.learnin_rate=uniform(0.1,0.2)", "unknown key train.learnin_rate; did you mean train.learning_rate"),
        ("train.learning_rate=uniform(0.5,2)", "learning_rate 2 is far too large"),
        ("lora=choice(4,many)", "lora"),
    ):
        with pytest.raises(BadConfig, match=message):
            search(tmp_path / "out", space=parse_search([written]))
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="a search has at least 1 trial, got 0"):
        search(tmp_path / "out", trials=0)
    found = search(tmp_path / "out", trials=1, space=parse_search(["train.steps=integer(2,9)"]))
    assert found.trials[0].params.keys() == {"train.steps"}
    with pytest.raises(BadConfig, match=r"holds another run, which differs in the search of train\.steps"):
        search(tmp_path / "out", trials=1, space=parse_search(["train.steps=integer(2,8)"]))
    again = search(tmp_path / "out", trials=1, space=parse_search(["train.steps=integer(2,8)"]), restart=True)
    assert again.trials[0].params["train.steps"] <= 8
    (tmp_path / "other" / "run" / "step-00000004").mkdir(parents=True)
    with pytest.raises(BadInput, match="holds a run that is no search"):
        search(tmp_path / "other")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NotFound, match=r"A search for hyper-parameters needs optuna.*clearhead\[tune\]"):
        search(tmp_path / "third")


def test_the_command_line_searches(folder, tmp_path):
    rows = [{"text": f"the {word} {i}", "label": word} for i in range(8) for word in ("animal", "bank")]
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["finetune", "classify", "--data", data, "--model", folder, "--out", tmp_path / "out", "--device", "cpu"]
    asked = [*map(str, asked), "--set", "train.steps=3", "--set", "length=16", "--set", "items=8", "--trials", "3"]
    asked += ["--search", "train.learning_rate=loguniform(1e-4,1e-1)", "--search", "lora=choice(none,2)"]
    assert "a search measures on development data; give --dev" in str(CliRunner().invoke(app, asked).exception)
    refused = CliRunner().invoke(app, [*asked, "--dev", str(data), "--seeds", "2"])
    assert "--search tries one seed" in str(refused.exception)
    done = CliRunner().invoke(app, [*asked, "--dev", str(data), "--json"])
    told = json.loads(done.stdout)
    assert (told["task"], told["metric"], len(told["trials"])) == ("classify", "accuracy", 3)
    assert told["best"]["value"] == max(trial["value"] for trial in told["trials"])
    assert "trial 1 of 3: " in done.stderr
    model = ch.load(tmp_path / "out")
    found = sum(model.classify(row["text"]).label == row["label"] for row in rows) / len(rows)
    assert 100 * found == pytest.approx(told["best"]["figures"]["accuracy"])
    card = (tmp_path / "out" / "README.md").read_text()
    assert "# out\n" in card
    rate = told["best"]["params"]["train.learning_rate"]
    assert f"train.learning_rate = {rate}" in card
    shown = CliRunner().invoke(app, [*asked, "--dev", str(data)]).stdout  # over: nothing is trained
    assert "(best)" in shown
    assert "trial 4" not in shown


def test_a_plan_with_another_seed_searches_otherwise(tmp_path):
    plan = override(Finetune(), {"train.seed": 7})
    other = tune(Training(), plan, SPACE, tmp_path / "out", trials=2)
    assert other.trials[0].params != search(tmp_path / "first", trials=1).trials[0].params
