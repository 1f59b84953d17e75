"""Verbs that train on raw text: pretrain, distil."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from typer import Option

from clearhead.cli.options import CorpusOption, MinutesOption, StepsOption, Training, progress, training_rows, verb
from clearhead.cli.render import Rows
from clearhead.errors import BadConfig, BadInput, require

VOCABULARY = 30_000  # tokens of a tokenizer that is trained here, unless the user says


@verb
def pretrain(
    corpus: CorpusOption,
    out: Path = Option(..., help="The folder of the run and, in the end, of the model."),
    *,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    family: str | None = Option(
        None,
        help="modernbert (the default), bert, roberta, distilbert, albert, electra; gpt2, t5, xlnet, rnnlm-lstm, "
        "rnnlm-gru or elmo.",
    ),
    preset: str | None = Option(
        None,
        help="Size: tiny to large, as far as the family has them; gpt2, t5, xlnet, rnnlm-… and elmo begin with "
        "mini, which is their default. Of the others it is small.",
    ),
    objective: str | None = Option(
        None,
        help="masked (the default), masked+next, masked+order, replaced, replaced+masked(+next); causal (gpt2, "
        "rnnlm-…), spans (t5), permutation (xlnet) or bidirectional (elmo).",
    ),
    model: Path | None = Option(
        None, "--model", "-m", help="A folder to begin with, to go on or to adapt it to your text."
    ),
    tokenizer: str | None = Option(None, help="A folder with a tokenizer. Default: one is trained on the corpus."),
    vocabulary: int | None = Option(None, help=f"Tokens of a tokenizer that is trained here; default {VOCABULARY:,}."),
    run: Training,
) -> Rows:
    """Train a model on your own text, from scratch or from a checkpoint; run it again to go on after a stop.

    Example: `clearhead pretrain --corpus wiki.jsonl.xz --out ./my-bert --preset mini --minutes 20`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.text import Tokenizer
    from clearhead.training.recipes.run import for_device, learn_vocabulary_once

    _check_new(model, tokenizer, family=family, preset=preset, vocabulary=vocabulary)
    texts = Corpus(corpus)
    plan, train, kind = _plan(family, preset, objective, model)
    keywords = run.keywords()
    plan, shape = for_device(plan, keywords["device"]), plan.model  # before what the user says
    plan = run.override(plan, objective=objective, train__minutes=minutes, train__steps=steps)
    own = model is None or plan.model == shape
    require(own, f"--set model.… is for a new model, and {model} has its own sizes; leave it out", BadInput)
    if (words_in := tokenizer or model) is not None:
        words = Tokenizer.from_folder(words_in)
    else:
        size = VOCABULARY if vocabulary is None else vocabulary
        with progress("learning a vocabulary", texts.size, of_bytes=True) as advance:
            words = learn_vocabulary_once(texts, out, size=size, kind=kind, progress=advance)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        trained, result = train(texts, words, out, plan, start=model, progress=advance, **keywords)
    yield from training_rows(result, out, repr(trained))


def _check_new(
    model: Path | None, tokenizer: str | None, *, family: str | None, preset: str | None, vocabulary: int | None
) -> None:
    """Refuse what is for a new model, or a new tokenizer, where one that is there was named."""
    from clearhead.training.recipes.language import model_type

    leave = f"{model} has its own; leave it out"
    require(model is None or preset is None, f"--preset {preset} is for a new model, and {leave}", BadInput)
    own = family is None or model is None or family == model_type(model)
    require(own, f"--family {family} is for a new model, and {leave}", BadInput)
    words = tokenizer or model
    fresh = words is None or vocabulary is None
    require(fresh, f"--vocabulary {vocabulary} is for a new tokenizer, and {words} has its own; leave it out", BadInput)


def _plan(family: str | None, preset: str | None, objective: str | None, model: Path | None) -> tuple[Any, Any, str]:
    """The recipe that these options ask for, what runs it, and the kind of tokenizer that goes with it."""
    from clearhead.hub.config import read_config
    from clearhead.models import ENCODERS
    from clearhead.training.recipes import language
    from clearhead.training.recipes import pretrain as encoders

    families = [*ENCODERS, *language.FAMILIES]
    if family not in (None, *families):
        raise BadConfig(f"there is no family {family!r}; choose one of {', '.join(families)}")
    objectives = [*encoders.HEADS, *language.DEFAULT_FAMILY]
    if objective not in (None, *objectives):
        raise BadConfig(f"there is no objective {objective!r}; choose one of {', '.join(objectives)}")
    if language.is_language_model(family, objective, model):
        recipe = language.recipe_for(family, preset, objective, model)
        return recipe, language.pretrain_language, language.FAMILIES[recipe.family].tokenizer
    shape = encoders.preset(family or "modernbert", preset or "small") if model is None else read_config(model).config
    return replace(encoders.Pretrain(), model=shape), encoders.pretrain, "wordpiece"


@verb
def distil(
    *,
    teacher: str = Option(..., help="The model to learn from: a folder or a hub name."),
    corpus: CorpusOption,
    out: Path = Option(..., help="The folder of the run and, in the end, of the student."),
    layers: int | None = Option(None, help="Layers of the student. Default: half of the teacher's."),
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    relations: bool = Option(
        False,
        "--relations",
        help="Learn how tokens relate (MiniLM) instead of answers (DistilBERT): the student may be narrower, "
        "--set model.hidden_size=…, and has no head.",
    ),
    run: Training,
) -> Rows:
    """Train a small model to agree with a large one on your own text; run it again to go on after a stop.

    Example: `clearhead distil --teacher ./my-bert --corpus wiki.jsonl.xz --out ./my-student --minutes 60`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.pipelines.model import load
    from clearhead.training.recipes.distil import distil, recipe_for

    texts, large = Corpus(corpus), load(teacher)
    objective = "relations" if relations else None
    plan = run.override(
        recipe_for(large, layers=layers), objective=objective, train__minutes=minutes, train__steps=steps
    )
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        student, result = distil(large, texts, out, plan, progress=advance, teacher_name=teacher, **run.keywords())
    yield from training_rows(result, out, repr(student))
