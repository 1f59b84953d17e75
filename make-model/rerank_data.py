"""What the skill `rerank` learns from: questions with a passage that answers them, and with some that only look so.

usage: python make-model/rerank_data.py DATA OUT [PAIRS.jsonl…]

A row of OUT/train.jsonl and OUT/dev.jsonl is {first: query, second: passage, label: relevant | irrelevant}. Questions
are those of SQuAD, TyDiQA and WikiQA's training sets; what looks like an answer is what BM25 finds for the question in
all their passages, without the answer's words. PAIRS are files of search_data.py: titles, sentences and rare words,
with a passage of their document and one of another. By the last articles of SQuAD scores are calibrated (dev.jsonl):
nine passages of BM25's to each right one, as a search has them.
"""

import json
import random
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from multiprocessing import Pool
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.pipelines.search.bm25 import Bm25
from measured import measured
from overlaps import Runs
from search_data import sentences, shorten
from skill_data import articles, lines, write_rows

Row = dict[str, Any]
CALIBRATED = 20  # of SQuAD's articles
FOUND = 30  # passages that BM25 puts forward
WRONG, WRONG_IN_SEARCH = 3, 9  # of them, beside the right one, while learning and while calibrating
ANYWHERE = 0.15  # of the wrong ones: passages that nothing put forward
FEW = 30_000  # rows of each file of pairs


class Question(NamedTuple):
    """A question, its answer, and the sentences of its passage with the place of the one that has the answer."""

    text: str
    answer: str
    sentences: list[str]
    place: int


def questions(path: Path) -> Iterator[list[Question]]:
    """The questions of each article."""
    for article in articles(path):
        found = []
        for paragraph in article["paragraphs"]:
            cut = sentences(paragraph["context"])
            ends, at = [], 0
            for text in cut:
                at = paragraph["context"].find(text, at) + len(text)
                ends.append(at)
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                place = next((i for i, end in enumerate(ends) if end > answer["answer_start"]), len(cut) - 1)
                found.append(Question(asked["question"].strip(), answer["text"], cut, place))
        yield found


def passage(cut: list[str], place: int, rng: random.Random) -> str:
    """The sentence, often with some round it, sometimes the whole paragraph."""
    drawn = rng.random()
    if drawn < 0.25:
        return cut[place]
    if drawn < 0.5:
        return shorten(" ".join(cut))
    return shorten(" ".join(cut[max(place - rng.randint(0, 2), 0) : place + 1 + rng.randint(0, 2)]))


def rows(asked: list[Question], seed: int, count: int) -> list[Row]:
    """Each question with its passage, and with `count` that do not hold its answer."""
    rng, made = random.Random(seed), []
    for one in asked:
        made.append({"first": one.text, "second": passage(one.sentences, one.place, rng), "label": "relevant"})
        found = [_PASSAGES[place] for place in _WORDS.rank([one.text], FOUND)[0].places]
        wrong = [cut for cut in found if one.answer.casefold() not in " ".join(cut).casefold()]
        chosen = rng.sample(wrong[: 2 * count], min(count, len(wrong), 2 * count))
        chosen = [rng.choice(_PASSAGES) if rng.random() < ANYWHERE else cut for cut in chosen]
        for cut in chosen:
            text = passage(cut, rng.randrange(len(cut)), rng)
            if one.answer.casefold() not in text.casefold():
                made.append({"first": one.text, "second": text, "label": "irrelevant"})
    return made


# read by the workers, which are forked when both are there
_PASSAGES: list[list[str]] = []
_WORDS: Bm25


def ranked(data: Path) -> Iterator[Row]:
    """WikiQA's questions with each sentence of their article; where none answers, only a few."""
    by_question: dict[str, list[tuple[str, str]]] = {}
    for question, text, label in lines(data / "wikiqa/train.txt"):
        by_question.setdefault(question, []).append((text, label))
    for question, found in by_question.items():
        answered = any(label == "1" for _, label in found)
        for text, label in found if answered else found[:2]:
            row = {"first": question, "second": text, "label": "relevant" if label == "1" else "irrelevant"}
            yield from (row for _ in range(3 if label == "1" else 1))


def neighbours(path: Path) -> Iterator[Row]:
    """Pairs of search_data.py, and as many with a passage of any other, since one of the same document may fit too."""
    with path.open(encoding="utf-8") as held:
        found = [json.loads(line) for line in islice(held, FEW)]
    rng = random.Random(path.name)
    for row in found:
        yield {"first": row["first"], "second": row["second"], "label": "relevant"}
        yield {"first": row["first"], "second": rng.choice(found)["second"], "label": "irrelevant"}


def main() -> None:
    global _WORDS
    data, out, *pairs = map(Path, sys.argv[1:])
    asked = [*questions(data / "squad/train-v1.1.json")]
    asked, calibrated = asked[:-CALIBRATED], asked[-CALIBRATED:]
    asked += questions(data / "tydiqa/english_tydiqa_train.json")
    distinct = {" ".join(one.sentences): one.sentences for article in [*asked, *calibrated] for one in article}
    _PASSAGES.extend(distinct.values())
    _WORDS = Bm25.build(distinct)
    with Pool(cpu_count()) as pool:
        learnt = pool.starmap(partial(rows, count=WRONG), [(one, seed) for seed, one in enumerate(asked)], 4)
    parts = [*learnt, list(ranked(data)), *(list(neighbours(path)) for path in pairs)]
    every = [row for part in parts for row in part]
    texts = (text for row in every for text in (row["first"], row["second"]))
    wrong = {place // 2 for place in Runs(texts).shared(Runs(measured(data)))}
    kept = [row for place, row in enumerate(every) if place not in wrong]
    random.Random(0).shuffle(kept)
    write_rows(kept, out / "train.jsonl")
    some = [row for seed, one in enumerate(calibrated) for row in rows(one[::8], seed, WRONG_IN_SEARCH)]
    write_rows(some, out / "dev.jsonl")
    print(f"{out}: {len(kept):,} pairs to learn, {len(some):,} to calibrate by")


if __name__ == "__main__":
    main()
