"""ELMo at use: all layers of words that are given, or of those that a text is cut into."""

# W words of a sentence · K layers · D width of a direction

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from clearhead.data.batch import chunks
from clearhead.errors import BadInput, require
from clearhead.nn.embeddings import spell
from clearhead.nn.layout import Packed
from clearhead.text import Tokenizer
from clearhead.text.encoding import Pieces

_SENTENCES = 64  # run at a time
_TEXTS = 1024  # sorted by length at a time


@torch.inference_mode()
def sentence_layers(network: Any, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
    """Read sentences that are split into words: (W, K, 2 D) for each, the letters' own layer first."""
    empty = next((i for i, words in enumerate(sentences) if not words), None)
    require(empty is None, f"sentence {empty} has no words", BadInput)
    begin, end = tokenizer.special["cls"], tokenizer.special["sep"]
    device, longest = network.spelling.device, network.config.max_characters
    by_length = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    found: dict[int, Tensor] = {}
    for chosen in chunks(by_length, _SENTENCES):
        # begin and end stand round each sentence, as in training, and are taken off again
        words = [word for i in chosen for word in (begin, *sentences[i], end)]
        layout = Packed.of([len(sentences[i]) + 2 for i in chosen], device)
        states = network.states(spell(words, longest).to(device), layout)
        found |= dict(zip(chosen, [one[1:-1] for one in layout.split(states)], strict=True))
    return [found[i] for i in range(len(sentences))]


def text_layers(network: Any, tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[tuple[Pieces, Tensor]]:
    """Cut texts into words and read them: the words of each, and their layers (W, K, 2 D) on the CPU.

    A text without words has none, W = 0.
    """
    nothing = torch.zeros(0, network.layers, 2 * network.config.hidden_size)
    coming = iter(texts)
    while part := list(islice(coming, _TEXTS)):
        cut = tokenizer.pieces_batch(part)
        # as they are written: a word that the vocabulary lacks is read by its letters, too
        written = [[text[start:end] for start, end in one.offsets] for text, one in zip(part, cut, strict=True)]
        read = iter(sentence_layers(network, tokenizer, [words for words in written if words]))
        for pieces in cut:
            yield pieces, next(read).cpu() if len(pieces) else nothing
