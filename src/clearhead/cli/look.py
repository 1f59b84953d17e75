"""`clearhead look …`: pictures of what happens inside a model."""

from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from clearhead.cli.options import (
    SAID,
    InOption,
    LoadedGenerator,
    LoadedWithSkill,
    ModelOption,
    Output,
    Verbs,
    Written,
    given_texts,
    load_model,
)
from clearhead.cli.render import Row, Rows

if TYPE_CHECKING:
    from clearhead.inside.page import View

app = Verbs("look", "Look inside a model: each picture is one HTML file that opens from disk, offline.")

TextArgument = Annotated[str, Argument(help="The text to look at."), SAID]
PairArgument = Annotated[str | None, Argument(help="A second text, for models that read pairs."), SAID]
_OUT = "The HTML file to write; else it is named after the picture, and numbered where there is one."
OutOption = Annotated[Output | None, Written("out", Path | None, Option(None, help=_OUT), "file")]


def _saved(view: "View", out: Output | None, about: str = "") -> Row:
    """Write the page; what is in it is also there for programs."""
    names = (Path(f"{view.title}{number}.html") for number in chain([""], (f"-{again}" for again in count(2))))
    chosen = next(name for name in names if not name.exists()) if out is None else out.path
    path = view.save(chosen, overwrite=out is not None and out.overwrite)
    return {"file": str(path), **view.data}, [f"wrote {path}{f': {about}' if about else ''}; open it in a browser"]


@app.verb
def attention(model: LoadedWithSkill, text: TextArgument, pair: PairArgument = None, out: OutOption = None) -> Rows:
    """Which token attends to which: every layer and head, as a page with choosers.

    Example: `clearhead look attention "The animal didn't cross the street because it was too tired"`
    """
    from clearhead.inside.trace import trace

    traced = trace(model, text, pair)
    layers, heads = len(traced.layers), traced.layers[0].heads
    yield _saved(traced.heads(), out, f"{len(traced.tokens)} tokens, {layers} layers of {heads} heads")


@app.verb
def step(
    model: LoadedWithSkill,
    text: TextArgument,
    token: str = Option(..., help="The token that attends: a word, or its number from 0."),
    layer: int = Option(0, help="The layer, from 0."),
    head: int = Option(0, help="The head, from 0."),
    out: OutOption = None,
) -> Rows:
    """One token in one head, step by step: query, keys, scores, weights, values.

    Example: `clearhead look step "The animal was tired, so it slept" --token it --layer 9 --head 3`
    """
    from clearhead.inside.trace import trace

    yield _saved(trace(model, text).step(int(token) if token.isdecimal() else token, layer, head), out)


@app.verb
def by_hand(out: OutOption = None) -> Rows:
    """Attention as a calculation whose numbers you change; it starts with the slides'. No model is needed.

    Example: `clearhead look by-hand`
    """
    from clearhead.inside.by_hand import by_hand

    yield _saved(by_hand(), out)


@app.verb
def input_(model: LoadedWithSkill, text: TextArgument, pair: PairArgument = None, out: OutOption = None) -> Rows:
    """What a model reads: tokens, and the embeddings of token, position and segment, added up.

    Example: `clearhead look input "Be alert!" "BERT will hurt!"`
    """
    from clearhead.inside.input_view import summed_input

    yield _saved(summed_input(model, text, pair), out)


@app.verb
def positions(
    model: ModelOption = None, length: int = Option(64, help="How many positions to show."), out: OutOption = None
) -> Rows:
    """How a position is written as a vector: sinusoidal, rotary, and with --model as this model has learnt it.

    Example: `clearhead look positions --length 128`
    """
    from clearhead.inside.input_view import position_tables

    yield _saved(position_tables(None if model is None else load_model(model), length=length), out)


@app.verb
def layers(model: LoadedWithSkill, text: TextArgument, pair: PairArgument = None, out: OutOption = None) -> Rows:
    """A text on its way through the layers: hidden states, what the mask head would predict, choices of features.

    Example: `clearhead look layers "He sat on the bank of the river"`
    """
    from clearhead.inside.layers import through_layers

    yield _saved(through_layers(model, text, pair), out)


@app.verb
def senses(
    model: LoadedWithSkill,
    word: str = Argument(..., help="The word; bank, apple and train have texts of their own."),
    texts: Annotated[list[str] | None, Argument(help='Texts with the word, or "-" for one a line.'), SAID] = None,
    files: InOption = None,
    out: OutOption = None,
) -> Rows:
    """One word in several texts: how near its occurrences are, as a table and as a map.

    Example: `clearhead look senses bank`
    """
    from clearhead.inside.senses import senses_of

    given = [one.text for one in given_texts(texts, files)] if texts or files else None
    yield _saved(senses_of(model, word, given), out)


@app.verb
def why(
    model: LoadedWithSkill,
    text: Annotated[str, Argument(help="The text, or the question."), SAID],
    pair: Annotated[str | None, Argument(help="A second text, or the context of a question."), SAID] = None,
    use: str | None = Option(None, help="What is explained: classify, answer, fill or follows."),
    target: str | None = Option(None, help="The label, token or answer to explain; else the best."),
    out: OutOption = None,
) -> Rows:
    """Which tokens an answer came from: five attribution methods side by side, and which of them is faithful here.

    Example: `clearhead look why "Text WIN to 80086 to claim your free prize" --skill spam`
    """
    from clearhead.inside.faithfulness import why

    view = why(model, text, pair, use=use, target=target)  # type: ignore[arg-type]
    best = ", ".join([view.data["faithful"], *view.data["as_faithful"]] if view.data["faithful"] else [])
    yield _saved(view, out, f"most faithful here: {best}" if best else "no method is better than chance here")


@app.verb
def decoding(
    model: LoadedGenerator,
    text: Annotated[str, Argument(help="The source, or the prompt."), SAID],
    num_beams: int = Option(1, help="Beams of the search; 1 is greedy."),
    max_new_tokens: int = Option(32, help="Most new tokens."),
    top_k: int = Option(5, help="Candidates to show at each step."),
    out: OutOption = None,
) -> Rows:
    """How a model generates: at each step the candidates, their probabilities, the attention, and the tree of beams.

    Example: `clearhead look decoding "Ein Hund läuft durch den Schnee." --num-beams 3 -m builtin:translator`
    """
    from clearhead.inside.decoding import decoding

    view = decoding(model, text, num_beams=num_beams, max_new_tokens=max_new_tokens, top_k=top_k)
    yield _saved(view, out, view.data["results"][0]["text"])


@app.verb
def runs(folders: list[Path] = Argument(..., help="Folders of training runs."), out: OutOption = None) -> Rows:
    """Training runs side by side: loss, learning rate, throughput and evaluation, as far as they have come.

    Example: `clearhead look runs ./my-model ./another-model`
    """
    from clearhead.inside.runs import training_runs

    view = training_runs(folders)
    yield _saved(view, out, f"{len(view.data['runs'])} runs")
