"""Verbs that train: pretrain and distil on raw text, finetune for a task or a pair of languages, glue for all of it."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from clearhead.cli.evaluate import evaluated_lines
from clearhead.cli.options import (
    CORPUS,
    AllowUnknownOption,
    Columns,
    RunFolder,
    Training,
    Verbs,
    one_file,
    progress,
    training_rows,
    was_over,
)
from clearhead.cli.render import Row, Rows, shorten
from clearhead.errors import BadConfig, BadInput, require
from clearhead.io import write_text

if TYPE_CHECKING:
    from clearhead.data.examples import PairExample

app = Verbs()
VOCABULARY = 30_000  # tokens of a tokenizer that is trained here, unless the user says
CorpusOption = Annotated[list[str], Option("--corpus", help=CORPUS)]
MinutesOption = Annotated[float | None, Option(help="How long to train: warm-up and decay fit this budget.")]
StepsOption = Annotated[int | None, Option(help="How many steps to train, instead of minutes.")]
_PATIENCE = 5.0  # seconds between two lines of how far it is
_FROZEN = (
    "Train a head alone, on features of the encoder, which stays as it is: for classify, label, regress, tag and "
    "summarise. Which layers: --set frozen.layers=[-1]; joined how: --set frozen.combine=sum, mean, concat, weighted; "
    "with a BiLSTM: --set frozen.lstm=256."
)


@app.verb
def pretrain(
    corpus: CorpusOption,
    out: RunFolder,
    *,
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
    tokenizer: str | None = Option(None, help="A folder with a tokenizer. Default: one is trained on the corpus."),
    vocabulary: int | None = Option(None, help=f"Tokens of a tokenizer that is trained here; default {VOCABULARY:,}."),
    run: Training,
) -> Rows:
    """Train a model on your own text, from scratch or from a checkpoint; run it again to go on after a stop.

    Example: `clearhead pretrain --corpus wiki.jsonl.xz --out ./my-bert --preset mini --minutes 20`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.hub.remote import BUILT_IN, find
    from clearhead.text import Tokenizer
    from clearhead.training.recipes.language import model_type
    from clearhead.training.recipes.run import for_device, learn_vocabulary_once

    # else a folder that is not there would be looked for on the hub
    start = None if model is None else find(model) if model.startswith(BUILT_IN) else Path(model)
    own_family = start is not None and family == model_type(start)
    for option, value, new, given in (
        ("--preset", preset, "model", model),
        ("--family", None if own_family else family, "model", model),
        ("--vocabulary", vocabulary, "tokenizer", tokenizer or model),
    ):
        fits = value is None or given is None
        require(fits, f"{option} {value} is for a new {new}, and {given} has its own; leave it out", BadInput)
    texts = Corpus(corpus)
    plan, train, kind = _plan(family, preset, objective, start)
    keywords = run.keywords()
    plan, shape = for_device(plan, keywords["device"]), plan.model  # before what the user says
    plan = run.override(plan, objective=objective, train__minutes=minutes, train__steps=steps)
    own = model is None or plan.model == shape
    require(own, f"--set model.… is for a new model, and {model} has its own sizes; leave it out", BadInput)
    if (words_in := tokenizer or start) is not None:
        words = Tokenizer.from_folder(words_in)
    else:
        size = VOCABULARY if vocabulary is None else vocabulary
        with progress("learning a vocabulary", texts.size, of_bytes=True) as advance:
            words = learn_vocabulary_once(texts, out.path, size=size, kind=kind, progress=advance, restart=run.restart)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        trained, result = train(
            texts, words, out.path, plan, start=start, overwrite=out.overwrite, progress=advance, **keywords
        )
    yield from training_rows(result, out.path, repr(trained))


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
    plan = run.override(plan, objective=objective, train__minutes=minutes, train__steps=steps)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        student, result = distil(
            *(large, texts, out.path, plan),
            teacher_name=teacher,
            overwrite=out.overwrite,
            progress=advance,
            **keywords,
        )
    yield from training_rows(result, out.path, repr(student))


