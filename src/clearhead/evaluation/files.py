"""Files of answers, read and written: SQuAD's predictions and no-answer probabilities, BERT's n-best lists."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.data.json_files import read_json
from clearhead.errors import BadInput, require
from clearhead.evaluation.nbest import Candidate


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


def read_nbest(path: str | Path) -> dict[str, list[Candidate]]:
    """Candidates for each id, as `write_nbest` has them; or as BERT has, with start_logit and end_logit for a score."""
    content = read_json(path)
    good = isinstance(content, dict) and all(isinstance(given, list) for given in content.values())
    require(good, f"{path} must hold one JSON object that gives a list of candidates for each question id.", BadInput)
    return {name: [_candidate(item, f"{path}, question {name!r}") for item in given] for name, given in content.items()}


def write_predictions(path: str | Path, predictions: Mapping[str, str]) -> None:
    """Write answers as `read_predictions` and the official scripts read them."""
    _write(path, dict(predictions))


def write_nbest(path: str | Path, nbest: Mapping[str, Sequence[Candidate]]) -> None:
    """Write the candidates of each question, best first."""
    _write(path, {name: [candidate._asdict() for candidate in given] for name, given in nbest.items()})


def _candidate(item: Any, where: str) -> Candidate:
    record = item if isinstance(item, dict) else {}
    names = ("score",) if "score" in record else ("start_logit", "end_logit")
    logits = [record.get(name) for name in names]
    if not isinstance(record.get("text"), str) or not all(type(logit) in (int, float) for logit in logits):
        raise BadInput(f"{where} has the candidate {item!r}; give a text and a score, or start_logit and end_logit.")
    return Candidate(record["text"], float(sum(logit for logit in logits if logit is not None)))


def _write(path: str | Path, content: Any) -> None:
    try:
        Path(path).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name a file in a folder that exists.") from None
