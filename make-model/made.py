"""Rows made by rules, for what public sets hardly hold: who did what to whom, and plain verdicts.

The patterns are in made.toml. Where they hit upon a row of `first_contact`, `skill_data.py` leaves it out.
"""

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def inference(count: int, seed: int = 0) -> Iterator[Row]:
    """Pairs whose relation hangs on a word, or on who is who."""
    rng = random.Random(seed)
    for _ in range(count):
        first, second, label = rng.choice(rng.choice(RULES["inference"])["rows"])
        slots = drawn(rng)
        yield {"first": _sentence(first, slots), "second": _sentence(second, slots), "label": label}


def sentiment(count: int, seed: int = 0) -> Iterator[Row]:
    """Plain verdicts on things that are no films, and what a negation does to them."""
    rng = random.Random(seed)
    for _ in range(count):
        text, label = rng.choice(RULES["sentiment"]["rows"])
        text = _sentence(text, drawn(rng))
        yield {"text": rng.choice([text, text.lower(), f"{text[:-1]}!"]), "label": label}


def drawn(rng: random.Random) -> dict[str, str]:
    """A word for each slot of the patterns; `thing2` is another one than `thing`."""
    slots = {}
    for name, words in ({name: words.split() for name, words in RULES["words"].items()} | RULES["phrases"]).items():
        slots[name], slots[f"{name}2"] = rng.sample(words, 2)
    for names, pairs in RULES["pairs"].items():
        slots |= zip(names.split(), rng.choice(pairs).split(), strict=True)
    people = rng.sample(RULES["words"]["name"].split(), 3)
    if rng.random() < 0.5:
        people[:2] = (f"the {one}" for one in rng.sample(RULES["words"]["person"].split(), 2))
    low, high = sorted(rng.sample(range(2, 60), 2))
    return slots | dict(zip("abc", people, strict=True)) | {"low": str(low), "high": str(high)}


def _sentence(pattern: str, slots: dict[str, str]) -> str:
    text = pattern.format(**slots)
    return f"{text[0].upper()}{text[1:]}."
