"""What a model is used for, each as a page. To add a use, add an entry; its answer is what programs get as JSON."""

from typing import Any

from clearhead.errors import BadInput, require
from clearhead.inside.senses import EXAMPLES
from clearhead.inside.spans import span_scores
from clearhead.pipelines.search.passages import Document
from clearhead.studio.desk import able
from clearhead.studio.entry import Entry, Example, Given
from clearhead.studio.fields import Field, lines_of
from clearhead.studio.lectures import (
    ARTICLE,
    HAM,
    MASKS,
    NAMES,
    PAIRS,
    PHARMACY,
    QUESTIONS,
    REVIEWS,
    SENTENCES_TO_TRANSLATE,
    SPAM,
)
from clearhead.studio.views import TEXT

BEAMS = Field(name="beams", label="Beams", kind="number", default=4, least=1, most=16)
TOP = Field(name="top", label="How many", kind="number", default=5, least=1, most=50)


def _fill(given: Given) -> dict[str, Any]:
    text = given["text"]
    words = _words(given["candidates"])
    # the lectures write [MASK]; other families have a sign of their own
    own = given.loaded.tokenizer.special.get("mask", "[MASK]")
    return {
        "text": text,
        **given.loaded.fill(text.replace("[MASK]", own), top=given["top"], candidates=words).to_dict(),
    }


def _ask(given: Given) -> dict[str, Any]:
    question, context = given["question"], given["context"]
    found = given.loaded.answer(question, context, top=given["top"])
    scores = span_scores(able(given.loaded, "answer"), question, context)
    return {"question": question, "context": context, **found.to_dict(), "tokens": scores}


def _classify(given: Given) -> dict[str, Any]:
    text, labels = given["text"], _words(given["labels"])
    found = given.loaded.classify(text) if labels is None else given.loaded.zero_shot(text, labels)
    return {"text": text, **found.to_dict()}


def _search(given: Given) -> dict[str, Any]:
    texts = [text.strip() for text in given["documents"].split("\n\n") if text.strip()]
    require(bool(texts), "there is nothing to search; give documents", BadInput)
    documents = [Document(text, f"document {number}") for number, text in enumerate(texts, 1)]
    hits = given.loaded.search(given["query"], documents, top=given["top"], method=given["method"])
    return {"query": given["query"], "results": [hit.to_dict() for hit in hits]}


def _senses(given: Given) -> dict[str, Any]:
    word, texts = given["word"], lines_of(given["texts"])
    return {"word": word, "texts": texts, **given.loaded.senses(word, texts).to_dict()}


def _generate(given: Given) -> dict[str, Any]:
    found = given.loaded.generate(given["text"], longest=given["longest"], beams=given["beams"])
    return {"prompt": given["text"], **found.to_dict()}


def _translate(given: Given) -> dict[str, Any]:
    found = given.loaded.translate(given["text"], beams=given["beams"])
    return {"source": given["text"], "translation": found.text, "parts": found.to_dict()["parts"]}


def _words(text: str | None) -> list[str] | None:
    return [word.strip() for word in text.split(",") if word.strip()] if text else None


USES = (
    Entry(
        kind="use",
        name="fill",
        title="Fill",
        question="Which word stands behind the mask?",
        head="masked_lm",
        fields=(TEXT, TOP, Field(name="candidates", label="Rank only these words, by commas (if any)")),
        examples=tuple(Example(text, {"text": text}) for text in MASKS),
        call=_fill,
    ),
    Entry(
        kind="use",
        name="ask",
        title="Ask",
        question="Where in a text is the answer?",
        head="span",
        fields=(
            Field(name="question", label="Question", required=True),
            Field(name="context", label="Text to look in", kind="text", required=True),
            TOP,
        ),
        examples=tuple(Example(label, {"question": q, "context": text}) for label, q, text in QUESTIONS),
        call=_ask,
    ),
    Entry(
        kind="use",
        name="tag",
        title="Tag",
        question="Which names are in a text?",
        head="tags",
        fields=(TEXT,),
        examples=tuple(Example(text, {"text": text}) for text in NAMES),
        call=lambda given: {"text": given["text"], **given.loaded.tag(given["text"]).to_dict()},
    ),
    Entry(
        kind="use",
        name="classify",
        title="Classify",
        question="Which class does a text belong to?",
        head="classes",
        fields=(TEXT, Field(name="labels", label="Labels of your own, by commas (for a model trained on inference)")),
        examples=(
            Example("spam", {"text": SPAM}, skill="spam"),
            Example("no spam", {"text": HAM}, skill="spam"),
            *(Example(text, {"text": text}, skill="sentiment") for text in REVIEWS),
        ),
        call=_classify,
    ),
    Entry(
        kind="use",
        name="compare",
        title="Compare",
        question="How do two texts relate?",
        head="classes",
        fields=(
            Field(name="first", label="First text", kind="text", required=True),
            Field(name="second", label="Second text", kind="text", required=True),
        ),
        examples=tuple(Example(label, {"first": a, "second": b}) for label, a, b in PAIRS),
        call=lambda given: {
            "first": given["first"],
            "second": given["second"],
            **given.loaded.compare(given["first"], given["second"]).to_dict(),
        },
    ),
    Entry(
        kind="use",
        name="search",
        title="Search",
        question="Which passage fits a query?",
        fields=(
            Field(name="query", label="Query", required=True),
            Field(name="documents", label="Documents, with empty lines between them", kind="text", required=True),
            Field(name="method", label="By", choices=("vectors", "bm25", "hybrid"), default="vectors"),
            TOP,
        ),
        examples=(Example("pharmacy", {"query": PHARMACY[0], "documents": PHARMACY[1]}),),
        call=_search,
    ),
    Entry(
        kind="use",
        name="summarise",
        title="Summarise",
        question="Which sentences say most of a text?",
        fields=(
            TEXT,
            Field(name="sentences", label="Sentences", kind="number", default=3, least=1, most=50),
        ),
        examples=(Example("attention", {"text": ARTICLE}),),
        call=lambda given: {
            "text": given["text"],
            **given.loaded.summarise(given["text"], sentences=given["sentences"]).to_dict(),
        },
    ),
    Entry(
        kind="use",
        name="senses",
        title="Senses",
        question="What does a word mean in each place?",
        fields=(
            Field(name="word", label="Word", required=True),
            Field(name="texts", label="Texts with the word, one a line", kind="text", required=True),
        ),
        examples=tuple(
            Example(word, {"word": word, "texts": "\n".join(text for group in texts.values() for text in group)})
            for word, texts in EXAMPLES.items()
        ),
        call=_senses,
    ),
    Entry(
        kind="use",
        name="generate",
        title="Generate",
        question="How might a text go on?",
        head="causal_lm",
        fields=(TEXT, Field(name="longest", label="New tokens", kind="number", default=40, least=1, most=200), BEAMS),
        examples=(Example("Once upon a time", {"text": "Once upon a time", "beams": 1}),),
        call=_generate,
    ),
    Entry(
        kind="use",
        name="translate",
        title="Translate",
        question="What is it in the other language?",
        head="causal_lm",
        fields=(TEXT, BEAMS),
        examples=tuple(Example(text, {"text": text}) for text in SENTENCES_TO_TRANSLATE),
        call=_translate,
    ),
)
