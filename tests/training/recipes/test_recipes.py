"""Whole runs on miniatures: text to a model, a model to each task, and the command line over both."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import clearhead as ch
from clearhead.cli import app
from clearhead.data.corpus import Corpus
from clearhead.data.examples import TextExample, WordsExample
from clearhead.errors import BadConfig, BadInput
from clearhead.models.bert import BertConfig
from clearhead.models.electra import ElectraConfig
from clearhead.models.modernbert import ModernBertConfig
from clearhead.training.monitor import read_rows
from clearhead.training.recipes import finetune as finetuning
from clearhead.training.recipes.distil import Distil
from clearhead.training.recipes.finetune import Finetune, finetune, over_seeds
from clearhead.training.recipes.pretrain import Masking, Pretrain, build, generator_config, preset, pretrain
from clearhead.training.recipes.run import for_device, last_metrics
from clearhead.training.recipes.task_specs import TASK_SPECS, ObjectiveOptions
from clearhead.training.recipes.translate import Translate
from clearhead.training.settings import Every, Settings

SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
COLOURS = ["red", "green", "blue", "black"]
THINGS = ["stone", "river", "house", "cloud", "horse", "table", "glass", "bread"]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences in which every word follows from another: each thing has one colour and is named twice."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        i = draw.randrange(len(THINGS))
        rows.append(f"The {THINGS[i]} is {COLOURS[i % 4]} and so the {COLOURS[i % 4]} {THINGS[i]} is a {THINGS[i]} .")
    return rows


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    documents = [" ".join(sentences(4, seed)) for seed in range(300)]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return ch.train_tokenizer(corpus, vocabulary=120)


def steps(count: int, **changes: object) -> Settings:
    return Settings(steps=count, learning_rate=3e-3, every=Every(log=5, save=10**6, evaluate=10**6), **changes)


def test_pretraining_leaves_the_plateau(corpus, tokenizer, tmp_path):
    """Word frequencies alone give a loss near 2.5 here; a model that reads the context gets far below."""
    recipe = Pretrain(
        model=BertConfig(**SIZES, **NO_DROPOUT), masking=Masking(), length=48, tokens=768, train=steps(150)
    )
    model, result = pretrain(Corpus(corpus), tokenizer, tmp_path / "run", recipe)
    rows = [json.loads(line) for line in (tmp_path / "run" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert result.exit == "finished"
    assert rows[0]["loss"] > 3
    assert rows[-1]["evaluation/masked_lm"] < 1
    again = ch.load(tmp_path / "run")
    best = again.fill("the stone is [MASK] and so the red stone is a stone .", top_k=1)
    assert "red" in str(best.to_dict())
    assert model.parameters == again.parameters


@pytest.mark.parametrize("objective", ["masked+next", "masked+order", "replaced"])
def test_every_objective_runs_and_saves(corpus, tokenizer, tmp_path, objective):
    family = {"masked+order": "albert", "replaced": "electra"}.get(objective, "bert")
    config = preset(family, "base" if family != "electra" else "small")
    sizes = SIZES | ({"embedding_size": 24} if family != "bert" else {})
    config = type(config)(**sizes, **NO_DROPOUT)
    recipe = Pretrain(model=config, objective=objective, masking=Masking(), length=48, tokens=512, train=steps(4))
    _, result = pretrain(Corpus(corpus), tokenizer, tmp_path / "run", recipe)
    assert (result.exit, result.step) == ("finished", 4)
    heads = {"masked+next": "next_sentence", "masked+order": "sentence_order", "replaced": "replaced"}
    assert heads[objective] in ch.load(tmp_path / "run").network.heads


@pytest.mark.parametrize(
    ("family", "objective", "mask"),
    [("mpnet", "masked", "<mask>"), ("deberta-v2", "masked", "[MASK]"), ("deberta-v2", "replaced+masked", "[MASK]")],
)
def test_models_with_distances_learn_by_command(corpus, tmp_path, family, objective, mask):
    """From raw text, with the tokenizer of the family, to a classifier; transformers reads both."""
    changes = {f"model.{name}": value for name, value in {**SIZES, "max_position_embeddings": 64}.items()}
    changes |= {"tokens": 768, "length": 48, "train.learning_rate": 3e-3}
    words = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    words += ["--corpus", str(corpus), "--out", str(tmp_path / "model"), "--objective", objective, "--preset", "mini"]
    words += ["--family", family, "--vocabulary", "150", "--steps", "25"]
    found = CliRunner().invoke(app, ["pretrain", *words])
    assert found.exit_code == 0, found.output
    rows = read_rows(tmp_path / "model" / "run")
    assert rows[-1]["masked_lm" if "masked_lm" in rows[-1] else "loss"] < 3.7
    model = ch.load(tmp_path / "model")
    assert model.family == family
    text = f"The stone is {mask} and so the red stone is a stone ."
    reference = transformers.pipeline("fill-mask", str(tmp_path / "model"))
    assert model.fill(text, top_k=1).predictions[0].id == reference(text, top_k=1)[0]["token"]
    data, labelled = tmp_path / "train.jsonl", {text: next(c for c in COLOURS if c in text) for text in sentences(32)}
    data.write_text("".join(json.dumps({"text": text, "label": one}) + "\n" for text, one in labelled.items()))
    finetune("classify", tmp_path / "model", data, tmp_path / "classes", recipe=Finetune(train=steps(4)))
    trained = ch.load(tmp_path / "classes")
    (expected,) = transformers.pipeline("text-classification", str(tmp_path / "classes"))("the red stone", top_k=1)
    best = trained.classify("the red stone")
    assert (best.label, best.score) == (expected["label"], pytest.approx(expected["score"], abs=1e-5))


def test_replaced_tokens_with_masks_and_pairs_go_on_from_a_folder(corpus, tokenizer, tmp_path):
    config = ModernBertConfig(**SIZES, max_position_embeddings=64, global_attn_every_n_layers=1)
    recipe = Pretrain(
        model=config, objective="replaced+masked+next", masking=Masking(), length=48, tokens=512, train=steps(60)
    )
    first, _ = pretrain(Corpus(corpus), tokenizer, tmp_path / "first", recipe)
    rows = [json.loads(line) for line in (tmp_path / "first" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {"generator", "replaced", "masked_lm", "next_sentence"} <= rows[-1].keys()
    assert rows[-1]["masked_lm"] < rows[0]["masked_lm"] - 1
    assert rows[-1]["generator"] < rows[0]["generator"] - 1
    found = ch.load(tmp_path / "first")
    assert set(found.network.heads) == {"masked_lm", "replaced", "next_sentence"}
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "first")
    ids = torch.tensor([tokenizer.encode("the stone is [MASK] .").ids])
    with torch.no_grad():
        torch.testing.assert_close(found.network("masked_lm", ids), theirs(ids).logits, atol=1e-5, rtol=1e-5)

    one_more = replace(recipe, train=steps(1))
    task, model, generator = build(one_more.objective, found.config, tokenizer, seed=0, start=tmp_path / "first")
    for ours, trained in zip(model.network.parameters(), first.network.parameters(), strict=True):
        assert torch.equal(ours, trained)
    assert generator is not None
    assert "generator" in task.weights
    again, _ = pretrain(Corpus(corpus), tokenizer, tmp_path / "second", one_more, start=tmp_path / "first")
    gone_on = json.loads((tmp_path / "second" / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert gone_on["masked_lm"] < rows[0]["masked_lm"] - 1
    assert again.parameters == first.parameters
    other = ch.train_tokenizer(texts=["other words"], vocabulary=60)
    with pytest.raises(BadConfig, match="has another tokenizer"):
        pretrain(Corpus(corpus), other, tmp_path / "third", one_more, start=tmp_path / "first")


def test_a_generator_is_a_quarter_as_wide():
    small = generator_config(ElectraConfig(hidden_size=256, num_attention_heads=4, intermediate_size=1024))
    assert (small.hidden_size, small.num_attention_heads, small.intermediate_size) == (64, 1, 256)


def test_unknown_families_sizes_and_lengths_are_refused(corpus, tokenizer, tmp_path):
    with pytest.raises(BadConfig, match="there is no family 'bart'; choose one of"):
        preset("bart", "base")
    with pytest.raises(BadConfig, match="bert has no preset 'huge'; choose one of tiny, mini"):
        preset("bert", "huge")
    recipe = Pretrain(model=BertConfig(**SIZES), objective="replaced", length=48, tokens=512, train=steps(1))
    with pytest.raises(BadConfig, match=r"not the heads of objective 'replaced'; choose .* electra, modernbert"):
        pretrain(Corpus(corpus), tokenizer, tmp_path / "run", recipe)


@pytest.fixture(scope="module")
def base(corpus, tokenizer, tmp_path_factory):
    """A model that has read a little, to fine-tune."""
    folder = tmp_path_factory.mktemp("base") / "model"
    config = BertConfig(max_position_embeddings=64, **SIZES, **NO_DROPOUT)
    recipe = Pretrain(model=config, masking=Masking(), length=48, tokens=768, train=steps(150))
    pretrain(Corpus(corpus), tokenizer, folder, recipe)
    return folder


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def data_for(kind: str, path, count: int, seed: int):
    """A small task of each kind that a model can learn by looking at single words."""
    draw = np.random.default_rng(seed)
    picks = draw.integers(len(THINGS), size=(count, 2))
    texts = [f"the {COLOURS[j % 4]} {THINGS[i]} is here ." for i, j in picks]
    match kind:
        case "classify":
            return write(path, [{"text": t, "label": COLOURS[j % 4]} for t, (_, j) in zip(texts, picks, strict=True)])
        case "label":
            # two words to tell apart: with four, which the model learns first hangs on the seed for many steps
            texts = [f"the {COLOURS[j % 2]} {THINGS[i]} is here ." for i, j in picks]
            rows = [["red", "warm"] if j % 2 == 0 else ["green"] for _, j in picks]
            return write(path, [{"text": t, "labels": r} for t, r in zip(texts, rows, strict=True)])
        case "regress":
            return write(path, [{"text": t, "score": float(j % 4)} for t, (_, j) in zip(texts, picks, strict=True)])
        case "tag":
            lines = []
            for i, j in picks:
                lines += ["the O", f"{COLOURS[j % 4]} O", f"{THINGS[i]} B-THING", "is O", "here O", ""]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return path
        case "answer":
            asked = [
                {
                    "id": f"{seed}-{n}",
                    "question": "which thing ?",
                    "answers": [{"text": THINGS[i], "answer_start": t.index(THINGS[i])}],
                    "context": t,
                }
                for n, (t, (i, _)) in enumerate(zip(texts, picks, strict=True))
            ]
            paragraphs = [{"context": a.pop("context"), "qas": [a]} for a in asked]
            path.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}))
            return path
        case "choose":
            rows = [
                {
                    "context": t,
                    "choices": [COLOURS[j % 4], COLOURS[(j + 1) % 4]][:: 1 if i % 2 else -1],
                    "label": int(i % 2 == 0),
                }
                for t, (i, j) in zip(texts, picks, strict=True)
            ]
            return write(path, rows)
        case _:
            same = draw.integers(2, size=count)
            rows = [
                {"sentence1": t, "sentence2": f"a {THINGS[i] if s else THINGS[(i + 3) % 8]} .", "score": 5.0 * s}
                for t, (i, _), s in zip(texts, picks, same, strict=True)
            ]
            return write(path, rows)


GOOD = {
    "classify": ("accuracy", 95),
    "label": ("f1", 90),
    "regress": ("spearman", 90),
    "tag": ("f1", 95),
    "answer": ("f1", 90),
    "choose": ("accuracy", 75),
    "similar": ("spearman", 75),
}


@pytest.mark.parametrize("kind", GOOD)
def test_every_task_is_learnt_and_saved(kind, base, tmp_path):
    metric, good = GOOD[kind]
    ending = {"tag": "conll", "answer": "json"}.get(kind, "jsonl")
    train, dev = (data_for(kind, tmp_path / f"{n}.{ending}", 96, n) for n in (1, 2))
    recipe = Finetune(length=48, items=16, train=steps(300))
    outcome = finetune(kind, base, train, tmp_path / "out", dev=dev, recipe=recipe)
    assert outcome.metrics[metric] > good
    again = ch.load(tmp_path / "out")
    found = finetuning.find_task(kind).evaluation(again, finetuning.find_task(kind).read(dev, {}))
    assert found.metrics[metric] == pytest.approx(outcome.metrics[metric])


def test_rare_classes_weigh_more(base):
    tags = [WordsExample(("stone", "is"), ("B-THING", "O")), WordsExample(("is", "here"), ("O", "O"))]
    texts = [TextExample("stone", None, label) for label in ("red", "blue", "blue", "blue")]
    for name, examples, wanted in (("tag", tags, [2, 2 / 3]), ("classify", texts, [2 / 3, 2])):
        kind = TASK_SPECS[name]
        labels = kind.labels(examples)
        model = kind.prepare(ch.load(base), labels)
        encoded = kind.encode(examples, model.tokenizer, labels, 48)
        task = kind.task(model, encoded, ObjectiveOptions(class_weights=True))
        assert task.class_weights.tolist() == pytest.approx(wanted)


def documents(path, count: int, seed: int):
    """Documents of two sentences; what the second is about is said in the first."""
    draw, lines = np.random.default_rng(seed), []
    for colour, thing in draw.integers((2, len(THINGS)), size=(count, 2)):
        lines += ["-DOCSTART- O", "", f"{COLOURS[colour]} O", "", "the O", f"{THINGS[thing]} B-{'AB'[colour]}", ""]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tags_that_depend_on_the_sentence_before(base, tmp_path):
    train, dev = (documents(tmp_path / f"{n}.conll", 64, n) for n in (1, 2))
    recipe = Finetune(documents=True, length=48, items=16, train=steps(200))
    outcome = finetune("tag", base, train, tmp_path / "out", dev=dev, recipe=recipe)
    assert outcome.metrics["f1"] > 95
    alone = finetuning.find_task("tag").evaluation(outcome.model, finetuning.find_task("tag").read(dev, {}))
    assert alone.metrics["f1"] < 75
    with pytest.raises(BadInput, match="documents=true is for the task tag"):
        finetune("answer", base, data_for("answer", tmp_path / "a.json", 4, 0), tmp_path / "b", recipe=recipe)


def test_the_order_of_similarities_is_learnt(base, tmp_path):
    train, dev = (data_for("similar", tmp_path / f"{n}.jsonl", 96, n) for n in (1, 2))
    recipe = Finetune(length=48, items=16, objective=ObjectiveOptions(ranking=True), train=steps(200))
    assert finetune("similar", base, train, tmp_path / "out", dev=dev, recipe=recipe).metrics["spearman"] > 75
    (bare := tmp_path / "bare.jsonl").write_text('{"sentence1": "a stone", "sentence2": "one stone"}\n')
    with pytest.raises(BadInput, match="ranking=true needs pairs with scores; these have none"):
        finetune("similar", base, bare, tmp_path / "none", recipe=recipe)


def test_adapters_learn_too_and_leave_an_ordinary_folder(base, tmp_path):
    train, dev = (data_for("classify", tmp_path / f"{n}.jsonl", 96, n) for n in (1, 2))
    recipe = Finetune(length=48, items=16, lora=8, train=replace(steps(300), learning_rate=1e-2))
    outcome = finetune("classify", base, train, tmp_path / "out", dev=dev, recipe=recipe)
    assert outcome.metrics["accuracy"] > 90
    texts = ["the red stone is here .", "the blue bread is here ."]
    assert [found.label for found in ch.load(tmp_path / "out").classify(texts)] == ["red", "blue"]


def test_dropout_is_that_of_the_recipe(base, tmp_path):
    train = data_for("classify", tmp_path / "train.jsonl", 32, 1)
    losses = {}
    for rate in (0.0, 0.5):
        recipe = Finetune(length=48, items=16, dropout=rate, train=steps(2))
        finetune("classify", base, train, tmp_path / str(rate), recipe=recipe)
        losses[rate] = read_rows(tmp_path / str(rate) / "run")[-1]["loss"]
    assert losses[0.5] != losses[0.0]
    with pytest.raises(BadConfig, match=r"dropout is a share in \[0, 1\), got 1.5"):
        finetune("classify", base, train, tmp_path / "x", recipe=Finetune(dropout=1.5, train=steps(2)))


def test_a_finished_run_is_not_trained_again(base, tmp_path):
    train = data_for("classify", tmp_path / "train.jsonl", 32, 1)
    recipe = Finetune(length=48, items=16, train=steps(3))
    first = finetune("classify", base, train, tmp_path / "out", recipe=recipe)
    second = finetune("classify", base, train, tmp_path / "out", recipe=recipe)
    assert first.result.step == second.result.step == 3
    pairs = zip(first.model.network.parameters(), second.model.network.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_mean_and_deviation_over_seeds():
    assert over_seeds([{"f1": float(seed)} for seed in (1, 2, 3)]) == {"f1": (2.0, 1.0)}
    with pytest.raises(BadInput, match="no seeds given"):
        over_seeds([])


def test_the_command_line_looks_trains_and_measures(base, tmp_path):
    train, dev = (str(data_for("classify", tmp_path / f"{n}.jsonl", 48, n)) for n in (1, 2))
    common = [
        "finetune",
        "classify",
        "--data",
        train,
        "--dev",
        dev,
        "--model",
        str(base),
        "--out",
        str(tmp_path / "out"),
    ]
    seen = CliRunner().invoke(app, [*common, "--dry-run"])
    assert "train: 48 rows" in seen.stdout
    assert not (tmp_path / "out").exists()
    short = ["--set", "train.steps=5", "--set", "items=8", "--device", "cpu"]
    done = CliRunner().invoke(app, [*common, *short, "--json"])
    figures = json.loads(done.stdout)["figures"]
    assert set(figures) == {"accuracy", "f1", "matthews", "calibration_error"}
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for line in (f"| made from | {base} |", f"| measured on | {dev} (48 examples) |", "train.steps = 5"):
        assert line in card
    (row,) = [line for line in card.splitlines() if line.startswith("| accuracy |")]
    assert float(row.split("|")[2]) == pytest.approx(figures["accuracy"], abs=1e-3)
    measured = CliRunner().invoke(
        app, ["evaluate", "classify", "--data", dev, "--model", str(tmp_path / "out"), "--device", "cpu", "--json"]
    )
    assert json.loads(measured.stdout)["examples"] == 48
    wrong = CliRunner().invoke(app, [*common, "--set", "train.learnin_rate=1"])
    assert "did you mean train.learning_rate?" in str(wrong.exception)


def test_a_cpu_takes_smaller_steps():
    plan = Pretrain()
    assert for_device(plan, "cuda") == plan
    assert for_device(plan, "cpu").tokens * plan.train.accumulate == 4096
    for many in (Distil(model=None, relation_heads=1), Translate(model=None)):  # as those of pretraining do
        small = for_device(many, "cpu")
        assert small.tokens * small.train.accumulate == min(4096, 2048 * many.train.accumulate)
        assert replace(small, tokens=many.tokens, train=many.train) == many
    assert for_device(replace(plan, tokens=512), "cpu").tokens == 512


def test_the_command_line_pretrains(corpus, tmp_path):
    out = tmp_path / "out"
    arguments = ["pretrain", "--corpus", str(corpus), "--out", str(out), "--preset", "tiny", "--steps", "2"]
    small = ["--vocabulary", "120", "--set", "tokens=512", "--set", "length=48", "--set", "masking.multiple=1"]
    done = CliRunner().invoke(app, [*arguments, *small, "--device", "cpu", "--json"])
    assert json.loads(done.stdout)["steps"] == 2, done.output
    assert ch.load(out).fill("the [MASK] is red .", top_k=1)


@pytest.mark.parametrize(
    "text", [" ".join(sentences(80)), "\n".join(f"stone river house {n % 7} cloud" for n in range(200))]
)
@pytest.mark.parametrize("objective", ["masked", "masked+next"])
def test_one_document_is_learnt_and_some_of_it_held_out(tokenizer, tmp_path, text, objective):
    (tmp_path / "one.jsonl").write_text(json.dumps({"text": text}), encoding="utf-8")
    recipe = Pretrain(
        model=BertConfig(max_position_embeddings=64, **SIZES), objective=objective, length=16, tokens=64, train=steps(2)
    )
    _, result = pretrain(Corpus(tmp_path / "one.jsonl"), tokenizer, tmp_path / "out", recipe)
    assert result.exit == "finished"
    assert last_metrics(tmp_path / "out" / "run", result)["perplexity"] > 1
