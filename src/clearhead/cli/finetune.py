"""`clearhead finetune`: a pre-trained model to a task."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json
from clearhead.cli.recipe import DeviceOption, RecipeOption, SetOption, TensorboardOption, changes, pick_device


def finetune(
    task: Annotated[str, typer.Argument(help="classify, label, regress, tag, answer, choose or similar.")],
    data: Annotated[
        str, typer.Option(help="Training data: csv, tsv, json, jsonl, parquet, conll, squad, hub:owner/name.")
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="The pre-trained model: a folder or a hub name.")],
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the model.")],
    dev: Annotated[str | None, typer.Option(help="Development data, to measure on.")] = None,
    text: Annotated[str | None, typer.Option(help="Name of the column with the text.")] = None,
    pair: Annotated[str | None, typer.Option(help="Name of the column with the second text.")] = None,
    label: Annotated[str | None, typer.Option(help="Name of the column with the label or score.")] = None,
    seeds: Annotated[int, typer.Option(help="Repeat with seeds 0, 1, … and give mean and deviation.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the data, spend nothing.")] = False,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    tensorboard: TensorboardOption = False,
    json: JsonOption = False,
) -> None:
    """Fine-tune a model for a task; run it again to go on after a stop.

    Example: `clearhead finetune classify --data train.csv --dev dev.csv --model ./my-bert --out ./my-classifier`
    """
    from clearhead.training.overrides import override
    from clearhead.training.recipes import finetune as recipes

    plan = override(recipes.Finetune(), changes(recipe, set_))
    named = {role: column for role, column in (("text", text), ("pair", pair), ("label", label)) if column is not None}
    if dry_run:
        seen = recipes.first_look(task, model, data, dev=dev, recipe=plan, columns=named)
        if json:
            print_json(seen.json())
        else:
            typer.echo(seen.text())
        return
    place = pick_device(device)

    def run(seed: int) -> dict[str, float]:
        folder = out if seeds == 1 else out / f"seed-{seed}"
        chosen = recipes.with_seed(plan, seed) if seeds > 1 else plan
        outcome = recipes.finetune(
            task,
            model,
            data,
            folder,
            dev=dev,
            recipe=chosen,
            columns=named,
            device=place,
            tensorboard=tensorboard,
        )
        return outcome.figures

    figures = recipes.over_seeds(run, range(seeds))
    if json:
        print_json(
            {"folder": str(out), "task": task, "seeds": seeds, "figures": {k: m for k, (m, _) in figures.items()}}
        )
        return
    typer.echo(f"wrote {out}")
    for name, (mean, deviation) in figures.items():
        spread = f" ± {deviation:.2f}" if seeds > 1 else ""
        typer.echo(f"{name:<14} {mean:.2f}{spread}")
