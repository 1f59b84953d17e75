"""The training data of the six skills, out of the unpacked public sets: one folder each with train and dev files.

usage: python make-model/skill_data.py DATA OUT
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
LABELS = ("entailment", "neutral", "contradiction")


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
    """SST-2, with names for its two numbers: a label is what a user reads."""
    for name in ("train", "dev"):
        for row in table(data / f"glue/SST-2/{name}.tsv"):
            label = ("negative", "positive")[int(row["label"])]
            yield {"text": row["sentence"], "label": label, "held_out": name == "dev"}


def spam(data: Path) -> Iterator[Row]:
    for label, text in lines(data / "sms_spam/SMSSpamCollection"):
        yield {"text": text, "label": label, "held_out": held_out(text, 0.1)}


def inference(data: Path) -> Iterator[Row]:
    """Three classes, from parts of SNLI and MNLI and from SICK; of RTE only what is entailed is known."""
    for first, second, label in lines(data / "snli/train-part.txt"):
        yield {"first": first, "second": second, "label": LABELS[int(label)], "held_out": held_out(first, 0.05)}
    for row in table(data / "glue/MNLI/train-part.tsv"):
        out = held_out(row["premise"], 0.05)
        yield {"first": row["premise"], "second": row["hypothesis"], "label": row["label"], "held_out": out}
    for name in ("train", "trial"):
        for row in table(data / f"sick/SICK_{name}.txt"):
            label = row["entailment_judgment"].lower()
            yield {"first": row["sentence_A"], "second": row["sentence_B"], "label": label, "held_out": name == "trial"}


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


def questions(data: Path) -> dict[str, list[Row]]:
    """SQuAD 1.1 and the part of 2.0; questions without an answer, there and misplaced, teach when to say nothing.

    Most articles of that part are of the development set of 1.1: they are left out.
    """
    plain, dev = articles(data / "squad/train-v1.1.json"), articles(data / "squad/dev-v1.1.json")
    measured = {article["title"] for article in dev}
    hard = [found for found in articles(data / "squad2/train-part.json") if found["title"] not in measured]
    return {"train": [*plain, *hard, *misplaced(plain)], "dev": dev}


def misplaced(found: list[Row], share: float = 0.2) -> Iterator[Row]:
    """Some questions again, with the most similar paragraph of their article that has none of their answers."""
    for article in found:
        contexts = [paragraph["context"] for paragraph in article["paragraphs"]]
        known = [words(context) for context in contexts]
        for asked in (asked for paragraph in article["paragraphs"] for asked in paragraph["qas"]):
            if not held_out(asked["id"], share):
                continue
            answers = [answer["text"].casefold() for answer in asked["answers"]]
            shared = [len(words(asked["question"]) & each) for each in known]
            silent = [
                place
                for place, context in enumerate(contexts)
                if not any(answer in context.casefold() for answer in answers)
            ]
            if silent:
                lost = {**asked, "id": f"{asked['id']}-misplaced", "answers": [], "is_impossible": True}
                other = contexts[max(silent, key=lambda place: shared[place])]
                yield {"title": article["title"], "paragraphs": [{"context": other, "qas": [lost]}]}


def words(text: str) -> set[str]:
    """Words that say something: of four letters and more."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def entities(data: Path) -> str:
    """CoNLL-2003's documents as they are, and each of their sentences alone: a user may have one sentence only."""
    whole = (data / "conll2003/eng.train").read_text("utf-8").strip()
    start, *parts = whole.split("\n\n")
    alone = f"\n\n{start}\n\n".join(part for part in parts if part != start)
    return f"{whole}\n\n{start}\n\n{alone}\n"


def articles(path: Path) -> list[Row]:
    found: list[Row] = json.loads(path.read_text("utf-8"))["data"]
    return found


def write(rows: Iterable[Row], folder: Path) -> None:
    """Write train.jsonl and dev.jsonl; a row with a sentence that is held out elsewhere is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [(row.pop("held_out", False), row) for row in rows]
    seen = {text for out, row in every if out for text in texts(row)}
    with (folder / "train.jsonl").open("w") as train, (folder / "dev.jsonl").open("w") as dev:
        for out, row in every:
            if out or seen.isdisjoint(texts(row)):
                (dev if out else train).write(json.dumps(row, ensure_ascii=False) + "\n")


def texts(row: Row) -> list[str]:
    """The texts of a row, letters and digits alone."""
    return ["".join(filter(str.isalnum, row[name].lower())) for name in ("text", "first", "second") if name in row]


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    write(sentiment(data), out / "sentiment")
    write(spam(data), out / "spam")
    write(inference(data), out / "inference")
    write(similarity(data), out / "similarity")
    for name in ("entities", "questions"):
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / "entities/train.txt").write_text(entities(data), "utf-8")
    for name, content in questions(data).items():
        (out / "questions" / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": content}))


if __name__ == "__main__":
    main()
