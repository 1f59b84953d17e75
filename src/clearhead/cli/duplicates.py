"""`clearhead duplicates`: texts that say the same."""

from typing import Annotated

import typer

from clearhead.cli.inout import (
    Int8Option,
    JsonOption,
    ModelOption,
    TextsArgument,
    TextsOption,
    given_texts,
    print_json,
    progress,
    quantised,
    shown,
)


def duplicates(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    threshold: Annotated[float, typer.Option(help="How near, by cosine, two texts must be.")] = 0.9,
    drop: Annotated[bool, typer.Option("--drop", help="Print the texts themselves, without the duplicates.")] = False,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Find texts that repeat another, letter for letter or nearly; they are counted from 0.

    Example: `clearhead duplicates --in texts.txt --drop > different.txt`
    """
    from clearhead.pipelines.duplicates import kept
    from clearhead.pipelines.model import load

    wanted = given_texts(texts, file)
    loaded = load(model)
    if int8:
        loaded = quantised(loaded, "embed", wanted)
    with progress("embedding", None) as advance:
        found = loaded.duplicates(wanted, threshold=threshold, progress=advance)
    if drop:
        for place in kept(len(wanted), found):
            if json:
                print_json({"index": place, "text": wanted[place]})
            else:
                typer.echo(wanted[place])
        return
    for one in found:
        if json:
            print_json({**one.to_dict(), "texts": [wanted[one.first], wanted[one.second]]})
        else:
            kind = "copy " if one.exact else f"{one.score:.3f}"
            typer.echo(f"{kind}  {one.first} {shown(wanted[one.first])}  =  {one.second} {shown(wanted[one.second])}")
