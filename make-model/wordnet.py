"""WordNet's opposites, out of the files that Debian's package wordnet-base brings."""

import os
import re
from collections import defaultdict
from pathlib import Path

FOLDER = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))
LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
ANTONYM = "!"
COMMON = 3  # sightings in WordNet's tagged texts

Pointer = tuple[str, int, int]  # the other synset, the number of the word here and of that there


def opposites(folder: Path = FOLDER) -> dict[str, set[str]]:
    """Common words, in their regular forms too, with their opposites: open, opens, opened, opening, closed …"""
    seen = _counts(folder / "cntlist.rev")
    found: dict[str, set[str]] = defaultdict(set)
    for part in LETTERS:
        words, pointers = _read(folder / f"data.{part}")
        for synset, others in pointers.items():
            for other, source, target in others:
                first, second = words[synset][source - 1], words[other][target - 1]
                if min(seen[first], seen[second]) >= COMMON and first.isalpha() and second.isalpha():
                    for one, its in zip(_forms(first, part), _forms(second, part), strict=False):
                        found[one].add(its)
    return found


def _forms(word: str, part: str) -> list[str]:
    """The word, and its regular forms."""
    stem = word.removesuffix("e")
    if re.fullmatch(r"[^aeiou]*[aeiou][tpngmb]", word):
        stem = word + word[-1]  # stopped, bigger
    if part == "verb":
        return [word, f"{word}s", f"{stem}ed", f"{stem}ing"]
    if part == "adj" and 2 < len(word) <= 6 and word != "off":
        stem = f"{word[:-1]}i" if word.endswith("y") else stem
        return [word, f"{stem}er", f"{stem}est"]
    return [word]


def _counts(path: Path) -> dict[str, int]:
    """How often each word was seen, all senses together."""
    found: dict[str, int] = defaultdict(int)
    for line in path.read_text("ascii").splitlines():
        key, _, count = line.split()
        found[key.split("%")[0]] += int(count)
    return found


def _read(path: Path) -> tuple[dict[str, list[str]], dict[str, list[Pointer]]]:
    """Of each synset its words, and its pointers to opposites."""
    words: dict[str, list[str]] = {}
    pointers: dict[str, list[Pointer]] = {}
    letter = LETTERS[path.suffix[1:]]
    for line in path.read_text("ascii").splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.split("|")[0].split()
        count = int(fields[3], 16)
        words[fields[0]] = [word.split("(")[0].lower() for word in fields[4 : 4 + 2 * count : 2]]
        at = 4 + 2 * count
        rest = fields[at + 1 : at + 1 + 4 * int(fields[at])]
        pointers[fields[0]] = [
            (other, int(ends[:2], 16), int(ends[2:], 16))
            for symbol, other, kind, ends in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True)
            if symbol == ANTONYM and kind in (letter, "s")
        ]
    return words, pointers
