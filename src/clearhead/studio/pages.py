"""The pages of the studio: every view and every use. To add one, add an entry to the table at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from clearhead.data.batch import Batch
from clearhead.data.documents import Document
from clearhead.errors import BadInput, NotFound, require
from clearhead.inside.attention_view import LIMIT as ATTENTION_LIMIT
from clearhead.inside.attribution import Use
from clearhead.inside.block_view import one_block
from clearhead.inside.bottleneck import bottleneck
from clearhead.inside.by_hand import by_hand
from clearhead.inside.decoding import decoding
from clearhead.inside.difference import LIMIT as DIFFERENCE_LIMIT
from clearhead.inside.difference import difference
from clearhead.inside.faithfulness import why
from clearhead.inside.heads_view import heads_on_top
from clearhead.inside.input_view import LIMIT as INPUT_LIMIT
from clearhead.inside.input_view import MAX_POSITIONS, position_tables, summed_input
from clearhead.inside.layers import through_layers
from clearhead.inside.lecture_tables import lecture_tables
from clearhead.inside.model_view import whole_model
from clearhead.inside.page import LIMIT, View, check_length, rounded
from clearhead.inside.pretraining_view import pretraining
from clearhead.inside.runs import training_runs
from clearhead.inside.senses import senses_of
from clearhead.inside.trace import trace, trace_of_short
from clearhead.nn.hooks import evaluating
from clearhead.pipelines.model import Model
from clearhead.pipelines.search.index import Method
from clearhead.studio.entry import Entry, Field


def _attention(model: Model, text: str, pair: str | None) -> View:
    return trace(model, text, pair).heads()


def _step(model: Model, text: str, token: str, layer: int, head: int) -> View:
    return trace_of_short(model, text).step(int(token) if token.isdecimal() else token, layer, head)


def _qkv(model: Model | None, text: str | None, token: str | None, layer: int | None, head: int | None) -> View:
    if model is None or text is None:
        return by_hand()
    return trace_of_short(model, text).step(int(token) if token and token.isdecimal() else token, layer, head)


def _map(model: Model, word: str, texts: str | None) -> View:
    return senses_of(model, word, lines_of(texts) or None)


def lines_of(text: str | None) -> list[str]:
    """Split texts that are given one a line; empty lines are none."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _why(model: Model, text: str, pair: str | None, use: Use | None, target: str | None) -> View:
    todo = "it reads the text anew for each of them; give a part of it, or let `clearhead look why` take its time"
    check_length(len(model.tokenizer.encode(text, pair)), LIMIT, todo)
    return why(model, text, pair, use=use, target=target)


def _explained(values: Mapping[str, Any]) -> str:
    use = values.get("use") or ("fill" if "[MASK]" in (values.get("text") or "") else "classify")
    return "compare" if use == "classify" and values.get("pair") else use


def _decoding(model: Model, text: str, beams: int, longest: int) -> View:
    return decoding(model, text, num_beams=beams, max_new_tokens=longest)


def _runs(folders: Sequence[Path]) -> View:
    if not folders:
        raise NotFound("this studio was started without runs; start it with --runs and the folders of training runs")
    return training_runs(folders)


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


def _follows(model: Model, first: str, second: str) -> dict[str, Any]:
    return {"first": first, "second": second, **model.follows(first, second).to_dict()}


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


def _generate(model: Model, text: str, longest: int, beams: int | None, seed: int | None) -> dict[str, Any]:
    said: dict[str, Any] = {name: value for name, value in (("num_beams", beams), ("seed", seed)) if value is not None}
    return {"prompt": text, **model.generate(text, max_new_tokens=longest, **said).to_dict()}


def _translate(
    model: Model, text: str, src_lang: str | None, tgt_lang: str | None, beams: int | None
) -> dict[str, Any]:
    said: dict[str, Any] = {} if beams is None else {"num_beams": beams}
    found = model.translate(text, src_lang=src_lang, tgt_lang=tgt_lang, **said)
    return {"source": text, "translation": found.text, "parts": found.to_dict()["parts"]}


