"""The verbs that train refuse in one sentence."""

import json

import pytest

import clearhead as ch


def test_an_objective_that_is_not_there_is_answered_by_all_that_are(run, tmp_path):
    (tmp_path / "a.txt").write_text("a text", encoding="utf-8")
    code, _, err = run("pretrain", "--corpus", tmp_path / "a.txt", "--out", tmp_path, "--objective", "span")
    assert code == 2
    assert "there is no objective 'span'; choose one of masked, masked+next" in err
    assert "causal, spans, permutation" in err


@pytest.mark.parametrize(
    ("option", "written"),
    [
        (["--lr", "3e-5"], "there is no --lr; write --set train.learning_rate=3e-5"),
        (["--epochs=4"], "there is no --epochs; write --set train.epochs=4"),
        (["--batch-size", "16"], "there is no --batch-size; write --set items=16 or --set tokens=16"),
    ],
)
def test_values_of_the_recipe_are_no_options(run, option, written):
    assert run("finetune", "classify", "--data", "x.csv", "--out", "o", *option) == (2, "", f"error: {written}\n")


def test_folds_are_measured_in_turn(run, folder, tmp_path):
    data, out = tmp_path / "train.jsonl", tmp_path / "out"
    rows = [{"text": f"the {word} {i}", "label": word} for i in range(6) for word in ("animal", "bank")]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["finetune", "classify", "--data", data, "--model", folder, "--out", out, "--device", "cpu", "--json"]
    asked = [*map(str, asked), "--set", "train.steps=2", "--set", "length=16", "--set", "train.metric=f1"]
    told = json.loads(run(*asked, "--folds", "3")[1])
    assert (told["folds"], len(told["runs"])) == (3, 3)
    assert sorted(path.name for path in out.iterdir()) == ["fold-1", "fold-2", "fold-3"]
    mean = sum(one["accuracy"] for one in told["runs"]) / 3
    assert told["figures"]["accuracy"] == pytest.approx(mean)
    assert told["deviations"].keys() == told["figures"].keys()
    card = (out / "fold-2" / "README.md").read_text()
    assert f"| measured on | {data}, fold 2 of 3 (4 examples) |" in card
    for more, message in (
        (["--folds", "1"], "--folds 1 leaves nothing to learn from or to measure on; 5 or 10 is usual"),
        (["--folds", "3", "--seeds", "2"], "--folds 3 repeats already; leave --seeds out"),
        (["--folds", "3", "--search", "items=choice(1,2)"], "--folds 3 repeats already; leave --search out"),
        (["--folds", "3", "--dev", str(data)], "a fold is measured on its part"),
    ):
        code, _, err = run(*asked, *more)
        assert code == 2
        assert message in err


def test_the_command_line_suggests_a_rate_and_the_run_may_follow(run, folder, tmp_path):
    data, out = tmp_path / "train.jsonl", tmp_path / "out"
    rows = [{"text": f"the {word}", "label": word} for word in ("animal", "bank") * 8]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["finetune", "classify", "--data", data, "--model", folder, "--out", out, "--device", "cpu"]
    asked = [*map(str, asked), "--set", "length=16", "--set", "items=8", "--set", "train.metric=f1"]
    code, told, _ = run(*asked, "--find-learning-rate", "--json")
    assert code == 0
    found = json.loads(told)
    assert 1e-5 < found["suggestion"] <= 1e-1
    assert [path.name for path in out.iterdir()] == ["learning-rate.svg"]
    assert f"--set train.learning_rate={found['suggestion']:.1e}" in run(*asked, "--find-learning-rate")[1]
    assert run(*asked[:-2], "--set", "train.steps=2")[0] == 0  # in the same folder
    asked[asked.index(str(out))] = str(tmp_path / "frozen")
    kept = tmp_path / "frozen" / "run" / "features.npy"
    for more in (["--find-learning-rate"], ["--folds", "2"], []):  # folds have their own, the run takes what is there
        before = kept.stat().st_mtime_ns if kept.exists() else None
        assert run(*asked[:-2], "--frozen", "--set", "train.steps=2", *more)[0] == 0
        assert before in (None, kept.stat().st_mtime_ns)
    code, _, err = run("finetune", "translation", "--data", data, "--out", tmp_path / "t", "--find-learning-rate")
    assert code == 2
    assert "--find-learning-rate is not for translation; leave it out" in err


def test_data_larger_than_the_memory_is_streamed(run, folder, tmp_path):
    data, out = tmp_path / "train.jsonl", tmp_path / "out"
    rows = [{"text": f"the {word}", "label": word} for word in ("animal", "bank") * 4]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["finetune", "classify", "--data", data, "--model", folder, "--out", out, "--device", "cpu", "--stream"]
    code, _, err = run(*asked, "--dry-run")
    assert code == 2
    assert "--dry-run reads the data whole; leave --stream out, or give a part of the data" in err
    code, told, _ = run(*asked, "--set", "train.steps=2", "--dev", data, "--json")
    assert code == 0
    assert json.loads(told)["task"] == "classify"
    assert (out / "corpus" / "examples" / "ids").stat().st_size > 0


def test_a_pre_training_takes_the_built_in_tokenizer(run, tmp_path):
    text, small = (
        tmp_path / "a.txt",
        ("num_hidden_layers=1", "hidden_size=8", "num_attention_heads=1", "intermediate_size=8"),
    )
    text.write_text("The animal was tired.\n\nThe street was wide.\n" * 40, encoding="utf-8")
    asked = ["pretrain", "--corpus", text, "--out", tmp_path / "out", "--tokenizer", "builtin:encoder"]
    asked += ["--steps", "1", "--device", "cpu", "--set", "length=16", "--set", "tokens=32"]
    code, _, err = run(*map(str, asked), *(part for one in small for part in ("--set", f"model.{one}")))
    assert code == 0, err
    assert ch.Tokenizer.from_folder(tmp_path / "out").digest == ch.load().tokenizer.digest
