"""A tokenizer: strings to ids, with character offsets and words, and back."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import tokenizers
from tokenizers import models, normalizers

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, explained, keywords, require, valid_text
from clearhead.io import check_free_file, naming, read_object, staged, write_json
from clearhead.text import families, files
from clearhead.text.chunking import CHUNK, Chunker
from clearhead.text.encoding import Encoding, Pieces, Span, Special, Template, capitals_of
from clearhead.text.languages import DIRECTIONS, Languages, read_directions, tag
from clearhead.text.sentencepiece import marian

if TYPE_CHECKING:
    from clearhead.text.packed import PackedPieces

# the names that the families of checkpoints give to each special token, the telling ones first
_SPECIAL_NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}
_SHORT = 2_000  # characters of several texts that one thread reads sooner than several would begin
_CAPITALS = "tells_capitals"  # in tokenizer_config.json; other libraries do not know it
_MOST_IDS = 2**24
ANY_CLASS = "PreTrainedTokenizerFast"  # transformers' name for a tokenizer that is all in tokenizer.json


@keywords
class Tokenizer:
    """Turns text into pieces, and puts the special tokens of its family round them. Never truncates, never pads.

    >>> encoding = model.tokenizer.encode("She lived in London.")
    >>> encoding.tokens
    ['[CLS]', 'she', 'lived', 'in', 'london', '.', '[SEP]']
    >>> encoding.offsets[4]
    (13, 19)
    """

    def __init__(self, library: tokenizers.Tokenizer, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = dict(settings or {})
        self._library = library
        with explained(BadCheckpoint, "The tokenizer cannot encode ({}); its files are incomplete or damaged."):
            self.template = Template.probe(library)
            self._names = _names(library)
            self._owns_spaces = any(start == 1 for start, _ in library.encode("a a", add_special_tokens=False).offsets)
        strange = [item.id for item in self.template.pair if isinstance(item, Special) and item.id not in self._names]
        message = f"The tokenizer puts the id {strange[:1]} round texts, which no token has; its files are damaged."
        require(not strange, message, BadCheckpoint)
        # the special tokens there are: pad, unk, cls, sep and mask, each with its name in this family
        self.special = {role: token for role in _SPECIAL_NAMES if (token := self._find_special(role)) is not None}

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a tokenizer.json."""
        return cls(files.load_json(Path(path)))

    @classmethod
    def from_vocab(
        cls, path: str | Path, *, lowercase: bool = True, strip_accents: bool | None = None, split_chinese: bool = True
    ) -> Self:
        """Read a BERT vocab.txt; accents are stripped by default when lowercasing."""
        return cls(files.load_vocabulary(Path(path), lowercase, strip_accents, split_chinese))

    @classmethod
    def from_folder(cls, folder: str | Path) -> Self:
        """Read a folder's: tokenizer.json, vocab.txt, spm.model, or vocab.json with merges.txt or source.spm.

        >>> model.save("my-model")
        >>> clearhead.Tokenizer.from_folder("my-model").vocabulary == model.tokenizer.vocabulary
        True
        """
        return cls(*files.load_folder(Path(folder)))

    @classmethod
    def of_targets(cls, folder: str | Path) -> Self:
        """Read how the translations of a checkpoint are cut: as its sources, unless it has a target.spm (OPUS-MT)."""
        pieces, vocabulary = Path(folder, files.TARGETS), Path(folder, "vocab.json")
        if pieces.exists() and vocabulary.exists():
            return cls(marian(read_object(vocabulary), pieces))
        return cls.from_folder(folder)

    def save(self, folder: str | Path, *, max_length: int | None = None, overwrite: bool = False) -> None:
        """Write tokenizer.json and tokenizer_config.json (and vocab.txt for WordPiece) as transformers reads them.

        A folder that holds a tokenizer is refused, or with `overwrite` replaced. A model stays where it is, and its
        tokenizer alone is added or replaced.

        >>> model.tokenizer.save("words")
        """
        place = Path(folder)
        beside_model = (place / "config.json").is_file()
        if beside_model:
            for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
                check_free_file(place / name, overwrite=overwrite)
        with staged(place, own=beside_model, overwrite=overwrite and not beside_model) as stage:
            self.write_files(stage, max_length=max_length)

    def write_files(self, folder: Path, *, max_length: int | None = None) -> None:
        """Write the files of `save` into a stage, beside those of a model."""
        with naming(folder / "tokenizer.json"):
            (folder / "tokenizer.json").write_text(self._library.to_str(pretty=True), encoding="utf-8", newline="\n")
        settings = self._settings_to_save() | ({} if max_length is None else {"model_max_length": max_length})
        write_json(settings, folder / "tokenizer_config.json", ensure_ascii=False)
        if isinstance(self._library.model, models.WordPiece):
            vocabulary = self._library.get_vocab(with_added_tokens=False)
            tokens = sorted(vocabulary, key=vocabulary.__getitem__)
            with naming(folder / "vocab.txt"):
                (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")

    @property
    def tells_capitals(self) -> bool:
        """Whether `Encoding.segments` say which words have capitals, instead of which sentence they are in."""
        return self.settings.get(_CAPITALS) is True

    def with_capitals(self) -> Self:
        """The same tokenizer, which tells beside the ids what their small letters lose."""
        require(self.lowercase, "This tokenizer knows capitals by its vocabulary; leave capitals out.", BadConfig)
        return type(self)(self._library, {**self.settings, _CAPITALS: True})

    def with_specials(self, before: Sequence[int], after: Sequence[int], settings: Mapping[str, Any]) -> Self:
        """The same tokenizer, which puts these ids round a text and no others, with more settings."""
        if self.template.around_text == (tuple(before), tuple(after)):
            return type(self)(self._library, {**self.settings, **settings})
        library = tokenizers.Tokenizer.from_str(self._library.to_str())
        library.post_processor = families.template(*([(self._names[i], i) for i in ids] for ids in (before, after)))
        # the classes of the families know no template but their own
        return type(self)(library, {**self.settings, "tokenizer_class": ANY_CLASS, **settings})

    def within(self, size: int) -> Self:
        """The same tokenizer without the special tokens whose ids are `size` or more; if there are others, as it is.

        bart-large-cnn has a <mask> for which it has no vector.
        """
        if self.largest_id < size:
            return self
        added = self._library.get_added_tokens_decoder()
        beyond = [place for place in self._names if place >= size]
        if not all(place in added and added[place].special for place in beyond):
            return self
        content = json.loads(self._library.to_str())
        content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < size]
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, dict):
            content["model"]["vocab"] = {token: place for token, place in vocabulary.items() if place < size}
        else:
            content["model"]["vocab"] = vocabulary[:size]
        return type(self)(tokenizers.Tokenizer.from_str(json.dumps(content)), self.settings)

    def between(self, source: str | None, target: str | None) -> Self:
        """The same tokenizer for one pair of its languages, which it then is saved with."""
        told = {"src_lang": source, "tgt_lang": target}
        return type(self)(self._library, {**self.settings, **{name: code for name, code in told.items() if code}})

    def with_directions(self, directions: Sequence[str]) -> Self:
        """The same tokenizer for a translator of several directions, such as de-en: with a token for each target."""
        targets = dict.fromkeys(target for _, target in read_directions(directions))
        library = tokenizers.Tokenizer.from_str(self._library.to_str())
        library.add_special_tokens([tag(target) for target in targets])
        return type(self)(library, {**self.settings, DIRECTIONS: list(directions)})

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """One text, or two, with special tokens round them.

        >>> model.tokenizer.encode("Where?", "Here.").tokens
        ['[CLS]', 'where', '?', '[SEP]', 'here', '.', '[SEP]']
        """
        return self.encode_batch([text if pair is None else (text, pair)])[0]

    def encode_batch(self, inputs: Sequence[str | tuple[str, str]]) -> list[Encoding]:
        """Many texts or pairs of texts, on all cores.

        >>> [len(one.ids) for one in model.tokenizer.encode_batch(["Yes.", ("Where?", "Here.")])]
        [4, 7]
        """
        require(not isinstance(inputs, str), "A batch is a list of texts; encode takes one text.", BadInput)
        for item in inputs:
            fits = isinstance(item, str) or (isinstance(item, tuple | list) and len(item) == 2)
            require(fits, f"An input is a text or a pair of texts, not {item!r}.", BadInput)
        texts = [text for item in inputs for text in ([item] if isinstance(item, str) else item)]
        pieces = iter(self.pieces_batch(texts))
        return [self.template.wrap(next(pieces), None if isinstance(item, str) else next(pieces)) for item in inputs]

    def pieces(self, text: str) -> Pieces:
        """The pieces of one text, without special tokens.

        >>> found = model.tokenizer.pieces("London.")
        >>> [(token, span) for token, span in zip(found.tokens, found.offsets)]
        [('london', (0, 6)), ('.', (6, 7))]
        """
        return self.pieces_batch([text])[0]

    def words_batch(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """The pieces of texts that are split already, joined by spaces; `Pieces.words` are indices into the words.

        >>> model.tokenizer.words_batch([["New", "York", "."]])[0].words
        [0, 1, 2]
        """
        _check_split(sentences)
        found = []
        for words, pieces in zip(sentences, self.pieces_batch([" ".join(words) for words in sentences]), strict=True):
            # a piece that starts at the space before a word belongs to that word
            ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
            owners = [min(bisect_right(ends, start), len(words) - 1) for start, _ in pieces.offsets]
            found.append(replace(pieces, words=owners))
        return found

    def pieces_batch(self, texts: Sequence[str]) -> list[Pieces]:
        """The pieces of many texts, without special tokens."""
        valid = [valid_text(text) for text in texts]
        if all(len(text) <= CHUNK for text in valid):
            found = [self._pieces(part) for part in self._run(valid)]
        else:
            plans = [self._chunker.chunks(text) for text in valid]
            encoded = iter(self._run([chunk for plan in plans for chunk in plan.texts]))
            found = [plan.join([self._pieces(next(encoded)) for _ in plan.texts]) for plan in plans]
        if self._owns_spaces:
            found = [
                replace(pieces, offsets=_without_spaces(pieces.offsets, text))
                for pieces, text in zip(found, texts, strict=True)
            ]
        if self.tells_capitals:
            found = [
                replace(pieces, capitals=capitals_of(text, pieces.offsets, pieces.words))
                for pieces, text in zip(found, texts, strict=True)
            ]
        return found

    def packed_batch(self, texts: Sequence[str], *, spans: bool = True) -> "PackedPieces":
        """The pieces of many texts in flat arrays, without special tokens; without `spans`, only their ids."""
        from clearhead.text.packed import PackedPieces

        # a function less for each text: most of them are plain
        valid = [text if type(text) is str and text.isascii() else valid_text(text) for text in texts]
        spans = spans or self.tells_capitals
        if max(map(len, valid), default=0) <= CHUNK:
            found = PackedPieces.of(self._run(valid, offsets=spans), spans=spans)
        else:
            plans = [self._chunker.chunks(text) for text in valid]
            encoded = self._run([chunk for plan in plans for chunk in plan.texts], offsets=spans)
            found = PackedPieces.of(encoded, spans=spans).joined(plans)
        if spans and self._owns_spaces:
            found = found.without_spaces(texts)
        return found.with_capitals(texts) if self.tells_capitals else found

    def packed_words(self, sentences: Sequence[Sequence[str]]) -> "PackedPieces":
        """The same of texts that are split already, joined by spaces; `words` are indices into the words."""
        _check_split(sentences)
        return self.packed_batch([" ".join(words) for words in sentences]).of_words(sentences)

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Only the ids of many texts, without special tokens: the fast way through a corpus.

        >>> [len(ids) for ids in model.tokenizer.ids_batch(["London.", "Paris and London."])]
        [2, 4]
        """
        valid = [valid_text(text) for text in texts]
        if all(len(text) <= CHUNK for text in valid):  # sentences need no plan, which would cost a fifth
            return [part.ids for part in self._run(valid, offsets=False)]
        plans = [self._chunker.chunks(text) for text in valid]
        encoded = iter(self._run([chunk for plan in plans for chunk in plan.texts], offsets=False))
        return [[i for _ in plan.texts for i in next(encoded).ids] for plan in plans]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text of these ids, with or without the special tokens among them.

        >>> model.tokenizer.decode(model.tokenizer.encode("She lived in London.").ids)
        'she lived in london.'
        """
        wrong = next((i for i in set(ids) if i not in self._names), None)
        require(wrong is None, f"Id {wrong} is not among the {self.vocabulary} tokens of the vocabulary.", BadInput)
        with explained(BadCheckpoint, "The tokenizer cannot decode ({}); its files are damaged."):
            return str(self._library.decode(list(ids), skip_special_tokens=not special))

    def join(self, tokens: Sequence[str]) -> str:
        """Text of these tokens, as the checkpoint writes it; what is not in the vocabulary is taken as it is."""
        decoder, valid = self._library.decoder, [*map(valid_text, tokens)]
        with explained(BadCheckpoint, "The tokenizer cannot decode ({}); its files are damaged."):
            return " ".join(valid) if decoder is None else str(decoder.decode(valid))

    @property
    def continuation(self) -> str | None:
        """What a piece that continues a word begins with ("##" in BERT); None where pieces do not show it."""
        return getattr(self._library.model, "continuing_subword_prefix", None) or None

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self._library.get_vocab_size())

    @property
    def largest_id(self) -> int:
        """The largest id of a token, which is beyond the count of tokens where ids have gaps."""
        return max(self._names, default=0)

    @property
    def max_length(self) -> int | None:
        """Most tokens the model takes, where the checkpoint says so."""
        length = self.settings.get("model_max_length")
        # transformers writes 10^30 for "no limit"
        return int(length) if isinstance(length, int | float) and 1 <= length < 10**9 else None

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides which ids a text gets."""
        return hashlib.sha256(self._library.to_str().encode()).hexdigest()

    @property
    def lowercase(self) -> bool:
        """Whether upper and lower case are the same to this tokenizer."""
        normalizer = self._library.normalizer
        with explained(BadCheckpoint, "The tokenizer cannot normalise ({}); its files are damaged."):
            return normalizer is not None and normalizer.normalize_str("A") == "a"

    @cached_property
    def languages(self) -> Languages | None:
        """The languages that a translator is told by tokens; None where there are no such tokens."""
        added = self._library.get_added_tokens_decoder()
        specials = {str(token.content): place for place, token in added.items() if token.special}
        return Languages.find(specials, self.template.around_text, self.settings)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if it is not in the vocabulary.

        >>> model.tokenizer.token_to_id("[CLS]") == model.tokenizer.cls_id
        True
        """
        return self._library.token_to_id(valid_text(token))

    def id_to_token(self, token_id: int) -> str | None:
        """The token of an id; None if there is no such id.

        >>> model.tokenizer.id_to_token(model.tokenizer.cls_id)
        '[CLS]'
        """
        return self._names.get(token_id)

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self._special_id("pad")

    @property
    def unk_id(self) -> int:
        """Id of the token for what the vocabulary cannot write."""
        return self._special_id("unk")

    @property
    def cls_id(self) -> int:
        """Id of the token that opens an input."""
        return self._special_id("cls")

    @property
    def sep_id(self) -> int:
        """Id of the token that ends a text."""
        return self._special_id("sep")

    @property
    def mask_token(self) -> str:
        """The mask as it is written, such as [MASK]."""
        self._special_id("mask")  # refuses a tokenizer without one
        return self.special["mask"]

    @property
    def mask_id(self) -> int:
        """Id of the mask."""
        return self._special_id("mask")

    @cached_property
    def _chunker(self) -> Chunker:
        return Chunker.of(self._library)

    def _pieces(self, encoded: tokenizers.Encoding) -> Pieces:
        ids = encoded.ids
        return Pieces(ids, [self._names[i] for i in ids], encoded.offsets, cast("list[int]", encoded.word_ids))

    def _run(self, chunks: list[str], *, offsets: bool = True) -> list[tokenizers.Encoding]:
        with explained(BadCheckpoint, "The tokenizer cannot write this text ({}); its files are incomplete."):
            # to wake the library's threads takes longer than a few short texts, and a later fork would complain of them
            if len(chunks) == 1 or sum(map(len, chunks)) <= _SHORT:
                return [self._library.encode(chunk, add_special_tokens=False) for chunk in chunks]
            run = self._library.encode_batch if offsets else self._library.encode_batch_fast
            return run(chunks, add_special_tokens=False)

    def _special_id(self, role: str) -> int:
        found = self.token_to_id(self.special.get(role, ""))
        if found is None:
            looked_for, there = ", ".join(_SPECIAL_NAMES[role]), ", ".join(self.special.values())
            raise NotFound(f"This tokenizer has no {role} token ({looked_for}); it has {there or 'no special tokens'}.")
        return found

    def _find_special(self, role: str) -> str | None:
        said = self.settings.get(f"{role}_token")
        named = said.get("content") if isinstance(said, dict) else said
        # MPNet's vocabulary has BERT's special tokens as well, as words
        added = {token.content for token in self._library.get_added_tokens_decoder().values()}
        names = sorted(_SPECIAL_NAMES[role], key=lambda name: name not in added)
        candidates = (named, *names)
        return next((t for t in candidates if isinstance(t, str) and self.token_to_id(t) is not None), None)

    def _settings_to_save(self) -> dict[str, Any]:
        normalizer = self._library.normalizer
        if isinstance(self._library.model, models.WordPiece) and isinstance(normalizer, normalizers.BertNormalizer):
            family: dict[str, Any] = {
                # MPNet's is WordPiece too, with other tokens round a text
                "tokenizer_class": "MPNetTokenizer" if self.special.get("cls") == "<s>" else "BertTokenizer",
                "do_lower_case": normalizer.lowercase,
                "strip_accents": normalizer.strip_accents,
                "tokenize_chinese_chars": normalizer.handle_chinese_chars,
            }
        else:
            # without this list, transformers leaves the segments of a pair out
            read = ["input_ids", *(["token_type_ids"] if self.template.segments else []), "attention_mask"]
            family = {"tokenizer_class": ANY_CLASS, "model_input_names": read}
            # where the last token is what classes are read from (XLNet), it must be the last of a padded row too
            last = self.template.single[-1]
            if isinstance(last, Special) and last.token == self.special.get("cls"):
                family["padding_side"] = "left"
        return {**family, **{f"{role}_token": token for role, token in self.special.items()}, **self.settings}


def _names(library: tokenizers.Tokenizer) -> dict[int, str]:
    """The token of each id. A vocabulary may hold a token twice, and then says only the last of its ids."""
    names = {token_id: token for token, token_id in library.get_vocab().items()}
    if len(names) <= (last := max(names, default=0)) < _MOST_IDS:
        found = {i: library.id_to_token(i) for i in range(last) if i not in names}
        names |= {i: token for i, token in found.items() if token is not None}
    return names


def _check_split(sentences: Sequence[Sequence[str]]) -> None:
    split = not any(isinstance(words, str) for words in sentences)
    require(split, "Words must come as a list of strings; encode takes a string.", BadInput)


def _without_spaces(offsets: list[Span], text: str) -> list[Span]:
    """Offsets without the white space in front that some families count to the word: answers are slices of words."""
    return [(end - len(text[start:end].lstrip()), end) for start, end in offsets]
