"""Words of a corpus and how often each occurs: all that learning a vocabulary needs, and much smaller."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from clearhead.errors import BadInput, require

# Words are gathered as they are written and split when this many characters have gone by: splitting is the slow part,
# but in a language without spaces every line is a new word and must not be kept.
_GATHER = 100_000_000
_LONGEST_WORD = 100  # BERT knows no longer ones
_FEED = 10_000


def count_words(texts: Iterable[str], split: Callable[[str], Iterable[str]]) -> Counter[str]:
    """Stream the texts and count their words; `split` turns what stands between white space into words."""
    counts: Counter[str] = Counter()
    written: Counter[str] = Counter()
    gathered = 0
    for text in texts:
        written.update(text.split())
        gathered += len(text)
        if gathered > _GATHER:
            _split_into(counts, written, split)
            gathered = 0
    _split_into(counts, written, split)
    require(bool(counts), "The corpus holds no words; give files or texts with text in them.", BadInput)
    return counts


def with_common_characters(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """The words made only of the `limit` most frequent characters."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    common = set(sorted(characters, key=lambda character: (-characters[character], character))[:limit])
    return {word: count for word, count in counts.items() if common.issuperset(word)}


def repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """The words as a corpus again, each as often as it was counted: the library's trainers take nothing else."""
    for word, count in counts.items():
        for start in range(0, count, _FEED):
            yield " ".join([word] * min(_FEED, count - start))


def _split_into(counts: Counter[str], written: Counter[str], split: Callable[[str], Iterable[str]]) -> None:
    for form, count in written.items():
        for word in split(form):
            if 0 < len(word) <= _LONGEST_WORD:
                counts[word] += count
    written.clear()
