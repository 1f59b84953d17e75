"""Cohere's dialect: embed and rerank, versions 1 and 2."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal
from uuid import uuid4

import msgspec

from clearhead.serve.dialects.dialect import Call, Dialect, Params, Post, convert
from clearhead.serve.dialects.length import Truncate, of_truncate
from clearhead.serve.dialects.reranking import RerankBody, read_rerank
from clearhead.serve.dialects.vectors import floats, in_base64, numbers_of
from clearhead.serve.work import Done, Reason, Refusal, Work

InputType = Literal["search_document", "search_query", "classification", "clustering", "image"]
EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]


class EmbedBody(msgspec.Struct):
    """Texts for Cohere's embed."""

    texts: list[str] | None = None
    model: str | None = None
    input_type: InputType | None = None
    embedding_types: list[EmbeddingType] | None = None
    truncate: Truncate | None = None
    output_dimension: Annotated[int, msgspec.Meta(ge=1)] | None = None
    images: list[Any] | None = None
    inputs: list[Any] | None = None


def _read_embed(content: dict[str, Any], params: Params, version: str) -> Call:
    body = convert(content, EmbedBody)
    for field, given in (("images", body.images), ("inputs", body.inputs)):
        if given:
            raise Refusal("invalid", f"{field}: only texts can be embedded here; send them as texts", field=field)
    if body.input_type == "image":
        raise Refusal("invalid", "input_type: images cannot be embedded here; send texts", field="input_type")
    if not body.texts:
        raise Refusal("invalid", "texts: there are none; give at least one text", field="texts")
    texts, options = body.texts, dict[str, Any]()
    if body.output_dimension is not None:
        options["dimensions"] = body.output_dimension
    if body.input_type in ("search_document", "search_query"):
        options["purpose"] = "search"
    work = Work(use="embed", items=list(texts), model=body.model, options=options, too_long=of_truncate(body.truncate))
    kinds, by_type = _kinds(body.embedding_types), version != "1" or bool(body.embedding_types)

    def answer(done: Done) -> dict[str, Any]:
        vectors = {kind: [_written(one, kind) for one in done.results] for kind in kinds}
        return {
            "id": str(uuid4()),
            "embeddings": vectors if by_type else vectors["float"],
            "texts": texts,
            "meta": {"api_version": {"version": version}, "billed_units": {"input_tokens": done.read}},
            "response_type": "embeddings_by_type" if by_type else "embeddings_floats",
        }

    return Call(work, answer)


def _kinds(asked: list[EmbeddingType] | None) -> list[EmbeddingType]:
    return list(dict.fromkeys(asked)) if asked else ["float"]


def _written(vector: bytes, kind: EmbeddingType) -> Any:
    if kind == "base64":
        return in_base64(vector)
    return floats(vector) if kind == "float" else numbers_of(vector, kind).tolist()


def _error(refusal: Refusal) -> tuple[int, Any]:
    status = 400 if refusal.reason in _BAD_REQUEST else refusal.status
    return status, {"message": refusal.message}


_BAD_REQUEST: tuple[Reason, ...] = ("invalid", "wrong_task", "too_long")


def _for_cohere(content: Mapping[str, Any]) -> bool:
    return not {"texts", "images", "inputs"}.isdisjoint(content)


def _read_rerank(content: dict[str, Any], params: Params) -> Call:
    return read_rerank(content, "2")


_EMBED: dict[str, Any] = {
    "model": "built-in",
    "texts": ["A man sleeps.", "Nobody is awake."],
    "input_type": "search_document",
    "embedding_types": ["float"],
}
_RERANK: dict[str, Any] = {"query": "Who barks?", "documents": ["Dogs bark.", "Cats meow."], "top_n": 1}

# /v1/rerank is in the dialect of Jina: its answer has what Cohere's clients read, too
COHERE = Dialect(
    name="cohere",
    posts=(
        Post("/v2/embed", partial(_read_embed, version="2"), EmbedBody, "Vectors, as Cohere's API gives them.", _EMBED),
        Post(
            "/v1/embed",
            partial(_read_embed, version="1"),
            EmbedBody,
            "Vectors, as version 1 of Cohere's API gives them.",
            _EMBED,
            takes=_for_cohere,
        ),
        Post("/v2/rerank", _read_rerank, RerankBody, "The best documents first, as Cohere's API ranks them.", _RERANK),
    ),
    gets=(),
    error=_error,
)
