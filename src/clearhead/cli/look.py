"""`clearhead look …`: pictures of what happens inside a model."""

from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from clearhead.cli.options import (
    SAID,
    InOption,
    Loaded,
    LoadedWithSkill,
    ModelOption,
    Output,
    Shared,
    SkillOption,
    Verbs,
    Written,
    given_pairs,
    given_texts,
    load_model,
    named_for,
)
from clearhead.cli.render import Row, Rows

if TYPE_CHECKING:
    from clearhead.inside.page import View
    from clearhead.pipelines.model import Model

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
def model_(model: LoadedWithSkill, text: TextArgument, pair: PairArgument = None, out: OutOption = None) -> Rows:
    """The whole model on one page: text, input sum, every block, the head and its answer, with the real numbers.

    Example: `clearhead look model "The animal was too [MASK] to cross the street"`
    """
    from clearhead.inside.model_view import whole_model

    yield _saved(whole_model(model, text, pair), out)


@app.verb
def block(
    model: LoadedWithSkill,
    text: TextArgument,
    pair: PairArgument = None,
    layer: int = Option(0, help="The layer that it opens at, from 0."),
    out: OutOption = None,
) -> Rows:
    """One block part by part: attention, add and norm, feed-forward, and the residual stream of each token as bars.

    Example: `clearhead look block "The animal was tired, so it slept" --layer 4`
    """
    from clearhead.inside.block_view import one_block

    yield _saved(one_block(model, text, pair, layer=layer), out)


@app.verb
def attention(model: LoadedWithSkill, text: TextArgument, pair: PairArgument = None, out: OutOption = None) -> Rows:
    """Which token attends to which: every layer and head, as a page with choosers.

    Example: `clearhead look attention "The animal didn't cross the street because it was too tired"`
    """
    from clearhead.inside.trace import trace

    traced = trace(model, text, pair)
    layers, heads = len(traced.layers), traced.layers[0].heads
    yield _saved(traced.heads(), out, f"{len(traced.tokens)} tokens, {layers} layers of {heads} heads")


TokenOption = Annotated[
    str | None, Option(help="The token that attends: a word, or its number from 0; else a telling one.")
]
LayerOption = Annotated[int | None, Option(help="The layer, from 0; else the one that tells most.")]
HeadOption = Annotated[int | None, Option(help="The head, from 0; else the one that tells most.")]


@app.verb
def qkv(
    model: ModelOption = None,
    skill: SkillOption = None,
    text: Annotated[
        str | None, Argument(help="The text to look at; without one, the slides' numbers alone."), SAID
    ] = None,
    token: TokenOption = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    out: OutOption = None,
) -> Rows:
    """Queries, keys and values: by hand with the slides' numbers, and of a text in one head, from x to what is added.

    Example: `clearhead look qkv "The animal was tired, so it slept" --token it`
    """
    from clearhead.inside.by_hand import by_hand
    from clearhead.inside.trace import trace

    if text is None:
        yield _saved(by_hand(), out)
        return
    view = trace(load_model(model, skill), text).step(_place(token), layer, head)
    yield _saved(view, out, f"layer {view.data['layer']}, head {view.data['head']}")


def _place(token: str | None) -> int | str | None:
    return int(token) if token is not None and token.isdecimal() else token


@app.verb
def step(
    model: LoadedWithSkill,
    text: TextArgument,
    token: str = Option(..., help="The token that attends: a word, or its number from 0."),
    layer: int = Option(0, help="The layer, from 0."),
    head: int = Option(0, help="The head, from 0."),
    out: OutOption = None,
) -> Rows:
    """One token in one head, step by step: the page of `look qkv`, opened there.

    Example: `clearhead look step "The animal was tired, so it slept" --token it --layer 9 --head 3`
    """
    from clearhead.inside.trace import trace

    yield _saved(trace(model, text).step(_place(token), layer, head), out)