TEXT = Field("text", "Text", "text", required=True)
PAIR = Field("pair", "Second text (if any)", "text")
WORD = Field("word", "Word", required=True)
TEXTS = Field("texts", "Texts with the word, one a line", "text", required=True)
OWN_TEXTS = Field("texts", "Texts with the word, one a line (if not the lectures')", "text")
POSITIONS = Field("length", "Positions of the tables", "number", default=64, least=2, most=MAX_POSITIONS)
TOKEN = Field("token", "Token: a word, or its number", default="1")
LAYER = Field("layer", "Block", "number", default=0)
HEAD = Field("head", "Head", "number", default=0)
OWN_TEXT = Field("text", "Text (else the slides' numbers alone)", "text")
OWN_TOKEN = Field("token", "Token: a word, or its number (else a telling one)")
OWN_LAYER = Field("layer", "Block (else the most telling)", "number")
OWN_HEAD = Field("head", "Head (else the most telling)", "number")
OWN_TEXTS_OF_HEADS = Field("text", "Text (else the lectures')", "text")
NUMBERS = Field("text", "Numbers from 21 to 99 that do not end in 0", default="43 27 81 96")
SWAPPED = Field("text", "Text of which two words change places (needs a model)", "text")
USE = Field("use", "Of what", choices=("classify", "answer", "fill", "follows"))
TARGET = Field("target", "Explain another answer (if any)")
DRAWN_BEAMS = Field("beams", "Beams", "number", default=3, least=1, most=8)
DRAWN_TOKENS = Field("longest", "New tokens", "number", default=32, least=1, most=LIMIT)
BEAMS = Field("beams", "Beams (1 is greedy; else the model's own way)", "number", least=1, most=16)
SEED = Field("seed", "Seed, where the model samples (else its own)", "number", most=10**9 - 1)
SRC_LANG = Field("src_lang", "From, by its code (else the language of the text)")
TGT_LANG = Field("tgt_lang", "To, by its code (en, de or fr)")
NEW_TOKENS = Field("longest", "New tokens", "number", default=40, least=1, most=200)
TOP = Field("top", "How many", "number", default=5, least=1, most=50)
CANDIDATES = Field("candidates", "Rank only these words, by commas (if any)")
QUESTION = Field("question", "Question", required=True)
CONTEXT = Field("context", "Text to look in", "text", required=True)
LABELS = Field("labels", "Labels of your own, by commas (for a model trained on inference)")
FIRST = Field("first", "First text", "text", required=True)
SECOND = Field("second", "Second text", "text", required=True)
QUERY = Field("query", "Query", required=True)
DOCUMENTS = Field("documents", "Documents, with empty lines between them", "text", required=True)
OTHER = Field("other", "The text of B (if another)", "text")
OTHER_PAIR = Field("other_pair", "Its second text (if any)", "text")
METHOD = Field("method", "By", choices=("hybrid", "vectors", "bm25"), default="hybrid")
SENTENCES = Field("sentences", "Sentences", "number", default=3, least=1, most=50)

