"""Our parameter names ↔ Hugging Face's: one table per family."""

from typing import Any

from clearhead.hub.hf.decoders import GPT2, MARIAN, T5, XLNET
from clearhead.hub.hf.encoders import ALBERT, BERT, DISTILBERT, ELECTRA, MODERNBERT, roberta
from clearhead.hub.hf.table import Names

NAMES: dict[str, Names] = {
    "albert": ALBERT,
    "bert": BERT,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "gpt2": GPT2,
    "marian": MARIAN,
    "modernbert": MODERNBERT,
    "roberta": roberta("Roberta"),
    "t5": T5,
    "camembert": roberta("Camembert"),
    "xlm-roberta": roberta("XLMRoberta"),
    "xlnet": XLNET,
}


def names_of(family: str, config: Any) -> Names:
    """The table of a family, in the version that this configuration asks for."""
    names = NAMES[family]
    return names if names.version is None else names.version(config)