@app.verb
def finetune(
    *,
    task: str = Argument(
        ..., help="classify, label, regress, tag, answer, choose, similar, instruct, summarise or translation."
    ),
    data: list[str] = Option(
        ...,
        help="Training data: csv, tsv, json, jsonl, parquet, CoNLL, SQuAD, DREAM, hub:owner/name; for translation "
        "also two files, line by line.",
    ),
    out: RunFolder,
    model: str | None = Option(
        None,
        "--model",
        "-m",
        help="The pre-trained model: a folder or a hub name, by default the built-in; for translation also a new "
        "one, such as transformer-tiny (the default), seq2seq-gru or seq2seq-lstm-additive.",
    ),
    dev: list[str] | None = Option(None, help="Development data, to measure on."),
    columns: Columns,
    seeds: int = Option(1, help="Repeat with seeds 0, 1, … and give mean and deviation."),
    skill: str | None = Option(
        None, help="Go on from a skill of the model, by its name or folder; --set lora=8 keeps room for its rank."
    ),
    skill_for: str | None = Option(
        None,
        help="Save adapters and head alone, as a skill of the model (needs --set lora=8): the uses that take it "
        "unasked, separated by commas, or none.",
    ),
    teacher: str | None = Option(
        None,
        help="For classify: a larger model, fine-tuned for the task, whose probabilities are learnt beside the labels. "
        "For similar: a model whose vectors are learnt, or a .npy file of them, one for each text in order.",
    ),
    frozen: bool = Option(False, "--frozen", help=_FROZEN),
    allow_unknown_labels: AllowUnknownOption = False,
    dry_run: bool = Option(False, "--dry-run", help="Look at the data, spend nothing."),
    run: Training,
) -> Rows:
    """Fine-tune a model for a task; run it again to go on after a stop.

    Example: `clearhead finetune classify --data train.csv --dev dev.csv --model ./my-bert --out ./my-classifier`
    """
    from clearhead.training.recipes.run import for_device

    train: Callable[..., Any]
    keywords = run.keywords()
    if task == "translation":
        from clearhead.training.recipes import translate as translation

        refused = {"--skill": skill, "--skill-for": skill_for, "--teacher": teacher, "--label": columns.get("label")}
        refused |= {"--frozen": "" if frozen else None}
        for option, value in refused.items():
            require(value is None, f"{option} is not for translation; leave it out", BadInput)
        source, sides = model or "transformer-tiny", (columns.get("text"), columns.get("pair"))
        plan: Any = run.override(for_device(translation.recipe_for(source), keywords["device"]))
        if dry_run:
            yield _parallel_report(translation.first_look(source, data, dev=dev, columns=sides))
            return
        train = partial(translation.translate, source, data, dev=dev, columns=sides)
    else:
        from clearhead.hub.remote import unasked
        from clearhead.training.recipes import finetune as recipes

        source = model or unasked("generate" if task == "instruct" else None)
        plan = run.override(recipes.feature_extraction() if frozen else recipes.Finetune())
        file, dev_file = one_file(data, task), None if dev is None else one_file(dev, task)
        if dry_run:
            report = recipes.first_look(task, source, file, dev=dev_file, recipe=plan, columns=columns, skill=skill)
            yield report.to_dict(), [str(report)]
            return
        uses = None if skill_for is None else [use for use in skill_for.split(",") if use != "none"]
        more: dict[str, Any] = {
            "skill": skill,
            "skill_for": uses,
            "teacher": teacher,
            "allow_unknown_labels": allow_unknown_labels,
        }
        if frozen:  # those of all seeds
            from clearhead.training.recipes.frozen import FEATURES
            from clearhead.training.recipes.run import RUN

            more |= {"features": out.path / RUN / FEATURES, "progress": _telling_of_features()}
        train = partial(recipes.finetune, task, source, file, dev=dev_file, columns=columns, **more)
    train = partial(train, overwrite=out.overwrite, **keywords)
    yield from _repeat(train, plan, out.path, task=task, seeds=seeds)


