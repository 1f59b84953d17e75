"""Drop-in pipelines for text classification, zero-shot classification, mask filling and feature extraction."""

# T tokens of a text · D width

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.pipelines.classification import class_logits
from clearhead.pipelines.compat.base import Options, Pipeline, at_least_one
from clearhead.pipelines.embedding import mixed_layers
from clearhead.pipelines.fill_mask import Filled, fill
from clearhead.pipelines.runner import per_token, read_windows, windows_of_texts
from clearhead.text import Tokenizer, Window

log = logging.getLogger(__name__)

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "softmax": lambda logits: logits.softmax(-1),
    "none": lambda logits: logits,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassOptions(Options):
    """`top_k` labels, the best first; None gives all, and the default the best one without a list round it.

    `function_to_apply` makes scores of logits: sigmoid, softmax or none; by default what the checkpoint was trained
    for. `return_all_scores` is v4's older way of asking for all labels, in the checkpoint's order.
    """

    top_k: int | str | None = ""
    function_to_apply: str | None = None
    return_all_scores: bool | None = None


class TextClassification(Pipeline[ClassOptions]):
    """Dictionaries with label and score; a pair is {"text": …, "text_pair": …}.

    v4 fails on a text longer than the model, or truncates it when told to; here it is read in windows, whose logits
    are averaged.
    """

    options = ClassOptions
    head, use = "classes", "classify"

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Classify one text or pair, many, or a stream."""
        found = super().__call__(inputs, **options)
        # v4 wraps the result of a single string, unless this very call says how many labels it wants
        return [found] if isinstance(inputs, str) and "top_k" not in options else found

    def _results(self, inputs: Sequence[Any], options: ClassOptions) -> Iterator[Any]:
        activation = self._activation(options.function_to_apply)
        if isinstance(options.top_k, int):
            at_least_one("top_k", options.top_k)
        for logits in class_logits(self.model, map(_text_or_pair, inputs)):
            names = self.model.labels or [f"LABEL_{i}" for i in range(len(logits))]
            scores = activation(logits).tolist()
            rows = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
            ranked = sorted(rows, key=lambda row: -row["score"])
            if options.top_k == "":
                yield rows if options.return_all_scores else ranked[0]
            else:
                yield ranked if options.top_k is None else ranked[: int(options.top_k)]

    def _activation(self, asked: str | None) -> Callable[[Tensor], Tensor]:
        """What makes scores of logits: as asked, or as the checkpoint was trained."""
        trained = {"regression": "none", "multi_label_classification": "sigmoid"}
        asked = asked or trained.get(str(self.model.checkpoint.description.problem))
        if asked is None:
            return lambda logits: logits.sigmoid() if len(logits) == 1 else logits.softmax(-1)
        known = ", ".join(_ACTIVATIONS)
        require(asked.lower() in _ACTIVATIONS, f"function_to_apply={asked!r} is not known; choose {known}", BadInput)
        return _ACTIVATIONS[asked.lower()]


def _text_or_pair(given: Any) -> str | tuple[str, str]:
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping) and "text" in given:
        pair = given.get("text_pair")
        return given["text"] if pair is None else (given["text"], pair)
    # the way of the first versions: a list that holds one pair
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], list | tuple) and len(given[0]) == 2:
        return given[0][0], given[0][1]
    raise BadInput(f'An input is a text, or a pair as {{"text": …, "text_pair": …}}, not {given!r}.')


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroShotOptions(Options):
    """`candidate_labels` as a list or divided by commas; `multi_label`: several may be true at once."""

    candidate_labels: str | Sequence[str] | None = None
    hypothesis_template: str = "This example is {}."
    multi_label: bool = False


class ZeroShotClassification(Pipeline[ZeroShotOptions]):
    """Dictionaries with sequence, labels and scores, the best label first.

    v4 truncates a text longer than the model; here it is read in windows, whose logits are averaged.
    """

    options = ZeroShotOptions
    head, use = "classes", "compare"

    def __call__(  # type: ignore[override] # the names are v4's
        self, sequences: Any, candidate_labels: Any = None, **options: Any
    ) -> Any:
        """Classify one text, many, or a stream."""
        if candidate_labels is not None:
            options["candidate_labels"] = candidate_labels
        return super().__call__(sequences, **options)

    def _results(self, inputs: Sequence[str], options: ZeroShotOptions) -> Iterator[Any]:
        labels, template = options.candidate_labels or (), options.hypothesis_template
        require(bool(labels), "no candidate_labels given; name at least one, as candidate_labels=[…]", BadInput)
        if isinstance(labels, str):
            labels = [part.strip() for part in labels.split(",") if part.strip()]
        found = self.model.zero_shot(inputs, labels, hypothesis_template=template, multi_label=options.multi_label)
        for text, one in zip(inputs, found, strict=True):
            yield {"sequence": text, "labels": list(one.scores), "scores": list(one.scores.values())}


@dataclass(frozen=True, kw_only=True, slots=True)
class FillOptions(Options):
    """`top_k` predictions a mask; with `targets`, only these words, or the first piece of one that is no token."""

    top_k: int | None = None
    targets: str | Sequence[str] | None = None


class FillMask(Pipeline[FillOptions]):
    """Dictionaries with score, token, token_str and sequence; of several masks, one list for each.

    v4 fails on a text longer than the model; here it is read in windows, each mask where it sees most.
    """

    options = FillOptions
    head = "masked_lm"

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Fill the masks of one text, of many, or of a stream."""
        found = super().__call__(inputs, **options)
        # v4 gives a list of one text the result of that text
        return found[0] if isinstance(inputs, list) and len(inputs) == 1 else found

    def _results(self, inputs: Sequence[str], options: FillOptions) -> Iterator[Any]:
        tokenizer = self.model.tokenizer
        top = 5 if options.top_k is None else options.top_k
        at_least_one("top_k", top)
        targets = None if options.targets is None else _target_ids(tokenizer, options.targets)
        filled = fill(self.model, inputs, top, targets)
        for text, found in zip(inputs, filled, strict=True):
            yield _dictionaries(tokenizer, text, found)


