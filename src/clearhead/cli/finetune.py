"""`clearhead finetune`: a pre-trained model to a task."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json
from clearhead.cli.recipe import (
    DeviceOption,
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
    repeat,
)
from clearhead.cli.translation import finetune_translation, one_file
from clearhead.errors import BadInput, require


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
    from clearhead.hub.builtin import builtin_folder
    from clearhead.training.overrides import override
    from clearhead.training.recipes import finetune as recipes

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

    def run(folder: Path, chosen: recipes.Finetune) -> recipes.Outcome:
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
