"""A run on disk: which checkpoints are kept, where it resumes, and what it goes back to."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from clearhead.data.rng import DATA_ORDER
from clearhead.errors import BadCheckpoint, BadConfig, BadInput, ClearheadError, NotFound, filled, require
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.io import read_object, staged, staged_whole, write_json, write_text
from clearhead.training.distributed import Ranks, Sharding, job
from clearhead.training.monitor import RunningStats
from clearhead.training.optim import load_optimisers, optimiser_tensors
from clearhead.training.settings import LENGTHS, Settings

log = logging.getLogger(__name__)

TENSORS = "training.safetensors"
NUMBERS = "state.json"
DIGEST = "sha256"
ROLLBACKS = 2  # before giving up
_UNFINISHED = ".unfinished-"
_DAMAGED = "damaged-"
_BEGUN = "begun.json"  # which job of torchrun began anew here
_WAYS_OUT = "choose another folder, or begin anew in this one with --restart"
_SHOWN = 6  # names in a message
_SPENT = ("index", "pieces", "elapsed", "setup", "pace", "closing")  # of the state, when a run goes back
_FREE = {"every", "compile", "checkpointing"}  # these may change when a run goes on; every.evaluate may not

OnSave = Callable[[Path], None]


@dataclass(kw_only=True)
class State:
    """Where a run is. No random state: dropout is seeded by the number of the batch."""

    step: int = 0
    index: int = 0  # of the next batch; not step × accumulate, because batches can be passed over
    tokens: int = 0
    pieces: int = 1  # into how many a micro-batch is cut, because memory ran out
    elapsed: float = 0.0  # seconds of training, in all sessions
    setup: float = 0.0  # seconds of it spent on the first step of each session, which compiles
    pace: float = 0.0  # seconds of the last step that was not a session's first
    closing: float = 0.0  # seconds of the longest evaluation and saving
    sums: dict[str, list[float]] = field(default_factory=dict)  # since the last log: name -> [sum, count]
    norms: RunningStats = field(default_factory=RunningStats)
    losses: RunningStats = field(default_factory=RunningStats)
    bad: int = 0  # steps skipped in a row
    rollbacks: int = 0
    best: float | None = None
    best_step: int | None = None
    stale: int = 0  # evaluations since the best
    row: dict[str, Any] | None = None  # of a step that is saved and still to be evaluated, for the log
    over: bool = False  # whether this is the last step of the run
    parts: list[str] = field(default_factory=list)  # how long the runs were that this one went on from

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read the fields as `asdict` gave them; JSON keeps every bit of a float."""
        try:
            return filled(cls, content, NUMBERS)
        except BadConfig as error:
            raise BadCheckpoint(
                f"the training state does not fit this version of clearhead ({error}); start in another folder"
            ) from None


