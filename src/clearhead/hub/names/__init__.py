"""Our parameter names ↔ Hugging Face's: one table per family."""

from clearhead.hub.names import albert, bert, distilbert, electra, modernbert, roberta
from clearhead.hub.names.table import Names

NAMES: dict[str, Names] = {
    "albert": albert.NAMES,
    "bert": bert.NAMES,
    "distilbert": distilbert.NAMES,
    "electra": electra.NAMES,
    "modernbert": modernbert.NAMES,
    "roberta": roberta.names("Roberta"),
    "camembert": roberta.names("Camembert"),
    "xlm-roberta": roberta.names("XLMRoberta"),
}
