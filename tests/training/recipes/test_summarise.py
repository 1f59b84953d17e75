"""A summariser learns which sentences the summaries of its training data are made of."""

import json
import random
from dataclasses import replace

import pytest
import torch

from clearhead.errors import BadCheckpoint, BadInput
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.models.bert import BertConfig
from clearhead.nn.heads import TokenHead
from clearhead.pipelines.model import Model, load
from clearhead.pipelines.summarisation import SENTENCE_LABELS, USUAL_SENTENCES, _unlike
from clearhead.training.recipes.finetune import Finetune, find_reader, finetune
from clearhead.training.recipes.task_specs import TASK_SPECS
from clearhead.training.settings import Settings, override
from data.small import tokenizer

TOLD = ["The cat sat on the mat.", "The man went to Brussels.", "The animal was too tired."]
ELSE = ["A plan, a plan.", "Be alert!", "A canal, a canal.", "World, world."]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    folder = tmp_path_factory.mktemp("base") / "model"
    torch.manual_seed(0)
    Model.create(BertConfig(max_position_embeddings=64, initializer_range=0.1, **sizes), tokenizer()).save(folder)
    return folder


def documents(path, count, seed=0):
    """What is told of lies anywhere between what is not; the summary tells it in its order."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        two = draw.sample(TOLD, 2)
        sentences = [*two, *draw.sample(ELSE, 3)]
        draw.shuffle(sentences)
        rows.append({"document": " ".join(sentences), "summary": " ".join(one for one in sentences if one in two)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def plan(**changes):
    recipe = Finetune(items=8, train=Settings(steps=60, learning_rate=3e-3))
    return override(recipe, {name.replace("__", "."): value for name, value in changes.items()})


@pytest.fixture(scope="module")
def learnt(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learnt")
    data, dev = documents(folder / "train.jsonl", 40), documents(folder / "dev.jsonl", 20, seed=1)
    return finetune("summarise", base, data, folder / "out", dev=dev, recipe=plan(dropout=0.0)), folder


def test_it_keeps_what_summaries_tell(learnt):
    made, folder = learnt
    assert made.metrics["rouge1"] > 95
    again = load(folder / "out")
    text = "Be alert! The cat sat on the mat. World, world. The animal was too tired. A plan, a plan."
    found = again.summarise(text)
    assert found.text == "The cat sat on the mat. The animal was too tired."  # as many as summaries usually have
    assert all(text[one.start : one.end] == one.text and 0.5 < one.score <= 1 for one in found.sentences)
    assert again.summarise(text, sentences=9).text == text
    assert [one.text for one in again.summarise([text, "", "Be alert!"], sentences=1)][1:] == ["", "Be alert!"]
    assert made.model.checkpoint.description.extra[USUAL_SENTENCES] == 2


def test_it_is_measured_as_summaries_are(learnt):
    made, folder = learnt
    examples = find_reader("summarise")(folder / "dev.jsonl", {})
    found = EVALUATIONS["summaries"](made.model, examples)
    assert found.metrics == pytest.approx(made.metrics)
    row = found.predictions[0]
    assert row["predicted"].count("\n") == 1  # a line is a sentence of rougeLsum


def test_folds_of_documents_are_learnt_and_measured(base, learnt, tmp_path):
    data, told = learnt[1] / "dev.jsonl", []
    for fold in range(2):
        made = finetune("summarise", base, data, tmp_path / f"{fold}", recipe=plan(train__steps=2), fold=(fold, 2))
        told.append(made.evaluated.metrics["rouge1"])
        assert made.model.checkpoint.description.extra[USUAL_SENTENCES] == 2
    assert all(0 < value <= 100 for value in told)
    with pytest.raises(BadInput, match="summarise is not streamed; classify"):
        finetune("summarise", base, data, tmp_path / "out", stream=True)


def test_a_summariser_with_a_head_of_its_own_is_read_again(base, learnt, tmp_path):
    """What the training data said of summaries stays in the folder, which knows no training data."""
    spec = replace(
        TASK_SPECS["summarise"], head="keeps", module=lambda encoder, outputs: TokenHead(encoder.width, outputs)
    )
    examples = spec.read(learnt[1] / "dev.jsonl", {})
    model = spec.prepare(load(base), spec.labels(examples), examples)
    model.save(tmp_path / "own")
    again = spec.load(tmp_path / "own")
    assert again.checkpoint.description.extra[USUAL_SENTENCES] == 2
    assert torch.equal(again.network.heads["keeps"].classifier.weight, model.network.heads["keeps"].classifier.weight)


def test_a_longer_text_than_the_model_reads_is_read_whole(learnt):
    made, _ = learnt
    text = " ".join([*ELSE * 6, TOLD[0], *ELSE * 6])
    assert made.model.summarise(text, sentences=1).text == TOLD[0]


def test_another_task_learnt_later_is_no_summariser(learnt, tmp_path):
    rows = [{"words": ["a", "cat"], "tags": ["O", "B-X"]}]
    (tmp_path / "tags.jsonl").write_text(json.dumps(rows[0]) + "\n")
    tagger = finetune("tag", learnt[1] / "out", tmp_path / "tags.jsonl", tmp_path / "out", recipe=plan(train__steps=1))
    assert USUAL_SENTENCES not in tagger.model.checkpoint.description.extra


def test_sentences_that_repeat_come_last():
    sentences = ["The dog barked loudly.", "Then the dog barked again.", "Cats slept.", "It rained all day."]
    assert _unlike(sentences, [1, 0, 2, 3]) == [1, 2, 3, 0]


def test_what_is_no_summariser_is_refused(base, learnt, tmp_path):
    made, folder = learnt
    with pytest.raises(BadInput, match="a summary of 0 sentences is none"):
        made.model.summarise("a text", sentences=0)
    with pytest.raises(BadInput, match="no column with a usual name for the two texts"):
        finetune("summarise", base, _write(tmp_path / "x.jsonl", {"a": "b"}), tmp_path / "out")
    with pytest.raises(BadInput, match="documents=true is for the task tag"):
        finetune("summarise", base, folder / "train.jsonl", tmp_path / "out", recipe=plan(documents=True))
    made.model.save(tmp_path / "copy")
    config = json.loads((tmp_path / "copy" / "config.json").read_text())
    (tmp_path / "copy" / "config.json").write_text(json.dumps(config | {USUAL_SENTENCES: -1}))
    with pytest.raises(BadCheckpoint, match="says summary_sentences = -1 of a model with the labels"):
        load(tmp_path / "copy").summarise("a text")
    assert made.model.labels == SENTENCE_LABELS
    with pytest.raises(BadInput, match="a summariser is a model of its own, not a skill"):
        finetune(
            "summarise", base, folder / "train.jsonl", tmp_path / "o", recipe=plan(lora=4), skill_for=["summarise"]
        )


def _write(path, row):
    path.write_text(json.dumps(row) + "\n")
    return path
