"""What the skill `search` learns from: what somebody looks for, a passage that fits, and one that fits less.

usage: python make-model/search_data.py DATA OUT [SHARD]

A row of OUT is {first, second, negative}. Of a shard of the corpus: titles and headings, sentences, and rare words,
each with their passage; of the sets, questions with the sentences that answer them, and texts that say the same.
WikiQA's development set, MuTual, the test sets of SciTLDR and AG News, and the last 3,000 pairs of Quora are measured,
and not learnt; nor is any row that shares eight words with them.
"""

import csv
import json
import lzma
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

from clearhead.text.sentences import sentence_spans
from measured import QUORA_MEASURED, measured
from overlaps import Runs
from skill_data import imdb, lines, table, words, write_rows

Row = dict[str, Any]
RARE_AFTER = 1000  # of a shard's words, by frequency; the others are what one would search for
KNOWN_FROM = 4000  # documents by which frequency is known
MOST_WORDS = 110  # of a passage
AT_ONCE = 20_000  # rows that are compared with what is measured


def of_corpus(path: Path) -> Iterator[Row]:
    """Title and heading, a sentence, rare words, or the sentence before, each with a passage of its document."""
    rng = random.Random(path.name)
    with lzma.open(path, "rt", encoding="utf-8") as shard:
        first = [json.loads(line)["text"] for line in islice(shard, KNOWN_FROM)]
        counts = Counter(word for text in first for word in re.findall(r"[a-z]+", text.lower()))
        frequent = {word for word, _ in counts.most_common(RARE_AFTER)}
        for text in first:
            yield from of_document(text, frequent, rng)
        for line in shard:
            yield from of_document(json.loads(line)["text"], frequent, rng)


def of_document(text: str, frequent: set[str], rng: random.Random) -> Iterator[Row]:
    title, *rest = text.split("\n")
    titled = len(title) < 80 and not title.endswith((".", ",", ";", ":"))
    heading, found = "", []  # (heading, sentences) of each paragraph
    for line in rest if titled else [title, *rest]:
        if len(line) < 60:
            heading = line.rstrip(". ")
        elif len(line) > 120:
            found.append((heading, sentences(line)))
            heading = ""
    passages = [passage(one, rng) for _, one in found]
    for place, (heading, one) in enumerate(found):
        others = passages[:place] + passages[place + 1 :]
        negative = rng.choice(others[max(place - 4, 0) : place + 4]) if others else ""
        if not negative:
            continue
        if titled and (heading or place == 0 or rng.random() < 0.1):
            asked = rng.choice([title, f"what is {title}", f"{title}?"]) if place == 0 else f"{title} {heading}".strip()
            yield {"first": asked, "second": passage(one, rng), "negative": negative}
        if len(one) > 1:
            chosen = rng.randrange(len(one))
            around = one[max(chosen - 2, 0) : chosen] + one[chosen + 1 : chosen + 3]
            yield {"first": one[chosen], "second": shorten(" ".join(around)), "negative": negative}
        if rng.random() < 0.7:
            second = passage(one, rng)
            rare = [word for word in dict.fromkeys(re.findall(r"\w+", second)) if word.lower() not in frequent]
            if len(rare) > 3:
                asked = " ".join(rng.sample(rare, rng.randint(2, min(5, len(rare)))))
                yield {"first": asked, "second": second, "negative": negative}


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def passage(one: list[str], rng: random.Random) -> str:
    """One to four sentences that follow one another, or all of them."""
    if rng.random() < 0.2:
        return shorten(" ".join(one))
    size = rng.randint(1, 4)
    start = rng.randrange(max(len(one) - size, 0) + 1)
    return shorten(" ".join(one[start : start + size]))


def shorten(text: str) -> str:
    return " ".join(text.split(" ")[:MOST_WORDS])


def of_sets(data: Path) -> Iterator[Row]:
    """Whatever in the public sets is a query with its passage, or one text twice."""
    rng = random.Random(0)
    for _ in range(2):  # other sentences round the same answer
        yield from answered(data / "squad/train-v1.1.json", rng)
        yield from answered(data / "tydiqa/english_tydiqa_train.json", rng)
    yield from ranked(data / "wikiqa/train.txt")
    yield from paired([(row["second"], row["first"]) for row in abstracts(data) for _ in range(3)], rng)
    yield from paired([pair for row in news(data) for pair in row], rng)
    yield from paired(list(said_twice(data)), rng)
    yield from paired(list(dialogues(data)), rng)
    yield from inferred(data / "snli/train-part.txt")


def answered(path: Path, rng: random.Random) -> Iterator[Row]:
    """Questions, the sentences round their answer, and those of the same article that share most words with them."""
    for article in json.loads(path.read_text("utf-8"))["data"]:
        cut = [(paragraph, sentences(paragraph["context"])) for paragraph in article["paragraphs"]]
        known = [(place, text, words(text)) for place, (_, found) in enumerate(cut) for text in found]
        for place, (paragraph, found) in enumerate(cut):
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                ends, read = 0, 0
                for number, text in enumerate(found):
                    read = number
                    ends = paragraph["context"].find(text, ends) + len(text)
                    if ends > answer["answer_start"]:
                        break
                around = found[max(read - rng.randint(0, 2), 0) : read + 1 + rng.randint(0, 2)]
                wanted = words(asked["question"])
                wrong = [one for one in rng.sample(known, min(40, len(known))) if answer["text"] not in one[1]]
                negative = max(wrong, key=lambda one: len(one[2] & wanted), default=(place, "", set()))[1]
                if negative:
                    row = {"first": asked["question"], "second": shorten(" ".join(around))}
                    yield row | {"negative": shorten(negative)}


