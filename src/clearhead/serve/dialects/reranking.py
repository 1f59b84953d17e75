"""Reranking as Cohere, Jina, vLLM, infinity and llama.cpp ask for it: the same body on the same paths, one answer."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from clearhead.serve.dialects.dialect import Call, convert
from clearhead.serve.dialects.length import PromptTokens, TooLong, of_prompt_tokens
from clearhead.serve.work import Done, Refusal, Work

Document = str | dict[str, Any]  # a text, or an object that has it under "text"
Count = Annotated[int, msgspec.Meta(ge=1)]


class RerankBody(msgspec.Struct):
    """A query and documents, as Cohere, Jina, vLLM, infinity and llama.cpp send them."""

    query: str
    documents: list[Document]
    model: str | None = None
    top_n: Annotated[int, msgspec.Meta(ge=0)] | None = None  # 0, which is vLLM's default, is all of them
    return_documents: bool | None = None
    max_tokens_per_doc: Count | None = None
    truncate_prompt_tokens: PromptTokens | None = None
    raw_scores: bool | None = None
    use_activation: bool | None = None
    rank_fields: list[str] | None = None


def read_rerank(content: dict[str, Any], version: str) -> Call:
    """The best documents first, in an answer that all these clients read; `version` is Cohere's.

    Cohere reads id, results and meta, the others model and usage; what one does not know it leaves aside. Only infinity
    is strict: it wants another `object`, and a document as a plain text. It is known by `raw_scores`, which its client
    always sends and the others do not have. Documents come back only if they are asked for, since Cohere does so, and
    clients of infinity that do not say raw_scores could not read them.
    """
    body = convert(content, RerankBody)
    if body.rank_fields not in (None, [], ["text"]):
        told = f"rank_fields {body.rank_fields} cannot be read, only text is; join the fields into one text"
        raise Refusal("invalid", told, field="rank_fields")
    documents, infinity = texts_of(body.documents, "documents"), "raw_scores" in content
    too_long, limit = of_prompt_tokens(body.truncate_prompt_tokens)
    if body.max_tokens_per_doc is not None:
        too_long, limit = "cut-end", body.max_tokens_per_doc
    work = rerank_work(
        body.query,
        documents,
        model=body.model,
        top_k=body.top_n or None,
        raw_scores=bool(body.raw_scores) or body.use_activation is False,
        too_long=too_long,
        max_tokens=limit,
    )

    def result(one: Mapping[str, Any]) -> dict[str, Any]:
        said = {"index": one["index"], "relevance_score": one["score"]}
        if not body.return_documents:
            return said
        text = documents[one["index"]]
        return {**said, "document": text if infinity else {"text": text}}

    def answer(done: Done) -> dict[str, Any]:
        return {
            "id": f"rerank-{uuid4().hex}",
            "object": "rerank" if infinity else "list",
            "model": done.model,
            "results": [result(one) for one in done.results[0]],
            "usage": {"prompt_tokens": done.read, "total_tokens": done.read},
            "meta": {"api_version": {"version": version}, "billed_units": {"search_units": 1}},
        }

    return Call(work, answer)


def rerank_work(
    query: str,
    documents: list[str],
    *,
    model: str | None,
    top_k: int | None = None,
    raw_scores: bool = False,
    too_long: TooLong = "windows",
    max_tokens: int | None = None,
) -> Work:
    """Work for one query; raw scores are log-odds instead of probabilities."""
    if not query.strip():
        raise Refusal("invalid", "query: it is empty; give some words", field="query")
    options: dict[str, Any] = {} if top_k is None else {"top_k": top_k}
    if raw_scores:
        options["raw_scores"] = True
    return Work(
        use="rerank",
        items=[[query, documents]],
        model=model,
        options=options,
        too_long=too_long,
        max_tokens=max_tokens,
    )


def texts_of(documents: list[Document], field: str) -> list[str]:
    """The texts of documents, at least one."""
    if not documents:
        raise Refusal("invalid", f"{field}: the list is empty; give at least one text", field=field)
    return [_text(one, f"{field}[{place}]") for place, one in enumerate(documents)]


def _text(document: Document, field: str) -> str:
    text = document if isinstance(document, str) else document.get("text")
    if not isinstance(text, str):
        raise Refusal("invalid", f'{field}: it has no text; give a string, or an object with "text"', field=field)
    return text
