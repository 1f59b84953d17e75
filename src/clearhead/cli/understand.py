"""Verbs that understand text: ask, fill, classify, tag, compare, choose."""

from typing import Annotated

import typer

from clearhead.cli.options import (
    Int8Option,
    JsonOption,
    ModelOption,
    SkillOption,
    TextsArgument,
    TextsOption,
    check_texts,
    given_texts,
    print_json,
    progress,
    quantised,
    read_sources,
    shown,
)
from clearhead.cli.render import Mark, around, changed, for_people, marked, say, scored, tell


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
    from clearhead.pipelines.classification import TEMPLATE
    from clearhead.pipelines.model import load

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
