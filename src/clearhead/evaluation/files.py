"""Reading what is to be evaluated: SQuAD data and predictions, and other JSON."""

import json
from pathlib import Path
from typing import Any

from clearhead.data.squad import read_squad
from clearhead.errors import BadInput, NotFound, require
from clearhead.evaluation.squad import golds_of


def read_json(path: str | Path) -> Any:
    """The content of a JSON file; whatever is wrong with it becomes one sentence."""
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}; check the name.") from None
    except OSError as error:
        raise NotFound(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise BadInput(f"{path} is not JSON in UTF-8 ({error}).") from None


def read_golds(path: str | Path) -> dict[str, list[str]]:
    """The accepted answers of each question in a SQuAD 1.1 or 2.0 file."""
    return golds_of(read_squad(path))


def read_predictions(path: str | Path) -> dict[str, str]:
    """SQuAD predictions: an object with the answer's text for each id."""
    content = read_json(path)
    good = isinstance(content, dict) and all(isinstance(text, str) for text in content.values())
    require(good, f"{path} must hold one JSON object that gives a text for each question id.", BadInput)
    return dict(content)


def read_no_answer(path: str | Path) -> dict[str, float]:
    """SQuAD 2.0's na_prob file: an object with the no-answer probability for each id."""
    content = read_json(path)
    good = isinstance(content, dict) and all(type(value) in (int, float) for value in content.values())
    require(good, f"{path} must hold one JSON object that gives a number for each question id.", BadInput)
    return {name: float(value) for name, value in content.items()}
