"""`clearhead senses`: what a word means in each sentence."""

from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, TextsOption, given_texts, print_json, shown


def senses(
    word: Annotated[list[str], typer.Argument(help="The word; other forms of it, such as its plural, may follow.")],
    file: TextsOption = None,
    model: ModelOption = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers whose mean to take, from 0 or from -1, the last. Default: the last four.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="How near, by cosine, occurrences of one sense are. Default: 0.85, or by the model."),
    ] = None,
    count: Annotated[int | None, typer.Option(help="How many senses to make, whatever the threshold.")] = None,
    json: JsonOption = False,
) -> None:
    """Group the occurrences of a word by meaning, in texts from a file or stdin, and show how near they are.

    Example: `clearhead senses bank banks --in sentences.txt`
    """
    from clearhead.cli.embed import numbers_of
    from clearhead.pipelines.model import load

    texts = given_texts(None, file)
    chosen = None if layers is None else numbers_of(layers)
    found = load(model).senses(word, texts, layers=chosen, threshold=threshold, count=count)
    if json:
        print_json({"word": word, **found.to_dict()})
        return
    order = [place for group in found.groups for place in group]
    for place in order:
        one = found.occurrences[place]
        cosines = " ".join(f"{cosine:.2f}" for cosine in found.cosines[place][order])
        before, whole = shown(texts[one.index][: one.start][::-1], 30)[::-1], texts[one.index]
        typer.echo(f"{one.sense}  {cosines}  {shown(f'{before} {whole[one.start :]}')}")
