"""Strings the library accepts."""

import re

from clearhead.errors import BadInput, require

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_text(text: str) -> str:
    """Half a surrogate pair is no character and the library refuses it: one U+FFFD for each keeps offsets right."""
    require(isinstance(text, str), f"A text must be a string, not {type(text).__name__}.", BadInput)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
