"""Options that all training verbs share: a recipe file, `--set key=value`, the device, several processes."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.inout import print_json

if TYPE_CHECKING:
    from clearhead.training.loop import Result

RecipeOption = Annotated[Path | None, typer.Option(help="A TOML file that changes the recipe by name.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change one value of the recipe: --set train.learning_rate=3e-5.")
]
CORPUS = "Files (.txt .jsonl .parquet, also .gz .xz .zst), folders, patterns, hub:owner/name."
CorpusOption = Annotated[list[str], typer.Option("--corpus", help=CORPUS)]
MinutesOption = Annotated[float | None, typer.Option(help="How long to train: warm-up and decay fit this budget.")]
StepsOption = Annotated[int | None, typer.Option(help="How many steps to train, instead of minutes.")]
TensorboardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Write for TensorBoard too, in the run's folder.")
]
TextOption = Annotated[
    str | None, typer.Option(help="Name of the column with the text (choose: context; tag: words; search: query).")
]
PairOption = Annotated[
    str | None, typer.Option(help="Name of the column with the second text (choose: choices; search: passage).")
]
LabelOption = Annotated[str | None, typer.Option(help="Name of the column with the label, score, tags or relevance.")]
ShardOption = Annotated[
    bool,
    typer.Option(
        "--shard", help="Cut the network up among the processes that torchrun started, instead of copying it."
    ),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")]

_LENGTHS = ("train.steps", "train.epochs", "train.minutes")


def changes(recipe: Path | None, written: list[str] | None, **options: Any) -> dict[str, Any]:
    """What a recipe file, `--set` and the verb's own options change; the last wins.

    A length that is named takes the place of those before it, whether they count steps, epochs or minutes.
    """
    from clearhead.training.overrides import parse_settings, read_recipe

    own = {name.replace("__", "."): value for name, value in options.items() if value is not None}
    found: dict[str, Any] = {}
    for layer in (read_recipe(recipe) if recipe is not None else {}, parse_settings(written or []), own):
        if any(layer.get(length) is not None for length in _LENGTHS):
            found |= dict.fromkeys(_LENGTHS)
        found |= layer
    return found


def named_columns(text: str | None, pair: str | None, label: str | None) -> dict[str, str]:
    """The columns that were named, by their roles."""
    return {role: column for role, column in (("text", text), ("pair", pair), ("label", label)) if column is not None}


def pick_device(named: str | None) -> str:
    """The device named, which must be there, or a GPU if there is one."""
    import torch

    from clearhead.errors import NotFound

    if named is None or (named == "cuda" and torch.cuda.is_available()):  # each process has a GPU of its own
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones((), device=named).item()
    except (AssertionError, RuntimeError):  # as torch puts it where there is no such device
        raise NotFound(f"device {named!r} is not there; choose cpu or cuda, or leave --device out") from None
    return named


def check_shard(shard: bool) -> None:
    """Refuse to cut a network up where nobody else is there to take a part."""
    from clearhead.errors import BadInput

    if shard and "WORLD_SIZE" not in os.environ:
        raise BadInput(
            "--shard needs several processes; start them with: torchrun --nproc-per-node 2 -m clearhead "
            f"{shlex.join(sys.argv[1:])}"
        )


def command_line() -> str:
    """What the user typed, for the model's card."""
    started = ["clearhead"]
    if "LOCAL_WORLD_SIZE" in os.environ:  # set by torchrun
        machines, processes = os.environ.get("GROUP_WORLD_SIZE", "1"), os.environ["LOCAL_WORLD_SIZE"]
        started = ["torchrun", "--nnodes", machines, "--nproc-per-node", processes, "-m", "clearhead"]
    return shlex.join([*started, *sys.argv[1:]])


def print_result(model: object, result: "Result", out: Path, *, json: bool) -> None:
    """Say how a run ended, once, however many processes it had."""
    from clearhead.training.distributed import first_process

    if first_process() and json:
        print_json({"folder": str(out), "exit": result.exit, "steps": result.step, "tokens": result.tokens})
    elif first_process():
        outcome = "run the same command again to go on" if result.exit == "interrupted" else f"{model!r} in {out}"
        typer.echo(f"{result.exit} after {result.step:,} steps and {result.tokens:,} tokens: {outcome}")
    leave_if_interrupted(result)


def leave_if_interrupted(result: "Result") -> None:
    """End with what a shell expects of a program that a signal stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    if result.exit == "interrupted":
        raise typer.Exit(128 + (result.signal or signal.SIGINT))


def repeat(run: Callable[[Path, Any], Any], plan: Any, out: Path, *, task: str, seeds: int, json: bool) -> None:
    """Let `run(folder, recipe)` train, once or with several seeds in a folder each, and say what was measured."""
    from clearhead.training.recipes.finetune import over_seeds, with_seed

    def once(seed: int) -> dict[str, float]:
        folder, recipe = (out / f"seed-{seed}", with_seed(plan, seed)) if seeds > 1 else (out, plan)
        outcome = run(folder, recipe)
        if outcome.result.exit == "interrupted":  # there is nothing to measure or to repeat
            print_result(None, outcome.result, folder, json=json)
        return outcome.figures

    _print_figures(task, out, over_seeds(once, range(seeds)), seeds=seeds, json=json)


def _print_figures(task: str, out: Path, figures: Mapping[str, tuple[float, float]], *, seeds: int, json: bool) -> None:
    """Say once where a fine-tuned model is, and what was measured: mean and, over several seeds, deviation."""
    from clearhead.training.distributed import first_process

    if not first_process():
        return
    if json:
        means = {name: mean for name, (mean, _) in figures.items()}
        deviations = {"deviations": {name: deviation for name, (_, deviation) in figures.items()}} if seeds > 1 else {}
        print_json({"folder": str(out), "task": task, "seeds": seeds, "figures": means, **deviations})
        return
    typer.echo(f"wrote {out}")
    for name, (mean, deviation) in figures.items():
        spread = f" ± {deviation:.2f}" if seeds > 1 else ""
        typer.echo(f"{name:<14} {mean:.2f}{spread}")
