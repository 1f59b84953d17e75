"""clearhead: the whole life of Transformers and BERT in one small, fast, readable package."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from clearhead.bulk.worker import Worker as Worker
    from clearhead.client.client import connect as connect
    from clearhead.errors import ClearheadError as ClearheadError
    from clearhead.inside.trace import trace as trace
    from clearhead.models.albert import AlbertConfig as AlbertConfig
    from clearhead.models.bert import BertConfig as BertConfig
    from clearhead.models.deberta import DebertaV2Config as DebertaV2Config
    from clearhead.models.distilbert import DistilBertConfig as DistilBertConfig
    from clearhead.models.electra import ElectraConfig as ElectraConfig
    from clearhead.models.modernbert import ModernBertConfig as ModernBertConfig
    from clearhead.models.mpnet import MPNetConfig as MPNetConfig
    from clearhead.models.roberta import RobertaConfig as RobertaConfig
    from clearhead.pipelines.compat.pipeline import pipeline as pipeline
    from clearhead.pipelines.model import Model as Model
    from clearhead.pipelines.model import load as load
    from clearhead.text import Tokenizer as Tokenizer
    from clearhead.text import train_tokenizer as train_tokenizer
    from clearhead.text import windows as windows

# public name -> where it lives; nothing is imported before it is used, so that `import clearhead` is fast and quiet
_HOMES = {
    "AlbertConfig": "clearhead.models.albert",
    "BertConfig": "clearhead.models.bert",
    "ClearheadError": "clearhead.errors",
    "DebertaV2Config": "clearhead.models.deberta",
    "DistilBertConfig": "clearhead.models.distilbert",
    "ElectraConfig": "clearhead.models.electra",
    "MPNetConfig": "clearhead.models.mpnet",
    "Model": "clearhead.pipelines.model",
    "ModernBertConfig": "clearhead.models.modernbert",
    "RobertaConfig": "clearhead.models.roberta",
    "Tokenizer": "clearhead.text",
    "Worker": "clearhead.bulk.worker",
    "connect": "clearhead.client.client",
    "load": "clearhead.pipelines.model",
    "pipeline": "clearhead.pipelines.compat.pipeline",
    "trace": "clearhead.inside.trace",
    "train_tokenizer": "clearhead.text",
    "windows": "clearhead.text",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'clearhead' has no attribute {name!r}; public names: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
