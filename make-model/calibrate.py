"""Set from when on a skill gives no answer: where it loses one in fifty of those that are there.

usage: python make-model/calibrate.py MODEL SKILL QUESTIONS
"""

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import clearhead
from clearhead.data.formats import read_squad
from clearhead.hub.skills import DESCRIPTION, Skill

LOST = 0.02  # of the questions that have an answer
ASKED = 2000  # so that forty of them are lost


def main() -> None:
    model, skill, data = sys.argv[1:]
    asked = [example for example in read_squad(data) if example.answers]
    asked = asked[:: math.ceil(len(asked) / ASKED)]
    folder = Path(model) / "skills" / skill
    found = clearhead.load(model, skill=skill).answer(
        [example.question for example in asked], [example.context for example in asked], threshold=math.inf
    )
    margins = sorted(one.margin for one in found)
    threshold = round(margins[math.ceil((1 - LOST) * len(margins)) - 1], 2)
    described = asdict(replace(Skill.read(folder), threshold=threshold))
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    print(f"{skill}: no answer from {threshold} on, by {len(asked)} questions")


if __name__ == "__main__":
    main()
