"""How tokens are generated: greedy, beams or sampling, and the rules for all of them."""

# B rows · V vocabulary

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from numbers import Integral, Real
from random import Random
from typing import Any, Self, TypedDict, Unpack, cast

import torch
from torch import Tensor

from clearhead.errors import BadInput, check_options, renamed, require, typed
from clearhead.text.sentences import split_sentences


def check_whole(name: str, value: object, *, least: int = 0, most: int | None = None) -> None:
    """Refuse what is no whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    require(whole, f"{name} must be a whole number, got {value!r}", BadInput)
    number = int(value)  # type: ignore[call-overload]
    low = "not be negative" if least == 0 else f"be at least {least}"
    require(number >= least, f"{name} must {low}, got {value}", BadInput)
    require(most is None or number <= most, f"{name} must be at most {most}, got {value}", BadInput)


def check_number(name: str, value: object) -> None:
    """Refuse what is no finite number."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    require(real and math.isfinite(value), f"{name} must be a finite number, got {value!r}", BadInput)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to draw: a higher temperature is wilder; `top_k` and `top_p` cut the unlikely off (0 and 1 cut nothing)."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature)
        todo = "leave it out for the likeliest token each time"
        require(self.temperature > 0, f"temperature must be more than 0, got {self.temperature}; {todo}", BadInput)
        check_whole("top_k", self.top_k)
        check_number("top_p", self.top_p)
        require(0 < self.top_p <= 1, f"top_p must be more than 0 and at most 1, got {self.top_p}", BadInput)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (B, V) -> the probabilities to draw by."""
        logits = logits.float() / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        found = logits.softmax(-1)
        if self.top_p < 1:
            ordered, places = found.sort(descending=True)
            before = ordered.cumsum(-1) - ordered  # how much is likelier; the first always stays
            found = found.scatter(1, places, ordered.masked_fill(before >= self.top_p, 0.0))
            found = found / found.sum(-1, keepdim=True)
        return found

    def draw(self, logits: Tensor, rngs: Sequence[Random]) -> Tensor:
        """Draw one token for each row, each by its own rng, whatever runs beside it: logits (B, V) -> (B,).

        It is the token at which the probabilities add up to a share that is drawn; one without probability never is.
        """
        reached = self.probabilities(logits).double().cumsum(-1)
        shares = torch.tensor([[1 - one.random()] for one in rngs], dtype=torch.float64, device=logits.device)
        allowed = bool(reached[:, -1].isfinite().all())
        require(allowed, "the rules leave no token to be written; forbid less", BadInput)
        return torch.searchsorted(reached, shares * reached[:, -1:])[:, 0]


@renamed(limit="max_new_tokens", least="min_new_tokens", no_repeat="no_repeat_ngram_size", stop="stop_strings")
@dataclass(frozen=True, kw_only=True)
class Controls:
    """Rules for the tokens of one text. `end` are the tokens that end it; they are not part of the result.

    `repetition_penalty` divides positive scores of tokens that were there before and multiplies negative ones (Keskar
    et al. 2019); no `no_repeat_ngram_size` tokens follow one another twice. A text begins with `first`, and one that
    reaches the limit ends with `last`, whatever is likely; with `whole_sentences`, it ends where a sentence does in the
    second half of its limit. That and `stop_strings` need `decode`.
    """

    end: tuple[int, ...] = ()
    max_new_tokens: int = 128
    min_new_tokens: int = 0  # before the end
    banned: tuple[int, ...] = ()
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    stop_strings: tuple[str, ...] = ()
    whole_sentences: bool = False
    decode: Callable[[Sequence[int]], str] | None = None
    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        check_whole("max_new_tokens", self.max_new_tokens, least=1)
        check_whole("min_new_tokens", self.min_new_tokens)
        check_whole("no_repeat_ngram_size", self.no_repeat_ngram_size)
        penalty = self.repetition_penalty
        check_number("repetition_penalty", penalty)
        require(penalty > 0, f"repetition_penalty must be more than 0, got {penalty}; 1 is no penalty", BadInput)
        require(all(self.stop_strings), "a stop string must not be empty", BadInput)
        can_stop = not (self.stop_strings or self.whole_sentences) or self.decode is not None
        require(can_stop, "stop strings and whole sentences need decode, which makes text of ids", BadInput)

    def changes(self, count: int) -> bool:
        """Whether `apply` would change scores after `count` new tokens."""
        held_back = count < self.min_new_tokens and bool(self.end)
        return held_back or bool(self.banned) or self.reads or self.forced(count) is not None

    @property
    def reads(self) -> bool:
        """Whether `apply` looks at the texts: they may not repeat themselves."""
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram_size > 0

    def forced(self, count: int) -> int | None:
        """The token that must follow `count` new ones."""
        if self.last is not None and count == self.max_new_tokens - 1:
            return self.last
        return self.first if count == 0 else None

    def apply(self, scores: Tensor, texts: Sequence[Sequence[int]], count: int) -> Tensor:
        """Change the scores (B, V) of the next token of texts that have `count` new tokens.

        The texts may be left out where none is looked at.
        """
        return self.apply_(scores.clone(), texts, count) if self.changes(count) else scores

    def apply_(self, scores: Tensor, texts: Sequence[Sequence[int]], count: int) -> Tensor:
        """The same where the scores stand: nobody else may need them."""
        if (only := self.forced(count)) is not None:
            scores.fill_(-torch.inf)[:, only] = 0.0
            return scores
        if self.repetition_penalty != 1.0:
            for row, text in enumerate(texts):
                seen = torch.tensor(sorted(set(text)), dtype=torch.int64, device=scores.device)
                old = scores[row, seen]
                scores[row, seen] = torch.where(old < 0, old * self.repetition_penalty, old / self.repetition_penalty)
        if self.no_repeat_ngram_size:
            for row, text in enumerate(texts):
                scores[row, _completions(text, self.no_repeat_ngram_size)] = -torch.inf
        banned = self.banned + (self.end if count < self.min_new_tokens else ())
        return scores.index_fill_(1, _places(banned, scores.device), -torch.inf) if banned else scores

    def stops(self, new: Sequence[int]) -> bool:
        """Whether one of the stop strings is in the text of the new tokens, or it has said enough; asked after each."""
        if self.decode is None:
            return False
        if self.whole_sentences and 2 * len(new) >= self.max_new_tokens and _ends_a_sentence(self.decode(new)):
            return True
        if not self.stop_strings:
            return False
        # a character takes up to four tokens of bytes, and what is further back was looked at before
        recent = self.decode(new[-4 * max(map(len, self.stop_strings)) - 4 :])
        return any(stop in recent for stop in self.stop_strings)


@lru_cache(maxsize=64)
def _places(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    """The same tokens are banned at every step, and a GPU would wait for them each time."""
    with torch.inference_mode(mode=False):
        return torch.tensor(tokens, dtype=torch.int64, device=device)


def _completions(text: Sequence[int], n: int) -> list[int]:
    """The tokens that would make the last n tokens of a text a repetition."""
    if len(text) + 1 < n:
        return []
    before = list(text[len(text) - n + 1 :])
    return [text[i + n - 1] for i in range(len(text) - n + 1) if list(text[i : i + n - 1]) == before]


def _ends_a_sentence(text: str) -> bool:
    """Whether another sentence could follow: not inside of a quotation, nor after an abbreviation."""
    return text.count('"') % 2 == 0 and split_sentences(f"{text} A")[-1] == " A"


NEW_TOKENS = 128  # at most, where neither the user nor the checkpoint says how many
MOST_NEW_TOKENS = 4096  # that a checkpoint may take for usual; who wants more says so
BEAMS = 4  # where a text is written anew and nobody says how many
MOST = 256  # beams or sequences of one text: each takes the memory of a text


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationConfig:
    """How tokens are chosen: greedily, by beams, or by sampling; all but the most that are generated."""

    num_beams: int = 1
    num_return_sequences: int = 1  # for each text
    length_penalty: float = 1.0
    early_stopping: bool = False  # as soon as there are as many ends as beams
    sampling: Sampling | None = None
    seed: int | None = None  # None draws one from torch's own generator
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    stop_strings: tuple[str, ...] = ()
    whole_sentences: bool = False  # a text ends with a sentence, where one ends in the second half of the limit

    def __post_init__(self) -> None:
        for name in ("num_beams", "num_return_sequences"):
            check_whole(name, getattr(self, name), least=1, most=MOST)
        for name in ("min_new_tokens", "no_repeat_ngram_size"):
            check_whole(name, getattr(self, name))
        for name in ("length_penalty", "repetition_penalty"):
            check_number(name, getattr(self, name))
        for name in ("early_stopping", "whole_sentences"):
            value = getattr(self, name)
            require(isinstance(value, bool), f"{name} must be True or False, got {value!r}", BadInput)
        seeded = self.seed is None or isinstance(self.seed, int)
        require(seeded, f"seed must be a whole number, got {self.seed!r}", BadInput)
        mixed = self.sampling is not None and self.num_beams > 1
        require(not mixed, f"{self.num_beams} beams and sampling do not go together; choose one of the two", BadInput)
        told = f"num_return_sequences={self.num_return_sequences} needs as many num_beams, got {self.num_beams}"
        several = self.sampling is not None or self.num_return_sequences <= self.num_beams
        require(several, f"{told}, or sampling, such as a temperature", BadInput)

    def rngs(self) -> Iterator[list[Random]]:
        """What the sequences of each text in turn are drawn with; it follows from the seed and the text's place."""
        seed = int(torch.randint(2**62, (1,))) if self.seed is None else self.seed
        for place in count():
            yield [Random(f"{seed} {place} {way}") for way in range(self.num_return_sequences)]  # noqa: S311


