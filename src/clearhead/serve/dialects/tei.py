"""The dialect of text-embeddings-inference (TEI): vectors, classes, ranks and tokens, with its error bodies.

Its requests name no model, since TEI serves one: each use takes its default, or what a `model` in the body names. Below
/models/{model}/tei/ are the same routes for a model by its name.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec

from clearhead.serve.dialects.dialect import Call, Dialect, Get, Params, Post, convert
from clearhead.serve.dialects.vectors import floats
from clearhead.serve.work import Catalogue, Done, Reason, Refusal, Served, Use, Work

TokenId = Annotated[int, msgspec.Meta(ge=0)]
Direction = Literal["Left", "Right", "left", "right"]


class Request(msgspec.Struct, kw_only=True):
    """What every route takes. Texts are read whole, in windows, unless `truncate` is false: then long ones are refused.

    Only `truncation_direction` "Left" really cuts, at the start of a text: who says so wants its end.
    """

    model: str | None = None
    truncate: bool | None = None
    truncation_direction: Direction | None = None

    def work(self, use: Use, items: list[Any], params: Params, options: Mapping[str, Any] | None = None) -> Work:
        """The work on these items, by the model of the path, or of the body, or the default."""
        too_long: Literal["windows", "refuse", "cut-start"] = "windows"
        if self.truncate is False:
            too_long = "refuse"
        elif self.truncation_direction in ("Left", "left"):
            too_long = "cut-start"
        model = params.get("model") or self.model
        return Work(use=use, items=items, model=model, options=dict(options or {}), too_long=too_long)


class EmbedRequest(Request, kw_only=True):
    """Texts, or token ids: one of either, or a list."""

    inputs: str | list[str | TokenId | list[TokenId]]
    normalize: bool | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    prompt_name: str | None = None

    def items(self) -> list[Any]:
        """A list of texts and lists of token ids."""
        _no_prompts(self.prompt_name)
        given = self.inputs
        if isinstance(given, str):
            return [given]
        _not_empty(given, "inputs")
        numbers = sum(isinstance(one, int) for one in given)
        if numbers not in (0, len(given)):
            told = "inputs: token ids stand among texts; put those of one text into a list of their own"
            raise Refusal("invalid", told, field="inputs")
        for one in given:
            if isinstance(one, list):
                _not_empty(one, "inputs")
        return [given] if numbers else given


class PredictRequest(Request, kw_only=True):
    """A text, or a pair of texts as [first, second]; or many, each in a list: [[text], [first, second], …]."""

    inputs: str | list[str | list[str]]
    raw_scores: bool | None = None

    def items(self) -> tuple[list[Any], bool]:
        """Texts and pairs, and whether there was only one."""
        given = self.inputs
        if isinstance(given, str):
            return [given], True
        _not_empty(given, "inputs")
        texts = [one for one in given if isinstance(one, str)]
        if texts and len(texts) < len(given):
            told = "inputs: texts stand among lists; put each text of many into a list of its own, [[text], …]"
            raise Refusal("invalid", told, field="inputs")
        # two texts in one list are one pair, not two texts
        several = [texts] if texts else [one for one in given if isinstance(one, list)]
        return [_text_or_pair(one) for one in several], bool(texts)


def _text_or_pair(given: list[str]) -> Any:
    if len(given) not in (1, 2):
        told = (
            f"inputs: {len(given)} texts stand in one list; give [text] or [first, second], and many as a list of these"
        )
        raise Refusal("invalid", told, field="inputs")
    return given[0] if len(given) == 1 else given


class RerankRequest(Request, kw_only=True):
    """A query and the texts to be put in order."""

    query: str
    texts: list[str]
    raw_scores: bool | None = None
    return_text: bool | None = None


class Sentences(msgspec.Struct, kw_only=True):
    """A sentence, and those that it is compared with."""

    source_sentence: str
    sentences: list[str]


class SimilarityParameters(msgspec.Struct, kw_only=True):
    """How the sentences are read."""

    truncate: bool | None = None
    truncation_direction: Direction | None = None
    prompt_name: str | None = None


class SimilarityRequest(msgspec.Struct, kw_only=True):
    """A sentence and others, of which each gets its cosine."""

    inputs: Sentences
    parameters: SimilarityParameters | None = None
    model: str | None = None


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """A text, or many."""

    inputs: str | list[str]
    add_special_tokens: bool | None = None
    prompt_name: str | None = None
    model: str | None = None


class DecodeRequest(msgspec.Struct, kw_only=True):
    """Token ids of a text, or of many."""

    ids: list[TokenId | list[TokenId]]
    skip_special_tokens: bool | None = None
    model: str | None = None


class VertexRequest(msgspec.Struct, kw_only=True):
    """Requests of one kind, as Vertex AI wraps them: each is answered in its place."""

    instances: list[dict[str, Any]]


class Empty(Refusal):
    """Nothing was given, for which TEI has a status of its own."""


def _not_empty(given: list[Any], name: str) -> None:
    if not given:
        raise Empty("invalid", f"`{name}` cannot be empty", field=name)


def _no_prompts(name: str | None) -> None:
    if name is not None:
        told = f"prompt_name: there is no prompt {name!r}, since the models here have none; write it into the text"
        raise Refusal("invalid", told, field="prompt_name")


def _embed(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, EmbedRequest)
    options: dict[str, Any] = {"normalise": body.normalize is not False}
    if body.dimensions is not None:
        options["dimensions"] = body.dimensions
    work = body.work("embed", body.items(), params, options)
    return Call(work, lambda done: [floats(one) for one in done.results])


def _embed_all(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, EmbedRequest)
    work = body.work("embed-tokens", body.items(), params)
    return Call(work, lambda done: [_rows(one) for one in done.results])


def _rows(found: Mapping[str, Any]) -> list[list[float]]:
    """The vectors of a text's tokens, one after another -> a list for each."""
    numbers, width = floats(found["vectors"]), found["width"]
    return [numbers[start : start + width] for start in range(0, len(numbers), width)]


