"""The routes of Jina and of those who speak like it: vLLM, infinity, Voyage, NIM, llama.cpp; and Ollama's embed."""

import time
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from clearhead.serve.dialects.dialect import Call, Dialect, Params, Post, convert, listed
from clearhead.serve.dialects.length import PromptTokens, Side, Truncate, of_prompt_tokens, of_truncate, of_truncation
from clearhead.serve.dialects.openai import error_for_all, token_ids_or_texts
from clearhead.serve.dialects.reranking import Count, Document, RerankBody, read_rerank, rerank_work, texts_of
from clearhead.serve.dialects.vectors import floats
from clearhead.serve.work import Done, Refusal, Work

# reranking


def _read_rerank(content: dict[str, Any], params: Params) -> Call:
    return read_rerank(content, "1")


class VoyageBody(msgspec.Struct):
    """A query and documents, as Voyage's client sends them."""

    query: str
    documents: list[Document]
    model: str | None = None
    top_k: Count | None = None
    return_documents: bool | None = None
    truncation: bool | None = None


def _read_voyage(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, VoyageBody)
    documents = texts_of(body.documents, "documents")
    too_long = of_truncation(body.truncation)
    work = rerank_work(body.query, documents, model=body.model, top_k=body.top_k, too_long=too_long)

    def answer(done: Done) -> dict[str, Any]:
        data = [{"index": one["index"], "relevance_score": one["score"]} for one in done.results[0]]
        if body.return_documents:
            data = [{**one, "document": documents[one["index"]]} for one in data]
        return {"object": "list", "data": data, "model": done.model, "usage": _usage(done)}

    return Call(work, answer)


class TextObject(msgspec.Struct):
    """A text as NIM has it."""

    text: str


class RankingBody(msgspec.Struct):
    """A query and passages, as NIM has them."""

    query: TextObject
    passages: list[TextObject]
    model: str | None = None
    truncate: Truncate | None = None


def _read_ranking(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RankingBody)
    passages = texts_of([one.text for one in body.passages], "passages")
    too_long = of_truncate(body.truncate)
    work = rerank_work(body.query.text, passages, model=body.model, raw_scores=True, too_long=too_long)

    def answer(done: Done) -> dict[str, Any]:
        rankings = [{"index": one["index"], "logit": one["score"]} for one in done.results[0]]
        return {"rankings": rankings, "usage": _usage(done)}

    return Call(work, answer)


Texts = Document | list[Document]


class ScoreBody(msgspec.Struct):
    """One query and many documents, or as many of both, under any of vLLM's names for them."""

    queries: Texts | None = None
    documents: Texts | None = None
    items: Texts | None = None
    text_1: Texts | None = None
    text_2: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None
    model: str | None = None
    truncate_prompt_tokens: PromptTokens | None = None
    use_activation: bool | None = None


def _read_score(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, ScoreBody)
    queries = _side(body, ("queries", "text_1", "data_1"))
    documents = _side(body, ("documents", "items", "text_2", "data_2"))
    if len(queries) not in (1, len(documents)):
        told = f"{len(queries)} queries cannot be scored with {len(documents)} documents; give one, or as many of both"
        raise Refusal("invalid", told, field="queries")
    # one query and all documents, or pairs
    pairs = [[one, [two]] for one, two in zip(queries, documents, strict=False)]
    items = [[queries[0], documents]] if len(queries) == 1 else pairs
    too_long, limit = of_prompt_tokens(body.truncate_prompt_tokens)
    options = {"raw_scores": True} if body.use_activation is False else {}
    work = Work(use="rerank", items=items, model=body.model, options=options, too_long=too_long, max_tokens=limit)

    def answer(done: Done) -> dict[str, Any]:
        scores = [one["score"] for found in done.results for one in sorted(found, key=lambda one: int(one["index"]))]
        data = [{"index": i, "object": "score", "score": score} for i, score in enumerate(scores)]
        return {**_frame("score", done), "data": data}

    return Call(work, answer)