@dataclass(frozen=True)
class CheckpointManager:
    """Saves and loads; the first rank writes, all read."""

    folder: Path
    settings: Settings
    fingerprint: Mapping[str, object]
    network: nn.Module
    optimisers: list[Optimizer]
    ranks: Ranks
    sharding: Sharding
    on_save: OnSave | None

    def resume(self, done: Callable[[State], bool], *, restart: bool = False, more: bool = False) -> State:
        """Load the newest checkpoint that is whole, if there is one; nothing is written before it is known to fit.

        With `restart`, those that are there are removed instead. With `more`, a run that is over goes on if these
        settings are longer, which `done` tells.
        """
        if restart and not self._is_begun():
            self._remove("step", lambda _: True)
            self._remove("best", lambda _: True)
            self.ranks.wait()
            if self.ranks.first and job() is not None:
                write_text(json.dumps({"job": job()}), self.folder / _BEGUN, overwrite=True)
        _check_more(self.folder, more=more)
        state, damaged = State(), dict[Path, ClearheadError]()
        for path in reversed(checkpoints(self.folder)):
            try:
                numbers, tensors = read_numbers(path), read_tensors(path / TENSORS)
            except (BadCheckpoint, NotFound) as error:
                damaged[path] = error
                continue
            lengths = differences(numbers, self.settings, self.fingerprint).keys() & set(LENGTHS)
            self._check_same(numbers, more=more)
            state = self._load(path, numbers, tensors)
            if lengths:
                state = _go_on(state, numbers["settings"])
                asked = _length(self.settings.to_json())
                longer = f"the run in {self.folder} is over after {state.parts[-1]}, which {asked} is no longer than"
                require(not done(state), f"{longer}; ask for more")
            break
        lost = f"no checkpoint in {self.folder} is whole ({'; '.join(map(str, damaged.values()))})"
        require(state.step > 0 or not damaged, f"{lost}; {_WAYS_OUT}", BadCheckpoint)
        (step,) = self.ranks.from_first([state.step])
        held = f"{self.folder} holds step {state.step} for rank {self.ranks.rank} and step {step:.0f} for rank 0"
        require(step == state.step, f"{held}; give a folder on a disk that all ranks share", BadInput)
        self._clean(damaged, state)
        return state

    def _is_begun(self) -> bool:
        """Whether this job of torchrun has begun anew already, and was only started again."""
        begun = self.folder / _BEGUN
        same = self.ranks.first and begun.is_file() and read_object(begun).get("job") == job() is not None
        return self.ranks.any(same)

    def _clean(self, damaged: Mapping[Path, ClearheadError], state: State) -> None:
        """Put aside what cannot be read, and remove what a killed run left."""
        if self.ranks.first:
            for path, error in damaged.items():
                aside = path.with_name(_DAMAGED + path.name)
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
                why = str(error).rstrip(".")
                log.warning("%s; going on from step %d instead, and kept it as %s", why, state.step, aside.name)
            for path in self.folder.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(path, ignore_errors=True)
        # an evaluation that comes again finds its best again
        self._remove("best", lambda step: step > state.step or (step == state.step and state.row is not None))

    def save(self, state: State, elapsed: float, *, planned: bool) -> None:
        """Write a checkpoint and remove those no longer needed.

        One that was not planned, which Ctrl-C made, leaves what an undisturbed run would go back to.
        """
        states = optimiser_tensors(self.optimisers, self.network)
        self._write("step", replace(state, elapsed=elapsed), states)
        last = checkpoints(self.folder)[-self.settings.every.keep :]
        wanted = [*last, *self._to_average(state), *([] if planned else self._to_go_back_to(state))]
        steps = {step_of(path) for path in wanted}
        self._remove("step", lambda step: step not in steps)
        self._remove_bests()
        self.ranks.wait()

    def conclude(self, state: State, elapsed: float, *, saved: bool) -> None:
        """Note how the evaluation of this step went, in its checkpoint if it is `saved` already."""
        if not saved:
            self.save(state, elapsed, planned=True)
            return
        target = self._path("step", state)
        if self.ranks.first:
            with self._saving(target), staged(target, own=True) as stage:
                self._write_numbers(replace(state, elapsed=elapsed), stage)
        self._remove_bests()
        self.ranks.wait()

    def _remove_bests(self) -> None:
        """Keep the best weights that some checkpoint remembers: a run may have to go on from any of them."""
        known = set()
        for path in checkpoints(self.folder) if self.ranks.first else ():
            try:
                known.add(read_numbers(path)["state"].get("best_step"))
            except ClearheadError:  # it is damaged, and will be found so when it is needed
                continue
        self._remove("best", lambda step: step not in known)

    def save_best(self, state: State) -> None:
        """Write the weights of the best evaluation so far."""
        self._write("best", state, {})
        self.ranks.wait()

    def load_final(self, state: State) -> None:
        """Put into the network the weights of the best evaluation, or the mean of the last, if that is asked for."""
        if self.settings.metric is not None and state.best_step not in (None, state.step):
            self._load_mean([self.folder / f"best-{state.best_step:08d}"])
        elif self.settings.every.average > 1:  # never with a metric
            self._load_mean(self._to_average(state))

    def roll_back(self, state: State) -> State:
        """Go back to the last planned checkpoint before the bad steps, and on with the batches that come next.

        One that Ctrl-C made is passed over, so that an interrupted run goes the way of an undisturbed one.
        """
        planned = self._to_go_back_to(state)
        if not planned or state.rollbacks == ROLLBACKS:
            raise ClearheadError(
                f"training diverged at step {state.step}: {state.bad} steps in a row had a loss or gradient that was "
                f"not finite or far too large, {state.rollbacks} times gone back; lower learning_rate (it is "
                f"{self.settings.learning_rate}), lengthen warmup, or look at the data near batch {state.index}"
            )
        self.ranks.wait()
        path = planned[-1]
        older = self._load(path, read_numbers(path), read_tensors(path / TENSORS))
        self._remove("step", lambda step: step > older.step)
        self.ranks.wait()
        return replace(older, rollbacks=state.rollbacks + 1, **{name: getattr(state, name) for name in _SPENT})

    def _remove(self, kind: str, unwanted: Callable[[int], bool]) -> None:
        """Remove checkpoints by their steps, so that a half-removed one is never taken for a whole one."""
        for path in checkpoints(self.folder, kind) if self.ranks.first else ():
            if unwanted(step_of(path)):
                stage = path.with_name(f"{_UNFINISHED}removed-{path.name}")
                path.rename(stage)
                shutil.rmtree(stage, ignore_errors=True)

    def _to_go_back_to(self, state: State) -> list[Path]:
        steps = range(0, state.step - state.bad + 1, self.settings.every.save)
        return [path for path in checkpoints(self.folder) if step_of(path) in steps][-1:]

    def _to_average(self, state: State) -> list[Path]:
        """The last checkpoints that were planned, this step's included; one that Ctrl-C made is passed over."""
        every = self.settings.every
        found = [(step_of(path), path) for path in checkpoints(self.folder)]
        return [path for step, path in found if step % every.save == 0 or step == state.step][-every.average :]

    def _write(self, kind: str, state: State, states: dict[str, Tensor]) -> None:
        """Write a checkpoint folder with the optimisers' states; `on_save` may add files, such as the model for use."""
        target = self._path(kind, state)
        with self.sharding.whole():
            tensors = network_tensors(self.network)
            self._check_finite(tensors, state)
            if not self.ranks.first or target.exists():  # the same step of the same run: it holds the same
                return
            with self._saving(target), staged_whole(target, self.folder / f"{_UNFINISHED}{target.name}") as stage:
                named = {f"network.{name}": tensor for name, tensor in tensors.items()}
                named |= {f"optimiser.{name}": tensor for name, tensor in states.items()}
                write_tensors(named, stage / TENSORS)
                self._write_numbers(state, stage)
                if self.on_save is not None:
                    self.on_save(stage)

    def _path(self, kind: str, state: State) -> Path:
        return self.folder / f"{kind}-{state.step:08d}"  # names sort by step

    def _write_numbers(self, state: State, stage: Path) -> None:
        run = {
            "data_order": DATA_ORDER,
            "state": asdict(state),
            "settings": self.settings.to_json(),
            "made_of": self.fingerprint,
        }
        write_json({DIGEST: _digest(run), "run": run}, stage / NUMBERS, indent=1)

    @contextmanager
    def _saving(self, target: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, SafetensorError) as error:
            raise BadInput(
                f"cannot save to {target}: {error}; earlier checkpoints are whole: make room and start again to resume"
            ) from error

    def _check_finite(self, tensors: dict[str, Tensor], state: State) -> None:
        """Refuse weights that no use and no further step could mend; what was saved before stays."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ClearheadError(
                    f"training diverged at step {state.step}: {name} holds numbers that are not finite, so that "
                    f"nothing was saved of this step; lower learning_rate (it is {self.settings.learning_rate})"
                )

    def _load(self, path: Path, numbers: dict[str, Any], tensors: dict[str, Tensor]) -> State:
        """Put a checkpoint into the network and the optimisers."""
        state = State.from_json(numbers["state"])
        with self.sharding.whole():
            load_network(self.network, _under("network.", tensors), path)
        load_optimisers(self.optimisers, self.network, _under("optimiser.", tensors))
        return state

    def _check_same(self, numbers: dict[str, Any], *, more: bool) -> None:
        refuse_another(self.folder, numbers, self.settings, self.fingerprint, more=more)

    def _load_mean(self, paths: Sequence[Path]) -> None:
        """Put the mean of checkpoints' weights into the network; what is no real number comes from the last."""
        mean: dict[str, Tensor] = {}
        for path in paths:
            for name, tensor in _under("network.", read_tensors(path / TENSORS)).items():
                # doubles, because many small differences are added up
                share = tensor.double() / len(paths) if tensor.is_floating_point() else tensor
                mean[name] = mean[name] + share if name in mean and tensor.is_floating_point() else share
        with self.sharding.whole():
            load_network(self.network, mean, paths[-1])


