"""`clearhead tag`: entities and words with their labels."""

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
)
from clearhead.cli.paint import Mark, for_people, marked, say, tell


def tag(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    skill: SkillOption = None,
    strategy: Annotated[str, typer.Option(help="How pieces become entities: first, simple, average or max.")] = "first",
    words: Annotated[bool, typer.Option("--words", help="Show every word's label, not the entities.")] = False,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Find the entities of texts of any length, or label every word.

    Example: `clearhead tag "Ada Lovelace lived in London."`
    """
    from clearhead.pipelines.model import load

    wanted = given_texts(texts, file)
    loaded = load(model, skill=skill)
    if int8:
        loaded = quantised(loaded, "tag", wanted)
    with progress("tagging", len(wanted)) as advance:
        results = loaded.tag(wanted, strategy=strategy, progress=advance)  # type: ignore[arg-type]
    for text, found in zip(wanted, results, strict=True):
        if json:
            print_json({"text": text, **found.to_dict()})
            continue
        if for_people():
            say(marked(text, [Mark(one.start, one.end, one.label) for one in found.entities]))
        for one in found.words if words else found.entities:
            tell(one.score, f"{one.label:<9}", f"{one.text}  ({one.start}–{one.end})")
