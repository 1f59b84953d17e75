"""Training a tokenizer on one's own text, the same on every run: WordPiece, byte-level BPE, unigram, whole words."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from clearhead.errors import BadInput, require
from clearhead.io import Progress, read_texts, watched
from clearhead.text import families
from clearhead.text.tokenizer import Tokenizer

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


KINDS = ("wordpiece", "bpe", "unigram", "word", "gpt2", "t5", "xlnet")
# kinds that learn alike and differ in their special tokens
_BPE = {"bpe": families.ROBERTA_SPECIALS, "gpt2": families.GPT2_SPECIALS}
_UNIGRAM: dict[str, tuple[Sequence[str], Callable[..., tokenizers.Tokenizer]]] = {
    "unigram": (families.ALBERT_SPECIALS, families.albert),
    "t5": (families.T5_SPECIALS, families.t5),
    "xlnet": (families.XLNET_SPECIALS, families.xlnet),
}


def train_tokenizer(
    files: str | Path | Sequence[str | Path] = (),
    *,
    texts: Iterable[str] | None = None,
    kind: str = "wordpiece",
    vocabulary: int = 30_000,
    lowercase: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
    progress: Progress | None = None,
) -> Tokenizer:
    """Learn a vocabulary from files, or from texts, streamed; `progress` is told of bytes read.

    `kind` is wordpiece (BERT's), bpe (RoBERTa's, on bytes), unigram (ALBERT's), word (whole words), gpt2 (bpe), t5 or
    xlnet (unigram). What is rarer than `min_frequency`, and words with characters beyond the `limit_alphabet` most
    frequent, teach nothing; bpe keeps case and every byte.
    """
    paths = [files] if isinstance(files, str | Path) else list(files)
    require(kind in KINDS, f"There is no tokenizer of kind {kind!r}; choose {', '.join(KINDS)}.", BadInput)
    require(min_frequency >= 1, f"min_frequency is {min_frequency}; it must be 1 or more.", BadInput)
    require(limit_alphabet >= 1, f"limit_alphabet is {limit_alphabet}; it must be 1 or more.", BadInput)
    require(bool(paths) != (texts is not None), "Give either files or texts to train on, and not both.", BadInput)
    stream = read_texts(paths, progress) if texts is None else watched(texts, progress)
    if kind in _BPE:
        return _train_bpe(stream, vocabulary, min_frequency, _BPE[kind])
    train = {"wordpiece": _train_wordpiece, "word": _train_words}.get(kind) or partial(_train_unigram, kind)
    return train(stream, vocabulary, min_frequency, limit_alphabet, lowercase)


def _train_wordpiece(
    texts: Iterator[str], vocabulary: int, min_frequency: int, limit_alphabet: int, lowercase: bool
) -> Tokenizer:
    normalizer = families.bert_normalizer(lowercase=lowercase)
    words = with_common_characters(count_words(texts, _splits(normalizer)), limit_alphabet)
    room = vocabulary - len(families.BERT_SPECIALS)
    pieces = learn_wordpieces(words, size=room, min_frequency=min_frequency)
    tokens = dict.fromkeys((*families.BERT_SPECIALS, *pieces))
    return Tokenizer(families.bert({token: i for i, token in enumerate(tokens)}, normalizer))


def _train_words(
    texts: Iterator[str], vocabulary: int, min_frequency: int, limit_alphabet: int, lowercase: bool
) -> Tokenizer:
    least = len(families.BERT_SPECIALS) + 1
    require(vocabulary >= least, f"A word vocabulary of {vocabulary} is too small: {least} is the least.", BadInput)
    normalizer = families.bert_normalizer(lowercase=lowercase)
    words = with_common_characters(count_words(texts, _splits(normalizer)), limit_alphabet)
    frequent = sorted((word for word in words if words[word] >= min_frequency), key=lambda word: (-words[word], word))
    rare = f"No word of the corpus occurs {min_frequency} times; give more text, or lower min_frequency."
    require(bool(frequent), rare, BadInput)
    tokens = list(dict.fromkeys((*families.BERT_SPECIALS, *frequent)))[:vocabulary]
    return Tokenizer(families.words({token: i for i, token in enumerate(tokens)}, normalizer))


def _splits(normalizer: normalizers.Normalizer) -> Callable[[str], list[str]]:
    """BERT's words: what stands between white space, without the punctuation, which stands alone."""
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda form: [word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(form))]


def _train_bpe(texts: Iterator[str], vocabulary: int, min_frequency: int, specials: Sequence[str]) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(specials) + len(alphabet)
    require(vocabulary >= least, f"A bpe vocabulary of {vocabulary} is too small: {least} is the least.", BadInput)
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=list(specials),
        initial_alphabet=alphabet,
    )
    library.train_from_iterator(_not_empty(texts), trainer)
    learned = json.loads(library.to_str())["model"]
    return Tokenizer(families.roberta(learned["vocab"], [tuple(merge) for merge in learned["merges"]]))


def _train_unigram(
    kind: str, texts: Iterator[str], vocabulary: int, min_frequency: int, limit_alphabet: int, lowercase: bool
) -> Tokenizer:
    special, family = _UNIGRAM[kind]
    normalizer = families.albert_normalizer(lowercase=lowercase)
    counts = count_words(texts, lambda form: normalizer.normalize_str(form).split())
    words = {
        word: count for word, count in with_common_characters(counts, limit_alphabet).items() if count >= min_frequency
    }
    rare = f"No word of the corpus occurs {min_frequency} times; give more text"
    require(bool(words), f"{rare}, or train a tokenizer with a lower min_frequency.", BadInput)
    # each character is a piece, and so is what stands before a word; with less than one more the trainer may never end
    least = len(special) + len({"▁"}.union(*words)) + 1
    enough = f"{least} is the least for this corpus"
    require(vocabulary >= least, f"A vocabulary of {vocabulary} for {kind} is too small: {enough}.", BadInput)
    pieces = learn_unigrams(words, size=vocabulary - len(special))
    specials = [(token, 0.0) for token in special]
    return Tokenizer(family(specials + [item for item in pieces if item not in specials], normalizer))


def _not_empty(texts: Iterator[str]) -> Iterator[str]:
    found = False
    for text in texts:
        found = found or bool(text.strip())
        yield text
    require(found, "The corpus holds no words; give files or texts with text in them.", BadInput)
