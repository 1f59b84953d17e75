"""The frame of every training on raw text: tokenise once, train, measure on text held out, save."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from clearhead.data.corpus import Corpus
from clearhead.data.shards import Shards
from clearhead.data.source import Source
from clearhead.errors import require
from clearhead.evaluation.perplexity import perplexity
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer
from clearhead.training.card import Training, corpus_fact, last_figures
from clearhead.training.distributed import first_process
from clearhead.training.loop import Result, train
from clearhead.training.overrides import made_of
from clearhead.training.recipes.shared import CORPUS, RUN, Progress, tokenise_once
from clearhead.training.report import Report
from clearhead.training.task import Task

_HELD_OUT = "text of the corpus that was held out"
_HELD_OUT_BATCHES = 8
_CPU_TOKENS = 2048


class How(TypedDict, total=False):
    """How a run goes, whatever it trains."""

    device: str  # "cpu" unless named
    shard: bool  # see `training.loop`
    progress: Progress | None  # told how many bytes of the corpus are tokenised
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