def _side(body: ScoreBody, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if (given := getattr(body, name)) is not None:
            texts = texts_of(listed(given)[0], name)
            if name == names[0] and not all(one.strip() for one in texts):
                raise Refusal("invalid", f"{name}: a query is empty; give some words", field=name)
            return texts
    raise Refusal("invalid", f"{names[0]}: the field is missing; give a text or a list of texts", field=names[0])


# classes and vectors


class ClassifyBody(msgspec.Struct):
    """Texts to be classified, as vLLM and infinity send them."""

    input: str | list[str]
    model: str | None = None
    raw_scores: bool | None = None
    use_activation: bool | None = None
    truncate_prompt_tokens: PromptTokens | None = None
    truncation_side: Side | None = None


def _read_classify(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, ClassifyBody)
    texts = token_ids_or_texts(body.input, "input")
    too_long, limit = of_prompt_tokens(body.truncate_prompt_tokens, body.truncation_side)
    options = {"raw_scores": True} if body.raw_scores or body.use_activation is False else {}
    work = Work(use="classify", items=texts, model=body.model, options=options, too_long=too_long, max_tokens=limit)

    def answer(done: Done) -> dict[str, Any]:
        found = enumerate(done.results)
        data = [
            {"index": i, "label": one["label"], "probs": _in_order(one, done), "num_classes": len(one["scores"])}
            for i, one in found
        ]
        return {**_frame("classify", done), "data": data}

    def to_infinity(done: Done) -> dict[str, Any]:
        data = [[{"label": label, "score": score} for label, score in one["scores"].items()] for one in done.results]
        return {**_frame("classify", done), "object": "classify", "data": data}

    # the two answers have nothing in common; infinity's client always says raw_scores, and vLLM does not know it
    return Call(work, to_infinity if "raw_scores" in content else answer)


def _in_order(result: Mapping[str, Any], done: Done) -> list[float]:
    """The scores in the order of the model's classes, by which vLLM's clients know them."""
    scores: dict[str, float] = result["scores"]
    return [scores[label] for label in done.labels or scores]


class PoolingBody(msgspec.Struct):
    """Texts, and what vLLM should give of them."""

    input: str | list[str | int | list[int]]
    model: str | None = None
    task: str | None = None
    dimensions: Count | None = None
    encoding_format: str | None = None
    truncate_prompt_tokens: PromptTokens | None = None
    truncation_side: Side | None = None


def _read_pooling(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, PoolingBody)
    task, items = body.task or "embed", token_ids_or_texts(body.input, "input")
    if task not in ("embed", "token_embed", "classify"):
        told = f"task {task!r} cannot be had here; choose embed, token_embed or classify"
        told += "; entities with their places are what POST /v1/tag gives" if task == "token_classify" else ""
        raise Refusal("invalid", told, field="task")
    if body.encoding_format not in (None, "float"):
        told = f"encoding_format {body.encoding_format!r} cannot be had here; choose float"
        raise Refusal("invalid", told, field="encoding_format")
    if body.dimensions is not None and task != "embed":
        raise Refusal("invalid", f"dimensions: {task} has no vector of a text; leave it out", field="dimensions")
    if task != "embed" and not isinstance(items[0], str):
        raise Refusal("invalid", f"input: {task} takes texts, not token ids", field="input")
    too_long, limit = of_prompt_tokens(body.truncate_prompt_tokens, body.truncation_side)
    options = {} if body.dimensions is None else {"dimensions": body.dimensions}
    work = Work(
        use="embed" if task == "embed" else "embed-tokens" if task == "token_embed" else "classify",
        items=items,
        model=body.model,
        options=options,
        too_long=too_long,
        max_tokens=limit,
    )

    def pooled(result: Any, done: Done) -> Any:
        if task == "classify":
            return _in_order(result, done)
        if task == "embed":
            return floats(result)
        numbers, width = floats(result["vectors"]), result["width"]
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]

    def answer(done: Done) -> dict[str, Any]:
        found = enumerate(done.results)
        data = [{"index": i, "object": "pooling", "data": pooled(one, done)} for i, one in found]
        return {**_frame("pool", done), "data": data}

    return Call(work, answer)


class OllamaBody(msgspec.Struct):
    """Texts for Ollama's embed."""

    input: str | list[str]
    model: str | None = None
    truncate: bool | None = None
    dimensions: Count | None = None


def _read_ollama(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, OllamaBody)
    items = token_ids_or_texts(body.input, "input")
    options = {} if body.dimensions is None else {"dimensions": body.dimensions}
    work = Work(use="embed", items=items, model=body.model, options=options, too_long=of_truncation(body.truncate))

    def answer(done: Done) -> dict[str, Any]:
        return {
            "model": done.model,
            "embeddings": [floats(one) for one in done.results],
            "total_duration": round(done.total_seconds * 1e9),  # in nanoseconds
            "load_duration": 0,
            "prompt_eval_count": done.read,
        }

    return Call(work, answer)


class EmbeddingBody(msgspec.Struct):
    """A text for llama.cpp's own embedding."""

    content: str | list[str]
    model: str | None = None


def _read_embedding(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, EmbeddingBody)
    work = Work(use="embed", items=token_ids_or_texts(body.content, "content"), model=body.model)

    def answer(done: Done) -> list[Any]:
        # a list in a list, since of a model without pooling it would be those of all tokens
        return [{"index": i, "embedding": [floats(one)]} for i, one in enumerate(done.results)]

    return Call(work, answer)


# tokens


class TokenizeBody(msgspec.Struct):
    """A text, under vLLM's name for it (`prompt`) or llama.cpp's (`content`)."""

    prompt: str | None = None
    content: str | None = None
    model: str | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None
    return_token_strs: bool | None = None
    with_pieces: bool | None = None


