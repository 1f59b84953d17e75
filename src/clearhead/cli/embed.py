"""`clearhead embed`: texts to vectors."""

from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.inout import (
    INT8_SAMPLE,
    Int8Option,
    JsonOption,
    ModelOption,
    SkillOption,
    TextsArgument,
    TextsOption,
    print_json,
    progress,
    quantised,
    shown,
    stream_texts,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def embed(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    skill: SkillOption = None,
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
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Turn texts into vectors: any layer or mix of layers, one vector for each text.

    Example: `clearhead embed --in texts.txt --out vectors.npy`
    """
    from clearhead.cli.vector_file import VectorFile
    from clearhead.hub.atomic import staged
    from clearhead.pipelines.batches import chunks_of_text
    from clearhead.pipelines.model import load

    wanted, total = stream_texts(texts or [], file)
    chosen = numbers_of(layers)
    loaded = load(model, skill=skill)
    if int8:
        first = list(islice(wanted, INT8_SAMPLE))
        # inner layers are those of the encoder itself, not of a skill
        loaded = quantised(loaded, "embed" if chosen == [-1] else "layers", first)
        wanted = chain(first, wanted)
    # the steps of int8 are those of all texts together; everything else goes out as it comes, in constant memory
    parts = [list(wanted)] if precision == "int8" else chunks_of_text(wanted)
    with ExitStack() as stack:
        advance = stack.enter_context(progress("embedding", total))
        written = None
        if out is not None:
            stage = stack.enter_context(staged(out.parent))
            written = stack.enter_context(VectorFile(stage / out.name))
        for part in parts:
            vectors = loaded.embed(
                part,
                layers=chosen,
                combine=combine,  # type: ignore[arg-type]
                pooling=pooling,  # type: ignore[arg-type]
                normalise=normalise,
                dimensions=dimensions,
                precision=precision,  # type: ignore[arg-type]
                progress=advance,
            )
            if written is not None:
                written.add(vectors)
                continue
            for text, vector in zip(part, vectors, strict=True):
                _print(text, vector, json=json, rounded=precision == "float32")
    if written is not None:
        typer.echo(f"wrote {written.rows} vectors of width {written.width} to {out}", err=True)


def _print(text: str, vector: "NDArray[Any]", *, json: bool, rounded: bool) -> None:
    if json:
        print_json({"text": text, "vector": [_written(value) for value in vector.tolist()]})
        return
    start = " ".join(f"{value:+.4f}" if rounded else str(value) for value in vector[:6])
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
