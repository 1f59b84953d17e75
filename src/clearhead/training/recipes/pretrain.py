"""Pre-training: raw text to a model that fills masks (and judges pairs, or finds replaced tokens)."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack

from clearhead.data.corpus import Corpus
from clearhead.data.masking import Masked, Masking, Vocabulary
from clearhead.data.pairs import SentencePairs
from clearhead.data.pretraining import PackedText
from clearhead.data.shards import Shards
from clearhead.data.source import Source
from clearhead.errors import BadConfig, require
from clearhead.models import FAMILIES
from clearhead.models.modernbert import PRESETS
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer
from clearhead.training.card import Training, save_with_card
from clearhead.training.loop import Result
from clearhead.training.recipes.networks import GENERATOR, build
from clearhead.training.recipes.on_text import How, check_fit, held_out_figures, train_on_text
from clearhead.training.recipes.shared import without_attention_dropout
from clearhead.training.settings import Every, Settings

Objective = Literal["masked", "masked+next", "masked+order", "replaced", "replaced+masked", "replaced+masked+next"]


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """What can be set of a pre-training run.

    The defaults leave the plateau near a loss of 7, where only the frequency of words has been learnt: modern blocks,
    whose positions need not be learnt, Muon, many short sequences, and no dropout, since no text is seen often.
    """

    model: Any = field(default_factory=lambda: without_dropout(PRESETS["small"]))
    objective: Objective = "masked"
    masking: Masking = field(default_factory=lambda: Masking(multiple=64))
    length: int = 128  # tokens of a sequence, special ones included
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


def pretrain(
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    recipe: Pretrain,
    *,
    start: Path | None = None,
    **how: Unpack[How],
) -> tuple[Model, Result]:
    """Train a model from scratch and save it with its card in `out`; a run that was stopped there goes on.

    `start` is a checkpoint folder to begin with instead. For the other options see `recipes.on_text.How`.
    """
    task, model, generator = build(recipe.objective, recipe.model, tokenizer, seed=recipe.train.seed, start=start)
    for each in (model, generator):
        if each is not None:
            without_attention_dropout(each)
    check_fit(model, recipe.length)

    def save(training: Training) -> None:
        # the recipe as it was given, which a CPU can run too
        save_with_card(model, out, replace(training, recipe=recipe))
        if generator is not None:
            generator.save(out / GENERATOR)

    result = train_on_text(
        task,
        corpus,
        tokenizer,
        out,
        _compiled(recipe, how),
        batches=lambda shards, split: batches(recipe, shards, tokenizer, split),
        measure=held_out_figures,
        save=save,
        **how,
    )
    return model, result


def batches(recipe: Pretrain, shards: Shards, tokenizer: Tokenizer, split: str) -> Source:
    """Make the masked batches of a recipe."""
    sizes: dict[str, Any] = {"tokens": recipe.tokens, "length": recipe.length, "seed": recipe.train.seed}
    plain: Source
    if not recipe.objective.endswith(("+next", "+order")):
        require(not recipe.singles, f"singles={recipe.singles} is for objectives with pairs; leave it out", BadConfig)
        plain = PackedText(shards, tokenizer, split=split, **sizes)
    else:
        kind: Literal["next", "order"] = "next" if recipe.objective.endswith("+next") else "order"
        plain = SentencePairs(shards, tokenizer, kind=kind, singles=recipe.singles, split=split, **sizes)
    return Masked(plain, Vocabulary.of(tokenizer), recipe.masking, seed=recipe.train.seed)


def preset(family: str, name: str) -> Any:
    """Look up the configuration of a family and a size, without dropout."""
    if family not in FAMILIES:
        raise BadConfig(f"there is no family {family!r}; choose one of {', '.join(FAMILIES)}")
    from importlib import import_module

    module = FAMILIES[family].config.__module__
    presets: dict[str, Any] = import_module(module).PRESETS
    if name not in presets:
        raise BadConfig(f"{family} has no preset {name!r}; choose one of {', '.join(presets)}")
    return without_dropout(presets[name])


def without_dropout(config: Any) -> Any:
    """The same configuration with all dropout rates at 0; a classifier keeps the one that stands for its own."""
    rates = [name for name, value in asdict(config).items() if "drop" in name and isinstance(value, float)]
    return replace(config, **dict.fromkeys(rates, 0.0))


def _compiled(recipe: Pretrain, how: How) -> Pretrain:
    """Compile on a GPU unless the recipe says no: a minute of it is little of a pre-training."""
    if recipe.train.compile is not None:
        return recipe
    wanted = how.get("device", "cpu").startswith("cuda") and not how.get("shard", False)
    return replace(recipe, train=replace(recipe.train, compile=wanted))
