"""From when on a model gives no answer: kept in config.json, where transformers keeps the options of a use."""

import json

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadCheckpoint
from clearhead.hub.config import read_config, to_json
from clearhead.hub.skills import Skill, encoder_digest, write_skill
from clearhead.nn.lora import add_lora
from inside.models import small

QUESTION, CONTEXT = "Who was tired?", "The animal was too tired. He took a train."
T5_TASKS = {"summarization": {"prefix": "summarize: ", "max_length": 200}}
numbers = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An encoder with a skill that answers from a threshold on."""
    folder = tmp_path_factory.mktemp("home")
    small("modernbert").save(folder)
    model = ch.load(folder).with_head("span", 2)
    add_lora(model.encoder, ["qkv"], 2)
    torch.nn.init.normal_(model.network.heads["span"].classifier.weight, generator=torch.Generator().manual_seed(1))
    described = Skill(encoder=encoder_digest(model.encoder), uses=("answer",), head="span", outputs=2)
    write_skill(described, model.network, folder / "skills" / "questions")
    margin = ch.load(folder).answer(QUESTION, CONTEXT, threshold=float("inf")).margin
    set_threshold(folder, margin - 0.01)
    return folder


def set_threshold(folder, value):
    path = folder / "skills" / "questions" / "skill.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threshold": value}))


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_an_exported_skill_answers_as_before(home, tmp_path):
    skill = ch.load(home, skill="questions")
    threshold = skill.checkpoint.description.threshold
    assert skill.answer(QUESTION, CONTEXT).text is None
    assert skill.answer(QUESTION, CONTEXT, threshold=threshold + 0.02).text is not None
    skill.save(tmp_path / "out")
    assert config_of(tmp_path / "out")["task_specific_params"] == {"question-answering": {"threshold": threshold}}
    again = ch.load(tmp_path / "out")
    assert again.answer(QUESTION, CONTEXT) == skill.answer(QUESTION, CONTEXT)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out")
    assert theirs.config.task_specific_params["question-answering"]["threshold"] == threshold
    # another head knows nothing of it, nor does the encoder alone
    again.with_head("span", 2).save(tmp_path / "other")
    assert "task_specific_params" not in config_of(tmp_path / "other")
    assert ch.load(home).checkpoint.description.threshold == 0
    again.save(tmp_path / "alone", heads=[])
    assert "task_specific_params" not in config_of(tmp_path / "alone")


@given(threshold=numbers | st.integers(-(2**53), 2**53), beside=st.sampled_from([{}, {"max_answer_len": 15}]))
def test_what_lies_beside_it_stays(tmp_path_factory, threshold, beside):
    folder = tmp_path_factory.mktemp("config")
    small("modernbert", head="span", outputs=2).save(folder)
    options = {**beside, "threshold": threshold}
    tasks = {**T5_TASKS, "question-answering": options}
    (folder / "config.json").write_text(json.dumps({**config_of(folder), "task_specific_params": tasks}))
    read = read_config(folder)
    assert read.threshold == threshold
    written = to_json(read, "float32")["task_specific_params"]
    left = {"question-answering": options if threshold else beside} if threshold or beside else {}
    assert written == {**T5_TASKS, **left}


@pytest.mark.parametrize("tasks", [None, {}, T5_TASKS, {"question-answering": {}}, {"question-answering": None}, []])
def test_without_one_nothing_changes(tmp_path, tasks):
    small("modernbert", head="span", outputs=2).save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config_of(tmp_path), "task_specific_params": tasks}))
    ch.load(tmp_path).save(tmp_path)
    assert config_of(tmp_path)["task_specific_params"] == tasks


@pytest.mark.parametrize("value", ["low", True, [1], float("nan"), float("inf"), pytest.param(10**400, id="large")])
def test_what_is_no_number_is_refused(home, tmp_path, value):
    small("modernbert", head="span", outputs=2).save(tmp_path)
    tasks = {"question-answering": {"threshold": value}}
    (tmp_path / "config.json").write_text(json.dumps({**config_of(tmp_path), "task_specific_params": tasks}))
    with pytest.raises(BadCheckpoint, match=r"config.json: the threshold .* is no number; write one, or leave it out"):
        ch.load(tmp_path)
    before = Skill.read(home / "skills" / "questions").threshold
    set_threshold(home, value)
    with pytest.raises(BadCheckpoint, match=r"threshold .* is no number; copy the skill again"):
        ch.load(home, skill="questions")
    set_threshold(home, before)
