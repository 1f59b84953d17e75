"""How a text is written: by beams, by chance, or the likeliest token each time, and the rules for all."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TypedDict, Unpack

import torch

from clearhead.decoding.checks import check_number, check_whole
from clearhead.decoding.sampling import Sampling
from clearhead.errors import BadInput, require

BEAMS = 4  # where a text is written anew and nobody says how many
MOST = 256  # beams or ways of one text: each takes the memory of a text


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How tokens are chosen. `best` is how many ways to give of each text, `least` how many tokens it has at least."""

    beams: int = 1
    best: int = 1
    length_penalty: float = 1.0
    sampling: Sampling | None = None
    seed: int | None = None  # of chance; None draws one from torch's own generator
    least: int = 0
    repetition_penalty: float = 1.0
    no_repeat: int = 0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("beams", "best"):
            check_whole(name, getattr(self, name), least=1, most=MOST)
        for name in ("least", "no_repeat"):
            check_whole(name, getattr(self, name))
        for name in ("length_penalty", "repetition_penalty"):
            check_number(name, getattr(self, name))
        seeded = self.seed is None or isinstance(self.seed, int)
        require(seeded, f"seed must be a whole number, got {self.seed!r}", BadInput)
        mixed = self.sampling is not None and self.beams > 1
        require(not mixed, f"{self.beams} beams and chance do not go together; choose one of the two", BadInput)
        several = self.sampling is not None or self.best <= self.beams
        require(
            several,
            f"best={self.best} ways need as many beams, got {self.beams}, or chance, such as a temperature",
            BadInput,
        )

    def chances(self) -> Iterator[list[Random]]:
        """What the ways of each text in turn are drawn with; it follows from the seed and the text's place alone."""
        seed = int(torch.randint(2**62, (1,))) if self.seed is None else self.seed
        for place in count():
            yield [Random(f"{seed} {place} {way}") for way in range(self.best)]  # noqa: S311


class How(TypedDict, total=False):
    """What `Model.generate` and its kin may be told; see `manner`."""

    beams: int
    best: int
    length_penalty: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    least: int
    repetition_penalty: float
    no_repeat: int
    stop: str | tuple[str, ...] | list[str]


def manner(**how: Unpack[How]) -> Manner:
    """Choose greedily; by chance if there is a `temperature`, `top_k` or `top_p`; by beams if there are several.

    What would change nothing is refused: a seed without chance, a length penalty without beams.
    """
    known = list(How.__annotations__)
    for name in how:
        require(name in known, f"{name} is no option of writing; there are {', '.join(known)}", BadInput)
    sampling = None
    if how.get("temperature") is not None or how.get("top_k", 0) != 0 or how.get("top_p", 1.0) != 1.0:
        heat = how.get("temperature")
        heat = 1.0 if heat is None else heat
        sampling = Sampling(temperature=heat, top_k=how.get("top_k", 0), top_p=how.get("top_p", 1.0))
    chosen = Manner(
        beams=how.get("beams", 1),
        best=how.get("best", 1),
        length_penalty=how.get("length_penalty", 1.0),
        sampling=sampling,
        seed=how.get("seed"),
        least=how.get("least", 0),
        repetition_penalty=how.get("repetition_penalty", 1.0),
        no_repeat=how.get("no_repeat", 0),
        stop=_strings(how.get("stop", ())),
    )
    idle = chosen.seed is not None and sampling is None
    require(not idle, f"seed {chosen.seed} has nothing to draw; add a temperature, top_k or top_p", BadInput)
    idle = chosen.length_penalty != 1.0 and chosen.beams == 1
    require(not idle, f"length_penalty {chosen.length_penalty} has no beams to weigh; ask for several", BadInput)
    return chosen


def with_beams(how: How, usual: How | None = None) -> Manner:
    """Choose by four beams and as is `usual`, unless told otherwise: what is written anew is better for it.

    Who asks for chance gets no beams, and where there are none, no length penalty is usual.
    """
    chosen: How = {**(usual or {}), **how}
    if not {"temperature", "top_k", "top_p"} & set(how):
        chosen.setdefault("beams", BEAMS)
    if chosen.get("beams", 1) == 1 and "length_penalty" not in how:
        chosen.pop("length_penalty", None)
    return manner(**chosen)


def check_length(longest: object, least: int = 0) -> None:
    """Refuse a limit that is none, or that is below what a text must have."""
    check_whole("longest", longest, least=1)
    require(least <= int(longest), f"least={least} tokens are more than longest={longest}", BadInput)  # type: ignore[call-overload]


def _strings(stop: object) -> tuple[str, ...]:
    given = [stop] if isinstance(stop, str) else stop
    several = isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    require(several, f"stop must be a text or a list of texts, got {stop!r}", BadInput)
    return tuple(given)  # type: ignore[arg-type]
