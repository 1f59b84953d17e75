"""BLEU and chrF by sacrebleu, with their signatures."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import PairExample
from clearhead.errors import BadInput, check_lengths, require
from clearhead.evaluation.bootstrap import Resampling, Score
from clearhead.evaluation.scores import Evaluated, Prediction
from clearhead.io import optional

References = Sequence[str] | Sequence[Sequence[str]]


class TranslationScore(NamedTuple):
    """A score between 0 and 100 and sacrebleu's signature, to be printed beside it."""

    score: float
    signature: str


def bleu(references: References, translations: Sequence[str]) -> TranslationScore:
    """Corpus BLEU of detokenised text; references: one for each translation, or a list of several."""
    return _score("BLEU", references, translations)


def chrf(references: References, translations: Sequence[str]) -> TranslationScore:
    """Corpus chrF2, F-score of character 6-grams; references as for `bleu`."""
    return _score("CHRF", references, translations)


def _score(metric: str, references: References, translations: Sequence[str]) -> TranslationScore:
    metrics = optional("sacrebleu.metrics", metric, "evaluate")
    require(not isinstance(translations, str), "translations is one text; give a list of them.", BadInput)
    check_lengths(references, translations, "translations")
    scorer: Any = getattr(metrics, metric)()
    score = scorer.corpus_score(list(translations), _streams(references)).score
    return TranslationScore(float(score), str(scorer.get_signature()))


def _streams(references: References) -> list[list[str | None]]:
    """Turn the references of each translation into sacrebleu's streams, with None where one has fewer."""
    several = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    short = next((row for row, texts in enumerate(several) if not texts), None)
    require(short is None, f"Translation {short} has no reference; give at least one.", BadInput)
    return [list(stream) for stream in zip_longest(*several)]


def score_translations(
    examples: Sequence[PairExample], rows: Sequence[Prediction], known: Sequence[str] | None = None
) -> Evaluated:
    """BLEU and chrF of predicted translations, with the signature of each."""
    references, written = [pair.second for pair in examples], [str(row["predicted"]) for row in rows]
    found = {"bleu": bleu(references, written), "chrf": chrf(references, written)}
    return Evaluated(
        metrics={name: one.score for name, one in found.items()},
        notes={f"{name}_signature": one.signature for name, one in found.items()},
    )


def by_translation(
    score: Score, examples: Sequence[PairExample], rows: Sequence[Prediction], known: Sequence[str] | None = None
) -> Resampling:
    """Draw translations for a bootstrap: sacrebleu counts n-grams once, and adds up those of what is drawn."""
    references, written = [[pair.second for pair in examples]], [str(row["predicted"]) for row in rows]
    module = optional("sacrebleu.metrics", "BLEU", "evaluate")
    scorers: dict[str, Any] = {"bleu": module.BLEU(), "chrf": module.CHRF()}
    counts = {name: np.asarray(one._extract_corpus_statistics(written, references)) for name, one in scorers.items()}

    def metrics(drawn: NDArray[np.int64]) -> dict[str, float]:
        sums = {name: count[drawn].sum(0).tolist() for name, count in counts.items()}
        return {name: float(one._aggregate_and_compute([sums[name]]).score) for name, one in scorers.items()}

    return Resampling(len(examples), metrics)
