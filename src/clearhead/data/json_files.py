"""Whole JSON files."""

import json
from pathlib import Path
from typing import Any

from clearhead.errors import BadInput, NotFound


def read_json(path: str | Path) -> Any:
    """The content of a JSON file; whatever is wrong with it becomes one sentence."""
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except OSError as error:
        raise NotFound(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:  # UnicodeDecodeError is one too
        raise BadInput(f"{path} is not JSON in UTF-8 ({error}).") from None
