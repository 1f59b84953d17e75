"""Where the rows of a run go beside its folder: TensorBoard, MLflow, Weights & Biases, trackio, or your own code."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Protocol

from clearhead.errors import BadConfig, NotFound, near, require
from clearhead.io import as_json_line, read_object, write_text

BOARD = "tensorboard"
_TRACKED = "tracked.json"  # the names under which trackers know this run, for when it goes on
PROJECT = "clearhead"  # unless the tracker's own variable names another


class Tracker(Protocol):
    """A hook on the rows of a run: whatever has these three methods. Only the first process calls it."""

    def begin(self, folder: Path, step: int, config: Mapping[str, object]) -> None:
        """Start at a step of the run in `folder`: 0 is a new run, more one that goes on or went back there.

        Rows after the step come again. `config` is the recipe by its dotted names.
        """

    def log(self, row: Mapping[str, float]) -> None:
        """Take a row, as metrics.jsonl has it: "step", and numbers by their names, some of which may not be finite."""

    def end(self) -> None:
        """Close what is open; also after an error, and where nothing began."""


class TensorBoard:
    """Event files in the run's folder; rows that come again take the place of the earlier ones."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        self._writer = _needed("torch.utils.tensorboard", "tensorboard", "TensorBoard").SummaryWriter
        self._board: Any = None

    def begin(self, folder: Path, step: int, config: Mapping[str, object]) -> None:
        """See `Tracker`."""
        self.end()
        self._board = self._writer(str(folder / BOARD), purge_step=step + 1)

    def log(self, row: Mapping[str, float]) -> None:
        """See `Tracker`."""
        for name in row.keys() - {"step"}:
            self._board.add_scalar(name, row[name], int(row["step"]))

    def end(self) -> None:
        """See `Tracker`."""
        board, self._board = self._board, None
        if board is not None:
            board.close()


class MLflow:
    """A run of MLflow, at MLFLOW_TRACKING_URI or else in a database of its own in the run's folder."""

    def __init__(self) -> None:
        _needed("mlflow", "mlflow", "MLflow")
        self._module = importlib.import_module("mlflow.tracking")
        self._client: Any = None
        self._run = ""

    def begin(self, folder: Path, step: int, config: Mapping[str, object]) -> None:
        """See `Tracker`."""
        if self._client is not None:
            return
        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        client = self._client = self._module.MlflowClient(tracking_uri=place)
        known = _known_as(folder, "mlflow") if step else None
        if known is not None:
            self._run = known
            client.update_run(known, status="RUNNING")
            return
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = client.get_experiment_by_name(project)
        number = client.create_experiment(project) if found is None else found.experiment_id
        self._run = client.create_run(number, run_name=_name(folder)).info.run_id
        for name, value in config.items():
            client.log_param(self._run, name, value)
        _remember(folder, "mlflow", self._run)

    def log(self, row: Mapping[str, float]) -> None:
        """See `Tracker`."""
        for name in row.keys() - {"step"}:
            self._client.log_metric(self._run, name, row[name], step=int(row["step"]))

    def end(self) -> None:
        """See `Tracker`."""
        client, self._client = self._client, None
        if client is not None and self._run:
            client.set_terminated(self._run)


class WandB:
    """A run of Weights & Biases, written into the run's folder; WANDB_MODE=online sends it to the service as well."""

    def __init__(self) -> None:
        self._module = _needed("wandb", "wandb", "Weights & Biases")
        self._run: Any = None

    def begin(self, folder: Path, step: int, config: Mapping[str, object]) -> None:
        """See `Tracker`."""
        if self._run is not None:
            return
        known = _known_as(folder, "wandb") if step else None
        self._run = self._module.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=_name(folder),
            dir=str(folder),
            id=known,
            resume=None if known is None else "allow",
            config=dict(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=self._module.Settings(silent=True),
        )
        _remember(folder, "wandb", self._run.id)

    def log(self, row: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))

    def end(self) -> None:
        """See `Tracker`."""
        run, self._run = self._run, None
        if run is not None:
            run.finish()


class Trackio:
    """A run of trackio, in its database on this machine (TRACKIO_DIR); `trackio show` opens it."""

    def __init__(self) -> None:
        self._module = _needed("trackio", "trackio", "trackio")
        self._run: Any = None

    def begin(self, folder: Path, step: int, config: Mapping[str, object]) -> None:
        """See `Tracker`."""
        if self._run is not None:
            return
        known = _known_as(folder, "trackio") if step else None
        name = known or f"{_name(folder)}-{os.urandom(3).hex()}"  # a run is known by its name alone
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        with redirect_stdout(sys.stderr):  # where it talks to people, and results are
            self._run = self._module.init(project=project, name=name, config=dict(config), resume="allow", embed=False)
        _remember(folder, "trackio", name)

    def log(self, row: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log({name: value for name, value in row.items() if name != "step"}, step=int(row["step"]))

    def end(self) -> None:
        """See `Tracker`."""
        run, self._run = self._run, None
        if run is not None:
            with redirect_stdout(sys.stderr):
                self._module.finish()


TRACKERS: dict[str, Callable[[], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "trackio": Trackio,
}


def make_trackers(given: Sequence[str | Tracker]) -> list[Tracker]:
    """Trackers by their names, and those that are objects already; a package that is missing is said at once."""
    names = dict.fromkeys(one for one in given if isinstance(one, str))
    for name in names:
        require(name in TRACKERS, f"there is no tracker {name!r}; {near(name, TRACKERS)}", BadConfig)
    return [*(TRACKERS[name]() for name in names), *(one for one in given if not isinstance(one, str))]


def _needed(module: str, package: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise NotFound(f"{name} is not installed; run: pip install {package}") from None


def _name(folder: Path) -> str:
    """What people call the run: the folder that the model will be in."""
    return folder.resolve().parent.name


def _known_as(folder: Path, tracker: str) -> str | None:
    path = folder / _TRACKED
    return read_object(path).get(tracker) if path.is_file() else None


def _remember(folder: Path, tracker: str, name: str) -> None:
    path = folder / _TRACKED
    known = read_object(path) if path.is_file() else {}
    write_text(as_json_line(known | {tracker: name}) + "\n", path, overwrite=True)
