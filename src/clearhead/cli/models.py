"""Verbs for checkpoints: info, convert, export."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.options import JsonOption, ModelOption, SkillOption, print_json

if TYPE_CHECKING:
    from clearhead.hub.checkpoint import RecurrentModel


def info(
    model: Annotated[
        str | None,
        typer.Argument(help="A checkpoint folder, or the name of a model on the hub. Default: the built-in."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say what a checkpoint holds: family, sizes, parameters, heads, labels, tokenizer.

    Example: `clearhead info ./my-model`
    """
    from clearhead.hub.checkpoint import RecurrentModel, is_recurrent
    from clearhead.hub.remote import builtin_folder, find
    from clearhead.hub.skills import find_skills
    from clearhead.nn.embeddings import UNLIMITED
    from clearhead.pipelines.model import load

    folder = builtin_folder() if model is None else find(model)
    if is_recurrent(folder):
        _print(_recurrent(RecurrentModel.load(folder)), json=json)
        return
    loaded = load(folder)
    description = loaded.checkpoint.description
    tokenizer = loaded.checkpoint.tokenizer
    sentence = loaded.checkpoint.sentence
    facts = {
        "family": description.family,
        "architecture": description.architecture,
        "parameters": loaded.parameters,
        "encoder_parameters": sum(parameter.numel() for parameter in loaded.encoder.parameters()),
        "max_length": None if loaded.encoder.max_length == UNLIMITED else loaded.encoder.max_length,
        "heads": list(loaded.network.heads),
        "labels": list(loaded.labels) if loaded.labels else None,
        "skills": list(find_skills(folder)) or None,
        "tokenizer": None
        if tokenizer is None
        else {"vocabulary": tokenizer.vocabulary, "lowercase": tokenizer.lowercase},
        "sentence_vector": None if sentence is None else {"pooling": sentence.pooling, "normalise": sentence.normalise},
        "config": asdict(description.config),
    }
    _print(facts, json=json)


def _recurrent(model: "RecurrentModel") -> dict[str, Any]:
    return {
        "family": model.kind,
        "parameters": model.parameters,
        "tokenizer": {"vocabulary": model.tokenizer.vocabulary, "lowercase": model.tokenizer.lowercase},
        "config": asdict(model.network.config),
    }


def _print(facts: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            typer.echo(f"{name}:")
            for key, inner in value.items():
                typer.echo(f"  {key:<30} {inner}")
        elif value is not None:
            text = (
                ", ".join(value) or "none" if isinstance(value, list) else f"{value:,}" if type(value) is int else value
            )
            typer.echo(f"{name:<20} {text}")


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
