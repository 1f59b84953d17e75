"""`clearhead distil`: a large model to a small one."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, progress, up_to
from clearhead.cli.recipe import (
    CorpusOption,
    DeviceOption,
    MinutesOption,
    RecipeOption,
    SetOption,
    ShardOption,
    StepsOption,
    TensorboardOption,
    changes,
    check_shard,
    command_line,
    pick_device,
    print_result,
)


def distil(
    teacher: Annotated[str, typer.Option(help="The model to learn from: a folder or a hub name.")],
    corpus: CorpusOption,
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the student.")],
    layers: Annotated[int | None, typer.Option(help="Layers of the student. Default: half of the teacher's.")] = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    relations: Annotated[
        bool,
        typer.Option(
            "--relations",
            help="Learn how tokens relate (MiniLM) instead of answers (DistilBERT): the student may be narrower, "
            "--set model.hidden_size=…, and has no head.",
        ),
    ] = False,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    shard: ShardOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = False,
) -> None:
    """Train a small model to agree with a large one on your own text; run it again to go on after a stop.

    Example: `clearhead distil --teacher ./my-bert --corpus wiki.jsonl.xz --out ./my-student --minutes 60`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.pipelines.model import load
    from clearhead.training.overrides import override
    from clearhead.training.recipes import distil as recipes

    check_shard(shard)
    texts, large = Corpus(corpus), load(teacher)
    objective = "relations" if relations else None
    plan = override(
        recipes.recipe_for(large, layers=layers),
        changes(recipe, set_, objective=objective, train__minutes=minutes, train__steps=steps),
    )
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        student, result = recipes.distil(
            large,
            texts,
            out,
            plan,
            device=pick_device(device),
            shard=shard,
            progress=up_to(advance),
            tensorboard=tensorboard,
            teacher_name=teacher,
            command=command_line(),
        )
    print_result(student, result, out, json=json)
