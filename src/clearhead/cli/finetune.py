"""`clearhead finetune`: a pre-trained model to a task, or parallel text to a translator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from clearhead.cli.options import Columns, Training, one_file, training_rows, verb
from clearhead.cli.render import Row, Rows, shorten
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.data.examples import PairExample


@verb
def finetune(
    task: str = Argument(..., help="classify, label, regress, tag, answer, choose, similar, instruct or translation."),
    data: list[str] = Option(
        ...,
        help="Training data: csv, tsv, json, jsonl, parquet, CoNLL, SQuAD, DREAM, hub:owner/name; for translation "
        "also two files, line by line.",
    ),
    out: Path = Option(..., help="The folder of the run and, in the end, of the model."),
    model: str | None = Option(
        None,
        "--model",
        "-m",
        help="The pre-trained model: a folder or a hub name, by default the built-in; for translation also a new "
        "one, such as transformer-tiny (the default), seq2seq-gru or seq2seq-lstm-additive.",
    ),
    dev: list[str] | None = Option(None, help="Development data, to measure on."),
    *,
    columns: Columns,
    seeds: int = Option(1, help="Repeat with seeds 0, 1, … and give mean and deviation."),
    skill_for: str | None = Option(
        None,
        help="Save adapters and head alone, as a skill of the model (needs --set lora=8): the uses that take it "
        "unasked, separated by commas, or none.",
    ),
    dry_run: bool = Option(False, "--dry-run", help="Look at the data, spend nothing."),
    run: Training,
) -> Rows:
    """Fine-tune a model for a task; run it again to go on after a stop.

    Example: `clearhead finetune classify --data train.csv --dev dev.csv --model ./my-bert --out ./my-classifier`
    """
    train: Callable[..., Any]
    if task == "translation":
        from clearhead.training.recipes import translate as translation

        for option, value in (("--skill-for", skill_for), ("--label", columns.get("label"))):
            require(value is None, f"{option} is not for translation; leave it out", BadInput)
        source, sides = model or "transformer-tiny", (columns.get("text"), columns.get("pair"))
        plan: Any = run.override(translation.recipe_for(source))
        if dry_run:
            yield _parallel_report(translation.first_look(source, data, dev=dev, columns=sides))
            return
        train = partial(translation.translate, source, data, dev=dev, columns=sides)
    else:
        from clearhead.hub.remote import builtin_folder
        from clearhead.training.recipes import finetune as recipes

        written = task != "instruct" or model is not None
        require(written, "the built-in model does not write; name a --model that does, such as a GPT-2", BadInput)
        source = model or str(builtin_folder())
        plan = run.override(recipes.Finetune())
        file, dev_file = one_file(data, task), None if dev is None else one_file(dev, task)
        if dry_run:
            report = recipes.first_look(task, source, file, dev=dev_file, recipe=plan, columns=columns)
            yield report.to_dict(), [str(report)]
            return
        uses = None if skill_for is None else [use for use in skill_for.split(",") if use != "none"]
        train = partial(recipes.finetune, task, source, file, dev=dev_file, columns=columns, skill_for=uses)
    yield from _repeat(partial(train, **run.keywords()), plan, out, task=task, seeds=seeds)


def _repeat(train: Callable[..., Any], plan: Any, out: Path, *, task: str, seeds: int) -> Iterator[Row]:
    """Train, once or with several seeds in a folder each; say where the model is and what was measured."""
    from clearhead.training.distributed import first_process
    from clearhead.training.recipes.finetune import over_seeds, with_seed

    measured = []
    for seed in range(seeds):
        folder, recipe = (out / f"seed-{seed}", with_seed(plan, seed)) if seeds > 1 else (out, plan)
        outcome = train(folder, recipe=recipe)
        if outcome.result.exit == "interrupted":  # there is nothing to measure or to repeat
            yield from training_rows(outcome.result, folder)
        measured.append(outcome.metrics)
    metrics = over_seeds(measured.__getitem__, range(seeds))
    if not first_process():
        return
    record = {
        "folder": str(out),
        "task": task,
        "seeds": seeds,
        "figures": {name: mean for name, (mean, _) in metrics.items()},
    }
    if seeds > 1:
        record["deviations"] = {name: deviation for name, (_, deviation) in metrics.items()}
    spread = " ± {:.2f}" if seeds > 1 else ""
    lines = [f"{name:<14} {mean:.2f}{spread.format(deviation)}" for name, (mean, deviation) in metrics.items()]
    yield record, [f"wrote {out}", *lines]


def _parallel_report(sets: "Mapping[str, Sequence[PairExample]]") -> Row:
    """What is in parallel text, as a run would read it."""
    found: dict[str, dict[str, Any]] = {}
    lines = []
    for name, pairs in sets.items():
        sides = [pair.first for pair in pairs], [pair.second for pair in pairs]
        words = [sum(len(text.split()) for text in side) / len(pairs) for side in sides]
        first = [side[0] for side in sides]
        found[name] = {"pairs": len(pairs), "words": words, "first": first}
        means = " and ".join(f"{mean:.1f}" for mean in words)
        lines += [
            f"{name}: {len(pairs):,} pairs of {means} words; the first one:",
            *(f"  {shorten(one)}" for one in first),
        ]
    return {**found.pop("train"), **found}, lines
