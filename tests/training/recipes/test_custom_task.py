"""A task of the user's own, from the example to the corners: heads that no family has."""

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, WrongTask
from clearhead.hub.weights import read_tensors
from clearhead.training.recipes.finetune import Finetune, finetune, first_look
from clearhead.training.settings import Settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_task.py"


@pytest.fixture(scope="module")
def example():
    spec = spec_from_file_location("custom_task", EXAMPLE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def base(example, tmp_path_factory):
    """A small BERT that knows the words of the example."""
    folder = tmp_path_factory.mktemp("base")
    text = f"The film was , the music . {' '.join(example.WORDS)}"
    tokenizer = ch.train_tokenizer(texts=[text] * 2, vocabulary=120, min_frequency=1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    config = ch.BertConfig(vocab_size=tokenizer.vocabulary, max_position_embeddings=40, **sizes)
    ch.Model.create(config, tokenizer).save(folder / "model")
    return folder / "model"


def test_the_example_learns_its_task(example, base, tmp_path, capsys):
    found = example.main(base, tmp_path, steps=200)
    assert found["stars_off"] < 0.5  # 1.1 for one who always says 3
    assert f"loaded, saved and loaded: {found}" in capsys.readouterr().out
    assert "task | stars" in (tmp_path / "stars" / "README.md").read_text()
    assert finetune(
        example.STARS,
        base,
        tmp_path / "train.jsonl",
        tmp_path / "lora",
        dev=tmp_path / "dev.jsonl",
        recipe=Finetune(lora=4, train=Settings(steps=2, metric="-stars_off")),
    ).metrics.keys() == {"exact", "stars_off"}
    plain = ch.load(tmp_path / "stars")  # without the task, it is an encoder
    assert not plain.network.heads
    assert plain.embed("The film was good.").shape == (32,)


def test_the_task_of_the_example_is_short():
    task = EXAMPLE.read_text(encoding="utf-8").split("# ----")[2]
    assert 0 < sum(bool(line.strip()) for line in task.splitlines()) <= 40


def test_what_a_task_of_ones_own_cannot_do(example, base, tmp_path):
    stars, data = example.STARS, example.write_reviews(tmp_path / "train.jsonl", 8, 1)
    with pytest.raises(BadInput, match="bert has a head 'tags' of its own; give yours another name"):
        replace(stars, head="tags").prepare(ch.load(base), None)
    with pytest.raises(WrongTask, match="the task stars brings its own, so that it is no skill"):
        finetune(stars, base, data, tmp_path / "out", skill_for=["stars"], recipe=Finetune(lora=2))
    with pytest.raises(NotFound, match=r"model holds no heads of a task of your own \(heads.safetensors\)"):
        stars.load(base)
    recipe = Finetune(train=Settings(steps=2, metric="accuracy"))
    with pytest.raises(BadConfig, match="the task stars gives no 'accuracy' for metric; it gives exact, stars_off"):
        finetune(stars, base, data, tmp_path / "out", dev=data, recipe=recipe)
    assert first_look(stars, base, data).sets[0].rows == 8


def test_a_head_is_read_by_the_task_that_wrote_it_alone(example, base, tmp_path):
    stars = example.STARS
    model = stars.prepare(ch.load(base), None)
    model.save(tmp_path / "five")
    again = stars.load(tmp_path / "five")
    assert torch.equal(again.network.heads["stars"].score.weight, model.network.heads["stars"].score.weight)
    with pytest.raises(BadCheckpoint, match=r"holds .*stars.thresholds \(4,\).*; the task asks for .*\(9,\)"):
        replace(stars, outputs=9).load(tmp_path / "five")
    path = tmp_path / "five" / "heads.safetensors"
    assert set(read_tensors(path)) == {"stars.thresholds", "stars.score.weight", "stars.score.bias"}
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BadCheckpoint, match="damaged or cut short"):
        stars.load(tmp_path / "five")
