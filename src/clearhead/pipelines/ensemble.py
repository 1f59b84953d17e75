"""Several checkpoints that answer together: the mean of their probabilities (or of the numbers of a regression)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Self

from clearhead.errors import BadInput, require
from clearhead.hub.checkpoint import Checkpoint
from clearhead.io import Progress, in_wholes
from clearhead.pipelines.model import Model
from clearhead.pipelines.results import Answer, Candidate, Choice, Classes

_LISTED = 20  # spans of each model among which the best of all together is looked for


@dataclass(frozen=True)
class Ensemble:
    """Stands for a `Model` where classes, numbers, choices and answers are measured; each model reads all inputs."""

    models: tuple[Model, ...]

    def able(self, use: str) -> Self:
        """The same, each model with what it has for the use; they must tell the same labels apart."""
        models = tuple(model.able(use) for model in self.models)
        known = [model.labels for model in models]
        for number, labels in enumerate(known[1:], start=2):
            one, other = (", ".join(names or ()) or "no labels" for names in (known[0], labels))
            told = f"the first model tells {one} apart, model {number} {other}"
            require(set(labels or ()) == set(known[0] or ()), f"{told}; an ensemble has one set of labels", BadInput)
        return replace(self, models=models)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Those of the first model, which are those of all."""
        return self.models[0].labels

    @property
    def network(self) -> Any:
        """The first model's."""
        return self.models[0].network

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The first model's, with the mean of all thresholds for "no answer"."""
        first = self.models[0].checkpoint
        mean = fmean(model.checkpoint.description.threshold for model in self.models)
        return replace(first, description=replace(first.description, threshold=mean))

    def classify(self, texts: Iterable[Any], *, progress: Progress | None = None) -> list[Classes]:
        """The mean score of each label, for each text or pair."""
        together = []
        for found in self._each(lambda model, how: model.classify(list(texts), progress=how), texts, progress):
            scores = {label: fmean(one.scores[label] for one in found) for label in found[0].scores}
            ranked = dict(sorted(scores.items(), key=lambda item: -item[1]))
            label, score = next(iter(ranked.items()))
            together.append(Classes(label, score, ranked))
        return together

    def choose(self, questions: Iterable[Any], *, progress: Progress | None = None) -> list[Choice]:
        """The mean probability of each candidate."""
        together = []
        given = list(questions)
        every = self._each(lambda model, how: model.choose(given, progress=how), given, progress)
        for (_, candidates), found in zip(given, every, strict=True):
            scores = tuple(map(fmean, zip(*(one.scores for one in found), strict=True)))
            best = scores.index(max(scores))
            together.append(Choice(candidates[best], best, scores[best], scores))
        return together

    def answer(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        top_k: int,
        progress: Progress | None = None,
        **options: Any,
    ) -> list[Answer]:
        """The mean probability of each span, 0 where it is not among a model's best; logits are their logarithms."""
        most = max(top_k, _LISTED)
        every = self._each(
            lambda model, how: model.answer(questions, contexts, top_k=most, progress=how, **options),
            questions,
            progress,
        )
        return [_joined(found, top_k) for found in every]

    def _each(
        self, use: Callable[[Model, Progress | None], Sequence[Any]], given: Iterable[Any], progress: Progress | None
    ) -> list[tuple[Any, ...]]:
        """For each input what each model says; as many are done as all models have done."""
        count = len(list(given))
        how = in_wholes(progress, len(self.models) * count, count)
        return list(zip(*(use(model, how) for model in self.models), strict=True))


def _joined(found: Sequence[Answer], top_k: int) -> Answer:
    spans: dict[tuple[int, int, str], float] = {}
    nothing = 0.0
    for one in found:
        for span in one.candidates:
            place = (span.start, span.end, span.text)
            spans[place] = spans.get(place, 0.0) + span.score / len(found)
        nothing += _of_nothing(one) / len(found)
    best = sorted(spans.items(), key=lambda item: -item[1])[:top_k]
    candidates = tuple(Candidate(text, start, end, score, _log(score)) for (start, end, text), score in best)
    if not candidates:
        return Answer(None, None, None, nothing, _log(nothing))
    first = candidates[0]
    return Answer(first.text, first.start, first.end, first.score, _log(nothing), candidates)


def _of_nothing(found: Answer) -> float:
    """The probability of no answer, which a model gives as a logit beside those of its spans."""
    if not found.candidates:
        return 1.0
    first = found.candidates[0]
    return min(1.0, first.score * math.exp(min(found.null_score - first.logit, 700.0)))


def _log(probability: float) -> float:
    return math.log(max(probability, 1e-300))
