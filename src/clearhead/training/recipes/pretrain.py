"""Pre-training on raw text: tokenise once, train, measure on a validation set, save."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.masking import Masked, Masking, Vocabulary
from clearhead.data.pretraining import PackedText, SentencePairs
from clearhead.data.rng import Source
from clearhead.data.shards import Shards, find_shards, tokenise
from clearhead.errors import BadConfig, require
from clearhead.evaluation.perplexity import perplexity
from clearhead.hub.checkpoint import fresh_heads
from clearhead.hub.hf import NAMES
from clearhead.io import Progress, staged
from clearhead.models import ENCODERS
from clearhead.models.electra import ElectraConfig
from clearhead.models.modernbert import PRESETS
from clearhead.nn.attention import Attend
from clearhead.nn.heads import Network
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.training.card import Training, corpus_fact, last_figures, save_with_card
from clearhead.training.distributed import first_process
from clearhead.training.loop import Result, train
from clearhead.training.monitor import Report
from clearhead.training.settings import Every, Settings, made_of
from clearhead.training.tasks import MaskedLM, MaskedLMWithPairs, ReplacedAndMasked, ReplacedTokens
from clearhead.training.tasks.language import Pairs
from clearhead.training.tasks.task import Task

# inside the model's folder: checkpoints and curves, and the token ids that were trained on
RUN, CORPUS = "run", "corpus"
_PAUSE = 1.0  # seconds between two looks for what the first process writes
_LAST = "tokenizer_config.json"  # put in place after tokenizer.json, so that a tokenizer with it is whole


def learn_vocabulary_once(
    corpus: Corpus, folder: Path, *, size: int, kind: str = "wordpiece", progress: Progress | None = None
) -> Tokenizer:
    """Train a tokenizer on the corpus and save it in `folder`; one that is there already is taken.

    BERT's kind makes all letters small; the others write too, and keep them.
    """
    if first_process() and not (folder / _LAST).is_file():
        small = kind == "wordpiece"
        words = train_tokenizer(texts=corpus.documents(progress), kind=kind, vocabulary=size, lowercase=small)
        with staged(folder) as stage:
            words.save(stage)
    while not (folder / _LAST).is_file():
        time.sleep(_PAUSE)
    return Tokenizer.from_folder(folder)


def tokenise_once(corpus: Corpus, tokenizer: Tokenizer, folder: Path, progress: Progress | None = None) -> Shards:
    """Tokenise the corpus into `folder`; shards of the same corpus and tokenizer that are there already are taken."""
    if first_process():
        return tokenise(corpus, tokenizer, folder, progress=progress)
    while (shards := find_shards(corpus, tokenizer, folder)) is None:
        time.sleep(_PAUSE)
    return shards


def without_attention_dropout(model: Model) -> None:
    """Train without dropout of attention weights, which the fast kernel for packed texts does not know.

    Dropout of hidden states, the other half of the pair, stays as the checkpoint says.
    """
    for module in model.network.modules():
        if isinstance(module, Attend):
            module.dropout = 0.0


_HELD_OUT = "text of the corpus that was held out"
_HELD_OUT_BATCHES = 8
_CPU_TOKENS = 2048


class How(TypedDict, total=False):
    """How a run goes, whatever it trains."""

    device: str  # "cpu" unless named
    shard: bool  # see `training.loop`
    progress: Progress | None  # told of bytes of the corpus that are tokenised
    tensorboard: bool
    command: str | None  # what the card says the run was started with


def for_device(recipe: Any, device: str) -> Any:
    """The recipe with smaller micro-batches where a CPU trains.

    A step is not broken off when its minutes are over: with the default model, one core takes 8 seconds for 4,096
    tokens and a minute for 32,768. Of 1,024 tokens, about a third of the time would be the update itself.
    """
    return replace(recipe, tokens=min(recipe.tokens, _CPU_TOKENS)) if device == "cpu" else recipe


def train_on_text(
    task: Task,
    corpus: Corpus,
    tokenizer: Tokenizer,
    out: Path,
    recipe: Any,
    *,
    batches: Callable[[Shards, str], Source],
    measure: Callable[[Task, Source, str], dict[str, float]],
    save: Callable[[Training], None],
    **how: Unpack[How],
) -> Result:
    """Train by `recipe.train` in `out`; a run that was stopped there goes on.

    `batches` makes those of a split, "train" or "held-out"; `measure` takes the task, held-out batches and the device.
    `save` is called by one process, when the run is over, with what a card tells of it.
    """
    device = how.get("device", "cpu")
    told = tokenizer.tells_capitals
    require(not told, "raw text is read without its capitals; begin with the model that looked at none")
    # the networks are there already: what does not fit together has been said before a corpus is read
    shards = tokenise_once(corpus, tokenizer, out / CORPUS, how.get("progress"))
    held_out = batches(shards, "held-out")
    result = train(
        task,
        batches(shards, "train"),
        recipe.train,
        out / RUN,
        device=device,
        shard=how.get("shard", False),
        made_of=made_of(recipe, {"the corpus in tokens": shards.tokens}),
        evaluate=lambda: measure(task, held_out, device),
        report=Report(out / RUN, tensorboard=how.get("tensorboard", False)),
    )
    task.network.eval()
    if result.exit != "interrupted" and first_process():
        facts = {"corpus": corpus_fact(corpus, shards.tokens), "measured on": _HELD_OUT}
        figures = last_figures(out / RUN, result)
        save(Training(facts=facts, recipe=recipe, result=result, figures=figures, command=how.get("command")))
    return result


def check_fit(model: Model, length: int) -> None:
    """Refuse sequences that are longer than the model has positions."""
    longest = model.encoder.max_length
    require(length <= longest, f"sequences of {length} tokens do not fit {longest} positions; choose a smaller length")


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
    able = [name for name in ENCODERS if set(HEADS[objective]) <= NAMES[name].heads.keys()]
    if type(config) not in [ENCODERS[name].config for name in able]:
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
    if family not in ENCODERS:
        raise BadConfig(f"there is no family {family!r}; choose one of {', '.join(ENCODERS)}")
    from importlib import import_module

    module = ENCODERS[family].config.__module__
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
