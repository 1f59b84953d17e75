"""pytorch_model.bin → model.safetensors: only tensors come out of the pickle, and nothing in it is run."""

import pickle
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadInput, NotFound, UnsafeCheckpoint, require
from clearhead.hub.config import NAMES
from clearhead.hub.remote import COMPANIONS
from clearhead.hub.weights import INDEX, PICKLES, WEIGHTS, weight_map, write_tensors
from clearhead.io import staged


def convert(source: Path, target: Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the tensors of a .bin file, or of the folder that holds it, as model.safetensors; give its folder.

    Another `target` folder also gets the configuration and the tokenizer, so that it can be loaded.
    """
    home = source if source.is_dir() else source.parent
    target = target or home
    file = _pickle(source)
    beside = [] if home.resolve() == target.resolve() else [name for name in COMPANIONS if (home / name).is_file()]
    for name in () if overwrite else (WEIGHTS, INDEX, *beside):
        if (target / name).exists():
            raise BadInput(f"{target / name} is there already; choose another target or pass overwrite=True")
    tensors = _read_shards(file) if file.suffix == ".json" else _read(file)
    with staged(target) as stage:
        write_tensors(_apart(tensors), stage / WEIGHTS)
        for name in beside:
            (stage / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(home / name, stage / name)
    return target


def _pickle(source: Path) -> Path:
    """Find the file that holds the tensors, or the index that names its shards."""
    if source.is_dir():
        found = [source / name for name in PICKLES if (source / name).is_file()]
        require(bool(found), f"{source} has no {PICKLES[0]}; there is nothing to convert", NotFound)
        return found[0]
    require(source.is_file(), f"{source} is not there; give a folder or a file such as {PICKLES[0]}", NotFound)
    safe = source.suffix == ".safetensors"
    require(not safe, f"{source} is safetensors already; there is nothing to convert", BadInput)
    return source


def _read_shards(index: Path) -> dict[str, Tensor]:
    shards = weight_map(index)
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(shards.values())):
        if Path(shard).name != shard or not (index.parent / shard).is_file():
            raise BadCheckpoint(f"{index} names {shard!r}, which is no file beside it; fetch the checkpoint again")
        tensors.update(_read(index.parent / shard))
    if missing := sorted(shards.keys() - tensors.keys()):
        raise BadCheckpoint(f"{index}: {len(missing)} tensors are in no shard, such as {missing[0]}; fetch it again")
    return tensors


def _read(file: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a TorchScript archive is announced by a warning and then refused
            # only a zip can be mapped; files from before torch 1.6 are not zips
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except MemoryError:
        raise
    except PermissionError as error:
        raise NotFound(f"{file} cannot be read ({error.strerror}); check its permissions") from None
    except Exception as error:  # a damaged pickle can fail in any way inside the restricted unpickler
        if _wants_code(error, file):
            held = "more than tensors, which could run code; it was not opened further"
            raise UnsafeCheckpoint(f"{file} holds {held}: ask its owner for safetensors") from None
        raise BadCheckpoint(f"{file} is damaged or no file of torch.save; fetch it again") from None
    if not isinstance(content, dict) or not content:
        raise BadCheckpoint(f"{file} holds a {type(content).__name__}, not tensors by name; save a state_dict")
    for name, value in content.items():
        plain = isinstance(name, str) and _is_plain(value)
        require(plain, f"{file}: {name!r} is not a plain tensor with a name; save a state_dict", BadCheckpoint)
    return content


def _wants_code(error: Exception, file: Path) -> bool:
    if isinstance(error, pickle.UnpicklingError):
        with file.open("rb") as opened:
            return "GLOBAL" in str(error) or opened.read(2)[:1] in (b"\x80", b"P")  # a pickle, bare or in a zip
    return "TorchScript" in str(error)


def _is_plain(value: Any) -> bool:
    return (
        type(value) in (Tensor, nn.Parameter)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give every tensor memory of its own, as safetensors wants it; of tied ones only the first name stays.

    A name that is known to repeat another is never the first.
    """
    repeats = {name for names in NAMES.values() for name in names.redundant}
    kept: dict[str, Tensor] = {}
    views: set[tuple[Any, ...]] = set()
    storages: set[int] = set()
    for name, tensor in sorted(tensors.items(), key=lambda item: item[0] in repeats):
        view = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and view in views:
            continue
        storage = tensor.untyped_storage().data_ptr()
        kept[name] = tensor.clone() if storage in storages else tensor
        views.add(view)
        storages.add(storage)
    return kept
