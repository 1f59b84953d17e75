"""The pages of the studio: every view and every use. To add one, add an entry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, NotFound, require
from clearhead.inside.by_hand import by_hand
from clearhead.inside.decoding import LIMIT as MAX_NEW_TOKENS
from clearhead.inside.decoding import decoding
from clearhead.inside.faithfulness import why
from clearhead.inside.input_view import MAX_POSITIONS, position_tables, summed_input
from clearhead.inside.layers import through_layers
from clearhead.inside.page import View, rounded
from clearhead.inside.runs import training_runs
from clearhead.inside.senses import EXAMPLES, senses_of
from clearhead.inside.trace import trace
from clearhead.nn.hooks import evaluating
from clearhead.pipelines.model import Model
from clearhead.pipelines.search.index import Method
from clearhead.pipelines.search.passages import Document
from clearhead.studio import examples
from clearhead.studio.entry import Entry, Example, Field

TEXT = Field(name="text", label="Text", kind="text", required=True)
PAIR = Field(name="pair", label="Second text (if any)", kind="text")
WORD = Field(name="word", label="Word", required=True)
BEAMS = Field(name="beams", label="Beams", kind="number", default=4, least=1, most=16)
TOP = Field(name="top", label="How many", kind="number", default=5, least=1, most=50)
SENTENCES = (Example("it → animal", {"text": examples.ANIMAL}), Example("bank", {"text": examples.BANK}))
TO_TRANSLATE = tuple(Example(text, {"text": text}) for text in examples.SENTENCES_TO_TRANSLATE)


def _attention(model: Model, text: str, pair: str | None) -> View:
    return trace(model, text, pair).heads()


def _step(model: Model, text: str, token: str, layer: int, head: int) -> View:
    return trace(model, text).step(int(token) if token.isdecimal() else token, layer, head)


def _senses_view(model: Model, word: str, texts: str | None) -> View:
    return senses_of(model, word, lines_of(texts) or None)


def lines_of(text: str | None) -> list[str]:
    """Split texts that are given one a line; empty lines are none."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _decoding(model: Model, text: str, beams: int, longest: int) -> View:
    return decoding(model, text, num_beams=beams, max_new_tokens=longest)


def _runs(folders: Sequence[Path]) -> View:
    if not folders:
        raise NotFound("this studio was started without runs; start it with --runs and the folders of training runs")
    return training_runs(folders)


VIEWS = (
    Entry(
        path="/look/by-hand",
        title="Attention by hand",
        question="How does attention compute?",
        call=by_hand,
        needs="nothing",
    ),
    Entry(
        path="/look/input",
        question="What does a model read?",
        call=summed_input,
        fields=(TEXT, PAIR),
        examples=(Example("Be alert!", {"text": "Be alert!", "pair": "BERT will hurt!"}), *SENTENCES),
    ),
    Entry(
        path="/look/positions",
        question="How is a position written?",
        call=position_tables,
        needs="maybe model",
        fields=(Field(name="length", label="Positions", kind="number", default=64, least=2, most=MAX_POSITIONS),),
    ),
    Entry(
        path="/look/attention",
        question="Who looks at whom?",
        call=_attention,
        fields=(TEXT, PAIR),
        examples=(*SENTENCES, *(Example(label, {"text": a, "pair": b}) for label, a, b in examples.QUESTIONS)),
    ),
    Entry(
        path="/look/step",
        title="One token",
        question="What does one head do to one token?",
        call=_step,
        fields=(
            TEXT,
            Field(name="token", label="Token: a word, or its number", default="1"),
            Field(name="layer", label="Layer", kind="number", default=0),
            Field(name="head", label="Head", kind="number", default=0),
        ),
        # where the built-in model links the two
        examples=(Example("it → animal", {"text": examples.ANIMAL, "token": "it", "layer": 9, "head": 3}),),
    ),
    Entry(
        path="/look/layers",
        question="What happens from layer to layer?",
        call=through_layers,
        fields=(TEXT, PAIR),
        examples=SENTENCES,
    ),
    Entry(
        path="/look/senses",
        title="Map of senses",
        question="Does the model tell senses apart?",
        call=_senses_view,
        fields=(
            WORD,
            Field(name="texts", label="Texts with the word, one a line (if not the lectures')", kind="text"),
        ),
        examples=tuple(Example(word, {"word": word}) for word in EXAMPLES),
    ),
    Entry(
        path="/look/why",
        question="Why this answer?",
        call=why,
        fields=(
            TEXT,
            PAIR,
            Field(name="use", label="Of what", choices=("classify", "answer", "fill")),
            Field(name="target", label="Explain another answer (if any)"),
        ),
        examples=(
            Example("a mask", {"text": examples.MASKS[0], "use": "fill"}, skill=""),
            Example("spam", {"text": examples.SPAM, "use": "classify"}, skill="spam"),
            Example(
                "an answer",
                {"text": examples.BERT_LARGE[0], "pair": examples.BERT_LARGE[1], "use": "answer"},
                skill="",
            ),
        ),
    ),
    Entry(
        path="/look/decoding",
        title="Word by word",
        question="How does a model write?",
        call=_decoding,
        head="causal_lm",
        fields=(
            TEXT,
            Field(name="beams", label="Beams", kind="number", default=3, least=1, most=8),
            Field(name="longest", label="New tokens", kind="number", default=32, least=1, most=MAX_NEW_TOKENS),
        ),
        examples=TO_TRANSLATE,
    ),
    Entry(path="/look/runs", question="How is training going?", call=_runs, needs="runs"),
)


