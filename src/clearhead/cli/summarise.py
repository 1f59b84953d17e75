"""`clearhead summarise`: the sentences that say most of a text, or a model's own."""

from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, print_json, progress, read_sources

if TYPE_CHECKING:
    from clearhead.pipelines.manner import How


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

    how: How = {} if least is None else {"least": least}
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
