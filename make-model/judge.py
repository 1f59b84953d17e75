"""More pairs for the skill similarity, judged by a model that reads both texts at once (Thakur et al. 2021).

usage: python make-model/judge.py JUDGE PAIRS OUT
JUDGE was fine-tuned on STS-B (0 to 5). PAIRS without a score get one; each text also meets those that share its words.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from math import log, sqrt
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.pipelines.model import Model

Pair = tuple[str, str]
NEAR = 3  # texts that each text meets
COMMON = 500  # a word that more texts have says too little
LARGEST = 5.0  # what STS-B gives to texts that mean the same


def main() -> None:
    judge, source, out = map(Path, sys.argv[1:])
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    known = [row for row in rows if "score" in row]
    asked = {(row["first"], row["second"]) for row in rows if "score" not in row}
    asked |= neighbours(known)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    judged = judge_pairs(clearhead.load(judge).to(device), sorted(asked))
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*known, *judged]), "utf-8")
    print(f"{len(known):,} pairs with a score, {len(judged):,} judged")


def neighbours(known: list[dict[str, Any]]) -> set[Pair]:
    """Pair each text of the known pairs with those that share most of its rare words, unless they are a pair."""
    pairs = {frozenset((row["first"], row["second"])) for row in known}
    texts = sorted({text for pair in pairs for text in pair})
    found: set[frozenset[str]] = set()
    for text, others in zip(texts, nearest(texts), strict=True):
        found |= {frozenset((text, texts[other])) for other in others} - pairs
    return {(first, second) for first, second in (sorted(pair) for pair in found if len(pair) == 2)}


def nearest(texts: list[str]) -> list[list[int]]:
    """For each text the places of the nearest others, by the cosine of their words, rare ones weighing more."""
    words = [set(re.findall(r"\w+", text.lower())) for text in texts]
    holders: dict[str, list[int]] = defaultdict(list)
    for place, known in enumerate(words):
        for word in known:
            holders[word].append(place)
    weight = {word: log(len(texts) / len(places)) ** 2 for word, places in holders.items()}
    norms = [sqrt(sum(weight[word] for word in known)) or 1.0 for known in words]
    found: list[list[int]] = []
    for place, known in enumerate(words):
        shared: Counter[int] = Counter()
        for word in known:
            if len(holders[word]) <= COMMON:
                for other in holders[word]:
                    shared[other] += weight[word] / norms[other]
        del shared[place]
        found.append([other for other, _ in shared.most_common(NEAR)])
    return found


def judge_pairs(judge: Model, pairs: list[Pair]) -> list[dict[str, Any]]:
    """Score pairs from 0 to 1."""
    scores = [min(max(found.score / LARGEST, 0.0), 1.0) for found in judge.classify(pairs)]
    return [
        {"first": first, "second": second, "score": round(score, 4)}
        for (first, second), score in zip(pairs, scores, strict=True)
    ]


if __name__ == "__main__":
    main()
