"""The data of the skill `questions`: public sets, and questions without an answer made of those that have one.

usage: python make-model/question_data.py DATA CORPUS OUT MODEL [ARTICLES [EVERY]]

Writes what is measured (dev.json), what the scores are calibrated by (calibration.json), and what is learnt
(train-A.json, …: a file for each of MIXTURES). ARTICLES takes only so many of SQuAD 1.1, those of SQuAD 2.0 first, and
writes the mixture for a CPU; EVERY only each so many-th question of what is crafted and measured, for a rehearsal.
Twelve articles of the development set of SQuAD 1.1 are in the train part of SQuAD 2.0 too: they are learnt from, and
measured nowhere.
"""

import json
import lzma
import math
import random
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.pipelines.model import Model
from clearhead.studio.examples import EXAMPLES
from clearhead.text.sentences import split_sentences
from overlaps import Runs
from skill_data import FIRST_CONTACT, held_out, words

# of the twelve articles, those that scores are calibrated by: nothing is learnt from them
CALIBRATION = ("Normans", "Sky_(United_Kingdom)", "Amazon_rainforest")
# how often each kind of question is learnt in an epoch; less than once: of a share of them
REAL: dict[str, float] = {
    "plain": 1,
    "tydiqa": 1,
    "twins": 2,
    "real": 4,
    "misplaced": 1,
    "removed": 1,
    "meanings": 1,
    "definitions": 1,
}
MIXTURES: dict[str, dict[str, float]] = {
    "A": REAL,
    "B": REAL | {"crafted": 1, "changed": 1},
    "C": REAL | {"crafted": 1, "changed": 1, "real": 8, "twins": 4},
    # for a skill that goes on, on a CPU
    "F": {
        **{"plain": 0.25, "tydiqa": 0.15, "twins": 1, "real": 2, "crafted": 0.35, "changed": 0.35},
        **{"misplaced": 0.3, "removed": 0.3, "meanings": 0.15, "definitions": 0.1},
    },
}
CRAFTED = 0.5  # share of SQuAD's questions that a wrong one is made of
# how often which kind of change is tried first
KINDS = {"name": 6, "number": 3, "opposite": 6, "negation": 1, "relation": 2}
PASSAGE = 0.4  # of the changes that can be made in the passage instead of the question
MEANINGS = 4000  # of abbreviations
DEFINITIONS = 2000
LONGEST = 1200  # characters of a passage of the corpus
WORD = re.compile(r"[^\W\d_]+")
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,.]*\d(?![\w])|(?<![\w.,-])\d(?![\w])")
AUXILIARY = re.compile(r"\b(did|does|do|was|were|is|are|has|have|had|could|would)\b(?! not)", re.IGNORECASE)
ABBREVIATION = re.compile(r"\(([A-Z]{2,6})\)")
SMALL = {"of", "the", "and", "for", "in", "on", "to", "de", "la", "du", "des", "a", "an", "at", "&"}
# words of four letters and more that say nothing by themselves
FUNCTION_WORDS = """
about after also another because been before being between both could does during each from have having into more most
much only other over same some such than that their them then there these they this those through under until upon
were what when where which while whom whose will with would your
"""
ENDS = r"[.,;] | (?:that|which|who|born|created|formed|founded|set|located|released|during|famous|known) "
ASKED = (
    "What does {} stand for?",
    "What does {} mean?",
    "What does the abbreviation {} stand for?",
    "What is {} short for?",
    "What do the letters {} stand for?",
    "What is the full name of {}?",
)


@dataclass(frozen=True)
class Asked:
    """A question about a passage; no answers: the passage does not say."""

    id: str
    title: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()

    @property
    def right(self) -> bool:
        """Whether the answers stand where they say."""
        return all(self.context[at : at + len(text)] == text and text for text, at in self.answers)


def read(path: Path) -> list[Asked]:
    """All questions of a file as SQuAD has them; of those with one id, the last."""
    found = (
        Asked(
            str(one["id"]),
            article["title"],
            one["question"].strip(),
            paragraph["context"],
            tuple((answer["text"], answer["answer_start"]) for answer in one["answers"] if not silent(one)),
        )
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for one in paragraph["qas"]
    )
    return list({row.id: row for row in found}.values())


def silent(asked: dict[str, Any]) -> bool:
    return bool(asked.get("is_impossible", False))


