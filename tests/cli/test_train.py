"""The verbs that train refuse in one sentence."""

import pytest


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
