"""A trained model's card says what the run knows, and nothing else."""

import json

import pytest
from huggingface_hub import ModelCard

from clearhead.data.corpus import Corpus
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.finetune import Finetune
from clearhead.training.recipes.run import corpus_fact, last_metrics, save_with_card, training_section
from clearhead.training.settings import Settings, override, read_recipe

RESULT = TrainResult(exit="finished", step=1200, tokens=34567, elapsed=90.0, best=None, best_step=None)
RECIPE = Finetune(length=64, lora=4, train=Settings(steps=1200, seed=3, clip=float("inf"), betas=(0.8, 0.9)))
TOLD = training_section(
    RECIPE,
    RESULT,
    facts={"task": "classify", "training data": "a|b.csv (9 examples)"},
    metrics={"accuracy": 91.25, "total": 1800},
    command="clearhead finetune classify",
)


def test_the_section_tells_data_length_seed_figures_and_command():
    for line in (
        "| training data | a\\|b.csv (9 examples) |",
        "| length | 1,200 steps, 34,567 tokens, 1.50 minutes (finished) |",
        "| seed | 3 |",
        "| accuracy | 91.25 |",
        "| total | 1,800 |",
        "clearhead finetune classify",
    ):
        assert line in TOLD.splitlines()


def test_what_is_not_known_is_not_said():
    text = training_section(RECIPE, RESULT, facts={}, metrics={})
    assert "It was not measured." in text
    assert "```sh" not in text


def test_the_recipe_of_a_card_gives_the_recipe_again(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(TOLD.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    named = dict.fromkeys(("train.steps", "train.epochs", "train.minutes")) | read_recipe(path)
    assert override(Finetune(), named) == RECIPE


@pytest.mark.parametrize(("base", "named"), [("owner/name", "owner/name"), ("{here}", None)])
def test_a_folder_is_no_base_model_for_the_hub(model, tmp_path, base, named):
    out = tmp_path / "mine"
    save_with_card(model, out, TOLD, base_model=base.format(here=tmp_path))
    text = (out / "README.md").read_text(encoding="utf-8")
    assert ModelCard(text).data.base_model == named
    assert "# mine" in text.splitlines()
    assert text.count("## How it was trained") == 1


def test_a_card_by_hand_stays(model, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    save_with_card(model, tmp_path, TOLD)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_figures_are_those_of_the_weights_that_were_kept(tmp_path):
    rows = [{"step": step, "loss": 1.0, "evaluation/f1": step / 10} for step in (5, 10)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    last = TrainResult(exit="finished", step=10, tokens=1, elapsed=1.0, best=None, best_step=None)
    best = TrainResult(exit="finished", step=10, tokens=1, elapsed=1.0, best=0.5, best_step=5)
    assert last_metrics(tmp_path, last) == {"f1": 1.0}
    assert last_metrics(tmp_path, best) == {"f1": 0.5}


def test_a_corpus_of_many_files_is_told_in_short(tmp_path):
    for name in "abcdefg":
        (tmp_path / f"{name}.txt").write_text("text")
    told = corpus_fact(Corpus(tmp_path), 1234)
    assert told.endswith("e.txt and 2 more (1,234 tokens)")
