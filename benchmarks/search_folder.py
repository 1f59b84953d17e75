"""How good is search over a folder of manuals? Questions as newcomers put them, and the pages that answer them.

Two folders: "manuals" are the manual pages of common commands, as `man` prints them on this machine, and its licences;
"book" is a folder of HTML pages, the chapters of "The Rust Programming Language" (share/doc/rust/html/book of a Rust
toolchain). The questions are in search_folder.json, written before anything was measured on them. A hit counts if it
comes from a page that answers; nDCG ranks pages by their best passage. Then, how often hits of a score are right.

usage: python benchmarks/search_folder.py manuals [--folder DIR] [--model DIR | minilm] [--index DIR] [--threads 1]
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from datetime import date
from itertools import pairwise
from pathlib import Path

import torch

import clearhead
from clearhead.data.documents import read_documents
from clearhead.evaluation.retrieval import ndcg
from clearhead.pipelines.search.index import Index
from real_weights import minilm

ASKED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
BANDS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.01)


def write_manuals(folder: Path) -> None:
    """What `man` prints of each page, 80 characters wide, and the licences."""
    plain = {**os.environ, "MANWIDTH": "80", "MANPAGER": "cat", "MAN_KEEP_FORMATTING": ""}
    for page in ASKED["manuals"]["pages"]:
        shown = subprocess.run(["man", page], env=plain, capture_output=True, check=True).stdout
        text = subprocess.run(["col", "-bx"], input=shown, capture_output=True, check=True).stdout
        (folder / f"{page}.txt").write_bytes(text)
    for name in ASKED["manuals"]["licences"]:
        shutil.copy(Path("/usr/share/common-licenses") / name, folder / f"{name}.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sorted(ASKED))
    parser.add_argument("--folder", type=Path, help="where the documents are; default: the manuals of this machine")
    parser.add_argument("--model", help="a checkpoint folder, or minilm for the real all-MiniLM-L6-v2")
    parser.add_argument("--index", type=Path, help="save the index here, or search the one that is there")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = clearhead.load(minilm() if options.model == "minilm" else options.model)
    if options.index is not None and options.index.exists():
        index = Index.load(options.index, model)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            if options.folder is None:
                write_manuals(Path(scratch))
            index = model.index(read_documents([options.folder or scratch]))
        if options.index is not None:
            index.save(options.index)
    queries = [query for query, _ in ASKED[options.set]["queries"]]
    right = dict(ASKED[options.set]["queries"])
    gold = {query: dict.fromkeys(pages, 1) for query, pages in right.items()}
    print(f"{date.today()}  {options.set}  {len(queries)} questions  {index!r}")
    print(f"{'method':<8} {'hit@5':>12} {'nDCG@10':>8}")
    bands: dict[float, list[bool]] = {low: [] for low in BANDS[:-1]}
    for method in ("vectors", "bm25", "hybrid"):
        hits, run = 0, {}
        for query, found in zip(queries, index.search(queries, top_k=100, method=method), strict=True):
            pages = [Path(hit.source).stem for hit in found]
            hits += any(page in right[query] for page in pages[:5])
            run[query] = {page: hit.score for page, hit in reversed(list(zip(pages, found, strict=True)))}
            for page, hit in list(zip(pages, found, strict=True))[: 5 if method == "hybrid" else 0]:
                bands[max(low for low in bands if low <= hit.score)].append(page in right[query])
        print(f"{method:<8} {hits:>5} of {len(queries):<3} {ndcg(gold, run, 10):>8.3f}", flush=True)
    print("the first five of hybrid, by their score:")
    for low, high in pairwise(BANDS):
        if seen := bands[low]:
            share = f"{sum(seen):>4} of {len(seen):<4} right ({sum(seen) / len(seen):.0%})"
            print(f"  {low:.2f} … {min(high, 1):.2f}: {share}")


if __name__ == "__main__":
    main()
