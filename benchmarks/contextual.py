"""Static against contextual vectors: word2vec, ELMo and models of BERT's kind on WiC and on CoNLL, in one table.

WiC (Pilehvar and Camacho-Collados 2019) asks whether a word means the same in two sentences: the cosine of its two
vectors against a threshold, which is chosen on the training data, as is the layer. A static vector knows the form of
the word alone. CoNLL: a linear tagger on the frozen vectors, all layers mixed in shares that it learns; F1 as conlleval
has it. word2vec and ELMo are trained here, on the same text; encoders are read from folders.

usage: python benchmarks/contextual.py --wic DIR --conll DIR --out DIR [--corpus FILE …] [--only elmo] [--set key=value]
       [--model FOLDER …] [--minutes 10] [--sentences N] [--pairs N] [--seeds 3] [--device cuda] [--json FILE]
       python benchmarks/contextual.py --table FILE …
       WiC: train.data.txt, train.gold.txt, dev.…; CoNLL: eng.train, eng.testa, eng.testb; trained models in --out stay
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import clearhead
from clearhead.data.corpus import Corpus
from clearhead.data.examples import WordsExample
from clearhead.data.formats import read_conll
from clearhead.data.tags import recognised
from clearhead.pipelines.word_vectors import ContextualWords, WordVectors
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.finetune import over_seeds
from clearhead.training.recipes.language import pretrain_language, recipe_for
from clearhead.training.recipes.run import learn_vocabulary_once
from clearhead.training.recipes.word2vec import Vectors, train_vectors
from clearhead.training.settings import override, parse_settings
from probing import Probe, probe_tags, word_states

Read = Callable[[Sequence[WordsExample]], Tensor]  # sentences to (words, layers, width)


@dataclass(frozen=True)
class Pairs:
    """WiC: two sentences each, where the word stands in them, and whether it means the same."""

    sentences: list[WordsExample]  # first, second, first, second, …
    places: Tensor  # (2 P,) among all words
    same: Tensor  # (P,) bool


def read_wic(folder: Path, part: str, limit: int | None) -> Pairs:
    """Read train or dev: word, part of speech, places, two sentences of words between spaces."""
    rows = [line.split("\t") for line in (folder / f"{part}.data.txt").read_text("utf-8").splitlines()][:limit]
    gold = (folder / f"{part}.gold.txt").read_text("utf-8").split()[:limit]
    sentences, places, before = [], [], 0
    for _, _, numbers, *texts in rows:
        for number, text in zip(numbers.split("-"), texts, strict=True):
            words = tuple(text.split())
            sentences.append(WordsExample(words))
            places.append(before + int(number))
            before += len(words)
    return Pairs(sentences, torch.tensor(places), torch.tensor([answer == "T" for answer in gold]))


def static_words(vectors: WordVectors) -> Read:
    """One layer: the word's own vector, zeros where there is none."""
    table, tokenizer = vectors.network.read.weight.detach().cpu(), vectors.tokenizer

    def read(examples: Sequence[WordsExample]) -> Tensor:
        words = [word for example in examples for word in example.words]
        ids = [pieces[0] if len(pieces) == 1 else tokenizer.unk_id for pieces in tokenizer.ids_batch(words)]
        rows = torch.tensor(ids)
        return table[rows].masked_fill((rows == tokenizer.unk_id)[:, None], 0.0)[:, None]

    return read


def recurrent_words(elmo: ContextualWords) -> Read:
    """The letters' layer, and each of the LSTMs'."""
    return lambda examples: torch.cat([one.cpu() for one in elmo.layers([example.words for example in examples])])


def readers(options: argparse.Namespace) -> Iterator[tuple[str, Read]]:
    """The models that are compared, each trained when its turn comes, where need be."""
    for folder in options.model:
        model = clearhead.load(folder, device=options.device)
        name = "/".join(folder.parts[-2:])  # many a folder is called "model"
        yield name, lambda examples, model=model: word_states(model, examples)
        yield f"{name}, embeddings", lambda examples, model=model: word_states(model, examples)[:, :1]
    if not options.corpus:
        return
    corpus, device = Corpus(options.corpus), options.device
    budget: dict[str, Any] = {"epochs": None, "minutes": options.minutes}
    if options.only != "elmo":
        recipe = Vectors()
        recipe = replace(recipe, train=replace(recipe.train, **budget))
        vectors, result = train_vectors(corpus, options.out / "word2vec", recipe, device=device)
        _whole(result)
        yield "word2vec", static_words(vectors)
    if options.only != "word2vec":
        letters = recipe_for("elmo", "base")
        letters = override(replace(letters, train=replace(letters.train, **budget)), parse_settings(options.set))
        words = learn_vocabulary_once(corpus, options.out / "elmo", size=30_000, kind="word")
        elmo, result = pretrain_language(corpus, words, options.out / "elmo", letters, device=device)
        _whole(result)
        yield "elmo", recurrent_words(ContextualWords(elmo.network.to(device).eval(), elmo.tokenizer))


