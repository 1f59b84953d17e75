"""A translator on a test set: BLEU and chrF with their signatures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data.examples import PairExample
from clearhead.evaluation.bleu import TranslationScore, bleu, chrf
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.manner import Manner
from clearhead.pipelines.translate import rewrite
from clearhead.pipelines.write import Writer


@dataclass(frozen=True, slots=True)
class TranslationFigures:
    """The scores of a test set."""

    bleu: TranslationScore
    chrf: TranslationScore

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "bleu": self.bleu.score,
            "bleu_signature": self.bleu.signature,
            "chrf": self.chrf.score,
            "chrf_signature": self.chrf.signature,
        }


def evaluate_translation(
    writer: Writer, pairs: Sequence[PairExample], *, beams: int = 5, progress: Progress | None = None
) -> TranslationFigures:
    """Translate each source as one sentence, whatever it holds, and compare with its reference."""
    sources, references = [pair.first for pair in pairs], [pair.second for pair in pairs]
    found = rewrite(writer, sources, Manner(beams=beams), whole=True, progress=progress)
    written = [one.text for one in found]
    return TranslationFigures(bleu(references, written), chrf(references, written))
