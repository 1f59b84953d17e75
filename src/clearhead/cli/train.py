"""Verbs that train on raw text: pretrain and distil."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from clearhead.cli.options import CORPUS, OptionalRunFolder, RunFolder, Training, Verbs, progress, training_rows
from clearhead.cli.render import Row, Rows
from clearhead.errors import BadConfig, BadInput, require

app = Verbs()
VOCABULARY = 30_000  # tokens of a tokenizer that is trained here, unless the user says
CorpusOption = Annotated[list[str], Option("--corpus", help=CORPUS)]
MinutesOption = Annotated[float | None, Option(help="How long to train: warm-up and decay fit this budget.")]
StepsOption = Annotated[int | None, Option(help="How many steps to train, instead of minutes.")]


@app.verb
def pretrain(
    *,
    corpus: Annotated[list[str] | None, Option("--corpus", help=CORPUS)] = None,
    out: OptionalRunFolder = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    family: str | None = Option(
        None,
        help="modernbert (the default), bert, roberta, mpnet, distilbert, albert, electra, deberta-v2; gpt2, t5, "
        "xlnet, rnnlm-lstm, rnnlm-gru or elmo.",
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
    model: str | None = Option(
        None, "--model", "-m", help="A folder to go on with, or to adapt to your text; or one such as builtin:bert."
    ),
    tokenizer: str | None = Option(
        None, help="A folder with a tokenizer, or builtin:encoder for its own. Default: one is trained on the corpus."
    ),
    vocabulary: int | None = Option(None, help=f"Tokens of a tokenizer that is trained here; default {VOCABULARY:,}."),
    dry_run: bool = Option(False, "--dry-run", help="Show the recipe as it would be run, and train nothing."),
    run: Training,
) -> Rows:
    """Train a model on your own text, from scratch or from a checkpoint; run it again to go on after a stop.

    `--recipe NAME` trains as a paper did: bert-2018, roberta-2019, albert-2019, electra-2020, t5-2019, gpt2 or
    xlnet-2019; modern is the default. `--dry-run` shows what it sets.

    Example: `clearhead pretrain --corpus wiki.jsonl.xz --out ./my-bert --preset mini --minutes 20`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.text import Tokenizer
    from clearhead.training.recipes.language import model_type
    from clearhead.training.recipes.published import NewModel
    from clearhead.training.recipes.run import for_device, learn_vocabulary_once

    start = None if model is None else _folder(model)
    own_family = start is not None and family == model_type(start)
    for option, value, new, given in (
        ("--preset", preset, "model", model),
        ("--family", None if own_family else family, "model", model),
        ("--vocabulary", vocabulary, "tokenizer", tokenizer or model),
    ):
        fits = value is None or given is None
        require(fits, f"{option} {value} is for a new {new}, and {given} has its own; leave it out", BadInput)
    named = run.read_recipe("pretrain").model or NewModel()
    theirs = family if start is None else model_type(start)
    fits = named.family is None or theirs in (None, named.family)
    require(fits, f"--recipe {run.recipe} is for {named.family}, not for {theirs}; choose another of the two", BadInput)
    if start is None:
        family, preset = family or named.family, preset or named.preset
    plan, train, kind = _plan(family, preset, objective, start)
    kind = named.tokenizer or kind
    size = next(count for count in (vocabulary, named.vocabulary, VOCABULARY) if count is not None)
    keywords = run.keywords()
    plan, shape = for_device(plan, keywords["device"]), plan.model  # before what the user says
    lengths: dict[str, Any] = {"train__minutes": minutes, "train__steps": steps}
    plan = run.override(plan, verb="pretrain", new=start is None, objective=objective, **lengths)
    if dry_run:
        yield _recipe_report(plan, kind, size, new=not (tokenizer or start))
        return
    if corpus is None or out is None:
        raise BadInput("give --corpus and --out; without them, --dry-run shows the recipe")
    texts = Corpus(corpus)
    own = model is None or plan.model == shape
    require(own, f"--set model.… is for a new model, and {model} has its own sizes; leave it out", BadInput)
    if (words_in := start if tokenizer is None else _folder(tokenizer)) is not None:
        words = Tokenizer.from_folder(words_in)
    else:
        with progress("learning a vocabulary", texts.size, of_bytes=True) as advance:
            words = learn_vocabulary_once(texts, out.path, size=size, kind=kind, progress=advance, restart=run.restart)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        trained, result = train(
            texts, words, out.path, plan, start=start, overwrite=out.overwrite, progress=advance, **keywords
        )
    yield from training_rows(result, out.path, repr(trained))


def _folder(name: str) -> Path:
    """Where a built-in model is, or what is named, which would else be looked for on the hub if it is not there."""
    from clearhead.hub.remote import BUILT_IN, find

    return find(name) if name.startswith(BUILT_IN) else Path(name)


def _plan(family: str | None, preset: str | None, objective: str | None, model: Path | None) -> tuple[Any, Any, str]:
    """The recipe that these options ask for, what runs it, and the kind of tokenizer that goes with it."""
    from clearhead.hub.config import read_config
    from clearhead.models import ENCODERS
    from clearhead.text.train import KINDS
    from clearhead.training.recipes import language
    from clearhead.training.recipes import pretrain as encoders

    families, objectives = [*ENCODERS, *language.FAMILIES], [*encoders.HEADS, *language.DEFAULT_FAMILY]
    for what, asked, known in (("family", family, families), ("objective", objective, objectives)):
        fits = asked is None or asked in known
        require(fits, f"there is no {what} {asked!r}; choose one of {', '.join(known)}", BadConfig)
    if language.is_language_model(family, objective, model):
        recipe = language.recipe_for(family, preset, objective, model)
        return recipe, language.pretrain_language, language.FAMILIES[recipe.family].tokenizer
    shape = encoders.preset(family or "modernbert", preset or "small") if model is None else read_config(model).config
    kind = family if family in KINDS else "wordpiece"
    return replace(encoders.Pretrain(), model=shape), encoders.pretrain, kind


def _recipe_report(plan: Any, kind: str, vocabulary: int, *, new: bool) -> Row:
    """A recipe as `--recipe` reads it, behind what it says of the model and the tokenizer."""
    from clearhead.training.settings import as_toml, values_of

    family = type(plan.model).__name__.removesuffix("Config")
    record = {"model": family, "batch": plan.tokens * plan.train.accumulate, "recipe": values_of(plan)}
    told = [f"# {family}, {record['batch']:,} tokens a step"]
    if new:
        record |= {"tokenizer": kind, "vocabulary": vocabulary}
        told = [f"{told[0]}; a tokenizer of kind {kind} with {vocabulary:,} tokens is trained on the corpus"]
    return record, [*told, *as_toml(plan).splitlines()]


@app.verb
def distil(
    *,
    teacher: str = Option(..., help="The model to learn from: a folder or a hub name."),
    corpus: CorpusOption,
    out: RunFolder,
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
    from clearhead.training.recipes.run import for_device

    texts, large, keywords = Corpus(corpus), load(teacher), run.keywords()
    plan = for_device(recipe_for(large, layers=layers), keywords["device"])  # before what the user says
    objective = "relations" if relations else None
    lengths: dict[str, Any] = {"train__minutes": minutes, "train__steps": steps}
    plan = run.override(plan, verb="distil", objective=objective, **lengths)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        student, result = distil(
            *(large, texts, out.path, plan),
            teacher_name=teacher,
            overwrite=out.overwrite,
            progress=advance,
            **keywords,
        )
    yield from training_rows(result, out.path, repr(student))
