"""Let a skill's scores say how often it is right, and let `questions` say nothing where the text answers nothing.

usage: python make-model/calibrate.py MODEL SKILL DEVELOPMENT

One temperature divides a head's logits (Guo et al. 2017), and is written into the head: the one with the least squared
distance between the scores and what was right. `questions` gets a threshold instead, where it loses one in fifty of the
answers that are there; a temperature made its scores no better.
"""

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

import clearhead
from clearhead.data.formats import read_squad
from clearhead.hub.skills import ADAPTER, DESCRIPTION, Skill
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.pipelines.model import Model
from first_contact import JUDGES

LOST = 0.02  # of the questions that have an answer
ASKED = 2000  # so that forty of them are lost
TEMPERATURES = (0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.9, 3.5, 4.2, 5.0)


def main() -> None:
    model, skill, data = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    (set_threshold if skill == "questions" else set_temperature)(model, skill, data)


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


def set_threshold(model: str, skill: str, data: Path) -> None:
    asked = [example for example in read_squad(data) if example.answers]
    asked = asked[:: math.ceil(len(asked) / ASKED)]
    found = load(model, skill).answer(
        [example.question for example in asked], [example.context for example in asked], threshold=math.inf
    )
    margins = sorted(one.margin for one in found)
    threshold = round(margins[math.ceil((1 - LOST) * len(margins)) - 1], 2)
    folder = Path(model) / "skills" / skill
    described = asdict(replace(Skill.read(folder), threshold=threshold))
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    print(f"{skill}: no answer from {threshold} on, by {len(asked)} questions")


if __name__ == "__main__":
    main()
