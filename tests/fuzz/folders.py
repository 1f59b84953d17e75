"""A tiny checkpoint folder of every family that clearhead reads, made on the spot: what a stranger sends."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

import clearhead as ch
from built_in import write_built_in
from clearhead.hub.checkpoint import recurrent_checkpoint, write_folder
from clearhead.hub.config import NAMES
from clearhead.models import ALL_FAMILIES, RECURRENT_FAMILIES

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "Be alert! BERT will hurt! She went to the bank to get 3.50 € of money, he sat on the bank of the river.",
    "A man, a plan, a canal: Panama. Élan vital, naïve café, Straße, ÅNGSTRÖM. 你好 世界 안녕 مرحبا 🙂",
]
# the kinds of tokenizer that clearhead makes, by the families that have them
KINDS = {"gpt2": "gpt2", "t5": "t5", "xlnet": "xlnet", "albert": "unigram", "word2vec": "word", "elmo": "word"}
KINDS |= dict.fromkeys(("roberta", "camembert", "xlm-roberta"), "bpe")
_SMALL = {
    "layer": 2,
    "head": 2,
    "position": 64,
    "group": 1,
    "type_vocab": 2,
    "segment": 2,
    "every_n": 1,
    "kernel": 3,
    "legacy": 1,
}
_TOKENIZERS: dict[str, ch.Tokenizer] = {}


def tokenizer(kind: str) -> ch.Tokenizer:
    """A tokenizer of a kind that `train_tokenizer` knows, made once."""
    if kind not in _TOKENIZERS:
        _TOKENIZERS[kind] = ch.train_tokenizer(texts=TEXTS * 3, kind=kind, vocabulary=400, min_frequency=1)
    return _TOKENIZERS[kind]


def tiny(kind: type, vocabulary: int) -> Any:
    """A configuration of a family with every size small, whatever its fields are called."""
    sizes: dict[str, int] = {}
    for spec in fields(kind):
        if spec.type not in (int, "int"):
            continue
        small = next((value for part, value in _SMALL.items() if part in spec.name), 16)
        sizes[spec.name] = vocabulary if spec.name == "vocab_size" else 1 if spec.name.endswith("token_id") else small
    return kind(**sizes)


def write_family(family: str, folder: Path) -> Path:
    """Write the folder of one family with random weights and the head that is most used."""
    torch.manual_seed(0)
    own = tokenizer(KINDS.get(family, "wordpiece"))
    if family in RECURRENT_FAMILIES:
        entry = RECURRENT_FAMILIES[family]
        network = entry.network(tiny(entry.config, own.vocabulary))
        write_folder(recurrent_checkpoint(family, network, own), folder)
        return folder
    heads = NAMES[family].heads
    head = next(name for name in ("causal_lm", "classes", "permutation_lm", "masked_lm") if name in heads)
    outputs = {"classes": 3}.get(head, own.vocabulary)
    model = ch.Model.create(tiny(ALL_FAMILIES[family].config, own.vocabulary), own, heads={head: outputs})
    model.save(folder)
    return folder


def write_all(root: Path) -> dict[str, Path]:
    """Write a folder of every family, and one with skills beside it."""
    found = {family: write_family(family, root / family) for family in (*ALL_FAMILIES, *RECURRENT_FAMILIES)}
    own = tokenizer("wordpiece")
    write_built_in(root / "built-in", tiny(ch.ModernBertConfig, own.vocabulary), own)
    return found | {"built-in": root / "built-in"}
