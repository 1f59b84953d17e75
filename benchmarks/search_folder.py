"""How good is search over a folder of manuals? Questions as newcomers put them, and the pages that answer them.

Three sets: "manuals" are the manual pages of common commands, as `man` prints them on this machine, and its licences;
"book" is a folder of HTML pages, the chapters of "The Rust Programming Language" (share/doc/rust/html/book of a Rust
toolchain); "python" is what this Python says of its own functions, a page each. The questions, in search_folder.json,
were written before anything was measured on them. A hit counts if it comes from a page that answers; nDCG ranks pages
by their best passage. Then, how often hits of a score are right. What is reranked is read by the model's own skill, by
another, or by a model.

usage: python benchmarks/search_folder.py manuals [--folder DIR] [--model DIR | minilm] [--skill NAME_OR_DIR]
                                          [--rerank NAME_OR_DIR | none] [--index DIR] [--threads 1]
"""

import argparse
import importlib
import inspect
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.data.documents import Document, read_documents
from clearhead.evaluation.retrieval import ndcg
from clearhead.pipelines.search.index import Hit, Index
from real_weights import minilm
from search_quality import reader_of

ASKED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
BANDS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.01)


def documents(name: str, folder: Path | None = None) -> list[Document]:
    """The pages of a set; the source of each is its name in the questions."""
    if name == "python":
        return [Document(text, page) for page, text in docstrings().items()]
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            write_manuals(Path(scratch))
        found = read_documents([folder or Path(scratch)])
        return [Document(one.text, Path(one.source).stem) for one in found]


def docstrings() -> dict[str, str]:
    """What the standard library says of its functions and classes; of several that say the same, the first."""
    found: dict[str, str] = {}
    for module in ASKED["python"]["modules"]:
        for name, said in _documented(module):
            page = f"{module}.{name}"
            if said not in found:
                found[said] = page
    return {page: f"{page}\n\n{said}" for said, page in found.items()}


def _documented(module: str) -> Iterator[tuple[str, str]]:
    held = importlib.import_module(module)
    for name in sorted(getattr(held, "__all__", None) or dir(held)):
        one = getattr(held, name)
        error = isinstance(one, type) and issubclass(one, BaseException)
        if name.startswith("_") or inspect.ismodule(one) or not callable(one) or error:
            continue
        if len((said := inspect.getdoc(one) or "").split()) >= 3:
            yield name, said


def write_manuals(folder: Path) -> None:
    """What `man` prints of each page, 80 characters wide, and the licences."""
    plain = {**os.environ, "MANWIDTH": "80", "MANPAGER": "cat", "MAN_KEEP_FORMATTING": ""}
    for page in ASKED["manuals"]["pages"]:
        shown = subprocess.run(["man", page], env=plain, capture_output=True, check=True).stdout
        text = subprocess.run(["col", "-bx"], input=shown, capture_output=True, check=True).stdout
        (folder / f"{page}.txt").write_bytes(text)
    for name in ASKED["manuals"]["licences"]:
        shutil.copy(Path("/usr/share/common-licenses") / name, folder / f"{name}.txt")


def judgements(name: str) -> dict[str, dict[str, int]]:
    """Query -> page that answers it -> 1."""
    return {query: dict.fromkeys(pages, 1) for query, pages in ASKED[name]["queries"]}


def of_pages(hits: list[Hit]) -> dict[str, float]:
    """Page -> the score of its best passage; an index read from a folder names files."""
    return {_page(hit): hit.score for hit in reversed(hits)}


def _page(hit: Hit) -> str:
    return Path(hit.source).stem if os.sep in hit.source else hit.source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sorted(ASKED))
    parser.add_argument("--folder", type=Path, help="where the documents are; default: the manuals of this machine")
    parser.add_argument("--model", help="a checkpoint folder, or minilm for the real all-MiniLM-L6-v2")
    parser.add_argument("--skill", help="that makes the vectors; default: the model's own for search")
    parser.add_argument("--rerank", help="a cross-encoder to read the best again: a skill, a model, or none")
    parser.add_argument("--index", type=Path, help="save the index here, or search the one that is there")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = clearhead.load(minilm() if options.model == "minilm" else options.model)
    if options.index is not None and options.index.exists():
        index = Index.load(options.index, model, skill=options.skill)
    else:
        index = model.index(documents(options.set, options.folder), skill=options.skill)
        if options.index is not None:
            index.save(options.index)
    gold = judgements(options.set)
    print(f"{date.today()}  {options.set}  {len(gold)} questions  {index!r}")
    print(f"{'method':<9} {'hit@5':>12} {'nDCG@10':>8} {'ms/query':>9}")
    methods: dict[str, Any] = {name: {"method": name, "rerank": False} for name in ("vectors", "bm25", "hybrid")}
    if (reader := reader_of(model, options.rerank)) is not None:
        methods["reranked"] = {"rerank_with": reader}
    for name, settings in methods.items():
        bands: dict[float, list[bool]] = {low: [] for low in BANDS[:-1]}
        right, run, start = 0, {}, time.perf_counter()
        for query, found in ((query, index.search(query, top_k=100, **settings)) for query in gold):
            right += any(_page(hit) in gold[query] for hit in found[:5])
            run[query] = of_pages(found)
            for hit in found[: 5 if name in ("hybrid", "reranked") else 0]:
                bands[max(low for low in bands if low <= hit.score)].append(_page(hit) in gold[query])
        spent = 1000 * (time.perf_counter() - start) / len(gold)
        print(f"{name:<9} {right:>5} of {len(gold):<3} {ndcg(gold, run, 10):>8.3f} {spent:>9.1f}", flush=True)
        for low, high in pairwise(BANDS):
            if seen := bands[low]:  # of the first five, where scores are probabilities
                share = f"{sum(seen):>4} of {len(seen):<4} right ({sum(seen) / len(seen):.0%})"
                print(f"  {low:.2f} … {min(high, 1):.2f}: {share}")


if __name__ == "__main__":
    main()
