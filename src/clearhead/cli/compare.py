"""`clearhead compare`: how two texts relate."""

from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, SkillOption, check_texts, print_json
from clearhead.cli.paint import tell


def compare(
    first: Annotated[str, typer.Argument(help="One text.")],
    second: Annotated[str, typer.Argument(help="The other text.")],
    model: ModelOption = None,
    skill: SkillOption = None,
    top: Annotated[int | None, typer.Option(help="How many labels to show.")] = None,
    json: JsonOption = False,
) -> None:
    """Classify a pair of texts: entailment, paraphrase, a similarity score, whatever the model was trained for.

    Example: `clearhead compare "A man sleeps." "Nobody is awake."`
    """
    from clearhead.pipelines.model import load

    check_texts([first])
    check_texts([second])
    found = load(model, skill=skill).compare(first, second, top=top)
    if json:
        print_json({"first": first, "second": second, **found.to_dict()})
        return
    for label, score in found.scores.items():
        tell(score, label)
