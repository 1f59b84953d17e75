"""OpenAI's dialect: embeddings, with what NIM, Voyage, Jina and vLLM add to them, completions, and the models."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from clearhead.serve.dialects.completions import CompletionBody, read_completion
from clearhead.serve.dialects.dialect import Call, Dialect, Get, Params, Post, convert, openai_error
from clearhead.serve.dialects.length import (
    PromptTokens,
    Side,
    TooLong,
    Truncate,
    of_prompt_tokens,
    of_truncate,
    of_truncation,
)
from clearhead.serve.dialects.vectors import Number, floats, in_base64, numbers_of
from clearhead.serve.work import Catalogue, Done, Reason, Refusal, Served, Work

MOST_INPUTS = 2048


class EmbeddingsBody(msgspec.Struct):
    """Texts, or token ids, for embeddings; what stands after `user` is from those who took the route over."""

    input: str | list[str | int | list[int]]
    model: str | None = None
    encoding_format: str | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    user: str | None = None
    # NIM; Voyage has its own values for input_type
    input_type: str | None = None
    truncate: Truncate | bool | None = None  # Jina says true or false
    # Voyage
    truncation: bool | None = None
    output_dtype: Number | None = None
    output_dimension: Annotated[int, msgspec.Meta(ge=1)] | None = None
    # Jina
    task: str | None = None
    normalized: bool | None = None
    embedding_type: str | None = None
    # vLLM
    truncate_prompt_tokens: PromptTokens | None = None
    truncation_side: Side | None = None
    normalize: bool | None = None
    embed_dtype: str | None = None
    endianness: str | None = None


def _read_embeddings(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, EmbeddingsBody)
    items = token_ids_or_texts(body.input, "input")
    if len(items) > MOST_INPUTS:
        told = f"input has {len(items)} texts, and a request takes {MOST_INPUTS}; send them in several"
        raise Refusal("invalid", told, field="input")
    kind, encoded = _form(body)
    model, search = named(body.model)
    options: dict[str, Any] = {}
    if (dimensions := body.dimensions or body.output_dimension) is not None:
        options["dimensions"] = dimensions
    if (normalise := body.normalized if body.normalize is None else body.normalize) is not None:
        options["normalise"] = normalise
    if search or body.input_type in _SEARCH or body.task in _SEARCH:
        options["purpose"] = "search"
    too_long, limit = _length(body)
    work = Work(use="embed", items=items, model=model, options=options, too_long=too_long, max_tokens=limit)

    def written(vector: bytes) -> Any:
        if encoded:
            return in_base64(vector, kind)
        return floats(vector) if kind == "float" else numbers_of(vector, kind).tolist()

    def answer(done: Done) -> dict[str, Any]:
        found = enumerate(done.results)
        return {
            "object": "list",
            "model": done.model,
            "data": [{"object": "embedding", "index": i, "embedding": written(one)} for i, one in found],
            "usage": {"prompt_tokens": done.read, "total_tokens": done.read},
        }

    return Call(work, answer)


# what NIM, Voyage, Cohere and Jina call the vectors of queries and of what is searched
_SEARCH = ("query", "passage", "document", "search_query", "search_document", "retrieval.query", "retrieval.passage")
_SUFFIXES = ("-query", "-passage")


def named(model: str | None) -> tuple[str | None, bool]:
    """The id of a model, and whether its name asks for search, as NIM's "m-query" and "m-passage" do."""
    for suffix in _SUFFIXES:
        if model is not None and model.endswith(suffix) and model != suffix:
            return model.removesuffix(suffix), True
    return model, False


def token_ids_or_texts(given: str | list[Any], field: str) -> list[Any]:
    """One text, many, the ids of one, or of many -> items, none of them empty."""
    if isinstance(given, str):
        items: list[Any] = [given]
    elif given and all(isinstance(one, int) for one in given):
        items = [given]
    else:
        items = list(given)
    kinds = {type(one) for one in items}
    if len(kinds) > 1 or int in kinds:
        told = f"{field}: it mixes texts and token ids; give a text, a list of texts, or token ids in lists"
        raise Refusal("invalid", told, field=field)
    if not items:
        raise Refusal("invalid", f"{field}: the list is empty; give at least one text", field=field)
    for place, one in enumerate(items):
        if not one:
            where = f"{field}[{place}]" if isinstance(given, list) and given is not one else field
            raise Refusal("invalid", f"{where}: it is empty; leave it out or give some text", field=field)
        if isinstance(one, list) and min(one) < 0:
            raise Refusal("invalid", f"{field}: the token id {min(one)} is negative", field=field)
    return items


