"""What config.json says, and what it leaves out: thresholds, stale labels, a family known by its tensors alone."""

import json
import logging
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import clearhead as ch
from clearhead.errors import BadCheckpoint, BadConfig, BadInput
from clearhead.hub.checkpoint import read_folder
from clearhead.hub.config import read_config, to_json
from clearhead.hub.convert import convert
from clearhead.hub.skills import Skill, encoder_digest, write_skill
from clearhead.nn.lora import add_lora
from generators import BART, DECODERS, their_decoder
from inside.models import small
from references import LABELS, theirs

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
    ch.load(tmp_path).save(tmp_path, overwrite=True)
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
    with pytest.raises(BadCheckpoint, match=r"threshold .* is (no number|not of type float)"):
        ch.load(home, skill="questions")
    set_threshold(home, before)


def saved(network: object, folder: Path, **changes: object) -> Path:
    """A model of transformers whose config.json is changed; None takes a key out."""
    network.save_pretrained(folder)
    content = {**config_of(folder), **changes}
    kept = {name: value for name, value in content.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    return folder


CLASSES = "BertForSequenceClassification"
NAMELESS: dict[str, None] = {"model_type": None, "architectures": None}


def test_stale_labels_beside_a_right_number_are_left_aside(tmp_path, caplog):
    stale = {"id2label": {"0": "no", "1": "yes"}, "label2id": None}
    folder = saved(theirs("bert", CLASSES), tmp_path / "right", **stale, num_labels=LABELS)
    checkpoint = read_folder(folder)
    assert checkpoint.description.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    told = (
        "names 2 labels, but classifier has 3 outputs, as its num_labels says; the names of the labels are left aside"
    )
    assert told in caplog.text
    # transformers says the same, and calls them so
    assert transformers.AutoConfig.from_pretrained(folder).id2label == dict(enumerate(checkpoint.description.labels))
    wrong = saved(theirs("bert", CLASSES), tmp_path / "wrong", **stale, num_labels=4)
    with pytest.raises(BadCheckpoint, match="names 2 labels, but classifier has 3 outputs"):
        read_folder(wrong)


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        ("bert", "BertForMaskedLM"),
        ("bert", "BertForTokenClassification"),
        ("distilbert", "DistilBertForSequenceClassification"),
        ("roberta", "RobertaForSequenceClassification"),
        ("electra", "ElectraForPreTraining"),
        ("albert", "AlbertForQuestionAnswering"),
        ("modernbert", "ModernBertForMaskedLM"),
    ],
)
def test_an_encoder_that_config_json_does_not_name(model, architecture, tmp_path, caplog):
    read = read_config(saved(theirs(model, architecture), tmp_path, **NAMELESS))
    assert (read.family, read.architecture) == (model, architecture)
    told = f"names no model_type and no architectures; by its tensors it is taken to be model_type {model} and"
    assert told in caplog.text
    assert architecture in caplog.text


@pytest.mark.parametrize("model", DECODERS)
def test_a_decoder_that_config_json_does_not_name(model, tmp_path):
    network = their_decoder(model)
    read = read_config(saved(network, tmp_path, **NAMELESS))
    assert (read.family, read.architecture) == (DECODERS[model][0], type(network).__name__)


@pytest.mark.parametrize("architecture", ["BartForSequenceClassification", "BartForQuestionAnswering"])
def test_a_bart_that_config_json_does_not_name(architecture, tmp_path):
    network = getattr(transformers, architecture)(transformers.BartConfig(**BART))
    assert read_config(saved(network, tmp_path, **NAMELESS)).architecture == architecture


def test_an_architecture_names_its_family(tmp_path, caplog):
    folder = saved(theirs("camembert", "CamembertForMaskedLM"), tmp_path, model_type=None)
    assert read_config(folder).family == "camembert"
    assert "names no model_type; by its tensors it is taken to be model_type camembert" in caplog.text
    caplog.clear()
    whole = saved(theirs("bert", "BertForMaskedLM"), tmp_path / "whole")
    read_config(whole)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_what_may_be_of_two_families_is_refused_until_it_is_named(tmp_path):
    folder = saved(theirs("roberta", "RobertaModel"), tmp_path / "bare", **NAMELESS)
    with pytest.raises(BadConfig, match=r"may be those of bert or roberta; say which with: clearhead convert --family"):
        read_config(folder)
    convert(folder, tmp_path / "named", family="roberta")
    assert read_config(tmp_path / "named").family == "roberta"
    assert "model_type" not in config_of(folder)
    convert(folder, family="roberta")
    assert read_config(folder).family == "roberta"
    with pytest.raises(BadInput, match=r"names model_type 'roberta', not 'bert'; choose another target or pass"):
        convert(folder, family="bert")
    convert(folder, family="bert", overwrite=True)
    assert read_config(folder).family == "bert"


def test_what_may_be_of_two_architectures_is_an_encoder_until_it_is_named(tmp_path, caplog):
    folder = saved(theirs("bert", CLASSES), tmp_path, architectures=None)
    assert list(read_folder(folder).network.heads) == ["pooled"]
    assert "classifier.weight; say whose they are with: clearhead convert --architecture NAME" in caplog.text
    convert(folder, architecture=CLASSES)
    assert list(read_folder(folder).network.heads)[-1] == "classes"
    # labels as tags have them say what it is
    tags = {str(i): label for i, label in enumerate(("O", "B-PER", "I-PER"))}
    saved(theirs("bert", CLASSES), tmp_path, architectures=None, id2label=tags)
    assert read_config(tmp_path).architecture == "BertForTokenClassification"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"family": "robrta"}, r"'robrta' is not known to clearhead; there are roberta"),
        ({"architecture": "BertForTokens"}, r"'BertForTokens' is not known to clearhead; there are BertFor"),
        ({"family": "gpt2"}, r"tensors of .* are not those of gpt2, but of bert or roberta"),
        ({"family": "bert", "architecture": "GPT2Model"}, "GPT2Model is no class of bert; it has BertModel"),
    ],
)
def test_names_that_do_not_fit(tmp_path, named, message):
    folder = saved(theirs("bert", "BertModel"), tmp_path, **NAMELESS)
    with pytest.raises(BadInput, match=message):
        convert(folder, **named)


def test_a_folder_without_weights_cannot_be_known(tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    with pytest.raises(BadConfig, match="names no model_type, as files before 2020 do; add one of albert, bert"):
        read_config(tmp_path)


def test_a_conversion_names_what_the_tensors_say(tmp_path, caplog):
    network = theirs("bert", "BertForMaskedLM")
    source = saved(network, tmp_path / "old", **NAMELESS)
    (source / "model.safetensors").unlink()
    torch.save(network.state_dict(), source / "pytorch_model.bin")
    convert(source, tmp_path / "new")
    assert "by its tensors it is taken to be model_type bert and architectures BertForMaskedLM" in caplog.text
    assert config_of(tmp_path / "new")["model_type"] == "bert"
    assert "model_type" not in config_of(source)
    # what may be of two families is converted all the same, and told
    torch.save(theirs("bert", "BertModel").state_dict(), source / "pytorch_model.bin")
    convert(source, tmp_path / "bare")
    assert "may be those of bert or roberta; say which with: clearhead convert --family NAME" in caplog.text
    assert "model_type" not in config_of(tmp_path / "bare")
