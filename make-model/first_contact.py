"""What newcomers type first, 100 rows for each skill: is the answer right, and does its score say when it is not?

usage: python make-model/first_contact.py MODEL [SKILL…] > lines of figures.jsonl

Nothing is learnt from these rows, and no setting is chosen by them. Wrong answers go to stderr.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import clearhead
from clearhead.data.formats import read_conll, read_pairs, read_squad, read_texts
from clearhead.evaluation.classes import calibration_error
from clearhead.evaluation.conll import spans
from clearhead.evaluation.squad import normalise
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.pipelines.model import Model

ROWS = Path(__file__).parent / "first_contact"
FILES = {
    "sentiment": "sentiment.tsv",
    "spam": "spam.tsv",
    "inference": "inference.tsv",
    "entities": "entities.txt",
    "questions": "questions.json",
    "similarity": "similarity.tsv",
}


@dataclass(frozen=True)
class Judged:
    """An answer, whether it is right, and its score; `silence` is right where the text does not answer."""

    said: str
    right: bool
    score: float
    silence: bool = False


def judge_classes(model: Model, path: Path) -> list[Judged]:
    examples = read_texts(path)
    found = model.classify([(one.text, one.pair) if one.pair else one.text for one in examples])
    return [
        Judged(f"{one.text} {one.pair or ''} → {given.label}", given.label == one.label, given.score)
        for one, given in zip(examples, found, strict=True)
    ]


def judge_answers(model: Model, path: Path) -> list[Judged]:
    """Right is what SQuAD's exact match takes, and no answer where there is none."""
    examples = read_squad(path)
    found = model.answer([one.question for one in examples], [one.context for one in examples])
    judged = []
    for one, given in zip(examples, found, strict=True):
        golds = {normalise(answer) for answer, _ in one.answers} or {""}
        right = normalise(given.text or "") in golds
        judged.append(Judged(f"{one.question} → {given.text}", right, given.score, silence=not one.answers))
    return judged


def judge_entities(model: Model, path: Path) -> list[Judged]:
    """Of the entities that were found; those that were missed show in F1."""
    examples = read_conll(path)
    judged = []
    for one, given in zip(examples, model.tag([list(one.words) for one in examples]), strict=True):
        true = {(kind, " ".join(one.words[first:last])) for first, last, kind in spans(list(one.tags or ()))}
        judged += [
            Judged(f"{found.text} → {found.label}", (found.label, found.text) in true, found.score)
            for found in given.entities
        ]
    return judged


def judge_words(model: Model, path: Path) -> list[Judged]:
    """Of plain tags: every word is right or wrong."""
    examples = read_conll(path)
    found = model.tag([list(one.words) for one in examples])
    return [
        Judged(f"{word.text} → {word.label}", word.label == tag, word.score)
        for one, given in zip(examples, found, strict=True)
        for word, tag in zip(given.words, one.tags or (), strict=True)
    ]


JUDGES: dict[str, Callable[[Model, Path], list[Judged]]] = {
    "sentiment": judge_classes,
    "spam": judge_classes,
    "inference": judge_classes,
    "rerank": judge_classes,
    "entities": judge_entities,
    "part-of-speech": judge_words,
    "questions": judge_answers,
}


def figures(model: Model, skill: str, path: Path) -> dict[str, float]:
    """In percent: how many answers are right, and by how much their scores are off."""
    if skill == "similarity":
        return {"spearman": EVALUATIONS["similar"](model, read_pairs(path)).metrics["spearman"]}
    judged = JUDGES[skill](model, path)
    for wrong in (one for one in judged if not one.right):
        print(f"{skill}, wrong with {wrong.score:.2f}: {wrong.said}", file=sys.stderr)
    right = [one.right for one in judged]
    error = calibration_error(right, [one.score for one in judged])
    if skill == "entities":
        found = EVALUATIONS["tag"](model, read_conll(path))
        return {"f1": found.metrics["f1"], "calibration error": error}
    silent = [one.right for one in judged if one.silence]
    kept_silent = {"silent where the text is": 100 * sum(silent) / len(silent)} if silent else {}
    return {"accuracy": 100 * sum(right) / len(right), **kept_silent, "calibration error": error}


def main() -> None:
    folder, *skills = sys.argv[1:]
    for skill in skills or FILES:
        for figure, value in figures(clearhead.load(folder, skill=skill), skill, ROWS / FILES[skill]).items():
            command = f"python make-model/first_contact.py MODEL {skill}"
            print(
                json.dumps(
                    {"figure": f"{skill}, first contact, {figure}", "value": value, "seeds": 1, "command": command}
                )
            )


if __name__ == "__main__":
    main()
