"""Verbs that understand text: ask, fill, classify, tag, compare, choose."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from clearhead.cli.options import (
    Int8Option,
    Loaded,
    LoadedWithSkill,
    Shared,
    Texts,
    Verbs,
    comma_separated,
    nonempty,
    progress,
    quantised,
    read_sources,
)
from clearhead.cli.render import Line, Mark, Rows, difference, in_colour, in_context, marked, scored, shorten

if TYPE_CHECKING:
    from clearhead.pipelines.fill_mask import Filled
    from clearhead.pipelines.question_answering import Answer
    from clearhead.pipelines.token_classification import Tagged

app = Verbs()

CONTEXT = 'A file to look in, or "-" for stdin (the default); more than one may be.'
ContextOption = Annotated[list[str] | None, Option("--context", help=CONTEXT)]
Contexts = Annotated[list[tuple[str, str]], Shared(read_sources, files=(ContextOption, None))]


@app.verb
def ask(
    *,
    question: str = Argument(..., callback=nonempty, help="The question."),
    contexts: Contexts,
    model: LoadedWithSkill,
    top_k: int = Option(1, help="How many answers to show, the best first."),
    threshold: float | None = Option(
        None, help="By how much “no answer” may be better; inf: always answer. Default: the skill's own, or 0."
    ),
) -> Rows:
    """Find the answer to a question in texts of any length: a verbatim slice, or nothing.

    Example: `clearhead ask "When did the war end?" --context history.txt`
    """
    texts = [text for _, text in contexts]
    with progress("reading", len(texts)) as advance:
        results = model.answer(question, texts, top_k=top_k, threshold=threshold, progress=advance)
    for (name, text), found in zip(contexts, results, strict=True):
        record = {"question": question, "context": name, **found.to_dict()}
        yield record, _answer_lines(found, text, f"  {name}" if len(contexts) > 1 else "")


def _answer_lines(found: "Answer", text: str, where: str) -> Iterator[Line]:
    if found.text is None:
        yield f"{found.score:.3f}  (no answer){where}"
        return
    for one in found.candidates:
        yield scored(one.score, shorten(one.text, 200), f"({one.start}–{one.end}){where}")
        if in_colour():
            yield in_context(text, Mark(one.start, one.end))


@app.verb
def fill(
    texts: Texts,
    model: Loaded,
    top_k: int = Option(5, help="How many words to show for each mask."),
    candidates: str | None = Option(None, help="Rank only these words, separated by commas."),
    int8: Int8Option = False,
) -> Rows:
    """Fill the masks of a text; write the model's own mask, such as [MASK], where a word is wanted.

    Example: `clearhead fill "If you don't want to inhale virus, wear a [MASK]."`
    """
    if int8:
        model = quantised(model, "fill", texts)
    with progress("filling", len(texts)) as advance:
        results = model.fill(texts, top_k=top_k, candidates=comma_separated(candidates), progress=advance)
    for text, found in zip(texts, results, strict=True):
        yield {"text": text, **found.to_dict()}, _filled_lines(text, found)


def _filled_lines(text: str, found: "Filled") -> Iterator[Line]:
    for one in found.predictions:
        filled = marked(one.sequence, [difference(text, one.sequence)]) if in_colour() else shorten(one.sequence, 100)
        yield scored(one.score, f"{one.token:<15}", filled)


@app.verb
def classify(
    texts: Texts,
    model: LoadedWithSkill,
    top_k: int | None = Option(None, help="How many labels to show. Default: the best; all with --json."),
    labels: str | None = Option(None, help="Labels of your own, separated by commas, for zero-shot classification."),
    int8: Int8Option = False,
) -> Rows:
    """Classify texts of any length.

    Example: `clearhead classify "Text WIN to 80086 to claim your free prize" --skill spam`
    """
    from clearhead.pipelines.classification import TEMPLATE

    own = [label for label in comma_separated(labels) or [] if label]
    if int8 and labels is None:
        model = quantised(model, "classify", texts)
    elif int8:
        model = quantised(model, "compare", ((text, TEMPLATE.format(label)) for text in texts for label in own))
    use: Any = model.classify if labels is None else partial(model.zero_shot, labels=own)
    with progress("classifying", len(texts)) as advance:
        results = use(texts, top_k=top_k, progress=advance)
    for text, found in zip(texts, results, strict=True):
        best = list(found.scores.items())[: top_k or 1]
        yield {"text": text, **found.to_dict()}, (scored(score, f"{label:<15}", shorten(text)) for label, score in best)


@app.verb
def tag(
    texts: Texts,
    model: LoadedWithSkill,
    aggregation_strategy: str = Option("first", help="How tokens become entities: first, simple, average or max."),
    words: bool = Option(False, "--words", help="Show every word's label, not the entities."),
    int8: Int8Option = False,
) -> Rows:
    """Find the entities of texts of any length, or label every word.

    Example: `clearhead tag "Ada Lovelace lived in London."`
    """
    if int8:
        model = quantised(model, "tag", texts)
    with progress("tagging", len(texts)) as advance:
        results = model.tag(texts, aggregation_strategy=aggregation_strategy, progress=advance)  # type: ignore[call-overload]
    for text, found in zip(texts, results, strict=True):
        yield {"text": text, **found.to_dict()}, _tag_lines(text, found, words=words)


def _tag_lines(text: str, found: "Tagged", *, words: bool) -> Iterator[Line]:
    if in_colour():
        yield marked(text, [Mark(one.start, one.end, one.label) for one in found.entities])
    for one in found.words if words else found.entities:
        yield scored(one.score, f"{one.label:<9}", f"{one.text}  ({one.start}–{one.end})")


@app.verb
def compare(
    *,
    first: str = Argument(..., callback=nonempty, help="One text."),
    second: str = Argument(..., callback=nonempty, help="The other text."),
    model: LoadedWithSkill,
    top_k: int | None = Option(None, help="How many labels to show."),
) -> Rows:
    """Classify a pair of texts: entailment, paraphrase, a similarity score, whatever the model was trained for.

    Example: `clearhead compare "A man sleeps." "Nobody is awake."`
    """
    found = model.compare(first, second, top_k=top_k)
    lines = (scored(score, label) for label, score in found.scores.items())
    yield {"first": first, "second": second, **found.to_dict()}, lines


@app.verb
def choose(
    *,
    context: str = Argument(..., callback=nonempty, help="What comes before."),
    candidates: list[str] = Argument(..., help="The candidates."),
    model: Loaded,
) -> Rows:
    """Choose the candidate that fits a context best.

    Example: `clearhead choose "She opened the umbrella because" "it rained." "it was Monday."`
    """
    found = model.choose(context, candidates)
    ranked = sorted(zip(found.scores, candidates, strict=True), key=lambda pair: -pair[0])
    yield {"context": context, **found.to_dict()}, (scored(score, shorten(text, 100)) for score, text in ranked)
