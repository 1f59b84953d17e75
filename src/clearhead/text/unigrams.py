"""Learning a unigram vocabulary, the same on every run."""

import json
from collections.abc import Mapping

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from clearhead.errors import BadInput
from clearhead.text.wordcounts import repeated

_STEP = 1e-4  # the trainer spaces out the characters it had to keep by this much, in random order
_DECIMALS = 4


def learn_unigrams(words: Mapping[str, int], *, size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log probabilities, most probable first."""
    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False)
    try:
        library.train_from_iterator(repeated(words), trainer)
    except Exception as error:  # the library raises plain Exception
        raise BadInput(f"No unigram vocabulary of {size} pieces can be learned from this corpus: {error}") from None
    return settled(json.loads(library.to_str())["model"]["vocab"])


def settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Take out what differs from run to run: the last digits, and the order of the characters kept by force."""
    lowest = min(score for _, score in pieces)
    forced = lowest + _STEP * sum(len(piece) == 1 for piece, _ in pieces)
    scores = {
        piece: round(lowest if len(piece) == 1 and score <= forced else score, _DECIMALS) for piece, score in pieces
    }
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