@app.verb
def by_hand(out: OutOption = None) -> Rows:
    """Attention as a calculation whose numbers you change: the page of `look qkv`, without a model.

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
    model: ModelOption = None,
    length: int = Option(64, help="How many positions to show."),
    text: Annotated[
        str | None, Option(help="A text of which two words change places, with and without positions.")
    ] = None,
    out: OutOption = None,
) -> Rows:
    """How a position is written as a vector: curves, sinusoidal, rotary, and with --model as this model has learnt it.

    Example: `clearhead look positions --text "The dog bites the man" -m builtin:encoder`
    """
    from clearhead.inside.input_view import position_tables

    loaded = None if model is None and text is None else load_model(model)
    yield _saved(position_tables(loaded, length=length, text=text), out)


@app.verb
def pretraining(
    model: Loaded,
    text: TextArgument,
    rolls: int = Option(12, help="How often the dice are rolled."),
    seed: int = Option(0, help="Where the dice begin."),
    out: OutOption = None,
) -> Rows:
    """How a text is masked for pre-training, and the model's loss at each mask; pairs, replaced tokens and spans too.

    Example: `clearhead look pretraining "The man went to the store. He bought a gallon of milk."`
    """
    from clearhead.inside.pretraining_view import pretraining

    yield _saved(pretraining(model, text, rolls=rolls, seed=seed), out)


@app.verb
def heads(
    model: Loaded,
    text: Annotated[str | None, Argument(help="A text, or a question; else the lectures'."), SAID] = None,
    pair: PairArgument = None,
    out: OutOption = None,
) -> Rows:
    """The four fine-tuning diagrams live: sentence, pair, tags and span, before fine-tuning and after it.

    Example: `clearhead look heads "A warm, funny and clever film."`
    """
    from clearhead.inside.heads_view import heads_on_top

    yield _saved(heads_on_top(model, text, pair), out)


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


LoadedTranslator = Annotated[
    "Model", Shared(partial(load_model, use="translate"), model=(named_for("translate"), None))
]


@app.verb
def decoding(
    model: LoadedTranslator,
    text: Annotated[str, Argument(help="The source, or the prompt."), SAID],
    num_beams: int = Option(1, help="Beams of the search; 1 is greedy."),
    max_new_tokens: int = Option(32, help="Most new tokens."),
    top_k: int = Option(5, help="Candidates to show at each step."),
    beside: str | None = Option(None, help="Another model that translates, such as a recurrent one, beside it."),
    pairs: str | None = Option(None, help="A table of sources and references: quality by length is measured on it."),
    out: OutOption = None,
) -> Rows:
    """How a model generates: at each step the candidates, their probabilities, the attention, and the tree of beams.

    Example: `clearhead look decoding "Ein Hund läuft durch den Schnee." --num-beams 3`
    """
    from clearhead.inside.decoding import decoding

    other = None if beside is None else load_model(beside)
    given = None if pairs is None else [(one.first, one.second) for one in given_pairs(files=[pairs])[0]]
    view = decoding(
        model, text, num_beams=num_beams, max_new_tokens=max_new_tokens, top_k=top_k, beside=other, pairs=given
    )
    yield _saved(view, out, view.data["results"][0]["text"])


@app.verb
def bottleneck(
    text: str = Argument("43 27 81 96", help="Numbers from 21 to 99 that do not end in 0, up to 8 of them."),
    out: OutOption = None,
) -> Rows:
    """A recurrent translator beside one with attention and a Transformer, all three as wide, of German numbers.

    Example: `clearhead look bottleneck "43 27 81"`
    """
    from clearhead.inside.bottleneck import bottleneck

    view = bottleneck(text)
    yield _saved(view, out, "; ".join(f"{one['name']}: {one['text']}" for one in view.data["models"]))


@app.verb
def tables(out: OutOption = None) -> Rows:
    """The lectures' tables (GLUE, SQuAD, CoNLL …) with the rows of the built-in models. No model is needed.

    Example: `clearhead look tables`
    """
    from clearhead.inside.lecture_tables import lecture_tables

    yield _saved(lecture_tables(), out)


@app.verb
def runs(folders: list[Path] = Argument(..., help="Folders of training runs."), out: OutOption = None) -> Rows:
    """Training runs side by side: loss, learning rate, throughput and evaluation, as far as they have come.

    Example: `clearhead look runs ./my-model ./another-model`
    """
    from clearhead.inside.runs import training_runs

    view = training_runs(folders)
    yield _saved(view, out, f"{len(view.data['runs'])} runs")
