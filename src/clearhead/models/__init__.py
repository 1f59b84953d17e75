"""One file per paper: configuration, encoder, heads, presets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from clearhead.models import bert


@dataclass(frozen=True)
class Family:
    """What a model file offers: its configuration, its encoder, and the heads that go with it."""

    config: type
    encoder: Callable[[Any], nn.Module]
    heads: Callable[..., dict[str, nn.Module]]


# by the `model_type` of a published config.json
FAMILIES = {
    "bert": Family(bert.BertConfig, bert.Bert, bert.heads),
}
