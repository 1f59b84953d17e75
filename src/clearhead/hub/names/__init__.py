"""Our parameter names ↔ Hugging Face's: one table per family."""

from typing import Any

from clearhead.hub.names import albert, bert, distilbert, electra, gpt2, marian, modernbert, roberta, t5, xlnet
from clearhead.hub.names.table import Names

NAMES: dict[str, Names] = {
    "albert": albert.NAMES,
    "bert": bert.NAMES,
    "distilbert": distilbert.NAMES,
    "electra": electra.NAMES,
    "gpt2": gpt2.NAMES,
    "marian": marian.NAMES,
    "modernbert": modernbert.NAMES,
    "roberta": roberta.names("Roberta"),
    "t5": t5.NAMES,
    "camembert": roberta.names("Camembert"),
    "xlm-roberta": roberta.names("XLMRoberta"),
    "xlnet": xlnet.NAMES,
}


def names_of(family: str, config: Any) -> Names:
    """The table of a family, in the version that this configuration asks for."""
    names = NAMES[family]
    return names if names.version is None else names.version(config)
