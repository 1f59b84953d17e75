"""Work on a model: which method a use is, what of its result goes over the wire, and what to do with long texts."""

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from clearhead.data.documents import Document
from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.classification import LABEL, class_logits
from clearhead.pipelines.model import Model
from clearhead.pipelines.results import Classes, Written
from clearhead.pipelines.search.reranking import readings
from clearhead.pipelines.search.stored import AnyIndex
from clearhead.serve.work import Refusal, Work

FindIndex = Callable[[str, Model], AnyIndex]
Results = list[Any]


def perform(model: Model, work: Work, find_index: FindIndex, progress: Progress | None = None) -> Results:
    """One result for each item, as JSON has it, or bytes for a vector."""
    use = _USES.get(work.use)
    if use is not None:
        return use(model, work)
    if work.use == "search":
        return _search(model, work, find_index)
    if work.use == "answer":
        return _answer(model, work, find_index)
    found = getattr(model, work.use)(work.items, progress=progress, **work.options)
    return [list(map(_as_json, one)) if isinstance(one, list) else _as_json(one) for one in found]


def _as_json(found: Any) -> dict[str, Any]:
    """A result that was written; of `generate` also how many tokens it has, which the engine counts and takes away."""
    return {**found.to_dict(), "tokens": len(found.tokens)} if isinstance(found, Written) else found.to_dict()


def _fill(model: Model, work: Work) -> Results:
    return [one.to_dict() for one in model.fill(work.items, **work.options)]


def _classify(model: Model, work: Work) -> Results:
    options = dict(work.options)
    items = [tuple(one) if isinstance(one, list) else one for one in work.items]
    if options.pop("raw_scores", False):
        return _logits(model.able("classify"), items, options.get("top_k"))
    return [one.to_dict() for one in model.classify(items, **options)]


def _logits(model: Model, items: Sequence[Any], top_k: int | None) -> Results:
    """Classes with their logits in the place of probabilities."""
    found = []
    for logits in class_logits(model, items):
        names = model.labels or [f"LABEL_{place}" for place in range(len(logits))]
        ranked = sorted(zip(names, logits.tolist(), strict=True), key=lambda pair: -pair[1])
        found.append(Classes(*ranked[0], dict(ranked[:top_k])).to_dict())
    return found


def _zero_shot(model: Model, work: Work) -> Results:
    return [one.to_dict() for one in model.zero_shot(work.items, **work.options)]


def _compare(model: Model, work: Work) -> Results:
    options, (first, second) = dict(work.options), _sides(work.items)
    if options.pop("raw_scores", False):
        return _logits(model.able("compare"), list(zip(first, second, strict=True)), options.get("top_k"))
    if options.pop("purpose", None) != "similarity":
        return [one.to_dict() for one in model.compare(first, second, **options)]
    texts = list(dict.fromkeys([*first, *second]))
    rows = dict(zip(texts, model.able("embed").embed(texts, normalise=True), strict=True))
    cosines = (float(rows[one] @ rows[other]) for one, other in zip(first, second, strict=True))
    return [Classes(LABEL, cosine, {LABEL: cosine}).to_dict() for cosine in cosines]


def _follows(model: Model, work: Work) -> Results:
    return [one.to_dict() for one in model.follows(*_sides(work.items), **work.options)]


