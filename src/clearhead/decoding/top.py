"""The few largest of very many: which tokens are likeliest."""

# R rows · V vocabulary · C chunks of a row

import torch
from torch import Tensor

_CHUNK = 128
_WORTH = 8  # chunks a row must have for each value that is wanted
_FEWEST = 32  # chunks a row must have at all


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest scores (R, V) of each row and their places, both (R, count), largest first.

    On a CPU, a look at the largest of each chunk finds the chunks that can hold them, which is much less to sort.
    """
    count = min(count, scores.shape[-1])
    chunks = scores.shape[-1] // _CHUNK
    if scores.device.type != "cpu" or chunks < max(_FEWEST, _WORTH * count):
        return tuple(scores.topk(count))  # type: ignore[return-value]
    whole = chunks * _CHUNK
    parts = scores[:, :whole].unflatten(1, (chunks, _CHUNK))
    likely = parts.amax(-1).topk(count).indices  # (R, count)
    places = (likely.unsqueeze(-1) * _CHUNK + torch.arange(_CHUNK)).flatten(1)
    rest = torch.arange(whole, scores.shape[-1]).expand(len(scores), -1)
    places = torch.cat([places, rest], 1)
    values, found = scores.gather(1, places).topk(count)
    return values, places.gather(1, found)
