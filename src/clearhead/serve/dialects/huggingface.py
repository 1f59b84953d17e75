"""The dialect of Hugging Face's Inference API: POST /models/{model}/pipeline/{task}, a path for every task.

Answers have the shapes that `huggingface_hub.InferenceClient` parses; options and defaults are those of
`clearhead.pipeline`, where the client's documentation does not say otherwise. Long texts are read whole.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any, TypeVar

import msgspec

from clearhead.serve.dialects.dialect import Call, Dialect, Params, Post, Stream, convert
from clearhead.serve.dialects.huggingface_requests import (
    ClassParameters,
    ClassRequest,
    FeatureRequest,
    FillParameters,
    FillRequest,
    GenerationParameters,
    GenerationRequest,
    QuestionParameters,
    QuestionRequest,
    RankingRequest,
    RewritingParameters,
    RewritingRequest,
    TaskRequest,
    TextPair,
    TokenParameters,
    TokenRequest,
    ZeroShotRequest,
)
from clearhead.serve.dialects.tei import SimilarityRequest, similarity
from clearhead.serve.dialects.vectors import floats, in_base64
from clearhead.serve.work import Done, Refusal, Use

Item = TypeVar("Item")
Read = Callable[[dict[str, Any], Params], Call]

_TEMPLATE = "This example is {}."  # what pipelines ask where no template is given
_LONGEST_ANSWER = 15  # tokens, as pipelines have it


def _several(inputs: Item | list[Item]) -> tuple[list[Item], bool]:
    """One input or a list -> a list, and whether it was one."""
    return (inputs, False) if isinstance(inputs, list) else ([inputs], True)


def _as_asked(found: list[Any], single: bool) -> Any:
    return found[0] if single else found


# understanding


def _fill(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, FillRequest)
    told = body.parameters or FillParameters()
    items, single = _several(body.inputs)
    words = [told.targets] if isinstance(told.targets, str) else told.targets
    work = body.work("fill", items, params, {"top_k": told.top_k, "candidates": words})
    return Call(work, lambda done: _as_asked([_filled(one) for one in done.results], single))


def _filled(found: Mapping[str, Any]) -> list[Any]:
    """The words for a mask; of several masks, a list for each."""
    masks = [
        [
            {"score": one["score"], "token": one["id"], "token_str": one["token"], "sequence": one["sequence"]}
            for one in several
        ]
        for _, several in groupby(found["predictions"], key=lambda one: one["mask"])
    ]
    return masks[0] if len(masks) == 1 else masks


def _classify(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, ClassRequest)
    told = body.parameters or ClassParameters()
    given, _ = _several(body.inputs)
    items = [one.item() if isinstance(one, TextPair) else one for one in given]
    use: Use = "compare" if items and all(isinstance(one, list) for one in items) else "classify"
    own = told.function_to_apply is None  # else scores are made here, of all logits
    options = {"top_k": told.top_k if own else None, "raw_scores": None if own else True}

    def ranked(found: Mapping[str, Any]) -> list[dict[str, Any]]:
        scores = _activated(found["scores"], told.function_to_apply)
        return [{"label": label, "score": score} for label, score in scores.items()][: told.top_k]

    # nested for one text too, since the client takes the first of what it gets
    return Call(body.work(use, items, params, options), lambda done: [ranked(one) for one in done.results])


def _activated(logits: Mapping[str, float], function: str | None) -> Mapping[str, float]:
    if function == "sigmoid":
        return {label: (1 + math.tanh(logit / 2)) / 2 for label, logit in logits.items()}
    if function == "softmax":
        top = max(logits.values())
        total = sum(math.exp(logit - top) for logit in logits.values())
        return {label: math.exp(logit - top) / total for label, logit in logits.items()}
    return logits


def _zero_shot(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, ZeroShotRequest)
    told, (items, single) = body.parameters, _several(body.inputs)
    labels = told.candidate_labels
    if isinstance(labels, str):
        labels = [part.strip() for part in labels.split(",") if part.strip()]
    if not labels:
        message = "parameters.candidate_labels: there is none; name at least one label"
        raise Refusal("invalid", message, field="parameters.candidate_labels")
    template = _TEMPLATE if told.hypothesis_template is None else told.hypothesis_template
    options = {"labels": labels, "hypothesis_template": template, "multi_label": told.multi_label}

    def answer(done: Done) -> Any:
        scores = (one["scores"] for one in done.results)
        found = [[{"label": label, "score": score} for label, score in one.items()] for one in scores]
        # the client in JavaScript sends one text as a list, and reads the answer as that of one text
        return _as_asked(found, single or len(items) == 1)

    return Call(body.work("zero-shot", items, params, options), answer)


def _tag(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, TokenRequest)
    told = body.parameters or TokenParameters()
    items, single = _several(body.inputs)
    # entities unless told otherwise: pipelines give words, but the service that this stands for does not
    strategy = told.aggregation_strategy or "simple"
    ignored = ["O"] if told.ignore_labels is None else told.ignore_labels
    options = {} if strategy == "none" else {"aggregation_strategy": strategy}

    def labelled(text: str, found: Mapping[str, Any]) -> list[dict[str, Any]]:
        if strategy == "none":
            return _words(found["words"], ignored)
        groups = [*(_group(one["label"], [one], text) for one in found["entities"]), *_others(found, text)]
        kept = [one for one in groups if one["entity_group"] not in ignored]
        return sorted(kept, key=lambda one: one["start"])

    def answer(done: Done) -> Any:
        return _as_asked([labelled(*one) for one in zip(items, done.results, strict=True)], single)

    return Call(body.work("tag", items, params, options), answer)


def _words(words: Sequence[Mapping[str, Any]], ignored: Sequence[str]) -> list[dict[str, Any]]:
    """Each word with its label; they are counted from 1, since a special token stands before them."""
    return [
        {
            "entity": one["label"],
            "score": one["score"],
            "index": index,
            "word": one["text"],
            "start": one["start"],
            "end": one["end"],
        }
        for index, one in enumerate(words, start=1)
        if one["label"] not in ignored
    ]


_OF_ENTITY = re.compile(r"[BILUES]-.")


def _others(found: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """Neighbouring words of one label outside of entities: those labelled "O", or all of a model of plain tags."""
    starts, ends = ([one[place] for one in found["entities"]] for place in ("start", "end"))

    def kind(word: Mapping[str, Any]) -> str | None:
        last = bisect_left(starts, word["end"]) - 1  # of the entities that begin before the word ends
        inside = last >= 0 and ends[last] > word["start"]
        return None if inside or _OF_ENTITY.match(word["label"]) else word["label"]

    return [_group(label, list(run), text) for label, run in groupby(found["words"], key=kind) if label is not None]


def _group(label: str, parts: Sequence[Mapping[str, Any]], text: str) -> dict[str, Any]:
    start, end = parts[0]["start"], parts[-1]["end"]
    score = fmean(one["score"] for one in parts)
    return {"entity_group": label, "score": score, "word": text[start:end], "start": start, "end": end}


def _answer(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, QuestionRequest)
    told = body.parameters or QuestionParameters()
    given, single = _several(body.inputs)
    top = told.top_k or 1
    options = {
        "top_k": top,
        "max_answer_length": told.max_answer_len or _LONGEST_ANSWER,
        "whole_words": told.align_to_words,
    }
    work = body.work("answer", [[one.question, one.context] for one in given], params, options)

    def answers(found: Mapping[str, Any]) -> Any:
        best = [
            {"answer": one["text"], "score": one["score"], "start": one["start"], "end": one["end"]}
            for one in found["candidates"]
        ]
        if told.handle_impossible_answer or not best:
            score = _none_score(found) if told.handle_impossible_answer else 0.0
            best.append({"answer": "", "score": score, "start": 0, "end": 0})
        best = sorted(best, key=lambda one: -one["score"])[:top]
        return best[0] if top == 1 else best

    return Call(work, lambda done: _as_asked([answers(one) for one in done.results], single))


def _none_score(found: Mapping[str, Any]) -> float:
    """The probability that there is no answer, which the result says only where it abstains."""
    if found["answer"] is None:
        return float(found["score"])
    best = found["candidates"][0]
    return float(best["score"] * math.exp(found["null_score"] - best["logit"]))


# vectors


def _embed(content: dict[str, Any], params: Params) -> Call:
    below = content.get("parameters")  # where other tasks have them
    body = convert({**content, **below} if isinstance(below, dict) else content, FeatureRequest)
    given = {"normalise": body.normalize, "dimensions": body.dimensions}
    options = {name: value for name, value in given.items() if value is not None}
    say: Callable[[bytes], Any] = in_base64 if body.encoding_format == "base64" else floats
    return Call(body.work("embed", body.items(), params, options), lambda done: [say(one) for one in done.results])


def _rank(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RankingRequest)
    if not body.texts:
        raise Refusal("invalid", "texts: the list is empty; give at least one text", field="texts")
    whole = body.parameters is not None and body.parameters.return_documents
    keys = ("index", "score", "text") if whole else ("index", "score")
    work = body.work("rerank", [[body.query, body.texts]], params, {})
    return Call(work, lambda done: {"scores": [{key: one[key] for key in keys} for one in done.results[0]]})


# writing


def _summarise(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RewritingRequest)
    how, much = body.options()
    items, _ = _several(body.inputs)
    # sentences are picked, unless something is said that only a text in new words can be
    options = {"abstractive": True, **how, **much} if how or much else {}
    return Call(body.work("summarise", items, params, options), lambda done: _written(done, "summary_text"))


def _translate(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RewritingRequest)
    told, (how, _) = body.parameters or RewritingParameters(), body.options()
    items, _ = _several(body.inputs)
    # a text is translated sentence by sentence, each as long as it must be: limits for the whole are not asked for
    options = {"src_lang": told.src_lang, "tgt_lang": told.tgt_lang, **how}
    return Call(body.work("translate", items, params, options), lambda done: _written(done, "translation_text"))


def _text_to_text(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, RewritingRequest)
    how, much = body.options()
    items, _ = _several(body.inputs)
    return Call(body.work("generate", items, params, {**how, **much}), lambda done: _written(done, "generated_text"))


def _written(done: Done, key: str) -> list[Any]:
    """A dictionary for each text, and a list where several sequences were asked for; of one text, those alone."""
    found = [[{key: _text(one)} for one in _several(several)[0]] for several in done.results]
    if all(isinstance(several, dict) for several in done.results):
        return [one for (one,) in found]
    return found[0] if len(found) == 1 else found


def _text(found: Mapping[str, Any]) -> str:
    return str(next(found[key] for key in ("summary", "generated", "text") if key in found))


# what would change the text in ways that nothing here does, so that it is not passed over
_REFUSED = {
    "max_length": "it counts the prompt too; give max_new_tokens",
    "min_length": "it counts the prompt too; give min_new_tokens",
    "grammar": "no text is held to a grammar here; leave it out",
    "adapter_id": "an adapter is a model of its own here; name it in the path",
}


def _generate(content: dict[str, Any], params: Params) -> Call:
    body = convert(content, GenerationRequest)
    told = body.parameters or GenerationParameters()
    items, single = _several(body.inputs)
    for name, todo in _REFUSED.items():
        if getattr(told, name) is not None:
            raise Refusal("invalid", f"parameters.{name}: {todo}", field=f"parameters.{name}")
    for name, asked in (("stream", body.stream), ("parameters.details", told.details)):
        if asked and not single:
            raise Refusal("invalid", f"{name}: it is for one prompt; send prompts one by one", field=name)
    options = {**told.options(), **told.lengths()}
    work = body.work("generate", items, params, options)
    if told.truncate is not None:
        work = msgspec.structs.replace(work, too_long="cut-start", max_tokens=told.truncate)
    stops = [told.stop] if isinstance(told.stop, str) else told.stop or []

    def sequence(prompt: str, found: Mapping[str, Any], done: Done) -> dict[str, Any]:
        one: dict[str, Any] = {"generated_text": (prompt if told.return_full_text else "") + found["generated"]}
        if told.details:
            counted = {"finish_reason": _finish(found, stops), "generated_tokens": done.written}
            one["details"] = {**counted, "seed": told.seed, "prefill": [], "tokens": []}
        return one

    def answer(done: Done) -> Any:
        several = [
            [sequence(prompt, one, done) for one in _several(found)[0]]
            for prompt, found in zip(items, done.results, strict=True)
        ]
        return _as_asked(several, single)

    def end(done: Done) -> list[Any]:
        found = done.results[0]
        counted = {"generated_tokens": done.written, "input_length": done.read}
        details = {"finish_reason": _finish(found, stops), **counted, "seed": told.seed}
        text = sequence(items[0], found, done)["generated_text"]
        return [{**_event(done.written, "", special=True), "generated_text": text, "details": details}]

    stream = Stream(piece=lambda number, text: _event(number + 1, text), end=end) if body.stream else None
    return Call(work, answer, stream)


def _event(index: int, text: str, *, special: bool = False) -> dict[str, Any]:
    # a piece may be several tokens, so that it has no id and no probability of its own
    token = {"id": None, "text": text, "logprob": None, "special": special}
    return {"index": index, "token": token, "generated_text": None, "details": None}


def _finish(found: Mapping[str, Any], stops: Sequence[str]) -> str:
    if not found["ended"]:
        return "length"
    return "stop_sequence" if any(stop in found["generated"] for stop in stops) else "eos_token"


# the routes

_TEXT = {"inputs": "Ada Lovelace lived in London."}
_LABELS = {"inputs": "The bank raised its rates.", "parameters": {"candidate_labels": ["money", "animals"]}}
_ASKED = {"inputs": {"question": "Where did Ada live?", "context": "Ada Lovelace lived in London."}}
_COSINES = {"inputs": {"source_sentence": "A man sleeps.", "sentences": ["Someone is asleep.", "Stocks fell."]}}
_RANKED = {"query": "Who barks?", "texts": ["Dogs bark.", "Cats meow."]}
_PROMPT = {"inputs": "The old house", "parameters": {"max_new_tokens": 8}}
_TASKS: dict[str, tuple[Read, type[msgspec.Struct], str, Mapping[str, Any]]] = {
    "fill-mask": (_fill, FillRequest, "Words for the masks of a text", {"inputs": "Wear a [MASK]!"}),
    "question-answering": (_answer, QuestionRequest, "The answer as a slice of a text", _ASKED),
    "token-classification": (_tag, TokenRequest, "Entities, or labels of words", _TEXT),
    "text-classification": (_classify, ClassRequest, "Classes of a text", {"inputs": "What a joy!"}),
    "zero-shot-classification": (_zero_shot, ZeroShotRequest, "Which of these labels fits", _LABELS),
    "summarization": (_summarise, RewritingRequest, "A summary", _TEXT),
    "translation": (_translate, RewritingRequest, "A translation", {"inputs": "Ein Hund bellt."}),
    "feature-extraction": (_embed, FeatureRequest, "One vector per text", {"inputs": ["A man sleeps."]}),
    "sentence-similarity": (similarity, SimilarityRequest, "Cosines of sentences", _COSINES),
    "text-generation": (_generate, GenerationRequest, "A prompt is gone on with", _PROMPT),
    "text2text-generation": (_text_to_text, RewritingRequest, "A text is written anew", _TEXT),
    "text-ranking": (_rank, RankingRequest, "Texts in the order in which they fit a query", _RANKED),
}
_ALIASES = {"ner": "token-classification", "sentiment-analysis": "text-classification"}


def _by_name(content: dict[str, Any], params: Params) -> Call:
    """Read a request for a task by one of its other names."""
    task = params["task"]
    if codes := re.fullmatch(r"translation_(\w+)_to_(\w+)", task):
        told = content.get("parameters")
        said = {name: value for name, value in told.items() if value is not None} if isinstance(told, dict) else {}
        return _translate({**content, "parameters": {"src_lang": codes[1], "tgt_lang": codes[2], **said}}, params)
    name = _ALIASES.get(task, task)
    if name not in _TASKS:
        known = ", ".join([*_TASKS, *_ALIASES])
        raise Refusal("not_found", f"there is no task {task!r}; there are {known}")
    return _TASKS[name][0](content, params)


def error(refusal: Refusal) -> tuple[int, Any]:
    """Say an error as the Inference API does."""
    return refusal.status, {"error": refusal.message}


def _posts(below: str) -> list[Post]:
    """A route for each task, and one for their other names."""
    named = [Post(f"{below}/pipeline/{task}", *route) for task, route in _TASKS.items()]
    about = "The same by other names: ner, sentiment-analysis, translation_de_to_en"
    return [*named, Post(f"{below}/pipeline/{{task}}", _by_name, TaskRequest, about, _TEXT)]


HUGGINGFACE = Dialect(name="huggingface", posts=[*_posts("/models/{model:path}"), *_posts("")], gets=[], error=error)