def _form(body: EmbeddingsBody) -> tuple[Number, bool]:
    """Which numbers, and whether in base64."""
    encoding, kind = body.encoding_format or "float", body.output_dtype or "float"
    if encoding not in ("float", "base64"):
        told = f"encoding_format {encoding!r} is not known; choose float or base64"
        raise Refusal("invalid", told, field="encoding_format")
    if body.embed_dtype not in (None, "float32"):
        told = f"embed_dtype {body.embed_dtype!r} cannot be had; leave it out for float32"
        raise Refusal("invalid", told, field="embed_dtype")
    if body.endianness not in (None, "little", "native"):
        told = f"endianness {body.endianness!r} cannot be had; leave it out for little-endian"
        raise Refusal("invalid", told, field="endianness")
    if body.embedding_type not in (None, "float", "base64", "binary", "ubinary"):
        told = f"embedding_type {body.embedding_type!r} is not known; choose float, base64, binary or ubinary"
        raise Refusal("invalid", told, field="embedding_type")
    if body.embedding_type == "base64":
        return kind, True
    if body.embedding_type == "binary":
        return "binary", encoding == "base64"
    if body.embedding_type == "ubinary":
        return "ubinary", encoding == "base64"
    return kind, encoding == "base64"


def _length(body: EmbeddingsBody) -> tuple[TooLong, int | None]:
    if body.truncate_prompt_tokens is not None:
        return of_prompt_tokens(body.truncate_prompt_tokens, body.truncation_side)
    if isinstance(body.truncate, str):
        return of_truncate(body.truncate), None
    return of_truncation(body.truncation if body.truncate is None else body.truncate), None


# the models


def _models(catalogue: Catalogue, params: Params) -> dict[str, Any]:
    return {"object": "list", "data": [_model(one, catalogue) for one in catalogue.models]}


def _one_model(catalogue: Catalogue, params: Params) -> dict[str, Any]:
    for one in catalogue.models:
        if one.id == params["model"]:
            return _model(one, catalogue)
    known = ", ".join(one.id for one in catalogue.models)
    raise Refusal("unknown_model", f"there is no model {params['model']!r}; there are {known}", field="model")


def _model(one: Served, catalogue: Catalogue) -> dict[str, Any]:
    """What OpenAI and vLLM say of a model (a skill names its `parent`), and after that what clearhead knows of it."""
    return {
        "id": one.id,
        "object": "model",
        "created": catalogue.created,
        "owned_by": "clearhead",
        "root": one.parent or one.id,
        "parent": one.parent,
        "max_model_len": one.max_length,
        "uses": one.uses,
        "loaded": one.loaded,
        "family": one.family,
        "parameters": one.parameters,
        "dimensions": one.dimensions,
        "labels": one.labels,
    }


def error_for_all(refusal: Refusal) -> tuple[int, Any]:
    """OpenAI's error, and its sentence where clients of other services on the same paths look for it.

    Jina's clients fail on an error without "detail", and Cohere's show "message".
    """
    status, body = openai_error(refusal)
    status = 400 if refusal.reason in _BAD_REQUEST else status  # which OpenAI's clients call a bad request
    return status, {**body, "detail": refusal.message, "message": refusal.message}


_BAD_REQUEST: tuple[Reason, ...] = ("invalid", "wrong_task", "too_long")

_EMBEDDINGS = {"model": "built-in", "input": ["A man sleeps.", "Nobody is awake."], "encoding_format": "float"}
_COMPLETION = {"prompt": "The old house", "max_tokens": 16, "temperature": 0.8, "seed": 1}


def _has_input(content: Mapping[str, Any]) -> bool:
    return "inputs" not in content  # which is TEI's word


OPENAI = Dialect(
    name="openai",
    posts=(
        Post("/v1/embeddings", _read_embeddings, EmbeddingsBody, "Vectors, as OpenAI's API gives them.", _EMBEDDINGS),
        Post("/embeddings", _read_embeddings, EmbeddingsBody, "The same without /v1.", _EMBEDDINGS, takes=_has_input),
        Post("/v1/completions", read_completion, CompletionBody, "Text that goes on from a prompt.", _COMPLETION),
    ),
    gets=(
        Get("/v1/models", _models, "The models that can be asked, and their skills."),
        Get("/v1/models/{model}", _one_model, "One of them."),
    ),
    error=error_for_all,
)