def _dictionaries(tokenizer: Tokenizer, text: str, found: Filled) -> list[Any]:
    ids = tokenizer.encode(text).ids
    masks = [position for position, token in enumerate(ids) if token == tokenizer.mask_id]
    single = len(masks) == 1
    rows: list[list[dict[str, Any]]] = [[] for _ in masks]
    for one in found.predictions:
        position = masks[one.mask]
        # with several masks the special tokens are written too, since the other masks are among them
        sequence = tokenizer.decode([*ids[:position], one.id, *ids[position + 1 :]], special=not single)
        token = tokenizer.decode([one.id], special=True)
        rows[one.mask].append({"score": one.score, "token": one.id, "token_str": token, "sequence": sequence})
    return rows[0] if single else rows


def _target_ids(tokenizer: Tokenizer, targets: str | Sequence[str]) -> list[int]:
    found = []
    for target in [targets] if isinstance(targets, str) else targets:
        token = tokenizer.token_to_id(target)
        if token is None:
            pieces = tokenizer.pieces(target).ids
            if not pieces:
                log.warning("target=%r has no tokens and is left out", target)
                continue
            token = pieces[0]
            log.warning("target=%r is not in the vocabulary; %r stands for it", target, tokenizer.id_to_token(token))
        found.append(token)
    require(bool(found), f"targets={targets!r} has no word with a token; name at least one", BadInput)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureOptions(Options):
    """`return_tensors`: a tensor (1, T, D) for each text, not nested lists."""

    return_tensors: bool | None = None


class FeatureExtraction(Pipeline[FeatureOptions]):
    """Nested lists (1, T, D): the last hidden state of every token of a text, special tokens included.

    v4 fails on a text longer than the model, or truncates it when told to; here it is read in windows, each token
    where it sees most.
    """

    options = FeatureOptions

    def _results(self, inputs: Sequence[str], options: FeatureOptions) -> Iterator[Any]:
        encoder = self.model.encoder

        def windows(chunk: list[str]) -> list[list[Window]]:
            return windows_of_texts(self.model.tokenizer, chunk, encoder.max_length)

        for _, item, tables in read_windows(encoder, mixed_layers(encoder), per_token, inputs, windows):
            hidden = _joined(item, tables)[None]
            yield hidden if options.return_tensors else hidden.tolist()


def _joined(windows: Sequence[Window], tables: Sequence[Tensor]) -> Tensor:
    """Hidden states of a text's windows -> (T, D): the special tokens of the outer windows, each piece once."""
    best = [table[one.best.start : one.best.stop] for one, table in zip(windows, tables, strict=True)]
    return torch.cat([tables[0][: windows[0].passage.start], *best, tables[-1][windows[-1].passage.stop :]])
