"""clearhead's own dialect: POST /v1/{use}, with the options of the methods in Python and the command line's JSON keys.

One text gives one object, a list of them a list of objects. An option that is left out, or null, is the method's own.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from clearhead.errors import near, short
from clearhead.serve.dialects.dialect import Call, Dialect, Params, Post, Stream, convert, listed, openai_error
from clearhead.serve.dialects.native_requests import (
    AnswerRequest,
    ChooseRequest,
    ClassifyRequest,
    CompareRequest,
    EmbedRequest,
    FillRequest,
    FollowsRequest,
    GenerateRequest,
    Request,
    RerankRequest,
    SearchRequest,
    SummariseRequest,
    TagRequest,
    TranslateRequest,
    ZeroShotRequest,
)
from clearhead.serve.dialects.vectors import floats
from clearhead.serve.work import Done, Refusal, Use, Work

Body = TypeVar("Body", bound=Request)
Given = tuple[list[Any], bool]  # the items, and whether it was one


def _read(content: Mapping[str, Any], body: type[Body]) -> Body:
    """Read a request by its types; a field that is not known is refused with the nearest that is."""
    known = body.__struct_fields__
    for name in content:
        if name not in known:
            told = 'name it as a model, such as "built-in:spam"' if name == "skill" else near(name, known)
            raise _refused(name, f"it is no field of this route; {told}")
    try:
        return convert(content, body)
    except Refusal as wrong:
        raise _explained(wrong, content, body) from None


def _refused(field: str, told: str) -> Refusal:
    shown = short(field)[1:-1]
    return Refusal("invalid", f"{shown}: {told}", field=shown)


def _explained(wrong: Refusal, content: Mapping[str, Any], body: type[Request]) -> Refusal:
    """The same in words that need no knowledge of types, as far as there are some."""
    place = wrong.field or ""
    name = place.partition("[")[0]
    if name not in content:
        example = next(post.example for post in NATIVE.posts if post.body is body)
        shown = msgspec.json.encode(example.get(name, example)).decode()
        return _refused(place, f"it is missing; give it, such as {shown}")
    value = _at(content[name], place)
    if "matching regex" in wrong.message:
        return _refused(place, "it is empty; give some words")
    if "invalid enum" in wrong.message:
        choices = _choices(body, name)
        told = near(str(value), choices) if len(choices) > 1 else f'give a number, or "{choices[0]}"'
        return _refused(place, f"{short(value)} is not known; {told}")
    if value == []:
        return _refused(place, "the list is empty; give at least one")
    shown = "" if "got" in wrong.message else f", got {short(value)}"
    return Refusal("invalid", wrong.message + shown, field=wrong.field)


def _at(value: Any, place: str) -> Any:
    """What stands at a place such as passages[1][0], of which `value` is the field."""
    for index in re.findall(r"\[(\d+)\]", place):
        value = value[int(index)]
    return value


def _choices(body: type[Request], field: str) -> list[str]:
    """The strings that a field may be."""

    def within(hint: Any) -> list[str]:
        return [one for arg in get_args(hint) for one in ([arg] if isinstance(arg, str) else within(arg))]

    return within(get_type_hints(body)[field])


def _pairs(left: str, right: str) -> Callable[[Any], Given]:
    """Pair the texts of two fields up, as `Model.compare` does."""

    def given(request: Any) -> Given:
        first, second = getattr(request, left), getattr(request, right)
        firsts, one = listed(first)
        seconds, other = listed(second)
        if not one and not other and len(firsts) != len(seconds):
            told = f"there are {len(firsts)} for {left} and {len(seconds)} for {right}"
            raise _refused(right, f"{told}; give as many of both, or one of them as a single text")
        length = max(len(firsts), len(seconds))
        both = zip(firsts * length if one else firsts, seconds * length if other else seconds, strict=False)
        return [list(pair) for pair in both], one and other

    return given


def _with_lists(left: str, right: str) -> Callable[[Any], Given]:
    """Each text of a field with its list of texts in another: of one text a list, of many a list each, or one list."""

    def given(request: Any) -> Given:
        texts, one = listed(getattr(request, left))
        lists: list[Any] = getattr(request, right)
        nested = [isinstance(entry, list) for entry in lists]
        if not any(nested):
            return [[text, lists] for text in texts], one
        if one:
            raise _refused(right, f"of one {left} it is a list of texts, not of lists")
        if not all(nested):
            raise _refused(right, "texts and lists are mixed; give a list for each, or one list of texts for all")
        if len(lists) != len(texts):
            raise _refused(right, f"there are {len(lists)} lists for {len(texts)} of {left}; give one for each")
        return [list(both) for both in zip(texts, lists, strict=True)], False

    return given


def _texts(request: Any) -> Given:
    return listed(request.text)


def _asked(request: AnswerRequest) -> Given:
    if _one_of(request, "context", "index") == "index":
        return listed(request.question)
    return _pairs("question", "context")(request)


def _queries(request: SearchRequest) -> Given:
    _one_of(request, "documents", "index")
    return listed(request.query)


def _one_of(request: Request, first: str, second: str) -> str:
    """Which of two fields was given; both, or neither, are refused."""
    here = [name for name in (first, second) if getattr(request, name) is not None]
    if len(here) != 1:
        told = "give one of the two, not both" if here else "neither is there"
        raise _refused(first, f"{told}: {first}, or the name of an {second} that the service was started with")
    return here[0]


def _post(
    use: Use,
    body: type[Body],
    about: str,
    example: Mapping[str, Any],
    said: Callable[[Body, Any, Any], Any],
    *,
    given: Callable[[Body], Given] = _texts,
    inputs: tuple[str, ...] = ("text",),
    takes: Callable[[Mapping[str, Any]], bool] = lambda content: True,
) -> Post:
    """The route of a use: `given` are its items, which stand in the fields `inputs`; `said` is the answer for one."""
    left_out = {"model", *inputs}

    def read(content: dict[str, Any], params: Params) -> Call:
        request = _read(content, body)
        items, single = given(request)
        options = {name: getattr(request, name) for name in body.__struct_fields__ if name not in left_out}
        options = {name: msgspec.to_builtins(value) for name, value in options.items() if value is not None}
        if options.get("threshold") == "inf":
            options["threshold"] = math.inf

        def answer(done: Done) -> Any:
            found = [said(request, item, result) for item, result in zip(items, done.results, strict=True)]
            return found[0] if single else found

        return Call(Work(use=use, items=items, model=request.model, options=options), answer)

    return Post(f"/v1/{use}", read, body, about, example, takes)


def _beside(*names: str) -> Callable[[Any, Any, Any], Any]:
    """What was asked, under its names, before what was found."""

    def said(request: Any, item: Any, result: Any) -> Any:
        asked = {names[0]: item} if len(names) == 1 else dict(zip(names, item, strict=True))
        return {**asked, **result}

    return said


def _said_tags(request: TagRequest, item: Any, result: Any) -> Any:
    kept = result if request.words else {name: value for name, value in result.items() if name != "words"}
    return {"text": item, **kept}


def _said_answer(request: AnswerRequest, item: Any, result: Any) -> Any:
    rest = {name: value for name, value in result.items() if name != "source"}
    question = item if request.context is None else item[0]
    return {"question": question, "context": result.get("source"), **rest}


def _said_choice(request: ChooseRequest, item: Any, result: Any) -> Any:
    return {"context": item[0], **result}


def _said_vector(request: EmbedRequest, item: Any, result: bytes) -> Any:
    if request.encoding_format == "base64":
        return {"text": item, "vector": base64.b64encode(result).decode("ascii")}
    return {"text": item, "vector": list(result) if request.precision == "binary" else floats(result)}


def _said_hits(request: SearchRequest, item: Any, result: Any) -> Any:
    return {"query": item, "results": result}


def _said_ranking(request: RerankRequest, item: Any, result: Any) -> Any:
    return {"query": item[0], "results": result}


def _said_summary(request: SummariseRequest, item: Any, result: Any) -> Any:
    # what was written has its text and parts; sentences that were picked have a summary of their own
    return {"source": None, **({"summary": result["text"]} if request.abstractive else result)}


def _said_translation(request: TranslateRequest, item: Any, result: Any) -> Any:
    if request.num_return_sequences is None:
        return {"source": item, "translation": result["text"], "parts": result["parts"]}
    return [{"source": item, "translation": one["text"], "parts": one["parts"]} for one in result]


def _said_text(request: GenerateRequest, item: Any, result: Any) -> Any:
    if request.num_return_sequences is None:
        return {"prompt": item, **result}
    return [{"prompt": item, **one} for one in result]


def _streamed(post: Post) -> Post:
    """The same route, which can send a text while it is written."""

    def read(content: dict[str, Any], params: Params) -> Call:
        call = post.read(content, params)
        if not content.get("stream"):
            return call
        if isinstance(content["text"], list):
            raise _refused("stream", "only one text is sent while it is written; give text as a string")
        for name in ("num_beams", "num_return_sequences"):
            if call.work.options.get(name, 1) > 1 or (name == "num_return_sequences" and name in call.work.options):
                raise _refused(name, "the best of several is only known at the end; leave it out, or do not stream")
        return replace(call, stream=Stream(lambda place, text: {"piece": text}, lambda done: [call.answer(done)]))

    return replace(post, read=read)


_HIDDEN = {"text": "The capital of France is [MASK].", "candidates": ["paris", "soup"]}
_REVIEWS = {"text": ["What a joy!", "A dull film."], "model": "built-in:sentiment"}
_TOPICS = {"text": "The bank raised its interest rates.", "labels": ["money", "animals"]}
_ASKED = {"question": "Who was tired?", "context": "The animal was tired, so it stopped."}
_ARTICLE = "Dogs bark. Dogs are animals that bark at night. The moon is far away."
_SENTENCES = {"first": "A man is sleeping.", "second": ["Nobody is sleeping.", "Somebody is at rest."]}
_NEXT = {"first": "She opened the umbrella.", "second": "It had begun to rain."}
_CHOICE = {"context": "She opened the umbrella because", "candidates": ["it rained.", "it was Monday."]}
_SEARCH = {"query": "animals that bark", "documents": ["Dogs bark.", "Cats meow."], "top_k": 1}
_RERANK = {"query": "Who barks?", "passages": ["Dogs bark.", "Cats meow."]}
_PAIR, _BOTH = ("first", "second"), _pairs("first", "second")

_POSTS = (
    _post("fill", FillRequest, "Which words stand behind the masks?", _HIDDEN, _beside("text")),
    _post("classify", ClassifyRequest, "Which class does a text belong to?", _REVIEWS, _beside("text")),
    _post("zero-shot", ZeroShotRequest, "Which of these labels fits a text?", _TOPICS, _beside("text")),
    _post(
        "compare",
        CompareRequest,
        "How do two texts relate?",
        _SENTENCES,
        _beside(*_PAIR),
        given=_BOTH,
        inputs=_PAIR,
    ),
    _post(
        "follows",
        FollowsRequest,
        "Does the second text follow the first?",
        _NEXT,
        _beside(*_PAIR),
        given=_BOTH,
        inputs=_PAIR,
    ),
    _post(
        "tag",
        TagRequest,
        "Words with their labels, and entities.",
        {"text": "Ada Lovelace lived in London."},
        _said_tags,
        inputs=("text", "words"),
    ),
    _post(
        "answer",
        AnswerRequest,
        "Where in a text is the answer?",
        _ASKED,
        _said_answer,
        given=_asked,
        inputs=("question", "context"),
    ),
    _post(
        "choose",
        ChooseRequest,
        "Which candidate fits the context best?",
        _CHOICE,
        _said_choice,
        given=_with_lists("context", "candidates"),
        inputs=("context", "candidates"),
    ),
    _post(
        "embed",
        EmbedRequest,
        "One vector per text.",
        {"text": ["A man sleeps.", "Nobody is awake."]},
        _said_vector,
        inputs=("text", "encoding_format"),
        takes=lambda content: "text" in content,
    ),
    _post(
        "search",
        SearchRequest,
        "Which passages fit a query best?",
        _SEARCH,
        _said_hits,
        given=_queries,
        inputs=("query",),
    ),
    _post(
        "rerank",
        RerankRequest,
        "Which passages are what a query looks for?",
        _RERANK,
        _said_ranking,
        given=_with_lists("query", "passages"),
        inputs=("query", "passages"),
        takes=lambda content: "passages" in content,
    ),
    _post(
        "summarise",
        SummariseRequest,
        "The sentences that say most of a text, or a summary in other words.",
        {"text": _ARTICLE, "sentences": 1},
        _said_summary,
    ),
    _post("translate", TranslateRequest, "A text in another language.", {"text": "Guten Tag."}, _said_translation),
    _streamed(
        _post(
            "generate",
            GenerateRequest,
            "Write on from a prompt.",
            {"text": "The old house", "max_new_tokens": 20},
            _said_text,
            inputs=("text", "stream"),
        )
    ),
)
NATIVE = Dialect("clearhead", _POSTS, (), openai_error)
