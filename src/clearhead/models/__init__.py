"""One file per paper: configuration, encoder, heads, presets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from clearhead.models import albert, bert, distilbert, electra, modernbert, roberta


@dataclass(frozen=True)
class Family:
    """What a model file offers: its configuration, its encoder, and the heads that go with it."""

    config: type
    encoder: Callable[[Any], nn.Module]
    heads: Callable[..., dict[str, nn.Module]]


# by the `model_type` of a published config.json
FAMILIES = {
    "albert": Family(albert.AlbertConfig, albert.Albert, albert.heads),
    "bert": Family(bert.BertConfig, bert.Bert, bert.heads),
    "distilbert": Family(distilbert.DistilBertConfig, distilbert.DistilBert, distilbert.heads),
    "electra": Family(electra.ElectraConfig, electra.Electra, electra.heads),
    "modernbert": Family(modernbert.ModernBertConfig, modernbert.ModernBert, modernbert.heads),
    "roberta": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
    # after the family that they are: a configuration of our own making goes by the first name of its class
    "camembert": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
    "xlm-roberta": Family(roberta.RobertaConfig, roberta.Roberta, roberta.heads),
}
