"""More rows for a skill: texts without labels, as several fully fine-tuned models label them alike.

usage: python make-model/silver.py entities|sentiment DATA OUT TEACHER…

A skill is smaller than its teachers, and learns from what they agree on. News for entities, a document each; single
sentences of film reviews for sentiment. What shares words with a measured text is left out, as everywhere.
"""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import torch

import clearhead
from clearhead.pipelines.model import Model
from clearhead.text.sentences import sentence_spans
from overlaps import Runs, read, shown_to_all
from skill_data import imdb, write_rows

SURE = 0.9  # of a class, by every teacher
LONGEST = 60  # words of a sentence
START = "-DOCSTART- O"


def news(data: Path) -> Iterator[list[list[str]]]:
    """The sentences of news, in documents: the BBC's articles, and AG's first lines."""
    with (data / "bbc_news_summary/all.jsonl").open(encoding="utf-8") as articles:
        texts = [json.loads(line)["article"] for line in articles]
    for part in ("train", "dev", "test"):
        with (data / f"ag_news/{part}.csv").open(encoding="utf-8", newline="") as rows:
            texts += [row[0].replace("#39;", "'").replace("\\", " ") for row in csv.reader(rows) if "lt;" not in row[0]]
    for text in texts:
        cut = [in_words(text[start:stop]) for start, stop in sentence_spans(text)]
        yield [sentence for sentence in cut if 2 < len(sentence) < LONGEST]


def in_words(text: str) -> list[str]:
    """Words and marks apart, as CoNLL has them."""
    return re.findall(r"'s\b|n't\b|\w(?:\w|[-.&](?=\w))*?(?=n't\b)|\w(?:\w|[-.,&](?=\w))*|[^\w\s]", text)


def entities(data: Path, teachers: list[Model]) -> str:
    """Documents whose sentences are tagged as most of the teachers do; a sentence without such tags is left out."""
    tests = chain.from_iterable(read(data / f"conll2003/eng.test{part}") for part in "ab")
    measured = Runs(chain(tests, shown_to_all()))
    documents = list(news(data))
    sentences = [sentence for document in documents for sentence in document]
    shared = set(Runs(" ".join(one) for one in sentences).shared(measured))
    said = [[tuple(word.label for word in one.words) for one in teacher.tag(sentences)] for teacher in teachers]
    tagged = iter(zip(range(len(sentences)), sentences, zip(*said, strict=True), strict=True))
    parts = []
    for document in documents:
        parts.append(START)
        for _ in document:
            place, sentence, votes = next(tagged)
            (tags, count), *_ = Counter(votes).most_common(1)
            if place not in shared and 2 * count > len(teachers):
                parts.append("\n".join(f"{word} {tag}" for word, tag in zip(sentence, tags, strict=True)))
    return "\n\n".join(parts) + "\n"


def sentiment(data: Path, teachers: list[Model]) -> Iterator[dict[str, str]]:
    """Sentences of IMDB's training reviews that all teachers are sure of."""
    tests = (row["text"] for row in imdb(data, "test"))
    measured = Runs(chain(tests, read(data / "glue/SST-2/dev.tsv"), shown_to_all()))
    reviews = [row["text"] for row in imdb(data, "train")]
    sentences = list(dict.fromkeys(one[start:stop] for one in reviews for start, stop in sentence_spans(one)))
    sentences = [one for one in sentences if 2 < len(one.split()) < LONGEST]
    shared = set(Runs(sentences).shared(measured))
    votes = zip(*(teacher.classify(sentences) for teacher in teachers), strict=True)
    for place, (text, said) in enumerate(zip(sentences, votes, strict=True)):
        if place not in shared and len({one.label for one in said}) == 1 and min(one.score for one in said) > SURE:
            yield {"text": text, "label": said[0].label}


def main() -> None:
    skill, data, out, *folders = sys.argv[1:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    teachers = [clearhead.load(folder).to(device) for folder in folders]
    if skill == "entities":
        Path(out).write_text(entities(Path(data), teachers), "utf-8")
    else:
        write_rows(sentiment(Path(data), teachers), Path(out))
    print(f"{out}: {len(Path(out).read_text('utf-8').splitlines()):,} lines that {len(teachers)} teachers agree on")


if __name__ == "__main__":
    main()
