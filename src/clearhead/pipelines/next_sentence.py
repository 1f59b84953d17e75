"""Whether one text follows another: next-sentence prediction (Devlin et al. 2018, section 3.1)."""

# L = 2: it follows, it does not

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from clearhead.io import Progress
from clearhead.pipelines.results import NextSentence as NextSentence
from clearhead.pipelines.runner import chunks_of_text, inputs_of_pairs, merged, per_sequence, run, through

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


def follows(
    model: "Model", pairs: Iterable[tuple[str, str]], progress: Progress | None = None
) -> Iterator[NextSentence]:
    """Judge pairs of texts, in order; one too long for the model is read in windows, as in `classify`."""
    forward = through(model.network, "next_sentence")

    def results(chunk: list[tuple[str, str]]) -> Iterator[NextSentence]:
        inputs = inputs_of_pairs(model.tokenizer, chunk, model.encoder.max_length)
        outputs = run(model.network, forward, per_sequence, inputs, progress=progress)
        for logits in map(merged, inputs, outputs):
            probability = float(logits.softmax(-1)[0])  # BERT's own order: 0 is "is next"
            yield NextSentence(probability > 0.5, probability)

    return chain.from_iterable(map(results, chunks_of_text(pairs)))
