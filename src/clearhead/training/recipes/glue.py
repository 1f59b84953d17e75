"""GLUE (Wang et al. 2018) as a whole: a model for each task that is there and each seed, metrics, submissions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Unpack

from clearhead.data.formats import parse_class, parse_score, read_texts
from clearhead.errors import BadInput, NotFound, require
from clearhead.evaluation.predictions import write_predictions
from clearhead.evaluation.results import TABLES, Measured
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.pipelines.model import Model
from clearhead.training.distributed import first_process
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.finetune import Finetune, finetune, with_seed
from clearhead.training.recipes.run import RunOptions

SUBMISSION = "submission"  # the folder of what the leaderboard takes
AVERAGE = ("GLUE", "average")


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """A task of GLUE: its metrics, the first of which chooses among seeds, and its files by the names of results."""

    metrics: tuple[str, ...]
    use: str = "classify"
    dev: Mapping[str, str] = field(default_factory=dict)  # by the name of the task, where it has several
    test: Mapping[str, str] = field(default_factory=dict)  # by the name of the submission


_MATCHED = {"MNLI-m": "matched", "MNLI-mm": "mismatched"}
GLUE_TASKS = {
    "CoLA": GlueTask(metrics=("matthews",)),
    "SST-2": GlueTask(metrics=("accuracy",)),
    "MRPC": GlueTask(metrics=("f1", "accuracy")),
    "STS-B": GlueTask(metrics=("spearman", "pearson"), use="regress"),
    "QQP": GlueTask(metrics=("f1", "accuracy")),
    "MNLI": GlueTask(
        metrics=("accuracy",),
        dev={name: f"dev_{part}.tsv" for name, part in _MATCHED.items()},
        test={name: f"test_{part}.tsv" for name, part in _MATCHED.items()},
    ),
    "QNLI": GlueTask(metrics=("accuracy",)),
    "RTE": GlueTask(metrics=("accuracy",)),
    "WNLI": GlueTask(metrics=("accuracy",)),
}


@dataclass(frozen=True, kw_only=True)
class GlueRun:
    """One model of one task: how its run ended, and what was measured; nothing where it was interrupted."""

    task: str
    seed: int
    folder: Path
    result: TrainResult
    measured: Sequence[Measured] = ()


def find_tasks(data: Path, asked: Sequence[str] = ()) -> tuple[dict[str, Path], dict[str, str]]:
    """The tasks whose training and development files are in a folder, and why others are not taken."""
    require(data.is_dir(), f"{data} is no folder; give the one that holds CoLA, SST-2, …", NotFound)
    unknown = next((name for name in asked if name not in GLUE_TASKS), None)
    require(unknown is None, f"GLUE has no task {unknown!r}; choose of {', '.join(GLUE_TASKS)}", BadInput)
    folders = {one.name.lower(): one for one in sorted(data.iterdir()) if one.is_dir()}
    found: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name in asked or GLUE_TASKS:
        folder = folders.get(name.lower())
        needed = ["train.tsv", *list(_dev(name).values())[:1]]
        absent = [one for one in needed if folder is None or not (folder / one).is_file()]
        if folder is None or absent:
            missing[name] = f"there is no {data / name if folder is None else folder / absent[0]}"
        else:
            found[name] = folder
    told = "; ".join(f"{name}: {why}" for name, why in missing.items())
    require(not (asked and missing), f"tasks of GLUE are missing ({told}); add them, or ask for others", NotFound)
    todo = "give the folder that holds one for each task, with train.tsv and dev.tsv"
    require(bool(found), f"{data} has none of GLUE's tasks ({', '.join(missing)}); {todo}", NotFound)
    return found, missing


def glue(
    source: str | Path,
    data: Path,
    out: Path,
    *,
    recipe: Finetune | None = None,
    seeds: int = 1,
    tasks: Sequence[str] = (),
    **options: Unpack[RunOptions],
) -> Iterator[GlueRun]:
    """Fine-tune a model on each task with each seed, in a folder of `out` each; what is done there is not done again.

    Submissions are written by the seed that is best on the development data. It ends at a run that is interrupted.
    """
    folders, _ = find_tasks(data, tasks)
    for name, folder in folders.items():
        task, dev = GLUE_TASKS[name], _dev(name)
        best: tuple[float, Model] | None = None
        for seed in range(seeds):
            place = out / name / f"seed-{seed}"
            own = with_seed(recipe or Finetune(), seed)
            made = finetune(
                *(task.use, source, folder / "train.tsv", place),
                dev=folder / next(iter(dev.values())),
                recipe=own,
                **options,
            )
            if made.result.exit == "interrupted":
                yield GlueRun(task=name, seed=seed, folder=place, result=made.result)
                return
            rows = list(_measure(name, folder, made.model, made.metrics, str(source), seed)) if first_process() else []
            yield GlueRun(task=name, seed=seed, folder=place, result=made.result, measured=rows)
            if rows and (best is None or rows[0].value > best[0]):
                best = rows[0].value, made.model
        if best is not None:
            submit(name, folder, best[1], out / SUBMISSION)


def _dev(name: str) -> Mapping[str, str]:
    return GLUE_TASKS[name].dev or {name: "dev.tsv"}


def _measure(
    name: str, folder: Path, model: Model, known: Mapping[str, float], source: str, seed: int
) -> Iterator[Measured]:
    """The official metrics on each development set; those of the first are known."""
    for number, (part, file) in enumerate(_dev(name).items()):
        if number and not (folder / file).is_file():
            continue
        metrics = EVALUATIONS[GLUE_TASKS[name].use](model, _read(name, folder / file)).metrics if number else known
        for metric in GLUE_TASKS[name].metrics:
            yield Measured(task=part, metric=metric, value=metrics[metric], model=source, split="dev", seed=seed)


def submit(name: str, folder: Path, model: Model, out: Path) -> list[Path]:
    """Write what a model says of each test set that is there, under the name that the leaderboard asks for."""
    written = []
    sets = {key: folder / file for key, file in (GLUE_TASKS[name].test or {name: "test.tsv"}).items()}
    if name == "MNLI" and (diagnostic := find_diagnostic(folder.parent)) is not None:
        sets["AX"] = diagnostic
    for submission, file in sets.items():
        if file.is_file():
            examples, path = _read(name, file), out / f"{submission}.tsv"
            rows = EVALUATIONS[GLUE_TASKS[name].use].predict(model, examples)
            out.mkdir(parents=True, exist_ok=True)
            write_predictions(GLUE_TASKS[name].use, path, examples, rows, overwrite=True)
            written.append(path)
    return written


def find_diagnostic(data: Path) -> Path | None:
    """AX, which a model of MNLI answers: as GLUE's page gives it, or where the usual download scripts put it."""
    places = (data / folder / file for folder in ("AX", "diagnostic", ".") for file in ("AX.tsv", "diagnostic.tsv"))
    return next((place for place in places if place.is_file()), None)


def _read(name: str, path: Path) -> list[Any]:
    return read_texts(path, parse=parse_score if GLUE_TASKS[name].use == "regress" else parse_class)


def average(rows: Sequence[Measured]) -> tuple[Measured | None, str]:
    """The average over all columns of the lectures' table, None where one is missing; and in words, of what it is."""
    columns = [
        column for column in next(one for one in TABLES if one.name == "GLUE").columns if column != "GLUE average"
    ]
    values = {column: [row.value for row in rows if f"{row.task} {row.metric}" == column] for column in columns}
    there = {column: fmean(found) for column, found in values.items() if found}
    if not there:
        return None, "none of the nine columns of GLUE's average was measured"
    mean = fmean(there.values())
    told = f"mean of {len(there)} of the {len(columns)} columns: {mean:.1f}"
    whole = Measured(task=AVERAGE[0], metric=AVERAGE[1], value=mean, model=rows[0].model, split="dev")
    return (whole if len(there) == len(columns) else None), told
