"""The same tiny random model twice: loaded by clearhead and by transformers, with a tokenizer trained on the spot."""

import atexit
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import torch
import transformers

import clearhead as ch
from references import randomised

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Be alert! BERT will hurt!",
    "She went to the bank to get money, he sat on the bank of the river.",
    "If you don't want to inhale virus, wear a mask.",
    "Ada Lovelace lived in London; Charles Babbage visited her in 1833.",
]
LONG = " ".join(SENTENCES * 4)
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
_KINDS = {"bert": "wordpiece", "roberta": "bpe", "albert": "unigram", "mpnet": "mpnet", "deberta-v2": "deberta-v2"}
# what their configurations need beside the sizes
_OWN = {
    "albert": {"embedding_size": 16},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "max_position_embeddings": 100,  # its tokenizer cuts these sentences into more pieces
    },
}
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
}


@dataclass(frozen=True)
class Peers:
    ours: ch.Model
    folder: Path

    def pipeline(self, task: str, **options: Any) -> Any:
        return transformers.pipeline(task, model=str(self.folder), device="cpu", **options)


@cache
def peers(architecture: str, labels: tuple[str, ...] = (), problem: str | None = None, seed: int = 0) -> Peers:
    """Build the architecture, such as BertForMaskedLM, with random weights and room for 64 tokens at least."""
    family = next(name for name in _KINDS if architecture.lower().startswith(name.replace("-", "")))
    tokenizer = ch.train_tokenizer(texts=SENTENCES, kind=_KINDS[family], vocabulary=400, min_frequency=1)
    names = {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}} if labels else {}
    names |= _OWN.get(family, {})
    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=tokenizer.vocabulary,
        pad_token_id=tokenizer.pad_id,
        problem_type=problem,
        **{**_SIZES, **names},
    )
    network = _outspoken(randomised(getattr(transformers, architecture)(config), seed).eval())
    folder = Path(mkdtemp()) / "model"
    atexit.register(rmtree, folder.parent)
    network.save_pretrained(folder)
    tokenizer.write_files(folder)
    return Peers(ch.load(folder), folder)


def _outspoken(network: Any) -> Any:
    """Make tokens matter more than positions, and the head's matrix more than its bias: many different answers."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "word_embeddings" in name:
                parameter.mul_(5)
            if name.startswith(("classifier", "qa_outputs", "cls.seq_relationship")):
                parameter.mul_(5 if name.endswith("weight") else 0)
    return network


def word_spans(encoding):
    """The words of one text, each with its first and last character."""
    spans = {}
    for word, offset in zip(encoding.words, encoding.offsets, strict=True):
        if word is not None:
            spans[word] = (spans.get(word, offset)[0], offset[1])
    return spans
