"""WikiText-2: the perplexity of an LSTM and of a GPT of like size, with parameters and time.

Word-level perplexity as usually reported: exp of the loss of all tokens divided by the number of words, where a line's
end counts as a word (`<eos>`) and rare words are `<unk>` in the files. With whole words (`words`, the 33,278 of the
training text) that is the loss per token. With sub-words (`bpe`) the losses of a word's pieces add up to the word's, so
that the sum over the same text is divided by the same number of words: the figures compare. Each token is guessed from
at least half a window before it; windows overlap in evaluation and not in training.

usage: python benchmarks/wikitext.py --data FOLDER --out FOLDER [--only lstm-words] [--epochs 40] [--device cuda]
       [--steps N] [--json FILE]        FOLDER holds train.txt, valid.txt, test.txt; a run that is there goes on
       python benchmarks/wikitext.py --table FILE …
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from clearhead.data.batch import Batch
from clearhead.data.rng import Stream, rng
from clearhead.models.gpt import Gpt2Config
from clearhead.models.rnnlm import BUILD, RecurrentLMConfig
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.text import train_tokenizer
from clearhead.training.loop import train
from clearhead.training.monitor import read_rows
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import CausalLM

Ids = NDArray[np.int64]
FILES = ("train", "valid", "test")
WINDOW = 256  # tokens seen at once, in training as in evaluation: a GPT knows no position that it never learnt
TOKENS = 4096  # of a step
PIECES = 8192  # of the bpe vocabulary


@dataclass(frozen=True)
class Text:
    """One file as ids, and how many words they stand for, line ends included."""

    ids: Ids
    words: int


@dataclass(frozen=True)
class Row:
    """A source of sequences of WINDOW tokens out of one row of ids; each epoch cuts and shuffles it anew."""

    ids: Ids
    seed: int = 0

    def batch(self, index: int) -> Batch:
        per_epoch = self.batches_in(1)
        epoch, number = divmod(index, per_epoch)
        draw = rng(Stream.EPOCH_ORDER, self.seed, epoch)
        shift, each = int(draw.integers(WINDOW)), TOKENS // WINDOW
        order = draw.permutation((len(self.ids) - 1) // WINDOW - 1)
        starts = shift + WINDOW * order[number * each : (number + 1) * each]
        places = starts[:, None] + np.arange(WINDOW)
        ids, after = (torch.from_numpy(self.ids[places + step].ravel()) for step in (0, 1))
        return Batch(ids, Packed.of([WINDOW] * len(starts)), targets={"next": after})

    def batches_in(self, epochs: float) -> int:
        return max(int(epochs * (((len(self.ids) - 1) // WINDOW - 1) // (TOKENS // WINDOW))), 1)

    def epoch_of(self, index: int) -> float:
        return index / self.batches_in(1)


def read_words(folder: Path) -> tuple[dict[str, Text], int]:
    """Whole words: a word's id is its place in the training text's vocabulary."""
    split = {name: _lines(folder / f"{name}.txt") for name in FILES}
    known = {word: i for i, word in enumerate(dict.fromkeys(w for line in split["train"] for w in line))}
    known.setdefault("<unk>", len(known))
    texts = {}
    for name, lines in split.items():
        ids = np.array([known.get(word, known["<unk>"]) for line in lines for word in line])
        texts[name] = Text(ids, len(ids))
    return texts, len(known)


def read_pieces(folder: Path) -> tuple[dict[str, Text], int]:
    """Sub-words learnt on the training text; a line's end is a character like others, and costs what it costs."""
    whole = {name: [" ".join(line[:-1]) + "\n" for line in _lines(folder / f"{name}.txt")] for name in FILES}
    tokenizer = train_tokenizer(texts=whole["train"], kind="gpt2", vocabulary=PIECES)
    texts = {}
    for name, lines in whole.items():
        ids = np.array([i for line in tokenizer.ids_batch(lines) for i in line])
        texts[name] = Text(ids, sum(len(line.split()) + 1 for line in lines))
    return texts, tokenizer.vocabulary


def _lines(path: Path) -> Sequence[list[str]]:
    """Lines as words, each with its end; empty lines too, as in the usual counts (245,569 tokens of test)."""
    with path.open(encoding="utf-8") as lines:
        return [[*line.split(), "<eos>"] for line in lines]


def lstm(vocabulary: int, width: int) -> nn.Module:
    """Zaremba's medium model, with the token table as output matrix."""
    return BUILD["rnnlm-lstm"](RecurrentLMConfig(vocab_size=vocabulary, hidden_size=width))


