"""`clearhead ask`: the answer to a question, from one's own text."""

from typing import Annotated

import typer

from clearhead.cli.inout import (
    JsonOption,
    ModelOption,
    SkillOption,
    check_texts,
    print_json,
    progress,
    read_sources,
    shown,
)
from clearhead.cli.paint import Mark, around, for_people, say, tell


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    context: Annotated[
        list[str] | None, typer.Option(help='A file to look in, or "-" for stdin (the default); more than one may be.')
    ] = None,
    model: ModelOption = None,
    skill: SkillOption = None,
    top: Annotated[int, typer.Option(help="How many answers to show.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Say nothing when “no answer” is better by more than this; inf: always answer. "
            "Default: the skill's own, or 0."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the answer to a question in texts of any length: a verbatim slice, or nothing.

    Example: `clearhead ask "When did the war end?" --context history.txt`
    """
    from clearhead.pipelines.model import load

    check_texts([question])
    sources = context or ["-"]
    texts = read_sources(sources)
    loaded = load(model, skill=skill)
    with progress("reading", len(texts)) as advance:
        results = loaded.answer(question, texts, top=top, threshold=threshold, progress=advance)
    for source, text, found in zip(sources, texts, results, strict=True):
        if json:
            print_json({"question": question, "context": source, **found.to_dict()})
            continue
        where = f"  {source}" if len(sources) > 1 else ""
        if found.text is None:
            typer.echo(f"{found.score:.3f}  (no answer){where}")
            continue
        for one in found.candidates:
            tell(one.score, shown(one.text, 200), f"({one.start}–{one.end}){where}")
            if for_people():
                say(around(text, Mark(one.start, one.end)))
