"""DREAM (Sun et al. 2019): dialogues with questions, each with choices of which one is right."""

from pathlib import Path

from clearhead.data.examples import ChoiceExample
from clearhead.data.json_files import read_json
from clearhead.data.readers import choice_example, with_question
from clearhead.errors import BadInput


def is_dream(source: str | Path) -> bool:
    """Tell DREAM's lists of lists from a list of records."""
    if not str(source).endswith(".json") or not Path(source).is_file():
        return False
    content = read_json(source)
    return isinstance(content, list) and bool(content) and isinstance(content[0], list)


def read_dream(path: str | Path) -> list[ChoiceExample]:
    """Read [[turns], [{question, choice, answer}], id] for each dialogue; the question goes with each choice."""
    found = []
    for number, record in enumerate(read_json(path), start=1):
        where = f"{path}, dialogue {number}"
        try:
            turns, questions, _ = record
            for asked in questions:
                example = choice_example("\n".join(turns), asked["choice"], asked["answer"], where)
                found.append(with_question(example, asked["question"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"{where} is not [[turns], [questions], id] as DREAM has it.") from None
    return found
