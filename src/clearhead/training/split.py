"""Cutting a batch in two by sequences, when it does not fit into memory."""

# B sequences · N packed tokens · M chosen tokens · Q questions · P pairs

from itertools import accumulate

from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput
from clearhead.nn.layout import Packed

_BY_TOKEN = {"tags", "next", "previous", "place", "rank"}
_BY_SEQUENCE = {"next_sentence", "sentence_order", "classes", "scores", "starts", "ends", "candidates"}
_BY_POSITION = {"where"}
_WITH_POSITION = {"labels"}
_BY_QUESTION = {"choice", "choices"}


def split_batch(batch: Batch) -> tuple[Batch, Batch]:
    """Cut a batch into two of about equally many tokens; sums of losses over both are those over the whole."""
    count = batch.layout.batch
    unknown = set(batch.targets) - _BY_TOKEN - _BY_SEQUENCE - _BY_POSITION - _WITH_POSITION - _BY_QUESTION
    if unknown or not (batch.targets or batch.source is not None):
        what = f"targets {sorted(unknown)}" if unknown else "no targets"
        raise BadInput(f"a batch with {what} cannot be cut in two, because its sequences belong together")
    ends = list(accumulate(batch.layout.lengths))
    # candidates of one question stay together
    cuts = batch.targets["choices"].cumsum(0).tolist() if "choices" in batch.targets else range(1, count + 1)
    inner = [cut for cut in cuts if cut < count]
    if not inner:
        raise BadInput("a batch of one sequence cannot be cut in two; choose shorter sequences or a smaller network")
    cut = min(inner, key=lambda place: abs(2 * ends[place - 1] - batch.tokens))
    return _part(batch, 0, cut), _part(batch, cut, count)


def split(batch: Batch, pieces: int) -> list[Batch]:
    """Cut a batch into `pieces` (a power of two), or fewer where it has fewer sequences."""
    if pieces == 1 or batch.layout.batch < 2:
        return [batch]
    return [piece for half in split_batch(batch) for piece in split(half, pieces // 2)]


def _part(batch: Batch, first: int, last: int) -> Batch:
    """Take sequences `first` to `last`, without the last."""
    lengths = batch.layout.lengths
    start, end = sum(lengths[:first]), sum(lengths[:last])
    layout = Packed.of(lengths[first:last], batch.ids.device, batch.layout.backend)
    segments = None if batch.segments is None else batch.segments[start:end]
    where = batch.targets.get("where")
    chosen = None if where is None else (where >= start) & (where < end)  # (M,)

    def cut(name: str, target: Tensor) -> Tensor:
        if name in _BY_TOKEN:
            return target[start:end]
        if name in _BY_SEQUENCE:
            return target[first:last]
        if name in _BY_QUESTION:
            ends = batch.targets["choices"].cumsum(0)  # (Q,)
            return target[(ends > first) & (ends <= last)]
        assert chosen is not None  # noqa: S101  labels come with where
        return target[chosen] - start if name in _BY_POSITION else target[chosen]

    targets = {name: cut(name, target) for name, target in batch.targets.items()}
    source = None if batch.source is None else _part(batch.source, first, last)
    return Batch(batch.ids[start:end], layout, segments, targets, source)
