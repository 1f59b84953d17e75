"""Tiny models that write, with tokenizers trained on the spot: GPT-2, Marian, T5 and recurrent ones."""

import atexit
import json
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import clearhead as ch
from clearhead.hub.checkpoint import recurrent_checkpoint, write_folder
from clearhead.models import RECURRENT_FAMILIES
from clearhead.models.seq2seq import Seq2SeqConfig
from clearhead.models.t5 import T5Config
from clearhead.models.transformer import TransformerConfig
from clearhead.text import Tokenizer
from references import randomised

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "Ein Hund läuft über die Straße. 我 🙂",
    "She went to the bank to get money, he sat on the bank of the river.",
]


def fresh_folder() -> Path:
    folder = Path(mkdtemp()) / "model"
    atexit.register(rmtree, folder.parent)
    return folder


@cache
def pieces() -> Tokenizer:
    """One tokenizer for sources and targets."""
    return ch.train_tokenizer(texts=TEXTS, kind="bpe", vocabulary=360, min_frequency=1, lowercase=False)


@cache
def gpt_folder() -> Path:
    """A GPT-2 of transformers with random weights, and a byte-level tokenizer as GPT-2 has it."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(TEXTS, trainer)
    config = transformers.GPT2Config(
        vocab_size=library.get_vocab_size(),
        n_positions=96,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    network: Any = randomised(transformers.GPT2LMHeadModel(config), 3).eval()
    folder = fresh_folder()
    network.save_pretrained(folder)
    library.save(str(folder / "tokenizer.json"))
    settings = '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}'
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    return folder


@cache
def translator(kind: str = "transformer") -> Any:
    """A model that reads a source, with random weights large enough that words matter."""
    torch.manual_seed(1)
    ids = {"vocab_size": pieces().vocabulary, "pad_token_id": pieces().pad_id, "eos_token_id": pieces().sep_id}
    folder = fresh_folder()
    if kind.startswith("seq2seq"):
        config = Seq2SeqConfig(**ids, bos_token_id=pieces().cls_id, embedding_size=16, hidden_size=24)
        network = randomised(RECURRENT_FAMILIES[kind].network(config), 1).eval()
        write_folder(recurrent_checkpoint(kind, network, pieces()), folder)
        return ch.load(folder)
    if kind == "t5":
        made: Any = T5Config(**ids, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    else:
        sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
        made = TransformerConfig(**ids, **sizes, **heads, d_model=32, max_position_embeddings=64, scale_embedding=True)
    model = ch.Model.create(made, pieces(), heads={"causal_lm": pieces().vocabulary})
    randomised(model.network, 1)
    model.save(folder)
    return ch.load(folder)


def recurrent_folder(kind: str, folder: Path) -> Path:
    """A model from before the Transformer that reads no source, with random weights."""
    family = RECURRENT_FAMILIES[kind]
    network = randomised(family.network(family.config(vocab_size=pieces().vocabulary, hidden_size=16)), 2).eval()
    write_folder(recurrent_checkpoint(kind, network, pieces()), folder)
    return folder


SIZES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 96,
}
LANGUAGES = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]


@cache
def nllb_folder() -> Path:
    """An M2M-100 of transformers with random weights and NLLB's kind of tokenizer, of four languages."""
    trained = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trained.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
    )
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    fast = transformers.NllbTokenizer(vocab=model["vocab"], merges=merges, extra_special_tokens=LANGUAGES)
    folder = fresh_folder()
    fast.save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=len(fast) + 3, **SIZES)
    network: Any = randomised(transformers.M2M100ForConditionalGeneration(config), 5).eval()
    network.generation_config.max_length = 30
    network.save_pretrained(folder)
    return folder


def bart_library() -> tokenizers.Tokenizer:
    """BART's byte-level tokenizer, trained on a few sentences."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(TEXTS, trainer)
    library.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return library


@cache
def bart_folder(architecture: str, said: str = "{}") -> Path:
    """A BART of transformers with random weights; `said` goes into its generation_config.json."""
    library, folder = bart_library(), fresh_folder()
    labels = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}
    config = transformers.BartConfig(vocab_size=library.get_vocab_size(), **SIZES, **labels)
    network: Any = randomised(getattr(transformers, architecture)(config), 3).eval()
    for name, value in json.loads(said).items():
        setattr(network.generation_config, name, value)
    network.save_pretrained(folder)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)
    return folder
