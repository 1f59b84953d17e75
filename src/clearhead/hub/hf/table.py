"""The shape of a name table, and the two ways to walk it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint

Theirs = str | tuple[str, ...]  # one module, or several whose matrices are stacked to make ours
Table = Mapping[str, Theirs]

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")  # of a layer; the 1 in norm_1 is part of a name
_PRETRAINING = {"masked_lm", "next_sentence", "sentence_order", "replaced", "pooled"}
# our head → what its class is usually called, after the name of the model
_CLASSES = {
    "masked_lm": "ForMaskedLM",
    "causal_lm": "LMHeadModel",
    "permutation_lm": "LMHeadModel",
    "classes": "ForSequenceClassification",
    "choice": "ForMultipleChoice",
    "tags": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}


@dataclass(frozen=True, kw_only=True)
class Names:
    """Module paths, ours → theirs; `{}` stands for a layer's number, a path covers its weight and its bias.

    A path that ends in a parameter's own name stands for that parameter alone.
    """

    model: str  # how the names of their classes begin
    prefix: str  # of the encoder inside a model with a head; a bare encoder is saved without it
    encoder: Table
    heads: Mapping[str, Table]
    # their classes beyond the usual ones, by what follows `model` → our heads
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # whether the matrices of the blocks are stored transposed
    transposed: bool = False
    # tensors that repeat another one, by its name, or that are no parameters (None)
    redundant: Mapping[str, str | None] = field(default_factory=dict)
    # tensors that a file may leave out, and then are zeros
    zeros: tuple[str, ...] = ()
    # how many labels their classes have where config.json names none
    unlabelled: int = 2
    # configuration values that change the computation, and the one value of each that we compute
    fixed: Mapping[str, object] = field(default_factory=dict)
    # where the fields of config.json are not one to one ours
    read_config: Callable[[dict[str, Any]], dict[str, Any]] = dict
    write_config: Callable[[dict[str, Any]], dict[str, Any]] = dict
    # where the tensors of a file are not shaped as linear maps
    read_tensors: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict
    write_tensors: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict
    # where a configuration leaves open what only the tensors say
    settle: Callable[[Any, Mapping[str, Tensor]], Any] = lambda config, _: config
    # where a family's tables depend on its configuration
    version: "Callable[[Any], Names] | None" = None
    variants: "tuple[Names, ...]" = ()  # the other tables that it may give, by which a file is known without one

    @cached_property
    def architectures(self) -> dict[str, tuple[str, ...]]:
        """Their classes → our heads, the bare encoder's first."""
        alone = [heads[0] for heads in self.classes.values() if len(heads) == 1]
        usual = {_CLASSES[head]: (head,) for head in self.heads if head in _CLASSES and head not in alone}
        return {f"{self.model}{name}": heads for name, heads in ({"Model": ()} | {**self.classes} | usual).items()}

    @property
    def companions(self) -> set[str]:
        """Heads that a file may hold beyond its architecture, known by their tensors alone."""
        return _PRETRAINING & self.heads.keys()

    @property
    def reads_capitals(self) -> bool:
        """Whether the encoder can have a table for them beside the tokens'."""
        return "embeddings.capital" in self.encoder


def block(
    layer: str, *, ours: str = "blocks.{}", qkv: Theirs, output: str, norm_1: str, up: Theirs, down: str, norm_2: str
) -> dict[str, Theirs]:
    """The entries of one Transformer block: each of our modules, and where it is below their `layer`."""
    modules: dict[str, Theirs] = {
        "attention.qkv": qkv,
        "attention.output": output,
        "norm_1": norm_1,
        "feedforward.up": up,
        "feedforward.down": down,
        "norm_2": norm_2,
    }
    return {
        f"{ours}.{name}": f"{layer}.{theirs}" if isinstance(theirs, str) else tuple(f"{layer}.{one}" for one in theirs)
        for name, theirs in modules.items()
    }


def their_names(names: Names, ours: str) -> tuple[str, ...]:
    """Translate one of our parameter names, such as "encoder.blocks.3.norm_1.weight"."""
    owner, _, path = ours.partition(".")
    table, prefix = names.encoder, names.prefix
    if owner != "encoder":
        head, _, path = path.partition(".")
        table, prefix = names.heads[head], ""
    numbers = _NUMBER.findall(path)
    if (whole := numbered(path)) in table:
        return (prefix + str(table[whole]).format(*numbers),)
    module, _, leaf = path.rpartition(".")
    theirs = table[numbered(module)]
    modules = (theirs,) if isinstance(theirs, str) else theirs
    return tuple(prefix + module.format(*numbers) + "." + leaf for module in modules)


def numbered(path: str) -> str:
    """Put `{}` in the place of each layer's number."""
    return _NUMBER.sub("{}", path)


def _is_transposed(names: Names, ours: str, tensor: Tensor) -> bool:
    return names.transposed and ours.startswith("encoder.blocks.") and tensor.dim() == 2


def from_theirs(names: Names, parameters: Mapping[str, nn.Parameter], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Assemble our parameters from their tensors, checking names and shapes; what is used leaves `tensors`."""
    ours: dict[str, Tensor] = {}
    theirs = {name: their_names(names, name) for name in parameters}
    used = {part for parts in theirs.values() for part in parts}
    if missing := [part for parts in theirs.values() for part in parts if part not in {*tensors, *names.zeros}]:
        why = "the file is incomplete or config.json names another architecture"
        raise BadCheckpoint(f"{len(missing)} tensors are missing, such as {missing[0]}; {why}")
    for name, parameter in parameters.items():
        parts = theirs[name]
        transposed = _is_transposed(names, name, parameter)
        shape = parameter.shape[::-1] if transposed else parameter.shape
        share = (shape[0] // len(parts), *shape[1:])
        for part in parts:
            if part not in tensors:
                tensors[part] = torch.zeros(share)
            if tensors[part].shape != share or not tensors[part].is_floating_point():
                raise BadCheckpoint(
                    f"tensor {part} is {tensors[part].dtype} of shape {tuple(tensors[part].shape)}, the configuration "
                    f"asks for floats of shape {share}; config.json and the weights are from different models"
                )
        tensor = tensors[parts[0]] if len(parts) == 1 else torch.cat([tensors[part] for part in parts])
        ours[name] = tensor.mT.contiguous() if transposed else tensor
    for name in used:
        del tensors[name]
    return ours


def to_theirs(names: Names, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut our parameters into their tensors: the inverse of `from_theirs`."""
    theirs: dict[str, Tensor] = {}
    for name, tensor in parameters.items():
        parts = their_names(names, name)
        tensor = tensor.detach().mT if _is_transposed(names, name, tensor) else tensor.detach()
        theirs.update(zip(parts, tensor.chunk(len(parts)), strict=True))
    return theirs
