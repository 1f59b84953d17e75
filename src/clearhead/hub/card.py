"""The README.md of a checkpoint, for people and for the hub: only what the configuration says."""

import json
from dataclasses import asdict
from pathlib import Path

from clearhead.hub.config import NAMES, Description
from clearhead.hub.features import FeatureHead
from clearhead.hub.remote import CARD
from clearhead.io import naming, staged
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
_READ_AND_WRITE = {
    "bart": "text2text-generation",
    "m2m_100": "translation",
    "marian": "translation",
    "mbart": "translation",
    "t5": "text2text-generation",
}
_RECURRENT = {"seq2seq": "translation", "rnnlm": "text-generation"}
# what opens a model: an import and its name; two kinds have their own, since they give vectors of words and no text
_OPENED = {
    "elmo": ("from clearhead.pipelines.word_vectors import ContextualWords", "ContextualWords"),
    "word2vec": ("from clearhead.pipelines.word_vectors import WordVectors", "WordVectors"),
}
_LOAD = """## Load it

```python
{opening}

model = {loader}.load({name})
```"""
_LOAD_THERE = """{what} with transformers:

```python
from transformers import AutoTokenizer, {architecture}

tokenizer = AutoTokenizer.from_pretrained({name})
model = {architecture}.from_pretrained({name})
```"""
_MOST = 50  # labels that are listed


def model_card(
    description: Description,
    *,
    name: str,
    parameters: int | None = None,
    sentences: bool = False,
    base_model: str | None = None,
    features: FeatureHead | None = None,
) -> str:
    """Write the card of the model `name`; `sentences` says that it makes one vector of a text.

    `features` are those of a head on several layers, which lies beside what the description knows.
    """
    family, architecture, labels = description.family, description.architecture, description.labels or ()
    size = "" if parameters is None else f" with {parameters:,} parameters"
    heads: tuple[str, ...] = ()
    if family in RECURRENT_FAMILIES:  # which clearhead alone reads
        tags, task = [], _RECURRENT.get(family.partition("-")[0])
        summary = f"A {_code(family)}, which is from before the Transformer{size and ',' + size}."
    else:
        heads = NAMES[family].architectures.get(architecture or "", ())
        tags, task = ["transformers"], _task(family, heads, sentences)
        held = f"heads: {', '.join(heads)}" if heads else "no head"
        if features is not None:
            heads = (features.head,)
            task = _TASKS.get(features.head)
            held = f"heads: {features.head}, on the layers {', '.join(map(str, features.layers))} ({features.combine})"
        summary = f"A model of the family {_code(family)}{size}, {held}."
    tags = ["clearhead", *tags, "safetensors", family]
    front = {"library_name": "clearhead", "tags": tags, "pipeline_tag": task, "base_model": base_model}
    # a JSON value is a YAML value, whatever characters are in it
    lines = [f"{key}: {json.dumps(value)}" for key, value in front.items() if value is not None]
    sizes = {key: value for key, value in asdict(description.config).items() if type(value) is int}
    rows = [f"| {key} | {value:,} |" for key, value in sizes.items() if not key.endswith("_token_id")]
    parts = [
        "\n".join(["---", *lines, "---"]),
        f"# {name.rsplit('/', 1)[-1]}",
        summary + (f" It was made from {_code(base_model)}." if base_model else ""),
        "\n".join(["| size | |", "|---|---:|", *rows]),
    ]
    if labels and {"classes", "tags"} & set(heads):
        more = f" and {len(labels) - _MOST} more" if len(labels) > _MOST else ""
        parts.append(f"Labels ({len(labels)}): {', '.join(map(_code, labels[:_MOST]))}{more}")
    opening, loader = _OPENED.get(family, ("import clearhead", "clearhead"))
    parts.append(_LOAD.format(opening=opening, loader=loader, name=json.dumps(name)))
    if architecture is not None:
        what = "The same" if features is None else "Its encoder alone"
        parts.append(_LOAD_THERE.format(what=what, architecture=architecture, name=json.dumps(name)))
    return "\n\n".join(parts) + "\n"


def _task(family: str, heads: tuple[str, ...], sentences: bool) -> str | None:
    if "causal_lm" in heads and family in _READ_AND_WRITE:
        return _READ_AND_WRITE[family]
    if sentences:
        return "sentence-similarity"
    tasks = [_TASKS[head] for head in heads if head in _TASKS]
    return tasks[0] if tasks else None if heads else "feature-extraction"


def _code(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def write_card(card: str, folder: Path) -> None:
    """Write the card into a folder; one that is there already, perhaps by hand, stays."""
    if not (folder / CARD).exists():
        with staged(folder, own=True) as stage, naming(stage / CARD):
            (stage / CARD).write_text(card, encoding="utf-8")
