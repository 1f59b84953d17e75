"""Small models with a tokenizer whose weights are large enough that tokens matter."""

from functools import cache

import torch
from torch import nn

import clearhead as ch
from clearhead.hub.skills import tell_capitals
from clearhead.models.gpt import Gpt2Config
from clearhead.models.xlnet import XLNetConfig

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Be alert! BERT will hurt!",
    "She went to the bank to get money, he sat on the bank of the river.",
    "He took a train. He likes to train in the mornings.",
    "An apple a day, said the man of apple.",
]
LABELS = ("O", "B-PER", "I-PER")
SIZES = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


@cache
def tokenizer():
    return ch.train_tokenizer(texts=SENTENCES, vocabulary=300, min_frequency=1)


@cache
def small(family="bert", head="masked_lm", outputs=None, layers=4, labels=None):
    torch.manual_seed(0)
    sizes = {**SIZES, "vocab_size": tokenizer().vocabulary, "num_hidden_layers": layers}
    gpt = {"vocab_size": sizes["vocab_size"], "n_embd": 32, "n_head": 4, "n_layer": layers, "n_positions": 64}
    xlnet = {"vocab_size": sizes["vocab_size"], "d_model": 32, "n_head": 4, "n_layer": layers, "d_inner": 48}
    configs = {
        "gpt2": lambda: Gpt2Config(**gpt, bos_token_id=0, eos_token_id=0),
        "xlnet": lambda: XLNetConfig(**xlnet, pad_token_id=0),
        "bert": lambda: ch.BertConfig(**sizes),
        "albert": lambda: ch.AlbertConfig(**sizes, embedding_size=16),
        "modernbert": lambda: ch.ModernBertConfig(**sizes, pad_token_id=0, classifier_pooling="mean"),
    }
    heads = {head: outputs or tokenizer().vocabulary} if head else {}
    model = ch.Model.create(configs[family](), tokenizer(), heads=heads, labels=labels)
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.2 if "position" not in name else 0.05)
    return model


@cache
def telling(head="tags", outputs=3, labels=LABELS):
    """A small model that looks at capitals; each kind has numbers of its own, words without capitals too."""
    model = ch.Model(tell_capitals(small.__wrapped__("modernbert", head, outputs, labels=labels).checkpoint))
    nn.init.normal_(model.encoder.embeddings.capital.weight, std=0.3)
    return model
