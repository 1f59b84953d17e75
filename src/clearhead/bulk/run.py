"""The driver: hands out the shards that are not done, replaces workers that are lost, and tells what came of it."""

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.bulk.engines import Engine, Event, begun, done, make_engine
from clearhead.bulk.job import SHARD_ROWS, Job, prepare
from clearhead.bulk.outputs import Format, count
from clearhead.bulk.worker import ERROR
from clearhead.errors import BadInput, ClearheadError, require
from clearhead.io import Progress, Record, claimed

_TRIES = 3  # workers that a shard may cost
_TICK = 0.5  # seconds between two looks at workers that say nothing


@dataclass(frozen=True, slots=True)
class Failed(Record):
    """A shard that could not be done: its number, the file and line it begins with, and why."""

    shard: int
    source: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class BulkResult(Record):
    """What a run has done: of all shards, `done` in this call; `rows` and `errors` (rows without a result) are of all.

    Under torchrun they are those of one rank.
    """

    folder: str
    shards: int
    done: int
    rows: int
    errors: int
    failed: tuple[Failed, ...]


def run_bulk(
    use: str,
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    ids: str | None = None,
    keep: Sequence[str] = (),
    how: Format = "parquet",
    shard_rows: int = SHARD_ROWS,
    restart: bool = False,
    on: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> BulkResult:
    """Do a use on all rows of files, into a folder, or go on with that; `options` are those of `Worker`.

    >>> from clearhead.bulk.run import run_bulk
    >>> found = run_bulk("embed", "texts.jsonl", "vectors", how="jsonl", workers=1)
    >>> found.rows, found.errors
    (3, 0)
    """
    names = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    with opened({"use": use, **options}, names, out, ids, keep, how, shard_rows, restart) as job:
        return run(job, on=on, workers=workers, progress=progress)


@contextmanager
def opened(
    worker: dict[str, Any],
    inputs: Sequence[str | Path],
    out: str | Path,
    ids: str | None = None,
    keep: Sequence[str] = (),
    how: Format = "parquet",
    shard_rows: int = SHARD_ROWS,
    restart: bool = False,
) -> Iterator[Job]:
    """A job whose folder is this process's own; of ranks, each has its own part of it."""
    rank, ranks = place_among_ranks()
    told = "ranks begin together, and none may empty the folder of the others; remove it first"
    require(not restart or ranks == 1, told, BadInput)
    with claimed(Path(out) if rank == 0 else Path(out) / f".rank-{rank}"):
        job = prepare(worker, inputs, out, ids=ids, keep=keep, how=how, shard_rows=shard_rows, restart=restart)
        try:
            yield job
        except ClearheadError:
            if ranks == 1:
                job.forget()
            raise


def place_among_ranks() -> tuple[int, int]:
    """Which of how many processes this is, as torchrun or the user of an array of jobs says."""
    try:
        rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        rank = ranks = -1
    told = f"RANK={os.environ.get('RANK')!r} and WORLD_SIZE={os.environ.get('WORLD_SIZE')!r} are no place among ranks"
    require(0 <= rank < ranks, f"{told}; RANK counts from 0 and is less than WORLD_SIZE", BadInput)
    return rank, ranks


def left_over(job: Job) -> list[int]:
    """The shards that are still to be done, of a rank its own: the n-th of every WORLD_SIZE."""
    rank, ranks = place_among_ranks()
    there = job.finished()
    return [number for number in range(len(job.shards)) if number % ranks == rank and number not in there]


def run(job: Job, *, on: str | None = None, workers: int | None = None, progress: Progress | None = None) -> BulkResult:
    """Do what is left of a job; `progress` is told how many more rows are done, and how many must be done again."""
    rank, ranks = place_among_ranks()
    where = on or ("torchrun" if ranks > 1 else "local")
    together = where == "torchrun"
    require(together or ranks == 1, f"--on {where} has its own workers; start it without torchrun", BadInput)
    require(workers is None or workers > 0, f"{workers} workers do nothing; give 1 or more", BadInput)
    require(workers is None or not together, "ranks are the workers; leave --workers out", BadInput)
    before, waiting = job.finished(), left_over(job)
    failed: list[Failed] = []
    rows = errors = 0
    if waiting and together:
        rows, errors, failed = _alone(job, waiting, progress)
    elif waiting:
        engine, room = make_engine(where, job)
        try:
            rows, errors, failed = _hand_out(job, engine, waiting, min(workers or room, len(waiting)), progress)
        finally:
            engine.stop()
            job.sweep()
    own = [number for number in range(len(job.shards)) if number % ranks == rank]
    for number in own:
        if number in before:
            more, wrong = count(job.part(number), _error_column(job))
            rows, errors = rows + more, errors + wrong
    return BulkResult(job.out, len(own), len(waiting) - len(failed), rows, errors, tuple(failed))


def _alone(job: Job, waiting: Sequence[int], progress: Progress | None) -> tuple[int, int, list[Failed]]:
    """Do shards in this process, which is one of torchrun's."""
    rows, errors, failed = 0, 0, list[Failed]()
    event = begun(job)
    for number in waiting:
        require(event.kind != "stop", event.why, BadInput)
        event = done(job, number, progress)
        rows, errors = rows + event.rows, errors + event.errors
        if event.kind == "failed":
            failed.append(_failed(job, number, event.why))
    require(event.kind != "stop", event.why, BadInput)
    return rows, errors, failed


def _error_column(job: Job) -> str:
    """The column that says why a row has no result."""
    return f"{job.worker.get('result_prefix', '')}{ERROR}"


def _failed(job: Job, number: int, why: str) -> Failed:
    shard = job.shards[number]
    return Failed(number, job.sources[shard.source].name, shard.line, why)


def _hand_out(
    job: Job, engine: Engine, shards: Sequence[int], workers: int, progress: Progress | None
) -> tuple[int, int, list[Failed]]:
    """Give every worker shard after shard, until all are done or given up: rows, errors, and what was given up."""
    waiting, doing, told = deque(shards), dict[int, int](), Counter[int]()
    cost: Counter[int] = Counter()  # workers that were lost on a shard
    unready = 0  # workers that were lost before they could be given one, since the last that was given one
    rows, errors, failed = 0, 0, list[Failed]()
    advance = progress or (lambda more: None)
    for worker in range(workers):
        engine.start(worker)
    while waiting or doing:
        for worker, event in engine.events(_TICK):
            if event.kind == "rows":
                advance(event.rows)
                told[worker] += event.rows
                continue
            require(event.kind != "stop", event.why, BadInput)
            number = doing.pop(worker, None)
            lost = event.kind == "lost"
            if lost and number is not None and job.part(number).exists():  # it was lost before it could say so
                event = Event("done", *count(job.part(number), _error_column(job)))
            if number is not None:
                advance((job.shards[number].rows if event.kind == "done" else 0) - told.pop(worker, 0))
            rows, errors = rows + event.rows, errors + event.errors
            if event.kind == "failed" and number is not None:
                failed.append(_failed(job, number, event.why))
            if event.kind == "lost" and number is None:
                unready += 1
                told_why = f"no worker can begin ({event.why}); look above for what it said"
                require(unready < _TRIES, told_why, ClearheadError)
            elif event.kind == "lost" and number is not None:
                cost[number] += 1
                if cost[number] < _TRIES:
                    waiting.append(number)
                else:
                    failed.append(_failed(job, number, f"{_TRIES} workers were lost on it; {event.why}"))
            if lost and waiting:
                engine.start(worker)
            elif waiting:
                unready, doing[worker] = 0, waiting.popleft()
                engine.give(worker, doing[worker])
    return rows, errors, failed
