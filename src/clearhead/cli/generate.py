"""Verbs that write: generate, translate, summarise."""

from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import (
    BestOption,
    JsonOption,
    ModelOption,
    PenaltyOption,
    TextsArgument,
    TextsOption,
    WriterOption,
    given_texts,
    print_json,
    progress,
    read_sources,
    read_texts,
)
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.decoding.config import GenerationOptions
    from clearhead.pipelines.model import Model


def generate(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: WriterOption = None,
    longest: Annotated[int | None, typer.Option(help="Most new tokens.", show_default="128")] = None,
    least: Annotated[int | None, typer.Option(help="Fewest new tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Draw by chance; hotter is wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among so many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest that have this much together.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of chance: the same seed, the same texts.")] = None,
    beams: Annotated[int | None, typer.Option(help="Beginnings that are kept at each step; no streaming.")] = None,
    best: BestOption = None,
    length_penalty: PenaltyOption = None,
    no_repeat: Annotated[int | None, typer.Option(help="No so many tokens follow one another twice.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: less of what was there before.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop after this text; may be given more than once.")] = None,
    json: JsonOption = False,
) -> None:
    """Write on from a prompt; greedily, unless chance or beams are asked for.

    Example: `clearhead generate "Once upon a time" --temperature 0.8 --top-k 50 --model ./my-gpt`
    """
    from clearhead.pipelines.model import load

    given = read_texts(texts or [], file)
    require(bool(given), "there is no prompt; give one as an argument, or one a line", BadInput)
    options = {
        "least": least,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "beams": beams,
        "best": best,
        "length_penalty": length_penalty,
        "no_repeat": no_repeat,
        "repetition_penalty": repetition_penalty,
        "stop": stop,
    }
    how: GenerationOptions = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]
    loaded = load(model)
    if longest is not None:
        _warn(loaded, given, longest)
    most = 128 if longest is None else longest
    several = how.get("best", 1) > 1
    if len(given) == 1 and not json and not several and how.get("beams", 1) == 1:
        _stream(loaded, given[0], most, how)
        return
    with progress("writing", len(given)) as advance:
        # of an iterator, texts come as they are written
        found = loaded.generate(iter(given), longest=most, progress=advance, **how)
        for prompt, ways in zip(given, found, strict=True):
            for one in ways if several else [ways]:
                if json:
                    print_json({"prompt": prompt, **one.to_dict()})
                else:
                    typer.echo(_before(loaded, prompt) + one.text)


def _stream(model: "Model", prompt: str, longest: int, how: "GenerationOptions") -> None:
    """Print the prompt and what goes on from it as it comes."""
    pieces = model.stream(prompt, longest=longest, **how)
    first = next(pieces, "")  # what is refused is refused now, and nothing was printed
    typer.echo(_before(model, prompt) + first, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()


def _before(model: "Model", prompt: str) -> str:
    """What a text that was written is printed after: its prompt, unless that is a source."""
    return "" if model.writer.sourced else prompt


def _warn(model: "Model", prompts: list[str], longest: int) -> None:
    """Say where the model has fewer positions than the text may be long."""
    writer = model.writer
    room = min(writer.limit(len(ids), longest) for ids in writer.ids(prompts))
    if room < longest:
        where = "" if writer.sourced else " after the longest prompt"
        typer.echo(
            f"note: the model has {writer.positions} positions, room for {room} new tokens{where}, not {longest}",
            err=True,
        )


def translate(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: WriterOption = None,
    beams: Annotated[int, typer.Option(help="Beginnings that are kept at each step; 1 is greedy.")] = 4,
    best: BestOption = None,
    length_penalty: PenaltyOption = None,
    prefix: Annotated[str, typer.Option(help='Put before every sentence: "translate English to German: ".')] = "",
    json: JsonOption = False,
) -> None:
    """Translate texts, sentence by sentence, by an OPUS-MT, T5 or recurrent model, or one trained here.

    Example: `clearhead translate "Ich muss auf den Markt gehen." --model ./de-en`
    """
    from clearhead.pipelines.model import load

    given = given_texts(texts, file)
    options = {"beams": beams, "best": best, "length_penalty": length_penalty}
    how: GenerationOptions = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]
    loaded = load(model)
    with progress("translating", None) as advance:
        # of an iterator, translations come as they are made
        found = loaded.translate(iter(given), prefix=prefix, progress=advance, **how)
        for text, ways in zip(given, found, strict=True):
            for one in ways if how.get("best", 1) > 1 else [ways]:
                if json:
                    print_json({"source": text, "translation": one.text, "parts": one.to_dict()["parts"]})
                else:
                    typer.echo(one.text)


def summarise(
    files: Annotated[list[str] | None, typer.Argument(help='Files, each one text, or "-" for stdin.')] = None,
    sentences: Annotated[int | None, typer.Option(help="How many sentences to keep.", show_default="3")] = None,
    abstractive: Annotated[
        bool, typer.Option("--abstractive", help="In the model's own words; it must write, as T5 does.")
    ] = False,
    longest: Annotated[
        int | None, typer.Option(help="Of --abstractive: most tokens of a portion.", show_default="200")
    ] = None,
    least: Annotated[
        int | None, typer.Option(help="Of --abstractive: fewest tokens of a portion.", show_default="30 by a T5")
    ] = None,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Keep the sentences that say most of a text, word for word and in order; or let a model tell it anew.

    Example: `clearhead summarise article.txt --sentences 3`
    """
    from clearhead.pipelines.model import load

    how: GenerationOptions = {} if least is None else {"least": least}
    sources = files or ["-"]
    texts = read_sources(sources)
    loaded = load(model)
    with progress("reading", None) as advance:
        summaries = loaded.summarise(
            texts, sentences=sentences, abstractive=abstractive, longest=longest, progress=advance, **how
        )
    for source, found in zip(sources, summaries, strict=True):
        if json:
            print_json({"source": source, **({"summary": found.text} if abstractive else found.to_dict())})
            continue
        if len(sources) > 1:
            typer.echo(f"{source}:")
        for line in [found.text] if abstractive else [" ".join(one.text.split()) for one in found.sentences]:
            typer.echo(line)
