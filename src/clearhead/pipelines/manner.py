"""How a text is written: by beams, by chance, or the likeliest token each time, and the rules for all."""

from dataclasses import dataclass
from typing import TypedDict

import torch

from clearhead.decoding.sampling import Sampling
from clearhead.errors import BadInput, require


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
            require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}", BadInput)
        mixed = self.sampling is not None and self.beams > 1
        require(not mixed, f"{self.beams} beams and chance do not go together; choose one of the two", BadInput)
        several = self.sampling is not None or self.best <= self.beams
        require(several, f"{self.beams} beams end {self.beams} ways, not {self.best}; ask for more beams", BadInput)

    def generator(self, device: torch.device) -> torch.Generator:
        """Make what chance is drawn with."""
        seed = int(torch.randint(2**62, (1,))) if self.seed is None else self.seed
        return torch.Generator(device).manual_seed(seed)


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


def manner(
    *,
    beams: int = 1,
    best: int = 1,
    length_penalty: float = 1.0,
    temperature: float | None = None,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    least: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat: int = 0,
    stop: str | tuple[str, ...] | list[str] = (),
) -> Manner:
    """Choose greedily; by chance if there is a `temperature`, `top_k` or `top_p`; by beams if there are several."""
    chance = temperature is not None or top_k != 0 or top_p != 1.0
    heat = 1.0 if temperature is None else temperature
    return Manner(
        beams=beams,
        best=best,
        length_penalty=length_penalty,
        sampling=Sampling(temperature=heat, top_k=top_k, top_p=top_p) if chance else None,
        seed=seed,
        least=least,
        repetition_penalty=repetition_penalty,
        no_repeat=no_repeat,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def with_beams(how: How) -> Manner:
    """Choose by four beams unless beams or chance are named: what is written anew is better for it."""
    chosen = how.copy()
    if not {"beams", "temperature", "top_k", "top_p"} & set(how):
        chosen["beams"] = 4
    return manner(**chosen)
