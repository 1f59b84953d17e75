"""Learning a WordPiece vocabulary, the same on every run.

The library's own trainer numbers the continuation pieces in the order of a randomly seeded hash table, and breaks ties
by number. Its byte-pair trainer sorts its alphabet, so we give it one character for each smallest piece: a or ##a.
"""

from collections.abc import Mapping

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from clearhead.errors import BadInput, require
from clearhead.text.wordcounts import repeated

_PRIVATE = 0xF0000  # the first of Unicode's 131,000 private characters


def learn_wordpieces(words: Mapping[str, int], *, size: int, min_frequency: int) -> list[str]:
    """At most `size` pieces: every character at the start and inside of words, then the merges, most frequent first."""
    smallest = sorted({(i > 0, character) for word in words for i, character in enumerate(word)})
    require(
        len(smallest) <= size,
        f"A vocabulary of {size} pieces besides the special tokens is too small for this corpus, "
        f"whose characters alone make {len(smallest)}. Ask for more, or lower limit_alphabet.",
        BadInput,
    )
    code = {piece: chr(_PRIVATE + i) for i, piece in enumerate(smallest)}
    coded = {"".join(code[i > 0, c] for i, c in enumerate(word)): count for word, count in words.items()}
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, show_progress=False)
    library.train_from_iterator(repeated(coded), trainer)
    learned = library.get_vocab()
    return [_spelled(token, smallest) for token in sorted(learned, key=learned.__getitem__)]


def _spelled(token: str, smallest: list[tuple[bool, str]]) -> str:
    pieces = [smallest[ord(character) - _PRIVATE] for character in token]
    continues, _ = pieces[0]
    return ("##" if continues else "") + "".join(character for _, character in pieces)
