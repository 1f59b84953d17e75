"""Verbs that generate text: generate, translate, summarise."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from clearhead.cli.options import (
    TEXTS,
    JsonOption,
    Loaded,
    LoadedGenerator,
    Shared,
    Texts,
    Verbs,
    given,
    progress,
    read_sources,
    read_texts,
)
from clearhead.cli.render import Rows
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

app = Verbs()
Prompts = Annotated[list[str], Shared(lambda **of: list(read_texts(**of)), **TEXTS)]
_TEMPERATURE = "Sample: below 1 likely tokens become likelier, above 1 the text is wilder."
_TOP_P = "Sample among the most probable tokens that add up to this probability."
_SEVERAL: dict[str, tuple[Any, Any]] = {
    "num_return_sequences": (int | None, Option(None, help="How many versions of each text to give, the best first.")),
    "length_penalty": (float | None, Option(None, help="Of beams: above 1 favours long texts, below 1 short ones.")),
}
GenerationOptions = Annotated[
    dict[str, Any],
    Shared(
        given,
        min_new_tokens=(int | None, Option(None, help="Fewest new tokens.")),
        temperature=(float | None, Option(None, help=_TEMPERATURE)),
        top_k=(int | None, Option(None, help="Sample among the k most probable tokens.")),
        top_p=(float | None, Option(None, help=_TOP_P)),
        seed=(int | None, Option(None, help="Of sampling: the same seed gives the same texts.")),
        num_beams=(int | None, Option(None, help="Beam search with so many beams; the text is not streamed.")),
        **_SEVERAL,
        no_repeat_ngram_size=(int | None, Option(None, help="No n-gram of this size comes twice.")),
        repetition_penalty=(float | None, Option(None, help="Above 1: tokens that came before are rarer.")),
        stop_strings=(list[str] | None, Option(None, help="Stop after this string; may be given more than once.")),
    ),
]


@app.verb
def generate(
    *,
    prompts: Prompts,
    model: LoadedGenerator,
    max_new_tokens: int | None = Option(None, help="Most new tokens.", show_default="128"),
    options: GenerationOptions,
    json: JsonOption = False,
) -> Rows:
    """Generate text from a prompt: greedily, unless sampling or beams are asked for.

    Example: `clearhead generate "Once upon a time" --temperature 0.8 --top-k 50 --model ./my-gpt`
    """
    require(bool(prompts), "there is no prompt; give one as an argument, or one a line", BadInput)
    if max_new_tokens is not None:
        _note_limit(model, prompts, max_new_tokens)
    options["max_new_tokens"] = 128 if max_new_tokens is None else max_new_tokens
    single = options.get("num_return_sequences", 1) <= 1 and options.get("num_beams", 1) == 1
    if len(prompts) == 1 and not json and single:
        _print_stream(model, prompts[0], options)
        return
    with progress("generating", len(prompts)) as advance:
        # of an iterator, texts come as they are written
        found: Iterator[Any] = model.generate(iter(prompts), progress=advance, **options)
        for prompt, written in zip(prompts, found, strict=True):
            for one in written if "num_return_sequences" in options else [written]:
                yield {"prompt": prompt, **one.to_dict()}, [_shown_prompt(model, prompt) + one.text]


def _print_stream(model: "Model", prompt: str, options: dict[str, Any]) -> None:
    """Print the prompt and what goes on from it, token by token."""
    pieces = model.stream(prompt, **options)
    first = next(pieces, "")  # what is refused is refused now, and nothing was printed
    typer.echo(_shown_prompt(model, prompt) + first, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()


def _shown_prompt(model: "Model", prompt: str) -> str:
    """What stands before a text that was generated: its prompt, unless that is the source of an encoder."""
    return "" if model.generator.sourced else prompt


def _note_limit(model: "Model", prompts: list[str], max_new_tokens: int) -> None:
    """Say where the model has fewer positions than the text may be long."""
    writer = model.generator
    room = min(writer.limit(len(ids), max_new_tokens) for ids in writer.ids(prompts))
    if room < max_new_tokens:
        room_for = f"{room} new tokens{'' if writer.sourced else ' after the longest prompt'}, not {max_new_tokens}"
        typer.echo(f"note: the model has {writer.positions} positions, room for {room_for}", err=True)


@app.verb
def translate(
    *,
    texts: Texts,
    model: LoadedGenerator,
    num_beams: int = Option(4, help="Beams of the search; 1 is greedy."),
    options: Annotated[dict[str, Any], Shared(given, **_SEVERAL)],
    prefix: str = Option("", help='Put before every sentence: "translate English to German: ".'),
) -> Rows:
    """Translate texts, sentence by sentence, by an OPUS-MT, T5 or recurrent model, or one trained here.

    Example: `clearhead translate "Ich muss auf den Markt gehen." --model ./de-en`
    """
    with progress("translating", None) as advance:
        # of an iterator, translations come as they are made
        found = model.translate(iter(texts), prefix=prefix, num_beams=num_beams, progress=advance, **options)
        for text, written in zip(texts, found, strict=True):
            for one in written if "num_return_sequences" in options else [written]:
                yield {"source": text, "translation": one.text, "parts": one.to_dict()["parts"]}, [one.text]


_ABSTRACTIVE = "In the model's own words; it must be a generator, such as a T5."
_MOST = "Of --abstractive: most tokens for a part of the text."
_FEWEST = "Of --abstractive: fewest tokens for a part."
FilesArgument = Annotated[list[str] | None, Argument(help='Files, each one text, or "-" for stdin.')]
Sources = Annotated[list[tuple[str, str]], Shared(read_sources, files=(FilesArgument, None))]


@app.verb
def summarise(
    *,
    sources: Sources,
    model: Loaded,
    sentences: int | None = Option(None, help="How many sentences to keep.", show_default="3"),
    abstractive: bool = Option(False, "--abstractive", help=_ABSTRACTIVE),
    max_new_tokens: int | None = Option(None, help=_MOST, show_default="200"),
    min_new_tokens: int | None = Option(None, help=_FEWEST, show_default="30 by a T5"),
) -> Rows:
    """Keep the sentences that say most of a text, word for word and in order; or generate a summary.

    Example: `clearhead summarise article.txt --sentences 3`
    """
    options = given(sentences=sentences, max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens)
    texts = [text for _, text in sources]
    with progress("reading", None) as advance:
        summaries: Any = model.summarise(texts, abstractive=abstractive, progress=advance, **options)
    for (name, _), found in zip(sources, summaries, strict=True):
        record = {"summary": found.text} if abstractive else found.to_dict()
        lines = [found.text] if abstractive else [" ".join(one.text.split()) for one in found.sentences]
        yield {"source": name, **record}, [f"{name}:", *lines] if len(sources) > 1 else lines
