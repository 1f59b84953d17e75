"""A run on disk: folders that appear complete or not at all, of safetensors and JSON only."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadConfig, BadInput
from clearhead.hub.atomic import sync
from clearhead.hub.weights import read_json, read_tensors, write_tensors
from clearhead.training.settings import Settings
from clearhead.training.state import State

TENSORS = "training.safetensors"
NUMBERS = "state.json"
_UNFINISHED = ".unfinished-"
_FREE = {"every", "compile", "checkpointing"}  # these may change when a run goes on; every.evaluate may not


def save(
    folder: Path,
    name: str,
    state: State,
    settings: Settings,
    made_of: Mapping[str, object],
    network: nn.Module,
    memories: dict[str, Tensor],
    on_save: Callable[[Path], None] | None,
) -> Path:
    """Write a checkpoint folder: first under another name, then renamed when all of it is on disk.

    `memories` are the optimisers'. `on_save` may add files, such as the model for use; they are part of the whole.
    """
    target = folder / name
    if target.exists():  # the same step of the same run: it holds the same
        return target
    stage = folder / f"{_UNFINISHED}{name}"
    try:
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        tensors = {f"network.{key}": value for key, value in network_tensors(network).items()}
        tensors |= {f"optimiser.{key}": value for key, value in memories.items()}
        write_tensors(tensors, stage / TENSORS)
        numbers = {"state": state.to_json(), "settings": settings.to_json(), "made_of": made_of}
        (stage / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        if on_save is not None:
            on_save(stage)
        for path in (*stage.rglob("*"), stage):
            sync(path)
        stage.rename(target)
        sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(stage, ignore_errors=True)
        raise BadInput(
            f"cannot save to {target}: {error}; earlier checkpoints are whole: make room and start again to resume"
        ) from error
    return target


def load(
    path: Path, settings: Settings, made_of: Mapping[str, object], network: nn.Module
) -> tuple[State, dict[str, Tensor]]:
    """Read a checkpoint folder into the network; the settings must be those it was made with, and what it is made of.

    Gives the state, and the optimisers' memories for `load_optimisers`.
    """
    numbers = read_json(path / NUMBERS)
    if not isinstance(numbers.get("state"), dict) or not isinstance(numbers.get("settings"), dict):
        raise BadCheckpoint(f"{path / NUMBERS} has no state and settings; delete {path} to resume from the one before")
    then, now = numbers["settings"], settings.to_json()
    same = {name: (then.get(name), now[name]) for name in now if name not in _FREE}
    same["every.evaluate"] = (then.get("every", {}).get("evaluate"), now["every"]["evaluate"])
    known = numbers.get("made_of", {})
    same |= {name: (known[name], value) for name, value in json.loads(json.dumps(made_of)).items() if name in known}
    _check_same(path.parent, same)
    tensors = read_tensors(path / TENSORS)
    load_network(network, _under("network.", tensors), path)
    return State.from_json(numbers["state"]), _under("optimiser.", tensors)


def load_weights(path: Path, network: nn.Module) -> None:
    """Read only the network's tensors of a checkpoint folder."""
    load_network(network, _under("network.", read_tensors(path / TENSORS)), path)


def load_mean(paths: Sequence[Path], network: nn.Module) -> None:
    """Put the mean of several checkpoints' weights into the network; what is no real number comes from the last."""
    mean: dict[str, Tensor] = {}
    for path in paths:
        for name, tensor in _under("network.", read_tensors(path / TENSORS)).items():
            # doubles, because many small differences are added up
            share = tensor.double() / len(paths) if tensor.is_floating_point() else tensor
            mean[name] = mean[name] + share if name in mean and tensor.is_floating_point() else share
    load_network(network, mean, paths[-1])


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
    shapes = {name: tuple(tensor.shape) for name, tensor in ours.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    different = [name for name in {**shapes, **theirs} if shapes.get(name) != theirs.get(name)]
    if different:
        name = different[0]
        raise BadCheckpoint(
            f"{path} is of another network: {name} has shape {theirs.get(name, 'none')} there, "
            f"{shapes.get(name, 'none')} here; choose another run folder"
        )
    with torch.no_grad():
        for name, tensor in ours.items():
            tensor.copy_(tensors[name])


def checkpoints(folder: Path, kind: str = "step") -> list[Path]:
    """List the complete checkpoints of a run, oldest first; `kind` is "step" or "best"."""
    return sorted(path for path in folder.glob(f"{kind}-{'[0-9]' * 8}*") if path.is_dir())


def name_of(kind: str, step: int) -> str:
    """Name a checkpoint so that names sort by step."""
    return f"{kind}-{step:08d}"


def step_of(path: Path) -> int:
    """Read the step from a checkpoint's name."""
    return int(path.name.rsplit("-", 1)[1])


def clean(folder: Path) -> None:
    """Remove what a killed run left unfinished."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a checkpoint so that a half-removed one is never taken for a whole one."""
    stage = path.with_name(f"{_UNFINISHED}removed-{path.name}")
    path.rename(stage)
    shutil.rmtree(stage, ignore_errors=True)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_same(folder: Path, pairs: Mapping[str, tuple[object, object]]) -> None:
    for name, (old, new) in pairs.items():
        if old != new:
            raise BadConfig(
                f"the run in {folder} was started with {name} = {old}, now it is {new}; "
                "resume with the same value or choose another folder"
            )
