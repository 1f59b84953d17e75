"""The training data of the skills, out of the unpacked public sets: one folder each with train and dev files.

usage: python make-model/skill_data.py DATA OUT

What shares eight words with something measured, in a development or test set, in `first_contact` or in the lectures, is
not learnt: see overlaps.py.
"""

import hashlib
import json
import lzma
import random
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import made
from clearhead.text.sentences import sentence_spans
from overlaps import Runs, read, shown_to_all

Row = dict[str, Any]
FIRST_CONTACT = Path(__file__).parent / "first_contact"
LABELS = ("entailment", "neutral", "contradiction")
MADE = {"sentiment": 16_000, "inference": 12_000, "spam": 6_000}  # rows by rule
STATED = 8_000  # rows out of SQuAD's questions and answers
LEFT = 8  # words of a mail that are worth learning
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
    """Text messages, each twice, whole mails, the first lines of mails, and mails of today by rule."""
    for label, text in lines(data / "sms_spam/SMSSpamCollection"):
        out = "messages" if held_out(text, 0.1) else False
        yield from ({"text": text, "label": label, "held_out": out} for _ in range(1 if out else 2))
    for name in ("train", "dev"):
        for line in (data / f"mail_spam/{name}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield {"text": row["text"], "label": row["label"], "held_out": name == "dev" and "mails"}
            if name == "train":
                yield {"text": row["text"][:FIRST], "label": row["label"]}
    yield from made.spam(MADE["spam"])


def inference(data: Path) -> Iterator[Row]:
    """Three classes, from parts of SNLI and MNLI, from SICK, RTE, SQuAD, and by rules.

    What contradicts is contradicted in turn. RTE has two classes; most of what it does not find entailed is neutral.
    """
    for row in annotated(data):
        yield row
        if row["label"] == "contradiction" and not row["held_out"]:
            yield row | {"first": row["second"], "second": row["first"]}
    for row in table(data / "glue/RTE/train.tsv"):
        label = "entailment" if row["label"] == "entailment" else "neutral"
        yield {"first": row["sentence1"], "second": row["sentence2"], "label": label}
    yield from islice(stated(articles(data / "squad/train-v1.1.json")), STATED)
    yield from made.inference(MADE["inference"])


def annotated(data: Path) -> Iterator[Row]:
    """Pairs of captions, and of other genres, that people have judged."""
    for first, second, label in lines(data / "snli/train-part.txt"):
        out = held_out(first, 0.05) and "captions"
        yield {"first": first, "second": second, "label": LABELS[int(label)], "held_out": out}
    for row in table(data / "glue/MNLI/train-part.tsv"):
        out = held_out(row["premise"], 0.05) and "genres"
        yield {"first": row["premise"], "second": row["hypothesis"], "label": row["label"], "held_out": out}
    for name in ("train", "trial"):
        for row in table(data / f"sick/SICK_{name}.txt"):
            label, out = row["entailment_judgment"].lower(), name == "trial" and "captions"
            yield {"first": row["sentence_A"], "second": row["sentence_B"], "label": label, "held_out": out}


# questions whose answer, in the place of the first words, states it: "Who wrote X?", "How many people live in X?"
_DONE = r"\w+ed|was|were|is|are|won|wrote|made|began|led|gave|became|took|held|built|ran|came|has|had|lives?|lived"
_ASKED = (
    (
        re.compile(
            rf"(?:Who|What|Which \w+|What \w+) ((?:{_DONE}) (?!the |a |an |his |her |its |their |it |he |she ).+)\?"
        ),
        "{0} {1}",
    ),
    (re.compile(r"How many (\w+ (?:live|lived|died|were|are|have|had|attended|took) .+)\?"), "{0} {1}"),
    (re.compile(r"(?:What|Who) (is|was|are|were) ((?:the|a|an|his|her|its|their) .+)\?"), "{2} {1} {0}"),
)


def stated(found: list[Row], seed: int = 0) -> Iterator[Row]:
    """Answered questions as statements: entailed by their sentence, not by another of the paragraph that is like it.

    With another answer of the article, of the same kind, the sentence contradicts it.
    """
    rng = random.Random(seed)
    rng.shuffle(found := list(found))
    for article in found:
        known = [(p["context"], one["question"], one["answers"][0]) for p in article["paragraphs"] for one in p["qas"]]
        for context, question, answer in known:
            statement = state(question, answer["text"])
            sentences = [(start, stop, context[start:stop]) for start, stop in sentence_spans(context)]
            place = next(
                (i for i, (start, stop, _) in enumerate(sentences) if start <= answer["answer_start"] < stop), None
            )
            if statement is None or place is None or rng.random() < 0.3:
                continue
            premise, label = sentences[place][2], rng.choice(LABELS)
            if label == "neutral":
                silent = [text for *_, text in sentences if answer["text"].casefold() not in text.casefold()]
                if not silent:
                    continue
                premise = max(silent, key=lambda text: len(words(text) & words(question)))
            elif label == "contradiction":
                others = [other["text"] for _, _, other in known if alike(other["text"], answer["text"])]
                others = [other for other in others if other.casefold() not in premise.casefold()]
                if not others:
                    continue
                statement = state(question, rng.choice(others)) or statement
            yield {"first": premise, "second": statement, "label": label}


def state(question: str, answer: str) -> str | None:
    """The statement that a question and its answer come to, where it is easily made."""
    for asked, stating in _ASKED:
        if (found := asked.fullmatch(question.strip())) and len(answer.split()) < 8:
            text = stating.format(answer.strip(" ."), *found.groups())
            return f"{text[0].upper()}{text[1:].strip()}."
    return None


def alike(one: str, other: str) -> bool:
    """Whether two answers are of one kind, as far as digits, capitals and length tell."""
    kinds = ((any(map(str.isdigit, text)), text[:1].isupper(), len(text.split()) > 3) for text in (one, other))
    return len(set(kinds)) == 1 and one.casefold() != other.casefold()


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


def entities(data: Path, measured: Runs) -> str:
    """CoNLL-2003's documents as they are, each of their sentences alone, and twice more with other names.

    A user may have one sentence only; and names change faster than what is said of them.
    """
    start, *parts = (data / "conll2003/eng.train").read_text("utf-8").strip().split("\n\n")
    parts = unmeasured(parts, measured)
    alone = [part for part in parts if part != start]
    others = unmeasured([*renamed(alone, 0), *renamed(alone, 1)], measured)
    return "\n\n".join([start, *parts, *(f"{start}\n\n{one}" for one in [*alone, *others])]) + "\n"


def parts_of_speech(data: Path, part: str) -> list[str]:
    """UD-EWT's sentences with their universal tags, a word on a line."""
    sentences = (data / f"ud_ewt_pos/en-ud-tag.v2.{part}.txt").read_text("utf-8").strip().split("\n\n")
    return ["\n".join("\t".join(line.split("\t")[:2]) for line in one.split("\n")) for one in sentences]


def unmeasured(sentences: list[str], measured: Runs) -> list[str]:
    """Sentences, a word on a line, without those that share words with measured ones."""
    texts = [" ".join(line.split()[0] for line in one.split("\n")) for one in sentences]
    shared = set(Runs(texts).shared(measured))
    return [one for place, one in enumerate(sentences) if place not in shared]


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


def articles(path: Path) -> list[Row]:
    found: list[Row] = json.loads(path.read_text("utf-8"))["data"]
    return found


def write(rows: Iterable[Row], folder: Path, also: Iterable[Row] = ()) -> None:
    """Write train.jsonl without what is measured, here or in `also`, dev.jsonl, and each part of it that has a name."""
    every = [((kept := dict(row)).pop("held_out", False), kept) for row in rows]
    held = [row for out, row in every if out]
    measured = Runs(chain((text for row in [*held, *also] for text in texts(row)), shown_to_all()))
    write_rows(unlike([row for out, row in every if not out], measured), folder / "train.jsonl")
    write_rows(held, folder / "dev.jsonl")
    for name in {out for out, _ in every if isinstance(out, str)}:
        write_rows((row for out, row in every if out == name), folder / f"{name}.jsonl")


def unlike(rows: list[Row], measured: Runs) -> Iterator[Row]:
    """Rows without the lines that they share with measured ones, such as a mail's; those of one line fall away."""
    for name in ("text", "first", "second"):
        there = [row for row in rows if name in row]
        shared = Runs(row[name] for row in there).shared(measured)
        cut = [there[place] | {name: measured.cut(there[place][name])} for place in shared if name == "text"]
        kept = [row for row in cut if len(row[name].split()) >= LEFT]
        again = set(Runs(row[name] for row in kept).shared(measured))
        dropped = {id(there[place]) for place in shared}
        rows = [row for row in rows if id(row) not in dropped]
        rows += [row for place, row in enumerate(kept) if place not in again]
    yield from rows


def write_rows(rows: Iterable[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def texts(row: Row) -> list[str]:
    return [row[name] for name in ("text", "first", "second") if name in row]


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    reviews = list(islice(imdb(data, "test"), 2000))
    write(sentiment(data), out / "sentiment", also=reviews)
    write_rows(reviews, out / "sentiment/imdb.jsonl")
    write(spam(data), out / "spam")
    write(inference(data), out / "inference")
    write(similarity(data), out / "similarity")
    for name in ("entities", "part-of-speech"):
        (out / name).mkdir(parents=True, exist_ok=True)
    tests = chain.from_iterable(read(data / f"conll2003/eng.test{part}") for part in "ab")
    (out / "entities/train.txt").write_text(entities(data, Runs(chain(tests, shown_to_all()))), "utf-8")
    speech, dev = out / "part-of-speech", parts_of_speech(data, "dev")
    (speech / "dev.txt").write_text("\n\n".join(dev) + "\n", "utf-8")
    learnt = unmeasured(parts_of_speech(data, "train"), Runs(chain(read(speech / "dev.txt"), shown_to_all())))
    (speech / "train.txt").write_text("\n\n".join(learnt) + "\n", "utf-8")


if __name__ == "__main__":
    main()
