"""Texts of other kinds than encyclopedias and old books, for the encoder's last pre-training: no labels.

usage: python make-model/everyday.py DATA OUT.jsonl

Talk, mails, reviews, news, captions, abstracts and single sentences of every day, out of the training parts of the
public sets. What a set is measured on is not among them, nor any line that shares eight words with it (overlaps.py).
Short texts are put together, as many as fill a page.
"""

import csv
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from clearhead.text.sentences import sentence_spans
from measured import QUORA_MEASURED, measured
from overlaps import Runs
from skill_data import articles, imdb, lines, parts_of_speech, table, write_rows

TOGETHER = 24  # short texts of a document
LONG_ENOUGH = 8  # words of a phrase out of a review that may be a sentence


def documents(data: Path) -> Iterator[str]:
    """Texts as long as they are, a paragraph on each line."""
    for article in articles(data / "squad/train-v1.1.json"):
        yield "\n".join(paragraph["context"] for paragraph in article["paragraphs"])
    for article in articles(data / "tydiqa/english_tydiqa_train.json"):
        yield from (paragraph["context"] for paragraph in article["paragraphs"])
    yield from (row["text"] for row in imdb(data, "train"))
    for line in (data / "bbc_news_summary/all.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)["article"]
    for line in (data / "mail_spam/train.jsonl").read_text("utf-8").splitlines():
        yield json.loads(line)["text"][:1500].replace("\n", " ")
    for line in (data / "scitldr/train.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield " ".join([row.get("title") or "", *row["source"]])
    for turns, *_ in json.loads((data / "dream/train.json").read_text("utf-8")):
        yield "\n".join(turn.partition(": ")[2] for turn in turns)
    for line in (data / "mutual/mutual.train.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield f"{row['article']} {row['options']['ABCD'.index(row['answers'])]}"
    news = (data / "conll2003/eng.train").read_text("utf-8").split("-DOCSTART-")
    for document in news:
        yield "\n".join(" ".join(line.split()[0] for line in one.splitlines()) for one in document.split("\n\n")[1:])


def sentences(data: Path) -> Iterator[list[str]]:
    """Texts of a sentence or two, by their set."""
    yield [english for name in ("deu", "fra") for english, *_ in lines(data / f"tatoeba/{name}.txt")]
    yield (data / "multi30k/train.en").read_text("utf-8").splitlines()
    with (data / "ag_news/train.csv").open(encoding="utf-8", newline="") as rows:
        yield [row[0].replace("#39;", "'").replace("\\", " ") for row in csv.reader(rows)]
    yield [cell for row in list(lines(data / "quora/train-part.txt"))[:-QUORA_MEASURED] for cell in row[:2]]
    yield [cell for row in lines(data / "wikiqa/train.txt") for cell in row[:2]]
    yield [row[3] for row in lines(data / "glue/CoLA/train.tsv") if row[1] == "1"]
    yield [row[name] for row in table(data / "glue/MRPC/train.tsv") for name in ("#1 String", "#2 String")]
    for name in ("RTE", "STS-B"):
        yield [row[part] for row in table(data / f"glue/{name}/train.tsv") for part in ("sentence1", "sentence2")]
    phrases = (row["sentence"] for row in table(data / "glue/SST-2/train.tsv"))
    yield [phrase for phrase in phrases if len(phrase.split()) >= LONG_ENOUGH]
    yield [text for label, text in lines(data / "sms_spam/SMSSpamCollection")]
    yield [" ".join(line.split("\t")[0] for line in one.split("\n")) for one in parts_of_speech(data, "train")]


def unmeasured(texts: Iterable[str], known: Runs) -> Iterator[str]:
    """Texts without the lines that have words of measured ones; a long line loses its sentences one by one."""
    held = list(texts)
    shared = set(Runs(held).shared(known))
    for place, text in enumerate(held):
        if place in shared:
            cut = [line[start:end] for line in text.split("\n") for start, end in sentence_spans(line)]
            text = known.cut("\n".join(cut))
        if text.strip():
            yield text


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    rng, known = random.Random(0), Runs(measured(data))
    found = list(unmeasured(documents(data), known))
    for texts in sentences(data):
        kept = list(unmeasured(dict.fromkeys(texts), known))
        rng.shuffle(kept)
        found += ["\n".join(kept[at : at + TOGETHER]) for at in range(0, len(kept), TOGETHER)]
    rng.shuffle(found)
    write_rows(({"source": "everyday", "text": text} for text in found), out)
    print(f"{out}: {len(found):,} documents, {sum(map(len, found)):,} characters")


if __name__ == "__main__":
    main()
