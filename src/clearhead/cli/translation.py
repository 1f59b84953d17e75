"""`clearhead finetune translation` and `clearhead evaluate translation`: models on parallel text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from clearhead.cli.inout import print_json, progress, shown
from clearhead.cli.recipe import changes, check_shard, command_line, pick_device, repeat
from clearhead.errors import BadInput

if TYPE_CHECKING:
    from clearhead.data.examples import PairExample


class SeveralFiles(TyperCommand):
    """Lets `--data` and `--dev` be followed by more than one file: `--data train.en train.de`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the option again before each further file; the task must stand before all options."""
        spread: list[str] = []
        option = None
        for arg in args:
            if arg.startswith("-"):
                option = arg if arg in ("--data", "--dev") else None
            elif option is not None and spread[-1] != option:
                spread.append(option)
            spread.append(arg)
        return super().parse_args(ctx, spread)


def one_file(files: Sequence[str], task: str) -> str:
    """Give the one file that all other tasks read."""
    if len(files) != 1:
        raise BadInput(f"{task} reads one file, not {len(files)} ({', '.join(files)}); join them first")
    return files[0]


def finetune_translation(
    model: str,
    data: Sequence[str],
    dev: Sequence[str] | None,
    out: Path,
    *,
    columns: tuple[str | None, str | None],
    seeds: int,
    dry_run: bool,
    recipe: Path | None,
    set_: list[str] | None,
    device: str | None,
    shard: bool,
    tensorboard: bool,
    json: bool,
) -> None:
    """Train a translator, or look at its data, and say how it went."""
    from clearhead.training.overrides import override
    from clearhead.training.recipes.translate import Outcome, Translate, first_look, recipe_for, translate

    plan = override(recipe_for(model), changes(recipe, set_))
    if dry_run:
        _print_look(first_look(model, data, dev=dev, columns=columns), json=json)
        return
    check_shard(shard)
    place = pick_device(device)

    def run(folder: Path, chosen: Translate) -> Outcome:
        return translate(
            model,
            data,
            folder,
            dev=dev,
            recipe=chosen,
            columns=columns,
            device=place,
            shard=shard,
            tensorboard=tensorboard,
            command=command_line(),
        )

    repeat(run, plan, out, task="translation", seeds=seeds, json=json)


def evaluate_translator(
    model: str, data: Sequence[str], *, columns: tuple[str | None, str | None], device: str | None, json: bool
) -> None:
    """Translate the sources by five beams and print BLEU and chrF with sacrebleu's signatures."""
    from clearhead.data.parallel import read_parallel
    from clearhead.evaluation.translation import evaluate_translation
    from clearhead.pipelines.model import load

    pairs = read_parallel(data, first=columns[0], second=columns[1])
    writer = load(model, device=pick_device(device)).writer
    with progress("translating", len(pairs)) as advance:
        found = evaluate_translation(writer, pairs, progress=advance)
    if json:
        print_json({"task": "translation", "data": list(data), "examples": len(pairs), **found.to_dict()})
        return
    for name, (score, signature) in (("bleu", found.bleu), ("chrf", found.chrf)):
        typer.echo(f"{name:<17} {score:.2f}  {signature}")


def _print_look(sets: "Mapping[str, Sequence[PairExample]]", *, json: bool) -> None:
    """Say what is in parallel text, as a run would read it."""
    found: dict[str, dict[str, Any]] = {}
    for name, pairs in sets.items():
        sides = ([pair.first for pair in pairs], [pair.second for pair in pairs])
        words = [sum(len(text.split()) for text in side) / len(pairs) for side in sides]
        found[name] = {"pairs": len(pairs), "words": words, "first": [side[0] for side in sides]}
    if json:
        train = found.pop("train")
        print_json({**train, **found})
        return
    for name, one in found.items():
        means = " and ".join(f"{mean:.1f}" for mean in one["words"])
        typer.echo(f"{name}: {one['pairs']:,} pairs of {means} words; the first one:")
        for text in one["first"]:
            typer.echo(f"  {shown(text)}")