PAGES = (
    Entry(
        "/look/model",
        "What does the whole model do to a text?",
        whole_model,
        (TEXT, PAIR),
        title="The whole model",
        tokens=LIMIT,
    ),
    Entry(
        "/look/qkv",
        "What are queries, keys and values?",
        _qkv,
        (OWN_TEXT, OWN_TOKEN, OWN_LAYER, OWN_HEAD),
        title="Q·K·V",
        needs="maybe model",
        tokens=LIMIT,
    ),
    Entry("/look/by-hand", "How does attention compute?", by_hand, title="By hand", needs="nothing"),
    Entry("/look/input", "What does a model read?", summed_input, (TEXT, PAIR), tokens=INPUT_LIMIT),
    Entry(
        "/look/positions",
        "How is a position written?",
        position_tables,
        (POSITIONS, SWAPPED),
        needs="maybe model",
        tokens=INPUT_LIMIT,
    ),
    Entry("/look/attention", "Who looks at whom?", _attention, (TEXT, PAIR), tokens=ATTENTION_LIMIT),
    Entry(
        "/look/step",
        "What does one head do to one token?",
        _step,
        (TEXT, TOKEN, LAYER, HEAD),
        title="One token",
        tokens=LIMIT,
    ),
    Entry(
        "/look/pretraining",
        "How is a model pre-trained?",
        pretraining,
        (TEXT,),
        title="Pre-training",
        head="masked_lm",
        tokens=LIMIT,
    ),
    Entry(
        "/look/heads",
        "What stands on top of an encoder?",
        heads_on_top,
        (OWN_TEXTS_OF_HEADS, PAIR),
        title="Heads on top",
        tokens=LIMIT,
    ),
    Entry("/look/block", "What does one block do?", one_block, (TEXT, PAIR, LAYER), title="One block", tokens=LIMIT),
    Entry("/look/layers", "What happens from layer to layer?", through_layers, (TEXT, PAIR), tokens=LIMIT),
    Entry("/look/senses", "Does the model tell senses apart?", _map, (WORD, OWN_TEXTS), title="Senses"),
    Entry(
        "/look/why",
        "Why this answer?",
        _why,
        (TEXT, PAIR, USE, TARGET),
        title="Why this answer",
        tokens=LIMIT,
        skilled=_explained,
    ),
    Entry(
        "/look/decoding",
        "How does a model write?",
        _decoding,
        (TEXT, DRAWN_BEAMS, DRAWN_TOKENS),
        title="Decoding",
        head="causal_lm",
        use="translate",
        tokens=LIMIT,
    ),
    Entry(
        "/look/bottleneck",
        "What does one vector hold?",
        bottleneck,
        (NUMBERS,),
        needs="nothing",
    ),
    Entry("/look/tables", "How good are such models?", lecture_tables, needs="nothing"),
    Entry(
        "/look/difference",
        "What is different?",
        difference,
        (TEXT, PAIR, OTHER, OTHER_PAIR),
        needs="two models",
        tokens=DIFFERENCE_LIMIT,
    ),
    Entry("/look/runs", "How is training going?", _runs, needs="runs"),
    Entry(
        "/use/fill",
        "Which word stands behind the mask?",
        _fill,
        (TEXT, TOP, CANDIDATES),
        head="masked_lm",
        title="Fill-mask",
    ),
    Entry(
        "/use/ask",
        "Where in a text is the answer?",
        _ask,
        (QUESTION, CONTEXT, TOP),
        head="span",
        title="Question answering",
        skilled=lambda values: "answer",
    ),
    Entry(
        "/use/tag",
        "Which names are in a text?",
        _tag,
        (TEXT,),
        head="tags",
        title="NER",
        skilled=lambda values: "tag",
    ),
    Entry(
        "/use/classify",
        "Which class does a text belong to?",
        _classify,
        (TEXT, LABELS),
        head="classes",
        title="Text classification",
        skilled=lambda values: "classify",
    ),
    Entry(
        "/use/compare",
        "How do two texts relate?",
        _compare,
        (FIRST, SECOND),
        head="classes",
        title="Natural language inference",
        skilled=lambda values: "compare",
    ),
    Entry(
        "/use/follows",
        "Does one text follow the other?",
        _follows,
        (FIRST, SECOND),
        head="next_sentence",
        title="Next sentence",
    ),
    Entry(
        "/use/search",
        "Which passage fits a query?",
        _search,
        (QUERY, DOCUMENTS, METHOD, TOP),
        title="Search",
        skilled=lambda values: "search",
    ),
    Entry(
        "/use/summarise", "Which sentences say most of a text?", _summarise, (TEXT, SENTENCES), title="Summarisation"
    ),
    Entry("/use/senses", "What does a word mean in each place?", _senses, (WORD, TEXTS), title="Word senses"),
    Entry(
        "/use/generate",
        "How might a text go on?",
        _generate,
        (TEXT, NEW_TOKENS, BEAMS, SEED),
        title="Text generation",
        head="causal_lm",
        use="generate",
    ),
    Entry(
        "/use/translate",
        "What is it in the other language?",
        _translate,
        (TEXT, SRC_LANG, TGT_LANG, BEAMS),
        title="Translation",
        head="causal_lm",
        use="translate",
    ),
)
ENTRIES = {entry.path: entry for entry in PAGES}
