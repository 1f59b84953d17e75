"""What an objective of pre-training trains: the model that is kept, and beside it perhaps a generator."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadConfig, require
from clearhead.hub.folder import fresh_heads
from clearhead.hub.names import NAMES
from clearhead.models import FAMILIES
from clearhead.models.electra import ElectraConfig
from clearhead.nn.network import Network
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer
from clearhead.training.task import Task
from clearhead.training.tasks import MaskedLM, MaskedLMWithPairs, ReplacedAndMasked, ReplacedTokens
from clearhead.training.tasks.masked import Pairs

GENERATOR = "generator"  # the folder inside the model's that keeps it, to go on with

# the heads of each objective; a number of outputs that is None is the vocabulary's
HEADS: Mapping[str, Mapping[str, int | None]] = {
    "masked": {"masked_lm": None},
    "masked+next": {"masked_lm": None, "next_sentence": 2},
    "masked+order": {"masked_lm": None, "sentence_order": 2},
    "replaced": {"replaced": 1},
    "replaced+masked": {"masked_lm": None, "replaced": 1},
    "replaced+masked+next": {"masked_lm": None, "replaced": 1, "next_sentence": 2},
}


def build(
    objective: str, config: Any, tokenizer: Tokenizer, *, seed: int, start: Path | None = None
) -> tuple[Task, Model, Model | None]:
    """Make a task, its model and its generator, with fresh weights or those in the folder `start`."""
    torch.manual_seed(seed)
    if start is None:
        # rows beyond the vocabulary are never looked up; a multiple of 64 keeps the output matrix aligned on a GPU
        config = replace(config, vocab_size=-(-tokenizer.vocabulary // 64) * 64, pad_token_id=tokenizer.pad_id)
    able = [name for name in FAMILIES if set(HEADS[objective]) <= NAMES[name].heads.keys()]
    if type(config) not in [FAMILIES[name].config for name in able]:
        raise BadConfig(
            f"{type(config).__name__.removesuffix('Config')} has not the heads of objective {objective!r}; "
            f"choose a family that has: {', '.join(able)}"
        )
    model = _model(config, tokenizer, HEADS[objective], start)
    if not objective.startswith("replaced"):
        if objective == "masked":
            return MaskedLM(model.network), model, None
        judged: Pairs = "next_sentence" if objective == "masked+next" else "sentence_order"
        return MaskedLMWithPairs(model.network, judged), model, None
    before = None if start is None or not (start / GENERATOR).is_dir() else start / GENERATOR
    # only ELECTRA's embeddings can be shared between widths
    smaller = generator_config(config) if isinstance(config, ElectraConfig) else shallow(config)
    generator = _model(smaller, tokenizer, {"masked_lm": None}, before)
    if objective == "replaced":
        return ReplacedTokens(generator.network, model.network), model, generator
    return ReplacedAndMasked(generator.network, model.network, tokenizer.mask_id), model, generator


def generator_config(config: ElectraConfig) -> ElectraConfig:
    """ELECTRA's generator: as deep as the discriminator and a quarter as wide (Clark et al. 2020, table 6)."""
    heads = max(1, config.num_attention_heads // 4)
    width = max(config.hidden_size // 4 // heads, 1) * heads
    return replace(
        config,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=max(config.intermediate_size // 4, 1),
    )


def shallow(config: Any) -> Any:
    """A generator as wide as the model, so that the two can share their embeddings, and a quarter as deep."""
    return replace(config, num_hidden_layers=max(1, config.num_hidden_layers // 4))


def _model(config: Any, tokenizer: Tokenizer, heads: Mapping[str, int | None], start: Path | None) -> Model:
    outputs = {name: config.vocab_size if count is None else count for name, count in heads.items()}
    if start is None:
        return Model.create(config, tokenizer, heads=outputs)
    model = load(start)
    own = model.tokenizer
    require(
        (own.digest, own.tells_capitals) == (tokenizer.digest, tokenizer.tells_capitals),
        f"{start} has another tokenizer than the one given; leave it out to go on with the model's own",
    )
    trained = {name: head for name, head in model.network.heads.items() if name in outputs}
    fresh = fresh_heads(model.checkpoint.description.family, model.encoder, outputs)
    network = Network(model.encoder, {**fresh, **trained})
    return Model(replace(model.checkpoint, network=network, sentence=None))
