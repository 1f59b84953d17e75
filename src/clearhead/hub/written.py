"""The tokenizer that lies beside a model that writes: transformers is to read what the model was trained to read."""

from typing import Any

from clearhead.text import Tokenizer
from clearhead.text.tokenizer import ANY_CLASS

_ROLES = ("bos", "eos", "pad")


def tokenizer_as_read(tokenizer: Tokenizer, config: Any, *, sourced: bool) -> Tokenizer:
    """The same tokenizer, which puts round a text what such a model reads there, tells no segments and names its ends.

    A source is followed by the end token and by nothing else; a prompt has nothing after it, for it goes on.
    """
    before, _ = tokenizer.template.round_one
    ids = {f"{role}_token": getattr(config, f"{role}_token_id", None) for role in _ROLES}
    names = {role: tokenizer.id_to_token(token) for role, token in ids.items() if token is not None}
    ends = {role: name for role, name in names.items() if name is not None and not tokenizer.settings.get(role)}
    # GPT-2 would add a token's vector for each segment, and others refuse them
    settings = {"model_input_names": ["input_ids", "attention_mask"], **ends}
    # Marian's own class reads source.spm and the like, never tokenizer.json
    if tokenizer.settings.get("tokenizer_class") == "MarianTokenizer":
        settings["tokenizer_class"] = ANY_CLASS
    if not sourced:
        return tokenizer.between(before, (), settings)
    if tokenizer.id_to_token(config.eos_token_id) is None:  # it belongs to another model
        return tokenizer.between(*tokenizer.template.round_one, settings)
    return tokenizer.between((), (config.eos_token_id,), settings)