def gpt(vocabulary: int, width: int, layers: int, dropout: float = 0.3) -> nn.Module:
    """A GPT-2 with as much dropout as so little text asks for."""
    config = Gpt2Config(
        vocab_size=vocabulary,
        n_positions=WINDOW,
        n_embd=width,
        n_layer=layers,
        n_head=width // 64,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return Model.create(config, heads={"causal_lm": vocabulary}).network


# the two of a kind have about as many parameters
RUNS: dict[str, tuple[Callable[[Path], tuple[dict[str, Text], int]], Callable[[int], nn.Module], float]] = {
    "lstm-words": (read_words, lambda v: lstm(v, 650), 2e-3),
    "gpt-words": (read_words, lambda v: gpt(v, 512, 4), 1e-3),
    "lstm-bpe": (read_pieces, lambda v: lstm(v, 650), 2e-3),
    "gpt-bpe": (read_pieces, lambda v: gpt(v, 448, 4), 1e-3),
}


@torch.no_grad()
def loss_of(task: CausalLM, ids: Ids, device: str, limit: int | None = None) -> tuple[float, int]:
    """Sum of the losses of all tokens but the first, and their number: windows overlap by half, and no token twice."""
    half = WINDOW // 2
    total, count = 0.0, 0
    ids = ids[:limit]
    starts = list(range(0, max(len(ids) - 1 - half, 1), half))
    for group in (starts[i : i + 64] for i in range(0, len(starts), 64)):
        sequences = [ids[start : min(start + WINDOW, len(ids) - 1)] for start in group]
        after = [ids[start + 1 : start + 1 + len(one)].copy() for start, one in zip(group, sequences, strict=True)]
        for start, targets in zip(group, after, strict=True):
            targets[: half if start else 0] = -100  # guessed in the window before
        batch = Batch.of([one.tolist() for one in sequences], targets={"next": torch.from_numpy(np.concatenate(after))})
        loss = task.losses(batch.to(device))["next"]
        total, count = total + float(loss.total), count + int(loss.count)
    return total, count


def run(name: str, data: Path, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model until the valid loss rises, and measure its best weights."""
    read, build, rate = RUNS[name]
    texts, vocabulary = read(data)
    torch.manual_seed(options.seed)
    network = build(vocabulary)
    task, source = CausalLM(network), Row(texts["train"].ids, options.seed)
    epoch = source.batches_in(1)
    settings = Settings(
        epochs=options.epochs,
        learning_rate=rate,
        weight_decay=0.1,
        warmup=0.03,
        schedule="cosine",
        betas=(0.9, 0.98),
        metric="-loss",
        patience=5,
        seed=options.seed,
        every=Every(log=max(epoch // 4, 1), save=epoch, evaluate=epoch),
    )
    if options.steps:
        few = Every(log=2, save=options.steps, evaluate=options.steps)
        settings = replace(settings, epochs=None, steps=options.steps, every=few)

    def valid() -> dict[str, float]:
        total, count = loss_of(task, texts["valid"].ids, options.device, options.limit)
        return {"loss": total / count}

    start = time.perf_counter()
    result = train(task, source, settings, out / name, device=options.device, evaluate=valid)
    if result.exit == "interrupted":
        raise KeyboardInterrupt  # run it again to go on
    network.eval()
    found: dict[str, Any] = {
        "model": name,
        "vocabulary": vocabulary,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "epochs": round(source.epoch_of(result.step), 1),
        "best_epoch": round(source.epoch_of(result.best_step or result.step), 1),
        "training_s": round(result.elapsed, 1),
        "wall_s": round(time.perf_counter() - start, 1),
        "tokens_per_s": round(float(np.median([row["tokens_per_second"] for row in read_rows(out / name)]))),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "torch": torch.__version__,
        "seed": options.seed,
    }
    for part in ("valid", "test"):
        text = texts[part]
        total, count = loss_of(task, text.ids, options.device, options.limit)
        words = text.words * count / (len(text.ids) - 1)  # all of them, unless only a part was measured
        found[f"{part}_perplexity"] = round(math.exp(total / words), 2)
        found[f"{part}_perplexity_of_tokens"] = round(math.exp(total / count), 2)
    return found


def line(found: dict[str, Any]) -> str:
    return (
        f"| {found['model']} | {found['vocabulary']:,} | {found['parameters'] / 1e6:.1f} M "
        f"| {found['epochs']} ({found['best_epoch']}) | {found['training_s']:.0f} s | {found['tokens_per_s']:,} "
        f"| {found['valid_perplexity']} | {found['test_perplexity']} | {found['test_perplexity_of_tokens']} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=list(RUNS))
    parser.add_argument("--epochs", type=float, default=40)
    parser.add_argument("--steps", type=int, help="a rehearsal of so many steps")
    parser.add_argument("--limit", type=int, help="measure on so many tokens, for a rehearsal")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file that gets one line for each model")
    parser.add_argument("--table", type=Path, nargs="+", help="print what such files hold, and do nothing else")
    options = parser.parse_args()
    print("| model | vocabulary | parameters | epochs (best) | training | tokens/s | valid | test | test, per token |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    if options.table:
        rows = [json.loads(row) for file in options.table for row in file.read_text("utf-8").splitlines()]
        print("\n".join(line(row) for row in sorted(rows, key=lambda row: list(RUNS).index(row["model"]))))
        return
    for name in [options.only] if options.only else RUNS:
        found = run(name, options.data, options.out, options)
        print(line(found), flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
