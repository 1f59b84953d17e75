"""`pipeline("text-classification")`, also called "sentiment-analysis": the labels of a text or a pair of texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clearhead.errors import BadInput, require
from clearhead.pipelines.classify import class_logits
from clearhead.pipelines.dropin.calls import Options, at_least_one, feed, settle
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.model import Model

_FUNCTIONS = ("sigmoid", "softmax", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassOptions(Options):
    """`top_k` labels, the best first; None gives all, and the default the best one without a list round it.

    `function_to_apply` makes scores of logits: sigmoid, softmax or none; by default what the checkpoint was trained
    for. `return_all_scores` is v4's older way of asking for all labels, in the checkpoint's order.
    """

    top_k: int | str | None = ""
    function_to_apply: str | None = None
    return_all_scores: bool | None = None


class TextClassification:
    """Dictionaries with label and score; a pair is {"text": …, "text_pair": …}.

    v4 fails on a text longer than the model, or truncates it when told to; here it is read in windows, whose logits
    are averaged.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        check_head(model.network, "classes")
        self.model = model
        self._said = options
        settle(ClassOptions, options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Classify one text or pair, many, or a stream."""
        chosen = settle(ClassOptions, self._said, options)
        found = feed(inputs, lambda texts: self._results(texts, chosen), chosen)
        # v4 wraps the result of a single string, unless this very call says how many labels it wants
        return [found] if isinstance(inputs, str) and "top_k" not in options else found

    def _results(self, texts: Sequence[Any], chosen: ClassOptions) -> Iterator[Any]:
        function = self._function(chosen.function_to_apply)
        if isinstance(chosen.top_k, int):
            at_least_one("top_k", chosen.top_k)
        for logits in class_logits(self.model.network, self.model.tokenizer, map(_text_or_pair, texts)):
            names = self.model.labels or [f"LABEL_{i}" for i in range(len(logits))]
            scores = _applied(function, logits).tolist()
            rows = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
            ranked = sorted(rows, key=lambda row: -row["score"])
            if chosen.top_k == "":
                yield rows if chosen.return_all_scores else ranked[0]
            else:
                yield ranked if chosen.top_k is None else ranked[: int(chosen.top_k)]

    def _function(self, asked: str | None) -> str:
        if asked is not None:
            known = ", ".join(_FUNCTIONS)
            require(asked.lower() in _FUNCTIONS, f"function_to_apply={asked!r} is not known; choose {known}", BadInput)
            return asked.lower()
        match self.model.checkpoint.description.problem:
            case "regression":
                return "none"
            case "multi_label_classification":
                return "sigmoid"
            case _:
                return "default"


def _applied(function: str, logits: Tensor) -> Tensor:
    if function == "none":
        return logits
    return (
        logits.sigmoid()
        if function == "sigmoid" or (function == "default" and len(logits) == 1)
        else logits.softmax(-1)
    )


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
