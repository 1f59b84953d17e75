"""Which layers tell senses apart? Words in Context (Pilehvar and Camacho-Collados 2019): one word in two sentences.

A choice of layers gives the two occurrences a cosine; the area under the curve (AUC) says how often a pair with one
sense has a higher one than a pair with two. An occurrence's vector is the mean of its pieces', as in `Model.senses`.

usage: python benchmarks/word_senses.py WIC_FOLDER [--set dev] [--model DIR]
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import clearhead
from clearhead.pipelines.embedding import token_vectors

LAYERS = [0, -4, -3, -2, -1]
CHOICES = {
    "embeddings": [0],
    "last but three": [-4],
    "last but two": [-3],
    "last but one": [-2],
    "last": [-1],
    "mean of the last two": [-2, -1],
    "mean of the last four": [-4, -3, -2, -1],
}


def occurrences(file: Path) -> Iterator[tuple[str, int, int]]:
    """The sentences of WiC, two a line, each with the word's place: sentence[start:end]."""
    for line in file.read_text(encoding="utf-8").splitlines():
        _, _, places, *sentences = line.split("\t")
        for place, sentence in zip(places.split("-"), sentences, strict=True):
            words = sentence.split(" ")
            start = sum(len(word) + 1 for word in words[: int(place)])
            yield sentence, start, start + len(words[int(place)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds dev.data.txt, dev.gold.txt, train.data.txt, train.gold.txt")
    parser.add_argument("--set", default="dev")
    parser.add_argument("--model", help="a checkpoint folder; default: the built-in model")
    options = parser.parse_args()
    model = clearhead.load(options.model)
    words = list(occurrences(options.folder / f"{options.set}.data.txt"))
    same = [line == "T" for line in (options.folder / f"{options.set}.gold.txt").read_text().split()]
    texts = [sentence for sentence, _, _ in words]
    tables = token_vectors(model, texts, LAYERS, "concat")
    rows = [
        table.vectors[table.over(start, end)].mean(0).reshape(len(LAYERS), -1)
        for table, (_, start, end) in zip(tables, words, strict=True)
    ]
    by_layer = dict(zip(LAYERS, np.stack(rows, axis=1), strict=True))
    print(f"{len(same)} pairs")
    for name, layers in CHOICES.items():
        vectors = np.mean([by_layer[layer] for layer in layers], axis=0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        print(f"| {name} | {roc_auc_score(same, (vectors[::2] * vectors[1::2]).sum(1)):.3f} |")


if __name__ == "__main__":
    main()
