"""`pipeline("zero-shot-classification")`: any labels for a text, through inference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.pipelines.dropin.calls import Options, feed, settle
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.model import Model


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroShotOptions(Options):
    """`candidate_labels` as a list or divided by commas; `multi_label`: several may be true at once."""

    candidate_labels: str | Sequence[str] | None = None
    hypothesis_template: str = "This example is {}."
    multi_label: bool = False


class ZeroShotClassification:
    """Dictionaries with sequence, labels and scores, the best label first.

    v4 truncates a text longer than the model; here it is read in windows, whose logits are averaged.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        check_head(model.network, "classes")
        self.model = model
        self._said = options
        settle(ZeroShotOptions, options)

    def __call__(self, sequences: Any, candidate_labels: Any = None, **options: Any) -> Any:
        """Classify one text, many, or a stream."""
        if candidate_labels is not None:
            options["candidate_labels"] = candidate_labels
        chosen = settle(ZeroShotOptions, self._said, options)
        return feed(sequences, lambda texts: self._results(texts, chosen), chosen)

    def _results(self, texts: Sequence[str], chosen: ZeroShotOptions) -> Iterator[Any]:
        labels = _parsed(chosen.candidate_labels)
        found = self.model.zero_shot(texts, labels, template=chosen.hypothesis_template, multi=chosen.multi_label)
        for text, one in zip(texts, found, strict=True):
            yield {"sequence": text, "labels": list(one.scores), "scores": list(one.scores.values())}


def _parsed(labels: str | Sequence[str] | None) -> Sequence[str]:
    require(bool(labels), "no candidate_labels given; name at least one, as candidate_labels=[…]", BadInput)
    return [part.strip() for part in labels.split(",") if part.strip()] if isinstance(labels, str) else labels or ()
