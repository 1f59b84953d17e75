"""A skill: LoRA adapters and a head, in a folder of its own beside the encoder's."""

# R rank

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args

import torch
from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, require, short
from clearhead.hub.checkpoint import Checkpoint, Uninitialised, fresh_heads
from clearhead.hub.config import NAMES, is_number
from clearhead.hub.weights import Sizes, digest, read_tensors, write_tensors
from clearhead.io import read_record, staged, write_json
from clearhead.nn.heads import Network, Pooling, SentenceVector
from clearhead.nn.lora import LoRA

DESCRIPTION, ADAPTER, SKILLS = "skill.json", "adapter.safetensors", "skills"
_CAPITAL = "encoder.embeddings.capital"


@dataclass(frozen=True, kw_only=True)
class Skill:
    """What skill.json says. A skill has a head, or makes one vector of a text by `pooling`.

    `uses` are the methods of a model that take this skill when none is named.
    """

    encoder: str  # SHA-256 of the encoder it was made for
    uses: tuple[str, ...] = ()
    head: str | None = None
    outputs: int = 0
    labels: tuple[str, ...] | None = None
    problem: str | None = None
    pooling: str | None = None
    scale: float = 1.0  # of the low-rank updates
    threshold: float = 0.0  # by how much "no answer" must beat the best span, unless the user says otherwise
    null_bias: float = 0.0  # added to the logit of "no answer", so that scores are probabilities
    whole_words: bool = False  # tags were taught by the first piece of each word, which speaks for the others

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check `folder`/skill.json."""
        path = folder / DESCRIPTION
        skill = read_record(path, cls)
        for name in ("threshold", "null_bias", "scale"):
            value = getattr(skill, name)
            require(
                is_number(value) and abs(value) < 1e30,
                f"{path}: {name} {value!r} is no number; copy the skill again",
                BadCheckpoint,
            )
        fits = skill.head is None or skill.outputs > 0
        require(fits, f"{path}: a head has no {skill.outputs} outputs; copy the skill again", BadCheckpoint)
        fits = skill.labels is None or len(skill.labels) == skill.outputs
        message = f"{path} names {len(skill.labels or ())} labels for {skill.outputs} outputs; copy the skill again"
        require(fits, message, BadCheckpoint)
        if skill.pooling is not None and skill.pooling not in get_args(Pooling):
            raise BadCheckpoint(
                f"{path}: pooling {short(skill.pooling)} is not known; it is one of {get_args(Pooling)}"
            )
        return skill


def find_skills(folder: Path) -> dict[str, Path]:
    """Find the skills that lie beside a checkpoint, by name."""
    found = (folder / SKILLS).glob(f"*/{DESCRIPTION}")
    return {path.parent.name: path.parent for path in sorted(found)}


def load_skill(checkpoint: Checkpoint, folder: Path, digest_of_encoder: str | None = None) -> Checkpoint:
    """Give the checkpoint with a skill: adapters beside its matrices, which stay shared, and a new head.

    The encoder's digest need not be computed again where it is given.
    """
    skill = Skill.read(folder)
    old = checkpoint.network.encoder
    if skill.encoder != (digest_of_encoder or encoder_digest(old)):
        raise BadCheckpoint(f"the skill in {folder} was made for another encoder; train it again for this one")
    tensors = dict(read_tensors(folder / ADAPTER))
    capital = tensors.pop(_CAPITAL, None)
    encoder = _with_adapters(old, tensors, skill.scale, folder)
    if capital is not None:
        checkpoint = tell_capitals(replace(checkpoint, network=Network(encoder, {})), capital)
    heads: dict[str, nn.Module] = {}
    if skill.head is not None:
        state = {name.removeprefix("head."): value for name, value in tensors.items() if name.startswith("head.")}
        with Uninitialised(Sizes(len(state), sum(value.numel() for value in state.values()))):
            heads = fresh_heads(checkpoint.description.family, encoder, {skill.head: skill.outputs})
        wanted, found = (
            {n: tuple(v.shape) for n, v in some.items()} for some in (heads[skill.head].state_dict(), state)
        )
        message = f"{folder}: {DESCRIPTION} and {ADAPTER} are of different heads; copy the skill again"
        require(wanted == found, message, BadCheckpoint)
        heads[skill.head].load_state_dict(state)
        heads[skill.head].to(next(old.parameters()).dtype)
    description = replace(checkpoint.description, architecture=None, labels=skill.labels, problem=skill.problem)
    pooling: Any = skill.pooling
    return replace(
        checkpoint,
        description=replace(
            description, threshold=skill.threshold, null_bias=skill.null_bias, whole_words=skill.whole_words
        ),
        network=Network(encoder, heads).to(next(old.parameters()).device).eval(),
        sentence=None if pooling is None else SentenceVector(pooling, normalise=True),
    )


def _with_adapters(old: Any, tensors: Mapping[str, Tensor], scale: float, folder: Path) -> nn.Module:
    """An encoder that shares all numbers with the old one, with the low-rank updates beside its matrices."""
    names = [name.removeprefix("encoder.") for name in tensors if name.startswith("encoder.")]
    modules = dict(old.named_modules())
    bare = not any(isinstance(part, LoRA) for part in modules.values())
    require(bare, f"this model has a skill already; load it anew to give it the one in {folder}", BadInput)
    # the embeddings are the same module, so that nobody asks which of two has the table for capitals
    shared = (old.embeddings, *old.parameters(), *old.buffers())
    encoder: nn.Module = copy.deepcopy(old, {id(one): one for one in shared})
    for name in dict.fromkeys(name.rpartition(".")[0] for name in names):
        base = modules.get(name)
        if not isinstance(base, nn.Linear):
            raise BadCheckpoint(f"{folder} adapts {name}, which this encoder does not have")
        up, down = (tensors.get(f"encoder.{name}.{side}", torch.empty(0)) for side in ("up", "down"))
        rank = len(down)
        fits = up.shape == (base.out_features, rank) and down.shape == (rank, base.in_features)
        require(
            fits, f"{folder}: the correction of {name} does not fit its matrix; copy the skill again", BadCheckpoint
        )
        parent, _, last = name.rpartition(".")
        setattr(encoder.get_submodule(parent), last, LoRA(base, rank, scale * rank, (down, up)))
    return encoder


def write_skill(skill: Skill, network: Network, folder: Path, *, overwrite: bool = False) -> None:
    """Write the adapters and the head of a network that was trained with `add_lora` into its run's folder, in int8."""
    tensors: dict[str, Tensor] = {}
    for name, module in network.encoder.named_modules():
        if isinstance(module, LoRA):
            tensors |= {f"encoder.{name}.down": module.down, f"encoder.{name}.up": module.up}
    if (capital := getattr(network.encoder.embeddings, "capital", None)) is not None:
        tensors[_CAPITAL] = capital.weight
    if skill.head is not None:
        head = network.heads[skill.head]
        tensors |= {f"head.{name}": weight for name, weight in head.named_parameters()}
    with staged(folder, own=True, overwrite=overwrite) as stage:
        write_json(asdict(skill), stage / DESCRIPTION)
        write_tensors(tensors, stage / ADAPTER, int8=True)


