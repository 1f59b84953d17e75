"""How good is search? WikiQA's questions (Yang et al. 2015), ranked by BM25, vectors, both, and read again.

"few" ranks four sentences, of which one answers; "own" ranks the sentences of each question's own article, which is the
task as published; "all" looks for them among the sentences of all articles, as an index does. Questions without a right
sentence are left out, as is the custom. A cross-encoder is a skill, by name or folder, or a model; unasked it is the
skill of the model, if it has one.

usage: python benchmarks/search_quality.py --data dev.txt [--model DIR] [--skill NAME_OR_DIR]
                                           [--rerank NAME_OR_DIR | none] [--count 20] [--threads 1] [--json FILE]
"""

import argparse
import json
import random
import time
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.data.documents import Document
from clearhead.evaluation.retrieval import average_precision, recall, reciprocal_rank
from clearhead.pipelines.model import Model
from clearhead.pipelines.search.index import Index
from real_weights import minilm

Judged = dict[str, dict[str, int]]
LONG = 100_000  # a sentence of the data is one passage, however long


def read_wikiqa(path: Path) -> Judged:
    """Question -> sentence -> 1 if it answers it; questions that none answers are left out."""
    found: Judged = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        question, sentence, label = line.split("\t")
        judged = found.setdefault(question, {})
        judged[sentence] = max(judged.get(sentence, 0), int(label))
    return {question: judged for question, judged in found.items() if any(judged.values())}


def few(judged: Judged, sentences: list[str]) -> Judged:
    """Each question with a sentence that answers it and three of any: what somebody has who tries it on a few notes."""
    rng = random.Random(0)
    found: Judged = {}
    for question, own in judged.items():
        answer = next(sentence for sentence, label in own.items() if label)
        others = rng.sample([sentence for sentence in sentences if not own.get(sentence)], 3)
        found[question] = {answer: 1, **dict.fromkeys(others, 0)}
    return found


def reader_of(model: Model, named: str | None) -> Model | None:
    """The cross-encoder that is named: a skill, or a model; of nothing named the model's own, if it has one."""
    if named is None:
        return model.able("rerank") if "rerank" in model.uses else None
    if named == "none":
        return None
    skill = named in model.skills or (Path(named) / "skill.json").is_file()
    return model.skill(named) if skill else clearhead.load(named, device=model.device)


def figures(judged: Judged, run: dict[str, dict[str, float]]) -> dict[str, float]:
    return {
        "MAP": average_precision(judged, run),
        "MRR": reciprocal_rank(judged, run),
        "recall@10": recall(judged, run, 10),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", help="checkpoint folder, or builtin:encoder; default: the real all-MiniLM-L6-v2")
    parser.add_argument("--skill", help="that makes the vectors; default: the model's own for search")
    parser.add_argument("--rerank", help="a cross-encoder to read the best again: a skill, a model, or none")
    parser.add_argument("--count", type=int, help="questions; default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = clearhead.load(options.model or minilm())
    cross = reader_of(model, options.rerank)
    judged = dict(list(read_wikiqa(options.data).items())[: options.count])
    sentences = list(dict.fromkeys(sentence for own in judged.values() for sentence in own))
    start = time.perf_counter()
    index = Index.build((Document(one, one) for one in sentences), model, skill=options.skill, max_characters=LONG)
    print(
        f"{date.today()}  {options.data.parent.name}/{options.data.name}  {len(judged)} questions  "
        f"{len(sentences)} sentences indexed in {time.perf_counter() - start:.1f} s"
    )
    print(f"{'among':<6} {'method':<16} {'MAP':>7} {'MRR':>7} {'recall@10':>10} {'ms/query':>9}")
    methods: list[tuple[str, dict[str, Any]]] = [
        ("bm25", {"method": "bm25"}),
        ("vectors", {"method": "vectors"}),
        ("approximate", {"method": "vectors", "approximate": True}),
        ("hybrid", {"method": "hybrid", "rerank": False}),
    ]
    if cross is not None:
        methods.append(("reranked", {"rerank_with": cross}))
    rows = []
    for among, relevant in (("few", few(judged, sentences)), ("own", judged), ("all", judged)):
        for name, settings in methods:
            if among != "all" and name == "approximate":
                continue  # a graph over a dozen sentences approximates nothing
            seconds, run = 0.0, {}
            for question, own in relevant.items():
                held = index if among == "all" else part(index, own)
                start = time.perf_counter()
                hits = held.search(question, top_k=min(100, len(held)), **settings)
                seconds += time.perf_counter() - start
                run[question] = {hit.source: hit.score for hit in hits}
            row = {"among": among, "method": name, **figures(relevant, run), "ms": 1000 * seconds / len(judged)}
            print(
                f"{among:<6} {name:<16} {row['MAP']:>7.3f} {row['MRR']:>7.3f} {row['recall@10']:>10.3f} "
                f"{row['ms']:>9.1f}",
                flush=True,
            )
            rows.append(row)
    if options.json:
        facts = {"date": str(date.today()), "questions": len(judged), "sentences": len(sentences), "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")


def part(index: Index, own: Collection[str]) -> Index:
    """An index of a few documents of another, with the vectors that it has already."""
    places = [place for place, document in enumerate(index.documents) if document.source in own]
    few, held = Index.build((index.documents[place] for place in places), max_characters=LONG), index.vectors
    return few if held is None else replace(few, vectors=replace(held, vectors=held.vectors[places]))


if __name__ == "__main__":
    main()
