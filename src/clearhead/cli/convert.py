"""`clearhead convert`: a pickle of weights to safetensors, without running what the pickle may hold."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json


def convert(
    source: Annotated[Path, typer.Argument(help="A folder with pytorch_model.bin, or the file itself.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write to. Default: beside the source.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there already.")] = False,
    json: JsonOption = False,
) -> None:
    """Turn pytorch_model.bin into model.safetensors: only tensors are read, anything else is refused.

    Example: `clearhead convert ./old-model`
    """
    from clearhead.hub.convert import convert as convert_folder

    folder = convert_folder(source, out, overwrite=overwrite)
    if json:
        print_json({"folder": str(folder)})
    else:
        typer.echo(f"wrote {folder / 'model.safetensors'}")
