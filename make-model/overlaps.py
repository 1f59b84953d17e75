"""Nothing that is measured is learnt: no training text has eight words in a row, or all its few, of a measured one.

usage: python make-model/overlaps.py DATA WORK

Compares what each skill and model learns with every set that is reported. Whatever it shares with the sets that it is
measured on itself is printed, and fails. What it shares with the others' is counted in WORK/overlaps.md, for the card.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RUN = 8  # words in a row
SHOWN = 5  # rows of a failure
HERE = Path(__file__).parent
ALL = "first contact and the lectures"
DOCUMENT = "-DOCSTART-"  # begins one, and is no text
LABELS = {"label", "id", "title", "is_impossible", "answers", "score", "version"}  # columns that are no text
# what is learnt, in WORK, and what is reported of it, in WORK or in DATA
LEARNT = {
    "sentiment": "skills/sentiment/train*.jsonl",
    "spam": "skills/spam/train*.jsonl",
    "inference": "skills/inference/train*.jsonl",
    "entities": "skills/entities/train*.txt",
    "part-of-speech": "skills/part-of-speech/train*.txt",
    "questions": "questions/train-*.json",
    "similarity": "skills/similarity/train*.jsonl",
    "search": "search/pairs.jsonl",
    "rerank": "rerank/train.jsonl",
}
REPORTED = {
    "sentiment": ("skills/sentiment/dev.jsonl", "skills/sentiment/imdb.jsonl"),
    "spam": ("skills/spam/messages.jsonl", "skills/spam/mails.jsonl"),
    "inference": ("skills/inference/dev.jsonl",),
    "entities": ("conll2003/eng.testa", "conll2003/eng.testb"),
    "part-of-speech": ("skills/part-of-speech/dev.txt",),
    "questions": ("questions/dev.json", "squad2/dev-part.json"),
    "similarity": ("skills/similarity/dev.jsonl",),
    "search": ("search/measured.json",),
    "rerank": ("search/measured.json",),
}

Numbers = NDArray[np.uint64]
FACTORS: Numbers = np.random.default_rng(0).integers(1, 2**63, RUN, dtype=np.uint64) | np.uint64(1)


def words(text: str) -> list[str]:
    """Lower-case words; what treebanks part (do n't, film 's) is one word."""
    joined = re.sub(r" (?=n['’]t\b)|\s?['’](?=(?:s|re|ve|ll|d|m|t)\b)", "", text.casefold())
    return re.findall(r"\w+", joined)


class Runs:
    """All runs of eight words of some texts, as numbers; a shorter text is one run. `owners` says whose each is."""

    def __init__(self, texts: Iterable[str]) -> None:
        found: list[Numbers] = [np.zeros(0, np.uint64)]
        for text in texts:
            found.append(_runs(words(text)))
        self.owners = np.repeat(np.arange(-1, len(found) - 1), [len(one) for one in found])
        self.numbers = np.concatenate(found)
        self._known = np.unique(self.numbers)

    def has(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Which of the numbers are those of a run here."""
        if not len(self._known):
            return np.zeros(len(numbers), np.bool_)
        return self._known[np.searchsorted(self._known, numbers).clip(max=len(self._known) - 1)] == numbers

    def shared(self, measured: "Runs") -> list[int]:
        """The places of the texts that have a run of a measured one."""
        return np.unique(self.owners[measured.has(self.numbers)]).tolist()

    def cut(self, text: str) -> str:
        """A text without the lines that have words of these runs."""
        lines = text.split("\n")
        known = [words(line) for line in lines]
        owners = np.repeat(np.arange(len(lines)), [len(one) for one in known])
        hits = np.flatnonzero(self.has(_runs([*chain.from_iterable(known)])))
        touched = {int(owner) for hit in hits for owner in owners[hit : hit + RUN]}
        return "\n".join(line for place, line in enumerate(lines) if place not in touched)


def _runs(found: list[str]) -> Numbers:
    """A number for each run of words: their own, weighed by place, modulo 2**64; none for no words."""
    numbers = np.array([hash(word) for word in found], np.int64).view(np.uint64)
    ends = max(len(found) - RUN + 1, min(len(found), 1))
    weighed = (numbers[i : i + ends] * factor for i, factor in enumerate(FACTORS[: len(found)]))
    return np.add.reduce([*weighed], initial=0, dtype=np.uint64, axis=0) if ends else numbers


def read(path: Path) -> Iterator[str]:
    """The texts of a file: records, SQuAD's articles, columns of words, a table, or lines."""
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from chain.from_iterable(_strings(json.loads(line)) for line in lines)
    elif path.suffix == ".json":
        yield from dict.fromkeys(_strings(json.loads(path.read_text("utf-8"))))
    elif path.suffix == ".tsv":
        head, *rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
        for row in rows:
            yield from (cell for name, cell in zip(head, row, strict=False) if name not in LABELS)
    else:
        for sentence in path.read_text("utf-8").split("\n\n"):
            found = [line.split()[0] for line in sentence.splitlines() if line.strip()]
            if found and found != [DOCUMENT]:
                yield " ".join(found)


def _strings(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, list) and found and isinstance(found[0], str) and " " not in "".join(found):
        yield " ".join(found)  # words
    elif isinstance(found, list):
        yield from chain.from_iterable(map(_strings, found))
    elif isinstance(found, dict):
        yield from chain.from_iterable(_strings(value) for name, value in found.items() if name not in LABELS)


def reported(name: str, data: Path, work: Path) -> Iterator[str]:
    """The texts that a skill or model is measured on."""
    for place in (folder / part for part in REPORTED[name] for folder in (work, data)):
        if place.is_file():
            yield from read(place)


def shown_to_all() -> Iterator[str]:
    """First contact of all skills, and the lectures' examples, but for names and single words among them."""
    paths = [*sorted((HERE / "first_contact").iterdir()), HERE.parent / "src/clearhead/studio/examples.json"]
    return (text for path in paths for text in read(path) if len(words(text)) > 2)


def compare(data: Path, work: Path) -> tuple[list[str], list[str]]:
    """What must not be, line by line; and a table of what is shared with the sets of others."""
    sets = {name: Runs(reported(name, data, work)) for name in REPORTED} | {ALL: Runs(shown_to_all())}
    wrong: list[str] = []
    table = [f"| learnt | texts | {' | '.join(sets)} |", "| --- " * (len(sets) + 2) + "|"]
    for name, pattern in LEARNT.items():
        texts = list(dict.fromkeys(text for path in sorted(work.glob(pattern)) for text in read(path)))
        runs = Runs(texts)
        shared = {other: runs.shared(measured) for other, measured in sets.items()}
        table.append(f"| {name} | {len(texts):,} | {' | '.join(f'{len(one):,}' for one in shared.values())} |")
        for other in (name, ALL):
            wrong += [f"{name} learns what {other} measures: {texts[place][:200]!r}" for place in shared[other]]
    return wrong, table


def main() -> None:
    data, work = map(Path, sys.argv[1:])
    wrong, table = compare(data, work)
    (work / "overlaps.md").write_text("\n".join(table) + "\n", "utf-8")
    print("\n".join(table))
    if wrong:
        sys.exit("\n".join([*wrong[:SHOWN], f"{len(wrong)} rows that are learnt share {RUN} words with measured ones"]))


if __name__ == "__main__":
    main()
