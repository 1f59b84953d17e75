"""Does a model know when to be silent? SQuAD 2.0's questions, answered always, never, and where the model would.

usage: python benchmarks/abstaining.py SQUAD2_DEV [--model DIR] [--plot FILE.svg] [--json]

`refused` is the share of the unanswerable questions that get no answer, `lost` the F1 of the answerable ones that
silence costs. The best threshold is found on these very questions: what could be had, and no figure of the model. The
plot shows how often answers of each score are right (SQuAD's exact match; silence where the text does not say).
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import clearhead
from clearhead.data.examples import QuestionExample
from clearhead.data.formats import read_squad
from clearhead.evaluation.classes import BINS, calibration_error
from clearhead.evaluation.squad import best_threshold, exact_match, f1
from clearhead.pipelines.model import Model
from clearhead.pipelines.question_answering import Answer

Row = dict[str, float]
OWN = "as it comes"


class Asked:
    """What a model says to each question if it must answer, and what it is worth."""

    def __init__(self, model: Model, examples: Sequence[QuestionExample]) -> None:
        able = model.able("answer")
        self.own = able.checkpoint.description.threshold
        pairs = [one.question for one in examples], [one.context for one in examples]
        self.found: list[Answer] = able.answer(*pairs, threshold=math.inf, whole_words=False)
        self.silent = [not one.answers for one in examples]
        golds = [[text for text, _ in one.answers] for one in examples]
        said = [one.candidates[0].text if one.candidates else "" for one in self.found]
        self.f1 = [max((f1(gold, text) for gold in some), default=0.0) for some, text in zip(golds, said, strict=True)]
        self.exact = [
            max((exact_match(gold, text) for gold in some), default=0.0) for some, text in zip(golds, said, strict=True)
        ]

    def at(self, threshold: float) -> Row:
        """The figures if it abstains above a threshold, in percent."""
        answers = [one.margin <= threshold for one in self.found]
        rows = list(zip(self.silent, answers, self.f1, self.exact, strict=True))

        def mean(values: list[float]) -> float:
            return 100 * math.fsum(values) / len(values) if values else math.nan

        kept = mean([worth * answered for silent, answered, worth, _ in rows if not silent])
        return {
            "f1": mean([not answered if silent else worth * answered for silent, answered, worth, _ in rows]),
            "exact": mean([not answered if silent else exact * answered for silent, answered, _, exact in rows]),
            "refused": mean([not answered for silent, answered, *_ in rows if silent]),
            "answerable f1": kept,
            "lost": mean([worth for silent, _, worth, _ in rows if not silent]) - kept,
        }

    def best(self) -> float:
        """The threshold with the highest F1 over all of these questions."""
        names = range(len(self.found))
        answered, abstained = dict(enumerate(self.f1)), {n: float(self.silent[n]) for n in names}
        margins = {n: min(one.margin, sys.float_info.max) for n, one in enumerate(self.found)}
        return best_threshold(answered, abstained, margins)[1]  # type: ignore[arg-type]

    def scored(self) -> tuple[list[bool], list[float]]:
        """Of what it says by its own threshold: whether it is right, and its score."""
        right, scores = [], []
        for one, silent, exact in zip(self.found, self.silent, self.exact, strict=True):
            if one.margin <= self.own:
                right.append(exact == 1.0)
                scores.append(one.score)
            else:
                right.append(silent)
                scores.append(null_probability(one))
        return right, scores

    def auc(self) -> float:
        """How often an unanswerable question has the greater margin than an answerable one."""
        order = torch.tensor([one.margin for one in self.found], dtype=torch.float64).argsort()
        silent = torch.tensor(self.silent)[order]
        below = (~silent).cumsum(0)[silent].double().sum()
        return float(100 * below / (silent.sum() * (~silent).sum()))


def null_probability(found: Answer) -> float:
    """That there is no answer, of an answer that was given all the same."""
    if not found.candidates:
        return 1.0
    best = found.candidates[0]
    return min(math.exp(found.margin) * best.score, 1.0)


def reliability(right: Sequence[bool], scores: Sequence[float]) -> str:
    """An SVG: of each tenth of the scores how many answers are right, and how many answers there are."""
    side, edge = 260, 40
    bins: list[list[tuple[bool, float]]] = [[] for _ in range(BINS)]
    for hit, score in zip(right, scores, strict=True):
        bins[min(int(score * BINS), BINS - 1)].append((hit, score))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 2 * edge} {side + 2 * edge}" font-size="11" '
        'font-family="sans-serif" fill="currentColor">',
        f"<title>How often answers of each score are right ({len(scores):,} questions)</title>",
        f'<path d="M{edge} {edge}V{edge + side}H{edge + side}" fill="none" stroke="currentColor"/>',
        f'<path d="M{edge} {edge + side}L{edge + side} {edge}" stroke="currentColor" stroke-dasharray="4 4"/>',
        f'<text x="{edge + side / 2}" y="{side + 2 * edge - 6}" text-anchor="middle">score</text>',
        f'<text x="{edge}" y="{edge - 10}">share that is right</text>',
    ]
    parts += [
        f'<text x="{edge + side * share}" y="{edge + side + 14}" text-anchor="middle">{share:g}</text>'
        f'<text x="{edge - 6}" y="{edge + side * (1 - share) + 4}" text-anchor="end">{share:g}</text>'
        for share in (0, 0.5, 1)
    ]
    for rows in bins:
        if rows:
            hits, mean = sum(hit for hit, _ in rows) / len(rows), math.fsum(score for _, score in rows) / len(rows)
            radius = 3 + 14 * math.sqrt(len(rows) / len(scores))
            parts.append(
                f'<circle cx="{edge + side * mean:.1f}" cy="{edge + side * (1 - hits):.1f}" r="{radius:.1f}" '
                f'fill="#2a78c2" fill-opacity="0.7"><title>{len(rows)} answers of score {mean:.2f}: '
                f"{hits:.0%} right</title></circle>"
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def measure(
    model: Model, examples: Sequence[QuestionExample]
) -> tuple[dict[str, Row], dict[str, float], tuple[list[bool], list[float]]]:
    """The rows of the table, what they have in common, and the answers with their scores."""
    asked = Asked(model, examples)
    rows = {
        "never abstaining": asked.at(math.inf),
        OWN: asked.at(asked.own),
        "always abstaining": asked.at(-math.inf),
        "best threshold for these questions": asked.at(asked.best()),
    }
    scored = asked.scored()
    common = {
        "threshold": asked.own,
        "questions": len(asked.silent),
        "unanswerable": sum(asked.silent),
        "auc": asked.auc(),
        "calibration error": calibration_error(*scored),
    }
    return rows, common, scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="questions as SQuAD 2.0 has them")
    parser.add_argument("--model", help="default: the built-in one")
    parser.add_argument("--skill", help="default: the one for answers")
    parser.add_argument("--count", type=int, help="so many questions, evenly spread; default: all")
    parser.add_argument("--plot", type=Path, help="draw how often answers of each score are right")
    parser.add_argument("--json", action="store_true", help="all figures as one line of JSON")
    given = parser.parse_args()
    model = clearhead.load(given.model, skill=given.skill).to("cuda" if torch.cuda.is_available() else "cpu")
    examples = read_squad(given.data)
    rows, common, scored = measure(model, examples[:: math.ceil(len(examples) / (given.count or len(examples)))])
    if given.plot is not None:
        given.plot.write_text(reliability(*scored), "utf-8")
    if given.json:
        named = {name: {figure: row[figure] for figure in ("f1", "refused")} for name, row in rows.items()}
        del named[OWN]
        flat = {f"{name}, {figure}": value for name, row in named.items() for figure, value in row.items()}
        print(json.dumps(rows[OWN] | flat | {name: float(value) for name, value in common.items()}))
        return
    silent = f"{common['unanswerable']:,} of them unanswerable"
    print(f"{common['questions']:,} questions, {silent}; the model's threshold is {common['threshold']:g}\n")
    names = list(next(iter(rows.values())))
    print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{row[one]:.1f}" for one in names) + " |")
    print(f"\nAUC of the margin {common['auc']:.1f}, calibration error {common['calibration error']:.1f}")


if __name__ == "__main__":
    main()