def encoder_digest(encoder: nn.Module) -> str:
    """SHA-256 of an encoder's weights, adapters aside."""
    adapters = (".down", ".up", "embeddings.capital.weight")
    named = {name.replace(".base.", "."): weight for name, weight in encoder.named_parameters()}
    return digest({name: weight.detach().cpu() for name, weight in named.items() if not name.endswith(adapters)})


@torch.no_grad()
def tell_capitals(checkpoint: Checkpoint, table: Tensor | None = None) -> Checkpoint:
    """Give the checkpoint with embeddings for capitals, with the rows of `table` if they were learnt before."""
    family, tokenizer = checkpoint.description.family, checkpoint.tokenizer
    if tokenizer is None or not NAMES[family].reads_capitals:
        raise BadConfig(f"capitals are told to a model with a table for them, not to {family}; leave capitals out")
    encoder = checkpoint.network.encoder
    if encoder.embeddings.capital is not None and table is None:
        return checkpoint  # what it has learnt before is kept
    # the tokens' table stays the one that others share
    embeddings = copy.deepcopy(encoder.embeddings, {id(part): part for part in encoder.embeddings.parameters()})
    rows = embeddings.add_capitals()
    if table is not None:
        fits = table.shape == rows.shape
        require(fits, f"a table for capitals has the shape {tuple(rows.shape)}, not {tuple(table.shape)}", BadConfig)
        rows.copy_(table)
    encoder.embeddings = embeddings
    return replace(checkpoint, tokenizer=tokenizer.with_capitals())
