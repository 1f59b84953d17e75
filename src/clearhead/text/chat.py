"""Conversations as one prompt: a checkpoint's chat template, rendered without letting it run anything.

A template is a program of a stranger's in Jinja's language. It is rendered in Jinja's sandbox, with fewer filters and
methods than that allows: what templates of models use, and nothing that makes much out of little.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from clearhead.errors import BadCheckpoint, BadInput, ClearheadError, NotFound, require, short
from clearhead.text.tokenizer import Tokenizer

Message = Mapping[str, Any]  # role, such as system, user or assistant, and content
CHAT_TEMPLATE = "chat_template"  # in tokenizer_config.json
_WHERE = f"the chat template ({CHAT_TEMPLATE} in tokenizer_config.json)"

_METHODS: dict[type, str] = {
    str: "strip lstrip rstrip split replace startswith endswith upper lower title capitalize",
    dict: "get items keys values",
}
_FILTERS = """
    abs capitalize count d default dictsort first float int items join last length list lower map max min reject
    rejectattr replace reverse round safe select selectattr sort string sum title trim unique upper
"""
_MOST = 1_000_000  # characters of a prompt, far beyond what any model here reads
_RANGE = 10_000


class _Environment(ImmutableSandboxedEnvironment):
    """Reads items, and calls only the methods and filters above; a product or a format could fill the memory."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.filters = {name: self.filters[name] for name in _FILTERS.split()} | {"tojson": _json}
        self.globals = {"raise_exception": _refuse, "namespace": Namespace, "range": _short_range, "dict": dict}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only what is named above, the state of a loop, and what the template itself put into a namespace."""
        if isinstance(obj, LoopContext | Namespace):
            return not attr.startswith("_")
        return attr in _METHODS.get(type(obj), "").split()

    def wrap_str_format(self, value: Any) -> None:
        """Jinja would let format through, before it asks whether it may be used."""

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Numbers only, and no powers."""
        numbers = all(type(side) in (int, float) for side in (left, right))
        if operator == "**" or not numbers:
            raise SecurityError(f"{operator} of {type(left).__name__} and {type(right).__name__} is not allowed")
        return super().call_binop(context, operator, left, right)


def _refuse(message: Any) -> NoReturn:
    raise BadInput(f"the model's chat template refuses these messages: {short(message)}")


def _json(value: Any, indent: int | None = None) -> str:
    """As it is written, where Jinja's own would write an apostrophe for a page of HTML."""
    return json.dumps(value, ensure_ascii=False, indent=None if indent is None else min(indent, 8))


def _short_range(*given: int) -> range:
    found = range(*given)
    if len(found) > _RANGE:
        raise SecurityError(f"a range of {len(found)} is longer than {_RANGE}")
    return found


@dataclass(frozen=True)
class ChatTemplate:
    """What makes a prompt of messages, with the special tokens that it may write."""

    source: str
    tokens: Mapping[str, str]  # "bos_token" and the like

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """The template that came with a tokenizer; of several, the one named default."""
        found = tokenizer.settings.get(CHAT_TEMPLATE)
        if isinstance(found, list):
            found = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}.get("default")
        told = "this model has no chat template; it goes on from plain prompts: leave the messages out"
        require(found is not None, told, NotFound)
        require(isinstance(found, str), f"{_WHERE} is no text but {short(found)}; copy the file again", BadCheckpoint)
        said = {name: value for name, value in tokenizer.settings.items() if name.endswith("_token")}
        named = {name: one.get("content") if isinstance(one, dict) else one for name, one in said.items()}
        known = {f"{role}_token": token for role, token in tokenizer.special.items()}
        return cls(str(found), {**known, **{name: one for name, one in named.items() if isinstance(one, str)}})

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt after which the model writes the assistant's next message."""
        check_messages(messages)
        pieces, length = [], 0
        try:
            template = _Environment().from_string(self.source)
            variables = {"messages": [dict(one) for one in messages], "add_generation_prompt": True, **self.tokens}
            for piece in template.generate(**variables):
                length += len(piece)
                told = f"{_WHERE} writes more than {_MOST:,} characters; choose another model"
                require(length <= _MOST, told, BadCheckpoint)
                pieces.append(piece)
        except ClearheadError:
            raise
        except (
            TemplateError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as e:
            raise BadCheckpoint(f"{_WHERE} cannot be used here: {short(str(e))}") from None
        return "".join(pieces)


def check_messages(messages: Sequence[Message], where: str = "the conversation") -> None:
    """Refuse what is no conversation: messages with a role and a content that are texts, of which there is one."""
    require(len(messages) > 0, f"{where} has no message; give one, such as a user's", BadInput)
    for number, one in enumerate(messages, start=1):
        for name in ("role", "content"):
            value = one.get(name) if isinstance(one, Mapping) else None
            told = f"{where}, message {number} has {short(value)} for {name!r}; write a text"
            require(isinstance(value, str), told, BadInput)