def check_same(folder: Path, settings: Settings, fingerprint: Mapping[str, object], *, more: bool = False) -> None:
    """Refuse a folder that holds another run, before anything is spent or written."""
    _check_more(folder, more=more)
    for path in reversed(checkpoints(folder)):
        try:
            numbers = read_numbers(path)
        except (BadCheckpoint, NotFound):  # `CheckpointManager.resume` passes over it too, and says so
            continue
        refuse_another(folder, numbers, settings, fingerprint, more=more)
        return


def _check_more(folder: Path, *, more: bool) -> None:
    there = not more or bool(checkpoints(folder))
    require(there, f"{folder} holds no run to go on from; leave --more out, or name another folder", BadInput)


def refuse_another(
    folder: Path, numbers: dict[str, Any], settings: Settings, fingerprint: Mapping[str, object], *, more: bool
) -> None:
    """Refuse a checkpoint of another run, and say in what it differs; with `more`, one that is over may be shorter."""
    began = numbers["data_order"]
    require(
        began == DATA_ORDER,
        f"the run in {folder} draws its data in order {began}, this version of clearhead in order "
        f"{DATA_ORDER}; end the run with the version that began it, or {_WAYS_OUT}",
    )
    found = differences(numbers, settings, fingerprint)
    if found.keys() <= set(LENGTHS) and numbers["state"].get("over"):
        told = f"the run in {folder} is over after {_length(numbers['settings'])}, and {_length(settings.to_json())}"
        hint = "go on from its end with --more, choose another folder, or begin anew in this one with --restart"
        require(more or not found, f"{told} is asked for; {hint}")
        return
    refuse(folder, found)


