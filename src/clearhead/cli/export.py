"""`clearhead export`: a model, or one of its skills, as a folder that transformers reads."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, SkillOption, print_json


def export(
    out: Annotated[Path, typer.Argument(help="The folder to write to.")],
    model: ModelOption = None,
    skill: SkillOption = None,
    half: Annotated[bool, typer.Option("--half", help="16-bit floats: half the size.")] = False,
    json: JsonOption = False,
) -> None:
    """Write config.json, tokenizer.json and model.safetensors as transformers lays them out.

    Example: `clearhead export ./spam-model --skill spam`
    """
    import torch

    from clearhead.pipelines.model import load

    loaded = load(model, skill=skill, dtype=torch.float16 if half else torch.float32)
    loaded.save(out)
    if json:
        print_json({"folder": str(out), "parameters": loaded.parameters})
    else:
        typer.echo(f"wrote {loaded} to {out}")
