"""The checkpoints of a run: where it resumes, what it goes back to, and which weights were the best."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn
from torch.optim import Optimizer

from clearhead.errors import BadInput, ClearheadError
from clearhead.training.checkpoint import (
    checkpoints,
    clean,
    load,
    load_mean,
    load_weights,
    name_of,
    network_tensors,
    remove,
    save,
    step_of,
)
from clearhead.training.distributed import Ranks
from clearhead.training.optimisers import load_optimisers, optimiser_tensors
from clearhead.training.settings import Settings
from clearhead.training.sharding import Sharding
from clearhead.training.state import State

ROLLBACKS = 2  # before giving up

OnSave = Callable[[Path], None]


class Keeper:
    """Saves and loads; the first rank writes, all read."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        made_of: Mapping[str, object],
        network: nn.Module,
        optimisers: list[Optimizer],
        ranks: Ranks,
        sharding: Sharding,
        on_save: OnSave | None,
    ) -> None:
        self._folder, self._settings, self._made_of, self._network = folder, settings, made_of, network
        self._optimisers, self._ranks, self._sharding, self._on_save = optimisers, ranks, sharding, on_save

    def resume(self) -> State:
        """Load the newest checkpoint, if there is one."""
        if self._ranks.first:
            clean(self._folder)
        found = checkpoints(self._folder)
        state = self._load(found[-1]) if found else State()
        if self._ranks.first:
            for path in checkpoints(self._folder, "best"):
                if step_of(path) > state.step:  # this evaluation comes again
                    remove(path)
        (step,) = self._ranks.from_first([state.step])
        if step != state.step:
            raise BadInput(
                f"{self._folder} holds step {state.step} for rank {self._ranks.rank} and step {step:.0f} for rank 0; "
                "give a folder on a disk that all ranks share"
            )
        return state

    def save(self, state: State, elapsed: float, *, planned: bool) -> None:
        """Write a checkpoint and remove those no longer needed.

        One that was not planned, which Ctrl-C made, leaves what an undisturbed run would go back to.
        """
        memories = optimiser_tensors(self._optimisers, self._network)
        self._write(name_of("step", state.step), replace(state, elapsed=elapsed), memories)
        if self._ranks.first:
            wanted = [*self._to_average(state), *([] if planned else self._to_go_back_to(state))]
            for path in checkpoints(self._folder)[: -self._settings.every.keep]:
                if path not in wanted:
                    remove(path)
            # only now: a checkpoint before this one may have remembered another best
            for path in checkpoints(self._folder, "best") if planned else ():
                if step_of(path) != state.best_step:
                    remove(path)
        self._ranks.wait()

    def save_best(self, state: State) -> None:
        """Write the weights of the best evaluation so far."""
        self._write(name_of("best", state.step), state, {})
        self._ranks.wait()

    def load_best(self, state: State) -> None:
        """Put the weights of the best evaluation into the network."""
        if state.best_step not in (None, state.step):
            with self._sharding.whole():
                load_weights(self._folder / name_of("best", state.best_step or 0), self._network)

    def average(self, state: State) -> None:
        """Put the mean weights of the last checkpoints into the network, if the settings ask for it."""
        if self._settings.every.average > 1:
            with self._sharding.whole():
                load_mean(self._to_average(state), self._network)

    def roll_back(self, state: State) -> State:
        """Go back to the last planned checkpoint before the bad steps, and on with the batches that come next.

        One that Ctrl-C made is passed over, so that an interrupted run goes the way of an undisturbed one.
        """
        planned = self._to_go_back_to(state)
        if not planned or state.rollbacks == ROLLBACKS:
            raise ClearheadError(
                f"training diverged at step {state.step}: {state.bad} steps in a row had a loss or gradient that was "
                f"not finite or far too large, {state.rollbacks} times gone back; lower learning_rate (it is "
                f"{self._settings.learning_rate}), lengthen warmup, or look at the data near batch {state.index}"
            )
        self._ranks.wait()
        older = self._load(planned[-1])
        if self._ranks.first:
            for path in checkpoints(self._folder):
                if step_of(path) > older.step:
                    remove(path)
        self._ranks.wait()
        return replace(
            older,
            index=state.index,
            pieces=state.pieces,
            rollbacks=state.rollbacks + 1,
            elapsed=state.elapsed,
            setup=state.setup,
            pace=state.pace,
            closing=state.closing,
        )

    def _to_go_back_to(self, state: State) -> list[Path]:
        steps = range(0, state.step - state.bad + 1, self._settings.every.save)
        return [path for path in checkpoints(self._folder) if step_of(path) in steps][-1:]

    def _to_average(self, state: State) -> list[Path]:
        """The last checkpoints that were planned, this step's included; one that Ctrl-C made is passed over."""
        every = self._settings.every.save
        planned = [
            path for path in checkpoints(self._folder) if step_of(path) % every == 0 or step_of(path) == state.step
        ]
        return planned[-self._settings.every.average :]

    def _check_finite(self, state: State) -> None:
        """Refuse weights that no use and no further step could mend; what was saved before stays."""
        tensors = network_tensors(self._network).items()
        broken = [name for name, tensor in tensors if tensor.is_floating_point() and not tensor.isfinite().all()]
        if broken:
            raise ClearheadError(
                f"training diverged at step {state.step}: {broken[0]} holds numbers that are not finite, so that "
                f"nothing was saved of this step; lower learning_rate (it is {self._settings.learning_rate})"
            )

    def _write(self, name: str, state: State, memories: dict[str, Tensor]) -> None:
        with self._sharding.whole():
            self._check_finite(state)
            if self._ranks.first:
                save(self._folder, name, state, self._settings, self._made_of, self._network, memories, self._on_save)

    def _load(self, path: Path) -> State:
        with self._sharding.whole():
            state, memories = load(path, self._settings, self._made_of, self._network)
        load_optimisers(self._optimisers, self._network, memories)
        return state
