"""A head on features of a frozen encoder, in two files beside the encoder's own, which others read as it was."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args

from torch import Tensor, nn

from clearhead.errors import BadCheckpoint, BadInput, WrongTask, require, short
from clearhead.hub.weights import read_tensors, write_tensors
from clearhead.io import read_record, write_json
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.features import LayerFeatures, Mix, RecurrentPooler, RecurrentTokenHead
from clearhead.nn.heads import Network, Pooling, SentenceVector, SequenceHead, TokenHead

DESCRIPTION, TENSORS = "features.json", "features.safetensors"
HEADS = ("classes", "tags")


@dataclass(frozen=True, kw_only=True)
class FeatureHead:
    """What features.json says: a head of classes or tags, the layers that it reads, and how they are one vector."""

    head: str
    outputs: int
    layers: tuple[int, ...]
    combine: str
    lstm: int | None = None  # width of each direction of a BiLSTM; None is a linear map
    pooling: str = "mean"  # of classes without an LSTM

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check `folder`/features.json."""
        path = folder / DESCRIPTION
        found = read_record(path, cls)
        for name, known in (("head", HEADS), ("combine", get_args(Mix)), ("pooling", get_args(Pooling))):
            value = getattr(found, name)
            message = f"{path}: {name} {short(value)} is not known; it is one of {', '.join(known)}"
            require(value in known, message, BadCheckpoint)
        for name in ("outputs", "lstm"):
            value = getattr(found, name)
            message = f"{path}: {name} is {value}, not a positive number; copy the folder again"
            require(value is None or value > 0, message, BadCheckpoint)
        return found

    @classmethod
    def of(cls, network: Any) -> Self | None:
        """What a network with features would say of itself; None of one without."""
        if getattr(network, "features", None) is None:
            return None
        ((name, head),) = network.heads.items()
        part: Any = getattr(head, "pooler", head)
        features: LayerFeatures = network.features
        return cls(
            head=name,
            outputs=head.get_parameter("classifier.weight").shape[0],
            layers=features.layers,
            combine=features.combine,
            lstm=part.lstm.inner if isinstance(part, RecurrentTokenHead | RecurrentPooler) else None,
            pooling=part.pooling if isinstance(part, SentenceVector) else "mean",
        )

    def build(self, encoder: Any, dropout: float = 0.0) -> Network:
        """A network with fresh parts on this encoder."""
        told = "an encoder–decoder has two stacks of layers, and none that a head could read; choose an encoder"
        require(not isinstance(encoder, EncoderDecoder), told, WrongTask)
        depth = len(encoder.blocks)
        for layer in self.layers:
            fits = -depth - 1 <= layer <= depth
            require(fits, f"layer {layer} is not there; this model has layers 0 to {depth}", BadInput)
        features = LayerFeatures(self.layers, self.combine, encoder.width)  # type: ignore[arg-type]
        return Network(encoder, {self.head: self._head(features.width, dropout)}, features)

    def _head(self, width: int, dropout: float) -> nn.Module:
        if self.head == "tags" and self.lstm is not None:
            return RecurrentTokenHead(width, self.lstm, self.outputs, dropout)
        if self.head == "tags":
            return TokenHead(width, self.outputs, dropout)
        if self.lstm is not None:
            return SequenceHead(RecurrentPooler(width, self.lstm, dropout), 2 * self.lstm, self.outputs, dropout)
        return SequenceHead(SentenceVector(self.pooling), width, self.outputs, dropout)  # type: ignore[arg-type]


def write_features(network: Network, folder: Path) -> None:
    """Write the head of a network with features, if it has some, and what it reads, beside the encoder's files."""
    if (described := FeatureHead.of(network)) is not None:
        write_json(asdict(described), folder / DESCRIPTION)
        write_tensors(_tensors(network), folder / TENSORS)


def read_features(folder: Path, encoder: Any, labels: Sequence[str] | None) -> Network:
    """The network whose head lies in the folder beside the encoder's files."""
    described = FeatureHead.read(folder)
    told = (
        f"{folder}: config.json names {len(labels or ())} labels for {described.outputs} outputs; copy the folder again"
    )
    require(labels is None or len(labels) == described.outputs, told, BadCheckpoint)
    state = read_tensors(folder / TENSORS)
    _check_sizes(described, state, folder)
    network = described.build(encoder)
    wanted, found = ({name: tuple(one.shape) for name, one in some.items()} for some in (_tensors(network), state))
    message = f"{folder}: {DESCRIPTION} and {TENSORS} are of different heads; copy the folder again"
    require(wanted == found, message, BadCheckpoint)
    network.load_state_dict(state, strict=False)
    return network.to(next(encoder.parameters()).dtype)


def _check_sizes(described: FeatureHead, state: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse sizes that the tensors do not have, before anything so large is made."""
    rows = state.get(f"heads.{described.head}.classifier.weight")
    largest = max((side for tensor in state.values() for side in tensor.shape), default=0)
    fits = rows is not None and rows.dim() == 2 and len(rows) == described.outputs
    fits = fits and max(described.lstm or 0, len(described.layers)) <= largest
    told = f"{folder}: {DESCRIPTION} asks for other sizes than {TENSORS} holds; copy the folder again"
    require(fits, told, BadCheckpoint)


def _tensors(network: Network) -> dict[str, Tensor]:
    return {name: one for name, one in network.state_dict().items() if not name.startswith("encoder.")}
