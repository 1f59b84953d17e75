"""Two reasons that the lectures give for the Transformer, measured on small networks of this package.

`gradients`: how much a word far back still moves the loss of the next one. The norm of the loss's gradient by the
vector of the word so many words before, beside that of the word 1 before; of a plain RNN, an LSTM, a GRU and a
Transformer that reads forwards, of about as many weights, as they were drawn and after some steps of learning.

`scaling`: why dot products are divided by the root of their width. Scores of vectors drawn at random, the softmax over
64 of them, and its gradient; then a Transformer that reads forwards, learning with and without the division.

usage: python benchmarks/mechanisms.py gradients --text FILES… --out DIR [--steps 300]
       python benchmarks/mechanisms.py scaling --text FILES… --out DIR [--steps 300] [--seeds 0 1 2]
       the vocabulary of claims.py in --out is taken, or learnt there
"""

# B sequences · T tokens of each · D width · K head width · S keys

import argparse
import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from claims import TOKENS, WIDTH, blocks, rows_of, vocabulary
from clearhead.data.batch import Batch
from clearhead.data.corpus import Corpus
from clearhead.data.pretraining import RunningText
from clearhead.data.shards import tokenise
from clearhead.models.rnnlm import RecurrentLM, RecurrentLMConfig
from clearhead.nn.attention import scaled_dot_product
from clearhead.nn.heads import Network, NextTokenHead
from clearhead.nn.hooks import record as watch
from clearhead.text import Tokenizer
from clearhead.training.loop import train
from clearhead.training.recipes.finetune import over_seeds
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.language import CausalLM
from record import record

LENGTH = 128
DISTANCES = (1, 2, 4, 8, 16, 32, 64)
LEARNING_RATE = 2e-3
MEASURED = 8  # batches of text that is not learnt from
KEYS, QUERIES = 64, 1000


class Texts:
    """Running text to learn from, and to measure on."""

    def __init__(self, options: argparse.Namespace) -> None:
        corpus = Corpus(options.text)
        self.tokenizer = vocabulary(options.out, corpus)
        shards = tokenise(corpus, self.tokenizer, options.out / "tokens")
        sizes: dict[str, Any] = {"tokens": TOKENS, "length": LENGTH, "seed": 0}
        self.training = RunningText(shards, self.tokenizer, **sizes)
        held_out = RunningText(shards, self.tokenizer, split="validation", **sizes)
        self.held_out = [held_out.batch(index) for index in range(MEASURED)]


def recurrent(core: Callable[..., nn.Module], width: int, tokenizer: Tokenizer) -> RecurrentLM:
    config = RecurrentLMConfig(
        vocab_size=rows_of(tokenizer),
        hidden_size=width,
        num_hidden_layers=2,
        dropout=0.0,
        pad_token_id=tokenizer.pad_id,
    )
    return RecurrentLM(config, core)


def transformer(tokenizer: Tokenizer, **changes: Any) -> Network:
    encoder = blocks(tokenizer, causal=True, **changes)
    return Network(encoder, {"causal_lm": NextTokenHead(encoder.embeddings.token)})


# widths that give each 250,000 to 280,000 weights beside its table of tokens
NETWORKS: dict[str, Callable[[Tokenizer], nn.Module]] = {
    "RNN, tanh": partial(recurrent, nn.RNN, 256),
    "LSTM": partial(recurrent, nn.LSTM, 128),
    "GRU": partial(recurrent, nn.GRU, 144),
    "Transformer": partial(transformer, intermediate_size=192),
}


def table_of(network: nn.Module) -> nn.Module:
    """The part that turns ids into vectors."""
    return network.token if isinstance(network, RecurrentLM) else network.encoder.embeddings


def gradient_norms(network: nn.Module, batches: list[Batch]) -> Tensor:
    """The mean norm of the gradient of the last word's loss by each word's vector, (T,), by distance from 0."""
    task, found = CausalLM(network), []
    for batch in batches:
        targets = batch.targets["next"].view(-1, LENGTH).clone()
        targets[:, :-1] = -100  # the last word's alone is asked for
        asked = Batch(batch.ids, batch.layout, targets={"next": targets.flatten()})
        with watch(table_of(network)) as calls:
            (loss,) = task.losses(asked).values()
        (gradient,) = torch.autograd.grad(loss.total, calls[0].output)  # each text's loss is its own words'
        found.append(gradient.view(-1, LENGTH, gradient.shape[-1]).norm(dim=-1).mean(0))
    return torch.stack(found).mean(0).flip(0)


def learn(network: nn.Module, texts: Texts, steps: int, seed: int = 0) -> float:
    """Train for some steps; the loss on text that was not learnt from."""
    every = Every(log=NEVER, save=NEVER, evaluate=NEVER)
    settings = Settings(steps=steps, learning_rate=LEARNING_RATE, schedule="linear", seed=seed, every=every)
    with tempfile.TemporaryDirectory() as scratch:
        if train(CausalLM(network), texts.training, settings, Path(scratch)).exit == "interrupted":
            raise KeyboardInterrupt
    return held_out(network, texts)


