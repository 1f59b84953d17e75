"""OpenAI's completions: text that goes on from a prompt, whole or while it is written."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from clearhead.serve.dialects.dialect import Call, Params, Stream, convert
from clearhead.serve.work import Done, Refusal, Work

MAX_TOKENS = 16  # where nobody says how many, as with OpenAI
_LEAST_TEMPERATURE = 1e-5  # below it nothing is left to be drawn, and logits would overflow


class StreamOptions(msgspec.Struct):
    """What a stream has beside the text."""

    include_usage: bool | None = None


class CompletionBody(msgspec.Struct):
    """A prompt, or several, and how to go on; what stands after `user` is from vLLM."""

    prompt: str | list[str | int | list[int]]
    model: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None
    best_of: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1)] | None = None  # -1 and 0 cut nothing off
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0)] | None = None


def read_completion(content: dict[str, Any], params: Params) -> Call:
    """Work for `generate`, its answer, and with `stream` the same while it is written."""
    body = convert(content, CompletionBody)
    _check(body)
    prompts, number = _prompts(body.prompt), body.n or 1
    stops = tuple([body.stop] if isinstance(body.stop, str) else body.stop or ())
    if not all(stops):
        raise Refusal("invalid", "stop: a stop string is empty; leave it out or give some characters", field="stop")
    if body.stream and (len(prompts) > 1 or number > 1):
        told = f"a stream has one text, not {len(prompts) * number}; send one prompt with n = 1, or no stream"
        raise Refusal("invalid", told, field="stream")
    options = _options(body, number, stops)
    work = Work(use="generate", items=prompts, model=body.model, options=options)
    frame = {"id": f"cmpl-{uuid4().hex}", "object": "text_completion", "created": int(time.time())}
    copies = number if "num_return_sequences" not in options else 1  # greedily, all are the same

    def answer(done: Done) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for prompt, result in zip(prompts, done.results, strict=True):
            for one in result if isinstance(result, list) else [result] * copies:
                text = (prompt if body.echo else "") + _before(one["generated"], stops)
                choices.append(_choice(len(choices), text, _reason(one)))
        return {**frame, "model": done.model, "choices": choices, "usage": _usage(done, copies)}

    if not body.stream:
        return Call(work, answer)
    counted = body.stream_options is not None and bool(body.stream_options.include_usage)
    opening = prompts[0] if body.echo else ""
    return Call(work, answer, _stream(frame | {"model": body.model or ""}, opening, stops, counted))


def _stream(frame: dict[str, Any], opening: str, stops: Sequence[str], counted: bool) -> Stream:
    text = _Growing(stops)

    def piece(number: int, new: str) -> dict[str, Any]:
        said = (opening if number == 0 else "") + text.add(new)
        return {**frame, "choices": [_choice(0, said, None)]}

    def end(done: Done) -> list[Any]:
        told = {**frame, "model": done.model}
        rest = ("" if text.begun else opening) + text.rest()
        events: list[Any] = [{**told, "choices": [_choice(0, rest, _reason(done.results[0]))]}]
        if counted:
            events.append({**told, "choices": [], "usage": _usage(done, 1)})
        return [*events, "[DONE]"]

    return Stream(piece, end)


@dataclass
class _Growing:
    """A text that is sent while it grows; what may be the beginning of a stop string waits."""

    stops: Sequence[str]
    text: str = ""
    sent: int = 0
    begun: bool = False

    def add(self, piece: str) -> str:
        self.text, self.begun = self.text + piece, True
        kept = _before(self.text, self.stops)
        return self._send(kept if len(kept) < len(self.text) else self.text[: len(self.text) - self._open()])

    def rest(self) -> str:
        return self._send(_before(self.text, self.stops))

    def _send(self, kept: str) -> str:
        new, self.sent = kept[self.sent :], max(self.sent, len(kept))
        return new

    def _open(self) -> int:
        """How many of the last characters begin a stop string."""
        lengths = (size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size]))
        return max(lengths, default=0)


def _before(text: str, stops: Sequence[str]) -> str:
    """The text up to the first stop string, which `generate` leaves at its end and OpenAI does not."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]


def _prompts(given: str | list[Any]) -> list[str]:
    prompts = [given] if isinstance(given, str) else given
    if not prompts:
        raise Refusal("invalid", "prompt: the list is empty; give at least one text", field="prompt")
    if not all(isinstance(one, str) for one in prompts):
        raise Refusal("invalid", "prompt: token ids cannot be gone on from; give a text", field="prompt")
    return prompts


def _check(body: CompletionBody) -> None:
    """Refuse what would change the text if it were understood."""
    if body.logprobs is not None:
        raise Refusal("invalid", "logprobs cannot be had; leave it out", field="logprobs")
    if body.suffix:
        raise Refusal("invalid", "suffix: text is only written at the end; leave it out", field="suffix")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise Refusal("invalid", "best_of: as many texts are written as n says; leave it out", field="best_of")
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(body, name):
            told = f"{name} cannot be had; leave it out, or send repetition_penalty"
            raise Refusal("invalid", told, field=name)
    if body.logit_bias:
        raise Refusal("invalid", "logit_bias cannot be had; leave it out", field="logit_bias")
    most = body.max_tokens or MAX_TOKENS
    if body.min_tokens is not None and body.min_tokens > most:
        told = f"min_tokens {body.min_tokens} is more than max_tokens {most}; ask for fewer"
        raise Refusal("invalid", told, field="min_tokens")


def _options(body: CompletionBody, number: int, stops: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {"max_new_tokens": body.max_tokens or MAX_TOKENS}
    temperature = 1.0 if body.temperature is None else body.temperature
    if temperature < _LEAST_TEMPERATURE:
        options["num_beams"] = 1  # said, it keeps a checkpoint that samples by habit from doing so
    else:
        options["temperature"] = temperature
        if body.top_p is not None:
            options["top_p"] = body.top_p
        if body.top_k is not None:
            options["top_k"] = max(body.top_k, 0)
        if body.seed is not None:
            options["seed"] = body.seed
        if number > 1:
            options["num_return_sequences"] = number
    if stops:
        options["stop_strings"] = list(stops)
    if body.min_tokens:
        options["min_new_tokens"] = body.min_tokens
    if body.repetition_penalty is not None:
        options["repetition_penalty"] = body.repetition_penalty
    return options


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _reason(result: dict[str, Any]) -> str:
    return "stop" if result["ended"] else "length"


def _usage(done: Done, copies: int) -> dict[str, int]:
    written = done.written * copies
    return {"prompt_tokens": done.read, "completion_tokens": written, "total_tokens": done.read + written}
