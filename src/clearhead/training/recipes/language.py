"""Pre-training of language models: the next token (GPT-2, LSTM), spans (T5), permutations (XLNet), ELMo."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.masking import SHARE, Permuted
from clearhead.data.pretraining import Following, PackedText, RunningText, round_a_document
from clearhead.data.rng import Source
from clearhead.data.seq2seq import Corrupted, Corruption
from clearhead.data.shards import Shards
from clearhead.errors import BadConfig, require
from clearhead.hub.config import read_config
from clearhead.hub.recurrent import RecurrentModel, is_recurrent
from clearhead.io import Progress, read_object
from clearhead.models import RECURRENT_FAMILIES, gpt, rnnlm, t5, xlnet
from clearhead.models.elmo import Elmo, ElmoConfig
from clearhead.nn.embeddings import spell
from clearhead.pipelines.model import Model, Recurrent, load
from clearhead.pipelines.word_vectors import ContextualWords
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.training.card import Training, save_with_card
from clearhead.training.loop import Result
from clearhead.training.recipes.pretrain import (
    How,
    check_fit,
    held_out_figures,
    train_on_text,
    without_attention_dropout,
    without_dropout,
)
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks import BothNeighbours, GuessInOrder, NextToken, Translation
from clearhead.training.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class PretrainElmo:
    """What can be set of a run."""

    model: ElmoConfig = field(default_factory=ElmoConfig)
    vocabulary: int = 30_000  # words that can be guessed; every word can be read
    length: int = 64  # words of a sequence, begin and end included
    tokens: int = 4096  # of a micro-batch
    train: Settings = field(
        default_factory=lambda: Settings(
            minutes=60.0, learning_rate=1e-3, warmup=0.02, every=Every(save=1000, evaluate=1000)
        )
    )


def pretrain_elmo(
    corpus: Corpus,
    out: Path,
    recipe: PretrainElmo | None = None,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[ContextualWords, Result]:
    """Train both language models on the corpus and save them in `out`; a run that was stopped there goes on.

    `progress` is told of bytes of the corpus that are tokenised.
    """
    recipe = recipe or PretrainElmo()
    tokenizer = train_tokenizer(texts=corpus.documents(), kind="word", vocabulary=recipe.vocabulary, lowercase=False)
    torch.manual_seed(recipe.train.seed)
    network = build_elmo(recipe.model, tokenizer)
    words = ContextualWords(network, tokenizer)

    def batches(shards: Shards, split: str) -> Source:
        sizes = {"tokens": recipe.tokens, "length": recipe.length, "seed": recipe.train.seed}
        return Following(PackedText(shards, tokenizer, split=split, **sizes))

    result = train_on_text(
        BothNeighbours(network),
        corpus,
        tokenizer,
        out,
        recipe,
        batches=batches,
        measure=elmo_figures,
        save=lambda training: save_with_card(words.held, out, training),
        device=device,
        progress=progress,
    )
    return words, result


def elmo_figures(task: Task, held_out: Source, device: str) -> dict[str, float]:
    """Measure on text never trained on: the loss of each direction, and the perplexity of both."""
    found = held_out_figures(task, held_out, device)
    return {**found, "perplexity": math.exp(sum(found.values()) / len(found))}


def build_elmo(config: ElmoConfig, tokenizer: Tokenizer) -> Elmo:
    """Make a network with fresh weights that knows how the words of the vocabulary are spelled."""
    network = Elmo(replace(config, vocab_size=tokenizer.vocabulary, pad_token_id=tokenizer.pad_id))
    names = [tokenizer.id_to_token(i) or "" for i in range(tokenizer.vocabulary)]
    network.spelling.copy_(spell(names, config.max_characters))
    return network


Objective = Literal["causal", "spans", "permutation"]
Writes = Model | Recurrent


@dataclass(frozen=True)
class Kind:
    """A family of models: what it learns by, its sizes, and the kind of tokenizer that is trained for it."""

    objective: Objective
    presets: dict[str, Any]
    tokenizer: str
    learning_rate: float = 1e-3


FAMILIES = {
    "gpt2": Kind("causal", gpt.PRESETS, "gpt2"),
    "t5": Kind("spans", t5.PRESETS, "t5"),
    "xlnet": Kind("permutation", xlnet.PRESETS, "xlnet", learning_rate=5e-4),
    **{name: Kind("causal", rnnlm.PRESETS, "gpt2", learning_rate=2e-3) for name in rnnlm.BUILD},
}
# the family that an objective is tried with first
FIRST: dict[str, str] = {"causal": "gpt2", "spans": "t5", "permutation": "xlnet"}


@dataclass(frozen=True, kw_only=True)
class Language:
    """What can be set of a run; `recipe_for` makes one for a family and a size."""

    family: str
    model: Any
    objective: Objective
    length: int = 128  # tokens of a sequence
    tokens: int = 8192  # of a micro-batch
    corruption: Corruption = field(default_factory=Corruption)  # of spans
    share: float = SHARE  # of a text that is guessed, by permutation
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


def asked_for(family: str | None, objective: str | None, start: Path | None) -> bool:
    """Whether these are about a model of this file: one of its families, objectives, or folders."""
    return family in FAMILIES or objective in FIRST or (start is not None and model_type(start) in FAMILIES)


def recipe_for(
    family: str | None = None, preset: str | None = None, objective: str | None = None, start: Path | None = None
) -> Language:
    """Plan a run: a family chooses its objective, an objective its family, a folder to go on from both.

    The size is "mini" unless named.
    """
    if start is not None:
        plan = recipe_for(model_type(start), None, objective)
        found = RecurrentModel.load(start).network.config if is_recurrent(start) else read_config(start).config
        return replace(plan, model=found)
    family = FIRST.get(objective or "", "gpt2") if family is None else family
    if family not in FAMILIES:
        raise BadConfig(f"{family!r} does not learn by {objective!r}; choose one of {', '.join(FAMILIES)}")
    kind = FAMILIES[family]
    if objective not in (None, kind.objective):
        raise BadConfig(f"{family} learns by {kind.objective!r}, not by {objective!r}; leave the objective out")
    if (preset or "mini") not in kind.presets:
        raise BadConfig(f"{family} has no preset {preset!r}; choose one of {', '.join(kind.presets)}")
    plan = Language(family=family, model=without_dropout(kind.presets[preset or "mini"]), objective=kind.objective)
    return replace(plan, train=replace(plan.train, learning_rate=kind.learning_rate))


def pretrain_language(
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    recipe: Language,
    *,
    start: Path | None = None,
    **how: Unpack[How],
) -> tuple[Writes, Result]:
    """Train a model from scratch, or go on from the folder `start`, and save it in `out`; a stopped run goes on.

    For the other options see `recipes.on_text.How`.
    """
    model = build(recipe, tokenizer, start)
    if isinstance(model, Model):
        without_attention_dropout(model)
        check_fit(model, recipe.length)

    def save(training: Training) -> None:
        save_with_card(model if isinstance(model, Model) else model.held, out, training)

    result = train_on_text(
        task_of(recipe.objective, model.network),
        corpus,
        tokenizer,
        out,
        recipe,
        batches=lambda shards, split: batches(recipe, shards, tokenizer, split),
        measure=figures,
        save=save,
        **how,
    )
    return model, result


def model_type(folder: Path) -> str:
    """What config.json calls the family of a folder."""
    return str(read_object(folder / "config.json").get("model_type"))


def batches(recipe: Language, shards: Shards, tokenizer: Tokenizer, split: str) -> Source:
    """Make the batches of a recipe."""
    seed = recipe.train.seed
    sizes: dict[str, Any] = {"tokens": recipe.tokens, "length": recipe.length, "seed": seed, "split": split}
    if recipe.objective == "causal":
        return RunningText(shards, tokenizer, **sizes)
    texts = PackedText(shards, tokenizer, **sizes)
    if recipe.objective == "spans":
        return Corrupted(texts, tokenizer, recipe.corruption, length=recipe.length, seed=seed)
    return Permuted(texts, tokenizer, share=recipe.share, seed=seed)


def build(recipe: Language, tokenizer: Tokenizer, start: Path | None = None) -> Writes:
    """Make the model of a recipe with fresh weights, or open the one in `start`."""
    torch.manual_seed(recipe.train.seed)
    if start is not None:
        found: Writes = Recurrent(RecurrentModel.load(start)) if is_recurrent(start) else load(start)
        same = found.tokenizer.digest == tokenizer.digest
        require(same, f"{start} has another tokenizer than the one given; leave it out to go on with the model's own")
        return found
    before, after = round_a_document(tokenizer)
    ids = {
        # rows beyond the vocabulary are never looked up; a multiple of 64 keeps the output matrix aligned on a GPU
        "vocab_size": -(-tokenizer.vocabulary // 64) * 64,
        "pad_token_id": tokenizer.pad_id if "pad" in tokenizer.special else None,
        "bos_token_id": (before or after)[0],
        "eos_token_id": after[0],
    }
    known = {spec.name: spec for spec in fields(recipe.model)}
    if ids["pad_token_id"] is None and known["pad_token_id"].default is not None:
        ids["pad_token_id"] = after[0]  # nothing is padded; a family that wants a token is given the end
    config = replace(recipe.model, **{name: token for name, token in ids.items() if name in known})
    if recipe.family in RECURRENT_FAMILIES:
        return Recurrent(RecurrentModel(recipe.family, RECURRENT_FAMILIES[recipe.family].network(config), tokenizer))
    head = "permutation_lm" if recipe.objective == "permutation" else "causal_lm"
    return Model.create(config, tokenizer, heads={head: config.vocab_size})


def task_of(objective: Objective, network: Any) -> Task:
    """The task of an objective."""
    tasks: dict[str, Callable[[Any], Task]] = {
        "causal": NextToken,
        "spans": Translation,
        "permutation": GuessInOrder,
    }
    return tasks[objective](network)


def figures(task: Task, held_out: Source, device: str) -> dict[str, float]:
    """Measure on text never trained on: the loss, and the perplexity of tokens, which depends on the tokenizer."""
    found = held_out_figures(task, held_out, device)
    (loss,) = found.values()
    return {**found, "perplexity": math.exp(loss)}
