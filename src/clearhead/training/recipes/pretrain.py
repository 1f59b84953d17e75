"""Pre-training: raw text to a model that fills masks (and judges pairs, or finds replaced tokens)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from clearhead.data.corpus import Corpus
from clearhead.data.masking import Masked, Masking, Vocabulary
from clearhead.data.pairs import SentencePairs
from clearhead.data.pretraining import PackedText
from clearhead.data.shards import Shards
from clearhead.data.source import Source
from clearhead.errors import BadConfig, require
from clearhead.evaluation.perplexity import perplexity
from clearhead.models import FAMILIES
from clearhead.models.modernbert import PRESETS
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer
from clearhead.training.card import Training, corpus_fact, last_figures, save_with_card
from clearhead.training.distributed import first_process
from clearhead.training.loop import Result, train
from clearhead.training.recipes.finetune import without_attention_dropout
from clearhead.training.recipes.networks import GENERATOR, build
from clearhead.training.recipes.shared import tokenise_once
from clearhead.training.report import Report
from clearhead.training.settings import Every, Settings
from clearhead.training.task import Task

Objective = Literal["masked", "masked+next", "masked+order", "replaced", "replaced+masked", "replaced+masked+next"]
RUN, CORPUS = "run", "corpus"
HELD_OUT = "text of the corpus that was held out"
_HELD_OUT_BATCHES = 8


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
    device: str = "cpu",
    shard: bool = False,
    start: Path | None = None,
    progress: Callable[[int], None] | None = None,
    tensorboard: bool = False,
    command: str | None = None,
) -> tuple[Model, Result]:
    """Train a model from scratch and save it with its card in `out`; a run that was stopped there goes on.

    `start` is a checkpoint folder to begin with instead. `progress` is told how many bytes of the corpus are
    tokenised. For `shard` see `training.loop`. `command` is what the card says the run was started with.
    """
    task, model, generator = build(recipe.objective, recipe.model, tokenizer, seed=recipe.train.seed, start=start)
    for each in (model, generator):
        if each is not None:
            without_attention_dropout(each)
    require(
        recipe.length <= model.encoder.max_length,
        f"sequences of {recipe.length} tokens do not fit {model.encoder.max_length} positions",
    )
    # not before the networks: what does not fit together should be said before a corpus is read
    shards = tokenise_once(corpus, tokenizer, out / CORPUS, progress)
    source, held_out = (batches(recipe, shards, tokenizer, split) for split in ("train", "held-out"))
    compiled = recipe.train.compile
    if compiled is None:  # a minute of compiling is little of a pre-training
        compiled = device.startswith("cuda") and not shard
    result = train(
        task,
        source,
        replace(recipe.train, compile=compiled),
        out / RUN,
        device=device,
        shard=shard,
        evaluate=lambda: held_out_figures(task, held_out, device),
        report=Report(out / RUN, tensorboard=tensorboard),
    )
    if result.exit != "interrupted":
        model.network.eval()
        if first_process():
            facts = {"corpus": corpus_fact(corpus, shards.tokens), "measured on": HELD_OUT}
            figures = last_figures(out / RUN, result)
            told = Training(facts=facts, recipe=recipe, result=result, figures=figures, command=command)
            save_with_card(model, out, told)
            if generator is not None:
                generator.save(out / GENERATOR)
    return model, result


def batches(recipe: Pretrain, shards: Shards, tokenizer: Tokenizer, split: str) -> Source:
    """Make the masked batches of a recipe."""
    sizes: dict[str, Any] = {"tokens": recipe.tokens, "length": recipe.length, "seed": recipe.train.seed}
    plain: Source
    if not recipe.objective.endswith(("+next", "+order")):
        plain = PackedText(shards, tokenizer, split=split, **sizes)
    else:
        kind: Literal["next", "order"] = "next" if recipe.objective.endswith("+next") else "order"
        plain = SentencePairs(shards, tokenizer, kind=kind, split=split, **sizes)
    return Masked(plain, Vocabulary.of(tokenizer), recipe.masking, seed=recipe.train.seed)


def held_out_figures(task: Task, held_out: Source, device: str) -> dict[str, float]:
    """Mean of each part of the loss on text never trained on, and the perplexity of masked words if they are asked."""
    sums: dict[str, list[tuple[float, int]]] = {}
    for index in range(min(_HELD_OUT_BATCHES, max(held_out.batches_in(1), 1))):
        for part, loss in task.losses(held_out.batch(index).to(device)).items():
            sums.setdefault(part, []).append((float(loss.total), int(loss.count)))
    means = {part: sum(total for total, _ in rows) / sum(n for _, n in rows) for part, rows in sums.items()}
    if "masked_lm" not in sums:  # a student may learn relations alone
        return means
    losses, counts = zip(*sums["masked_lm"], strict=True)
    return {**means, "perplexity": perplexity(losses, counts)}


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
