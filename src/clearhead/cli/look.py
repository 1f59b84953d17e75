"""`clearhead look …`: pictures of what happens inside a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, TextsOption, print_json, read_texts

if TYPE_CHECKING:
    from clearhead.inside.view import View

app = typer.Typer(name="look", help="Look inside a model.", no_args_is_help=True, rich_markup_mode="markdown")

TextArgument = Annotated[str, typer.Argument(help="The text to look at.")]
PairArgument = Annotated[str | None, typer.Argument(help="A second text, for models that read pairs.")]
OutOption = Annotated[Path | None, typer.Option(help="The HTML file to write; else it is named after the picture.")]


@app.callback()
def look() -> None:
    """Look inside a model: each picture is one HTML file that opens from disk, offline."""


@app.command()
def attention(
    text: TextArgument,
    pair: PairArgument = None,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Who looks at whom: every layer and head, as a page with choosers.

    Example: `clearhead look attention "The animal didn't cross the street because it was too tired" -m ./my-model`
    """
    from clearhead.inside.trace import trace
    from clearhead.pipelines.model import load

    traced = trace(load(model), text, pair)
    layers, heads = len(traced.layers), traced.layers[0].heads
    _write(traced.heads(), out, json, f"{len(traced.tokens)} tokens, {layers} layers of {heads} heads")


@app.command()
def step(
    text: TextArgument,
    token: Annotated[str, typer.Option(help="The token that looks: a word, or its number from 0.")],
    layer: Annotated[int, typer.Option(help="The layer, from 0.")] = 0,
    head: Annotated[int, typer.Option(help="The head, from 0.")] = 0,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """One token in one head, step by step: query, keys, scores, weights, values.

    Example: `clearhead look step "The animal was tired, so it slept" --token it --layer 3 --head 1 -m ./my-model`
    """
    from clearhead.inside.trace import trace
    from clearhead.pipelines.model import load

    traced = trace(load(model), text)
    _write(traced.step(int(token) if token.isdecimal() else token, layer, head), out, json)


@app.command("by-hand")
def by_hand(out: OutOption = None, json: JsonOption = False) -> None:
    """Attention as a calculation whose numbers you change; it starts with the slides'. No model is needed.

    Example: `clearhead look by-hand`
    """
    from clearhead.inside.byhand import by_hand

    _write(by_hand(), out, json)


@app.command("input")
def input_(
    text: TextArgument,
    pair: PairArgument = None,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """What a model reads: pieces, and the vectors of token, position and segment, added up.

    Example: `clearhead look input "Be alert!" "BERT will hurt!" -m ./my-model`
    """
    from clearhead.inside.inputs import summed_input
    from clearhead.pipelines.model import load

    _write(summed_input(load(model), text, pair), out, json)


@app.command()
def positions(
    model: ModelOption = None,
    length: Annotated[int, typer.Option(help="How many positions to show.")] = 64,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """How a position is written as a vector: sinusoidal, rotary, and with --model as this model has learnt it.

    Example: `clearhead look positions --length 128`
    """
    from clearhead.inside.positions import position_tables
    from clearhead.pipelines.model import load

    _write(position_tables(None if model is None else load(model), length=length), out, json)


@app.command()
def layers(
    text: TextArgument,
    pair: PairArgument = None,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """A text on its way through the layers: hidden states, what the mask head would say, choices of features.

    Example: `clearhead look layers "He sat on the bank of the river" -m ./my-model`
    """
    from clearhead.inside.depth import through_layers
    from clearhead.pipelines.model import load

    _write(through_layers(load(model), text, pair), out, json)


@app.command()
def senses(
    word: Annotated[str, typer.Argument(help="The word; bank, apple and train have texts of their own.")],
    texts: Annotated[list[str] | None, typer.Argument(help='Texts with the word, or "-" for one a line.')] = None,
    file: TextsOption = None,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """One word in several texts: how near its occurrences are, as a table and as a map.

    Example: `clearhead look senses bank -m ./my-model`
    """
    from clearhead.inside.senses import senses_of
    from clearhead.pipelines.model import load

    given = read_texts(texts or [], file) if texts or file else None
    _write(senses_of(load(model), word, given), out, json)


@app.command()
def why(
    text: Annotated[str, typer.Argument(help="The text, or the question.")],
    pair: Annotated[str | None, typer.Argument(help="A second text, or the context of a question.")] = None,
    use: Annotated[str | None, typer.Option(help="What is explained: classify, answer or fill.")] = None,
    target: Annotated[str | None, typer.Option(help="The label, token or answer to explain; else the best.")] = None,
    model: ModelOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Which tokens an answer came from: five methods side by side, and which of them is faithful here.

    Example: `clearhead look why "WIN a prize now" -m ./my-spam-model`
    """
    from clearhead.inside.reasons import why
    from clearhead.pipelines.model import load

    view = why(load(model), text, pair, use=use, target=target)  # type: ignore[arg-type]
    best = view.data["faithful"]
    _write(view, out, json, f"most faithful here: {best}" if best else "no method is better than chance here")


@app.command()
def decoding(
    text: Annotated[str, typer.Argument(help="The source, or the prompt.")],
    model: ModelOption = None,
    beams: Annotated[int, typer.Option(help="Beginnings that are kept at each step; 1 is greedy.")] = 1,
    longest: Annotated[int, typer.Option(help="Most tokens to write.")] = 32,
    top: Annotated[int, typer.Option(help="Candidates to show at each step.")] = 5,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """How a model writes: at each step the candidates, their probabilities, where it looks, and the tree of beams.

    Example: `clearhead look decoding "Ein Hund läuft durch den Schnee." --beams 3 -m ./de-en`
    """
    from clearhead.inside.decoding import decoding
    from clearhead.pipelines.model import load

    view = decoding(load(model), text, beams=beams, longest=longest, top=top)
    _write(view, out, json, view.data["results"][0]["text"])


@app.command()
def runs(
    folders: Annotated[list[Path], typer.Argument(help="Folders of training runs.")],
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Training runs side by side: loss, learning rate, throughput and evaluation, as far as they have come.

    Example: `clearhead look runs ./my-model ./another-model`
    """
    from clearhead.inside.runs import training_runs

    view = training_runs(folders)
    _write(view, out, json, f"{len(view.data['runs'])} runs")


def _write(view: View, out: Path | None, json: bool, about: str = "") -> None:
    """Save the page, and print its data for programs or a line for people."""
    path = view.save(out or f"{view.title}.html")
    if json:
        print_json({"file": str(path), **view.data})
    else:
        typer.echo(f"wrote {path}{f': {about}' if about else ''}; open it in a browser")
