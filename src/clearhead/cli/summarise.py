"""`clearhead summarise`: the sentences that say most of a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, check_texts, print_json, progress, read_file


def summarise(
    files: Annotated[list[str] | None, typer.Argument(help='Files, each one text, or "-" for stdin.')] = None,
    sentences: Annotated[int, typer.Option(help="How many sentences to keep.")] = 3,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Keep the sentences that say most of a text, word for word and in order.

    Example: `clearhead summarise article.txt --sentences 3 --model ./my-model`
    """
    from clearhead.pipelines.model import load

    sources = files or ["-"]
    texts = [sys.stdin.read() if source == "-" else read_file(Path(source)) for source in sources]
    check_texts(texts)
    loaded = load(model)
    with progress("reading", None) as advance:
        summaries = loaded.summarise(texts, sentences=sentences, progress=advance)
    for source, found in zip(sources, summaries, strict=True):
        if json:
            print_json({"source": source, **found.to_dict()})
            continue
        if len(sources) > 1:
            typer.echo(f"{source}:")
        for one in found.sentences:
            typer.echo(" ".join(one.text.split()))
