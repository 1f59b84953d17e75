"""Natural English of natural length that every machine has: paragraphs of the standard library's docstrings."""

import pkgutil
import re
import sys
from importlib import import_module


def docstring_texts() -> list[str]:
    """Every paragraph once, in an order that does not change."""
    found: dict[str, None] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules() if m.name in sys.stdlib_module_names):
        if module.startswith("_") or module in ("antigravity", "this", "idlelib", "turtledemo", "lib2to3"):
            continue
        try:
            names = vars(import_module(module)).values()
        except Exception:  # a module that this platform cannot import has no docstrings to give
            continue
        for doc in sorted({doc for thing in names if isinstance(doc := getattr(thing, "__doc__", None), str)}):
            for paragraph in re.split(r"\n\s*\n", doc):
                text = " ".join(paragraph.split())
                if len(text) > 20 and text[0].isupper():
                    found[text] = None
    return list(found)