def refuse(folder: Path, found: Mapping[str, str]) -> None:
    """Refuse a folder whose run differs, if it does."""
    some = [f"{name}: {difference}" for name, difference in found.items()]
    more = f"; and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    told = f"{folder} holds another run, which differs in {'; '.join(some[:_SHOWN])}{more}"
    require(not found, f"{told}. Give what it began with, {_WAYS_OUT}")


def differences(numbers: dict[str, Any], settings: Settings, fingerprint: Mapping[str, object]) -> dict[str, str]:
    """Tell what is not as it was when a checkpoint was written: by name, what it is and what it was."""
    return compare(_flat(numbers["settings"], numbers["made_of"]), _flat(settings.to_json(), fingerprint))


def compare(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Tell what differs, by name; of what has a "sha256", that alone is compared, and its "name" is told."""
    names = [name for name in {**then, **now} if _identity(then.get(name)) != _identity(now.get(name))]
    return {name: _told(_shown(then.get(name)), _shown(now.get(name))) for name in names}


def _flat(settings: dict[str, Any], made_of: Mapping[str, object]) -> dict[str, Any]:
    fixed = {name: value for name, value in settings.items() if name not in _FREE}
    return {**json.loads(json.dumps(made_of)), **fixed, "every.evaluate": settings["every"].get("evaluate")}


def _identity(value: Any) -> Any:
    """What is compared: of data, its digest and not its name."""
    return value.get(DIGEST) if isinstance(value, dict) else value


def _told(old: str, new: str) -> str:
    return f"{new} instead of {old}" if old != new else f"{new} is not what it was"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name"))
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
        return ", ".join(map(str, value[:_SHOWN])) + more
    return "none" if value is None else str(value)


def _length(settings: dict[str, Any]) -> str:
    """How long a run is, as the settings say it: "epochs = 3.0"."""
    return next((f"{name} = {settings[name]}" for name in LENGTHS if settings.get(name) is not None), "nothing")


def _go_on(state: State, settings: dict[str, Any]) -> State:
    """The state of a run that was over, and is to go on for longer than those settings said."""
    part = f"{_length(settings)} ({state.step:,} steps)"
    return replace(state, over=False, stale=0, parts=[*state.parts, part])


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """The schema of state.json; `State` is its own."""

    data_order: int
    state: dict[str, Any]
    settings: dict[str, Any]
    made_of: dict[str, Any]


def read_numbers(path: Path) -> dict[str, Any]:
    """Read what a checkpoint says of its run, and check it against the digest that it carries."""
    content = read_object(path / NUMBERS)
    old = f"the run in {path.parent} was begun by a version of clearhead that did not note what it was made of"
    # whatever byte of ours is damaged, it does not look like this
    require("settings" not in content, f"{old}; end it with that version, {_WAYS_OUT}", BadConfig)
    run = content.get("run")
    whole = isinstance(run, dict) and content.get(DIGEST) == _digest(run)
    require(whole, f"{path / NUMBERS} is damaged: it does not match the SHA-256 saved with it", BadCheckpoint)
    filled(_Numbers, run, str(path / NUMBERS), BadCheckpoint)
    every = run["settings"].get("every") if run is not None else None
    require(isinstance(every, dict), f"{path / NUMBERS} has no settings of checkpoints", BadCheckpoint)
    return dict(run or {})


def _digest(run: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def network_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers, each once even where two names share it."""
    saved = network.state_dict(keep_vars=True)
    return {
        **{name: weight.detach() for name, weight in network.named_parameters()},
        **{name: buffer for name, buffer in network.named_buffers() if name in saved},
    }


def load_network(network: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy tensors into the network; names and shapes must be the network's."""
    ours = network_tensors(network)
    shapes, theirs = ({name: tuple(x.shape) for name, x in named.items()} for named in (ours, tensors))
    for name in {**shapes, **theirs}:
        here, there = shapes.get(name, "none"), theirs.get(name, "none")
        hint = f"{name} has shape {there} there, {here} here; choose another run folder"
        require(here == there, f"{path} is of another network: {hint}", BadCheckpoint)
    with torch.no_grad():
        for name, tensor in ours.items():
            tensor.copy_(tensors[name])


def checkpoints(folder: Path, kind: str = "step") -> list[Path]:
    """List the complete checkpoints of a run, oldest first; `kind` is "step" or "best"."""
    return sorted(path for path in folder.glob(f"{kind}-{'[0-9]' * 8}*") if path.is_dir())


def step_of(path: Path) -> int:
    """Read the step from a checkpoint's name."""
    return int(path.name.rsplit("-", 1)[1])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