def _fill(model: Model, text: str, top: int, candidates: str | None) -> dict[str, Any]:
    # the lectures write [MASK]; other families have a mask token of their own
    masked = text.replace("[MASK]", model.tokenizer.special.get("mask", "[MASK]"))
    return {"text": text, **model.fill(masked, top_k=top, candidates=_words(candidates)).to_dict()}


def _ask(model: Model, question: str, context: str, top: int) -> dict[str, Any]:
    found = model.answer(question, context, top_k=top)
    scores = _span_scores(model.able("answer"), question, context)
    return {"question": question, "context": context, **found.to_dict(), "tokens": scores}


def _span_scores(model: Model, question: str, context: str) -> dict[str, Any] | None:
    """The tokens of the context with their probabilities to be the start and the end; None if they do not fit at once.

    The rest of the probability lies on the other tokens, most of it on the first, which stands for "no answer".
    """
    encoding = model.tokenizer.encode(question, context)
    if len(encoding) > model.encoder.max_length:
        return None
    batch = Batch.of([encoding.ids], [encoding.segments]).to(model.device)
    with torch.no_grad(), evaluating(model.network):
        logits = model.network("span", batch.ids, batch.layout, batch.segments)  # (T, 2)
    own = slice(encoding.parts[1].start, encoding.parts[1].stop)
    start, end = logits.float().softmax(0)[own].T
    return {"tokens": encoding.tokens[own], "start": rounded(start), "end": rounded(end)}


def _tag(model: Model, text: str) -> dict[str, Any]:
    return {"text": text, **model.tag(text).to_dict()}


def _classify(model: Model, text: str, labels: str | None) -> dict[str, Any]:
    names = _words(labels)
    found = model.classify(text) if names is None else model.zero_shot(text, names)
    return {"text": text, **found.to_dict()}


def _words(text: str | None) -> list[str] | None:
    return [word.strip() for word in text.split(",") if word.strip()] if text else None


def _compare(model: Model, first: str, second: str) -> dict[str, Any]:
    return {"first": first, "second": second, **model.compare(first, second).to_dict()}


def _search(model: Model, query: str, documents: str, method: Method, top: int) -> dict[str, Any]:
    texts = [text.strip() for text in documents.split("\n\n") if text.strip()]
    require(bool(texts), "there is nothing to search; give documents", BadInput)
    found = [Document(text, f"document {number}") for number, text in enumerate(texts, 1)]
    return {"query": query, "results": [hit.to_dict() for hit in model.search(query, found, top_k=top, method=method)]}


def _summarise(model: Model, text: str, sentences: int) -> dict[str, Any]:
    return {"text": text, **model.summarise(text, sentences=sentences).to_dict()}


