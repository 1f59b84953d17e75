"""The pages of the studio: every view and every use. To add one, add an entry."""

from typing import Any

from clearhead.errors import BadInput, NotFound, require
from clearhead.inside.attribution import span_scores
from clearhead.inside.by_hand import by_hand
from clearhead.inside.decoding import LIMIT as DECODED
from clearhead.inside.decoding import decoding
from clearhead.inside.faithfulness import why
from clearhead.inside.input_view import summed_input
from clearhead.inside.layers import through_layers
from clearhead.inside.page import View
from clearhead.inside.positions import LIMIT, position_tables
from clearhead.inside.runs import training_runs
from clearhead.inside.senses import EXAMPLES, senses_of
from clearhead.inside.trace import trace
from clearhead.pipelines.search.passages import Document
from clearhead.studio.entry import Entry, Example, Field, Given, lines_of
from clearhead.studio.examples import (
    ANIMAL,
    ARTICLE,
    BANK,
    BERT_LARGE,
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
from clearhead.studio.registry import able

TEXT = Field(name="text", label="Text", kind="text", required=True)
PAIR = Field(name="pair", label="Second text (if any)", kind="text")
SENTENCES = (Example("it → animal", {"text": ANIMAL}), Example("bank", {"text": BANK}))


def _step(given: Given) -> View:
    token: str = given["token"]
    return trace(given.loaded, given["text"]).step(
        int(token) if token.isdecimal() else token, given["layer"], given["head"]
    )


def _senses_view(given: Given) -> View:
    return senses_of(given.loaded, given["word"], lines_of(given["texts"]) or None)


def _runs(given: Given) -> View:
    if not given.runs:
        raise NotFound("this studio was started without runs; start it with --runs and the folders of training runs")
    return training_runs(given.runs)


VIEWS = (
    Entry(
        kind="look",
        name="by-hand",
        title="Attention by hand",
        question="How does attention compute?",
        needs="nothing",
        call=lambda given: by_hand(),
    ),
    Entry(
        kind="look",
        name="input",
        title="Input",
        question="What does a model read?",
        fields=(TEXT, PAIR),
        examples=(Example("Be alert!", {"text": "Be alert!", "pair": "BERT will hurt!"}), *SENTENCES),
        call=lambda given: summed_input(given.loaded, given["text"], given["pair"]),
    ),
    Entry(
        kind="look",
        name="positions",
        title="Positions",
        question="How is a position written?",
        needs="maybe model",
        fields=(Field(name="length", label="Positions", kind="number", default=64, least=2, most=LIMIT),),
        call=lambda given: position_tables(given.model, length=given["length"]),
    ),
    Entry(
        kind="look",
        name="attention",
        title="Attention",
        question="Who looks at whom?",
        fields=(TEXT, PAIR),
        examples=(*SENTENCES, *(Example(label, {"text": a, "pair": b}) for label, a, b in QUESTIONS)),
        call=lambda given: trace(given.loaded, given["text"], given["pair"]).heads(),
    ),
    Entry(
        kind="look",
        name="step",
        title="One token",
        question="What does one head do to one token?",
        fields=(
            TEXT,
            Field(name="token", label="Token: a word, or its number", default="1"),
            Field(name="layer", label="Layer", kind="number", default=0),
            Field(name="head", label="Head", kind="number", default=0),
        ),
        # where the built-in model links the two
        examples=(Example("it → animal", {"text": ANIMAL, "token": "it", "layer": 9, "head": 3}),),
        call=_step,
    ),
    Entry(
        kind="look",
        name="layers",
        title="Layers",
        question="What happens from layer to layer?",
        fields=(TEXT, PAIR),
        examples=SENTENCES,
        call=lambda given: through_layers(given.loaded, given["text"], given["pair"]),
    ),
    Entry(
        kind="look",
        name="senses",
        title="Map of senses",
        question="Does the model tell senses apart?",
        fields=(
            Field(name="word", label="Word", required=True),
            Field(name="texts", label="Texts with the word, one a line (if not the lectures')", kind="text"),
        ),
        examples=tuple(Example(word, {"word": word}) for word in EXAMPLES),
        call=_senses_view,
    ),
    Entry(
        kind="look",
        name="why",
        title="Why",
        question="Why this answer?",
        fields=(
            TEXT,
            PAIR,
            Field(name="use", label="Of what", choices=("classify", "answer", "fill")),
            Field(name="target", label="Explain another answer (if any)"),
        ),
        examples=(
            Example("a mask", {"text": MASKS[0], "use": "fill"}, skill=""),
            Example("spam", {"text": SPAM, "use": "classify"}, skill="spam"),
            Example("an answer", {"text": BERT_LARGE[0], "pair": BERT_LARGE[1], "use": "answer"}, skill=""),
        ),
        call=lambda given: why(given.loaded, given["text"], given["pair"], use=given["use"], target=given["target"]),
    ),
    Entry(
        kind="look",
        name="decoding",
        title="Word by word",
        question="How does a model write?",
        head="causal_lm",
        fields=(
            TEXT,
            Field(name="beams", label="Beams", kind="number", default=3, least=1, most=8),
            Field(name="longest", label="New tokens", kind="number", default=32, least=1, most=DECODED),
        ),
        examples=tuple(Example(text, {"text": text}) for text in SENTENCES_TO_TRANSLATE),
        call=lambda given: decoding(given.loaded, given["text"], beams=given["beams"], longest=given["longest"]),
    ),
    Entry(
        kind="look",
        name="runs",
        title="Runs",
        question="How is training going?",
        needs="runs",
        call=_runs,
    ),
)


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
