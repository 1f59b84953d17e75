import pytest

from clearhead.errors import BadInput
from clearhead.text.prompts import STOP, few_shot


def test_examples_and_query_have_one_form() -> None:
    prompt = few_shot([("cheese", "fromage"), ("sea otter", "loutre de mer")], "bread", instruction="Translate.")
    examples = "Input: cheese\nOutput: fromage\n\nInput: sea otter\nOutput: loutre de mer"
    assert prompt == f"Translate.\n\n{examples}\n\nInput: bread\nOutput:"
    assert few_shot([], "2 + 2", names=("Q", "A")) == "Q: 2 + 2\nA:"
    assert prompt.split(STOP)[1:3] == ["Input: cheese\nOutput: fromage", "Input: sea otter\nOutput: loutre de mer"]


def test_what_would_end_an_example_is_refused() -> None:
    with pytest.raises(BadInput, match="an empty line would end the example"):
        few_shot([("a\n\nb", "c")], "d")
    with pytest.raises(BadInput, match="an example is a text and its answer"):
        few_shot([("a", "b", "c")], "d")  # type: ignore[list-item]
