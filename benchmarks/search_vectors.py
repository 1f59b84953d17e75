"""Which vectors find best? One table on sets that no skill has learnt: rankings, topics, duplicates, similarity.

- wikiqa: the sentences of each question's own article (MAP), and among those of all articles (MRR);
- mutual: which of four replies goes on with a dialogue (accuracy; development set);
- python, manuals: documentation searched by its newcomers' questions, see search_folder.py (nDCG@10);
- scitldr: the title of a paper finds its abstract among all of the test set (nDCG@10);
- ag_news: topics of 1,000 test texts by the nearest mean of 10 examples a class, five draws (accuracy);
- quora: are two questions the same? the last 3,000 rows, which no skill learns (AUC);
- sts-b, sick: development and test pairs (Spearman's rank correlation).

A skill is named, or is a folder; each has a row by its vectors, one with BM25 ("hybrid"), and one where a cross-encoder
has read the best of hybrid again ("reranked"): the model's own skill, another, or a model. `--quick` takes fewer rows
of each set and leaves the manuals out; it needs no network and no `man`.

usage: python benchmarks/search_vectors.py DATA [--model DIR] [--skill NAME_OR_DIR]… [--rerank NAME_OR_DIR | none]
                                           [--reading 0.5] [--sets wikiqa,quora] [--quick]
"""

import argparse
import csv
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import clearhead
import search_folder
from clearhead.data.documents import Document
from clearhead.evaluation.glue import spearman
from clearhead.evaluation.retrieval import average_precision, ndcg, precision, reciprocal_rank
from clearhead.pipelines.model import Model
from clearhead.pipelines.search import ranking
from clearhead.pipelines.search.index import Index
from clearhead.pipelines.search.passages import LONGEST
from clearhead.pipelines.search.vectors import Embed, VectorSearch
from real_weights import minilm
from search_quality import LONG, part, read_wikiqa, reader_of

HELD_OUT = 3000  # rows of Quora
DRAWS, EXAMPLES = 5, 10
Metric = Callable[[dict[str, dict[str, int]], dict[str, dict[str, float]]], float]


