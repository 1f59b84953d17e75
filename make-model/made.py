"""Rows made by rules, for what public sets hardly hold: who did what to whom, plain verdicts, mails of today.

The patterns are in made.toml. Where they hit upon a row of `first_contact`, `skill_data.py` leaves it out.
"""

import random
import re
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


def spam(count: int, seed: int = 0) -> Iterator[Row]:
    """Mails and messages as they come today, half of each kind; how they are written says nothing of what they are."""
    rng = random.Random(seed)
    for place in range(count):
        label = ("ham", "spam")[place % 2]
        parts = RULES["spam"]["shapes"][rng.choice(RULES["spam"][label])]
        text = re.sub(r"(?:^|\n|[.!?] )[a-z]", lambda start: start[0].upper(), grown(rng, rng.choice(parts)).strip())
        dressed = rng.random()
        text = text.lower() if dressed < 0.1 else text.upper() if dressed > 0.97 else text
        yield {"text": text, "label": label}


def grown(rng: random.Random, pattern: str) -> str:
    """A text from a pattern: each slot is one of its phrases, which may have slots, or a number such as {10-99}."""

    def slot(found: re.Match[str]) -> str:
        if span := re.fullmatch(r"(\d+)-(\d+)", found[1]):
            return str(rng.randint(int(span[1]), int(span[2])))
        return grown(rng, rng.choice(RULES["spam"]["phrases"].get(found[1]) or RULES["words"][found[1]].split()))

    return re.sub(r"{([^{}]+)}", slot, pattern)


def drawn(rng: random.Random) -> dict[str, str]:
    """A word for each slot of the patterns; `thing2` is another one than `thing`."""
    slots = {}
    for name, words in ({name: words.split() for name, words in RULES["words"].items()} | RULES["phrases"]).items():
        slots[name], slots[f"{name}2"] = rng.sample(words, 2)
    for names, pairs in RULES["pairs"].items():
        one = rng.choice(pairs)
        slots |= zip(names.split(), one.split("|") if "|" in one else one.split(), strict=True)
    people = rng.sample(RULES["words"]["name"].split(), 3)
    if rng.random() < 0.5:
        people[:2] = (f"the {one}" for one in rng.sample(RULES["words"]["person"].split(), 2))
    low, high = sorted(rng.sample(range(2, 60), 2))
    return slots | dict(zip("abc", people, strict=True)) | {"low": str(low), "high": str(high)}


def _sentence(pattern: str, slots: dict[str, str]) -> str:
    text = pattern.format(**slots).format(**slots)  # phrases may have slots
    return f"{text[0].upper()}{text[1:]}."