class GenerationOptions(TypedDict, total=False):
    """What `Model.generate` and its kin may be told, beside how many sequences of each text they give."""

    num_beams: int
    length_penalty: float
    early_stopping: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int
    min_new_tokens: int
    repetition_penalty: float
    no_repeat_ngram_size: int
    stop_strings: str | tuple[str, ...] | list[str]
    whole_sentences: bool


def generation_config(**options: Unpack[GenerationOptions]) -> GenerationConfig:
    """Choose greedily; by sampling if there is a `temperature`, `top_k` or `top_p`; by beams if there are several.

    What would change nothing is refused: a seed without sampling, a length penalty without beams.
    """
    known = [*GenerationOptions.__annotations__, "max_new_tokens", "num_return_sequences"]
    check_options(options, known, "writing")
    given: dict[str, Any] = {**options}
    temperature, top_k, top_p = (given.pop(name, None) for name in ("temperature", "top_k", "top_p"))
    if temperature is not None or top_k not in (None, 0) or top_p not in (None, 1.0):
        drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        given["sampling"] = Sampling(**{name: value for name, value in drawn.items() if value is not None})
    config = GenerationConfig(**given | {"stop_strings": _strings(given.get("stop_strings", ()))})
    idle = config.seed is not None and config.sampling is None
    require(not idle, f"seed {config.seed} has nothing to draw; add a temperature, top_k or top_p", BadInput)
    idle = config.length_penalty != 1.0 and config.num_beams == 1
    require(not idle, f"length_penalty {config.length_penalty} has no beams to weigh; ask for several", BadInput)
    idle = config.early_stopping and config.num_beams == 1
    require(not idle, "early_stopping has no beams to stop; ask for several", BadInput)
    return config


