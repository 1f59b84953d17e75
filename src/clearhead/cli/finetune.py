"""`clearhead finetune`: a pre-trained model to a task, or parallel text to a translator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from clearhead.cli.options import (
    DeviceOption,
    JsonOption,
    LabelOption,
    PairOption,
    RecipeOption,
    SetOption,
    ShardOption,
    TensorboardOption,
    TextOption,
    changes,
    check_shard,
    command_line,
    named_columns,
    pick_device,
    print_json,
    progress,
    repeat,
    shown,
)
from clearhead.errors import BadInput, require

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
    from clearhead.training.recipes.translate import Translate, first_look, recipe_for, translate
    from clearhead.training.settings import override

    plan = override(recipe_for(model), changes(recipe, set_))
    if dry_run:
        _print_look(first_look(model, data, dev=dev, columns=columns), json=json)
        return
    check_shard(shard)
    place = pick_device(device)

    def run(folder: Path, chosen: Translate) -> Any:
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
    from clearhead.data.seq2seq import read_parallel
    from clearhead.evaluation.translation import evaluate_translation
    from clearhead.pipelines.model import load

    pairs = read_parallel(data, first=columns[0], second=columns[1])
    writer = load(model, device=pick_device(device)).writer
    with progress("translating", len(pairs)) as advance:
        found = evaluate_translation(writer, pairs, progress=advance)
    if json:
        print_json({"task": "translation", "data": list(data), "examples": len(pairs), **found})
        return
    for name in ("bleu", "chrf"):
        typer.echo(f"{name:<17} {found[name]:.2f}  {found[f'{name}_signature']}")


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


def finetune(
    task: Annotated[
        str, typer.Argument(help="classify, label, regress, tag, answer, choose, similar, instruct or translation.")
    ],
    data: Annotated[
        list[str],
        typer.Option(
            help="Training data: csv, tsv, json, jsonl, parquet, CoNLL, SQuAD, DREAM, hub:owner/name; for translation "
            "also two files, line by line."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the model.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="The pre-trained model: a folder or a hub name, by default the built-in; for translation also a new "
            "one, such as transformer-tiny (the default), seq2seq-gru or seq2seq-lstm-additive.",
        ),
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Development data, to measure on.")] = None,
    text: TextOption = None,
    pair: PairOption = None,
    label: LabelOption = None,
    seeds: Annotated[int, typer.Option(help="Repeat with seeds 0, 1, … and give mean and deviation.")] = 1,
    skill_for: Annotated[
        str | None,
        typer.Option(
            help="Save adapters and head alone, as a skill of the model (needs --set lora=8): the uses that take it "
            "unasked, divided by commas, or none."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the data, spend nothing.")] = False,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    shard: ShardOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = False,
) -> None:
    """Fine-tune a model for a task; run it again to go on after a stop.

    Example: `clearhead finetune classify --data train.csv --dev dev.csv --model ./my-bert --out ./my-classifier`
    """
    from clearhead.hub.remote import builtin_folder
    from clearhead.training.recipes import finetune as recipes
    from clearhead.training.settings import override

    if task == "translation":
        for option, value in (("--skill-for", skill_for), ("--label", label)):
            require(value is None, f"{option} is not for translation; leave it out", BadInput)
        finetune_translation(
            model or "transformer-tiny",
            data,
            dev,
            out,
            columns=(text, pair),
            seeds=seeds,
            dry_run=dry_run,
            recipe=recipe,
            set_=set_,
            device=device,
            shard=shard,
            tensorboard=tensorboard,
            json=json,
        )
        return
    written = task != "instruct" or model is not None
    require(written, "the built-in model does not write; name a --model that does, such as a GPT-2", BadInput)
    source = model or str(builtin_folder())
    plan = override(recipes.Finetune(), changes(recipe, set_))
    named = named_columns(text, pair, label)
    train, held_out = one_file(data, task), None if dev is None else one_file(dev, task)
    if dry_run:
        seen = recipes.first_look(task, source, train, dev=held_out, recipe=plan, columns=named)
        if json:
            print_json(seen.json())
        else:
            typer.echo(seen.text())
        return
    check_shard(shard)
    place = pick_device(device)

    def run(folder: Path, chosen: recipes.Finetune) -> Any:
        return recipes.finetune(
            task,
            source,
            train,
            folder,
            dev=held_out,
            recipe=chosen,
            columns=named,
            device=place,
            shard=shard,
            skill_for=None if skill_for is None else [use for use in skill_for.split(",") if use != "none"],
            tensorboard=tensorboard,
            command=command_line(),
        )

    repeat(run, plan, out, task=task, seeds=seeds, json=json)
