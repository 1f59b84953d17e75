"""How often does a model refuse to answer, by threshold: questions with their paragraph, and with one that is silent.

The silent ones are made as for the skill's training: the most similar paragraph of the article without the answer.

usage: python benchmarks/abstaining.py SQUAD_DEV [--count 350] [--model DIR]
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import clearhead

sys.path.insert(0, str(Path(__file__).parents[1] / "make-model"))
from skill_data import articles, misplaced

THRESHOLDS = (0, 1, 2, 3, 4, 5)


def asked(found: list[dict[str, Any]], count: int) -> tuple[list[str], list[str]]:
    """Some of the questions, evenly spread, and their contexts."""
    paragraphs = [paragraph for article in found for paragraph in article["paragraphs"]]
    pairs = [(one["question"], paragraph["context"]) for paragraph in paragraphs for one in paragraph["qas"]]
    questions, contexts = zip(*pairs[:: math.ceil(len(pairs) / count)], strict=True)
    return list(questions), list(contexts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dev", type=Path, help="dev-v1.1.json")
    parser.add_argument("--count", type=int, default=350, help="questions of each kind, at most")
    parser.add_argument("--model", help="default: the built-in one")
    given = parser.parse_args()
    model, found = clearhead.load(given.model), articles(given.dev)
    sets = {"answerable": asked(found, given.count), "silent": asked(list(misplaced(found)), given.count)}
    margins = {}
    for name, pairs in sets.items():
        print(f"asking {len(pairs[0])} {name} questions", file=sys.stderr)
        margins[name] = [one.margin for one in model.answer(*pairs, threshold=math.inf)]
    print("| threshold | " + " | ".join(f"{name}, {len(sets[name][0])}: refused" for name in sets) + " |")
    print("|---|" + "---|" * len(sets))
    for threshold in THRESHOLDS:
        shares = (sum(margin > threshold for margin in each) / len(each) for each in margins.values())
        print(f"| {threshold} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


if __name__ == "__main__":
    main()
