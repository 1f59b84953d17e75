"""What each use reads out of a row, which options it takes, and the columns it gives: the keys of the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clearhead.data.formats import CONTEXTS, PROMPTS
from clearhead.data.tables import PAIRS, TEXTS
from clearhead.errors import BadConfig, BadInput, check_options, near, require, short, typed, valid_text

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.text.tokenizer import Tokenizer

Options = dict[str, Any]
Records = Sequence[dict[str, Any]]
# the type of a column: one of these, or a list of objects, whose fields are named
Kind = Literal["string", "double", "bool", "int64", "int32s", "doubles", "scores", "vector"] | dict[str, str]

_LABELLED: Kind = {"text": "string", "label": "string", "start": "int64", "end": "int64", "score": "double"}
_SPANS: Kind = {"text": "string", "start": "int64", "end": "int64", "score": "double", "logit": "double"}
_TOKENS: Kind = {"token": "string", "score": "double", "sequence": "string", "mask": "int64", "id": "int64"}
_CLASSES: dict[str, Kind] = {"label": "string", "score": "double", "scores": "scores"}
_TOP = {"top_k": int}
# those of `decoding.config.GenerationOptions`; several versions of a text would be several rows
_WRITING = {
    "num_beams": int,
    "length_penalty": float,
    "early_stopping": bool,
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "seed": int,
    "min_new_tokens": int,
    "repetition_penalty": float,
    "no_repeat_ngram_size": int,
    "stop_strings": str | list[str],
    "whole_sentences": bool,
}


@dataclass(frozen=True)
class Use:
    """One way to use a model on rows: `call` takes items, each made of a row's columns, and gives a record each.

    One that is `of_tokenizer` is given a model's tokenizer alone, and computes on no device.
    """

    call: Callable[[Any, list[Any], Options], Records]
    columns: dict[str, Kind]  # of its results
    options: dict[str, Any] = field(default_factory=dict)  # with their types
    needed: tuple[str, ...] = ()  # options that have no default
    usual: tuple[tuple[str, ...], ...] = ()  # names that the columns with its texts usually have, all of one tuple
    listed: bool = False  # the second column holds lists of texts
    sample: Any = "a"  # an item that any model for this use can read, by which options are tried
    of_tokenizer: bool = False


def _embed(model: "Model", items: list[Any], options: Options) -> Records:
    return [{"vector": row} for row in model.embed(items, **options)]


def _each(name: str) -> Callable[["Model", list[Any], Options], Records]:
    def call(model: "Model", items: list[Any], options: Options) -> Records:
        return [one.to_dict() for one in getattr(model, name)(items, **options)]

    return call


def _each_pair(name: str) -> Callable[["Model", list[Any], Options], Records]:
    def call(model: "Model", items: list[Any], options: Options) -> Records:
        first, second = (list(side) for side in zip(*items, strict=True))
        return [one.to_dict() for one in getattr(model, name)(first, second, **options)]

    return call


def _tag(model: "Model", items: list[Any], options: Options) -> Records:
    own = {name: value for name, value in options.items() if name != "words"}
    found = model.tag(items, **own)
    if options.get("words", True):
        return [one.to_dict() for one in found]
    return [{"entities": [entity.to_dict() for entity in one.entities]} for one in found]


def _rerank(model: "Model", items: list[Any], options: Options) -> Records:
    return [{"results": [one.to_dict() for one in found]} for found in model.rerank(items, **options)]


def _summarise(model: "Model", items: list[Any], options: Options) -> Records:
    found = model.summarise(items, **options)
    return [{"summary": one.text} if options.get("abstractive") else one.to_dict() for one in found]


def _translate(model: "Model", items: list[Any], options: Options) -> Records:
    found: list[Any] = model.translate(items, **options)
    return [{"translation": one.text, "parts": one.to_dict()["parts"]} for one in found]


def _tokenize(tokenizer: "Tokenizer", items: list[Any], options: Options) -> Records:
    from clearhead.data.shards import tokenised

    found = tokenised(items, tokenizer)
    return [{"ids": ids.astype(np.int32), "sentences": lengths.astype(np.int32)} for ids, lengths in found]


_TEXT = tuple((name,) for name in TEXTS)
USES: dict[str, Use] = {
    "embed": Use(
        _embed,
        {"vector": "vector"},
        {
            "layers": list[int],
            "combine": Literal["mean", "sum", "concat"],
            "pooling": Literal["mean", "first", "max", "weighted"],
            "normalise": bool,
            "dimensions": int,
            # int8 has steps that are those of all vectors, and no shard knows these
            "precision": Literal["float32", "binary"],
            "batch_tokens": int,
        },
        usual=_TEXT,
    ),
    "classify": Use(_each("classify"), _CLASSES, _TOP, usual=_TEXT),
    "zero-shot": Use(
        _each("zero_shot"),
        _CLASSES,
        {"labels": list[str], "hypothesis_template": str, "multi_label": bool, **_TOP},
        needed=("labels",),
        usual=_TEXT,
    ),
    "tag": Use(
        _tag,
        {"entities": _LABELLED, "words": _LABELLED},
        {"aggregation_strategy": Literal["simple", "first", "average", "max"], "words": bool},
        usual=_TEXT,
    ),
    "answer": Use(
        _each_pair("answer"),
        {
            **{"answer": "string", "start": "int64", "end": "int64", "score": "double", "null_score": "double"},
            "candidates": _SPANS,
        },
        {"top_k": int, "threshold": float, "max_answer_length": int, "whole_words": bool},
        usual=(("question", "context"),),
        sample=("a", "a"),
    ),
    "fill": Use(_each("fill"), {"predictions": _TOKENS}, {"top_k": int, "candidates": list[str]}, usual=_TEXT),
    "compare": Use(_each_pair("compare"), _CLASSES, _TOP, usual=PAIRS, sample=("a", "a")),
    "follows": Use(_each_pair("follows"), {"follows": "bool", "probability": "double"}, usual=PAIRS, sample=("a", "a")),
    "choose": Use(
        _each("choose"),
        {"text": "string", "index": "int64", "score": "double", "scores": "doubles"},
        usual=tuple((one, other) for other in ("choices", "candidates", "endings", "options") for one in CONTEXTS),
        listed=True,
        sample=("a", ["a", "a"]),
    ),
    "rerank": Use(
        _rerank,
        {"results": {"text": "string", "index": "int64", "score": "double"}},
        _TOP,
        usual=(("query", "passages"), ("query", "documents"), ("question", "passages")),
        listed=True,
        sample=("a", ["a"]),
    ),
    "summarise": Use(
        _summarise,
        {"summary": "string", "sentences": {"text": "string", "start": "int64", "end": "int64", "score": "double"}},
        {"sentences": int, "abstractive": bool, "max_new_tokens": int, **_WRITING},
        usual=_TEXT,
    ),
    "translate": Use(
        _translate,
        {"translation": "string", "parts": {"source": "string", "text": "string", "score": "double"}},
        {"src_lang": str, "tgt_lang": str, "prefix": str, **_WRITING},
        usual=_TEXT,
        sample="",  # whose language nobody asks for
    ),
    "generate": Use(
        _each("generate"),
        {"generated": "string", "score": "double", "ended": "bool"},
        {"max_new_tokens": int, **_WRITING},
        usual=(*((name,) for name in PROMPTS), *_TEXT),
    ),
    "tokenize": Use(_tokenize, {"ids": "int32s", "sentences": "int32s"}, usual=_TEXT, of_tokenizer=True),
}


def find_use(name: str) -> Use:
    """The use of a name; the nearest is named where there is none."""
    require(name in USES, f"{name!r} is no use in bulk; {near(name, USES)}", BadInput)
    return USES[name]


def check_use(name: str, options: Options) -> Options:
    """The options that were given, typed; what the use does not take, or lacks, is refused."""
    use = find_use(name)
    options = {one: value for one, value in options.items() if value is not None}
    check_options(options, use.options, f"Worker({name!r})")
    missing = [one for one in use.needed if not options.get(one)]
    require(not missing, f"{name} needs {', '.join(missing)}; give {' and '.join(missing)}=…", BadInput)
    try:
        return {one: typed(value, use.options[one], one) for one, value in options.items()}
    except BadConfig as wrong:
        raise BadInput(f"{name}: {wrong}") from None


def result_columns(name: str, options: Options) -> dict[str, Kind]:
    """The columns that a use gives with these options."""
    columns = dict(USES[name].columns)
    if name == "tag" and not options.get("words", True):
        del columns["words"]
    if name == "summarise" and options.get("abstractive"):
        del columns["sentences"]
    return columns


def text_columns(name: str, there: Sequence[str], text: str | None, pair: str | None, where: str) -> tuple[str, ...]:
    """The columns with the texts of a use: those named, or those that are usually called so. `where` has them."""
    use = USES[name]
    two = len(use.usual[0]) == 2
    require(two or pair is None, f"{name} reads one text a row; leave pair={pair!r} out", BadInput)
    known = ", ".join(repr(one[:40]) for one in there) or "none"
    for one in (text, pair):
        require(one is None or one in there, f"{where} has no column {one!r}; it has {known}", BadInput)
    if text is not None and (pair is not None or not two):
        return (text,) if pair is None else (text, pair)
    lower = {one.lower(): one for one in reversed(there)}
    for names in use.usual:
        found = [lower.get(one.lower()) for one in names]
        chosen = (text or found[0], pair or found[1]) if two else (found[0],)
        if all(one is not None for one in chosen):
            return tuple(map(str, chosen))
    if len(there) == 1 and not two:
        return (there[0],)
    wanted = "columns with two usual names" if two else "column with a usual name"
    todo = "name them with --text and --pair (text=, pair=)" if two else "name it with --text (text=)"
    raise BadInput(f"{where} has no {wanted} for {name}; it has {known}; {todo}")


def item_of(name: str, columns: Sequence[str], values: Sequence[Any]) -> Any:
    """What a use takes of a row; a `BadInput` says what is wrong with the row."""
    use = USES[name]
    parts: list[Any] = []
    for place, (column, value) in enumerate(zip(columns, values, strict=True)):
        if use.listed and place == 1:
            texts = value.tolist() if hasattr(value, "tolist") else value
            several = isinstance(texts, list | tuple) and len(texts) > 0 and all(isinstance(one, str) for one in texts)
            require(several, f"{column} is {short(value)}, which is no list of texts", BadInput)
            parts.append([valid_text(str(one)) for one in texts])
            continue
        require(value is not None, f"{column} is missing", BadInput)
        require(isinstance(value, str), f"{column} is {short(value)}, which is no text", BadInput)
        parts.append(valid_text(str(value)))
    return parts[0] if len(parts) == 1 else tuple(parts)
