"""`clearhead choose`: which candidate fits a context best."""

from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, check_texts, print_json, shown
from clearhead.cli.paint import tell


def choose(
    context: Annotated[str, typer.Argument(help="What comes before.")],
    candidates: Annotated[list[str], typer.Argument(help="The candidates.")],
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Choose the candidate that fits a context best.

    Example: `clearhead choose "She opened the umbrella because" "it rained." "it was Monday."`
    """
    from clearhead.pipelines.model import load

    check_texts([context])
    found = load(model).choose(context, candidates)
    if json:
        print_json({"context": context, **found.to_dict()})
        return
    for score, text in sorted(zip(found.scores, candidates, strict=True), key=lambda pair: -pair[0]):
        tell(score, shown(text, 100))
