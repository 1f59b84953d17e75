"""`clearhead.pipeline`: a drop-in for the pipelines of transformers v4."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clearhead.errors import BadInput, NotFound, check_options, near, require
from clearhead.hub.remote import find, unasked
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
from clearhead.pipelines.model import Model, load, precision
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
# the tasks for which another built-in model is taken than the encoder, and what they do with it
_WRITE = {"summarization": "generate", "text-generation": "generate", "translation": "translate"}


def pipeline(
    task: str,
    model: str | Path | Model | None = None,
    *,
    tokenizer: str | Path | Tokenizer | None = None,
    revision: str | None = None,
    device: str | int | torch.device | None = None,
    device_map: str | int | torch.device | Mapping[str, Any] | None = None,
    dtype: torch.dtype | str | None = None,
    torch_dtype: torch.dtype | str | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Pipeline[Any]:
    """Make v4's pipeline for a task: the same names, arguments and result dictionaries, in plain Python values.

    `options` are those of a call, which may override them. Texts longer than the model are read in windows, never
    truncated. `device` is a name or, as in v4, a number: -1 for the CPU, else that GPU; `device_map` names one device
    too, or "auto". `revision` is one of the hub's. `model_kwargs` may say all of these.

    Without a `model` it is a built-in one: the translator translates, the GPT generates and summarises, the encoder
    does the rest.

    >>> ask = clearhead.pipeline("question-answering")
    >>> ask(question="Where did Ada live?", context="Ada Lovelace lived in London.")["answer"]
    'London'
    """
    given, asked = {**(model_kwargs or {})}, task
    check_options([name for name in given if name not in _ANYWAY], _OF_MODEL, "model_kwargs")
    revision = _one("revision", revision, given.get("revision"))
    where = _place(device, _one("device_map", device_map, given.get("device_map")))
    precise = _one("dtype", dtype, torch_dtype, given.get("dtype"), given.get("torch_dtype"))
    if codes := re.fullmatch(r"translation_(\w+)_to_(\w+)", task):
        task, options = "translation", {"src_lang": codes[1], "tgt_lang": codes[2], **options}
    require(task in TASKS, f"there is no pipeline for {task!r}; {near(task, TASKS)}", NotFound)
    number = None if precise in (None, "auto") else precision(precise)  # what is saved is never finer than float32
    if isinstance(model, Model):
        named = "the model that was given is one already; {} is for a folder or a name of the hub"
        require(revision is None, named.format("revision"), BadInput)
        own = next(iter(model.network.parameters())).dtype
        require(number in (None, own), f"{named.format('dtype')}, or load it so: clearhead.load(dtype=…)", BadInput)
        loaded = model if where is None else model.to(where)
    else:
        source = _revised(model, revision) or unasked(_WRITE.get(task))
        loaded = load(source, device=where or "cpu", dtype=number or torch.float32)
    if tokenizer is not None:
        words = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.from_folder(find(tokenizer))
        loaded = Model(replace(loaded.checkpoint, tokenizer=words))
    return TASKS[task](loaded, asked, **options)


# what v4's users write for the model, and of that what is so anyway: weights are read as safetensors, without a copy
_OF_MODEL = ("dtype", "torch_dtype", "revision", "device_map")
_ANYWAY = frozenset({"low_cpu_mem_usage", "use_safetensors", "attn_implementation", "trust_remote_code"})


def _one(name: str, *given: Any) -> Any:
    """The one value that was given for an option, under whichever name."""
    said = list(dict.fromkeys(str(value).removeprefix("torch.") for value in given if value is not None))
    require(len(said) < 2, f"{name} was given as {' and as '.join(said)}; give it once", BadInput)
    return next((value for value in given if value is not None), None)


def _place(device: str | int | torch.device | None, device_map: Any) -> str | torch.device | None:
    """Where the model is to compute: on one device."""
    if device_map is not None:
        require(device is None, "device and device_map are one option; give one of the two", BadInput)
        device = device_map
        if isinstance(device_map, Mapping):
            places = list(dict.fromkeys(device_map.values()))
            told = f"device_map names {len(places)} devices, and clearhead computes on one; name one"
            require(len(places) == 1, told, BadInput)
            device = places[0]
        if device in ("auto", "balanced", "balanced_low_0", "sequential"):
            return "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(device, int):
        return "cpu" if device < 0 else f"cuda:{device}"
    return device


def _revised(model: str | Path | None, revision: str | None) -> str | Path | None:
    """The name of a model of the hub with a revision; a folder has but one."""
    if revision is None or (revision == "main" and (model is None or Path(model).exists())):
        return model
    there = model is None or isinstance(model, Path) or Path(model).exists()
    what = "the built-in model" if model is None else model
    require(not there, f"revision={revision!r} is for a model of the hub, and {what} is here; leave it out", BadInput)
    twice = "@" in str(model)
    require(not twice, f"{model} names its revision already; leave revision={revision!r} out", BadInput)
    return f"{model}@{revision}"