_OF_BEAMS = ("num_beams", "length_penalty", "early_stopping")
_OF_SAMPLING = ("temperature", "top_k", "top_p")


def with_usual(options: GenerationOptions, usual: GenerationOptions) -> GenerationConfig:
    """Choose as is `usual`, unless told otherwise; what is usual for beams waits until there are some.

    Who asks for sampling gets no beams that are usual, and who says how many beams, even one, no sampling that is.
    """
    chosen: dict[str, Any] = {**usual, **options}
    if any(name in options for name in _OF_SAMPLING) or chosen.get("num_beams", 1) == 1:
        chosen = {name: value for name, value in chosen.items() if name in options or name not in _OF_BEAMS}
    if chosen.get("num_beams", 1) > 1 or "num_beams" in options:
        left_out = (*_OF_SAMPLING, "seed")
        chosen = {name: value for name, value in chosen.items() if name in options or name not in left_out}
    return generation_config(**cast("GenerationOptions", chosen))


def with_beams(options: GenerationOptions, usual: GenerationOptions | None = None) -> GenerationConfig:
    """Choose by four beams and as is `usual`, unless told otherwise: what is written anew is better for it.

    Who asks for sampling gets no beams, and where there are none, no length penalty is usual.
    """
    return with_usual(options, {"num_beams": BEAMS, **(usual or {})})


