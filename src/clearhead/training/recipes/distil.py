"""Distillation: a large model and raw text to a small model that says what the large one says."""

from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.masking import Masking
from clearhead.errors import WrongTask, require
from clearhead.objectives.distillation import alternate_layers
from clearhead.pipelines.model import Model
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.pretrain import Pretrain, batches
from clearhead.training.recipes.run import RunOptions, in_own_folder, train_on_text
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.distillation import Distillation, RelationDistillation
from clearhead.training.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Distil:
    """What can be set of a distillation; `recipe_for` makes one for a teacher.

    "answers" is DistilBERT's: same width, fewer layers, started from the teacher's. "relations" is MiniLM's: any width;
    a student of the teacher's shapes starts from it, another from scratch. It has no head, but can be fine-tuned.
    """

    model: Any  # the student's configuration
    relation_heads: int  # of "relations"; must divide both widths
    objective: Literal["answers", "relations"] = "answers"  # as without or with --relations
    masking: Masking = field(default_factory=lambda: Masking(multiple=64))
    length: int = 128  # tokens of a sequence, special ones included
    tokens: int = 4096  # of a micro-batch; both models give a distribution over the vocabulary for each of them
    train: Settings = field(
        default_factory=lambda: Settings(
            minutes=60.0,
            accumulate=8,
            learning_rate=5e-4,
            warmup=0.05,
            betas=(0.9, 0.98),
            every=Every(save=1000, evaluate=1000),
        )
    )


def recipe_for(teacher: Model, *, layers: int | None = None) -> Distil:
    """Plan a student of the teacher's family and width, with half its layers or as many as asked for."""
    depth = teacher.config.num_hidden_layers
    layers = max(depth // 2, 1) if layers is None else layers
    require(1 <= layers <= depth, f"a student of {layers} layers does not fit its teacher; give it 1 to {depth}")
    name = "n_layers" if any(spec.name == "n_layers" for spec in fields(teacher.config)) else "num_hidden_layers"
    return Distil(
        model=replace(teacher.config, **{name: layers}),
        relation_heads=teacher.config.num_attention_heads,
        length=min(Distil.length, teacher.encoder.max_length),
    )


@in_own_folder("teacher_name")
def distil(
    teacher: Model,
    corpus: Corpus,
    out: Path,
    recipe: Distil,
    *,
    teacher_name: str | None = None,
    **options: Unpack[RunOptions],
) -> tuple[Model, TrainResult]:
    """Train a student on masked text of the corpus and save it with its card; a run that was stopped there goes on.

    `teacher_name` is what the card calls the teacher. For the other options see `recipes.run.RunOptions`.
    """
    task, student = build(teacher, recipe)
    text = Pretrain(
        model=recipe.model, masking=recipe.masking, length=recipe.length, tokens=recipe.tokens, train=recipe.train
    )
    result = train_on_text(
        task,
        student,
        corpus,
        out,
        recipe,
        batches=partial(batches, text, teacher.tokenizer),
        start={"the teacher": teacher},
        facts={"teacher": teacher_name or repr(teacher)},
        base_model=teacher_name,
        **options,
    )
    return student, result


def build(teacher: Model, recipe: Distil) -> tuple[Task, Model]:
    """Make the student, and the task that teaches it; all that does not fit is refused here, before any work."""
    config, limit = recipe.model, teacher.encoder.max_length
    require(recipe.length <= limit, f"sequences of {recipe.length} tokens do not fit the teacher's {limit} positions")
    torch.manual_seed(recipe.train.seed)
    if recipe.objective == "answers":
        require(
            "masked_lm" in teacher.network.heads,
            "the teacher has no masked-LM head, so it has no answers to learn from; choose a model that can fill "
            "masks, or distil its relations (--relations)",
            WrongTask,
        )
        student = Model.create(config, teacher.tokenizer, heads={"masked_lm": config.vocab_size})
        alternate_layers(teacher.network, student.network)
        task: Task = Distillation(student.network, teacher.network)
    else:
        for who, width in (("student", config.hidden_size), ("teacher", teacher.config.hidden_size)):
            fits = recipe.relation_heads >= 1 and width % recipe.relation_heads == 0
            require(fits, f"relation_heads {recipe.relation_heads} must divide the {who}'s width {width}")
        student = Model.create(config, teacher.tokenizer)
        if _same_shapes(config, teacher.config):
            alternate_layers(teacher.network, student.network)
        task = RelationDistillation(student.network, teacher.network, relation_heads=recipe.relation_heads)
    return task, student


def _same_shapes(student: Any, teacher: Any) -> bool:
    """Tell whether the student differs from the teacher in nothing but having fewer layers, so that weights fit."""
    names = [spec.name for spec in fields(teacher) if type(getattr(teacher, spec.name)) is int]
    depth = {"n_layers", "num_hidden_layers"}
    fewer: bool = student.num_hidden_layers <= teacher.num_hidden_layers
    return fewer and all(getattr(student, name) == getattr(teacher, name) for name in names if name not in depth)