def _read_tokenize(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, TokenizeBody)
    text = body.content if body.prompt is None else body.prompt
    if text is None:
        raise Refusal("invalid", "prompt: the field is missing; give a text", field="prompt")
    of_vllm = body.prompt is not None
    special = body.add_special_tokens is not False if of_vllm else bool(body.add_special)
    work = Work(use="tokenise", items=[text], model=body.model, options={"add_special_tokens": special})

    def answer(done: Done) -> dict[str, Any]:
        tokens = done.results[0]
        ids = [one["id"] for one in tokens]
        if of_vllm:
            strings = [one["text"] for one in tokens] if body.return_token_strs else None
            return {"count": len(ids), "tokens": ids, "token_strs": strings}
        if body.with_pieces:
            return {"tokens": [{"id": one["id"], "piece": one["text"]} for one in tokens]}
        return {"tokens": ids}

    return Call(work, answer)


class DetokenizeBody(msgspec.Struct):
    """The ids of a text's tokens."""

    tokens: list[Annotated[int, msgspec.Meta(ge=0)]]
    model: str | None = None


def _read_detokenize(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, DetokenizeBody)
    work = Work(use="detokenise", items=[body.tokens], model=body.model, options={"skip_special_tokens": False})

    def answer(done: Done) -> dict[str, Any]:
        return {"prompt": done.results[0], "content": done.results[0]}  # as vLLM and llama.cpp call it

    return Call(work, answer)


def _frame(kind: str, done: Done) -> dict[str, Any]:
    return {
        "id": f"{kind}-{uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": done.model,
        "usage": _usage(done),
    }


def _usage(done: Done) -> dict[str, int]:
    return {"prompt_tokens": done.read, "total_tokens": done.read, "completion_tokens": 0}


# which body is whose: native bodies have passages, TEI's have texts and inputs


def _for_voyage(content: Mapping[str, Any]) -> bool:
    return "documents" in content and "top_k" in content  # which its client always sends, null or not


def _for_jina(content: Mapping[str, Any]) -> bool:
    return "documents" in content and not _for_voyage(content)


def _for_tokenize(content: Mapping[str, Any]) -> bool:
    return "inputs" not in content


_RERANK: dict[str, Any] = {"query": "Who barks?", "documents": ["Dogs bark.", "Cats meow."], "top_n": 1}
_VOYAGE: dict[str, Any] = {"query": "Who barks?", "documents": ["Dogs bark.", "Cats meow."], "top_k": 1}
_RANKING = {"query": {"text": "Who barks?"}, "passages": [{"text": "Dogs bark."}, {"text": "Cats meow."}]}
_SCORE = {"queries": "Who barks?", "documents": ["Dogs bark.", "Cats meow."]}
_CLASSIFY = {"model": "built-in:sentiment", "input": ["What a lovely day!"]}
_POOLING = {"input": ["A man sleeps."], "task": "embed"}

_RANKED = "The best documents first, as Jina, vLLM, infinity and llama.cpp rank them."
_RERANKS = ("/rerank", "/v1/rerank", "/reranking", "/v1/reranking")
_SCORED = "How well documents fit a query, as vLLM scores them."

JINA = Dialect(
    name="jina",
    posts=(
        *(Post(path, _read_rerank, RerankBody, _RANKED, _RERANK, takes=_for_jina) for path in _RERANKS),
        Post("/v1/rerank", _read_voyage, VoyageBody, "The same for Voyage's client.", _VOYAGE, takes=_for_voyage),
        Post("/v1/ranking", _read_ranking, RankingBody, "The best passages first, as NIM ranks them.", _RANKING),
        Post("/score", _read_score, ScoreBody, _SCORED, _SCORE),
        Post("/v1/score", _read_score, ScoreBody, _SCORED, _SCORE),
        Post("/classify", _read_classify, ClassifyBody, "Classes, as vLLM and infinity give them.", _CLASSIFY),
        Post("/pooling", _read_pooling, PoolingBody, "Vectors or classes, as vLLM gives them.", _POOLING),
        Post("/api/embed", _read_ollama, OllamaBody, "Vectors, as Ollama gives them.", {"input": ["A man sleeps."]}),
        Post(
            "/embedding",
            _read_embedding,
            EmbeddingBody,
            "Vectors, as llama.cpp gives them.",
            {"content": "A man sleeps."},
        ),
        Post(
            "/tokenize",
            _read_tokenize,
            TokenizeBody,
            "Tokens, as vLLM and llama.cpp give them.",
            {"prompt": "A man sleeps."},
            takes=_for_tokenize,
        ),
        Post("/detokenize", _read_detokenize, DetokenizeBody, "The text of tokens.", {"tokens": [101, 102]}),
    ),
    gets=(),
    error=error_for_all,
)
