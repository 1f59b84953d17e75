"""Pre-training of encoders on raw text: masked tokens, sentence pairs, replaced tokens (ELECTRA)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.masking import MaskedBatches, Masking, Vocabulary
from clearhead.data.pretraining import SHORT, PackedText, SentencePairs
from clearhead.data.rng import BatchSource, Phases
from clearhead.data.shards import Shards
from clearhead.errors import require
from clearhead.hub.checkpoint import fresh_heads
from clearhead.hub.config import NAMES
from clearhead.models import ENCODERS
from clearhead.models.electra import ElectraConfig
from clearhead.models.modernbert import PRESETS
from clearhead.nn.heads import Network
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer
from clearhead.training.loop import TrainResult
from clearhead.training.recipes import run
from clearhead.training.recipes.run import RunOptions
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.language import MaskedLM, MaskedLMWithPairs, Pairs, ReplacedAndMasked, ReplacedTokens
from clearhead.training.tasks.task import Task

EARLY = 0.9  # of a run has sequences of `early_length` (Devlin et al. 2018, appendix A.2)
GENERATOR = "generator"  # the folder inside the model's that keeps it, to go on with

Objective = Literal["masked", "masked+next", "masked+order", "replaced", "replaced+masked", "replaced+masked+next"]

# the heads of each objective; a number of outputs that is None is the vocabulary's
HEADS: Mapping[str, Mapping[str, int | None]] = {
    "masked": {"masked_lm": None},
    "masked+next": {"masked_lm": None, "next_sentence": 2},
    "masked+order": {"masked_lm": None, "sentence_order": 2},
    "replaced": {"replaced": 1},
    "replaced+masked": {"masked_lm": None, "replaced": 1},
    "replaced+masked+next": {"masked_lm": None, "replaced": 1, "next_sentence": 2},
}


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """What can be set of a pre-training run.

    The defaults leave the plateau near a loss of 7, where only the frequency of words has been learnt: modern blocks,
    whose positions need not be learnt, Muon, many short sequences, and no dropout, since no text is seen often.
    """

    model: Any = field(default_factory=lambda: without_dropout(PRESETS["small"]))
    objective: Objective = "masked"  # as --objective
    masking: Masking = field(default_factory=lambda: Masking(multiple=64))
    length: int = 128  # tokens of a sequence, special ones included
    early_length: int | None = None  # tokens of a sequence in the first 90 % of the run, as many sequences in a batch
    short: float | None = None  # the share of sequences that are shorter; None is 0.1 of plain text, and 0 of pairs
    singles: float = 0.0  # of objectives with pairs: the share of sequences that are one text, cut anywhere
    tokens: int = 16_384  # of a micro-batch
    train: Settings = field(
        default_factory=lambda: Settings(
            minutes=60.0,
            accumulate=2,
            learning_rate=3e-3,
            warmup=0.1,
            schedule="trapezoidal",
            optimiser="muon",
            betas=(0.9, 0.98),
            every=Every(save=1000, evaluate=1000),
        )
    )

    def __post_init__(self) -> None:
        early = self.early_length
        told = f"early_length {early} must be shorter than length {self.length}, and longer than 3 tokens"
        require(early is None or 3 < early < self.length, f"{told}; early_length=none has one length throughout")
        require(self.short is None or 0 <= self.short < 1, f"short is a share in [0, 1), got {self.short}")


@run.in_own_folder("start")
def pretrain(
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    recipe: Pretrain,
    *,
    start: Path | None = None,
    **options: Unpack[RunOptions],
) -> tuple[Model, TrainResult]:
    """Train a model from scratch and save it with its card in `out`; a run that was stopped there goes on.

    `start` is a checkpoint folder to begin with instead. For the other options see `recipes.run.RunOptions`.
    """
    task, model, generator = build(recipe.objective, recipe.model, tokenizer, seed=recipe.train.seed, start=start)
    run.check_fit(model, recipe.length)
    settings = recipe.train
    if settings.compile is None:  # a minute of it is little of a pre-training
        gpu = options.get("device", "cpu").startswith("cuda")
        settings = replace(settings, compile=gpu and not options.get("shard", False))
    result = run.train_on_text(
        task,
        model,
        corpus,
        out,
        recipe,
        batches=partial(batches, recipe, tokenizer),
        start=_started(start),
        beside={} if generator is None else {GENERATOR: generator},
        settings=settings,
        **options,
    )
    return model, result


def _started(start: Path | None) -> dict[str, Path | Model]:
    folders = {} if start is None else {"the starting model": start, "its generator": start / GENERATOR}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def batches(recipe: Pretrain, tokenizer: Tokenizer, shards: Shards, split: str) -> BatchSource:
    """Make the masked batches of a recipe."""
    late = _of_length(recipe, tokenizer, shards, split)
    if recipe.early_length is None or split != "train":
        return late
    return Phases(_of_length(_early(recipe), tokenizer, shards, split), late, EARLY)


def _early(recipe: Pretrain) -> Pretrain:
    """The recipe of the first part of the run, whose batches have as many sequences, with fewer tokens and masks."""
    length, early, most = recipe.length, recipe.early_length or recipe.length, recipe.masking.most
    masking = recipe.masking if most is None else replace(recipe.masking, most=max(most * early // length, 1))
    tokens = max(recipe.tokens * early // length, early)
    return replace(recipe, length=early, tokens=tokens, masking=masking, early_length=None)


def _of_length(recipe: Pretrain, tokenizer: Tokenizer, shards: Shards, split: str) -> BatchSource:
    seed = recipe.train.seed
    sizes: dict[str, Any] = {"tokens": recipe.tokens, "length": recipe.length, "seed": seed, "split": split}
    plain: BatchSource
    if not recipe.objective.endswith(("+next", "+order")):
        require(not recipe.singles, f"singles={recipe.singles} is for objectives with pairs; leave it out")
        plain = PackedText(shards, tokenizer, short=SHORT if recipe.short is None else recipe.short, **sizes)
    else:
        plain = SentencePairs(
            shards,
            tokenizer,
            kind="next" if recipe.objective.endswith("+next") else "order",
            singles=recipe.singles,
            short=recipe.short or 0.0,
            duplicates=recipe.masking.duplicates,
            **sizes,
        )
    return MaskedBatches(plain, Vocabulary.of(tokenizer), recipe.masking, seed=seed)


def build(
    objective: str, config: Any, tokenizer: Tokenizer, *, seed: int, start: Path | None = None
) -> tuple[Task, Model, Model | None]:
    """Make a task, its model and its generator, with fresh weights or those in the folder `start`."""
    torch.manual_seed(seed)
    if start is None:
        config = replace(config, vocab_size=run.rounded_vocabulary(tokenizer), pad_token_id=tokenizer.pad_id)
    able = [name for name in ENCODERS if set(HEADS[objective]) <= NAMES[name].heads.keys()]
    fits = type(config) in [ENCODERS[name].config for name in able]
    lacking = f"{type(config).__name__.removesuffix('Config')} has not the heads of objective {objective!r}"
    require(fits, f"{lacking}; choose a family that has: {', '.join(able)}")
    model = _model(config, tokenizer, HEADS[objective], start)
    if objective == "masked":
        return MaskedLM(model.network), model, None
    if objective.startswith("masked"):
        judged: Pairs = "next_sentence" if objective == "masked+next" else "sentence_order"
        return MaskedLMWithPairs(model.network, judged), model, None
    before = None if start is None or not (start / GENERATOR).is_dir() else start / GENERATOR
    generator = _model(generator_config(config), tokenizer, {"masked_lm": None}, before)
    if objective == "replaced":
        return ReplacedTokens(generator.network, model.network), model, generator
    return ReplacedAndMasked(generator.network, model.network, tokenizer.mask_id), model, generator


def generator_config(config: Any) -> Any:
    """ELECTRA's generator is as deep as the discriminator and a quarter as wide (Clark et al. 2020, table 6).

    Only ELECTRA's embeddings can be shared between widths: other families' is as wide, and a quarter as deep.
    """
    if not isinstance(config, ElectraConfig):
        return replace(config, num_hidden_layers=max(1, config.num_hidden_layers // 4))
    heads = max(1, config.num_attention_heads // 4)
    return replace(
        config,
        hidden_size=max(config.hidden_size // 4 // heads, 1) * heads,
        num_attention_heads=heads,
        intermediate_size=max(config.intermediate_size // 4, 1),
    )


def _model(config: Any, tokenizer: Tokenizer, heads: Mapping[str, int | None], start: Path | None) -> Model:
    outputs = {name: config.vocab_size if count is None else count for name, count in heads.items()}
    if start is None:
        return Model.create(config, tokenizer, heads=outputs)
    model = load(start)
    run.check_tokenizer(start, model.tokenizer, tokenizer)
    trained = {name: head for name, head in model.network.heads.items() if name in outputs}
    fresh = fresh_heads(model.checkpoint.description.family, model.encoder, outputs)
    network = Network(model.encoder, {**fresh, **trained})
    return Model(replace(model.checkpoint, network=network, sentence=None))


def preset(family: str, name: str) -> Any:
    """Look up the configuration of a family and a size, without dropout."""
    require(family in ENCODERS, f"there is no family {family!r}; choose one of {', '.join(ENCODERS)}")
    presets: dict[str, Any] = import_module(ENCODERS[family].config.__module__).PRESETS
    require(name in presets, f"{family} has no preset {name!r}; choose one of {', '.join(presets)}")
    return without_dropout(presets[name])


def without_dropout(config: Any) -> Any:
    """The same configuration with all dropout rates at 0; a classifier keeps the one that stands for its own."""
    rates = [name for name, value in asdict(config).items() if "drop" in name and isinstance(value, float)]
    return replace(config, **dict.fromkeys(rates, 0.0))
