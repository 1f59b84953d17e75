"""A folder belongs to the run that began in it: what differs is refused, what was stopped goes on, nothing is lost."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clearhead import load
from clearhead.errors import BadInput
from clearhead.training.checkpoint import checkpoints, step_of
from clearhead.training.recipes import finetune, translate
from clearhead.training.recipes import run as frame

ROOT = Path(__file__).parents[2]
WORDS = [
    "the",
    "animal",
    "cross",
    "street",
    "it",
    "was",
    "too",
    "tired",
    "bank",
    "river",
    "money",
    "she",
    "sat",
    "mask",
]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def here(tmp_path, folder, monkeypatch):
    """A working folder with a model "base", a corpus and the data of two tasks."""
    shutil.copytree(folder, tmp_path / "base")
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=9)) for _ in range(120)]
    rows = [f"{text},{'yes' if 'river' in text else 'no'}\n" for text in texts]
    tmp_path.joinpath("corpus.txt").write_text("\n\n".join(texts))
    tmp_path.joinpath("train.csv").write_text("text,label\n" + "".join(rows[:94]))
    tmp_path.joinpath("dev.csv").write_text("text,label\n" + "".join(rows[94:]))
    for name in ("one.txt", "other.txt"):
        tmp_path.joinpath(name).write_text("\n".join(text if name == "one.txt" else text[::-1] for text in texts))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def sets(**values: object) -> list[str]:
    return [part for name, value in values.items() for part in ("--set", f"{name.replace('__', '.')}={value}")]


TINY = sets(model__hidden_size=16, model__intermediate_size=24, model__num_attention_heads=2, length=16, tokens=128)
FINETUNE = ["finetune", "classify", "--data", "train.csv", "--dev", "dev.csv", "--model", "base", "--device", "cpu"]
PRETRAIN = ["pretrain", "--corpus", "corpus.txt", "--preset", "tiny", "--vocabulary", 60, "--steps", 2, *TINY]
CAUSAL = sets(model__n_embd=16, model__n_head=2, model__n_layer=1, length=16, tokens=128)
PAIRS = ["finetune", "translation", "--data", "one.txt", "other.txt", "--dev", "one.txt", "other.txt"]
SMALL_PAIRS = sets(model__hidden_size=8, model__embedding_size=8, tokenizer="word", train__steps=2)
RUNS = {
    "finetune": (
        [*FINETUNE, *sets(train__steps=2, items=94)],
        "train.csv",
        "the training data: train.csv (94 examples)",
    ),
    "dev": ([*FINETUNE, *sets(train__steps=2)], "dev.csv", "the development data: dev.csv (26 examples)"),
    "skill": (
        [*FINETUNE, "--skill-for", "classify", *sets(train__steps=2, items=94, train__learning_rate=0.01, lora=2)],
        "train.csv",
        "the training data: train.csv (94 examples)",
    ),
    "pretrain": (PRETRAIN, "corpus.txt", "file 1 of the corpus: corpus.txt"),
    "electra": (
        [*PRETRAIN, "--family", "electra", "--preset", "small", "--objective", "replaced"],
        "corpus.txt",
        "file 1 of the corpus: corpus.txt",
    ),
    "language": (
        ["pretrain", "--corpus", "corpus.txt", "--family", "gpt2", "--vocabulary", 280, "--steps", 2, *CAUSAL],
        "corpus.txt",
        "file 1 of the corpus: corpus.txt",
    ),
    "start": (
        ["pretrain", "--corpus", "corpus.txt", "--model", "base", "--steps", 2, *sets(length=16, tokens=128)],
        "base/model.safetensors",
        "the starting model: base",
    ),
    "distil": (
        ["distil", "--corpus", "corpus.txt", "--teacher", "base", "--steps", 2, *sets(length=16, tokens=512)],
        "corpus.txt",
        "file 1 of the corpus: corpus.txt",
    ),
    "translation": (
        [*PAIRS, "--model", "seq2seq-gru", *SMALL_PAIRS],
        "other.txt",
        "the training data: one.txt, other.txt (120 examples)",
    ),
    "vectors": (
        ["vectors", "train", "corpus.txt", *sets(train__steps=2, min_frequency=1, model__hidden_size=8)],
        "corpus.txt",
        "file 1 of the corpus: corpus.txt",
    ),
}


def change(path: Path) -> None:
    """Put one word for another, or other weights for a model's."""
    if path.suffix == ".safetensors":
        other = load(path.parent)
        with torch.no_grad():
            next(other.network.parameters()).mul_(1.5)
        other.save(path.parent, overwrite=True)
        return
    text = path.read_text()
    word = "river" if "river" in text else "revir"
    path.write_text(text.replace(word, "money" if word == "river" else "yenom", 1))