def _sides(pairs: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def _tag(model: Model, work: Work) -> Results:
    return [one.to_dict() for one in model.tag(work.items, **work.options)]


def _answer(model: Model, work: Work, find_index: FindIndex) -> Results:
    options = dict(work.options)
    if (name := options.pop("index", None)) is not None:
        return [one.to_dict() for one in model.answer(work.items, find_index(name, model), **options)]
    return [one.to_dict() for one in model.answer(*_sides(work.items), **options)]


def _choose(model: Model, work: Work) -> Results:
    questions = [(context, candidates) for context, candidates in work.items]
    return [one.to_dict() for one in model.choose(questions, **work.options)]


def _embed(model: Model, work: Work) -> Results:
    options = dict(work.options)
    if options.pop("purpose", None) == "search":
        model = model.able("search")
    texts = [one if isinstance(one, str) else _decoded(model, one) for one in work.items]
    return [row.astype(row.dtype.newbyteorder("<")).tobytes() for row in model.embed(texts, **options)]


def _embed_tokens(model: Model, work: Work) -> Results:
    own = model.able("embed")
    texts = [one if isinstance(one, str) else _decoded(model, one) for one in work.items]
    return [
        {
            "tokens": list(one.tokens),
            "offsets": [list(span) for span in one.offsets],
            "vectors": one.vectors.astype("<f4").tobytes(),
            "width": int(one.vectors.shape[1]),
        }
        for one in own.token_vectors(texts, **work.options)
    ]


def _decoded(model: Model, ids: Sequence[int]) -> str:
    most = model.tokenizer.largest_id
    wrong = next((one for one in ids if not 0 <= one <= most), None)
    require(wrong is None, f"the token {wrong} is not in the model's vocabulary, which ends with {most}", BadInput)
    return model.tokenizer.decode(ids)


def _search(model: Model, work: Work, find_index: FindIndex) -> Results:
    options = dict(work.options)
    name, documents = options.pop("index", None), options.pop("documents", None)
    index: AnyIndex
    if name is not None:
        index = find_index(name, model)
    else:
        given = [Document(one["text"], str(one["id"])) if isinstance(one, dict) else one for one in documents]
        index = model.index(given)
    return [[hit.to_dict() for hit in hits] for hits in index.search(work.items, **options)]


def _rerank(model: Model, work: Work) -> Results:
    options = dict(work.options)
    queries = [(query, passages) for query, passages in work.items]
    if not options.pop("raw_scores", False):
        return [[one.to_dict() for one in found] for found in model.rerank(queries, **options)]
    found = []
    for (_, passages), odds in zip(queries, readings(model.able("rerank"), queries), strict=True):
        order = np.argsort(-odds, kind="stable")[: options.get("top_k")].tolist()
        found.append([{"text": passages[place], "index": place, "score": float(odds[place])} for place in order])
    return found


def _tokenise(model: Model, work: Work) -> Results:
    tokenizer, special = model.tokenizer, work.options.get("add_special_tokens", True)
    if special:
        encodings = tokenizer.encode_batch(work.items)
        parts = [list(zip(one.ids, one.tokens, one.offsets, strict=True)) for one in encodings]
    else:
        pieces = tokenizer.pieces_batch(work.items)
        parts = [list(zip(one.ids, one.tokens, one.offsets, strict=True)) for one in pieces]

    def token(number: int, text: str, span: tuple[int, int] | None) -> dict[str, Any]:
        start, stop = (None, None) if span is None else span
        return {"id": number, "text": text, "special": span is None, "start": start, "stop": stop}

    return [list(starmap(token, item)) for item in parts]


def _detokenise(model: Model, work: Work) -> Results:
    for ids in work.items:
        _decoded(model, ids)
    special = not work.options.get("skip_special_tokens", True)
    return [model.tokenizer.decode(ids, special=special) for ids in work.items]


_USES: dict[str, Callable[[Model, Work], Results]] = {
    "fill": _fill,
    "classify": _classify,
    "zero-shot": _zero_shot,
    "compare": _compare,
    "follows": _follows,
    "tag": _tag,
    "choose": _choose,
    "embed": _embed,
    "embed-tokens": _embed_tokens,
    "rerank": _rerank,
    "tokenise": _tokenise,
    "detokenise": _detokenise,
}
# the use that the model must be able to do, where that is another word of `Model.able`
ABLE = {"zero-shot": "compare", "embed-tokens": "embed"}


# ---- long texts ---------------------------------------------------------------------------------------------------


def fitted(model: Model, work: Work) -> tuple[Results, int]:
    """The items, refused or cut as the work says where they are too long, and how many were cut.

    Of a query and its passages, each passage is one text.
    """
    if work.too_long == "windows":
        return work.items, 0
    own = model.able(ABLE.get(work.use, work.use))
    texts = [part for item in work.items for part in _texts(item)]
    limit = own.encoder.max_length - own.tokenizer.template.specials(pair=False)
    limit = limit if work.max_tokens is None else min(limit, work.max_tokens)
    shorter: dict[str, str] = {}
    for text, pieces in zip(texts, own.tokenizer.pieces_batch(texts), strict=True):
        if len(pieces) <= limit:
            continue
        if work.too_long == "refuse":
            told = f"a text has {len(pieces)} tokens, and the model reads {limit} at once"
            raise Refusal("too_long", f"{told}; shorten it, or let it be read in windows")
        start, end = pieces.offsets[-limit][0], pieces.offsets[limit - 1][1]
        shorter[text] = text[start:] if work.too_long == "cut-start" else text[:end]
    return [_replaced(item, shorter) for item in work.items], len(shorter)


def _texts(item: Any) -> list[str]:
    if isinstance(item, str):
        return [item]
    return [text for part in item for text in _texts(part)] if isinstance(item, list | tuple) else []


def _replaced(item: Any, shorter: dict[str, str]) -> Any:
    if isinstance(item, str):
        return shorter.get(item, item)
    return [_replaced(part, shorter) for part in item] if isinstance(item, list | tuple) else item


def estimate(work: Work) -> int:
    """How many tokens the work will read, before anything is tokenised: four bytes make one, in most languages."""
    several = len(work.options.get("labels", ())) or 1  # every label is read beside the text
    extra = sum(_bytes(part) for part in work.options.get("documents", ()))
    if work.use == "rerank":  # the query is read with every passage
        return sum(_tokens(_bytes(query)) * len(passages) + _count(passages) for query, passages in work.items) + 1
    if work.use == "choose":
        return sum(_tokens(_bytes(given)) * len(others) + _count(others) for given, others in work.items) + 1
    return several * _count(work.items) + _tokens(extra)


def to_write(work: Work) -> int:
    """How many tokens are written at the most, as far as the request says."""
    rows = work.options.get("num_beams") or work.options.get("num_return_sequences") or 1
    return len(work.items) * int(work.options.get("max_new_tokens") or 64) * int(rows)


def _count(parts: Sequence[Any]) -> int:
    return sum(_tokens(_bytes(part)) for part in parts)


def _tokens(size: int) -> int:
    return size // 4 + 3


def _bytes(part: Any) -> int:
    if isinstance(part, str):
        return len(part) if part.isascii() else len(part.encode("utf-8", "replace"))
    if isinstance(part, list | tuple):
        return sum(map(_bytes, part))
    return sum(map(_bytes, part.values())) if isinstance(part, dict) else 4  # an id is a token
