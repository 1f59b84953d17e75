"""Pre-training of language models: the next token (GPT-2, LSTM), spans (T5), permutations (XLNet), ELMo."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.masking import SHARE, PermutedBatches
from clearhead.data.pretraining import NeighbourTargets, PackedText, RunningText, document_boundaries
from clearhead.data.rng import BatchSource
from clearhead.data.seq2seq import SpanCorruptedBatches, SpanCorruption
from clearhead.data.shards import Shards
from clearhead.errors import require
from clearhead.hub.checkpoint import recurrent_checkpoint
from clearhead.hub.config import read_config
from clearhead.io import read_object
from clearhead.models import RECURRENT_FAMILIES, elmo, gpt, rnnlm, t5, xlnet
from clearhead.nn.embeddings import spell
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.pretrain import without_dropout
from clearhead.training.recipes.run import (
    RunOptions,
    check_fit,
    check_tokenizer,
    in_own_folder,
    rounded_vocabulary,
    train_on_text,
)
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import BidirectionalLM, CausalLM, PermutationLM, Translation
from clearhead.training.tasks.task import Task

Objective = Literal["causal", "spans", "permutation", "bidirectional"]


@dataclass(frozen=True)
class LanguageFamily:
    """What a family learns by, its sizes, the kind of tokenizer that is trained for it, and how its recipe differs."""

    objective: Objective
    presets: dict[str, Any]
    tokenizer: str
    train: dict[str, Any] = field(default_factory=dict)  # fields of Settings
    recipe: dict[str, Any] = field(default_factory=dict)  # other fields of Language


# ELMo's as it was measured: its dropout stays, and AdamW is torch's
_ELMO = {"weight_decay": 0.01, "warmup": 0.02, "schedule": "linear", "betas": (0.9, 0.999)}
FAMILIES = {
    "gpt2": LanguageFamily("causal", gpt.PRESETS, "gpt2"),
    "t5": LanguageFamily("spans", t5.PRESETS, "t5"),
    "xlnet": LanguageFamily("permutation", xlnet.PRESETS, "xlnet", {"learning_rate": 5e-4}),
    **{name: LanguageFamily("causal", rnnlm.PRESETS, "gpt2", {"learning_rate": 2e-3}) for name in rnnlm.BUILD},
    "elmo": LanguageFamily("bidirectional", elmo.PRESETS, "word", _ELMO, {"length": 64, "tokens": 4096}),
}
SEGMENTS = 4  # sequences of running text that follow one another in a batch, where there is a memory
# the family that an objective is tried with first
DEFAULT_FAMILY: dict[str, str] = {"causal": "gpt2", "spans": "t5", "permutation": "xlnet", "bidirectional": "elmo"}
TASKS: dict[str, Callable[[Any], Task]] = {
    "causal": CausalLM,
    "spans": Translation,
    "permutation": PermutationLM,
    "bidirectional": BidirectionalLM,
}


@dataclass(frozen=True, kw_only=True)
class Language:
    """What can be set of a run; `recipe_for` makes one for a family and a size."""

    family: str  # as --family
    model: Any  # the sizes of a new model
    objective: Objective  # as --objective
    length: int = 128  # tokens of a sequence
    tokens: int = 8192  # of a micro-batch
    corruption: SpanCorruption = field(default_factory=SpanCorruption)  # of spans
    share: float = SHARE  # of a text that is guessed, by permutation
    memory: int | None = None  # by permutation: how many tokens before it a sequence knows, as Transformer-XL
    left_to_right: bool | None = None  # by permutation: every word in the order in which it stands, as Transformer-XL
    train: Settings = field(
        default_factory=lambda: Settings(
            minutes=60.0,
            learning_rate=1e-3,
            weight_decay=0.1,
            warmup=0.05,
            schedule="cosine",
            betas=(0.9, 0.98),
            every=Every(save=1000, evaluate=1000),
        )
    )


def is_language_model(family: str | None, objective: str | None, start: Path | None) -> bool:
    """Whether these are about a model of this file: one of its families, objectives, or folders."""
    return family in FAMILIES or objective in DEFAULT_FAMILY or (start is not None and model_type(start) in FAMILIES)


def recipe_for(
    family: str | None = None, preset: str | None = None, objective: str | None = None, start: Path | None = None
) -> Language:
    """Plan a run: a family chooses its objective, an objective its family, a folder to go on from both.

    The size is "mini" unless named.
    """
    if start is not None:
        plan = recipe_for(model_type(start), None, objective)
        return replace(plan, model=read_config(start).config)
    family = DEFAULT_FAMILY.get(objective or "", "gpt2") if family is None else family
    known = ", ".join(FAMILIES)
    require(family in FAMILIES, f"{family!r} does not learn by {objective!r}; choose one of {known}")
    spec = FAMILIES[family]
    own, size = objective in (None, spec.objective), preset or "mini"
    require(own, f"{family} learns by {spec.objective!r}, not by {objective!r}; leave the objective out")
    require(size in spec.presets, f"{family} has no preset {preset!r}; choose one of {', '.join(spec.presets)}")
    config = spec.presets[size] if family == "elmo" else without_dropout(spec.presets[size])
    plan = Language(family=family, model=config, objective=spec.objective, **spec.recipe)
    return replace(plan, train=replace(plan.train, **spec.train))


def model_type(folder: Path) -> str:
    """What config.json calls the family of a folder."""
    return str(read_object(folder / "config.json").get("model_type"))


@in_own_folder("start")
def pretrain_language(
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    recipe: Language,
    *,
    start: Path | None = None,
    **options: Unpack[RunOptions],
) -> tuple[Model, TrainResult]:
    """Train a model from scratch, or go on from the folder `start`, and save it in `out`; a stopped run goes on.

    For the other options see `recipes.run.RunOptions`.
    """
    model = build(recipe, tokenizer, start)
    if model.family not in RECURRENT_FAMILIES:
        check_fit(model, recipe.length)
    source, begun = partial(batches, recipe, tokenizer), None if start is None else {"the starting model": start}
    return model, train_on_text(
        make_task(recipe, model.network), model, corpus, out, recipe, batches=source, start=begun, **options
    )


def make_task(recipe: Language, network: Any) -> Task:
    """What a recipe trains a network for."""
    for name, value in (("memory", recipe.memory), ("left_to_right", recipe.left_to_right)):
        fits = not value or recipe.objective == "permutation"
        require(fits, f"{name}={value} is for the objective permutation, not for {recipe.objective}; leave it out")
    if recipe.memory is None:
        return TASKS[recipe.objective](network)
    require(recipe.memory >= 1, f"memory is a number of tokens, got {recipe.memory}; leave it out for none")
    return PermutationLM(network, memory=recipe.memory, segment=recipe.length)


def batches(recipe: Language, tokenizer: Tokenizer, shards: Shards, split: str) -> BatchSource:
    """Make the batches of a recipe."""
    seed = recipe.train.seed
    sizes: dict[str, Any] = {"tokens": recipe.tokens, "length": recipe.length, "seed": seed, "split": split}
    if recipe.objective == "causal":
        return RunningText(shards, tokenizer, **sizes)
    permuted: dict[str, Any] = {"share": recipe.share, "left_to_right": bool(recipe.left_to_right), "seed": seed}
    if recipe.memory is not None:
        rows = RunningText(shards, tokenizer, **{**sizes, "length": SEGMENTS * recipe.length})
        return PermutedBatches(rows, tokenizer, segment=recipe.length, **permuted)
    texts = PackedText(shards, tokenizer, **sizes)
    if recipe.objective == "spans":
        return SpanCorruptedBatches(texts, tokenizer, recipe.corruption, length=recipe.length, seed=seed)
    if recipe.objective == "bidirectional":
        return NeighbourTargets(texts)
    return PermutedBatches(texts, tokenizer, **permuted)


def build(recipe: Language, tokenizer: Tokenizer, start: Path | None = None) -> Model:
    """Make the model of a recipe with fresh weights, or open the one in `start`."""
    torch.manual_seed(recipe.train.seed)
    if start is not None:
        found = load(start)
        check_tokenizer(start, found.tokenizer, tokenizer)
        return found
    before, after = document_boundaries(tokenizer)
    ids = {
        # ELMo knows how each of its words is spelled, so that it has no rows beyond them
        "vocab_size": tokenizer.vocabulary if recipe.family == "elmo" else rounded_vocabulary(tokenizer),
        "pad_token_id": tokenizer.pad_id if "pad" in tokenizer.special else None,
        "bos_token_id": (before or after)[0],
        "eos_token_id": after[0],
    }
    known = {spec.name: spec for spec in fields(recipe.model)}
    if ids["pad_token_id"] is None and known["pad_token_id"].default is not None:
        ids["pad_token_id"] = after[0]  # nothing is padded; a family that wants a token is given the end
    config = replace(recipe.model, **{name: token for name, token in ids.items() if name in known})
    if recipe.family in RECURRENT_FAMILIES:
        network: Any = RECURRENT_FAMILIES[recipe.family].network(config)
        if recipe.family == "elmo":
            words = [tokenizer.id_to_token(i) or "" for i in range(config.vocab_size)]
            network.spelling.copy_(spell(words, config.max_characters))
        return Model(recurrent_checkpoint(recipe.family, network, tokenizer))
    head = "permutation_lm" if recipe.objective == "permutation" else "causal_lm"
    return Model.create(config, tokenizer, heads={head: config.vocab_size})