@dataclass(frozen=True)
class Ranked:
    """Documents, queries by their names, which documents answer each, and those it is asked of, if not all."""

    documents: list[Document]
    queries: dict[str, str]
    right: dict[str, dict[str, int]]
    metrics: dict[str, Metric]
    pools: dict[str, list[str]] | None = None
    longest: int = LONG

    def first(self, count: int) -> "Ranked":
        """Some of the queries, and without the documents that none of them is asked of."""
        kept = list(self.queries)[:: -(-len(self.queries) // count)]
        asked, right = ({name: held[name] for name in kept} for held in (self.queries, self.right))
        if self.pools is None:
            return replace(self, queries=asked, right=right)
        wanted = {source for name in kept for source in self.pools[name]}
        return replace(self, documents=[d for d in self.documents if d.source in wanted], queries=asked, right=right)


class Memory:
    """Unit vectors of texts by a model, each text read once."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = list(dict.fromkeys(text for text in texts if text not in self.known))
        if new:
            self.known |= zip(new, self.model.embed(new, normalise=True), strict=True)
        return np.stack([self.known[text] for text in texts])


def of_names(texts: Sequence[str]) -> list[Document]:
    return [Document(text, text) for text in texts]


def wikiqa(data: Path) -> dict[str, Ranked]:
    judged = read_wikiqa(data / "wikiqa/dev.txt")
    documents = of_names(list(dict.fromkeys(sentence for own in judged.values() for sentence in own)))
    asked = {question: question for question in judged}
    pools = {question: list(own) for question, own in judged.items()}
    own: dict[str, Metric] = {"wikiqa own MAP": average_precision}
    every: dict[str, Metric] = {"wikiqa all MRR": reciprocal_rank}
    return {
        "wikiqa": Ranked(documents, asked, judged, own, pools),
        "wikiqa all": Ranked(documents, asked, judged, every),
    }


def mutual(data: Path) -> dict[str, Ranked]:
    documents, asked, judged, pools = [], {}, {}, {}
    for line in (data / "mutual/mutual.dev.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        replies = [
            Document(reply, f"{row['id']} {letter}") for letter, reply in zip("ABCD", row["options"], strict=True)
        ]
        documents += replies
        asked[row["id"]] = row["article"]
        judged[row["id"]] = {f"{row['id']} {row['answers']}": 1}
        pools[row["id"]] = [one.source for one in replies]
    metrics: dict[str, Metric] = {"mutual acc": partial(precision, k=1), "mutual MRR": reciprocal_rank}
    return {"mutual": Ranked(documents, asked, judged, metrics, pools)}


def scitldr(data: Path) -> dict[str, Ranked]:
    rows = [json.loads(line) for line in (data / "scitldr/test.jsonl").read_text("utf-8").splitlines()]
    documents = [Document(" ".join(row["source"]), row["paper_id"]) for row in rows]
    asked = {row["paper_id"]: row["title"] for row in rows if row["title"].strip()}
    judged = {name: {name: 1} for name in asked}
    return {"scitldr": Ranked(documents, asked, judged, {"scitldr nDCG": partial(ndcg, k=10)})}


def documentation(name: str) -> Callable[[Path], dict[str, Ranked]]:
    def read(data: Path) -> dict[str, Ranked]:
        judged = search_folder.judgements(name)
        metrics: dict[str, Metric] = {f"{name} nDCG": partial(ndcg, k=10)}
        asked = {query: query for query in judged}
        return {name: Ranked(search_folder.documents(name), asked, judged, metrics, longest=LONGEST)}

    return read


RANKINGS = {
    "wikiqa": wikiqa,
    "mutual": mutual,
    "python": documentation("python"),
    "manuals": documentation("manuals"),
    "scitldr": scitldr,
}


def indexed(held: Ranked, embed: Embed | None = None) -> Index:
    words = Index.build(held.documents, max_characters=held.longest)
    if embed is None:
        return words
    embed(list(held.queries.values()))  # all at once, which is quicker
    return replace(words, vectors=VectorSearch.build([words.passage(place) for place in range(len(words))], embed))


def search(held: Ranked, index: Index, settings: dict[str, object]) -> dict[str, float]:
    run = {}
    for name, query in held.queries.items():
        few = index if held.pools is None else part(index, held.pools[name])
        run[name] = search_folder.of_pages(few.search(query, top_k=min(100, len(few)), **settings))
    return {metric: 100 * compute(held.right, run) for metric, compute in held.metrics.items()}


def ag_news(data: Path, embed: Embed, count: int | None) -> float:
    """By the nearest mean of a few examples of each class, drawn several times."""
    learnt, asked = (
        list(csv.reader((data / f"ag_news/{name}.csv").open(encoding="utf-8"))) for name in ("train", "test")
    )
    asked = asked[:count]
    wanted, found = embed([text for text, _ in asked]), []
    classes = sorted({label for _, label in learnt})
    for seed in range(DRAWS):
        rng = random.Random(seed)
        drawn = [rng.sample([text for text, label in learnt if label == one], EXAMPLES) for one in classes]
        means = np.stack([embed(texts).mean(0) for texts in drawn])
        said = (wanted @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(1)
        found.append(np.mean([classes[one] == label for one, (_, label) in zip(said, asked, strict=True)]))
    return 100 * float(np.mean(found))


def pairs_of(data: Path, name: str) -> list[tuple[str, str, float]]:
    if name == "quora":
        rows = [line.split("\t") for line in (data / "quora/train-part.txt").read_text("utf-8").splitlines()]
        return [(first, second, float(same)) for first, second, same in rows[-HELD_OUT:]]
    path, columns = {
        "sts-b": ("glue/STS-B/dev.tsv", ("sentence1", "sentence2", "score")),
        "sick": ("sick/SICK_test_annotated.txt", ("sentence_A", "sentence_B", "relatedness_score")),
    }[name]
    head, *rows = [line.split("\t") for line in (data / path).read_text("utf-8-sig").splitlines()]
    first, second, score = (head.index(column) for column in columns)
    return [(row[first], row[second], float(row[score])) for row in rows]


def auc(gold: Sequence[float], said: NDArray[np.float32]) -> float:
    """How probable it is that a pair which is the same scores more than one that is not."""
    order = np.argsort(said, kind="stable")
    ranks = np.empty(len(said))
    ranks[order] = np.arange(1, len(said) + 1)
    same = np.array(gold) > 0
    return float((ranks[same].sum() - same.sum() * (same.sum() + 1) / 2) / (same.sum() * (~same).sum()))


def pairs(data: Path, name: str, embed: Embed, count: int | None) -> float:
    rows = pairs_of(data, name)
    rows = rows[:: -(-len(rows) // (count or len(rows)))]
    texts = list(dict.fromkeys(text for first, second, _ in rows for text in (first, second)))
    embed(texts)
    cosines = (embed([first for first, _, _ in rows]) * embed([second for _, second, _ in rows])).sum(1)
    gold = [score for *_, score in rows]
    return 100 * (auc(gold, cosines) if name == "quora" else spearman(gold, cosines.tolist()))


VECTORS = {"ag_news": "ag_news acc", "quora": "quora AUC", "sts-b": "sts-b ρ", "sick": "sick ρ"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, help="checkpoint folder with skills; default: the built-in model")
    parser.add_argument("--skill", action="append", help="by name or folder; default: similarity and search")
    parser.add_argument("--rerank", help="a cross-encoder to read the best again: a skill, a model, or none")
    parser.add_argument("--reading", type=float, default=ranking.READING, help="what it weighs beside hybrid, 0 to 1")
    parser.add_argument("--peer", default="minilm", help="a folder to compare with, or none; default: all-MiniLM-L6-v2")
    parser.add_argument("--vectors-only", action="store_true", help="neither BM25 nor hybrid rows")
    parser.add_argument("--sets", help="some of them, with commas: " + ",".join([*RANKINGS, *VECTORS]))
    parser.add_argument("--quick", action="store_true", help="about 100 queries and 500 pairs of each set")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = clearhead.load(options.model, device=options.device)
    ranking.READING = options.reading
    named = options.skill or [name for name in ("similarity", "search") if name in model.skills]
    models: dict[str, Model] = {Path(name).name: model.skill(name) for name in named}
    peer = {"none": None, "minilm": minilm}.get(options.peer, lambda: options.peer)
    if peer is not None:
        models["minilm" if options.peer == "minilm" else "peer"] = clearhead.load(peer(), device=options.device)
    names = options.sets.split(",") if options.sets else [*RANKINGS, *VECTORS]
    if options.quick:
        names = [name for name in names if name != "manuals"]
    reader = None if options.vectors_only else reader_of(model, options.rerank)
    rows = measure(models, reader, names, options)
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    print(f"{date.today()}  {options.device}  torch {torch.__version__}{'  quick' if options.quick else ''}\n")
    print("| | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for name, row in rows.items():
        shown = (f"{row[column]:.1f}" if column in row else "–" for column in columns)
        print(f"| {name} | " + " | ".join(shown) + " |")
    if options.json:
        options.json.write_text(json.dumps({"date": str(date.today()), "rows": rows}, indent=1) + "\n", "utf-8")


def measure(
    models: dict[str, Model], reader: Model | None, names: list[str], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    methods: dict[str, dict[str, object]] = {"vectors": {"method": "vectors"}}
    if not options.vectors_only:
        methods["hybrid"] = {"method": "hybrid"}
    if reader is not None:
        methods["reranked"] = {"method": "hybrid", "rerank_with": reader}
    rows: dict[str, dict[str, float]] = {} if options.vectors_only else {"bm25": {}}
    rows |= {f"{name}, {method}": {} for method in methods for name in models}
    memories = {label: Memory(model) for label, model in models.items()}
    for name in names:
        start = time.perf_counter()
        for held in RANKINGS[name](options.data).values() if name in RANKINGS else ():
            asked = held.first(100) if options.quick else held
            if not options.vectors_only:
                rows["bm25"] |= search(asked, indexed(asked), {"method": "bm25"})
            for label, embed in memories.items():
                index = indexed(asked, embed)
                for method, settings in methods.items():
                    rows[f"{label}, {method}"] |= search(asked, index, settings)
        for label, embed in memories.items() if name in VECTORS else ():
            count = 500 if options.quick else None
            few = ag_news(options.data, embed, count) if name == "ag_news" else pairs(options.data, name, embed, count)
            rows[f"{label}, vectors"][VECTORS[name]] = few
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


if __name__ == "__main__":
    main()