def _senses(model: Model, word: str, texts: str) -> dict[str, Any]:
    lines = lines_of(texts)
    return {"word": word, "texts": lines, **model.senses(word, lines).to_dict()}


def _generate(model: Model, text: str, longest: int, beams: int) -> dict[str, Any]:
    return {"prompt": text, **model.generate(text, max_new_tokens=longest, num_beams=beams).to_dict()}


def _translate(model: Model, text: str, beams: int) -> dict[str, Any]:
    found = model.translate(text, num_beams=beams)
    return {"source": text, "translation": found.text, "parts": found.to_dict()["parts"]}


USES = (
    Entry(
        path="/use/fill",
        question="Which word stands behind the mask?",
        call=_fill,
        head="masked_lm",
        fields=(TEXT, TOP, Field(name="candidates", label="Rank only these words, by commas (if any)")),
        examples=tuple(Example(text, {"text": text}) for text in examples.MASKS),
    ),
    Entry(
        path="/use/ask",
        question="Where in a text is the answer?",
        call=_ask,
        head="span",
        fields=(
            Field(name="question", label="Question", required=True),
            Field(name="context", label="Text to look in", kind="text", required=True),
            TOP,
        ),
        examples=tuple(Example(label, {"question": q, "context": text}) for label, q, text in examples.QUESTIONS),
    ),
    Entry(
        path="/use/tag",
        question="Which names are in a text?",
        call=_tag,
        head="tags",
        fields=(TEXT,),
        examples=tuple(Example(text, {"text": text}) for text in examples.NAMES),
    ),
    Entry(
        path="/use/classify",
        question="Which class does a text belong to?",
        call=_classify,
        head="classes",
        fields=(TEXT, Field(name="labels", label="Labels of your own, by commas (for a model trained on inference)")),
        examples=(
            Example("spam", {"text": examples.SPAM}, skill="spam"),
            Example("no spam", {"text": examples.HAM}, skill="spam"),
            *(Example(text, {"text": text}, skill="sentiment") for text in examples.REVIEWS),
        ),
    ),
    Entry(
        path="/use/compare",
        question="How do two texts relate?",
        call=_compare,
        head="classes",
        fields=(
            Field(name="first", label="First text", kind="text", required=True),
            Field(name="second", label="Second text", kind="text", required=True),
        ),
        examples=tuple(Example(label, {"first": a, "second": b}) for label, a, b in examples.PAIRS),
    ),
    Entry(
        path="/use/search",
        question="Which passage fits a query?",
        call=_search,
        fields=(
            Field(name="query", label="Query", required=True),
            Field(name="documents", label="Documents, with empty lines between them", kind="text", required=True),
            Field(name="method", label="By", choices=("vectors", "bm25", "hybrid"), default="vectors"),
            TOP,
        ),
        examples=(Example("pharmacy", {"query": examples.PHARMACY[0], "documents": examples.PHARMACY[1]}),),
    ),
    Entry(
        path="/use/summarise",
        question="Which sentences say most of a text?",
        call=_summarise,
        fields=(TEXT, Field(name="sentences", label="Sentences", kind="number", default=3, least=1, most=50)),
        examples=(Example("attention", {"text": examples.ARTICLE}),),
    ),
    Entry(
        path="/use/senses",
        question="What does a word mean in each place?",
        call=_senses,
        fields=(WORD, Field(name="texts", label="Texts with the word, one a line", kind="text", required=True)),
        examples=tuple(
            Example(word, {"word": word, "texts": "\n".join(text for group in texts.values() for text in group)})
            for word, texts in EXAMPLES.items()
        ),
    ),
    Entry(
        path="/use/generate",
        question="How might a text go on?",
        call=_generate,
        head="causal_lm",
        fields=(TEXT, Field(name="longest", label="New tokens", kind="number", default=40, least=1, most=200), BEAMS),
        examples=(Example("Once upon a time", {"text": "Once upon a time", "beams": 1}),),
    ),
    Entry(
        path="/use/translate",
        question="What is it in the other language?",
        call=_translate,
        head="causal_lm",
        fields=(TEXT, BEAMS),
        examples=TO_TRANSLATE,
    ),
)
