"""A run on disk: which checkpoints are kept, where it resumes, and what it goes back to."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim import Optimizer

from clearhead.data.rng import DATA_ORDER
from clearhead.errors import BadCheckpoint, BadInput, ClearheadError, require
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.io import read_object, staged_whole, write_json
from clearhead.training.distributed import Ranks, Sharding
from clearhead.training.monitor import RunningStats
from clearhead.training.optim import load_optimisers, optimiser_tensors
from clearhead.training.settings import Settings

TENSORS = "training.safetensors"
NUMBERS = "state.json"
ROLLBACKS = 2  # before giving up
_UNFINISHED = ".unfinished-"
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

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read the fields as `asdict` gave them; JSON keeps every bit of a float."""
        try:
            stats = {name: RunningStats(**content[name]) for name in ("norms", "losses")}
            return cls(**{**content, **stats})
        except (TypeError, KeyError) as error:
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

    def resume(self) -> State:
        """Load the newest checkpoint, if there is one."""
        if self.ranks.first:
            for path in self.folder.glob(f"{_UNFINISHED}*"):  # what a killed run left
                shutil.rmtree(path, ignore_errors=True)
        found = checkpoints(self.folder)
        state = self._load(found[-1]) if found else State()
        self._remove("best", lambda step: step > state.step)  # this evaluation comes again
        (step,) = self.ranks.from_first([state.step])
        held = f"{self.folder} holds step {state.step} for rank {self.ranks.rank} and step {step:.0f} for rank 0"
        require(step == state.step, f"{held}; give a folder on a disk that all ranks share", BadInput)
        return state

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
        if planned:  # only now: a checkpoint before this one may have remembered another best
            self._remove("best", lambda step: step != state.best_step)
        self.ranks.wait()

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
        older = self._load(planned[-1])
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
        target = self.folder / f"{kind}-{state.step:08d}"  # names sort by step
        with self.sharding.whole():
            tensors = network_tensors(self.network)
            self._check_finite(tensors, state)
            if not self.ranks.first or target.exists():  # the same step of the same run: it holds the same
                return
            numbers = {
                "data_order": DATA_ORDER,
                "state": asdict(state),
                "settings": self.settings.to_json(),
                "made_of": self.fingerprint,
            }
            try:
                with staged_whole(target, self.folder / f"{_UNFINISHED}{target.name}") as stage:
                    named = {f"network.{name}": tensor for name, tensor in tensors.items()}
                    named |= {f"optimiser.{name}": tensor for name, tensor in states.items()}
                    write_tensors(named, stage / TENSORS)
                    write_json(numbers, stage / NUMBERS, indent=1)
                    if self.on_save is not None:
                        self.on_save(stage)
            except (OSError, SafetensorError) as error:
                raise BadInput(
                    f"cannot save to {target}: {error}; earlier checkpoints are whole: "
                    "make room and start again to resume"
                ) from error

    def _check_finite(self, tensors: dict[str, Tensor], state: State) -> None:
        """Refuse weights that no use and no further step could mend; what was saved before stays."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ClearheadError(
                    f"training diverged at step {state.step}: {name} holds numbers that are not finite, so that "
                    f"nothing was saved of this step; lower learning_rate (it is {self.settings.learning_rate})"
                )

    def _load(self, path: Path) -> State:
        """Read a checkpoint folder; settings and fingerprint must be those it was made with."""
        numbers = read_object(path / NUMBERS)
        whole = all(isinstance(numbers.get(name), dict) for name in ("state", "settings"))
        hint = f"delete {path} to resume from the one before"
        require(whole, f"{path / NUMBERS} has no state and settings; {hint}", BadCheckpoint)
        self._check_same(numbers)
        state = State.from_json(numbers["state"])
        tensors = read_tensors(path / TENSORS)
        with self.sharding.whole():
            load_network(self.network, _under("network.", tensors), path)
        load_optimisers(self.optimisers, self.network, _under("optimiser.", tensors))
        return state

    def _check_same(self, numbers: dict[str, Any]) -> None:
        began = numbers.get("data_order", 1)
        require(
            began == DATA_ORDER,
            f"the run in {self.folder} draws its data in order {began}, this version of clearhead in order "
            f"{DATA_ORDER}; end the run with the version that began it, or choose another folder",
        )
        then, now = numbers["settings"], self.settings.to_json()
        pairs = {name: (then.get(name), now[name]) for name in now if name not in _FREE}
        pairs["every.evaluate"] = (then.get("every", {}).get("evaluate"), now["every"]["evaluate"])
        known, wanted = numbers.get("made_of", {}), json.loads(json.dumps(self.fingerprint))
        pairs |= {name: (known[name], value) for name, value in wanted.items() if name in known}
        for name, (old, new) in pairs.items():
            started = f"the run in {self.folder} was started with {name} = {old}, now it is {new}"
            require(old == new, f"{started}; resume with the same value or choose another folder")

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
