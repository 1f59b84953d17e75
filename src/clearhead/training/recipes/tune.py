"""Search for the values of a recipe that give the best metric on the development data, by Optuna."""

import json
import logging
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.data.rng import Stream, rng
from clearhead.errors import BadConfig, BadInput, ClearheadError, require
from clearhead.io import Record, check_free_folder, claimed, file_digest, optional, read_object, staged, write_json
from clearhead.training.checkpoint import DIGEST, checkpoints, compare, refuse
from clearhead.training.loop import TrainResult
from clearhead.training.monitor import CURVE, METRICS
from clearhead.training.recipes.run import RUN
from clearhead.training.settings import LENGTHS, override, values_of

log = logging.getLogger(__name__)

SEARCH = "search"  # in the run's folder: what is searched, the journal of trials, and a folder for each
_MADE_OF, _JOURNAL = "search.json", "journal.jsonl"
_WRITTEN = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_KINDS = ("uniform", "loguniform", "integer", "choice")


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from `low` to `high`, both included: of equal weight, or of equal weight by their logarithms."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        told = f"a range goes from a smaller number to a larger one, not from {self.low:g} to {self.high:g}"
        require(-math.inf < self.low < self.high < math.inf, told)
        require(not self.log or self.low > 0, f"loguniform needs a lower end above 0, got {self.low:g}")

    def corners(self) -> tuple[float, float]:
        """Values that must be valid, so that all between are."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of these values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        require(len(self.values) > 1, f"a choice is of two values or more, got {list(self.values)}")
        plain = all(value is None or isinstance(value, str | int | float) for value in self.values)
        require(plain, f"a choice is of numbers, texts, true, false or none, got {list(self.values)}")

    def corners(self) -> tuple[Any, ...]:
        """Values that must be valid."""
        return self.values


Space = Mapping[str, Range | Choice]


@dataclass(frozen=True, kw_only=True)
class Trial(Record):
    """One set of values, and what was measured with it; a trial that failed says why instead."""

    number: int
    params: dict[str, Any]
    value: float | None
    figures: dict[str, float] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult(Record):
    """All trials in their order, and the best of them, whose model is in the folder.

    `interrupted` is how the trial that was at work ended, where the search was told to stop.
    """

    metric: str
    trials: tuple[Trial, ...]
    best: Trial | None
    interrupted: TrainResult | None = None


def parse_search(written: Iterable[str]) -> dict[str, Range | Choice]:
    """Read `key=loguniform(1e-5,5e-4)`, `=uniform(a,b)`, `=integer(a,b)` or `=choice(a,b,…)`, as they are typed."""
    space: dict[str, Range | Choice] = {}
    for item in written:
        name, separator, text = item.partition("=")
        found = _WRITTEN.fullmatch(text.strip())
        if not separator or not name or found is None or found[1] not in _KINDS:
            ways = "loguniform(1e-5,5e-4), uniform(0,0.3), integer(1,4) or choice(4,8)"
            raise BadConfig(f"--search {item!r} is not key=space, such as train.learning_rate=…; a space is {ways}")
        require(name not in space, f"--search names {name} twice; keep one of the two")
        values = [_value(one) for one in found[2].split(",")]
        try:
            space[name] = Choice(values=tuple(values)) if found[1] == "choice" else _range(found[1], values)
        except BadConfig as error:
            raise BadConfig(f"--search {item!r}: {error}") from None
    return space


def _value(written: str) -> Any:
    text = written.strip()
    try:
        return json.loads(text)
    except ValueError:
        return {"none": None}.get(text.lower(), text)


def _range(kind: str, values: Sequence[Any]) -> Range:
    numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    require(len(numbers) == len(values) == 2, f"{kind} has a lower and an upper end, got {list(values)}")
    whole = kind == "integer"
    require(not whole or all(float(one).is_integer() for one in numbers), f"the ends are no integers: {numbers}")
    return Range(low=numbers[0], high=numbers[1], log=kind == "loguniform", whole=whole)


def tune(
    train: Callable[..., Any],
    plan: Any,
    space: Space,
    out: Path,
    *,
    trials: int,
    metric: str | None = None,
    made_of: Mapping[str, object] | None = None,
    overwrite: bool = False,
    restart: bool = False,
    watch: Callable[[Trial, int], None] = lambda trial, of: None,
) -> SearchResult:
    """Train `trials` times with values out of `space`, and leave the best model in `out`; a stopped search goes on.

    `train(folder, recipe=…)` is a recipe with its data, which gives a result with `metrics`. `metric` is one of these
    ("-loss": smaller is better), by default `plan.train.metric`, else the first. A trial that was stopped goes on where
    it was; one that diverges, or finds no memory, fails, and the others go on. Values that were tried before are not
    trained again. `made_of` says what else tells two searches apart. `watch` is told of each trial that is over.
    """
    require(trials >= 1, f"a search has at least 1 trial, got {trials}", BadInput)
    require(bool(space), "nothing is searched; give --search with a key of the recipe", BadInput)
    optuna = optional("optuna", "a search for hyper-parameters", extra="tune")
    for name, one in space.items():  # before anything is spent
        for value in one.corners():
            _with(plan, {name: value})
    asked = metric or plan.train.metric
    folder = out / RUN / SEARCH
    identity = {
        **(made_of or {}),
        **{f"the search of {name}": str(one) for name, one in space.items()},
        "the metric": asked,
        **values_of(plan),
    }
    with claimed(out, run=True), _quiet(optuna):
        own = (folder / _MADE_OF).is_file()
        if restart:
            shutil.rmtree(folder, ignore_errors=True)
        _check_own(out, folder, identity, overwrite=overwrite or own)
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / _JOURNAL)))
        study = optuna.create_study(
            storage=storage,
            study_name=SEARCH,
            load_if_exists=True,
            direction="minimize" if (asked or "").startswith("-") else "maximize",
        )
        interrupted = None
        while interrupted is None and (open_trial := _next(optuna, study, space, trials, plan.train.seed)) is not None:
            interrupted = _run_trial(optuna, study, open_trial, train, plan, out, asked)
            if interrupted is None:
                watch(_trial(study.trials[open_trial.number]), trials)
                _keep_best(study, folder, out)
        found = tuple(_trial(one) for one in study.trials if _is_over(one))
        best = _best(study)
        if interrupted is None and best is None:
            told = found[-1].failure if found else None
            raise ClearheadError(f"all {len(found)} trials failed, the last one: {told}")
        if interrupted is None:
            _publish(best, folder, out, overwrite=overwrite)
    name = (asked or next(iter(best.user_attrs["figures"]), "") if best is not None else asked or "").removeprefix("-")
    return SearchResult(metric=name, trials=found, best=None if best is None else _trial(best), interrupted=interrupted)


def _with(plan: Any, params: Mapping[str, Any]) -> Any:
    """The recipe with these values; a length takes the place of the recipe's own."""
    lengths = {f"train.{name}": None for name in LENGTHS} if any(f"train.{one}" in params for one in LENGTHS) else {}
    return override(plan, lengths | dict(params))


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Let Optuna tell only what goes wrong: trials are told of by `watch`."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _check_own(out: Path, folder: Path, identity: Mapping[str, Any], *, overwrite: bool) -> None:
    """Go on in the folder of the same search alone."""
    if (folder / _MADE_OF).is_file():
        refuse(out, compare(read_object(folder / _MADE_OF), json.loads(json.dumps(identity))))
        return
    other = f"{out} holds a run that is no search; choose another folder"
    require(not checkpoints(out / RUN), other, BadInput)
    check_free_folder(out, run=True, overwrite=overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with staged(folder, own=True) as stage:
        write_json(dict(identity), stage / _MADE_OF)


def _next(optuna: Any, study: Any, space: Space, trials: int, seed: int) -> Any:
    """The trial that was stopped, or a new one; None when there were enough.

    The sampler is made anew for each trial, from the seed and its number: a search that was stopped proposes what an
    undisturbed one would have.
    """
    running = optuna.trial.TrialState.RUNNING
    for one in study.get_trials(states=(running,)):
        if one.params.keys() == space.keys():
            return one
        study.tell(one.number, state=optuna.trial.TrialState.FAIL)  # killed before its values were written
    count = sum(map(_is_over, study.trials))
    if count >= trials:
        return None
    study.sampler = optuna.samplers.TPESampler(seed=int(rng(Stream.SEARCH, seed, count).integers(2**31)))
    asked = study.ask(fixed_distributions={name: _distribution(optuna, one) for name, one in space.items()})
    return study.trials[asked.number]


def _is_over(one: Any) -> bool:
    """Whether a trial gave something, or failed for a reason of its own."""
    return bool(one.state.is_finished() and one.user_attrs)


def _distribution(optuna: Any, one: Range | Choice) -> Any:
    kinds = optuna.distributions
    if isinstance(one, Choice):
        return kinds.CategoricalDistribution(one.values)
    if one.whole:
        return kinds.IntDistribution(int(one.low), int(one.high))
    return kinds.FloatDistribution(one.low, one.high, log=one.log)


def _run_trial(
    optuna: Any, study: Any, trial: Any, train: Callable[..., Any], plan: Any, out: Path, metric: str | None
) -> TrainResult | None:
    """Train with the values of a trial and write down what it gave; how it was interrupted, if it was."""
    live, state = optuna.trial.Trial(study, trial._trial_id), optuna.trial.TrialState
    known = next((one for one in study.get_trials(states=(state.COMPLETE,)) if one.params == trial.params), None)
    figures, failure = ({}, "") if known is None else (known.user_attrs["figures"], "")
    if known is None:
        place = _folder(out / RUN / SEARCH, trial.number, out)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            outcome = train(place, recipe=_with(plan, trial.params))
        except ClearheadError as error:
            if type(error) is not ClearheadError:  # the user's to mend, and the same for every trial
                raise
            failure = str(error)
        else:
            if outcome.result.exit == "interrupted":
                result: TrainResult = outcome.result
                return result
            figures = dict(outcome.metrics)
    name = (metric or next(iter(figures), "")).removeprefix("-")
    value = figures.get(name, math.nan)
    if math.isnan(value):
        failure = failure or f"the metric {name!r} is not defined"
        live.set_user_attr("failure", failure)
        log.warning("trial %d failed: %s", trial.number, failure)
        study.tell(trial.number, state=state.FAIL)
        return None
    live.set_user_attr("figures", figures)
    study.tell(trial.number, value)
    return None


def _folder(search: Path, number: int, out: Path) -> Path:
    """Where a trial trains: in a folder of the name that its card will tell."""
    return search / str(number) / out.resolve().name


def _trial(one: Any) -> Trial:
    figures, failure = one.user_attrs.get("figures", {}), one.user_attrs.get("failure")
    return Trial(number=one.number, params=dict(one.params), value=one.value, figures=figures, failure=failure)


def _best(study: Any) -> Any:
    done = [one for one in study.trials if one.value is not None]
    sign = -1 if study.direction.name == "MINIMIZE" else 1
    return max(done, key=lambda one: sign * one.value, default=None)  # the first of equal ones


def _keep_best(study: Any, folder: Path, out: Path) -> None:
    """Keep the model of the best trial alone, so that a search takes the room of two; of the others their rows stay."""
    best = _best(study)
    for one in study.trials:
        if one.state.is_finished() and (best is None or one.number != best.number):
            _strip(_folder(folder, one.number, out))


def _strip(place: Path) -> None:
    """Remove a trial's model and checkpoints; its metrics, and what trackers wrote, stay."""
    held = [one for one in place.glob("*") if one.name != RUN]
    for path in [*held, *(found for kind in ("step", "best") for found in checkpoints(place / RUN, kind))]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _publish(best: Any, folder: Path, out: Path, *, overwrite: bool) -> None:
    """Copy the best trial's model, with its card and its curve, to where the user wants it; it may be there already."""
    place = _folder(folder, best.number, out)
    if not any(one.name != RUN for one in place.glob("*")):
        return
    with staged(out, own=True, overwrite=overwrite) as stage:
        shutil.copytree(place, stage, dirs_exist_ok=True, ignore=shutil.ignore_patterns(RUN))
        (stage / RUN).mkdir()
        for name in (METRICS, CURVE):
            if (place / RUN / name).is_file():
                shutil.copy2(place / RUN / name, stage / RUN / name)
    _strip(place)


def data_digests(files: Mapping[str, str | Path]) -> dict[str, dict[str, str]]:
    """Name the files that a search learns from, by what they are, with the SHA-256 of those that are on disk."""
    return {
        f"the {name} data": {"name": str(file), DIGEST: file_digest(Path(file)) if Path(file).is_file() else str(file)}
        for name, file in files.items()
    }
