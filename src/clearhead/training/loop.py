"""The training loop, for every model and objective, from the first step of pre-training to the last of fine-tuning."""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, Self

import torch
from torch import Tensor, nn

from clearhead.data.batch import Batch
from clearhead.data.rng import BatchSource, Phases
from clearhead.errors import BadInput, ClearheadError, require
from clearhead.nn.hooks import evaluating
from clearhead.training.checkpoint import CheckpointManager, OnSave, State
from clearhead.training.cuda_graphs import graphed
from clearhead.training.distributed import Ranks, Sharding, local_device, process_group
from clearhead.training.monitor import MEASURED, Report, is_bad
from clearhead.training.optim import make_optimisers, set_learning_rate, update
from clearhead.training.schedule import Budget, Stopwatch, schedule
from clearhead.training.settings import Settings
from clearhead.training.step import (
    ForwardBackward,
    PendingMetrics,
    Share,
    StepMetrics,
    activation_checkpointing,
    belongs_together,
    precision,
    split,
)
from clearhead.training.tasks.task import Task

log = logging.getLogger(__name__)

BAD_STEPS = 5  # skipped in a row before the run goes back to a checkpoint
SAVING = 0.02  # share of the time that checkpoints by the clock may take, on a slow disk too

Evaluate = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """How a run ended. A run that is over leaves its last weights in the network, with a metric its best ones.

    `signal` is what interrupted it, where this process is the one that was told to stop. `began` is the step that this
    session began at: a run that was over before begins where it ends. `parts` says how long the runs were that it went
    on from. `failure` is what the last evaluation failed by: the run is over and saved, but not measured.
    """

    exit: Literal["finished", "stopped early", "interrupted"]
    step: int
    tokens: int
    elapsed: float
    best: float | None
    best_step: int | None
    signal: int | None = None
    began: int = 0
    parts: tuple[str, ...] = ()
    failure: Exception | None = None