def _embed_sparse(content: dict[str, Any], params: Params) -> Call:
    convert(content, EmbedRequest).items()
    told = "sparse vectors need a masked language model that was trained for them (SPLADE), which none here is"
    raise Refusal("wrong_task", f"{told}; use /embed")


def _predict(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, PredictRequest)
    items, single = body.items()
    # a default is made for one text or for two, and only the items say which is meant
    use: Use = "compare" if all(isinstance(one, list) for one in items) else "classify"
    work = body.work(use, items, params, {"raw_scores": True} if body.raw_scores else {})

    def answer(done: Done) -> Any:
        found = [[{"score": score, "label": label} for label, score in one["scores"].items()] for one in done.results]
        return found[0] if single else found

    return Call(work, answer)


def _rerank(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RerankRequest)
    _not_empty(body.texts, "texts")
    options = {"raw_scores": True} if body.raw_scores else {}
    work = body.work("rerank", [[body.query, body.texts]], params, options)
    keys = ("index", "score", "text") if body.return_text else ("index", "score")
    return Call(work, lambda done: [{key: one[key] for key in keys} for one in done.results[0]])


def similarity(content: dict[str, Any], params: Params) -> Call:
    """Read the request for cosines, which the Inference API has in the same words."""
    body = convert(content, SimilarityRequest)
    told, given = body.parameters or SimilarityParameters(), body.inputs
    _no_prompts(told.prompt_name)
    _not_empty(given.sentences, "sentences")
    read = Request(model=body.model, truncate=told.truncate, truncation_direction=told.truncation_direction)
    pairs = [[given.source_sentence, one] for one in given.sentences]
    work = read.work("compare", pairs, params, {"purpose": "similarity"})
    return Call(work, lambda done: [one["score"] for one in done.results])


def _tokenize(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, TokenizeRequest)
    _no_prompts(body.prompt_name)
    items = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    _not_empty(items, "inputs")
    options = {"add_special_tokens": body.add_special_tokens is not False}
    return Call(Request(model=body.model).work("tokenise", items, params, options), lambda done: done.results)


def _decode(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, DecodeRequest)
    _not_empty(body.ids, "ids")
    numbers = sum(isinstance(one, int) for one in body.ids)
    if numbers not in (0, len(body.ids)):
        told = "ids: numbers stand among lists; give the ids of one text, or a list of them for each text"
        raise Refusal("invalid", told, field="ids")
    items = [body.ids] if numbers else body.ids
    options = {"skip_special_tokens": body.skip_special_tokens is not False}
    return Call(Request(model=body.model).work("detokenise", items, params, options), lambda done: done.results)


def _is_similarity(content: Mapping[str, Any]) -> bool:
    return isinstance(given := content.get("inputs"), dict) and "source_sentence" in given


def _is_rerank(content: Mapping[str, Any]) -> bool:
    return "texts" in content


def _main(content: dict[str, Any], params: Params) -> Call:
    """What a body asks for where the path does not say."""
    read = similarity if _is_similarity(content) else _rerank if _is_rerank(content) else _embed
    return read(content, params)


def _vertex(content: dict[str, Any], params: Params) -> Call:
    instances = convert(content, VertexRequest).instances
    _not_empty(instances, "instances")
    calls = [_main(one, params) for one in instances]
    first = calls[0].work
    for place, call in enumerate(calls):
        if msgspec.structs.replace(call.work, items=first.items) != first:
            told = f"instances[{place}]: it asks for something else than the first one; send it by itself"
            raise Refusal("invalid", told, field=f"instances[{place}]")
    work = msgspec.structs.replace(first, items=[item for call in calls for item in call.work.items])

    def answer(done: Done) -> Any:
        results = iter(done.results)
        parts = [[next(results) for _ in call.work.items] for call in calls]
        answers = (
            call.answer(msgspec.structs.replace(done, results=own)) for call, own in zip(calls, parts, strict=True)
        )
        return {"predictions": list(answers)}

    return Call(work, answer)


# TEI's names of what ours are called
_POOLING = {None: "mean", "first": "cls"}