@torch.no_grad()
def held_out(network: nn.Module, texts: Texts) -> float:
    network.eval()
    losses = [loss for batch in texts.held_out for loss in CausalLM(network).losses(batch).values()]
    return float(sum(loss.total for loss in losses)) / sum(int(loss.count) for loss in losses)


def gradients(options: argparse.Namespace) -> None:
    texts = Texts(options)
    rows: dict[str, list[list[Any]]] = {"as drawn": [], f"after {options.steps} steps": []}
    for name, build in NETWORKS.items():
        torch.manual_seed(0)
        network = build(texts.tokenizer)
        own = sum(weight.numel() for weight in network.parameters()) - rows_of(texts.tokenizer) * width_of(network)
        loss = held_out(network, texts)
        for state, found in rows.items():
            if found is not rows["as drawn"]:
                loss = learn(network, texts, options.steps)
            norms = gradient_norms(network, texts.held_out)
            shares = [float(norms[distance] / norms[1]) for distance in DISTANCES]
            found.append([name, state, own / 1e6, loss, *shares])
            print(found[-1], flush=True)
    columns = {"": "{}", "weights": "{}", "M, without the tokens'": "{:.2f}", "loss": "{:.2f}"}
    columns |= {f"{distance} back" if distance > 1 else "1 word back": "{:.2g}" for distance in DISTANCES}
    print(record("gradients", columns, [row for found in rows.values() for row in found], threads=options.threads))


def width_of(network: nn.Module) -> int:
    return network.config.hidden_size if isinstance(network, RecurrentLM) else network.encoder.width


def softmax_of(width: int, *, scaled: bool) -> dict[str, float]:
    """What the softmax makes of the dot products of vectors drawn at random, whose numbers have variance 1."""
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.randn(rows, width, generator=draw) for rows in (QUERIES, KEYS))
    if not scaled:
        q = q * width**0.5  # so that the division is undone
    _, weights = scaled_dot_product(q, k, k)  # (Q, S)
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1).mean() / math.log(KEYS)
    slope = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]  # of each weight by each score
    return {
        "variance": float((q @ k.mT * width**-0.5).var()),
        "largest": float(weights.max(-1).values.mean()),
        "entropy": float(entropy),
        "slope": float(slope.flatten(1).norm(dim=-1).median()),
    }


def scaling(options: argparse.Namespace) -> None:
    rows = []
    for width in (4, 16, 64, 256, 1024):
        for scaled in (True, False):
            found = softmax_of(width, scaled=scaled)
            rows.append([width, "divided by √K" if scaled else "as they are", *found.values()])
    columns = {"width K": "{}", "dot products": "{}", "variance of scores": "{:,.1f}", "largest weight, mean": "{:.2f}"}
    columns |= {"entropy, of 1 for equal weights": "{:.2f}", "gradient through it, median": "{:.1e}"}
    print(record("scaled_softmax", columns, rows, threads=options.threads))
    texts, rows = Texts(options), []
    for heads in (8, 1):
        for scaled in (True, False):
            losses, slopes = [], []
            for seed in options.seeds:
                torch.manual_seed(seed)
                # so that queries and keys have numbers of variance 1 at first, as those above
                network = transformer(texts.tokenizer, num_attention_heads=heads, initializer_range=WIDTH**-0.5)
                if not scaled:
                    for block in network.encoder.blocks:
                        block.attention.rescale = (WIDTH // heads) ** 0.5
                slopes.append(entropy_of(network, texts))
                losses.append(learn(network, texts, options.steps, seed))
                print(heads, scaled, seed, slopes[-1], losses[-1], flush=True)
            way = "divided by √K" if scaled else "as they are"
            figures = list(over_seeds([{"": loss} for loss in losses])[""])
            rows.append([WIDTH // heads, way, sum(slopes) / len(slopes), figures])
    columns = {"width K": "{}", "dot products": "{}", "entropy at first": "{:.2f}"}
    columns |= {f"loss after {options.steps} steps": "{:.3f} ± {:.3f}"}
    print(record("scaled_training", columns, rows, threads=options.threads))


@torch.no_grad()
def entropy_of(network: Network, texts: Texts) -> float:
    """The entropy of the last words' attention, of 1 for equal weights, over layers and heads."""
    batch, found = texts.held_out[0], []
    with watch(*(block.attention.attend for block in network.encoder.blocks)) as calls:
        network.encoder(batch.ids, batch.layout)
    for call in calls:
        q, k = (part.unflatten(0, (-1, LENGTH)).transpose(1, 2) for part in call.inputs[:2])  # (B, H, T, K)
        _, weights = scaled_dot_product(q[:, :, -1:], k, k)
        found.append(-(weights * weights.clamp(min=1e-30).log()).sum(-1).mean() / math.log(LENGTH))
    return float(torch.stack(found).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["gradients", "scaling"])
    parser.add_argument("--text", nargs="+", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    {"gradients": gradients, "scaling": scaling}[options.step](options)


if __name__ == "__main__":
    main()
