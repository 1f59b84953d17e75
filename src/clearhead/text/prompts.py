"""Prompts for models that write: a few examples, and then the query in the same form (Brown et al. 2020)."""

from collections.abc import Iterable

from clearhead.errors import BadInput, require

STOP = "\n\n"  # what a model writes when it goes on to a next example; give it to `generate` as `stop`


def few_shot(
    examples: Iterable[tuple[str, str]],
    query: str,
    *,
    instruction: str = "",
    names: tuple[str, str] = ("Input", "Output"),
) -> str:
    """Lay out examples, each with its answer, and a query whose answer is to be written.

    With no examples it is zero-shot, with one one-shot. `names` stand before each side; the text ends with the colon
    after which a model goes on, and `STOP` ends its answer.
    """
    asked, answered = names
    blocks = [instruction] if instruction else []
    for example in [*examples, (query, None)]:
        require(len(example) == 2, f"an example is a text and its answer, not {example!r}", BadInput)
        text, answer = example
        for side in (text, answer or ""):
            require(STOP not in side, f"an empty line would end the example {side!r}; take it out", BadInput)
        blocks.append(f"{asked}: {text}\n{answered}:" + ("" if answer is None else f" {answer}"))
    return STOP.join(blocks)
