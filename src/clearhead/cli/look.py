"""`clearhead look …`: pictures of what happens inside a model."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

import typer

from clearhead.cli.options import JsonOption, ModelOption, SkillOption, TextsOption, print_json, read_texts

if TYPE_CHECKING:
    from clearhead.inside.page import View
    from clearhead.pipelines.model import Model


Draw = Callable[..., Union["View", tuple["View", str]]]
OutOption = Annotated[Path | None, typer.Option(help="The HTML file to write; else it is named after the picture.")]


def picture(draw: Draw) -> Callable[..., None]:
    """Make a command of a function that gives a view, or a view and a word about it.

    The function's arguments are the command's; one called `loaded` is the model that --model and --skill name.
    """

    def command(*, out: Path | None, json: bool, **given: Any) -> None:
        if "loaded" in inspect.signature(draw).parameters:
            from clearhead.pipelines.model import load

            given["loaded"] = load(given.pop("model"), skill=given.pop("skill"))
        drawn = draw(**given)
        view, about = drawn if isinstance(drawn, tuple) else (drawn, "")
        path = view.save(out or f"{view.title}.html")
        if json:
            print_json({"file": str(path), **view.data})
        else:
            typer.echo(f"wrote {path}{f': {about}' if about else ''}; open it in a browser")

    command.__doc__, command.__name__ = draw.__doc__, draw.__name__
    command.__signature__ = _asked(draw)  # type: ignore[attr-defined]  # which is where typer looks
    return command


def _asked(draw: Draw) -> inspect.Signature:
    """What the command line asks for: the function's own arguments, then those of every picture."""
    own = dict(inspect.signature(draw).parameters)
    shared: list[tuple[str, Any, Any]] = [("out", OutOption, None), ("json", JsonOption, False)]
    if own.pop("loaded", None):
        shared[:0] = [("model", ModelOption, None), ("skill", SkillOption, None)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, keyword, default=default, annotation=kind) for name, kind, default in shared]
    return inspect.Signature([*own.values(), *added])


app = typer.Typer(name="look", help="Look inside a model.", no_args_is_help=True, rich_markup_mode="markdown")

TextArgument = Annotated[str, typer.Argument(help="The text to look at.")]
PairArgument = Annotated[str | None, typer.Argument(help="A second text, for models that read pairs.")]


@app.callback()
def look() -> None:
    """Look inside a model: each picture is one HTML file that opens from disk, offline."""


@app.command()
@picture
def attention(loaded: "Model", text: TextArgument, pair: PairArgument = None) -> "tuple[View, str]":
    """Who looks at whom: every layer and head, as a page with choosers.

    Example: `clearhead look attention "The animal didn't cross the street because it was too tired"`
    """
    from clearhead.inside.trace import trace

    traced = trace(loaded, text, pair)
    layers, heads = len(traced.layers), traced.layers[0].heads
    return traced.heads(), f"{len(traced.tokens)} tokens, {layers} layers of {heads} heads"


@app.command()
@picture
def step(
    loaded: "Model",
    text: TextArgument,
    token: Annotated[str, typer.Option(help="The token that looks: a word, or its number from 0.")],
    layer: Annotated[int, typer.Option(help="The layer, from 0.")] = 0,
    head: Annotated[int, typer.Option(help="The head, from 0.")] = 0,
) -> "View":
    """One token in one head, step by step: query, keys, scores, weights, values.

    Example: `clearhead look step "The animal was tired, so it slept" --token it --layer 9 --head 3`
    """
    from clearhead.inside.trace import trace

    return trace(loaded, text).step(int(token) if token.isdecimal() else token, layer, head)


@app.command("by-hand")
@picture
def by_hand() -> "View":
    """Attention as a calculation whose numbers you change; it starts with the slides'. No model is needed.

    Example: `clearhead look by-hand`
    """
    from clearhead.inside.by_hand import by_hand

    return by_hand()