def ranked(path: Path) -> Iterator[Row]:
    """WikiQA's questions with a sentence that answers them and one that does not; each sentence is read once."""
    for question, rows in groupby(lines(path), lambda row: row[0]):
        by_label: dict[str, list[str]] = {"0": [], "1": []}
        for _, text, label in rows:
            by_label[label].append(text)
        for negative in by_label["0"]:
            if by_label["1"]:
                yield {"first": question, "second": by_label["1"][0], "negative": negative}


def abstracts(data: Path) -> Iterator[Row]:
    """Abstracts of papers with their titles, and with what they say in a sentence."""
    for line in (data / "scitldr/train.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        cut = [" ".join(row["source"][:3]), " ".join(row["source"][-3:]), " ".join(row["source"])]
        for asked in [row.get("title"), *row["target"]]:
            yield from ({"first": shorten(text), "second": asked} for text in cut[:2] if asked)


def news(data: Path) -> Iterator[list[tuple[str, str]]]:
    with (data / "ag_news/train.csv").open(encoding="utf-8", newline="") as rows:
        for text, _ in csv.reader(rows):
            half = text.split(" ")
            yield [(" ".join(half[:8]), " ".join(half[8:]))]
    for line in (data / "bbc_news_summary/all.jsonl").read_text("utf-8").splitlines():
        title, *paragraphs = [part for part in json.loads(line)["article"].split("\n") if part.strip()]
        yield [(title, shorten(part)) for part in paragraphs[:3]]
    for row in imdb(data, "train"):
        found = sentences(row["text"])
        yield [(found[place], shorten(" ".join(found[place + 1 : place + 4]))) for place in range(0, len(found) - 1, 8)]


def said_twice(data: Path) -> Iterator[tuple[str, str]]:
    """Questions that ask the same, translations of one sentence, pairs that people found alike."""
    for first, second, same in list(lines(data / "quora/train-part.txt"))[:-QUORA_MEASURED]:
        if same == "1":
            yield first, second
    for name in ("deu", "fra"):
        by_other: dict[str, list[str]] = {}
        for english, other, *_ in lines(data / f"tatoeba/{name}.txt"):
            by_other.setdefault(other, []).append(english)
        for number, english in enumerate(by_other.values()):
            if len(english) > 1:
                yield english[0], english[1]
            elif number % 4 == 0:  # short sentences of every day, as they are typed
                yield english[0], english[0].rstrip(".!?").lower()
    for row in table(data / "glue/STS-B/train.tsv"):
        if float(row["score"]) >= 4:
            yield row["sentence1"], row["sentence2"]
    for row in table(data / "sick/SICK_train.txt"):
        if float(row["relatedness_score"]) >= 4.5:
            yield row["sentence_A"], row["sentence_B"]


def dialogues(data: Path) -> Iterator[tuple[str, str]]:
    for turns, asked, _ in json.loads((data / "dream/train.json").read_text("utf-8")):
        said = [turn.partition(": ")[2] for turn in turns]
        yield from pairwise(said)
        yield from ((one["question"], shorten(" ".join(said))) for one in asked)


def inferred(path: Path) -> Iterator[Row]:
    """Premises with what follows from them, and what contradicts them."""
    for premise, rows in groupby(lines(path), lambda row: row[0]):
        by_label = {label: text for _, text, label in rows}
        if "0" in by_label and "2" in by_label:
            yield {"first": premise, "second": by_label["0"], "negative": by_label["2"]}


def paired(pairs: list[tuple[str, str]], rng: random.Random) -> Iterator[Row]:
    """Pairs with any other text of their kind as the one that does not fit."""
    for first, second in pairs:
        yield {"first": first, "second": second, "negative": rng.choice(pairs)[1]}


def usable(rows: Iterable[Row], known: Runs) -> Iterator[Row]:
    """Rows of three texts that differ, none of them with eight words of a measured one."""
    whole = (row for row in rows if all(text.strip() for text in row.values()) and row["negative"] != row["second"])
    while some := list(islice(whole, AT_ONCE)):
        shared = {place // 3 for place in Runs(text for row in some for text in row.values()).shared(known)}
        yield from (row for place, row in enumerate(some) if place not in shared)


def main() -> None:
    data, out, *shards = map(Path, sys.argv[1:])
    never = list(measured(data))
    write_rows(usable(of_corpus(shards[0]) if shards else of_sets(data), Runs(never)), out)
    (out.parent / "measured.json").write_text(json.dumps(never), "utf-8")  # for overlaps.py


if __name__ == "__main__":
    main()
