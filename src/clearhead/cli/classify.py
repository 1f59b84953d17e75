"""`clearhead classify`: the class of a text."""

from typing import Annotated

import typer

from clearhead.cli.inout import (
    Int8Option,
    JsonOption,
    ModelOption,
    SkillOption,
    TextsArgument,
    TextsOption,
    given_texts,
    print_json,
    progress,
    quantised,
    shown,
)
from clearhead.cli.paint import tell


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
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Classify texts of any length.

    Example: `clearhead classify "Text WIN to 80086 to claim your free prize" --skill spam`
    """
    from clearhead.pipelines.model import load
    from clearhead.pipelines.zero_shot import TEMPLATE

    wanted = given_texts(texts, file)
    loaded = load(model, skill=skill)
    own = None if labels is None else [label.strip() for label in labels.split(",") if label.strip()]
    if int8 and own is None:
        loaded = quantised(loaded, "classify", wanted)
    elif int8 and own is not None:
        loaded = quantised(loaded, "compare", ((text, TEMPLATE.format(label)) for text in wanted for label in own))
    with progress("classifying", len(wanted)) as advance:
        if own is None:
            results = loaded.classify(wanted, top=top, progress=advance)
        else:
            results = loaded.zero_shot(wanted, own, top=top, progress=advance)
    for text, found in zip(wanted, results, strict=True):
        if json:
            print_json({"text": text, **found.to_dict()})
            continue
        for label, score in list(found.scores.items())[: top or 1]:
            tell(score, f"{label:<15}", shown(text))
