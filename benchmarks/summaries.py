"""Extractive summaries beside one another: the first sentences, the central ones, a trained head's, and the best.

Data is SciTLDR (an abstract's sentences, and one sentence that says it all, by one or several people). A head is
trained on the features of a frozen encoder unless --whole is given. All methods keep the same number of sentences.
ROUGE is the reference implementation's, words stemmed; of several references each text takes the best F1 of each kind.

usage: python benchmarks/summaries.py SCITLDR [--model DIR] [--sentences 1] [--seeds 3] [--whole] [--out DIR]
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import torch

import clearhead
from clearhead.evaluation.rouge import mean_rouge, oracle_sentences
from clearhead.text.sentences import sentence_spans
from clearhead.training.recipes.finetune import Finetune, feature_extraction, finetune

KINDS = ("rouge1", "rouge2", "rougeL")
Row = tuple[str, list[str]]  # a text and its references


def read(file: Path) -> list[Row]:
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [(" ".join(row["source"]), row["target"]) for row in rows]


def rouge(rows: Sequence[Row], summaries: Sequence[str]) -> list[float]:
    found = mean_rouge([references for _, references in rows], summaries, stem=True)
    return [100 * found[kind].f1 for kind in KINDS]


def shown(name: str, figures: Sequence[Sequence[float]]) -> None:
    cells = []
    for column in zip(*figures, strict=True):
        spread = f" ± {statistics.stdev(column):.2f}" if len(column) > 1 else ""
        cells.append(f"{statistics.fmean(column):.2f}{spread}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of SciTLDR: train.jsonl, test.jsonl")
    parser.add_argument("--model", default="builtin:encoder")
    parser.add_argument("--sentences", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="train the encoder too")
    parser.add_argument("--out", type=Path, help="where runs are kept; default: nowhere")
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, test = read(options.data / "train.jsonl"), read(options.data / "test.jsonl")
    texts, keep = [text for text, _ in test], options.sentences
    split = [[text[start:end] for start, end in sentence_spans(text)] for text in texts]
    kind = "all of it trained" if options.whole else "frozen"
    print(f"{date.today()}  {options.model}, {kind}  {len(train)} training and {len(test)} test texts, {keep} kept\n")
    print(f"| sentences | {' | '.join(KINDS)} |\n|---|{'---:|' * len(KINDS)}")
    shown(f"the first {keep}", [rouge(test, ["\n".join(one[:keep]) for one in split])])
    model = clearhead.load(options.model)
    central = model.summarise(texts, sentences=keep)
    shown("central (LexRank, MMR)", [rouge(test, ["\n".join(s.text for s in one.sentences) for one in central])])
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        data = folder / "train.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        pairs = [{"document": text, "summary": references[0]} for text, references in train]
        data.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
        recipe, figures = Finetune() if options.whole else feature_extraction(), []
        for seed in range(options.seeds):
            plan = replace(recipe, train=replace(recipe.train, seed=seed))
            out, features = folder / f"seed-{seed}", folder / "features.npy"
            learnt = finetune("summarise", options.model, data, out, recipe=plan, features=features).model
            said = learnt.summarise(texts, sentences=keep)
            figures.append(rouge(test, ["\n".join(s.text for s in one.sentences) for one in said]))
    shown("of a trained head", figures)
    best = [oracle_sentences(one, references[0], most=keep) for one, (_, references) in zip(split, test, strict=True)]
    oracle = ["\n".join(one[i] for i in chosen) for one, chosen in zip(split, best, strict=True)]
    shown("the best, by the first reference", [rouge(test, oracle)])


if __name__ == "__main__":
    main()
