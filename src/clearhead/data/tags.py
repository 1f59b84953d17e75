"""Words with tags to windows of tokens: the label is on the first piece of a word, once over all windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearhead.data.encoded import Encoded, Writer
from clearhead.data.examples import WordsExample
from clearhead.data.labels import Labels
from clearhead.errors import BadInput, require
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.windows import windows

NO_LABEL = -100


@dataclass(frozen=True)
class TagWindows:
    """Windows over sentences; `words` (N,) is the word of its sentence that a token speaks for, or -1."""

    encoded: Encoded
    owners: NDArray[np.int64]  # (E,) the sentence of each window
    words: NDArray[np.int32]  # (N,)
    sizes: NDArray[np.int64]  # words of each sentence


def encode_tags(
    examples: Sequence[WordsExample],
    tokenizer: Tokenizer,
    labels: Labels | None = None,
    *,
    length: int = 512,
    overlap: int | None = None,
) -> TagWindows:
    """Tokenise sentences of words; with labels, target: tags (N,), -100 where a token speaks for no word.

    A sentence longer than `length` tokens becomes several windows; each word is learnt where it has most context.
    """
    require(bool(examples), "There are no examples.", BadInput)
    writer = Writer(tokenizer.template)
    owners: list[int] = []
    spoken: list[NDArray[np.int32]] = []
    tags: list[NDArray[np.int64]] = []
    for i, example in enumerate(examples):
        require(bool(example.words), f"Sentence {i + 1} has no words.", BadInput)
        before: int | None = None  # goes on through windows: without overlap, one may start inside a word
        known = None if labels is None else labels.ids(_tags(example, i), f"Sentence {i + 1}")
        for window in windows(tokenizer, example.words, length=length, overlap=overlap):
            passage, encoding = window.passage, window.encoding
            words = np.full(len(encoding), -1, dtype=np.int32)
            for position in passage:
                word = encoding.words[position]
                if word is not None and word != before and position in window.best:
                    words[position] = word
                before = word
            spoken.append(words)
            owners.append(i)
            text = slice(passage.start, passage.stop)
            capitals = [encoding.segments[text]] if tokenizer.tells_capitals else None
            writer.add(encoding.ids[text], capitals=capitals)
            if known is not None:
                tags.append(np.where(words >= 0, known[words], NO_LABEL))
    encoded = writer.done(token_targets={"tags": np.concatenate(tags)} if tags else {})
    sizes = np.array([len(example.words) for example in examples])
    return TagWindows(encoded, np.array(owners), np.concatenate(spoken), sizes)


def _tags(example: WordsExample, index: int) -> tuple[str, ...]:
    if example.tags is None:
        raise BadInput(f"Sentence {index + 1} has no tags; name the column that holds them.")
    return example.tags