@dataclass(frozen=True, kw_only=True, slots=True)
class WritingHabits:
    """What a checkpoint says about how it writes: the options that it is best with, and the tokens that it needs."""

    options: GenerationOptions = field(default_factory=lambda: GenerationOptions())
    max_new_tokens: int | None = None
    start: int | None = None  # what the decoder begins with, where it is not the family's own
    first: int | None = None  # what every text begins with
    last: int | None = None  # what a text ends with that reaches the limit
    ends: tuple[int, ...] = ()  # where there are several

    @classmethod
    def read(cls, content: Mapping[str, Any], *, sourced: bool, name: str) -> Self:
        """Take what is known from a generation_config.json, or whatever has this `name`; the rest is left aside.

        Lengths are only taken where they count no prompt: beside a source, they count the start token too.
        """

        def take(key: str, hint: Any) -> Any:
            said = content.get(key)
            unsaid = said is None or (key == "early_stopping" and said == "never")  # as if False
            return None if unsaid else typed(said, hint, f"{name}: {key}")

        def tokens(key: str) -> list[int]:
            said = content.get(key)
            found = said if isinstance(said, list) else [] if said is None else [said]
            right = all(type(one) is int and one >= 0 for one in found)
            require(right, f"{name}: {key} = {said!r} is no token's id")
            return found

        drawn = take("do_sample", bool)  # without it the values for sampling mean nothing, as in transformers
        hints = {**_OPTIONS, **_SAMPLING} if drawn else _OPTIONS
        taken = {key: value for key, hint in hints.items() if (value := take(key, hint)) is not None}
        if drawn:
            taken.setdefault("temperature", 1.0)
        most, least = take("max_length", int), take("min_length", int)
        if sourced and least is not None:
            taken.setdefault("min_new_tokens", max(least - 1, 0))
        if (limit := take("max_new_tokens", int)) is None and sourced and most is not None:
            limit = most - 1
        start, first, last = (next(iter(tokens(key)), None) for key in _TOKENS)
        options = cast("GenerationOptions", taken)
        with_beams({}, options)  # says what is out of range
        with_usual({}, {**options, "num_beams": 1})
        several = tuple(tokens("eos_token_id"))
        limit = min(limit, MOST_NEW_TOKENS) if limit and limit > 0 else None
        return cls(options=options, max_new_tokens=limit, start=start, first=first, last=last, ends=several)

    @property
    def samples(self) -> bool:
        """Whether the checkpoint says that tokens are drawn."""
        return "temperature" in self.options

    def limit(self, max_new_tokens: int | None, usual: int) -> int:
        """How many new tokens at most: what was asked for, else what the checkpoint says, else what is usual."""
        return max_new_tokens if max_new_tokens is not None else self.max_new_tokens or usual

    def usual(self, max_new_tokens: int | None = None) -> GenerationOptions:
        """The options; of texts that may not be as long as they ask, as long as they may be."""
        if not isinstance(max_new_tokens, int) or self.options.get("min_new_tokens", 0) <= max_new_tokens:
            return self.options
        return {**self.options, "min_new_tokens": max_new_tokens}


_TOKENS = ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
_OPTIONS: dict[str, Any] = {
    "num_beams": int,
    "length_penalty": float,
    "early_stopping": bool,
    "min_new_tokens": int,
    "repetition_penalty": float,
    "no_repeat_ngram_size": int,
    "whole_sentences": bool,  # which only clearhead knows, and the seed below
}
_SAMPLING: dict[str, Any] = {"temperature": float, "top_k": int, "top_p": float, "seed": int}


def check_length(max_new_tokens: object, min_new_tokens: int = 0) -> None:
    """Refuse a limit that is none, or that is below what a text must have."""
    check_whole("max_new_tokens", max_new_tokens, least=1)
    fits = min_new_tokens <= int(max_new_tokens)  # type: ignore[call-overload]
    require(fits, f"min_new_tokens={min_new_tokens} is more than max_new_tokens={max_new_tokens}", BadInput)


def _strings(stop: object) -> tuple[str, ...]:
    given = [stop] if isinstance(stop, str) else stop
    several = isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    require(several, f"stop_strings must be a text or a list of texts, got {stop!r}", BadInput)
    return tuple(given)  # type: ignore[arg-type]
