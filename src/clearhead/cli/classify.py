"""`clearhead classify`: the class of a text."""

from typing import Annotated

import typer

from clearhead.cli.inout import (
    JsonOption,
    ModelOption,
    SkillOption,
    TextsArgument,
    TextsOption,
    given_texts,
    print_json,
    progress,
    shown,
)
from clearhead.cli.paint import for_people, say, scored


def classify(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    skill: SkillOption = None,
    top: Annotated[
        int | None, typer.Option(help="How many labels to show. Default: the best; all with --json.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Labels of your own, divided by commas; for a checkpoint trained on inference."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Classify texts of any length.

    Example: `clearhead classify "WIN a prize now" --model ./my-model`
    """
    from clearhead.pipelines.model import load

    wanted = given_texts(texts, file)
    loaded = load(model, skill=skill)
    with progress("classifying", len(wanted)) as advance:
        if labels is None:
            results = loaded.classify(wanted, top=top, progress=advance)
        else:
            own = [label.strip() for label in labels.split(",") if label.strip()]
            results = loaded.zero_shot(wanted, own, top=top, progress=advance)
    for text, found in zip(wanted, results, strict=True):
        if json:
            print_json({"text": text, **found.to_dict()})
            continue
        for label, score in list(found.scores.items())[: top or 1]:
            if for_people():
                say(scored(score, f"{label:<16}", shown(text)))
            else:
                typer.echo(f"{score:.3f}  {label:<16} {shown(text)}")
