"""Sentences to their translations, by any model that reads a source: recurrent or Transformer."""

from collections.abc import Sequence
from typing import Any

from clearhead.decoding.beam import beam_search
from clearhead.decoding.continuing import continuing
from clearhead.decoding.contract import Continues
from clearhead.decoding.controls import Controls
from clearhead.decoding.onward import greedy
from clearhead.nn.network import Network
from clearhead.nn.record import evaluating
from clearhead.text import Tokenizer

_SENTENCES = 64  # written at a time


def translate_texts(
    network: Any, tokenizer: Tokenizer, texts: Sequence[str], *, beams: int = 1, longest: int = 127
) -> list[str]:
    """Translate each text, which should be a sentence; one beam is greedy.

    A source of more than `longest` tokens is cut there, as in training. Sentences of like length are written together.
    """
    sources = [[*ids[:longest], tokenizer.sep_id] for ids in tokenizer.ids_batch(texts)]
    by_length = sorted(range(len(texts)), key=lambda i: len(sources[i]))
    written: dict[int, str] = {}
    model: Continues = continuing(network) if isinstance(network, Network) else network
    with evaluating(network):
        for start in range(0, len(by_length), _SENTENCES):
            chosen = by_length[start : start + _SENTENCES]
            some = [sources[i] for i in chosen]
            controls = Controls(end=(tokenizer.sep_id,), limit=2 * len(some[-1]) + 8)
            outputs = (
                greedy(model, some, controls)
                if beams == 1
                else [best for best, *_ in beam_search(model, some, controls, beams=beams)]
            )
            written |= {i: tokenizer.decode(output.tokens) for i, output in zip(chosen, outputs, strict=True)}
    return [written[i] for i in range(len(texts))]
