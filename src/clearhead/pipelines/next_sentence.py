"""Whether one text follows another: next-sentence prediction (Devlin et al. 2018, section 3.1)."""

# L = 2: it follows, it does not

from collections.abc import Iterable, Iterator
from itertools import chain, starmap
from typing import TYPE_CHECKING

from torch import Tensor

from clearhead.io import Progress
from clearhead.pipelines.results import NextSentence as NextSentence
from clearhead.pipelines.runner import Prepared, merged, per_sequence, prepare_pairs, read, through

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


def follows(
    model: "Model", pairs: Iterable[tuple[str, str]], progress: Progress | None = None
) -> Iterator[NextSentence]:
    """Judge pairs of texts, in order; one too long for the model is read in windows, as in `classify`."""
    forward = through(model.network, "next_sentence")

    def prepare(chunk: list[tuple[str, str]]) -> Prepared[None]:
        return prepare_pairs(model.tokenizer, chunk, model.encoder.max_length)

    def results(ready: Prepared[None], rows: Tensor) -> Iterator[NextSentence]:
        # BERT's own order: 0 is "is next"
        for probability in merged(ready.windows, rows).softmax(-1)[:, 0].tolist():
            yield NextSentence(probability > 0.5, probability)

    found = read(model.network, forward, per_sequence, pairs, prepare, progress=progress)
    return chain.from_iterable(starmap(results, found))
