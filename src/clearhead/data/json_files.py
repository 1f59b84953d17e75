"""Whole JSON files."""

import json
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput
from clearhead.text.streams import unpacked


def read_json(path: str | Path) -> Any:
    """The content of a JSON file; whatever is wrong with it becomes one sentence."""
    with unpacked(Path(path)) as (_, content):
        text = content.read().decode("utf-8-sig")
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error}).") from None