@pytest.mark.parametrize("name", RUNS)
def test_one_changed_word_is_another_run(run, here, name):
    command, file, told = RUNS[name]
    command = [*command, "--out", "out"]
    assert run(*command)[0] == 0
    code, out, _ = run(*command)
    assert code == 0
    assert "nothing was trained" in out or "before, and trained no further" in out
    before, data = content(here / "out"), (here / file).read_bytes()
    change(here / file)
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert f"{Path('out/run')} holds another run, which differs in {told} is not what it was" in err
    assert "choose another folder, or begin anew in this one with --restart" in err
    assert content(here / "out") == before
    (here / file).write_bytes(data)
    assert run(*command)[0] == 0
    change(here / file)
    code, out, err = run(*command, "--restart")
    assert code == 0, err
    named = str(here / "out" / ("adapter.safetensors" if name == "skill" else "model.safetensors"))
    assert (content(here / "out")[named] == before[named]) == (name == "dev")  # of which the weights know nothing


def test_a_moved_file_is_the_same_and_its_order_or_labels_are_not(run, here):
    command = [*FINETUNE, "--out", "out", *sets(train__steps=2)]
    assert run(*command)[0] == 0
    before, text = content(here / "out"), (here / "train.csv").read_text()
    header, *rows = text.splitlines(keepends=True)
    (here / "moved.csv").write_text(text)
    moved = ["moved.csv" if part == "train.csv" else part for part in command]
    code, out, _ = run(*moved)
    assert (code, "nothing was trained" in out) == (0, True)
    after = content(here / "out")
    readme = str(here / "out" / "README.md")
    assert {path: now for path, now in after.items() if path != readme and "card.json" not in path}.items() <= (
        before.items()
    )
    assert b"moved.csv" in after[readme]
    flipped = [row.replace(",yes", ",?").replace(",no", ",yes").replace(",?", ",no") for row in rows]
    named = [row.replace(",yes", ",wet").replace(",no", ",dry") for row in rows]
    for lines, told in (
        (rows[::-1], "the training data: moved.csv (94 examples) instead of train.csv (94 examples)"),
        (flipped, "the training data: moved.csv (94 examples) instead of train.csv (94 examples)"),
        (named, "the labels: dry, wet instead of no, yes"),
    ):
        (here / "moved.csv").write_text("".join([header, *lines]))
        dev = "moved.csv" if lines is named else "dev.csv"
        code, _, err = run(*(dev if part == "dev.csv" else part for part in moved))
        assert code == 2
        assert told in err
    code, _, err = run(*command, "--model", here / "base", *sets(items=8))
    assert (code, "which differs in items: 8 instead of 32. " in err) == (2, True)
    assert content(here / "out") == after


def test_a_run_is_not_removed_for_one_that_cannot_start(run, here):
    command = [*FINETUNE, "--out", "out", *sets(train__steps=2)]
    assert run(*command)[0] == 0
    code, _, err = run(*command[:-4], "--more", "--out", "new")
    assert (code, "holds no run to go on from; leave --more out, or name another folder" in err) == (2, True)
    assert not (here / "new").exists()
    before = content(here / "out")
    (here / "train.csv").write_text("text,label\na river,yes\n")  # one class
    assert run(*command, "--restart")[0] == 2
    assert run(*command, "--restart", "--model", "nowhere")[0] == 2
    assert content(here / "out") == before
    code, _, err = run(*command, "--restart", "--more")
    assert (code, "--restart begins anew and --more goes on; choose one of the two" in err) == (2, True)