@app.verb
def glue(
    *,
    data: Path = Option(..., help="The folder of GLUE: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, AX."),
    out: RunFolder,
    model: str | None = Option(None, "--model", "-m", help="The pre-trained model; by default the built-in."),
    seeds: int = Option(1, help="Repeat with seeds 0, 1, … and give mean and deviation."),
    tasks: str | None = Option(None, help="Only these, separated by commas. Default: all that are there."),
    run: Training,
) -> Rows:
    """Fine-tune and measure a model on all tasks of GLUE that are there; run it again to go on after a stop.

    Prints the table beside the lectures' rows, and writes submissions for the test sets and AX.

    Example: `clearhead glue --model ./my-bert --data GLUE --out ./my-glue --seeds 3`
    """
    from clearhead.evaluation.results import as_text, tables
    from clearhead.hub.remote import unasked
    from clearhead.training.distributed import first_process
    from clearhead.training.recipes import glue as recipes
    from clearhead.training.recipes.finetune import Finetune

    source, asked = model or unasked(), [name.strip() for name in (tasks or "").split(",") if name.strip()]
    plan, (_, missing) = run.override(Finetune()), recipes.find_tasks(data, asked)
    measured: list[Any] = []
    for one in recipes.glue(
        *(source, data, out.path), recipe=plan, seeds=seeds, tasks=asked, overwrite=out.overwrite, **run.keywords()
    ):
        if one.result.exit == "interrupted":
            yield from training_rows(one.result, one.folder)
        measured += one.measured
    if not first_process():
        return
    mean, told = recipes.average(measured)
    rows = [*measured, *([] if mean is None else [mean])]
    write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", out.path / "figures.json", overwrite=True)
    ours = [
        table
        for table in tables(rows)
        if table.name == "GLUE" or any(line.source == "measured" for line in table.lines)
    ]
    skipped = [f"left out: {name}, {why}" for name, why in missing.items()]
    submitted = sorted(path.name for path in (out.path / recipes.SUBMISSION).glob("*.tsv"))
    record = {
        "folder": str(out.path),
        "seeds": seeds,
        "figures": [asdict(row) for row in rows],
        "submissions": submitted,
    }
    yield record, [*as_text(ours).splitlines(), told, *skipped]


def _repeat(train: Callable[..., Any], plan: Any, out: Path, *, task: str, seeds: int) -> Iterator[Row]:
    """Train, once or with several seeds in a folder each; say where the model is and what was measured."""
    from clearhead.training.distributed import first_process
    from clearhead.training.recipes.finetune import over_seeds, with_seed

    measured: list[Any] = []
    for seed in range(seeds):
        folder, recipe = (out / f"seed-{seed}", with_seed(plan, seed)) if seeds > 1 else (out, plan)
        outcome = train(folder, recipe=recipe)
        if outcome.result.exit == "interrupted":  # there is nothing to measure or to repeat
            yield from training_rows(outcome.result, folder)
        measured.append(outcome)
    metrics = over_seeds([outcome.metrics for outcome in measured])
    if not first_process():
        return
    means = {name: mean for name, (mean, _) in metrics.items()}
    record = {"folder": str(out), "task": task, "seeds": seeds, "figures": means}
    over = all(was_over(outcome.result) for outcome in measured)
    told = f"{out} holds this run already, which was over: nothing was trained" if over else f"wrote {out}"
    found = measured[-1].evaluated
    if found is not None and seeds == 1:
        more = {name: value for name, value in found.to_dict().items() if name not in found.metrics}
        yield record | more, [told, *evaluated_lines(found)]
        return
    if seeds > 1:
        record["deviations"] = {name: deviation for name, (_, deviation) in metrics.items()}
    spread = " ± {:.2f}" if seeds > 1 else ""
    names = {name: name if found is None else found.name(name) for name in metrics}
    lines = [f"{names[name]:<14} {mean:.2f}{spread.format(deviation)}" for name, (mean, deviation) in metrics.items()]
    yield record, [told, *lines]


def _telling_of_features() -> Callable[[int], None]:
    """Say now and then how many tokens the encoder has read; where training begins, its own bar takes over."""
    begun = said = monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal done, said
        done += more
        if monotonic() - said > _PATIENCE and not os.environ.get("CLEARHEAD_QUIET"):
            said = monotonic()
            echo(f"reading with the frozen encoder: {done:,} tokens in {said - begun:,.0f} s", err=True)

    return advance


def _parallel_report(sets: "Mapping[str, Sequence[PairExample]]") -> Row:
    """What is in parallel text, as a run would read it."""
    found: dict[str, dict[str, Any]] = {}
    lines = []
    for name, pairs in sets.items():
        sides = [pair.first for pair in pairs], [pair.second for pair in pairs]
        words = [sum(len(text.split()) for text in side) / len(pairs) for side in sides]
        first = [side[0] for side in sides]
        found[name] = {"pairs": len(pairs), "words": words, "first": first}
        lines.append(f"{name}: {len(pairs):,} pairs of {words[0]:.1f} and {words[1]:.1f} words; the first one:")
        lines += [f"  {shorten(one)}" for one in first]
    return {**found.pop("train"), **found}, lines
