"""clearhead: the whole life of Transformers and BERT in one small, fast, readable package."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from clearhead.errors import ClearheadError as ClearheadError

# public name -> where it lives; nothing is imported before it is used, so that `import clearhead` is fast and quiet
_HOMES = {
    "ClearheadError": "clearhead.errors",
}

__all__ = ["ClearheadError", "__version__"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'clearhead' has no attribute {name!r}; public names: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
