"""Training a tokenizer on one's own text, the same on every run: WordPiece, byte-level BPE, unigram, whole words."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from clearhead.errors import BadInput, keywords, require
from clearhead.io import Progress, read_texts, watched
from clearhead.text import families
from clearhead.text.tokenizer import Tokenizer

KINDS = ("wordpiece", "bpe", "unigram", "word", "gpt2", "t5", "xlnet", "mpnet", "deberta-v2")
# kinds that learn alike: their special tokens, and their families
_BPE = {"bpe": families.ROBERTA_SPECIALS, "gpt2": families.GPT2_SPECIALS}
_UNIGRAM = {"unigram": "albert", "t5": "t5", "xlnet": "xlnet", "deberta-v2": "deberta-v2"}

# Words are gathered as they are written and split when this many characters have gone by: splitting is the slow part,
# but in a language without spaces every line is a new word and must not be kept.
_GATHER = 100_000_000
_LONGEST_WORD = 100  # BERT knows no longer ones
_FEED = 10_000
_PRIVATE = 0xF0000  # the first of Unicode's 131,000 private characters
_STEP = 1e-4  # the unigram trainer spaces out the characters it had to keep by this much, in random order
_DECIMALS = 4
_NO_WORDS = "The corpus holds no words; give files or texts with text in them."

Split = Callable[[str], Iterable[str]]  # what stands between white space to words


@keywords
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

    `kind` is wordpiece (BERT's), bpe (RoBERTa's, on bytes), unigram (ALBERT's), word (whole words), or a family's:
    mpnet (wordpiece), gpt2 (bpe), t5, xlnet, deberta-v2 (unigram). What is rarer than `min_frequency`, and words with
    characters beyond the `limit_alphabet` most frequent, teach nothing; bpe keeps case and every byte.

    >>> own = clearhead.train_tokenizer(texts=["low lower lowest", "new newer newest"], vocabulary=40)
    >>> own.encode("lower").tokens[0], own.vocabulary <= 40
    ('[CLS]', True)
    """
    paths = [files] if isinstance(files, str | Path) else list(files)
    require(kind in KINDS, f"There is no tokenizer of kind {kind!r}; choose {', '.join(KINDS)}.", BadInput)
    require(min_frequency >= 1, f"min_frequency is {min_frequency}; it must be 1 or more.", BadInput)
    require(limit_alphabet >= 1, f"limit_alphabet is {limit_alphabet}; it must be 1 or more.", BadInput)
    require(bool(paths) != (texts is not None), "Give either files or texts to train on, and not both.", BadInput)
    stream = read_texts(paths, progress) if texts is None else watched(texts, progress)
    if kind in _BPE:
        return Tokenizer(_train_bpe(stream, vocabulary, min_frequency, _BPE[kind]))

    def words(split: Split, least: int = 1) -> dict[str, int]:
        counts = _with_common_characters(_count_words(stream, split), limit_alphabet)
        frequent = {word: count for word, count in counts.items() if count >= least}
        lower = "lower min_frequency" if kind == "word" else "train a tokenizer with a lower min_frequency"
        rare = f"No word of the corpus occurs {least} times; give more text, or {lower}."
        require(bool(frequent) or kind in ("wordpiece", "mpnet"), rare, BadInput)
        return frequent

    if kind in _UNIGRAM:
        family = _UNIGRAM[kind]
        normalizer, specials = families.unigram_normalizer(lowercase=lowercase), families.UNIGRAM_SPECIALS[family]
        counts = words(lambda form: normalizer.normalize_str(form).split(), min_frequency)
        pieces = _unigrams_after(specials, counts, vocabulary, kind)
        return Tokenizer(families.unigram(family, pieces, normalizer, specials))
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    specials = families.MPNET_SPECIALS if kind == "mpnet" else families.BERT_SPECIALS
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def split(form: str) -> list[str]:
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(form))]

    if kind != "word":
        learnt = learn_wordpieces(words(split), size=vocabulary - len(specials), min_frequency=min_frequency)
    else:
        least = len(specials) + 1
        require(vocabulary >= least, f"A word vocabulary of {vocabulary} is too small: {least} is the least.", BadInput)
        counts = words(split, min_frequency)
        learnt = sorted(counts, key=lambda word: (-counts[word], word))
    tokens = list(dict.fromkeys((*specials, *learnt)))[:vocabulary]
    ids = {token: i for i, token in enumerate(tokens)}
    if kind == "mpnet":
        return Tokenizer(families.mpnet(ids, normalizer))
    return Tokenizer(families.bert(ids, normalizer, whole_words=kind == "word"))


