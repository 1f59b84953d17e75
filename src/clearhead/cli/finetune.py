"""Verbs that train for a task: finetune, also with folds, a search or a sweep of learning rates, and glue for all."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from typer import Argument, Option, echo

from clearhead.cli.evaluate import evaluated_lines
from clearhead.cli.options import (
    AllowUnknownOption,
    Columns,
    Output,
    RunFolder,
    Training,
    TrainingOptions,
    Verbs,
    note,
    one_file,
    progress,
    training_rows,
    was_over,
)
from clearhead.cli.render import Row, Rows, aligned, shorten
from clearhead.errors import BadInput, require
from clearhead.io import write_text

if TYPE_CHECKING:
    from clearhead.data.examples import PairExample

app = Verbs()
_ROWS = 20  # of a table of learning rates
_PATIENCE = 5.0  # seconds between two lines of how far it is
_FROZEN = (
    "Train a head alone, on features of the encoder, which stays as it is: for classify, label, regress, tag and "
    "summarise. Which layers: --set frozen.layers=[-1]; joined how: --set frozen.combine=sum, mean, concat, weighted; "
    "with a BiLSTM: --set frozen.lstm=256."
)


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
        "one, such as transformer-tiny (the default), seq2seq-gru, seq2seq-lstm-additive or gpt-mini.",
    ),
    dev: list[str] | None = Option(None, help="Development data, to measure on."),
    columns: Columns,
    seeds: int = Option(1, help="Repeat with seeds 0, 1, … and give mean and deviation."),
    folds: int | None = Option(
        None, help="Cross-validate: learn from all parts of --data but one, measure on that, for each of so many."
    ),
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
    search: list[str] | None = Option(
        None,
        help="Search for a value of the recipe that is best on --dev, by Optuna: train.learning_rate=loguniform(1e-5,"
        "5e-4), dropout=uniform(0,0.3), train.accumulate=integer(1,4), lora=choice(4,8); may be given several times.",
    ),
    trials: int = Option(20, help="Of --search: how many sets of values are tried; the best one's model is kept."),
    stream: bool = Option(
        False,
        "--stream",
        help="Read --data (.jsonl, .csv, .tsv, .parquet) a block at a time and keep its tokens on disk, in --out: for "
        "data larger than the memory; of classify, label, regress, similar and instruct.",
    ),
    find_learning_rate: bool = Option(
        False,
        "--find-learning-rate",
        help="Train nothing yet: try rates from 1e-6 to 1e-1 on a hundred steps, and suggest one, with a picture in "
        "--out.",
    ),
    run: Training,
) -> Rows:
    """Fine-tune a model for a task; run it again to go on after a stop.

    Examples: `clearhead finetune classify --data train.csv --dev dev.csv --model ./my-bert --out ./my-classifier`,
    `clearhead finetune tag --data train.conll --dev dev.conll --out ./my-tagger --search
    "train.learning_rate=loguniform(1e-5,5e-4)" --search "items=choice(16,32)" --trials 20`
    """
    from clearhead.training.recipes.run import for_device

    train: Callable[..., Any]
    keywords = run.keywords()
    if task == "translation":
        from clearhead.training.recipes import translate as translation

        refused: dict[str, object] = {
            "--folds": folds,
            "--find-learning-rate": find_learning_rate or None,
            "--stream": stream or None,
            "--skill": skill,
            "--skill-for": skill_for,
            "--teacher": teacher,
            "--frozen": frozen or None,
            "--label": columns.get("label"),
        }
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
        from clearhead.training.recipes.frozen import FEATURES
        from clearhead.training.recipes.run import RUN

        source = model or unasked("generate" if task == "instruct" else None)
        plan = run.override(recipes.feature_extraction() if frozen else recipes.Finetune())
        file, dev_file = one_file(data, task), None if dev is None else one_file(dev, task)
        looked = "--dry-run" if dry_run else "--find-learning-rate"
        whole = f"{looked} reads the data whole; leave --stream out, or give a part of the data"
        require(not (stream and (dry_run or find_learning_rate)), whole, BadInput)
        if dry_run:
            report = recipes.first_look(task, source, file, dev=dev_file, recipe=plan, columns=columns, skill=skill)
            yield report.to_dict(), [str(report)]
            return
        features = out.path / RUN / FEATURES  # those of all seeds
        if find_learning_rate:
            given: dict[str, Any] = {"columns": columns, "skill": skill, "teacher": teacher, "features": features}
            look = partial(recipes.learning_rates, task, source, file, recipe=plan, **given)
            yield _swept(partial(look, device=keywords["device"]), out.path)
            return
        uses = None if skill_for is None else [use for use in skill_for.split(",") if use != "none"]
        more: dict[str, Any] = {
            "skill": skill,
            "skill_for": uses,
            "teacher": teacher,
            "allow_unknown_labels": allow_unknown_labels,
            "stream": stream,
        }
        if frozen:  # each fold learns from other examples
            more |= {"features": None if folds else features, "progress": _telling_of_features()}
        train = partial(recipes.finetune, task, source, file, dev=dev_file, columns=columns, **more)
    one = f"--folds {folds} repeats already; leave {'--search' if search else '--seeds'} out"
    require(folds is None or (seeds == 1 and not search), one, BadInput)
    if search:
        require(seeds == 1, "--search tries one seed for each set of values; leave --seeds out", BadInput)
        train = partial(train, **{name: value for name, value in keywords.items() if name != "restart"})
        yield from _search(train, plan, out, search, trials, run=run, task=task, source=source, data=data, dev=dev)
        return
    train = partial(train, overwrite=out.overwrite, **keywords)
    size = Path(data[0]).stat().st_size if stream and Path(data[0]).is_file() else None
    with progress("tokenising", size, of_bytes=True) if size else nullcontext() as advance:
        train = partial(train, progress=advance) if advance is not None else train
        yield from _repeat(train, plan, out.path, task=task, seeds=seeds, folds=folds)


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


def _repeat(
    train: Callable[..., Any], plan: Any, out: Path, *, task: str, seeds: int, folds: int | None = None
) -> Iterator[Row]:
    """Train, once, or with several seeds or folds in a folder each; say where the model is and what was measured."""
    from clearhead.training.distributed import first_process
    from clearhead.training.recipes.finetune import over_seeds, with_seed

    if folds is not None:
        require(folds > 1, f"--folds {folds} leaves nothing to learn from or to measure on; 5 or 10 is usual", BadInput)
        runs = [(out / f"fold-{number + 1}", {"recipe": plan, "fold": (number, folds)}) for number in range(folds)]
    elif seeds > 1:
        runs = [(out / f"seed-{seed}", {"recipe": with_seed(plan, seed)}) for seed in range(seeds)]
    else:
        runs = [(out, {"recipe": plan})]
    measured: list[Any] = []
    for folder, how in runs:
        outcome = train(folder, **how)
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
    if found is not None and len(runs) == 1:
        more = {name: value for name, value in found.to_dict().items() if name not in found.metrics}
        yield record | more, [told, *evaluated_lines(found)]
        return
    if len(runs) > 1:
        record["deviations"] = {name: deviation for name, (_, deviation) in metrics.items()}
    if folds is not None:
        record |= {"folds": folds, "runs": [outcome.metrics for outcome in measured]}
    spread = " ± {:.2f}" if len(runs) > 1 else ""
    names = {name: name if found is None else found.name(name) for name in metrics}
    lines = [f"{names[name]:<14} {mean:.2f}{spread.format(deviation)}" for name, (mean, deviation) in metrics.items()]
    yield record, [told, *lines]


def _swept(sweep: Callable[..., Any], out: Path) -> Row:
    """Try learning rates; say how the loss went, and which rate to take."""
    from clearhead.io import staged_file
    from clearhead.training.rates import STEPS

    with progress("trying learning rates", STEPS) as advance:
        found = sweep(progress=advance)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "learning-rate.svg"
    with staged_file(picture, overwrite=True) as stage:
        stage.write_text(found.picture(), encoding="utf-8")
    shown = [*range(0, len(found.rates), max(1, len(found.rates) // _ROWS)), len(found.rates) - 1]
    rows = [(f"{found.rates[place]:.1e}", f"{found.losses[place]:.4f}") for place in dict.fromkeys(shown)]
    if found.suggestion is None:
        told = "the loss did not fall at any rate: look at the data, or try more examples in a step (--set items=32)"
    else:
        told = f"the loss falls fastest at {found.suggestion:.1e}: --set train.learning_rate={found.suggestion:.1e}"
    return {"picture": str(picture), **found.to_dict()}, [told, f"wrote {picture}", *aligned(("rate", "loss"), rows)]


def _search(
    train: Callable[..., Any],
    plan: Any,
    out: Output,
    search: list[str],
    trials: int,
    *,
    run: TrainingOptions,
    task: str,
    source: str,
    data: list[str],
    dev: list[str] | None,
) -> Rows:
    """Search for hyper-parameters; say what each trial gave, and where the best one's model is."""
    from clearhead.training.recipes import tune

    if dev is None:
        raise BadInput("a search measures on development data; give --dev")
    require(not run.more, "a search goes on for as many --trials as are asked for; leave --more out", BadInput)
    require("WORLD_SIZE" not in os.environ, "a search trains in one process; start it without torchrun", BadInput)
    metric = plan.train.metric
    named = task != "translation" or metric is not None
    require(named, "say which metric of translation is searched for: --set train.metric=bleu", BadInput)
    sides = {"training": data, "development": dev}
    files = {f"{role} {number}": file for role, some in sides.items() for number, file in enumerate(some, start=1)}
    identity = {"the task": task, "the starting model": source, **tune.data_digests(files)}

    def watch(trial: Any, of: int) -> None:
        said = f"failed ({trial.failure})" if trial.value is None else f"{trial.value:.4g}"
        note(f"trial {trial.number + 1} of {of}: {said} with {_values(trial.params)}")

    found = tune.tune(
        *(train, plan, tune.parse_search(search), out.path),
        trials=trials,
        made_of=identity,
        overwrite=out.overwrite,
        restart=run.restart,
        watch=watch,
    )
    if found.interrupted is not None:
        yield from training_rows(found.interrupted, out.path)
    record = {"folder": str(out.path), "task": task, **found.to_dict()}
    keys = list(found.trials[0].params)
    rows = [
        (
            f"{one.number + 1}{' (best)' if one == found.best else ''}",
            *(_shown(one.params[key]) for key in keys),
            "failed" if one.value is None else f"{one.value:.2f}",
        )
        for one in found.trials
    ]
    best = found.best
    told = [] if best is None else [f"wrote {out.path}: trial {best.number + 1}, {_values(best.params)}"]
    figures = [] if best is None else [f"{name:<17} {value:.2f}" for name, value in best.figures.items()]
    yield record, [*told, *figures, *aligned(("trial", *keys, found.metric), rows)]


def _values(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in params.items())


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "none" if value is None else str(value)


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