def _whole(result: TrainResult) -> None:
    if result.exit == "interrupted":
        raise KeyboardInterrupt  # run it again to go on


def wic_accuracy(read: Read, training: Pairs, dev: Pairs) -> tuple[float, int, float]:
    """Accuracy on dev in percent, the layer, and the threshold, both chosen on the training pairs."""
    seen, asked = (_cosines(read, pairs) for pairs in (training, dev))  # (P, K)
    best: tuple[float, int, float] = (0.0, 0, 0.0)
    for layer in range(seen.shape[1]):
        for threshold in seen[:, layer].quantile(torch.linspace(0, 1, 101)).tolist():
            right = float(((seen[:, layer] > threshold) == training.same).float().mean())
            best = max(best, (right, layer, threshold))
    _, layer, threshold = best
    return 100 * float(((asked[:, layer] > threshold) == dev.same).float().mean()), layer, threshold


def _cosines(read: Read, pairs: Pairs) -> Tensor:
    vectors = read(pairs.sentences)[pairs.places].float()  # (2 P, K, D)
    return torch.cosine_similarity(vectors[0::2], vectors[1::2], dim=-1)


def line(row: dict[str, Any]) -> str:
    scores = " | ".join(
        f"{row[f'{part}_f1']:.1f}" + (f" ± {row[f'{part}_deviation']:.1f}" if row["seeds"] > 1 else "")
        for part in ("dev", "test")
    )
    return f"| {row['vectors']} | {row['layers']} | {row['wic']:.1f} ({row['wic_layer']}) | {scores} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wic", type=Path)
    parser.add_argument("--conll", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--corpus", nargs="*", default=[])
    parser.add_argument("--only", choices=["word2vec", "elmo"], help="train this one on the corpus, not both")
    parser.add_argument("--set", action="append", default=[], help="change ELMo's recipe: model.hidden_size=256")
    parser.add_argument("--model", type=Path, nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=10.0, help="of training, word2vec and ELMo each")
    parser.add_argument("--sentences", type=int, help="of CoNLL to train on; default: all")
    parser.add_argument("--pairs", type=int, help="of WiC to choose by; default: all")
    parser.add_argument("--epochs", type=float, default=10.0, help="of a tagger")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, help="file that gets one line for each model")
    parser.add_argument("--table", type=Path, nargs="+", help="print what such files hold, and do nothing else")
    options = parser.parse_args()
    print("| vectors | layers | WiC dev (layer) | CoNLL dev F1 | CoNLL test F1 |\n|---|---|---|---|---|", flush=True)
    if options.table:
        rows = [json.loads(row) for file in options.table for row in file.read_text("utf-8").splitlines()]
        print("\n".join(map(line, rows)))
        return
    training, dev = (
        read_wic(options.wic, part, options.pairs if part == "train" else None) for part in ("train", "dev")
    )
    names = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}
    tagged = {part: recognised(read_conll(options.conll / name)) for part, name in names.items()}
    if options.sentences:
        tagged["train"] = tagged["train"][: options.sentences]
    for name, read in readers(options):
        accuracy, layer, _ = wic_accuracy(read, training, dev)
        states = {part: read(sentences) for part, sentences in tagged.items()}
        layers = states["train"].shape[1]
        if layers == 1:
            states = {part: rows[:, 0] for part, rows in states.items()}
        scores = {}
        for part in ("dev", "test"):

            def probe(seed: int, part: str = part, states: dict[str, Tensor] = states) -> dict[str, float]:
                recipe = Probe()
                recipe = replace(recipe, train=replace(recipe.train, epochs=options.epochs, seed=seed))
                pair = (tagged["train"], states["train"]), (tagged[part], states[part])
                return probe_tags(*pair, recipe, device=options.device)

            scores[part] = over_seeds([probe(seed) for seed in range(options.seeds)])["f1"]
        facts = {"vectors": name, "layers": layers, "wic": accuracy, "wic_layer": layer}
        facts |= {f"{part}_f1": mean for part, (mean, _) in scores.items()}
        facts |= {f"{part}_deviation": of for part, (_, of) in scores.items() if options.seeds > 1}
        facts |= {"seeds": options.seeds, "torch": torch.__version__}
        print(line(facts), flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
