"""A summary in a model's own words, by an encoder–decoder; long texts portion by portion."""

from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.models.t5 import T5Config
from clearhead.pipelines.engine import Progress
from clearhead.pipelines.manner import How, check_length, with_beams
from clearhead.pipelines.translate import rewrite
from clearhead.pipelines.write import Writer

WINDOW = 512  # tokens read at once; T5 was trained with no more

# what T5's own files say for summaries
USUAL: How = {"length_penalty": 2.0, "least": 30, "no_repeat": 3}
LONGEST = 200


def retell(
    writer: Writer, texts: Iterable[str], how: How, *, longest: int = LONGEST, progress: Progress | None = None
) -> Iterator[Any]:
    """Summarise each text; one that is longer than the model reads at once is told in as many pieces as needed.

    Of each piece at most `longest` tokens are written, four beams unless `how` says otherwise; by a T5, as its own
    files say.
    """
    check_length(longest)
    usual: How = {**USUAL, "least": min(USUAL["least"], longest)} if isinstance(writer.config, T5Config) else {}
    manner = with_beams(how, usual)
    check_length(longest, manner.least)
    return rewrite(
        writer,
        texts,
        manner,
        prefix=prefix_of(writer),
        limit=WINDOW,
        whole=True,
        longest=longest,
        progress=progress,
    )


def prefix_of(writer: Writer) -> str:
    """What T5 was taught to read before a text to be summarised; other models were taught one task and need none."""
    return "summarize: " if isinstance(writer.config, T5Config) else ""
