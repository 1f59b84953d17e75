"""Long texts in bounded chunks, cut only where the tokens on both sides are the same with and without the cut.

The library's own time per character grows with the length of the text, and it works on one text with one core.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from clearhead.text.encoding import Pieces, Span

CHUNK = 10_000  # characters
_PUNCTUATION = r"[!-/:-@\[-`{-~]"
# BERT's pre-tokeniser parts at white space, at ideographs and at punctuation; RoBERTa's keeps a space with the word
# that follows it, so only the place before a space is the same for both.
_BERT_CUT = re.compile(rf"(?<=\S)(?=[ \n])|(?=[\u4e00-\u9fff])|(?<={_PUNCTUATION})(?={_PUNCTUATION})")
_BYTE_LEVEL_CUT = re.compile(r"(?<=[A-Za-z0-9.,;:!?])(?= )")
# Letters and digits that BERT's normaliser never removes and its pre-tokeniser never parts; a test tries each of them.
WORD_CHARACTER = r"[^\W_\u1f00-\U0010ffff]"
_LONG_RUN = re.compile(rf"(?<!{WORD_CHARACTER}){WORD_CHARACTER}{{1000,}}")


@dataclass(frozen=True, slots=True)
class Chunks:
    """One text ready for the library: its chunks and where each starts.

    `gaps` are the places where characters of long words were left out, `left_out` how many up to there.
    """

    texts: list[str]
    starts: list[int]
    gaps: list[int]
    left_out: list[int]

    def join(self, encoded: Sequence[Pieces]) -> Pieces:
        """The pieces of the whole text from those of its chunks."""
        ids: list[int] = []
        tokens: list[str] = []
        offsets: list[Span] = []
        words: list[int] = []
        for start, part in zip(self.starts, encoded, strict=True):
            seen = words[-1] + 1 if words else 0
            ids += part.ids
            tokens += part.tokens
            offsets += [(first + start, last + start) for first, last in part.offsets]
            words += [word + seen for word in part.words]
        if self.gaps:
            offsets = [(self._original(first), self._original(last)) for first, last in offsets]
        return Pieces(ids, tokens, offsets, words)

    def _original(self, offset: int) -> int:
        gap = bisect_right(self.gaps, offset)
        return offset + self.left_out[gap - 1] if gap else offset


@dataclass(frozen=True, slots=True)
class Chunker:
    """Knows where a tokenizer's texts may be cut (`cut`, None if nowhere is known to be safe).

    `longest_word` is WordPiece's limit, beyond which a word is unknown whatever it is made of.
    """

    cut: re.Pattern[str] | None
    longest_word: int | None
    size: int = CHUNK

    @classmethod
    def of(cls, library: tokenizers.Tokenizer) -> Self:
        """Choose the rule for this tokenizer by its parts, and try it once."""
        parts = (library.normalizer, library.pre_tokenizer, library.model)
        longest: int | None = None
        match parts:
            case (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), models.WordPiece() as wordpiece):
                cut, longest = _BERT_CUT, wordpiece.max_input_chars_per_word
                safe = library.normalizer.handle_chinese_chars and library.normalizer.clean_text
            case (None, pre_tokenizers.ByteLevel() as byte_level, models.BPE()):
                cut = _BYTE_LEVEL_CUT
                safe = byte_level.use_regex and _same_offsets_after_space(library)
            case _:
                return cls(None, None)
        added = list(library.get_added_tokens_decoder().values())
        safe = safe and not any(_can_be_cut(token, cut) for token in added)
        shorten = not any(_can_touch_words(token) for token in added)
        return cls(cut if safe else None, longest if shorten else None)

    def chunks(self, text: str) -> Chunks:
        """Chunks of about `size` characters; longer only where there is no safe place to cut."""
        if len(text) <= self.size:
            return Chunks([text], [0], [], [])
        gaps: list[int] = []
        left_out: list[int] = []
        if self.longest_word is not None:
            text, gaps, left_out = _shorten(text, self.longest_word + 1)
        starts = [0]
        while self.cut is not None and (found := self.cut.search(text, starts[-1] + self.size)):
            starts.append(found.start())
        ends = [*starts[1:], len(text)]
        return Chunks([text[start:end] for start, end in zip(starts, ends, strict=True)], starts, gaps, left_out)


def _shorten(text: str, keep: int) -> tuple[str, list[int], list[int]]:
    """Keep the first characters of every absurdly long word: it is unknown either way."""
    kept: list[str] = []
    gaps: list[int] = []
    removed: list[int] = []
    done = length = 0
    for run in _LONG_RUN.finditer(text):
        stop = min(run.start() + keep, run.end())
        kept.append(text[done:stop])
        length += stop - done
        gaps.append(length)
        removed.append(run.end() - stop)
        done = run.end()
    kept.append(text[done:])
    return "".join(kept), gaps, list(accumulate(removed))


def _can_be_cut(token: tokenizers.AddedToken, cut: re.Pattern[str]) -> bool:
    return token.rstrip or token.single_word or any(place.start() > 0 for place in cut.finditer(token.content))


def _can_touch_words(token: tokenizers.AddedToken) -> bool:
    """Whether the token could take part of a run of word characters; [MASK] cannot, "covid" can."""
    return bool(re.match(WORD_CHARACTER, token.content) or re.search(rf"{WORD_CHARACTER}\Z", token.content))


def _same_offsets_after_space(library: tokenizers.Tokenizer) -> bool:
    """Whether " a" gives the same tokens and offsets at the start of a text as within it."""
    whole = library.encode("a a", add_special_tokens=False)
    after = library.encode(" a", add_special_tokens=False)
    shifted = [(start + 1, end + 1) for start, end in after.offsets]
    return whole.ids[-len(after) :] == after.ids and whole.offsets[-len(after) :] == shifted
