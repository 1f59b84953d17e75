"""Stand-ins for the built-in models: the same parts and skills, small and untrained."""

import json
from dataclasses import replace
from pathlib import Path

import torch

import clearhead as ch
from clearhead.hub.checkpoint import write_folder
from clearhead.hub.skills import Skill, encoder_digest, write_skill
from clearhead.models.gpt import Gpt2Config
from clearhead.models.transformer import TransformerConfig
from clearhead.nn.lora import add_lora, remove_lora
from references import randomised

HABITS = Path(__file__).parents[1] / "make-model" / "gpt.json"

TAGS = ("O", "I-PER", "I-ORG", "I-LOC", "I-MISC")

# as make-model/build.sh makes them: the head, its labels, and the uses that take the skill unasked
SKILLS: dict[str, tuple[str | None, tuple[str, ...], tuple[str, ...]]] = {
    "sentiment": ("classes", ("negative", "positive"), ("classify",)),
    "spam": ("classes", ("ham", "spam"), ()),
    "entities": ("tags", TAGS, ("tag",)),
    "part-of-speech": ("tags", ("NOUN", "VERB"), ()),
    "inference": ("classes", ("contradiction", "entailment", "neutral"), ("compare",)),
    "questions": ("span", ("", ""), ("answer",)),
    "similarity": (None, (), ("embed",)),
    "search": (None, (), ("search",)),
    "rerank": ("classes", ("irrelevant", "relevant"), ("rerank",)),
}


def write_built_in(folder: Path, config: ch.ModernBertConfig, tokenizer: ch.Tokenizer) -> None:
    """Write an encoder with random weights, in int8, and skills with random corrections."""
    torch.manual_seed(0)
    fresh = ch.Model.create(config, tokenizer, heads={"masked_lm": config.vocab_size, "next_sentence": 2})
    write_folder(fresh.checkpoint, folder, int8=True)
    (folder / "vocab.txt").unlink(missing_ok=True)
    model = ch.load(folder)
    known = encoder_digest(model.encoder)
    for name, (head, labels, uses) in SKILLS.items():
        learner = model if head is None else model.with_head(head, len(labels), labels=labels)
        for adapter in add_lora(model.encoder, ["qkv", "output", "up", "down"], rank=8):
            # vectors for search must be told from those of similarity
            torch.nn.init.normal_(adapter.up, std=0.2 if name == "search" else 0.01)
        skill = Skill(
            encoder=known,
            uses=uses,
            head=head,
            outputs=len(labels),
            labels=labels if head in ("classes", "tags") else None,
            pooling="mean" if head is None else None,
        )
        write_skill(skill, learner.network, folder / "skills" / name)
        remove_lora(model.network)


TEXTS = (
    "Ich muss auf den Markt gehen.",
    "Je suis étudiant. Où est la gare ?",
    "I have to go to the market. The old house is small.",
)
DIRECTIONS = ("de-en", "fr-en", "en-de", "en-fr")


def write_translator(folder: Path) -> None:
    """Write a Transformer for the four directions, as make-model/translator.sh makes it."""
    words = ch.train_tokenizer(texts=TEXTS, kind="bpe", vocabulary=330, min_frequency=1, lowercase=False)
    words = words.with_directions(DIRECTIONS)
    ids = {"vocab_size": words.vocabulary, "pad_token_id": words.pad_id, "eos_token_id": words.sep_id}
    layers = {f"{part}_{what}": size for part in ("encoder", "decoder") for what, size in _LAYERS.items()}
    config = TransformerConfig(**ids, **layers, d_model=32, max_position_embeddings=128, scale_embedding=True)
    model = ch.Model.create(config, words, heads={"causal_lm": words.vocabulary})
    randomised(model.network, 1)  # so large that words matter
    write_folder(model.checkpoint, folder, int8=True, own=True)


_LAYERS = {"layers": 1, "attention_heads": 4, "ffn_dim": 48}


def write_gpt(folder: Path) -> None:
    """Write a GPT-2 with the habits of the built-in one, as make-model/gpt.sh makes it."""
    words = ch.train_tokenizer(texts=TEXTS, kind="gpt2", vocabulary=330, min_frequency=1)
    sizes = {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 4}
    config = Gpt2Config(vocab_size=words.vocabulary, eos_token_id=words.sep_id, **sizes)
    model = ch.Model.create(config, words, heads={"causal_lm": words.vocabulary})
    randomised(model.network, 3)
    said = json.loads(HABITS.read_text("utf-8"))
    described = replace(model.checkpoint.description, extra={"task_specific_params": said["tasks"]})
    checkpoint = replace(model.checkpoint, generation=said["generation"], description=described)
    write_folder(checkpoint, folder, int8=True, own=True)
