"""Verbs that train on raw text: pretrain, distil."""

from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.options import (
    CorpusOption,
    DeviceOption,
    JsonOption,
    MinutesOption,
    RecipeOption,
    SetOption,
    ShardOption,
    StepsOption,
    TensorboardOption,
    changes,
    check_shard,
    command_line,
    pick_device,
    print_result,
    progress,
)
from clearhead.errors import BadConfig, BadInput, require

VOCABULARY = 30_000  # tokens of a tokenizer that is trained here, unless the user says


def pretrain(
    corpus: CorpusOption,
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the model.")],
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="modernbert (the default), bert, roberta, distilbert, albert, electra; gpt2, t5, xlnet, rnnlm-lstm, "
            "rnnlm-gru or elmo."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Size: tiny to large, as far as the family has them; gpt2, t5, xlnet, rnnlm-… and elmo begin with "
            "mini, which is their default. Of the others it is small."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="masked (the default), masked+next, masked+order, replaced, replaced+masked(+next); causal (gpt2, "
            "rnnlm-…), spans (t5), permutation (xlnet) or bidirectional (elmo)."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A folder to begin with, to go on or to adapt it to your text.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A folder with a tokenizer. Default: one is trained on the corpus.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help=f"Tokens of a tokenizer that is trained here; default {VOCABULARY:,}.")
    ] = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    shard: ShardOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = False,
) -> None:
    """Train a model on your own text, from scratch or from a checkpoint; run it again to go on after a stop.

    Example: `clearhead pretrain --corpus wiki.jsonl.xz --out ./my-bert --preset mini --minutes 20`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.text import Tokenizer
    from clearhead.training.recipes.run import for_device, learn_vocabulary_once
    from clearhead.training.settings import override

    check_shard(shard)
    _check_new(model, tokenizer, family=family, preset=preset, vocabulary=vocabulary)
    texts = Corpus(corpus)
    plan, run, kind = _planned(family, preset, objective, model)
    device = pick_device(device)
    plan, shape = for_device(plan, device), plan.model  # before what the user says
    plan = override(plan, changes(recipe, set_, objective=objective, train__minutes=minutes, train__steps=steps))
    own = model is None or plan.model == shape
    require(own, f"--set model.… is for a new model, and {model} has its own sizes; leave it out", BadInput)
    if (words_in := tokenizer or model) is not None:
        words = Tokenizer.from_folder(words_in)
    else:
        size = VOCABULARY if vocabulary is None else vocabulary
        with progress("learning a vocabulary", texts.size, of_bytes=True) as advance:
            words = learn_vocabulary_once(texts, out, size=size, kind=kind, progress=advance)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        trained, result = run(
            texts,
            words,
            out,
            plan,
            device=device,
            shard=shard,
            start=model,
            progress=advance,
            tensorboard=tensorboard,
            command=command_line(),
        )
    print_result(trained, result, out, json=json)


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


def _planned(family: str | None, preset: str | None, objective: str | None, model: Path | None) -> tuple[Any, Any, str]:
    """The recipe that these options ask for, what runs it, and the kind of tokenizer that goes with it."""
    from dataclasses import replace

    from clearhead.hub.config import read_config
    from clearhead.models import ENCODERS
    from clearhead.training.recipes import language, pretrain
    from clearhead.training.recipes import pretrain as networks

    families = [*ENCODERS, *language.FAMILIES]
    if family not in (None, *families):
        raise BadConfig(f"there is no family {family!r}; choose one of {', '.join(families)}")
    known = [*networks.HEADS, *language.FIRST]
    if objective not in (None, *known):
        raise BadConfig(f"there is no objective {objective!r}; choose one of {', '.join(known)}")
    if language.asked_for(family, objective, model):
        writes = language.recipe_for(family, preset, objective, model)
        return writes, language.pretrain_language, language.FAMILIES[writes.family].tokenizer
    shape = pretrain.preset(family or "modernbert", preset or "small") if model is None else read_config(model).config
    return replace(pretrain.Pretrain(), model=shape), pretrain.pretrain, "wordpiece"


def distil(
    teacher: Annotated[str, typer.Option(help="The model to learn from: a folder or a hub name.")],
    corpus: CorpusOption,
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the student.")],
    layers: Annotated[int | None, typer.Option(help="Layers of the student. Default: half of the teacher's.")] = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    relations: Annotated[
        bool,
        typer.Option(
            "--relations",
            help="Learn how tokens relate (MiniLM) instead of answers (DistilBERT): the student may be narrower, "
            "--set model.hidden_size=…, and has no head.",
        ),
    ] = False,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    shard: ShardOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = False,
) -> None:
    """Train a small model to agree with a large one on your own text; run it again to go on after a stop.

    Example: `clearhead distil --teacher ./my-bert --corpus wiki.jsonl.xz --out ./my-student --minutes 60`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.pipelines.model import load
    from clearhead.training.recipes import distil as recipes
    from clearhead.training.settings import override

    check_shard(shard)
    texts, large = Corpus(corpus), load(teacher)
    objective = "relations" if relations else None
    plan = override(
        recipes.recipe_for(large, layers=layers),
        changes(recipe, set_, objective=objective, train__minutes=minutes, train__steps=steps),
    )
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        student, result = recipes.distil(
            large,
            texts,
            out,
            plan,
            device=pick_device(device),
            shard=shard,
            progress=advance,
            tensorboard=tensorboard,
            teacher_name=teacher,
            command=command_line(),
        )
    print_result(student, result, out, json=json)
