"""`clearhead cluster`: texts that belong together."""

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


def cluster(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    threshold: Annotated[float | None, typer.Option(help="How near, by cosine, texts of a group are.")] = None,
    clusters: Annotated[int | None, typer.Option(help="How many groups to make, by k-means.")] = None,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Group texts by meaning: the size of each group and its most central text, or with --json its members too.

    Example: `clearhead cluster --in texts.txt --threshold 0.6`
    """
    from clearhead.errors import BadInput, require
    from clearhead.pipelines.model import load

    require((threshold is None) != (clusters is None), "give --threshold or --clusters, one of the two", BadInput)
    wanted = given_texts(texts, file)
    loaded = load(model)
    if int8:
        loaded = quantised(loaded, "embed", wanted)
    with progress("embedding", len(wanted)) as advance:
        groups = loaded.cluster(wanted, threshold=threshold, clusters=clusters, progress=advance)
    for group in groups:
        if json:
            print_json({"text": wanted[group.centre], **group.to_dict()})
        else:
            typer.echo(f"{len(group.members):>6}  {shown(wanted[group.centre], 100)}")
