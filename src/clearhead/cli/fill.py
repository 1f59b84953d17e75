"""`clearhead fill`: the word behind a mask."""

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
from clearhead.cli.paint import changed, for_people, marked, say, scored


def fill(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    top: Annotated[int, typer.Option(help="How many words to show for each mask.")] = 5,
    candidates: Annotated[str | None, typer.Option(help="Rank only these words, separated by commas.")] = None,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Fill the masks of a text; write the model's own mask, such as [MASK], where a word is wanted.

    Example: `clearhead fill "If you don't want to inhale virus, wear a [MASK]."`
    """
    from clearhead.pipelines.model import load

    wanted = given_texts(texts, file)
    words = [word.strip() for word in candidates.split(",")] if candidates is not None else None
    loaded = load(model)
    if int8:
        loaded = quantised(loaded, "fill", wanted)
    with progress("filling", len(wanted)) as advance:
        results = loaded.fill(wanted, top=top, candidates=words, progress=advance)
    for text, found in zip(wanted, results, strict=True):
        if json:
            print_json({"text": text, **found.to_dict()})
            continue
        for one in found.predictions:
            if for_people():
                line = scored(one.score, f"{one.token:<16}", "")
                say(line.append_text(marked(one.sequence, [changed(text, one.sequence)])))
                continue
            typer.echo(f"{one.score:.3f}  {one.token:<16} {shown(one.sequence, 100)}")
