"""Feature extraction instead of fine-tuning (Devlin et al. 2018, table 7): dev F1 by what is fed to a tagger.

The encoder is frozen and runs once over CoNLL's sentences; a tagger learns from the hidden states of each word's first
piece. The lectures' values beside ours are those of BERT-base, cased, with all the training data.

usage: python benchmarks/feature_probe.py --train eng.train --dev eng.testa [--model DIR] [--sentences 1000]
       [--lstm 128] [--epochs 10] [--seeds 3] [--device cpu] [--threads 1] [--json FILE]
       python benchmarks/feature_probe.py --table FILE
"""

import argparse
import json
import math
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.data.formats import read_conll
from clearhead.data.tags import recognised
from clearhead.training.recipes.finetune import over_seeds
from probing import Probe, mix, probe_tags, word_states
from real_weights import minilm

LECTURES = {
    "embeddings": 91.0,
    "last": 94.9,
    "sum of all": 95.5,
    "second-to-last": 95.6,
    "sum of last four": 95.9,
    "concat of last four": 96.1,
}


def table(file: Path) -> str:
    """The rows that a run has written so far."""
    facts = json.loads(file.read_text("utf-8"))
    lines = [f"| fed to the tagger ({facts['tagger']}) | lectures | ours | seconds a run |", "|---|---|---|---|"]
    for row in facts["rows"]:
        spread = "" if row["deviation"] is None else f" ± {row['deviation']:.2f}"
        lines.append(f"| {row['fed']} | {row['lectures']} | {row['f1']:.2f}{spread} | {row['seconds']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--model", type=Path, help="checkpoint folder; default: the real all-MiniLM-L6-v2")
    parser.add_argument("--sentences", type=int, help="how many to train on; default: all")
    parser.add_argument("--lstm", type=int, help="width of a BiLSTM's direction; default: one linear map")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file that is written anew after each row")
    parser.add_argument("--table", type=Path, help="print what such a file holds, and do nothing else")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    torch.set_num_threads(options.threads)
    folder = options.model or minilm()
    shown = "/".join(folder.parts[-2:])  # many a folder is called "model"
    model = clearhead.load(folder, device=options.device)
    training = recognised(read_conll(options.train))[: options.sentences]
    dev = recognised(read_conll(options.dev))
    start = time.perf_counter()
    states, states_dev = word_states(model, training), word_states(model, dev)
    tagger = f"BiLSTM 2 × {options.lstm}" if options.lstm else "linear"
    print(
        f"{date.today()}  {shown}  {tagger}  {len(training)} training and {len(dev)} dev sentences, "
        f"{len(states)} and {len(states_dev)} words  seeds 0 to {options.seeds - 1}  {options.epochs:g} epochs\n"
        f"features in {time.perf_counter() - start:.1f} s"
    )
    print(f"{'fed to the tagger':<22} {'lectures':>8} {'ours':>7} {'±':>5} {'s/run':>7}")
    facts = {
        "date": str(date.today()),
        "model": shown,
        "tagger": tagger,
        "training_sentences": len(training),
        "dev_sentences": len(dev),
        "epochs": options.epochs,
        "seeds": list(range(options.seeds)),
        "device": options.device,
        "torch": torch.__version__,
    }
    settings = replace(Probe().train, epochs=options.epochs)
    rows: list[dict[str, Any]] = []
    for name, lectures in LECTURES.items():
        features, features_dev = mix(states, name), mix(states_dev, name)

        def run(seed: int, features: torch.Tensor = features, beside: torch.Tensor = features_dev) -> dict[str, float]:
            recipe = Probe(lstm=options.lstm, train=replace(settings, seed=seed))
            return probe_tags((training, features), (dev, beside), recipe, device=options.device)

        start = time.perf_counter()
        mean, deviation = over_seeds([run(seed) for seed in range(options.seeds)])["f1"]
        seconds = (time.perf_counter() - start) / options.seeds
        spread = None if math.isnan(deviation) else deviation  # of one seed there is none
        print(f"{name:<22} {lectures:>8.1f} {mean:>7.2f} {deviation:>5.2f} {seconds:>7.1f}", flush=True)
        rows.append({"fed": name, "lectures": lectures, "f1": mean, "deviation": spread, "seconds": seconds})
        if options.json:
            options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
