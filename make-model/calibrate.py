"""Let a skill's scores say how often it is right, and let `questions` say nothing where the text answers nothing.

usage: python make-model/calibrate.py MODEL SKILL DEVELOPMENT

One temperature divides a head's logits (Guo et al. 2017), and is written into the head: the one with the least squared
distance between the scores and what was right. `questions` gets beside it a bias for "no answer", found together with
the temperature, and a threshold: the most silent one that costs at most LOST points of F1 where there is an answer.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

import clearhead
from clearhead.data.examples import QuestionExample
from clearhead.data.formats import read_squad
from clearhead.evaluation.squad import exact_match, f1
from clearhead.hub.skills import ADAPTER, DESCRIPTION, Skill
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.pipelines.model import Model
from clearhead.pipelines.question_answering import Search, SpanTable, read_passages, spans_of_text
from first_contact import JUDGES

LOST = 4.0  # points of F1 that silence may cost where there is an answer
BIASES = [step / 4 for step in range(-40, 41)]
TEMPERATURES = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.9, 3.5, 4.2, 5.0)


def main() -> None:
    model, skill, data = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    (set_silence if skill == "questions" else set_temperature)(model, skill, data)


def set_temperature(model: str, skill: str, data: Path) -> None:
    folder = Path(model) / "skills" / skill
    whole = dict(read_tensors(folder / ADAPTER))
    errors = {}
    for temperature in TEMPERATURES:
        write_divided(whole, folder, temperature)
        judged = JUDGES[skill](load(model, skill), data)
        errors[temperature] = sum((one.score - one.right) ** 2 for one in judged) / len(judged)
    best = min(errors, key=lambda temperature: errors[temperature])
    write_divided(whole, folder, best)
    print(f"{skill}: temperature {best}, squared error {errors[1.0]:.4f} → {errors[best]:.4f}")


def load(model: str, skill: str) -> Model:
    return clearhead.load(model, skill=skill).to("cuda" if torch.cuda.is_available() else "cpu")


def write_divided(whole: dict[str, Tensor], folder: Path, temperature: float) -> None:
    """Write the skill with its logits divided by the temperature."""
    head = {name: whole[name] / temperature for name in ("head.classifier.weight", "head.classifier.bias")}
    write_tensors(whole | head, folder / ADAPTER, int8=True)


@dataclass(frozen=True)
class Read:
    """Logits of a question's spans and of no answer, and what the best span is worth."""

    spans: Tensor  # (P · A,)
    null: float
    best: float  # logit of the best span
    exact: float
    f1: float
    silent: bool


def read_questions(model: Model, examples: Sequence[QuestionExample]) -> list[Read]:
    search = Search(threshold=math.inf, whole_words=False)
    pairs = [(one.question, one.context) for one in examples]
    found = []
    for one, (context, pieces, windows, tables) in zip(examples, read_passages(model, pairs, search), strict=True):
        parts = [(window.first, window.passage, logits) for window, logits in zip(windows, tables, strict=True)]
        table = SpanTable.of(len(pieces), parts, search.max_answer_length)
        start, end, best = next(spans_of_text(context, pieces, table, search))
        said, golds = context[start:end], [text for text, _ in one.answers]
        exact, overlap = (max((how(gold, said) for gold in golds), default=0.0) for how in (exact_match, f1))
        found.append(Read(table.logits.flatten(), table.null, best, exact, overlap, not golds))
    return found


def set_silence(model: str, skill: str, data: Path) -> None:
    """Find temperature and bias by all questions of `data`, then the threshold by those that have an answer."""
    folder = Path(model) / "skills" / skill
    described = Skill.read(folder)
    found = read_questions(load(model, skill), read_squad(data))
    # two guesses for each question: that the best span is right, and that there is no answer
    truth = torch.tensor([[one.exact, one.silent] for one in found])
    biases = torch.tensor(BIASES)[:, None]  # against all questions

    def errors(temperature: float) -> Tensor:
        sums = torch.stack([(one.spans / temperature).logsumexp(0) for one in found])
        best, null = (torch.tensor([getattr(one, name) for one in found]) / temperature for name in ("best", "null"))
        total = torch.logaddexp(sums, null + biases)  # (biases, questions)
        guessed = torch.stack([(best - total).exp(), (null + biases - total).exp()], -1)
        return (guessed - truth).square().sum(-1).mean(-1)

    by_temperature = {temperature: errors(temperature) for temperature in TEMPERATURES}
    best = min(by_temperature, key=lambda temperature: float(by_temperature[temperature].min()))
    bias = BIASES[int(by_temperature[best].argmin())]
    margins = [(one.null - one.best) / best + bias for one in found]
    threshold = most_silent([(margin, one.f1) for margin, one in zip(margins, found, strict=True) if not one.silent])
    write_divided(dict(read_tensors(folder / ADAPTER)), folder, best)
    described = replace(described, null_bias=bias, threshold=threshold)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(described), indent=2) + "\n", "utf-8")
    before, after = float(by_temperature[1.0][BIASES.index(0.0)]), float(by_temperature[best].min())
    print(f"{skill}: temperature {best}, bias {bias}, squared error {before:.4f} → {after:.4f}")
    refused = sum(margin > threshold for margin, one in zip(margins, found, strict=True) if one.silent)
    silent = sum(one.silent for one in found)
    print(f"{skill}: no answer above {threshold}, by {len(found)} questions; {refused} of {silent} silent ones refused")


def most_silent(answered: Sequence[tuple[float, float]]) -> float:
    """The lowest threshold that loses at most LOST points of F1, of the margins and F1 of questions with an answer."""
    left = LOST / 100 * len(answered)
    for margin, worth in sorted(answered, reverse=True):
        left -= worth
        if left < 0:
            return round(margin, 2)
    return round(min(margin for margin, _ in answered), 2)


if __name__ == "__main__":
    main()
