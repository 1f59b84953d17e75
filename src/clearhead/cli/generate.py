"""`clearhead generate`: a model writes on, and the text appears while it does."""

from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.inout import JsonOption, TextsArgument, TextsOption, WriterOption, print_json, read_texts

if TYPE_CHECKING:
    from clearhead.pipelines.manner import How
    from clearhead.pipelines.model import Model


def generate(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: WriterOption = None,
    longest: Annotated[int, typer.Option(help="Most new tokens.")] = 128,
    temperature: Annotated[float | None, typer.Option(help="Draw by chance; hotter is wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among so many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest that have this much together.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of chance: the same seed, the same text.")] = None,
    beams: Annotated[int | None, typer.Option(help="Beginnings that are kept at each step; no streaming.")] = None,
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
    options = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "beams": beams,
        "no_repeat": no_repeat,
        "repetition_penalty": repetition_penalty,
        "stop": stop,
    }
    how: How = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]
    loaded = load(model)
    if json:
        for prompt, one in zip(given, loaded.generate(given, longest=longest, **how), strict=True):
            print_json({"prompt": prompt, **one.to_dict()})
        return
    for prompt in given:
        _show(loaded, prompt, longest, how)


def _show(model: "Model", prompt: str, longest: int, how: "How") -> None:
    """Print the prompt, unless it is a source, and what goes on from it as it comes."""
    before = "" if model.writer.sourced else prompt
    if how.get("beams", 1) > 1:
        typer.echo(before + model.generate(prompt, longest=longest, **how).text)
        return
    pieces = model.stream(prompt, longest=longest, **how)
    typer.echo(before + next(pieces, ""), nl=False)  # what is refused is refused now, and nothing was printed
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()
