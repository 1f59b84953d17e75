"""A small corpus for the tests of pre-training data: made-up documents whose every word names its document."""

import json
from pathlib import Path

import numpy as np
from tokenizers.normalizers import BertNormalizer

from clearhead.data.corpus import Corpus
from clearhead.data.shards import Shards, tokenise
from clearhead.text import Tokenizer
from clearhead.text.families import bert

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_tokenizer() -> Tokenizer:
    """Words w0 … w9, which go on with ##0 … ##39: w721 is w7 and ##21."""
    tokens = [*SPECIALS, *(f"w{i}" for i in range(10)), *(f"##{i}" for i in range(40)), "."]
    return Tokenizer(bert({token: i for i, token in enumerate(tokens)}, BertNormalizer()))


def write_corpus(path: Path, documents: int = 40, seed: int = 0) -> list[str]:
    """Documents of 1 to 8 sentences; the words of document d go on with ##d."""
    draw = np.random.default_rng(seed)
    texts = []
    for d in range(documents):
        sentences = [
            " ".join(f"W{draw.integers(10)}{d % 40}" for _ in range(draw.integers(1, 9))) + "."
            for _ in range(draw.integers(1, 9))
        ]
        texts.append(" ".join(sentences))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return texts


def small_shards(folder: Path, documents: int = 40) -> tuple[Shards, Tokenizer, list[str]]:
    """The corpus in several small shards."""
    texts = write_corpus(folder / "corpus.jsonl", documents)
    tokenizer = word_tokenizer()
    return tokenise(Corpus(folder / "corpus.jsonl"), tokenizer, folder / "shards", shard_tokens=300), tokenizer, texts
