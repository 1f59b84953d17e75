"""Masked-LM pre-training through our own loop on a GPU: real tokens per second, and the share of the chip's peak.

The loop, the prefetch and the masking are those of `clearhead pretrain`; only the text is random, so that no corpus is
needed. Each row is one model at one kind of length; the first steps (compiling) are left out.

usage: python benchmarks/gpu_pretrain.py [--steps 150] [--tokens 131072] [--json FILE] [--only 12x256]
"""

import argparse
import json
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from clearhead.data.batch import Batch
from clearhead.data.masking import MaskedBatches, Masking, Vocabulary
from clearhead.models.bert import BertConfig
from clearhead.nn.layout import Packed
from clearhead.pipelines.model import Model
from clearhead.training.loop import train
from clearhead.training.monitor import read_rows
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import MaskedLM
from gpu_mlm import flops_per_token, natural_lengths, peak

VOCABULARY = 30_528
SHAPES = {"12x256": (12, 256, 4), "12x384": (12, 384, 6), "base": (12, 768, 12)}


@dataclass(frozen=True)
class RandomText:
    """A source of random ids: `length` tokens to a sequence, or natural lengths if it is None."""

    tokens: int
    length: int | None

    def batch(self, index: int) -> Batch:
        lengths = [self.length] * (self.tokens // self.length) if self.length else self._natural(index)
        ids = np.random.default_rng((0, index)).integers(1000, 30_000, self.tokens)
        return Batch(torch.from_numpy(ids), Packed.of(lengths))

    def batches_in(self, epochs: float) -> int:
        return int(epochs * 10**9)

    def epoch_of(self, index: int) -> float:
        return 0.0

    def _natural(self, index: int) -> list[int]:
        return natural_lengths(self.tokens, random.Random(index))


def vocabulary() -> Vocabulary:
    """Ids below 1000 are special and never chosen."""
    special = np.arange(VOCABULARY) < 1000
    return Vocabulary(mask_id=103, special=special, continues=np.zeros(VOCABULARY, bool))


def tokens_per_second(shape: str, tokens: int, length: int | None, steps: int, device: str) -> float:
    layers, width, heads = SHAPES[shape]
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = Model.create(config, heads={"masked_lm": VOCABULARY})
    source = MaskedBatches(RandomText(tokens, length), vocabulary(), Masking(multiple=64))
    half = device == "cuda"
    settings = Settings(
        steps=steps,
        precision="bf16" if half else "fp32",
        compile=half,
        every=Every(log=max(steps // 10, 1), save=10**9, evaluate=10**9),
    )
    with tempfile.TemporaryDirectory() as folder:
        train(MaskedLM(model.network), source, settings, Path(folder), device=device)
        rates = [row["tokens_per_second"] for row in read_rows(Path(folder))]
    return statistics.median(rates[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", choices=list(SHAPES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ceiling = peak() if options.device == "cuda" else float("nan")
    rows = []
    for shape in [options.only] if options.only else SHAPES:
        layers, width, heads = SHAPES[shape]
        config = BertConfig(
            num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width
        )
        for length in (128, None):
            rate = tokens_per_second(shape, options.tokens, length, options.steps, options.device)
            share = rate * flops_per_token(config, length or 70, VOCABULARY) / 1e12 / ceiling
            rows.append({"model": shape, "length": length or "natural", "ktok_per_s": rate / 1e3, "share": share})
            print(rows[-1], flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
