"""What other services call it when a text is longer than the model: read in windows, refused, or cut."""

from typing import Annotated, Literal

import msgspec

from clearhead.serve.work import Refusal

TooLong = Literal["windows", "refuse", "cut-end", "cut-start"]
Truncate = Literal["NONE", "START", "END"]  # of Cohere and NIM
PromptTokens = Annotated[int, msgspec.Meta(ge=-1)]  # of vLLM; -1 is what the model reads at once
Side = Literal["left", "right"]

# Who says END, the default of most, wants an answer for a long text: windows give one in which all of it counts.
_TRUNCATE: dict[Truncate, TooLong] = {"NONE": "refuse", "START": "cut-start", "END": "windows"}


def of_truncate(truncate: Truncate | None) -> TooLong:
    """The way of Cohere and NIM."""
    return _TRUNCATE[truncate or "END"]


def of_truncation(truncation: bool | None) -> TooLong:
    """The way of Voyage and Ollama: may a text be cut? If so it is read in windows."""
    return "refuse" if truncation is False else "windows"


def of_prompt_tokens(limit: int | None, side: Side | None = None) -> tuple[TooLong, int | None]:
    """The way of vLLM: to how many tokens a text is cut, and on which side."""
    if limit is None:
        return "windows", None
    if limit == 0:
        raise Refusal(
            "invalid",
            "truncate_prompt_tokens is 0 and leaves nothing of a text; give 1 or more, or -1 for all that fits",
            field="truncate_prompt_tokens",
        )
    return ("cut-start" if side == "left" else "cut-end"), (None if limit == -1 else limit)
