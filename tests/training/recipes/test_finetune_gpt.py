"""What a GPT is fine-tuned for: classes with language modelling beside, and answers to prompts."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.batch import IGNORE_INDEX, Batch
from clearhead.data.dataset import ShuffledBatches
from clearhead.data.encode import encode_instructions
from clearhead.data.examples import Labels, PairExample, TextExample
from clearhead.data.formats import read_instructions
from clearhead.errors import BadInput, WrongTask
from clearhead.models.bert import BertConfig
from clearhead.models.gpt import Gpt2Config
from clearhead.models.t5 import T5Config
from clearhead.pipelines.generation import few_shot
from clearhead.training.recipes.finetune import Finetune, finetune
from clearhead.training.recipes.task_specs import TASK_SPECS, ObjectiveOptions
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.classification import Classify, ClassifyWithLM
from clearhead.training.tasks.language import CausalLM

ROWS = [
    ("What is the capital of France?", "Paris"),
    ("What is the capital of Italy?", "Rome"),
    ("Name the colour of snow.", "white"),
    ("Name the colour of grass.", "green"),
    ("Say hello.", "Hello, how are you?"),
]
SIZES = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tokenizer():
    texts = [f"{prompt}\n{answer}" for prompt, answer in ROWS] * 2
    return ch.train_tokenizer(texts=texts, kind="gpt2", vocabulary=350, min_frequency=1)


@pytest.fixture(scope="module")
def gpt(tokenizer, tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("gpt")
    size, end = tokenizer.vocabulary, tokenizer.sep_id
    config = Gpt2Config(vocab_size=size, **SIZES, bos_token_id=end, eos_token_id=end, resid_pdrop=0.0, embd_pdrop=0.0)
    ch.Model.create(config, tokenizer, heads={"causal_lm": size}).save(folder)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in ROWS), "utf-8")
    return path


def settings(steps):
    return Settings(steps=steps, learning_rate=5e-3, every=Every(save=10**6, evaluate=10**6))


def test_the_loss_is_on_the_answer_alone(tokenizer, rows):
    examples = read_instructions(rows)
    encoded = encode_instructions(examples, tokenizer, length=64)
    batch = ShuffledBatches(encoded, seed=0, items=5).batch(0)
    seen = set()
    for ids, following in zip(batch.layout.split(batch.ids), batch.layout.split(batch.targets["next"]), strict=True):
        learnt = following[following != IGNORE_INDEX].tolist()
        first = int((following != IGNORE_INDEX).nonzero()[0])
        prompt = tokenizer.decode(ids[: first + 1].tolist())
        assert learnt == ids[first + 1 :].tolist()  # exactly what follows the prompt
        assert learnt[-1] == tokenizer.sep_id
        assert following[-1] == IGNORE_INDEX
        seen.add((prompt, tokenizer.decode(learnt)))
    assert seen == {(prompt, f"\n{answer}") for prompt, answer in ROWS}


def test_a_changed_prompt_token_has_no_loss_of_its_own(tokenizer, gpt):
    """The gradient at the logits of a prompt's places is zero, at the answer's it is not."""
    encoded = encode_instructions([PairExample(*ROWS[0])], tokenizer, length=64)
    batch = encoded.batch(np.array([0]))
    model = ch.load(gpt)
    kept = []
    hook = model.network.register_forward_hook(lambda _, __, out: kept.append(out) or out.retain_grad())
    task = CausalLM(model.network)
    task.losses(batch)["next"].total.backward()
    hook.remove()
    touched = kept[0].grad.abs().sum(-1) > 0
    assert torch.equal(touched, batch.targets["next"] != IGNORE_INDEX)
    assert task.counts(batch) == {"next": int(touched.sum())}


def test_long_prompts_lose_their_beginning_and_long_answers_their_end(tokenizer, caplog):
    long = PairExample("Say hello. " * 20 + "Name it.", "green")
    encoded = encode_instructions([long], tokenizer, length=16)
    assert encoded.tokens == 16
    assert tokenizer.decode(encoded.ids.tolist()).endswith("Name it.\ngreen")
    assert "1 examples were longer" in caplog.text
    endless = encode_instructions([PairExample("Hi", "green " * 40)], tokenizer, length=16)
    assert endless.tokens == 16
    assert endless.ids[-1] != tokenizer.sep_id
    nothing = encode_instructions([PairExample("", "green")], tokenizer, length=16)
    assert nothing.ids[0] == tokenizer.sep_id


def test_a_tiny_set_is_learnt_by_heart_and_answered(gpt, rows, tmp_path):
    recipe = Finetune(length=64, items=5, train=settings(150))
    outcome = finetune("instruct", gpt, rows, tmp_path / "tuned", dev=rows, recipe=recipe)
    assert outcome.metrics == {"exact": 100.0, "f1": 100.0}
    model = ch.load(tmp_path / "tuned")
    for prompt, answer in ROWS:
        assert model.generate(prompt, max_new_tokens=20).text == f"\n{answer}"


def test_few_shot_prompts_are_what_generate_goes_on_from(gpt):
    prompt = few_shot([("snow", "white"), ("grass", "green")], "milk")
    written = ch.load(gpt).generate(prompt, max_new_tokens=4, stop_strings=["\n\n"])
    assert isinstance(written.text, str)


def test_the_command_line(gpt, rows, tmp_path):
    arguments = ["finetune", "instruct", "--data", str(rows), "--model", str(gpt), "--out", str(tmp_path / "tuned")]
    done = CliRunner().invoke(app, [*arguments, "--set", "train.steps=2", "--json", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["task"] == "instruct"
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"a": "b", "c": "d"}) + "\n")
    with pytest.raises(BadInput, match="no column with a usual name for the prompt; its columns are 'a', 'c'"):
        read_instructions(other)
    other.write_text(json.dumps({"a": "b", "c": " "}) + "\n")
    with pytest.raises(BadInput, match="has an empty answer"):
        read_instructions(other, text="a", pair="c")


def labelled(path, count=64):
    draw = np.random.default_rng(0)
    words = ["snow", "grass", "Paris", "Rome"]
    lines = []
    for _ in range(count):
        i = int(draw.integers(4))
        lines.append({"text": f"Name the colour of {words[i]}.", "label": "city" if i > 1 else "colour"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_classification_reads_the_last_token(gpt, tmp_path, weight):
    data = labelled(tmp_path / "data.jsonl")
    recipe = Finetune(length=32, items=16, objective=ObjectiveOptions(lm_weight=weight), train=settings(25))
    outcome = finetune("classify", gpt, data, tmp_path / "out", dev=data, recipe=recipe)
    assert outcome.metrics["accuracy"] == 100
    model = ch.load(tmp_path / "out")
    assert tuple(model.network.heads) == ("classes",)
    found = model.classify("Name the colour of snow.")
    assert found.label == "colour"
    rows = [json.loads(line) for line in (tmp_path / "out" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert ("next" in rows[-1]) == bool(weight)


def test_the_parts_of_the_loss_are_those_of_the_two_tasks(gpt, tokenizer):
    model = ch.load(gpt).with_head("classes", 2, labels=("a", "b"))
    batch = Batch.of(
        [tokenizer.pieces(prompt).ids for prompt, _ in ROWS[:3]], targets={"classes": torch.tensor([0, 1, 0])}
    )
    both = ClassifyWithLM(model.network, weight=0.5)
    losses = both.losses(batch)
    assert_close(losses["classes"].total, Classify(model.network).losses(batch)["classes"].total)
    writer = ch.load(gpt).network
    logits = writer("causal_lm", batch.ids, batch.layout)
    wanted = sum(
        torch.nn.functional.cross_entropy(one[:-1], ids[1:], reduction="sum")
        for one, ids in zip(batch.layout.split(logits), batch.layout.split(batch.ids), strict=True)
    )
    assert_close(losses["next"].total, wanted)
    assert both.counts(batch) == {"classes": 3, "next": batch.tokens - 3}
    assert int(losses["next"].count) == batch.tokens - 3


def test_other_families_are_refused(tokenizer):
    bert = ch.Model.create(BertConfig(vocab_size=400, hidden_size=32, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(WrongTask, match="there is no head 'causal_lm' for bert"):
        TASK_SPECS["instruct"].prepare(bert, None)
    examples = [TextExample(prompt, label=str(number % 2)) for number, (prompt, _) in enumerate(ROWS)]
    spec = TASK_SPECS["classify"]
    encoded = spec.encode(examples, tokenizer, Labels(("0", "1")), 32)
    with pytest.raises(WrongTask, match="lm_weight is for gpt2, which reads forwards; this is bert"):
        spec.task(bert.with_head("classes", 2), encoded, ObjectiveOptions(lm_weight=0.5))
    t5 = ch.Model.create(T5Config(vocab_size=400, d_model=32, num_layers=1, num_heads=2), heads={"causal_lm": 400})
    with pytest.raises(WrongTask, match="t5 reads a source; train it with: finetune translation --text prompt"):
        TASK_SPECS["instruct"].task(t5, None, ObjectiveOptions())
