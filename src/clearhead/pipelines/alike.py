"""How near two texts are in meaning: the cosine of their vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from clearhead.pipelines.batches import chunks_of_text
from clearhead.pipelines.classify import Classes, Pair
from clearhead.pipelines.embed import Vectors

LABEL = "similarity"


def alike(pairs: Iterable[Pair], embed: Callable[[Sequence[str]], Vectors]) -> Iterator[Classes]:
    """Compare the texts of each pair, in order; `embed` gives unit vectors. The score is the cosine, from -1 to 1."""

    def results(chunk: list[Pair]) -> Iterator[Classes]:
        first, second = (embed(list(side)) for side in zip(*chunk, strict=True))
        for cosine in (first * second).sum(1).tolist():
            yield Classes(LABEL, cosine, {LABEL: cosine})

    return chain.from_iterable(map(results, chunks_of_text(pairs)))