def _info(catalogue: Catalogue, params: Params) -> dict[str, Any]:
    """What is served: the model of the path, or the default one for vectors, which is what TEI is mostly asked for."""
    asked = params.get("model") or catalogue.default.get("embed")
    served = next((one for one in catalogue.models if one.id == asked), None)
    if served is None:
        known = ", ".join(one.id for one in catalogue.models)
        raise Refusal("unknown_model", f"there is no model {asked!r}; there are {known}", field="model")
    # as many texts as fit the queue however long they are; shorter ones may be more
    texts = max(1, catalogue.max_queue_tokens // (served.max_length or 512))
    return {
        "model_id": served.id,
        "model_sha": None,
        "model_dtype": "float32",  # of the vectors that are answered, whatever the model computes with
        "served_model_name": served.id,
        "model_type": _model_type(served),
        "max_concurrent_requests": texts,
        "max_input_length": served.max_length,
        "max_batch_tokens": catalogue.max_queue_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": texts,
        "auto_truncate": True,
        "tokenization_workers": None,
        "version": version("clearhead"),
        "sha": None,
        "docker_label": None,
    }


def _model_type(served: Served) -> dict[str, Any]:
    """One of TEI's three types, by what the model was trained for.

    tei_client asks this before it calls, and refuses classify() and rerank() of an embedding model by itself. The
    default model is one, though others beside it classify: such a client is pointed to /models/{model}/tei of those.
    """
    uses = {*served.uses}
    # every encoder gives vectors; labels are what one has that was trained for them
    classes = uses & {"classify", "compare", "rerank"} and (served.labels or "embed" not in uses)
    if served.pooling is not None or not classes:
        return {"embedding": {"pooling": _POOLING.get(served.pooling, served.pooling)}}
    named = {
        "id2label": {str(place): label for place, label in enumerate(served.labels)},
        "label2id": {label: place for place, label in enumerate(served.labels)},
    }
    ranks = "rerank" in uses and ("classify" not in uses or len(served.labels) == 1)
    return {"reranker" if ranks else "classifier": named}


# of TEI's words for what is wrong, the nearest; its own status where it has one
_ERRORS: dict[Reason, tuple[int | None, str]] = {
    "wrong_task": (424, "Backend"),
    "internal": (424, "Backend"),
    "too_long": (422, "Validation"),
    "overloaded": (None, "Overloaded"),
    "deadline": (None, "Overloaded"),
    "unavailable": (None, "Unhealthy"),
}


def error(refusal: Refusal) -> tuple[int, Any]:
    """Say an error as TEI does."""
    if isinstance(refusal, Empty):
        return 400, {"error": refusal.message, "error_type": "Empty"}
    status, kind = _ERRORS.get(refusal.reason, (None, "Validation"))
    return status or refusal.status, {"error": refusal.message, "error_type": kind}


_SENTENCES = {"inputs": {"source_sentence": "A man sleeps.", "sentences": ["Someone is asleep.", "Stocks fell."]}}
_RANKED = {"query": "Who barks?", "texts": ["Dogs bark.", "Cats meow."]}
_TEXTS = {"inputs": ["A man sleeps.", "Nobody is awake."]}
_NAMED = "/models/{model:path}/tei"


def _posts(below: str) -> list[Post]:
    """The routes at the root, or below a model's name."""
    vectors, ranks, cosines = (
        "One vector per text",
        "Texts in the order in which they fit a query",
        "Cosines of sentences",
    )
    main = [
        post
        for path in (below or "/", f"{below}/invocations")
        for post in (
            Post(path, similarity, SimilarityRequest, cosines, _SENTENCES, _is_similarity),
            Post(path, _rerank, RerankRequest, ranks, _RANKED, _is_rerank),
            Post(path, _embed, EmbedRequest, vectors, _TEXTS),
        )
    ]
    return [
        Post(f"{below}/embed", _embed, EmbedRequest, vectors, _TEXTS),
        Post(f"{below}/embed_all", _embed_all, EmbedRequest, "One vector per token", _TEXTS),
        Post(f"{below}/embed_sparse", _embed_sparse, EmbedRequest, "Sparse vectors, which no model here gives", _TEXTS),
        Post(f"{below}/predict", _predict, PredictRequest, "Classes of texts or pairs", {"inputs": "What a joy!"}),
        Post(f"{below}/rerank", _rerank, RerankRequest, ranks, _RANKED, _is_rerank),
        Post(f"{below}/similarity", similarity, SimilarityRequest, cosines, _SENTENCES),
        Post(f"{below}/tokenize", _tokenize, TokenizeRequest, "Tokens of texts", _TEXTS, lambda told: "inputs" in told),
        Post(f"{below}/decode", _decode, DecodeRequest, "Texts of token ids", {"ids": [101, 1037, 102]}),
        Post(f"{below}/vertex", _vertex, VertexRequest, "Several requests of one kind", {"instances": [_TEXTS]}),
        *main,
    ]


TEI = Dialect(
    name="tei",
    posts=[*_posts(""), *_posts(_NAMED)],
    gets=[Get(f"{below}/info", _info, "The model that answers, as TEI tells it") for below in ("", _NAMED)],
    error=error,
)
