"""Training a tokenizer on one's own text: the same text gives the same vocabulary."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from clearhead.errors import BadInput, require
from clearhead.text import families
from clearhead.text.corpus import Progress, read_texts, watched
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.unigrams import learn_unigrams
from clearhead.text.wordcounts import count_words, with_common_characters
from clearhead.text.wordpieces import learn_wordpieces

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
    """Learn a vocabulary from files, or from texts, streamed; `progress` gets the bytes read so far.

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