@app.command("input")
@picture
def input_(loaded: "Model", text: TextArgument, pair: PairArgument = None) -> "View":
    """What a model reads: pieces, and the vectors of token, position and segment, added up.

    Example: `clearhead look input "Be alert!" "BERT will hurt!"`
    """
    from clearhead.inside.input_view import summed_input

    return summed_input(loaded, text, pair)


@app.command()
@picture
def positions(
    model: ModelOption = None, length: Annotated[int, typer.Option(help="How many positions to show.")] = 64
) -> "View":
    """How a position is written as a vector: sinusoidal, rotary, and with --model as this model has learnt it.

    Example: `clearhead look positions --length 128`
    """
    from clearhead.inside.input_view import position_tables
    from clearhead.pipelines.model import load

    return position_tables(None if model is None else load(model), length=length)


@app.command()
@picture
def layers(loaded: "Model", text: TextArgument, pair: PairArgument = None) -> "View":
    """A text on its way through the layers: hidden states, what the mask head would say, choices of features.

    Example: `clearhead look layers "He sat on the bank of the river"`
    """
    from clearhead.inside.layers import through_layers

    return through_layers(loaded, text, pair)


@app.command()
@picture
def senses(
    loaded: "Model",
    word: Annotated[str, typer.Argument(help="The word; bank, apple and train have texts of their own.")],
    texts: Annotated[list[str] | None, typer.Argument(help='Texts with the word, or "-" for one a line.')] = None,
    file: TextsOption = None,
) -> "View":
    """One word in several texts: how near its occurrences are, as a table and as a map.

    Example: `clearhead look senses bank`
    """
    from clearhead.inside.senses import senses_of

    return senses_of(loaded, word, read_texts(texts or [], file) if texts or file else None)


@app.command()
@picture
def why(
    loaded: "Model",
    text: Annotated[str, typer.Argument(help="The text, or the question.")],
    pair: Annotated[str | None, typer.Argument(help="A second text, or the context of a question.")] = None,
    use: Annotated[str | None, typer.Option(help="What is explained: classify, answer or fill.")] = None,
    target: Annotated[str | None, typer.Option(help="The label, token or answer to explain; else the best.")] = None,
) -> "tuple[View, str]":
    """Which tokens an answer came from: five methods side by side, and which of them is faithful here.

    Example: `clearhead look why "Text WIN to 80086 to claim your free prize" --skill spam`
    """
    from clearhead.inside.faithfulness import why

    view = why(loaded, text, pair, use=use, target=target)  # type: ignore[arg-type]
    best = ", ".join([view.data["faithful"], *view.data["as_faithful"]] if view.data["faithful"] else [])
    return view, f"most faithful here: {best}" if best else "no method is better than chance here"


@app.command()
@picture
def decoding(
    loaded: "Model",
    text: Annotated[str, typer.Argument(help="The source, or the prompt.")],
    beams: Annotated[int, typer.Option(help="Beginnings that are kept at each step; 1 is greedy.")] = 1,
    longest: Annotated[int, typer.Option(help="Most tokens to write.")] = 32,
    top: Annotated[int, typer.Option(help="Candidates to show at each step.")] = 5,
) -> "tuple[View, str]":
    """How a model writes: at each step the candidates, their probabilities, where it looks, and the tree of beams.

    Example: `clearhead look decoding "Ein Hund läuft durch den Schnee." --beams 3 -m ./de-en`
    """
    from clearhead.inside.decoding import decoding

    view = decoding(loaded, text, beams=beams, longest=longest, top=top)
    return view, view.data["results"][0]["text"]


@app.command()
@picture
def runs(folders: Annotated[list[Path], typer.Argument(help="Folders of training runs.")]) -> "tuple[View, str]":
    """Training runs side by side: loss, learning rate, throughput and evaluation, as far as they have come.

    Example: `clearhead look runs ./my-model ./another-model`
    """
    from clearhead.inside.runs import training_runs

    view = training_runs(folders)
    return view, f"{len(view.data['runs'])} runs"
