"""`clearhead info`: what a checkpoint is."""

from dataclasses import asdict
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json


def info(
    model: Annotated[str, typer.Argument(help="A checkpoint folder, or the name of a model on the hub.")],
    json: JsonOption = False,
) -> None:
    """Say what a checkpoint holds: family, sizes, parameters, heads, labels, tokenizer.

    Example: `clearhead info ./my-model`
    """
    from clearhead.pipelines.model import load

    loaded = load(model)
    description = loaded.checkpoint.description
    tokenizer = loaded.checkpoint.tokenizer
    sentence = loaded.checkpoint.sentence
    facts = {
        "family": description.family,
        "architecture": description.architecture,
        "parameters": loaded.parameters,
        "encoder_parameters": sum(parameter.numel() for parameter in loaded.encoder.parameters()),
        "max_length": loaded.encoder.max_length,
        "heads": list(loaded.network.heads),
        "labels": list(loaded.labels) if loaded.labels else None,
        "tokenizer": None
        if tokenizer is None
        else {"vocabulary": tokenizer.vocabulary, "lowercase": tokenizer.lowercase},
        "sentence_vector": None if sentence is None else {"pooling": sentence.pooling, "normalise": sentence.normalise},
        "config": asdict(description.config),
    }
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
