"""The README.md of a checkpoint, for people and for the hub: only what the configuration says."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clearhead.hub.config import NAMES, Description
from clearhead.hub.remote import CARD
from clearhead.io import staged
from clearhead.models import RECURRENT_FAMILIES

# our head → the task by which the hub lists a model
_TASKS = {
    "masked_lm": "fill-mask",
    "classes": "text-classification",
    "tags": "token-classification",
    "span": "question-answering",
    "choice": "multiple-choice",
    "causal_lm": "text-generation",
}
# the same for models that read a text and write another, and, by the first word of their kind, for recurrent ones
_READ_AND_WRITE = {"marian": "translation", "t5": "text2text-generation"}
_RECURRENT = {"seq2seq": "translation", "rnnlm": "text-generation"}
# what opens a model: an import and its name; two kinds have their own, since they give vectors of words and no text
_LIBRARY = ("import clearhead", "clearhead")
_OPENED = {
    "elmo": ("from clearhead.pipelines.word_vectors import ContextualWords", "ContextualWords"),
    "word2vec": ("from clearhead.pipelines.word_vectors import WordVectors", "WordVectors"),
}


def model_card(
    description: Description,
    *,
    name: str,
    parameters: int | None = None,
    sentences: bool = False,
    base_model: str | None = None,
) -> str:
    """Write the card of the model `name`; `sentences` says that it makes one vector of a text."""
    family = description.family
    size = "" if parameters is None else f" with {parameters:,} parameters"
    if family in RECURRENT_FAMILIES:  # which clearhead alone reads
        heads: tuple[str, ...] = ()
        tags, task = ["safetensors", family], _RECURRENT.get(family.partition("-")[0])
        size = f",{size}" if size else ""
        summary = f"A {_code(family)}, which is from before the Transformer{size}."
    else:
        heads = NAMES[family].architectures.get(description.architecture or "", ())
        task = _READ_AND_WRITE.get(family) if "causal_lm" in heads else None
        tags, task = ["transformers", "safetensors", family], task or _task(heads, sentences)
        held = f"heads: {', '.join(heads)}" if heads else "no head"
        summary = f"A model of the family {_code(family)}{size}, {held}."
    parts = [
        _front_matter(tags, task, base_model),
        f"# {name.rsplit('/', 1)[-1]}",
        summary + (f" It was made from {_code(base_model)}." if base_model else ""),
        _sizes(description.config),
        _labels(description.labels) if {"classes", "tags"} & set(heads) else "",
        _usage(name, description.architecture, _OPENED.get(family, _LIBRARY)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_card(card: str, folder: Path) -> bool:
    """Write the card into a folder; one that is there already, perhaps by hand, stays. Says whether it wrote."""
    if (folder / CARD).exists():
        return False
    with staged(folder) as stage:
        (stage / CARD).write_text(card, encoding="utf-8")
    return True


def _task(heads: tuple[str, ...], sentences: bool) -> str | None:
    if sentences:
        return "sentence-similarity"
    tasks = [_TASKS[head] for head in heads if head in _TASKS]
    return tasks[0] if tasks else None if heads else "feature-extraction"


def _front_matter(tags: list[str], task: str | None, base_model: str | None) -> str:
    entries: dict[str, Any] = {
        "library_name": "clearhead",
        "tags": ["clearhead", *tags],
        "pipeline_tag": task,
        "base_model": base_model,
    }
    # a JSON value is a YAML value, whatever characters are in it
    lines = [f"{key}: {json.dumps(value)}" for key, value in entries.items() if value is not None]
    return "\n".join(["---", *lines, "---"])


def _sizes(config: Any) -> str:
    rows = [
        f"| {name} | {value:,} |"
        for name, value in asdict(config).items()
        if type(value) is int and not name.endswith("_token_id")
    ]
    return "\n".join(["| size | |", "|---|---:|", *rows])


def _labels(labels: tuple[str, ...] | None, most: int = 50) -> str:
    if not labels:
        return ""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"Labels ({len(labels)}): {', '.join(_code(label) for label in labels[:most])}{more}"


def _usage(name: str, architecture: str | None, opened: tuple[str, str]) -> str:
    quoted = json.dumps(name)
    lines = ["```python", opened[0], "", f"model = {opened[1]}.load({quoted})", "```"]
    if architecture is not None:
        lines += ["", "The same with transformers:", "", "```python"]
        lines += [f"from transformers import AutoTokenizer, {architecture}", ""]
        lines += [f"tokenizer = AutoTokenizer.from_pretrained({quoted})"]
        lines += [f"model = {architecture}.from_pretrained({quoted})", "```"]
    return "\n".join(["## Load it", "", *lines])


def _code(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"
