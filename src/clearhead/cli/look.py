"""`clearhead look …`: pictures of what happens inside a model."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, print_json

app = typer.Typer(name="look", help="Look inside a model.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def look() -> None:
    """Look inside a model: each picture is one HTML file that opens from disk, offline."""


@app.command()
def attention(
    text: Annotated[str, typer.Argument(help="The text to look at.")],
    pair: Annotated[str | None, typer.Argument(help="A second text, for models that read pairs.")] = None,
    model: ModelOption = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("attention.html"),
    json: JsonOption = False,
) -> None:
    """Who looks at whom: every layer and head, as a page with choosers.

    Example: `clearhead look attention "The animal didn't cross the street because it was too tired" -m ./my-model`
    """
    from clearhead.inside.trace import trace
    from clearhead.pipelines.model import load

    traced = trace(load(model), text, pair)
    traced.heads().save(out)
    layers, heads = len(traced.layers), traced.layers[0].weights.shape[0]
    if json:
        print_json({"file": str(out), "tokens": traced.tokens, "layers": layers, "heads": heads})
    else:
        typer.echo(f"wrote {out}: {len(traced.tokens)} tokens, {layers} layers of {heads} heads; open it in a browser")
