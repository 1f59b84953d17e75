"""`clearhead.pipeline`: a drop-in for the pipelines of transformers v4."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadInput, NotFound, require
from clearhead.hub.remote import find
from clearhead.pipelines.compat.base import Pipeline
from clearhead.pipelines.compat.generation import Summarization, Text2Text, TextGeneration, Translation
from clearhead.pipelines.compat.question_answering import QuestionAnswering
from clearhead.pipelines.compat.token_classification import TokenClassification
from clearhead.pipelines.compat.understanding import (
    FeatureExtraction,
    FillMask,
    TextClassification,
    ZeroShotClassification,
)
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer

# v4's name of a task -> what does it
TASKS: Mapping[str, type[Pipeline[Any]]] = {
    "feature-extraction": FeatureExtraction,
    "fill-mask": FillMask,
    "ner": TokenClassification,
    "question-answering": QuestionAnswering,
    "sentiment-analysis": TextClassification,
    "summarization": Summarization,
    "text-classification": TextClassification,
    "text-generation": TextGeneration,
    "text2text-generation": Text2Text,
    "token-classification": TokenClassification,
    "translation": Translation,
    "zero-shot-classification": ZeroShotClassification,
}


def pipeline(
    task: str,
    model: str | Path | Model | None = None,
    *,
    tokenizer: str | Path | Tokenizer | None = None,
    device: str | int | torch.device | None = None,
    torch_dtype: torch.dtype | str | None = None,
    **options: Any,
) -> Pipeline[Any]:
    """Make v4's pipeline for a task: the same names, arguments and result dictionaries, in plain Python values.

    `options` are those of a call, which may override them. Texts longer than the model are read in windows, never
    truncated. `device` is a name or, as in v4, a number: -1 for the CPU, else that GPU.

    >>> ask = clearhead.pipeline("question-answering")
    >>> ask(question="Where did Ada live?", context="Ada Lovelace lived in London.")["answer"]
    'London'
    """
    if codes := re.fullmatch(r"translation_(\w+)_to_(\w+)", task):
        task, options = "translation", {"src_lang": codes[1], "tgt_lang": codes[2], **options}
    require(task in TASKS, f"there is no pipeline for {task!r}; clearhead has {', '.join(TASKS)}", NotFound)
    if isinstance(device, int):
        device = "cpu" if device < 0 else f"cuda:{device}"
    if model is None or isinstance(model, str | Path):
        loaded = load(model, device=device or "cpu", dtype=_precision(torch_dtype))
    else:
        loaded = model if device is None else model.to(device)
    if tokenizer is not None:
        own = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.from_folder(find(tokenizer))
        loaded = Model(replace(loaded.checkpoint, tokenizer=own))
    return TASKS[task](loaded, **options)


def _precision(asked: torch.dtype | str | None) -> torch.dtype:
    """The type of number to compute with; "auto" is as exact as any checkpoint's own."""
    found: Any = torch.float32
    if asked not in (None, "auto"):
        found = getattr(torch, str(asked).removeprefix("torch."), None)
    fits = isinstance(found, torch.dtype) and found.is_floating_point
    require(fits, f"torch_dtype={asked!r} is not known; choose float32, float16 or bfloat16", BadInput)
    return found
