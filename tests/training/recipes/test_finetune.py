"""What cannot be learnt, measured or set is refused before a run begins."""

import json
from dataclasses import replace
from shutil import copytree

import numpy as np
import pytest
import torch

from clearhead.errors import BadConfig, BadInput
from clearhead.hub.weights import WEIGHTS
from clearhead.models.bert import BertConfig
from clearhead.pipelines.embedding import similarities
from clearhead.pipelines.model import Model, load
from clearhead.training.monitor import read_rows
from clearhead.training.recipes.finetune import Finetune, feature_extraction, finetune, first_look
from clearhead.training.recipes.task_specs import TASK_SPECS, ObjectiveOptions
from clearhead.training.settings import Settings, override
from data.small import tokenizer

CLASSES = [{"text": text, "label": label} for text, label in (("a cat", "yes"), ("a man", "no"), ("a mat", "yes"))]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    folder = tmp_path_factory.mktemp("base") / "model"
    torch.manual_seed(0)
    Model.create(BertConfig(max_position_embeddings=24, **sizes), tokenizer()).save(folder)
    return folder


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("classify", [{"text": "a cat"}]),
        ("label", [{"text": "a cat"}]),
        ("regress", [{"text": "a cat"}]),
        ("tag", [{"words": ["a", "cat"]}]),
        ("choose", [{"context": "a cat", "choices": ["sat", "ran"]}]),
    ],
)
def test_data_without_labels(base, tmp_path, kind, rows):
    data = write(tmp_path / "bare.jsonl", rows)
    with pytest.raises(BadInput, match=r"bare.jsonl has no right answers; give data with labels, or name their column"):
        finetune(kind, base, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_development_data_without_labels(base, tmp_path):
    train, dev = write(tmp_path / "train.jsonl", CLASSES), write(tmp_path / "dev.jsonl", [{"text": "a cat"}])
    with pytest.raises(BadInput, match=r"dev.jsonl has no right answers"):
        finetune("classify", base, train, tmp_path / "out", dev=dev)


def test_one_class_is_none(base, tmp_path):
    data = write(tmp_path / "one.jsonl", CLASSES[::2])
    with pytest.raises(BadInput, match="all examples have the label 'yes'; give data with two or more"):
        finetune("classify", base, data, tmp_path / "out")


def test_what_a_task_does_not_know(base, tmp_path):
    data = write(tmp_path / "scores.jsonl", [{"text": "a cat", "score": 1.0}])
    with pytest.raises(BadConfig, match=r"objective.class_weights is not for the task regress; leave it out"):
        finetune(
            "regress", base, data, tmp_path / "out", recipe=Finetune(objective=ObjectiveOptions(class_weights=True))
        )
    with pytest.raises(BadConfig, match=r"label_smoothing is a share in \[0, 1\), got 2"):
        ObjectiveOptions(label_smoothing=2)
    measured = Finetune(train=Settings(steps=2, metric="pearson"))
    with pytest.raises(BadConfig, match="metric 'pearson' is measured on development data; give --dev"):
        finetune("regress", base, data, tmp_path / "out", recipe=measured)


def test_a_metric_is_measured_after_each_epoch(base, tmp_path):
    data = write(tmp_path / "train.jsonl", CLASSES)
    changes = {"items": 2, "train.epochs": 9, "train.learning_rate": 1e-9}
    recipe = override(Finetune(), changes | {"train.metric": "accuracy", "train.patience": 2})
    outcome = finetune("classify", base, data, tmp_path / "out", dev=data, recipe=recipe)
    assert (outcome.result.exit, outcome.result.step) == ("stopped early", 6)  # of 18
    assert [row["step"] for row in read_rows(tmp_path / "out" / "run")] == [2, 4, 6]


def test_a_look_knows_how_long_inputs_may_be_and_needs_no_weights(base, tmp_path):
    data = write(tmp_path / "long.jsonl", [*CLASSES, {"text": "the cat sat on the mat " * 6, "label": "no"}])
    light = copytree(base, tmp_path / "light")
    (light / WEIGHTS).unlink()
    assert "1 inputs are longer than 24 tokens and will be cut" in str(first_look("classify", light, data))


def test_a_run_goes_on_with_the_recipe_and_data_it_began_with(base, tmp_path):
    data, recipe = write(tmp_path / "train.jsonl", CLASSES), Finetune(items=2, train=Settings(steps=1))
    finetune("classify", base, data, tmp_path / "out", recipe=recipe)
    message = (
        r"holds another run, which differs in items: 3 instead of 2\. Give what it began with, choose another folder"
    )
    with pytest.raises(BadConfig, match=message):
        finetune("classify", base, data, tmp_path / "out", recipe=replace(recipe, items=3))
    more = write(tmp_path / "more.jsonl", [*CLASSES, *CLASSES])
    with pytest.raises(
        BadConfig, match=r"the training data: .*more.jsonl \(6 examples\) instead of .*train.jsonl \(3 ex"
    ):
        finetune("classify", base, more, tmp_path / "out", recipe=recipe)
    assert finetune("classify", base, data, tmp_path / "out", recipe=recipe).result.exit == "finished"


TAGGED = [{"words": ["a", "cat"], "tags": ["DT", "NN"]}, {"words": ["a", "mat", "sat"], "tags": ["DT", "NN", "VB"]}]
ENTITIES = [{"words": ["a", "cat"], "tags": ["O", "B-ANIMAL"]}]
MORE = [*CLASSES, {"text": "a dog", "label": "maybe"}, {"text": "a hat", "label": "maybe"}]
SCORED = [{"text": "a cat", "score": 1.0}, {"text": "a man", "score": 2.0}]
PAIRS = [{"first": "a cat", "second": "a mat", "score": 1.0}, {"first": "a", "second": "b", "score": 0.5}]
ASKED = {"id": "1", "question": "who?", "context": "a cat", "answers": {"text": ["a cat"], "answer_start": [0]}}


@pytest.mark.parametrize(
    ("kind", "train", "dev", "message"),
    [
        (
            "classify",
            CLASSES,
            MORE,
            r"has labels that the training data .*train.jsonl does not know: 'maybe' \(2 exampl",
        ),
        ("classify", CLASSES, MORE, r"the first: .*dev.jsonl, line 4\); it knows 'no', 'yes'"),
        ("classify", CLASSES, [{"text": "a", "label": None}, CLASSES[0]], "dev.jsonl, line 1 has None for a label"),
        ("classify", CLASSES, [{"label": "no"}], "dev.jsonl has no column with a usual name for the text"),
        ("classify", CLASSES, [], "dev.jsonl has no rows"),
        ("label", [{"text": "a", "labels": ["x", "y"]}], [{"text": "a", "labels": ["z"]}], "does not know: 'z'"),
        ("regress", SCORED, SCORED[:1], "dev.jsonl is nothing to measure on: A correlation needs at least two items"),
        ("regress", SCORED, [SCORED[0], SCORED[0]], "dev.jsonl has one and the same score everywhere"),
        ("tag", TAGGED, ENTITIES, r"train.jsonl has plain tags, .*dev.jsonl has entities \(B-, I-\); give data of one"),
        ("tag", [*TAGGED, *ENTITIES], TAGGED, r"train.jsonl, line 3, the tag 'B-ANIMAL' of 'cat' has a prefix, others"),
        ("tag", TAGGED, [{"words": ["a"], "tags": ["UH"]}], "does not know: 'UH'"),
        ("tag", [{"words": ["a"], "tags": ["O"]}], TAGGED, "all words have the tag 'O'; give data with two or more"),
        ("answer", [ASKED], [ASKED, ASKED], "dev.jsonl, line 2 has the id '1' of a question before it"),
        (
            "answer",
            [ASKED],
            [ASKED, {**ASKED, "id": "2", "answers": None}],
            "Question '2' has no answer to compare with",
        ),
        ("similar", PAIRS, [PAIRS[0] | {"score": 9}], "dev.jsonl, line 1 has the score 9; similarity goes from 0 to 1"),
        (
            "choose",
            [{"context": "a", "choices": ["b", "c"], "label": 2}],
            [],
            "line 1 has the label '2', which is none",
        ),
    ],
)
def test_what_cannot_be_measured_is_said_before_the_first_step(base, tmp_path, kind, train, dev, message):
    data, held_out = write(tmp_path / "train.jsonl", train), write(tmp_path / "dev.jsonl", dev)
    with pytest.raises(BadInput, match=message):
        finetune(kind, base, data, tmp_path / "out", dev=held_out, recipe=Finetune(train=Settings(steps=1)))
    assert not (tmp_path / "out").exists()


def test_a_metric_that_the_task_does_not_give(base, tmp_path):
    data = write(tmp_path / "train.jsonl", CLASSES)
    with pytest.raises(
        BadConfig, match="the task classify gives no 'bleu' for metric; it gives accuracy, f1, matthews, cal"
    ):
        finetune("classify", base, data, tmp_path, dev=data, recipe=Finetune(train=Settings(steps=1, metric="bleu")))


def test_unknown_labels_may_count_as_wrong(base, tmp_path):
    data, dev = write(tmp_path / "train.jsonl", CLASSES), write(tmp_path / "dev.jsonl", MORE)
    recipe = Finetune(train=Settings(steps=1))
    found = finetune("classify", base, data, tmp_path / "out", dev=dev, recipe=recipe, allow_unknown_labels=True)
    assert found.evaluated.unknown == {"maybe": 2}
    assert found.metrics["accuracy"] <= 60


def test_plain_tags_are_a_task_of_their_own(base, tmp_path):
    data = write(tmp_path / "train.jsonl", TAGGED)
    recipe = Finetune(items=2, train=Settings(steps=40, learning_rate=1e-2))
    outcome = finetune("tag", base, data, tmp_path / "out", dev=data, recipe=recipe)
    assert outcome.metrics == {"accuracy": 100, "f1": 100}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tag_scheme"] == "plain"
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| tags | plain: one for each word, measured by accuracy |" in card
    assert "| f1 (macro) | 100 |" in card
    model = load(tmp_path / "out")
    tagged = model.tag("a mat sat")
    assert ([word.label for word in tagged.words], tagged.entities) == (["DT", "NN", "VB"], ())
    again = model.with_head("classes", 2)  # the next task does not take the word over
    assert TASK_SPECS["regress"].prepare(again, None).checkpoint.description.extra.get("tag_scheme") is None


@pytest.mark.parametrize("tags", ["I-A I-A O", "B-A I-A O", "B-A E-A O", "B-A L-A O"])
def test_schemes_of_entities_are_recognised(base, tmp_path, tags):
    data = tmp_path / "train.conll"
    data.write_text("".join(f"w{n} {tag}\n" for n, tag in enumerate(tags.split())), encoding="utf-8")
    outcome = finetune("tag", base, data, tmp_path / "out", dev=data, recipe=Finetune(train=Settings(steps=1)))
    scheme = "IOBES" if "E" in tags or "L" in tags else "IOB2"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tag_scheme"] == scheme
    assert outcome.model.labels == (("B-A", "E-A", "O") if scheme == "IOBES" else ("B-A", "I-A", "O"))
    assert set(outcome.metrics) == {"f1", "precision", "recall", "accuracy"}


def test_development_data_is_measured_once(base, tmp_path, monkeypatch):
    data, calls = write(tmp_path / "train.jsonl", CLASSES), []
    whole = Model.classify
    monkeypatch.setattr(Model, "classify", lambda self, *given, **how: calls.append(1) or whole(self, *given, **how))
    recipe = Finetune(items=2, train=Settings(steps=3))
    first = finetune("classify", base, data, tmp_path / "out", dev=data, recipe=recipe)
    assert len(calls) == 1
    best = override(recipe, {"train.metric": "accuracy", "train.every.evaluate": 1})
    finetune("classify", base, data, tmp_path / "best", dev=data, recipe=best)
    assert len(calls) == 4  # after each step, and not once more
    assert finetune("classify", base, data, tmp_path / "out", dev=data, recipe=recipe).metrics == first.metrics


TRIPLES = [
    {"first": "a cat", "second": "the cat sat", "negative": "a man"},
    {"first": "a man", "second": "the man ran", "negative": "a cat"},
]


def test_a_teacher_gives_its_vectors(base, tmp_path):
    """A student of other weights ends nearer to its teacher's vectors than it began, whoever wrote them down."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(1)
    teacher = Model.create(BertConfig(max_position_embeddings=24, **sizes), tokenizer())
    teacher.save(tmp_path / "teacher")
    data = write(tmp_path / "pairs.jsonl", TRIPLES)
    texts = [text for row in TRIPLES for text in row.values()]
    wanted = teacher.embed(texts, normalise=True)
    np.save(tmp_path / "vectors.npy", wanted)
    recipe = Finetune(train=Settings(steps=30, learning_rate=1e-2))
    learnt = [
        finetune("similar", base, data, tmp_path / name, teacher=given, recipe=recipe).model.embed(texts)
        for name, given in (("asked", tmp_path / "teacher"), ("written", str(tmp_path / "vectors.npy")))
    ]
    before, *after = (similarities(one, wanted).diagonal().mean() for one in (load(base).embed(texts), *learnt))
    assert min(after) > before + 0.2
    assert after[0] == pytest.approx(after[1], abs=0.02), "half precision on one side"


def test_a_fine_tuned_teacher_gives_its_classes(base, tmp_path):
    """What the teacher believes is learnt where its soft labels alone count, whatever the data says."""
    data = write(tmp_path / "train.jsonl", CLASSES)
    wrong = write(
        tmp_path / "wrong.jsonl", [{**one, "label": {"yes": "no", "no": "yes"}[one["label"]]} for one in CLASSES]
    )
    short = Finetune(dropout=0.0, train=Settings(steps=60, learning_rate=1e-2))
    finetune("classify", base, data, tmp_path / "teacher", recipe=short)
    soft = override(short, {"objective.soft": 1.0, "objective.temperature": 3.0})
    learnt = finetune("classify", base, wrong, tmp_path / "soft", teacher=tmp_path / "teacher", recipe=soft).model
    texts = [one["text"] for one in CLASSES]
    assert [one.label for one in learnt.classify(texts)] == [one["label"] for one in CLASSES]
    hard = override(short, {"objective.soft": 0.0})
    learnt = finetune("classify", base, wrong, tmp_path / "hard", teacher=tmp_path / "teacher", recipe=hard).model
    assert [one.label for one in learnt.classify(texts)] == ["no", "yes", "no"]
    rows = read_rows(tmp_path / "soft" / "run")
    assert {"soft_targets", "classes"} <= set(rows[-1])


def test_a_teacher_of_pairs_says_which_label_is_which(base, tmp_path):
    rows = [{"text": "a cat", "pair": two, "label": label} for two, label in (("a mat", "b"), ("a man", "a"))]
    data = write(tmp_path / "train.jsonl", rows)
    short = Finetune(dropout=0.0, train=Settings(steps=40, learning_rate=1e-2))
    teacher = finetune("classify", base, data, tmp_path / "teacher", recipe=short).model
    # its labels in another order: probabilities belong to names, not to places
    turned = teacher.checkpoint.network.heads["classes"].classifier
    with torch.no_grad():
        turned.weight.copy_(turned.weight.flip(0))
        turned.bias.copy_(turned.bias.flip(0))
    description = replace(teacher.checkpoint.description, labels=("b", "a"))
    Model(replace(teacher.checkpoint, description=description)).save(tmp_path / "turned")
    soft = override(short, {"objective.soft": 1.0})
    learnt = finetune("classify", base, data, tmp_path / "out", teacher=tmp_path / "turned", recipe=soft).model
    assert [learnt.compare("a cat", one["pair"]).label for one in rows] == ["b", "a"]


def test_a_teacher_of_other_classes_is_refused(base, tmp_path):
    data = write(tmp_path / "train.jsonl", CLASSES)
    with pytest.raises(BadInput, match="the teacher tells no classes apart, the data no, yes; choose a teacher that"):
        finetune("classify", base, data, tmp_path / "out", teacher=base)
    with pytest.raises(BadConfig, match="soft and temperature are of a teacher's labels; name one with --teacher"):
        finetune("classify", base, data, tmp_path / "out", recipe=override(Finetune(), {"objective.soft": 0.3}))
    for name, value in (("soft", 1.5), ("temperature", 0.0)):
        with pytest.raises(BadConfig, match=name):
            override(Finetune(), {f"objective.{name}": value})


def test_vectors_that_do_not_belong(base, tmp_path):
    data = write(tmp_path / "pairs.jsonl", TRIPLES)
    np.save(tmp_path / "few.npy", np.ones((4, 16)))
    np.save(tmp_path / "narrow.npy", np.ones((6, 8)))
    for file, said in (
        ("few.npy", r"few.npy has 4 vectors for 6 texts; make it of this data"),
        ("narrow.npy", r"the teacher's vectors have 8 numbers, the model's 16; choose two of one width"),
        ("none.npy", r"the vectors .*none.npy cannot be read"),
    ):
        with pytest.raises(BadInput, match=said):
            finetune("similar", base, data, tmp_path / "out", teacher=str(tmp_path / file))
    rated = write(tmp_path / "r.jsonl", [{"text": "a cat", "score": 1.5}])
    with pytest.raises(BadInput, match="--teacher is for classify and similar, not for regress; leave it out"):
        finetune("regress", base, rated, tmp_path / "out", teacher="any.npy")
    scored = write(tmp_path / "scored.jsonl", [{"first": "a cat", "second": "a man", "score": 0.5}] * 2)
    with pytest.raises(BadInput, match="these pairs have scores, which take the place of a teacher"):
        finetune("similar", base, scored, tmp_path / "out", teacher="any.npy")
    some = write(tmp_path / "some.jsonl", [TRIPLES[0], TRIPLES[1] | {"negative": ""}])
    with pytest.raises(BadInput, match="Some pairs have a negative text and some have none"):
        finetune("similar", base, some, tmp_path / "out")
    assert not (tmp_path / "out").exists()


STREAMED = {
    "classify": [{"text": f"a {word} sat", "label": word} for word in ("cat", "man") * 6],
    "label": [{"text": f"a {word} sat", "label": [word] * (i % 2)} for i, word in enumerate(("cat", "man") * 6)],
    "regress": [{"text": f"a {word} sat", "score": i} for i, word in enumerate(("cat", "man") * 6)],
    "similar": [
        {"first": f"a {word}", "second": "a mat", "score": i / 12} for i, word in enumerate(("cat", "man") * 6)
    ],
}


@pytest.mark.parametrize("kind", STREAMED)
def test_streamed_data_gives_the_same_model(base, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("clearhead.data.stream.StreamedExamples.__init__.__kwdefaults__", {"rows": 5})
    data = write(tmp_path / "train.jsonl", STREAMED[kind])
    recipe = override(Finetune(), {"items": 4, "train.epochs": 2, "train.learning_rate": 1e-3})
    whole = finetune(kind, base, data, tmp_path / "whole", dev=data, recipe=recipe)
    streamed = finetune(kind, base, data, tmp_path / "streamed", dev=data, recipe=recipe, stream=True)
    assert streamed.metrics == whole.metrics
    assert (tmp_path / "streamed" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert (tmp_path / "streamed" / "corpus" / "examples" / "manifest.json").is_file()
    # it is the same run, whichever way its data is read
    again = finetune(kind, base, data, tmp_path / "streamed", dev=data, recipe=recipe)
    assert again.result.began == again.result.step
    told = []
    finetune(kind, base, data, tmp_path / "whole", dev=data, recipe=recipe, stream=True, progress=told.append)
    assert sum(told) == data.stat().st_size


def test_what_is_not_streamed(base, tmp_path):
    data = write(tmp_path / "train.jsonl", [{"words": ["a", "cat"], "tags": ["O", "B-X"]}] * 2)
    with pytest.raises(BadInput, match="tag is not streamed; classify, label, regress, similar, instruct are"):
        finetune("tag", base, data, tmp_path / "out", stream=True)
    data = write(tmp_path / "train.jsonl", CLASSES)
    frozen = {"recipe": feature_extraction()}
    for more in ({"fold": (0, 2)}, {"teacher": base}, frozen):
        with pytest.raises(BadInput, match="streamed data is not held, for --folds, for a --teacher or for --frozen"):
            finetune("classify", base, data, tmp_path / "out", stream=True, **more)
    data = write(tmp_path / "pairs.jsonl", [{"first": "a cat", "second": "a man", "score": 4.5}] * 3)
    with pytest.raises(BadInput, match="has scores above 1, which a stream does not scale; divide them by 5"):
        finetune("similar", base, data, tmp_path / "out", stream=True)
    assert not (tmp_path / "out").exists()