def write(rows: Iterable[Asked], path: Path) -> None:
    """A paragraph for each passage, as SQuAD 2.0 has it."""
    passages: dict[tuple[str, str], list[Any]] = {}
    for one in rows:
        answers = [{"text": text, "answer_start": start} for text, start in one.answers]
        passages.setdefault((one.title, one.context), []).append(
            {"id": one.id, "question": one.question, "answers": answers, "is_impossible": not answers}
        )
    articles: dict[str, list[Any]] = {}
    for (title, context), asked in passages.items():
        articles.setdefault(title, []).append({"context": context, "qas": asked})
    data = [{"title": title, "paragraphs": paragraphs} for title, paragraphs in articles.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "v2.0", "data": data}), "utf-8")
    print(f"{path.name}: {sum(map(len, passages.values())):,} questions", flush=True)


# what is measured is not learnt


class Unmeasured:
    """Passes the rows that share no eight words in a row, or all their few, with a text that is measured."""

    def __init__(self, measured: Iterable[str]) -> None:
        self._measured = Runs(measured)

    def __call__(self, rows: Iterable[Asked]) -> Iterator[Asked]:
        known: dict[str, bool] = {}
        for row in rows:
            for text in (row.context, row.question):
                if text not in known:
                    known[text] = not self._measured.has(Runs([text]).numbers).any()
            if known[row.context] and known[row.question]:
                yield row


# questions without an answer, of passages as they are


def misplaced(rows: list[Asked], share: float) -> Iterator[Asked]:
    """Some questions again, with the most similar passage of their article that has none of their answers."""
    by_title: dict[str, list[str]] = {}
    for row in rows:
        by_title.setdefault(row.title, []).append(row.context)
    contexts = {title: list(dict.fromkeys(found)) for title, found in by_title.items()}
    known = {context: words(context) for found in contexts.values() for context in found}
    for row in rows:
        if row.answers and held_out(row.id, share):
            others = [other for other in contexts[row.title] if not says(other, row)]
            if others:
                asked = words(row.question)
                other = max(others, key=lambda context: len(asked & known[context]))
                yield replace(row, id=f"{row.id}-misplaced", context=other, answers=())


def removed(rows: list[Asked], share: float) -> Iterator[Asked]:
    """Some questions again, with their passage less the sentences that have the answer."""
    for row in rows:
        if row.answers and held_out(f"{row.id}-removed", share):
            left = [part for part in split_sentences(row.context) if not says(part, row)]
            if len(left) > 1:
                yield replace(row, id=f"{row.id}-removed", context="".join(left).strip(), answers=())


def says(text: str, row: Asked) -> bool:
    return any(answer.casefold() in text.casefold() for answer, _ in row.answers)


# questions without an answer, made by one change


@dataclass(frozen=True)
class Change:
    """What stands in the question, and what is to stand there or in the passage instead."""

    kind: str
    old: str
    start: int  # in the question
    near: str | None  # of the passage or like it, for the question
    far: str | None  # not in the passage, for the passage


def opposites() -> dict[str, str]:
    lines = (Path(__file__).parent / "opposites.txt").read_text("utf-8").splitlines()
    pairs = [pair.split("/") for line in lines if not line.startswith("#") for pair in line.split()]
    return {one: other for first, second in pairs for one, other in ((second, first), (first, second))}