def _count_words(texts: Iterable[str], split: Split) -> Counter[str]:
    """Stream the texts and count their words."""
    counts: Counter[str] = Counter()
    written: Counter[str] = Counter()
    gathered = 0

    def split_written() -> None:
        for form, count in written.items():
            for word in split(form):
                if 0 < len(word) <= _LONGEST_WORD:
                    counts[word] += count
        written.clear()

    for text in texts:
        written.update(text.split())
        gathered += len(text)
        if gathered > _GATHER:
            split_written()
            gathered = 0
    split_written()
    require(bool(counts), _NO_WORDS, BadInput)
    return counts


def _with_common_characters(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """The words made only of the `limit` most frequent characters."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    common = set(sorted(characters, key=lambda character: (-characters[character], character))[:limit])
    return {word: count for word, count in counts.items() if common.issuperset(word)}


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """The words as a corpus again, each as often as it was counted: the library's trainers take nothing else."""
    for word, count in counts.items():
        for start in range(0, count, _FEED):
            yield " ".join([word] * min(_FEED, count - start))


def learn_wordpieces(words: Mapping[str, int], *, size: int, min_frequency: int) -> list[str]:
    """At most `size` pieces: every character at the start and inside of words, then the merges, most frequent first."""
    smallest = sorted({(i > 0, character) for word in words for i, character in enumerate(word)})
    wanted = f"A vocabulary of {size} pieces besides the special tokens is too small for this corpus"
    remedy = f"whose characters alone make {len(smallest)}. Ask for more, or lower limit_alphabet."
    require(len(smallest) <= size, f"{wanted}, {remedy}", BadInput)
    # BPE over one private character for each smallest piece, so that a character inside a word is another one
    code = {piece: chr(_PRIVATE + i) for i, piece in enumerate(smallest)}
    coded = {"".join(code[i > 0, c] for i, c in enumerate(word)): count for word, count in words.items()}
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, show_progress=False)
    library.train_from_iterator(_repeated(coded), trainer)
    learned = library.get_vocab()

    def spelled(token: str) -> str:
        pieces = [smallest[ord(character) - _PRIVATE] for character in token]
        return ("##" if pieces[0][0] else "") + "".join(character for _, character in pieces)

    return [spelled(token) for token in sorted(learned, key=learned.__getitem__)]


def _unigrams_after(
    specials: Sequence[str], words: Mapping[str, int], vocabulary: int, kind: str
) -> list[tuple[str, float]]:
    """The special tokens and the pieces of a vocabulary."""
    # each character is a piece, and so is what stands before a word; with less than one more the trainer may never end
    least = len(specials) + len({"▁"}.union(*words)) + 1
    enough = f"{least} is the least for this corpus"
    require(vocabulary >= least, f"A vocabulary of {vocabulary} for {kind} is too small: {enough}.", BadInput)
    pieces = learn_unigrams(words, size=vocabulary - len(specials))
    first = [(token, 0.0) for token in specials]
    return first + [item for item in pieces if item not in first]


def learn_unigrams(words: Mapping[str, int], *, size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log probabilities, most probable first."""
    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False)
    try:
        library.train_from_iterator(_repeated(words), trainer)
    except Exception as error:  # the library raises plain Exception
        raise BadInput(f"No unigram vocabulary of {size} pieces can be learned from this corpus: {error}") from None
    return reproducible(json.loads(library.to_str())["model"]["vocab"])


def reproducible(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Take out what differs from run to run: the last digits, and the order of the characters kept by force."""
    lowest = min(score for _, score in pieces)
    forced = lowest + _STEP * sum(len(piece) == 1 for piece, _ in pieces)
    kept = [(piece, lowest if len(piece) == 1 and score <= forced else score) for piece, score in pieces]
    return sorted(((piece, round(score, _DECIMALS)) for piece, score in kept), key=lambda item: (-item[1], item[0]))


def _train_bpe(
    texts: Iterator[str], vocabulary: int, min_frequency: int, specials: Sequence[str]
) -> tokenizers.Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(specials) + len(alphabet)
    require(vocabulary >= least, f"A bpe vocabulary of {vocabulary} is too small: {least} is the least.", BadInput)

    def not_empty() -> Iterator[str]:
        found = False
        for text in texts:
            found = found or bool(text.strip())
            yield text
        require(found, _NO_WORDS, BadInput)

    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=min_frequency,
        show_progress=False,
        special_tokens=list(specials),
        initial_alphabet=alphabet,
    )
    library.train_from_iterator(not_empty(), trainer)
    learned = json.loads(library.to_str())["model"]
    return families.roberta(learned["vocab"], [tuple(merge) for merge in learned["merges"]])