def train(
    task: Task,
    source: BatchSource,
    settings: Settings,
    folder: Path,
    *,
    device: str = "cpu",
    shard: bool = False,
    fingerprint: Mapping[str, object] | None = None,
    evaluate: Evaluate | None = None,
    report: Report | None = None,
    on_save: OnSave | None = None,
    restart: bool = False,
    more: bool = False,
    raise_failure: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> TrainResult:
    """Train for as long as the settings say; a folder with checkpoints of this run is resumed, of another refused.

    With `restart` the run that is there is removed; with `more` one that is over goes on, for as long as is said now.

    Under torchrun, ranks hold copies of the network or, with `shard`, a part of it each; checkpoints are the same.
    `fingerprint` names what else must be as it was when a run goes on: values, or names with the SHA-256 of content.
    `evaluate` is called with the network in evaluation mode, when its step is saved; what it fails by at the end is
    raised, or with `raise_failure` off in the result. `on_save` may add files to a checkpoint folder.
    """
    known = settings.metric is None or evaluate is not None
    require(known, f"metric {settings.metric!r} needs an evaluation; pass evaluate=")
    require(folder.is_dir() or not folder.exists(), f"{folder} is a file; give a folder to train in", BadInput)
    require(not (restart and more), "a run goes on or begins anew; choose one of more and restart", BadInput)
    place = local_device(device)
    with (
        process_group(place) as ranks,
        interruptible() as signals,
        torch.random.fork_rng(devices=[place] if place.type == "cuda" else []),
        activation_checkpointing(task.network, settings.checkpointing),
        Prefetch(source, pin=place.type == "cuda") as batches,
        ExitStack() as at_the_end,
    ):
        network = task.network.to(place).train()
        sharding = Sharding(network)
        alone = ranks.world == 1 and not (settings.compile or settings.checkpointing)
        replays = at_the_end.enter_context(graphed(network, alone and precision(settings, place) == "bf16"))
        shards = sharding if shard and ranks.world > 1 else None
        backprop = ForwardBackward(task, settings, place, ranks, shards, in_place=replays)
        optimisers = make_optimisers(network, settings)
        manager = CheckpointManager(folder, settings, fingerprint or {}, network, optimisers, ranks, sharding, on_save)
        budget = Budget(settings, source)
        parts = _parts(source, settings, ranks)
        state = manager.resume(budget.done, restart=restart, more=more)
        watch = Stopwatch(clock, ranks, state)
        report = report or Report(folder)
        report.begin(state.step if state.row is None else state.step - 1, quiet=not ranks.first)
        at_the_end.callback(report.end)
        logged, saved, evaluated = settings.every.log, settings.every.save, settings.every.evaluate
        began = kept = state.step  # `kept` is the last that was saved, when `spent` seconds were
        spent = state.elapsed
        if state.step and not state.over and budget.done(state):  # it was stopped when its minutes were nearly over
            state.over = True
            state.row = state.row or {"step": state.step, "epoch": source.epoch_of(state.index)}
        due = watch.elapsed + 60 * settings.every.minutes  # when the clock asks for a checkpoint
        failure: Exception | None = None
        stop = False
        pending: PendingMetrics | None = None  # what is not yet known of the last step
        metrics: StepMetrics | None = None  # what is known of the one before

        while True:
            # a step that is due to be saved is saved already, here or by the session before
            if state.row is not None and (state.over or not stop):
                with sharding.whole():
                    values, failure = _evaluate(evaluate, settings.metric, network, ranks)
                if failure is None:
                    if settings.metric is not None and _is_better(values, settings.metric, state, ranks):
                        manager.save_best(state)
                    report.log(state.row | values)
                    state.row, state.over = None, state.over or _out_of_patience(state, settings)
                    if kept == state.step or state.over:
                        spent = watch.elapsed
                        manager.conclude(state, spent, saved=kept == state.step)
                        report.draw()
                elif not state.over:
                    manager.save(state, watch.elapsed, planned=False)
                    raise failure
            if stop or state.over or budget.done(state):
                break
            watch.begin_step()
            progress = budget.progress(state)
            rate = settings.learning_rate * schedule(settings.schedule, progress, settings.warmup)
            count = budget.micro_batches(state, progress)
            if isinstance(source, Phases):
                batches.turn_to(source.at(progress))
            shares = _load(batches, ranks, state.index, count, parts)
            tokens, *totals = _totals(task, shares, ranks)
            found, state.pieces = backprop.run(shares, dict(zip(task.weights, totals, strict=True)), state.pieces)

            # only now, when the device has this step to work on, is it asked how the last one went
            if pending is not None:
                metrics, pending = _record(state, pending), None
            if state.bad == BAD_STEPS:
                backprop.zero_grad()
                state = _roll_back(state, manager, report)
                kept = state.step
                continue
            bad = is_bad(state.norms, state.losses, found.norm, found.loss)
            set_learning_rate(optimisers, rate)
            update(optimisers, bad)
            pending = PendingMetrics(found, bad, ranks)
            backprop.zero_grad()

            state.step, state.index, state.tokens = state.step + 1, state.index + count, state.tokens + tokens
            asked = ranks.sum([bool(signals), ranks.first and watch.elapsed >= due])
            stop, timed = asked[0] > 0, asked[1] > 0
            marked = any(state.step % every == 0 for every in (logged, saved, evaluated))
            if metrics is None or stop or timed or marked or budget.done(state):
                metrics, pending = _record(state, pending), None
            taken = watch.end_step(state)
            _add(state, "tokens_per_second", tokens, taken)
            report.tick(state.step, metrics.loss, _mean(tokens, taken), progress, state.elapsed)
            last = budget.done(state)
            if last and pending is not None:  # by the clock, the last step is known to be it when it is over
                metrics, pending = _record(state, pending), None
            if state.bad == BAD_STEPS:
                state = _roll_back(state, manager, report)
                kept = state.step
                stop = False  # after the next step: one that went back has nothing new to save
                continue

            measured = evaluate is not None and (last or state.step % evaluated == 0)
            if measured or last or state.step % logged == 0:
                row = _row(state, task, rate, metrics.norm, source.epoch_of(state.index))
                state.sums = {}
                if not measured:
                    report.log(row)
                state.row = row if measured else None
            planned = last or state.step % saved == 0
            # weights that give bad steps are nothing to go back to
            if stop or last or ((planned or timed) and not state.bad):
                kept, state.over, spent = state.step, last, watch.elapsed
                manager.save(state, spent, planned=last or (planned and not stop))
                due = watch.elapsed + max(60 * settings.every.minutes, (watch.elapsed - spent) / SAVING)
                report.draw()

        early = _out_of_patience(state, settings)
        finished = state.over or budget.done(state)
        if finished:
            manager.load_final(state)
        sharding.gather()  # not if the run breaks off, when other ranks may no longer be there
        if failure is not None and raise_failure:
            raise failure
        return TrainResult(
            exit="stopped early" if early else "finished" if finished else "interrupted",
            step=state.step,
            tokens=state.tokens,
            elapsed=spent,
            best=state.best,
            best_step=state.best_step,
            signal=signals[-1] if signals else None,
            began=began,
            parts=tuple(state.parts),
            failure=failure,
        )


def _load(batches: "Prefetch", ranks: Ranks, index: int, count: int, parts: int) -> list[Share]:
    """Take this rank's batches of a step, or its parts of them, and start on those of the next, if it is as large."""
    mine = ranks.share(range(index, index + count), parts)
    following = ranks.share(range(index + count, index + 2 * count), parts)
    loaded = batches.take([i for i, *_ in mine], [i for i, *_ in following])
    shares: list[Share] = []
    for (number, place, counts), batch in zip(mine, loaded, strict=True):
        pieces = split(batch, parts)
        there = place < len(pieces)  # one of few sequences has fewer parts
        shares.append((number, place, pieces[place if there else 0], counts and there))
    return shares


def _parts(source: BatchSource, settings: Settings, ranks: Ranks) -> int:
    """Into how many parts each batch is cut, so that all ranks have something to do.

    Where its sequences belong together, as pairs that are told apart from all others do, it stays whole; it is said so.
    """
    parts = max(1, ranks.world // settings.accumulate)
    if parts == 1 or not belongs_together(source.batch(0)):
        return parts
    if ranks.first:
        idle = f"{ranks.world - settings.accumulate} of {ranks.world} ranks have nothing to do"
        log.warning("%s: these batches cannot be cut; set train.accumulate=%d", idle, ranks.world)
    return 1


def _totals(task: Task, shares: list[Share], ranks: Ranks) -> list[int]:
    """Add up the tokens and the items of each part of the loss, over a whole step and all ranks."""
    batches = [batch for *_, batch, counts in shares if counts]
    found = [task.counts(batch) for batch in batches]
    mine = [sum(batch.tokens for batch in batches), *(sum(counts[part] for counts in found) for part in task.weights)]
    return [int(total) for total in ranks.sum(mine)]


def _record(state: State, pending: PendingMetrics) -> StepMetrics:
    """Wait for the metrics of a step, and take into the state how it went."""
    metrics = pending.read()
    state.bad = state.bad + 1 if metrics.bad else 0
    state.norms.add(metrics.norm)
    state.losses.add(metrics.loss)
    if not metrics.bad:
        for name, pair in metrics.sums.items():
            _add(state, name, *pair)
    return metrics


def _roll_back(state: State, manager: CheckpointManager, report: Report) -> State:
    older = manager.roll_back(state)
    report.rewind(older.step)
    return older


def _evaluate(
    evaluate: Evaluate | None, metric: str | None, network: nn.Module, ranks: Ranks
) -> tuple[dict[str, float], Exception | None]:
    """Measure on the first rank; what goes wrong is told to all, since they would wait for one that breaks off."""
    values: dict[str, float] = {}
    failure: Exception | None = None
    if ranks.first and evaluate is not None:
        try:
            with evaluating(network), torch.no_grad():
                values = {MEASURED + name: float(value) for name, value in evaluate().items()}
            name, known = (metric or "").removeprefix("-"), ", ".join(key.removeprefix(MEASURED) for key in values)
            given = metric is None or MEASURED + name in values
            require(given, f"the evaluation gives no {name!r} for metric; it gives {known or 'nothing'}")
        except Exception as error:
            failure = error
    if ranks.any(failure is not None):
        failure = failure or ClearheadError("the evaluation failed on the first rank; see what it says")
    return values, failure


def _is_better(values: dict[str, float], metric: str, state: State, ranks: Ranks) -> bool:
    """Compare the metric with the best so far and note the result in the state."""
    name, sign = metric.removeprefix("-"), -1.0 if metric.startswith("-") else 1.0
    (value,) = ranks.from_first([values.get(MEASURED + name, 0.0)])
    better = not math.isnan(value) and (state.best is None or sign * value > sign * state.best)
    state.stale = 0 if better else state.stale + 1
    if better:
        state.best, state.best_step = value, state.step
    return better


def _out_of_patience(state: State, settings: Settings) -> bool:
    return settings.patience is not None and state.stale >= settings.patience


def _row(state: State, task: Task, rate: float, norm: float, epoch: float) -> dict[str, float]:
    """Give the means since the last row."""
    means = {name: _mean(value, count) for name, (value, count) in state.sums.items()}
    parts = {part: weight for part, weight in task.weights.items() if part in means}
    loss = {"loss": sum(weight * means[part] for part, weight in parts.items())} if parts else {}
    place = {"step": state.step, "epoch": epoch, "tokens": state.tokens, "elapsed": state.elapsed}
    return {**place, **loss, **means, "norm": norm, "learning_rate": rate}


def _add(state: State, name: str, value: float, count: float) -> None:
    before = state.sums.get(name, (0.0, 0.0))
    state.sums[name] = [before[0] + value, before[1] + count]


def _mean(value: float, count: float) -> float:
    return value / count if count else 0.0


class Prefetch:
    """A source with a thread that works ahead; batches are the same with or without it.

    `pin` puts them into page-locked memory, from which a copy to the GPU need not be waited for.
    """

    def __init__(self, source: BatchSource, *, pin: bool) -> None:
        self._source = source
        self._pin = pin
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._coming: dict[int, Future[Batch]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def turn_to(self, source: BatchSource) -> None:
        """Take the batches to come from another source; those of this one that were begun are dropped."""
        if source is not self._source:
            self._source, self._coming = source, {}

    def take(self, wanted: Iterable[int], expected: Iterable[int] = ()) -> list[Batch]:
        """Give batches by number and start on those expected next; a wrong guess costs time, nothing else."""
        now = [self._begin(index) for index in wanted]
        self._coming = {index: self._begin(index) for index in expected}
        return [future.result() for future in now]

    def _begin(self, index: int) -> Future[Batch]:
        return self._coming.get(index) or self._thread.submit(self._make, self._source, index)

    def _make(self, source: BatchSource, index: int) -> Batch:
        batch = source.batch(index)
        return batch.map(Tensor.pin_memory) if self._pin else batch


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """List the signals that ask the run to stop; a second Ctrl-C interrupts at once. Only the main thread gets any."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def note(number: int, _frame: FrameType | None) -> None:
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
