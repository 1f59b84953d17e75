"""Verbs that understand text: ask, fill, classify, tag, compare, follows, choose."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from clearhead.cli.options import (
    SAID,
    AnyModel,
    AnyModelWithSkill,
    GivenPairs,
    GivenTexts,
    Int8Option,
    Pair,
    SkillOption,
    Text,
    Verbs,
    at_a_service,
    comma_separated,
    each,
    each_pair,
    expect_many,
    in_parts,
    nonempty,
    note,
    progress,
    quantised,
    sample,
    whole_texts,
)
from clearhead.cli.render import Line, Mark, Row, Rows, difference, in_colour, in_context, marked, scored, shorten
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.pipelines.fill_mask import Filled
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.question_answering import Answer, FoundAnswer
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.token_classification import Labelled

app = Verbs()
_WORDS = "Every word's label, not the entities; with --json, words beside the entities (the default) or not."

CHOICES = "A table of contexts and choices, in the formats of finetune choose (SWAG, RACE, DREAM, MuTual)."
CONTEXT = 'A file to look in, or a folder to search; "-" is stdin (the default).'
INDEX = "A saved index to look in, as `clearhead search … --index` writes one; with --server, the name of one there."

STORE = "A store to look in, as `clearhead index` fills it: postgresql://…, lancedb:///FOLDER, or a folder."


@app.verb
def ask(
    *,
    question: Annotated[
        str | None, Argument(help="The question; without one, --in names files of questions."), SAID
    ] = None,
    texts: Annotated[list[str] | None, Argument(help="Texts to look in; with --context, more files."), SAID] = None,
    files: Annotated[list[str] | None, Option("--context", "--in", help=CONTEXT)] = None,
    index: Annotated[Path | None, Option(help=INDEX)] = None,
    store: Annotated[str | None, Option(metavar="URL", help=STORE)] = None,
    model: AnyModel,
    skill: SkillOption = None,
    top_k: int = Option(1, help="How many answers to show, the best first."),
    threshold: float | None = Option(
        None, help="By how much “no answer” may be better; inf: always answer. Default: the skill's own, or 0."
    ),
) -> Rows:
    """Find the answer to a question in texts of any length, or in a folder of documents: a verbatim slice, or nothing.

    A file of questions has columns question and context (SQuAD's .json, .jsonl, .csv, .tsv, .parquet), or with --index
    questions alone. `clearhead answer` is the same verb.

    Examples: `clearhead ask "When did the war end?" --context history.txt`, `clearhead ask --in questions.jsonl --json`
    """
    # the model with all its skills, since another finds the passages
    options: dict[str, Any] = {"skill": skill, "top_k": top_k, "threshold": threshold}
    if question is None:
        todo = "no question given; write one, or name a file of questions with --in"
        require(bool(files) and not texts, todo, BadInput)
        yield from _answer_each(files or [], index, model, options)
        return
    nonempty(question)
    folders = [name for name in files or () if Path(name).is_dir()]
    if store is not None:
        told = "--store is searched from here; leave --server out, or name an index of the service: --index NAME"
        require(at_a_service(model) is None, told, BadInput)
        require(not files and not texts and index is None, "give --store or what to look in, not both", BadInput)
        from clearhead.pipelines.search.stored import StoredIndex

        with StoredIndex.open(store, model) as stored:
            yield _answered(question, model.answer(question, stored, **options))
        return
    if (client := at_a_service(model)) is not None and (index is not None or folders):
        told = f"a service does not search {''.join(folders[:1])!r} of this machine; name files, or its index: --index"
        require(not folders, f"{told} NAME", BadInput)
        require(not files and not texts, "give --index or what to look in, not both", BadInput)
        yield _answered(question, client.answer(question, index=str(index), **options))
        return
    if index is not None or folders:
        yield _answered(question, model.answer(question, _searched(index, files, texts, model), **options))
        return
    contexts = whole_texts(texts, files)
    several = len(contexts.first(2)) > 1
    for one, found in each("reading", contexts, partial(model.answer, question), **options):
        record = {"question": question, "context": one.source, **found.to_dict()}
        yield record, _answer_lines(found, one.text, f"  {one.place}" if several else "")


def _answer_each(files: list[str], index: Path | None, model: "Model", options: dict[str, Any]) -> Rows:
    """Answer the questions of files, each in its own context, or all out of an index."""
    from clearhead.data.published import read_asked

    asked = [one for file in files for one in read_asked(file, contexts=index is None)]
    expect_many()
    client = at_a_service(model)
    found_in = None if index is None or client is not None else _searched(index, None, None, model)
    with progress("reading", len(asked)) as advance:
        for part in in_parts(asked, lambda one: len(one.question) + len(one.context)):
            questions = [one.question for one in part]
            if client is not None and index is not None:
                answers: Any = client.answer(questions, index=str(index), progress=advance, **options)
            else:
                where = found_in or [one.context for one in part]
                answers = model.answer(questions, where, progress=advance, **options)
            for one, found in zip(part, answers, strict=True):
                record = {"id": one.id, "question": one.question, **found.to_dict()}
                yield record, [shorten(one.question, 100), *_answer_lines(found, one.context, "")]


def _searched(index: Path | None, files: list[str] | None, texts: list[str] | None, model: "Model") -> "Index":
    """The index that was named; of folders one of their words, which takes no time to make."""
    from clearhead.data.documents import read_documents
    from clearhead.pipelines.search.index import Index

    if index is None:
        return Index.build(read_documents([*(files or []), *(texts or [])], note))
    require(not files and not texts, "give --index or what to look in, not both", BadInput)
    return Index.load(index, model)


def _answered(question: str, found: "FoundAnswer") -> Row:
    record = found.to_dict()
    source = record.pop("source")
    lines = [
        scored(one.score, shorten(one.text, 200), f"({one.start}–{one.end})  {one.source}") for one in found.candidates
    ]
    nothing = [f"{found.score:.3f}  (no answer)"]
    return {"question": question, "context": source, **record}, lines if found.text is not None else nothing


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
    texts: GivenTexts,
    model: AnyModel,
    top_k: int = Option(5, help="How many words to show for each mask."),
    candidates: str | None = Option(None, help="Rank only these words, separated by commas."),
    int8: Int8Option = False,
) -> Rows:
    """Fill the masks of a text; write the model's own mask, such as [MASK], where a word is wanted.

    Example: `clearhead fill "If you don't want to inhale virus, wear a [MASK]."`
    """
    if int8:
        model = quantised(model, "fill", sample(texts))
    own = comma_separated(candidates)
    for one, found in each("filling", texts, model.fill, top_k=top_k, candidates=own):
        yield {**one.record(), **found.to_dict()}, _filled_lines(one.text, found)


def _filled_lines(text: str, found: "Filled") -> Iterator[Line]:
    for one in found.predictions:
        filled = marked(one.sequence, [difference(text, one.sequence)]) if in_colour() else shorten(one.sequence, 100)
        yield scored(one.score, f"{one.token:<15}", filled)


@app.verb
def classify(
    texts: GivenTexts,
    model: AnyModelWithSkill,
    top_k: int | None = Option(None, help="How many labels to show. Default: the best; all with --json."),
    labels: str | None = Option(None, help="Labels of your own, separated by commas, for zero-shot classification."),
    int8: Int8Option = False,
) -> Rows:
    """Classify texts of any length.

    Example: `clearhead classify "Text WIN to 80086 to claim your free prize" --skill spam`
    """
    own = [label for label in comma_separated(labels) or [] if label]
    if int8 and labels is None:
        model = quantised(model, "classify", sample(texts))
    elif int8 and (at_a_service(model) or "classes" not in model.able("compare").network.heads):
        model = quantised(model, "search", sample(texts))  # by vectors
    elif int8:
        from clearhead.pipelines.classification import TEMPLATE

        model = quantised(model, "compare", ((text, TEMPLATE.format(label)) for text in sample(texts) for label in own))
    use: Any = model.classify if labels is None else partial(model.zero_shot, labels=own)
    for one, found in each("classifying", texts, use, top_k=top_k):
        best = list(found.scores.items())[: top_k or 1]
        shown = shorten(one.text)
        yield {**one.record(), **found.to_dict()}, (scored(score, f"{label:<15}", shown) for label, score in best)


@app.verb
def tag(
    texts: GivenTexts,
    model: AnyModelWithSkill,
    aggregation_strategy: str = Option("first", help="How tokens become entities: first, simple, average or max."),
    words: bool | None = Option(None, "--words/--no-words", help=_WORDS, show_default=False),
    int8: Int8Option = False,
) -> Rows:
    """Find the entities of texts of any length, or label every word.

    Examples: `clearhead tag "Ada Lovelace lived in London."`, `clearhead tag "Dogs bark." --skill part-of-speech`
    """
    from clearhead.data.tags import are_plain

    if int8:
        model = quantised(model, "tag", sample(texts))
    labels = None if at_a_service(model) else model.able("tag").labels or ()
    for one, found in each("tagging", texts, model.tag, aggregation_strategy=aggregation_strategy):
        record = {**one.record(), **found.to_dict()}
        if words is False:
            del record["words"]
        # of a service the labels that are seen: one without a prefix, and no O, tell as much as all of them
        plain = are_plain([word.label for word in found.words] if labels is None else labels)
        shown = found.words if words or (words is None and plain) else found.entities  # of plain tags there are none
        yield record, _tag_lines(one, shown, found.words if plain else found.entities)


def _tag_lines(one: Text, listed: Sequence["Labelled"], marks: Sequence["Labelled"]) -> Iterator[Line]:
    where = f"  {one.place}" if one.place else ""
    if in_colour():
        yield marked(one.text, [Mark(part.start, part.end, part.label) for part in marks])
    for part in listed:
        yield scored(part.score, f"{part.label:<9}", f"{part.text}  ({part.start}–{part.end}){where}")


@app.verb
def compare(
    pairs: GivenPairs,
    model: AnyModelWithSkill,
    top_k: int | None = Option(None, help="How many labels to show. Default: all; of a file, the best."),
) -> Rows:
    """Classify a pair of texts: entailment, paraphrase, a similarity score, whatever the model was trained for.

    Examples: `clearhead compare "A man sleeps." "Nobody is awake."`, `clearhead compare --in pairs.tsv`
    """
    for one, found in each_pair("comparing", pairs, model.compare, top_k=top_k):
        yield {**one.record(), **found.to_dict()}, _compared_lines(one, list(found.scores.items()), top_k)


def _compared_lines(one: Pair, scores: list[tuple[str, float]], top_k: int | None) -> Iterator[Line]:
    if one.source is None:
        return (scored(score, label) for label, score in scores)
    return (scored(score, f"{label:<15}", str(one)) for label, score in scores[: top_k or 1])


@app.verb
def follows(pairs: GivenPairs, model: AnyModel) -> Rows:
    """Tell whether the second text follows the first, with the probability that it does: BERT's next sentence.

    Examples: `clearhead follows "She opened the umbrella." "It had begun to rain."`,
    `clearhead follows --in pairs.tsv --json`
    """
    for one, found in each_pair("reading", pairs, model.follows):
        said = "follows: yes" if found.follows else "follows: no"
        columns = (said,) if one.source is None else (f"{said:<12}", str(one))
        yield {**one.record(), **found.to_dict()}, [scored(found.probability, *columns)]


@app.verb
def choose(
    *,
    context: Annotated[str | None, Argument(help="What comes before."), SAID] = None,
    candidates: Annotated[list[str] | None, Argument(help="The candidates."), SAID] = None,
    files: Annotated[list[str] | None, Option("--in", help=CHOICES)] = None,
    model: AnyModel,
) -> Rows:
    """Choose the candidate that fits a context best.

    Examples: `clearhead choose "She opened the umbrella because" "it rained." "it was Monday."`,
    `clearhead choose --in swag.csv --json`
    """
    if files:
        require(context is None, f"give a context or --in FILE, not both ({shorten(str(context))!r})", BadInput)
        yield from _choose_each(files, model)
        return
    if context is None or not candidates:
        raise BadInput("give a context and its candidates, or name a table of both with --in")
    found = model.choose(nonempty(context), candidates)
    ranked = sorted(zip(found.scores, candidates, strict=True), key=lambda pair: -pair[0])
    yield {"context": context, **found.to_dict()}, (scored(score, shorten(text, 100)) for score, text in ranked)


def _choose_each(files: list[str], model: "Model") -> Rows:
    """The best candidate of each row."""
    from clearhead.data.published import open_choices

    given = [one for file in files for one in open_choices(file)]
    expect_many()
    with progress("choosing", len(given)) as advance:
        for part in in_parts(given, lambda one: len(one.context) + sum(map(len, one.choices))):
            chosen = model.choose([(one.context, one.choices) for one in part], progress=advance)
            for one, found in zip(part, chosen, strict=True):
                record = {"id": one.where, "context": one.context, "choices": list(one.choices), **found.to_dict()}
                shown = f"{shorten(one.context, 40)} | {shorten(one.choices[found.index], 60)}"
                yield record, [scored(found.score, shown)]
