"""A summary in a model's own words, by an encoder–decoder; long texts portion by portion."""

from collections.abc import Iterable, Iterator

from clearhead.models.t5 import T5Config
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.manner import Manner
from clearhead.pipelines.translate import Rewritten, rewrite
from clearhead.pipelines.write import Writer

WINDOW = 512  # tokens read at once; T5 was trained with no more

# what T5's own files say for summaries
MANNER = Manner(beams=4, length_penalty=2.0, least=30, no_repeat=3)
LONGEST = 200


def retell(writer: Writer, texts: Iterable[str], *, progress: Progress | None = None) -> Iterator[Rewritten]:
    """Summarise each text; one that is longer than the model reads at once is told in as many pieces as needed."""
    return rewrite(
        writer,
        texts,
        MANNER,
        prefix=prefix_of(writer),
        limit=WINDOW,
        whole=True,
        longest=LONGEST,
        progress=progress,
    )


def prefix_of(writer: Writer) -> str:
    """What T5 was taught to read before a text to be summarised; other models were taught one task and need none."""
    return "summarize: " if isinstance(writer.config, T5Config) else ""