def test_a_model_whose_checkpoints_are_gone_is_not_replaced_unasked(run, here):
    command = [*FINETUNE, "--out", "out", *sets(train__steps=2)]
    assert run(*command)[0] == 0
    for path in checkpoints(here / "out" / "run"):
        shutil.rmtree(path)
    before = content(here / "out")
    change(here / "train.csv")
    code, _, err = run(*command)
    assert (code, "is there already; choose another name, or replace it with --overwrite" in err) == (2, True)
    assert content(here / "out") == before
    assert run(*command, "--restart")[0] == 0
    assert content(here / "out") != before


def test_more_epochs_go_on_from_the_end(run, here):
    command = [*FINETUNE, "--out", "out", *sets(items=8)]
    assert run(*command, *sets(train__epochs=1))[0] == 0
    before = content(here / "out")
    code, _, err = run(*command, *sets(train__epochs=2))
    assert code == 2
    assert "is over after epochs = 1.0, and epochs = 2.0 is asked for; go on from its end with --more" in err
    code, _, err = run(*command, "--more", *sets(train__epochs=2, items=4))
    assert (code, "which differs in items: 4 instead of 8; epochs: 2.0 instead of 1.0" in err) == (2, True)
    assert content(here / "out") == before
    assert run(*command, "--more", *sets(train__epochs=2))[0] == 0
    card = (here / "out" / "README.md").read_text()
    assert "| length | 24 steps" in card
    assert "| went on from | epochs = 1.0 (12 steps) |" in card
    assert "nothing was trained" in run(*command, "--more", *sets(train__epochs=2))[1]


KILL = """
import os, signal, sys
from clearhead.cli import main
from clearhead.training import loop
real, steps = loop.update, []
def update(*given):
    steps.append(1)
    if len(steps) == 130:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*given)
loop.update = update
main()
"""


def test_a_fine_tuning_that_is_killed_goes_on(run, here):
    command = [*map(str, FINETUNE), *sets(items=2, train__every__minutes=1e-4)]  # 47 batches, three times
    assert run(*command, "--out", "whole")[0] == 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(
        [sys.executable, "-c", KILL, *command, "--out", "killed"], env=environment, check=False, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    steps = [step_of(path) for path in checkpoints(here / "killed" / "run")]
    assert steps
    assert 0 < steps[-1] < 130
    assert run(*command, "--out", "killed")[0] == 0
    ours, theirs = (here / name / "model.safetensors" for name in ("killed", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()


def fail(*_: object) -> dict[str, float]:
    raise BadInput("'IN' is not a tag.")


@pytest.mark.parametrize(
    ("command", "place", "metric"),
    [
        (RUNS["finetune"][0], (finetune.Measuring, "__call__"), "accuracy"),
        (RUNS["finetune"][0], (finetune.Measuring, "of_final"), "accuracy"),
        (RUNS["translation"][0], (translate, "_bleu"), "bleu"),
        (PRETRAIN, (frame, "validation_metrics"), "perplexity"),
        (RUNS["translation"][0], (translate, "_metrics"), "bleu"),
    ],
)
def test_an_evaluation_that_fails_loses_no_model(run, here, monkeypatch, command, place, metric):
    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        for _ in range(2):  # nothing is trained again, and nothing is measured
            code, out, err = run(*command, "--out", "out")
            assert (code, out) == (2, "")
            told = "the model is trained and saved in out, but measuring it failed: 'IN' is not a tag; measure it with"
            assert f"{told} clearhead evaluate --model out, or run the same command again, which will train" in err
            assert "It was not measured." in (here / "out" / "README.md").read_text()
            weights = (here / "out" / "model.safetensors").read_bytes()
    assert run(*command, "--out", "out")[0] == 0
    assert (here / "out" / "model.safetensors").read_bytes() == weights
    assert f"| {metric} |" in (here / "out" / "README.md").read_text()


def test_a_vocabulary_is_learnt_from_the_corpus_that_is_there(here):
    first, again, other = (frame.Corpus(here / name) for name in ("corpus.txt", "corpus.txt", "other.txt"))
    words = frame.learn_vocabulary_once(first, here / "out", size=60)
    assert frame.learn_vocabulary_once(again, here / "out", size=60).digest == words.digest
    assert frame.learn_vocabulary_once(other, here / "out", size=60).digest != words.digest
    assert frame.learn_vocabulary_once(other, here / "out", size=50).vocabulary <= 50
