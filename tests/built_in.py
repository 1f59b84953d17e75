"""A stand-in for the built-in model: the same parts and skills, small and untrained."""

from pathlib import Path

import torch

import clearhead as ch
from clearhead.hub.checkpoint import write_folder
from clearhead.hub.skills import Skill, encoder_digest, write_skill
from clearhead.nn.lora import add_lora, remove_lora

TAGS = ("O", "I-PER", "I-ORG", "I-LOC", "I-MISC")

# as make-model/build.sh makes them: the head, its labels, and the uses that take the skill unasked
SKILLS: dict[str, tuple[str | None, tuple[str, ...], tuple[str, ...]]] = {
    "sentiment": ("classes", ("negative", "positive"), ("classify",)),
    "spam": ("classes", ("ham", "spam"), ()),
    "entities": ("tags", TAGS, ("tag",)),
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
