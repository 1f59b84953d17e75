"""pytorch_model.bin → model.safetensors: only tensors come out of the pickle, and nothing in it is run.

What a config.json does not name, the model_type and the architecture, can be named on the way.
"""

import logging
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadInput, ClearheadError, NotFound, UnsafeCheckpoint, require
from clearhead.hub.config import CONFIG, NAMES, completed, named_config
from clearhead.hub.remote import COMPANIONS
from clearhead.hub.remote import WEIGHTS as SAFE
from clearhead.hub.weights import INDEX, PICKLES, WEIGHTS, Shape, tensor_shapes, weight_map, write_tensors
from clearhead.io import check_free_file, check_free_folder, claimed, read_object, staged, write_json

log = logging.getLogger(__name__)


def convert(
    source: Path,
    target: Path | None = None,
    *,
    family: str | None = None,
    architecture: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the tensors of a .bin file, or of the folder that holds it, as model.safetensors; give its folder.

    Another `target` folder also gets the configuration and the tokenizer, so that it can be loaded. `family` (a
    model_type) and `architecture` are written into config.json, also of a folder that is safetensors already.
    """
    home = source if source.is_dir() else source.parent
    target = target or home
    own = home.resolve() == target.resolve()
    named = family is not None or architecture is not None
    safe = [path for name in SAFE for path in home.glob(name)] if named and source.is_dir() else []
    file = None if safe else _pickle(source)
    copied = [] if own else [*(name for name in COMPANIONS if (home / name).is_file()), *(path.name for path in safe)]
    with claimed(target):
        for name in (WEIGHTS, INDEX) if own and not safe else ():
            check_free_file(target / name, overwrite=overwrite)
        check_free_folder(target, own=own, overwrite=overwrite)  # before the work
        tensors = {} if file is None else _read_shards(file) if file.suffix == ".json" else _read(file)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()} or tensor_shapes(home)
        config = named_config(home, shapes, family, architecture, overwrite=overwrite or not own) if named else None
        if not own and not named and (home / CONFIG).is_file():
            config = _named_by_tensors(home, shapes)
        with staged(target, own=own, overwrite=overwrite and not own) as stage:
            if file is not None:
                write_tensors(_apart(tensors), stage / WEIGHTS)
            for name in copied:
                (stage / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(home / name, stage / name)
            if config is not None:
                write_json(config, stage / CONFIG)
    return target


def _named_by_tensors(home: Path, shapes: Mapping[str, Shape]) -> dict[str, Any] | None:
    """The config.json with the model_type that it does not name; None, and a sentence, where the tensors say none."""
    try:
        content = read_object(home / CONFIG)
        return None if content.get("model_type") else completed(content, shapes, home)
    except ClearheadError as error:
        log.warning("%s", error)
        return None


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
    # a tensor may show the same numbers any number of times; written out, these would fill the disk
    size, stored = sum(value.numel() * value.element_size() for value in content.values()), file.stat().st_size
    fits = size <= 4 * stored + 2**20
    require(fits, f"{file}: its tensors take {size:,} bytes, the file has {stored:,}; save a state_dict", BadCheckpoint)
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
