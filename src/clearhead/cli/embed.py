"""`clearhead embed`: texts to vectors."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import (
    JsonOption,
    ModelOption,
    TextsArgument,
    TextsOption,
    print_json,
    progress,
    read_texts,
    shown,
)


def embed(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    out: Annotated[Path | None, typer.Option(help="Write all vectors to this .npy file.")] = None,
    layers: Annotated[
        str, typer.Option(help="Layers to take, from 0 (the embeddings) or from -1 (the last): -4,-3,-2,-1.")
    ] = "-1",
    combine: Annotated[str, typer.Option(help="How to join several layers: mean, sum or concat.")] = "mean",
    pooling: Annotated[
        str | None, typer.Option(help="Tokens to one vector: mean, first, max or weighted. Default: the model's own.")
    ] = None,
    normalise: Annotated[bool | None, typer.Option(help="Scale to length 1. Default: the model's own.")] = None,
    dimensions: Annotated[int | None, typer.Option(help="Keep the first so many dimensions. Default: all.")] = None,
    precision: Annotated[str, typer.Option(help="float32, int8 (ranges of these texts) or binary.")] = "float32",
    json: JsonOption = False,
) -> None:
    """Turn texts into vectors: any layer or mix of layers, one vector for each text.

    Example: `clearhead embed --in texts.txt --model ./my-model --out vectors.npy`
    """
    import numpy as np

    from clearhead.hub.atomic import staged
    from clearhead.pipelines.model import load

    wanted = read_texts(texts or [], file)
    loaded = load(model)
    with progress("embedding", len(wanted)) as advance:
        vectors = loaded.embed(
            wanted,
            layers=numbers_of(layers),
            combine=combine,  # type: ignore[arg-type]
            pooling=pooling,  # type: ignore[arg-type]
            normalise=normalise,
            dimensions=dimensions,
            precision=precision,  # type: ignore[arg-type]
            progress=advance,
        )
    if out is not None:
        with staged(out.parent) as stage:
            np.save(stage / out.name, vectors)
        typer.echo(f"wrote {vectors.shape[0]} vectors of width {vectors.shape[1]} to {out}", err=True)
        return
    for text, vector in zip(wanted, vectors, strict=True):
        if json:
            print_json({"text": text, "vector": [_written(value) for value in vector.tolist()]})
        else:
            start = " ".join(f"{value:+.4f}" if precision == "float32" else str(value) for value in vector[:6])
            typer.echo(f"{start} … ({len(vector)})  {shown(text)}")


def numbers_of(written: str) -> list[int]:
    """Read a list of layers."""
    from clearhead.errors import BadInput

    try:
        return [int(layer) for layer in written.split(",")]
    except ValueError:
        raise BadInput(f"--layers {written!r} is not a list of numbers such as -4,-3,-2,-1") from None


def _written(value: float | int) -> float | int:
    """As many digits as single precision has; whole numbers stay whole."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