class Crafter:
    """Makes of a question with an answer one without, by one change in it or in its passage.

    Changed passages come twice: where the question is changed in the same way, the answer is still there.
    """

    def __init__(self, model: Model, rows: list[Asked], seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._opposites = opposites()
        contexts = list(dict.fromkeys(row.context for row in rows))
        tagged = model.tag(contexts)
        self._names = {
            context: list(dict.fromkeys((one.text, one.label) for one in found.entities if len(one.text) > 2))
            for context, found in zip(contexts, tagged, strict=True)
        }
        self._of_article: dict[str, dict[str, list[str]]] = {}
        for row in {row.context: row for row in rows}.values():
            kinds = self._of_article.setdefault(row.title, {})
            for name, kind in self._names[row.context]:
                kinds.setdefault(kind, []).append(name)
        self._related = Related(model, rows)

    def __call__(self, row: Asked) -> Iterator[Asked]:
        """One question without an answer, if one can be made, and one with, if the passage was changed for it."""
        kinds = sorted(KINDS, key=lambda kind: -(self._rng.random() ** (1 / KINDS[kind])))
        change = next(filter(None, (getattr(self, f"_{kind}")(row) for kind in kinds)), None)
        if change is None:
            return
        asked = _put(row.question, change.start, change.old, change.near or change.far or "")
        if change.far is not None and self._rng.random() < PASSAGE and (passage := _rewritten(row, change)):
            yield replace(row, id=f"{row.id}-{change.kind}-passage", context=passage.context, answers=())
            same = _put(row.question, change.start, change.old, change.far)
            yield replace(passage, id=f"{row.id}-{change.kind}-both", question=same)
        elif change.near is not None:
            yield replace(row, id=f"{row.id}-{change.kind}", question=asked, answers=())

    def _name(self, row: Asked) -> Change | None:
        """A name that the question shares with its passage, and another of the same kind."""
        here = self._names[row.context]
        found = [(name, kind, at) for name, kind in here if (at := _find(name, row.question)) is not None]
        if not found:
            return None
        name, kind, at = self._rng.choice(found)
        if says(name, row):
            return None

        def fits(other: str) -> bool:
            return not (_alike(other, name) or _find(other, row.question) is not None or says(other, row))

        near = [other for other, its in here if its == kind and fits(other)]
        far = [other for other in self._of_article[row.title].get(kind, ()) if fits(other) and other not in row.context]
        return Change("name", name, at, self._choice(near or far), self._choice(far))

    def _number(self, row: Asked) -> Change | None:
        found = [one for one in NUMBER.finditer(row.question) if not says(one[0], row)]
        if not found:
            return None
        old = self._rng.choice(found)
        known = [one[0] for one in NUMBER.finditer(row.context)]
        near = [one for one in known if len(one) == len(old[0]) and one != old[0] and not says(one, row)]
        other = self._other_number(old[0])
        far = other if other is not None and other not in known else None
        return Change("number", old[0], old.start(), self._choice(near) or far, far)

    def _other_number(self, old: str) -> str | None:
        """A number of as many digits, not far away."""
        if not old.isdecimal():
            digits = [at for at, letter in enumerate(old) if letter.isdecimal()]
            at = self._rng.choice(digits)
            return old[:at] + self._rng.choice([digit for digit in "123456789" if digit != old[at]]) + old[at + 1 :]
        value, most = int(old), 30 if len(old) == 4 else max(int(old) // 2, 2)
        other = str(value + self._rng.choice((-1, 1)) * self._rng.randint(1, most))
        return other if len(other) == len(old) and other != old and not other.startswith("-") else None

    def _opposite(self, row: Asked) -> Change | None:
        """A word whose opposite neither the question nor the passage has."""
        said = set(re.findall(r"\w+", row.context.lower()))
        found = [
            (word, other)
            for word in WORD.finditer(row.question)
            if (other := self._opposites.get(word[0].lower())) is not None
            and other not in said
            and _find(other, row.question) is None
        ]
        if not found:
            return None
        word, other = self._rng.choice(found)
        other = other.capitalize() if word[0][0].isupper() else other
        return Change("opposite", word[0], word.start(), other, other)

    def _negation(self, row: Asked) -> Change | None:
        """Asked of what did not happen."""
        found = AUXILIARY.search(row.question)
        if found is None:
            return None
        return Change("negation", found[0], found.start(), f"{found[0]}n't", None)

    def _relation(self, row: Asked) -> Change | None:
        """A word that the model might have put there, and that means something else."""
        proposed = self._related.of(row)
        if proposed is None:
            return None
        old, at, others = proposed
        said = words(row.context)
        near = [other for other in others if other not in said]
        return Change("relation", old, at, self._choice(near), None) if near else None

    def _choice(self, found: list[str]) -> str | None:
        return self._rng.choice(found) if found else None


class Related:
    """Other words for one word of each question: likely there, and not near it in meaning."""

    NEAR = 0.4  # cosine of the words' vectors from which on they may mean the same
    PROPOSED = 30

    def __init__(self, model: Model, rows: list[Asked]) -> None:
        chosen = {row.id: one for row in rows if (one := self._word(row)) is not None}
        masked = [
            row.question[: at.start()] + model.tokenizer.mask_token + row.question[at.end() :]
            for row in rows
            if (at := chosen.get(row.id)) is not None
        ]
        table = model.encoder.embeddings.token.weight.detach().float().cpu()
        self._vectors = torch.nn.functional.normalize(table - table.mean(0), dim=-1)
        self._ids = model.tokenizer.ids_batch
        found = model.fill(masked, top_k=self.PROPOSED) if masked else []
        self._found: dict[str, tuple[str, int, list[str]]] = {}
        for (name, at), filled in zip(chosen.items(), found, strict=True):
            proposed = [one.token for one in filled.predictions if WORD.fullmatch(one.token) and self._says(one.token)]
            others = self._others(at[0].lower(), proposed)
            if others:
                self._found[name] = at[0], at.start(), others

    def of(self, row: Asked) -> tuple[str, int, list[str]] | None:
        return self._found.get(row.id)

    def _says(self, word: str) -> bool:
        return len(word) > 3 and word not in FUNCTION_WORDS.split()

    def _word(self, row: Asked) -> re.Match[str] | None:
        """A word in lower case, seldom the first, that its passage has as well."""
        said = words(row.context)
        found = [one for one in WORD.finditer(row.question) if self._says(one[0]) and one[0] in said and one.start()]
        return random.Random(row.id).choice(found) if found else None

    def _others(self, old: str, proposed: list[str]) -> list[str]:
        ids = self._ids([old, *proposed])
        if len(ids[0]) != 1:
            return []
        known = [(word, its[0]) for word, its in zip(proposed, ids[1:], strict=True) if len(its) == 1 and word != old]
        own = self._vectors[ids[0][0]]
        return [
            word for word, one in known if not word.startswith(old[:4]) and float(own @ self._vectors[one]) < self.NEAR
        ]


def _find(word: str, text: str) -> int | None:
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    return None if found is None else found.start()


def _alike(one: str, other: str) -> bool:
    return bool(words(one) & words(other)) or one in other or other in one


def _put(text: str, start: int, old: str, new: str) -> str:
    return text[:start] + new + text[start + len(old) :]


def _rewritten(row: Asked, change: Change) -> Asked | None:
    """The row with the change in its passage, everywhere but for an answer that it would touch."""
    pattern = re.compile(rf"(?<!\w){re.escape(change.old)}(?!\w)")
    (text, start), new = row.answers[0], change.far or ""
    places = [one.span() for one in pattern.finditer(row.context)]
    if not places or any(first < start + len(text) and start < last for first, last in places):
        return None
    moved = start + sum(len(new) - len(change.old) for _, last in places if last <= start)
    made = replace(row, context=pattern.sub(lambda _: new, row.context), answers=((text, moved),))
    return made if made.right else None


# what an abbreviation stands for, and what something is


def passages(corpus: Path) -> Iterator[tuple[str, str]]:
    """Title and paragraph of the articles of the corpus."""
    for path in sorted(corpus.glob("*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if not row["source"].startswith("wikipedia"):
                    continue
                title, _, text = row["text"].partition("\n")
                yield from ((title, part) for part in text.split("\n") if 200 < len(part) < LONGEST)


def meanings(corpus: Path, seed: int = 0) -> Iterator[Asked]:
    """What does ABC stand for? By "Alpha Beta Company (ABC)"; a quarter of the passages no longer say it."""
    rng, seen = random.Random(seed), set[str]()
    for title, text in passages(corpus):
        for found in ABBREVIATION.finditer(text):
            short, full = found[1], _full_name(text[: found.start()], found[1])
            if full is None or short in seen:
                continue
            seen.add(short)
            row = Asked(f"meaning-{len(seen)}", title, rng.choice(ASKED).format(short), text)
            start = found.start() - len(full) - 1
            if rng.random() < 0.25:
                yield replace(row, context=text[:start] + short + text[found.end() :])
            elif rng.random() < 0.15:
                asked = f"What is {full} abbreviated to?"
                yield replace(row, question=asked, answers=((short, found.start() + 1),))
            else:
                yield replace(row, answers=((full, start),))


def _full_name(before: str, short: str) -> str | None:
    """The words before an abbreviation whose first letters it has; small words may have none in it."""
    if not before.endswith(" "):
        return None
    parts, left = before[:-1].split(" "), list(short.lower())
    taken: list[str] = []
    while left and parts:
        word = parts.pop()
        if word[:1].lower() == left[-1]:
            left.pop()
        elif word.lower() not in SMALL:
            return None
        taken.insert(0, word)
    name = " ".join(taken)
    plain = not left and len(taken) > 1 and taken[0][:1].isalnum() and not re.search(r"[().,;:\"“”]", name)
    return name if plain else None


def definitions(corpus: Path) -> Iterator[Asked]:
    """What is X? By "X is a …", where an article begins so."""
    seen = set[str]()
    for title, text in passages(corpus):
        name = re.sub(r" \(.*\)$", "", title)
        if name in seen or len(name.split()) > 4:
            continue
        pattern = rf"(?:The )?{re.escape(name)}(?: \([^)]*\))? (is|was|are|were) (an? [^.,;:()]{{10,90}}?)(?={ENDS})"
        if (found := re.match(pattern, text)) is None:
            continue
        seen.add(name)
        person = re.search(r"\bborn\b|\((?:[^)]*\d{4}\s*[–-])", text[:150]) is not None
        asked = f"{'Who' if person else 'What'} {found[1]} {name}?"
        yield Asked(f"definition-{len(seen)}", title, asked, text, ((found[2], found.start(2)),))


def main() -> None:
    data, corpus, out = map(Path, sys.argv[1:4])
    squad, dev = read(data / "squad/train-v1.1.json"), read(data / "squad/dev-v1.1.json")
    hard, hard_dev = read(data / "squad2/train-part.json"), read(data / "squad2/dev-part.json")
    known = {row.id for row in squad}
    taken = {row.title for row in hard}
    if len(sys.argv) > 5:
        titles = sorted(dict.fromkeys(row.title for row in squad), key=lambda title: title not in taken)
        some = set(titles[: int(sys.argv[5])])
        squad = [row for row in squad if row.title in some]
    measured = [row for row in dev if row.title not in taken]
    first_contact = read(FIRST_CONTACT / "questions.json")
    never = [*measured, *hard_dev, *first_contact, *(row for row in hard if row.title in CALIBRATION)]
    slides = [text for shown in EXAMPLES.values() for one in shown for text in one["values"].values()]
    unmeasured = Unmeasured({text for row in never for text in (row.question, row.context)} | set(map(str, slides)))
    fewer = int(sys.argv[6]) if len(sys.argv) > 6 else 1
    write(measured[::fewer], out / "dev.json")
    write([row for row in hard if row.title in CALIBRATION][::fewer], out / "calibration.json")

    # questions of SQuAD 2.0 that SQuAD 1.1 has as well are learnt as those of 1.1
    new = [row for row in hard if row.title not in CALIBRATION and row.id not in known]
    plain, real = ([row for row in unmeasured(rows) if row.right] for rows in (squad, new))
    twins = [row for row in real if row.answers]
    model = clearhead.load(sys.argv[4]).to("cuda" if torch.cuda.is_available() else "cpu")
    asked = [row for row in plain if held_out(f"{row.id}-crafted", CRAFTED)] + twins
    craft = Crafter(model, asked[::fewer])
    crafted = [made for row in asked[::fewer] for made in craft(row)]
    kinds = {
        "plain": plain,
        "tydiqa": [row for row in unmeasured(read(data / "tydiqa/english_tydiqa_train.json")) if row.right],
        "twins": twins,
        "real": [row for row in real if not row.answers],
        "misplaced": list(misplaced(plain, 0.12)),
        "removed": list(removed(plain, 0.12)),
        "meanings": list(islice(unmeasured(meanings(corpus)), MEANINGS)),
        "definitions": list(islice(unmeasured(definitions(corpus)), DEFINITIONS)),
        "crafted": [row for row in crafted if not row.answers],
        "changed": [row for row in crafted if row.answers],
    }
    for kind, rows in kinds.items():
        write(rows, out / f"kinds/{kind}.json")
    chosen = {name: one for name, one in MIXTURES.items() if len(sys.argv) > 6 or (name == "F") == (len(sys.argv) > 5)}
    for name, times in chosen.items():
        write(mixed(kinds, times), out / f"train-{name}.json")


def mixed(kinds: dict[str, list[Asked]], times: dict[str, float]) -> Iterator[Asked]:
    """The questions of an epoch, each time under an id of its own."""
    for kind, often in times.items():
        for n in range(math.ceil(often)):
            share = min(often - n, 1.0)
            yield from (replace(row, id=f"{row.id}/{n}") for row in kinds[kind] if held_out(f"{row.id}/{n}", share))


if __name__ == "__main__":
    main()
