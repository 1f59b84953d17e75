"""The training data of the skills, out of the unpacked public sets: one folder each with train and dev files.

usage: python make-model/skill_data.py DATA OUT

A row that is measured, in a development set or in `first_contact`, is not learnt.
"""

import hashlib
import json
import lzma
import random
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import made

Row = dict[str, Any]
LABELS = ("entailment", "neutral", "contradiction")
FIRST_CONTACT = Path(__file__).parent / "first_contact"
MADE = {"sentiment": 12_000, "inference": 9_000}  # rows by rule
FIRST = 200  # characters of a mail that are learnt by themselves: a user may have a line only


def held_out(text: str, share: float) -> bool:
    """A fixed split that depends on the text alone, so that a repeated text is on one side."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) < share * 2**32


def lines(path: Path) -> Iterator[list[str]]:
    for line in path.read_text("utf-8-sig").splitlines():
        yield line.split("\t")


def table(path: Path) -> Iterator[Row]:
    head, *rows = lines(path)
    for row in rows:
        yield dict(zip(head, row, strict=False))


def sentiment(data: Path) -> Iterator[Row]:
    """SST-2, with names for its two numbers; IMDB's reviews, and their ends; plain verdicts."""
    for name in ("train", "dev"):
        for row in table(data / f"glue/SST-2/{name}.tsv"):
            label = ("negative", "positive")[int(row["label"])]
            yield {"text": row["sentence"], "label": label, "held_out": name == "dev"}
    for row in imdb(data, "train"):
        yield row
        yield row | {"text": " ".join(re.split(r"(?<=[.!?]) ", row["text"].strip())[-2:])}
    yield from made.sentiment(MADE["sentiment"])


def imdb(data: Path, part: str) -> Iterator[Row]:
    with lzma.open(data / f"imdb/{part}-part.jsonl.xz", "rt", encoding="utf-8") as reviews:
        for row in map(json.loads, reviews):
            label = {"neg": "negative", "pos": "positive"}[row["label"]]
            yield {"text": row["text"].replace("<br />", " "), "label": label}


def spam(data: Path) -> Iterator[Row]:
    """Text messages, each twice, whole mails, and the first lines of mails."""
    for label, text in lines(data / "sms_spam/SMSSpamCollection"):
        out = "messages" if held_out(text, 0.1) else False
        yield from ({"text": text, "label": label, "held_out": out} for _ in range(1 if out else 2))
    for name in ("train", "dev"):
        for line in (data / f"mail_spam/{name}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield {"text": row["text"], "label": row["label"], "held_out": name == "dev" and "mails"}
            if name == "train":
                yield {"text": row["text"][:FIRST], "label": row["label"]}


def inference(data: Path) -> Iterator[Row]:
    """Three classes, from parts of SNLI and MNLI, from SICK, and by rules; of RTE only what is entailed is known."""
    for first, second, label in lines(data / "snli/train-part.txt"):
        yield {"first": first, "second": second, "label": LABELS[int(label)], "held_out": held_out(first, 0.05)}
    for row in table(data / "glue/MNLI/train-part.tsv"):
        out = held_out(row["premise"], 0.05)
        yield {"first": row["premise"], "second": row["hypothesis"], "label": row["label"], "held_out": out}
    for name in ("train", "trial"):
        for row in table(data / f"sick/SICK_{name}.txt"):
            label = row["entailment_judgment"].lower()
            yield {"first": row["sentence_A"], "second": row["sentence_B"], "label": label, "held_out": name == "trial"}
    yield from made.inference(MADE["inference"])


def similarity(data: Path) -> Iterator[Row]:
    """Scores from 0 to 1 as people gave them to STS-B and SICK; pairs of Quora and SNLI, for `judge.py`, without."""
    for name in ("train", "dev"):
        for row in table(data / f"glue/STS-B/{name}.tsv"):
            score = float(row["score"]) / 5
            yield {"first": row["sentence1"], "second": row["sentence2"], "score": score, "held_out": name == "dev"}
    for row in table(data / "sick/SICK_train.txt"):
        score = (float(row["relatedness_score"]) - 1) / 4
        yield {"first": row["sentence_A"], "second": row["sentence_B"], "score": score}
    for name in ("quora", "snli"):
        for first, second, _ in lines(data / f"{name}/train-part.txt"):
            yield {"first": first, "second": second}


def words(text: str) -> set[str]:
    """Words that say something: of four letters and more."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def entities(data: Path) -> str:
    """CoNLL-2003's documents as they are, each of their sentences alone, and once more with other names.

    A user may have one sentence only; and names change faster than what is said of them.
    """
    whole = (data / "conll2003/eng.train").read_text("utf-8").strip()
    start, *parts = whole.split("\n\n")
    alone = [part for part in parts if part != start]
    return f"\n\n{start}\n\n".join([whole, *alone, *renamed(alone)]) + "\n"


def renamed(sentences: list[str], seed: int = 0) -> Iterator[str]:
    """Sentences with each entity exchanged for another one of its kind."""
    rng = random.Random(seed)
    cut = [list(entity_runs(sentence)) for sentence in sentences]
    known: dict[str, list[list[str]]] = {}
    for kind, run in (found for runs in cut for found in runs if found[0] != "O"):
        known.setdefault(kind, []).append(run)
    for runs in cut:
        if any(kind != "O" for kind, _ in runs):
            yield "\n".join(line for kind, run in runs for line in (run if kind == "O" else rng.choice(known[kind])))


def entity_runs(sentence: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of a sentence in runs of one kind: LOC, MISC, ORG, PER, or O."""
    for tag, run in groupby(sentence.split("\n"), lambda line: line.split()[-1].removeprefix("B-").removeprefix("I-")):
        yield tag, list(run)


def write(rows: Iterable[Row], folder: Path) -> None:
    """Write train.jsonl without what is measured, dev.jsonl, and each part of it that has a name."""
    every = [(row.pop("held_out", False), row) for row in rows]
    seen = {text for out, row in every if out for text in texts(row)}
    if (measured := FIRST_CONTACT / f"{folder.name}.tsv").is_file():
        seen |= {text for row in table(measured) for text in texts(row)}
    write_rows((row for out, row in every if not out and seen.isdisjoint(texts(row))), folder / "train.jsonl")
    write_rows((row for out, row in every if out), folder / "dev.jsonl")
    for name in {out for out, _ in every if isinstance(out, str)}:
        write_rows((row for out, row in every if out == name), folder / f"{name}.jsonl")


def write_rows(rows: Iterable[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def texts(row: Row) -> list[str]:
    """The texts of a row, letters and digits alone."""
    return ["".join(filter(str.isalnum, row[name].lower())) for name in ("text", "first", "second") if name in row]


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    write(sentiment(data), out / "sentiment")
    write_rows(islice(imdb(data, "test"), 2000), out / "sentiment/imdb.jsonl")
    write(spam(data), out / "spam")
    write(inference(data), out / "inference")
    write(similarity(data), out / "similarity")
    (out / "entities").mkdir(parents=True, exist_ok=True)
    (out / "entities/train.txt").write_text(entities(data), "utf-8")


if __name__ == "__main__":
    main()
