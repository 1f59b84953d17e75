"""`clearhead evaluate`: the official figures of a model on a task."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, print_json
from clearhead.cli.recipe import DeviceOption, pick_device


def evaluate(
    task: Annotated[
        str | None, typer.Argument(help="classify, label, regress, tag, answer, choose or similar.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data to measure on, in the formats of finetune.")] = None,
    model: ModelOption = None,
    table: Annotated[
        Path | None, typer.Option(help="Print the figures of this JSON file beside the lectures'.")
    ] = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Measure a model on a task, by the official definitions.

    Example: `clearhead evaluate answer --data dev-v1.1.json --model ./my-reader`
    """
    from clearhead.errors import BadInput

    if table is not None:
        from clearhead.evaluation.measured import read_measured
        from clearhead.evaluation.tables import as_json, as_text, tables

        found = tables(read_measured(table))
        typer.echo(as_json(found) if json else as_text(found))
        return
    if task is None or data is None or model is None:
        raise BadInput("name a task, its --data and a --model, or a --table to print")
    from clearhead.pipelines.model import load
    from clearhead.training.recipes.finetune import find_kind
    from clearhead.training.recipes.kinds import evaluate as measure

    examples = find_kind(task).read(data, {})
    figures = measure(task, load(model, device=pick_device(device)), examples)
    if json:
        print_json({"task": task, "data": data, "examples": len(examples), **figures})
        return
    for name, value in figures.items():
        typer.echo(f"{name:<14} {value:.2f}")
