"""The training data of the translator: Tatoeba and Multi30k, English, German and French, every direction in one file.

usage: python make-model/translation_data.py DATA OUT

OUT/train.tsv and dev.tsv hold sources and targets; a source begins with the tag of its target, such as ">>en<< ".
OUT/test holds a file for each set and direction. What is measured is held out by its English side: no training pair has
that sentence, its translation, or eight words in a row of either, in any direction; nor the sentences of the lectures.
"""

import hashlib
import random
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

OTHERS = {"de": "deu", "fr": "fra"}  # codes and Tatoeba's names
DIRECTIONS = (("de", "en"), ("fr", "en"), ("en", "de"), ("en", "fr"))
SHARE = 0.009  # of Tatoeba's English sentences, once for dev and once for test: some 1,500 pairs of each language
DEV = 500  # pairs of each direction and set that training is measured on
RUN = 8  # words in a row that training and what is measured may not share
# what is said in the lectures and on our pages, with translations: it is asked, and never learnt
ASKED = """Ich muss auf den Markt gehen|I have to go to the market|I must go to the market|I need to go to the market
Je suis étudiant|I am a student|I'm a student|Je suis étudiante|Ich bin Student|Ich bin Studentin
The house is small|Das Haus ist klein|La maison est petite
Ein Hund läuft durch den Schnee|A dog runs through the snow|A dog is running through the snow
Un chien court dans la neige|Ein Hund bellt|Er ist müde|Eine Frau lacht
Können Sie mir bitte helfen|Can you help me, please|Can you please help me|Could you help me, please
Où est la gare, s'il vous plaît|Where is the station, please|Where is the train station, please
The doctor called the nurse|Der Arzt rief die Krankenschwester|Le médecin a appelé l'infirmière"""


class Pair(NamedTuple):
    """An English sentence and its translation."""

    english: str
    other: str


def plain(text: str) -> str:
    """A sentence without case, punctuation and accents, to compare it."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join(re.findall(r"\w+", "".join(one for one in letters if not unicodedata.combining(one))))


def runs(text: str) -> Iterator[str]:
    """A plain sentence, and every run of RUN words in it."""
    yield text
    words = text.split()
    yield from (" ".join(words[start : start + RUN]) for start in range(len(words) - RUN + 1))


def spaced(text: str) -> str:
    """A sentence with plain spaces, without marks that nobody sees."""
    return " ".join(re.sub("[\u200b\xad]", "", text).replace("’", "'").split())


def tatoeba(data: Path, code: str) -> list[Pair]:
    rows = (data / f"tatoeba/{OTHERS[code]}.txt").read_text("utf-8").splitlines()
    return list(dict.fromkeys(Pair(*map(spaced, row.split("\t")[:2])) for row in rows))


def multi30k(data: Path, part: str, code: str) -> list[Pair]:
    sides = ((data / f"multi30k/{part}.{side}").read_text("utf-8").splitlines() for side in ("en", code))
    return [Pair(spaced(english), spaced(other)) for english, other in zip(*sides, strict=True)]


def part_of(pair: Pair) -> str:
    """A fixed split by the English sentence alone, which is on one side whatever its translations."""
    place = int(hashlib.sha256(plain(pair.english).encode()).hexdigest()[:8], 16) / 2**32
    return "test" if place < SHARE else "dev" if place < 2 * SHARE else "train"


def loosely(source: str, target: str, code: str, rng: random.Random) -> tuple[str, str]:
    """A pair as somebody would type it: in small letters, with curly apostrophes, without full stop or accents."""
    if rng.random() < 0.5 and source.endswith(".") and target.endswith("."):
        source, target = source[:-1].rstrip(), target[:-1].rstrip()
    drawn = rng.random()
    if drawn < 0.3:
        source = source[:1].lower() + source[1:]
    elif drawn < 0.6:
        source = source.lower()
    if rng.random() < 0.3:
        source = source.replace("'", "’")
    if rng.random() < 0.3:
        if code == "de":
            source = source.translate(str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}))
        elif code == "fr":
            marks = unicodedata.normalize("NFD", source)
            source = "".join(one for one in marks if not unicodedata.combining(one))
    return source, target


def more(rows: list[tuple[str, str]], code: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """A fifth of the pairs again as somebody would type them, a twentieth with another one after them."""
    for source, target in rows:
        drawn = rng.random()
        if drawn < 0.2:
            yield loosely(source, target, code, rng)
        elif drawn < 0.25:
            after = rng.choice(rows)
            yield f"{source} {after[0]}", f"{target} {after[1]}"


def directed(pairs: Iterable[Pair], source: str) -> list[tuple[str, str]]:
    return [(pair.english, pair.other) if source == "en" else (pair.other, pair.english) for pair in pairs]


def write(path: Path, rows: Iterable[tuple[str, str]], target: str) -> int:
    """Add rows to a table, each source with the tag of the target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f">>{target}<< {source}\t{written}\n" for source, written in rows]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines)
    return len(lines)


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    for old in (*out.glob("*.tsv"), *out.glob("test/*.tsv")):
        old.unlink()
    rng = random.Random(0)
    known = {code: tatoeba(data, code) for code in OTHERS}
    parts = {
        (code, part): [pair for pair in known[code] if part_of(pair) == part]
        for code in OTHERS
        for part in ("train", "dev", "test")
    }
    captions = {
        (code, part): multi30k(data, name, code)
        for code in OTHERS
        for part, name in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr"))
    }
    held = {plain(text) for line in ASKED.splitlines() for text in line.split("|")}
    measured = [
        pair for found in (parts, captions) for (_, part), rows in found.items() if part != "train" for pair in rows
    ]
    held |= {run for pair in measured for side in pair for run in runs(plain(side)) if side}

    def clean(pair: Pair) -> bool:
        return not any(run in held for side in pair for run in runs(plain(side)))

    for source, target in DIRECTIONS:
        code = target if source == "en" else source
        learnt = [pair for pair in parts[code, "train"] + captions[code, "train"] if clean(pair)]
        there = len(parts[code, "train"]) + len(captions[code, "train"])
        rows = directed(learnt, source)
        count = write(out / "train.tsv", [*rows, *more(rows, source, rng)], target)
        sizes = {}
        for name, found in (("tatoeba", parts), ("multi30k", captions)):
            dev = directed(found[code, "dev"], source)
            sizes[f"{name} dev"] = write(out / "dev.tsv", rng.sample(dev, min(DEV, len(dev))), target)
            test = directed(found[code, "test"], source)
            sizes[f"{name} test"] = write(out / f"test/{name}.{source}-{target}.tsv", test, target)
        told = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        print(f"{source}-{target}: {count:,} rows of {len(learnt):,} pairs, {there - len(learnt):,} held out; {told}")


if __name__ == "__main__":
    main()
