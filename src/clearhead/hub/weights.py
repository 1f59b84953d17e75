"""Tensors on disk: safetensors only, perhaps int8 with a scale per row. A pickle is refused, never opened."""

# R rows · C columns

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clearhead.errors import BadCheckpoint, NotFound, UnsafeCheckpoint, reason, require
from clearhead.io import check_file, naming, read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
DIGEST = "clearhead.sha256"  # safetensors has no checksum of its own, so our files carry one
SCALE = ".row_scale"
_LARGE = 1024  # numbers from which on int8 pays
_NARROW = 32
# what safetensors calls the types that weights are usually stored in
_TYPES = {"I8": "int8", "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_HEADER = 100_000_000  # bytes of a header at most, as the library has it
_LIMIT = "CLEARHEAD_MAX_PARAMETERS"

Shape = tuple[int, ...]


class Sizes(NamedTuple):
    """How many tensors the files of a folder hold, and how many numbers in all of them."""

    tensors: int
    numbers: int


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a checkpoint folder, in one file or in shards, and check their digest if they carry one."""
    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        tensors.update(read_tensors(file))
    return tensors


def read_sizes(folder: Path) -> Sizes:
    """Count what the weights of a checkpoint folder hold, by their headers alone; refuse more than memory takes."""
    found = [count for file in _files(folder) for count in _counts(file)]
    _check_memory(sum(found), str(folder))
    return Sizes(len(found), sum(found))


def tensor_shapes(folder: Path) -> dict[str, Shape]:
    """The names and shapes of all tensors of a checkpoint folder, by their headers alone; nothing where none are."""
    there = any((folder / name).is_file() for name in (WEIGHTS, INDEX))
    return {name: shape for file in _files(folder) for name, shape in _shapes(file).items()} if there else {}


def stored_type(folder: Path) -> str:
    """The type that most numbers of a checkpoint folder are stored in, by the headers of its files alone."""
    numbers = Counter[str]()
    for entry in (entry for file in _files(folder) for entry in _header(file).values()):
        numbers[str(entry["dtype"])] += math.prod(entry["shape"])
    kind = max(numbers, key=numbers.__getitem__, default="")
    return _TYPES.get(kind, kind)


def _counts(path: Path) -> list[int]:
    """How many numbers each tensor of a file claims to hold."""
    return [math.prod(shape) for shape in _shapes(path).values()]


def _shapes(path: Path) -> dict[str, Shape]:
    """The shape of each tensor of a file; none where the header is damaged."""
    return {name: tuple(entry["shape"]) for name, entry in _header(path).items()}


def _header(path: Path) -> dict[str, dict[str, Any]]:
    """What a file says of each tensor; nothing where its header is damaged, as its reader will say.

    The library maps the whole file at once, which one of holes does not allow.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size <= _HEADER else {}
        header.pop("__metadata__", None)
        whole = all(type(side) is int for entry in header.values() for side in entry["shape"])
        return header if whole else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _check_memory(numbers: int, where: str) -> None:
    """A header may claim more than any machine holds, in a file of holes; as fp32, all of it must fit into memory."""
    said = os.environ.get(_LIMIT, "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**40
    most = int(said) if said.isdecimal() else memory // 4
    why = f"{where} holds {numbers:,} numbers, and at most {most:,} are read here"
    require(numbers <= most, f"{why}; take a smaller model, or set {_LIMIT} higher", BadCheckpoint)


def _files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: one, or the shards that the index names."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        shards = sorted(set(weight_map(folder / INDEX).values()))
        for shard in shards:
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                wanted = "a shard is a .safetensors file in the same folder"
                raise UnsafeCheckpoint(f"{folder / INDEX} names {shard!r}; {wanted}")
        return [folder / shard for shard in shards]
    for name in PICKLES:
        if (folder / name).is_file():
            raise UnsafeCheckpoint(
                f"{folder / name} is a pickle, which can run code when opened; "
                f"if you trust where it comes from, run: clearhead convert {folder}"
            )
    raise NotFound(f"{folder} has no {WEIGHTS}; a checkpoint folder holds config.json, tokenizer.json and {WEIGHTS}")


def weight_map(index: Path) -> dict[str, str]:
    """Read in which shard each tensor lies, as the index says; what it names is not yet looked at."""
    shards = read_object(index).get("weight_map")
    if not isinstance(shards, dict) or not shards or not all(isinstance(shard, str) for shard in shards.values()):
        raise BadCheckpoint(f"{index} has no usable weight_map; fetch it again")
    return shards


def weights_state(folder: Path) -> str:
    """Tell cheaply whether the weights in a folder are still the same: a hash of their headers, sizes and times.

    In our own files the header has a digest of the tensors, so that their time does not matter.
    """
    sha = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = file.read(min(int.from_bytes(file.read(8), "little"), _HEADER))
        found = path.stat()
        when = 0 if DIGEST.encode() in header else found.st_mtime_ns
        sha.update(f"{path.name} {found.st_size} {when}\n".encode() + header)
    return sha.hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read one safetensors file."""
    check_file(path)
    _check_memory(sum(_counts(path)), str(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise NotFound(f"{path} is not there; fetch the checkpoint again") from None
    except (SafetensorError, OSError, UnicodeDecodeError, RuntimeError) as error:
        with path.open("rb") as file:
            start = file.read(8)  # of safetensors these are a length, so they end in zeros
        if start[:4] == b"PK\x03\x04" or (start[:1] == b"\x80" and start[3:] != bytes(5)):
            raise UnsafeCheckpoint(f"{path} is a pickle named like safetensors; get the real file") from None
        raise BadCheckpoint(f"{path} is damaged or cut short ({reason(error)}); fetch or save it again") from None
    # the name is looked for in halves, because the one flipped bit may be in the name
    ours = any("clearhead" in name or "sha256" in name for name in metadata)
    if ours and metadata != {"format": "pt", DIGEST: digest(tensors)}:
        raise BadCheckpoint(f"{path} is damaged: its tensors do not match the SHA-256 saved with them; fetch it again")
    return from_int8(tensors) if ours else tensors


def write_tensors(tensors: Mapping[str, Tensor], path: Path, *, int8: bool = False) -> None:
    """Write one safetensors file with a digest of its tensors; one in `int8` is for clearhead alone to read."""
    tensors = to_int8(tensors) if int8 else tensors
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # "format" is what transformers looks for
    try:
        save_file(whole, path, metadata={"format": "pt", DIGEST: digest(whole)})
    except SafetensorError as error:
        if (code := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None  # as everything else says it
    # the library leaves the order of the metadata to chance; sorted, equal tensors make equal files
    with naming(path), path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        file.seek(8)
        file.write(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all tensors, by name: a flipped bit anywhere changes it."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():  # of nothing there is no view
            sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def to_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Store large matrices (R, C) as int8 with scales (R, 1), narrow ones with (1, C); what is rounded off is gone."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        # a matrix of one row is a bias, for which one scale would be too coarse
        large = tensor.dim() == 2 and len(tensor) > 1 and tensor.numel() >= _LARGE
        if not large or not tensor.is_floating_point():
            stored[name] = tensor
            continue
        # a scale for each row of a few numbers would weigh as much as the row: there, one for each column
        across = 1 if tensor.shape[1] >= _NARROW else 0
        scale = tensor.float().abs().amax(across, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127
        stored[name] = (tensor.float() / scale).round().clamp(-127, 127).to(torch.int8)
        stored[name + SCALE] = scale
    return stored


def from_int8(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make floats of what `to_int8` stored; other tensors stay as they are."""
    scales = [name for name in tensors if name.endswith(SCALE) and name.removesuffix(SCALE) in tensors]
    for name in scales:
        # floats first: torch multiplies numbers of two types slowly
        tensors[name.removesuffix(SCALE)] = tensors[name.removesuffix(SCALE)].float().mul_(tensors.pop(name))
    return tensors
