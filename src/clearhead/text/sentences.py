"""Text into sentences, by rules that know no language.

A sentence ends after . ! ? … (or their Arabic and Indic kin) and closing quotes or brackets where white space follows,
after 。！？｡ wherever they stand, and at a line break; but not where a lower-case letter goes on. A full stop after a
single letter, a number of up to three digits or a short capitalised word without vowels (J. / 3. / Mr. / Dr. / Mrs.) is
taken for part of it, which now and then joins two sentences.
"""

import re

_WIDE = "。！？｡"
# one leading set of characters and nothing to look back at: the matcher skips over all else
_END = re.compile(rf"[.!?…؟۔।॥\n{_WIDE}][\"'”’»)\]}}›」』）】]*")
_ABBREVIATION = re.compile(r"\b(?:[^\W_]|\d{1,3}|[A-Z][b-df-hj-np-tv-xz]{1,2})\.\Z")
_LONGEST_ABBREVIATION = 4  # with its full stop


def split_sentences(text: str) -> list[str]:
    """Cut a text into sentences; put together again they are the text.

    White space goes with the sentence after it, as tokenizers that know spaces count it to the word that follows.
    """
    starts = [0]
    for end in _END.finditer(text):
        stop = end.start() if end[0][0] == "\n" else end.end()
        if _ends(text, stop, end[0]) and not text[starts[-1] : stop].isspace() and stop > starts[-1]:
            starts.append(stop)
    return [text[start:stop] for start, stop in zip(starts, [*starts[1:], len(text)], strict=True) if stop > start]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text start and end, without the white space round them: text[start:end]."""
    found, start = [], 0
    for sentence in split_sentences(text):
        if words := sentence.strip():
            first = start + sentence.index(words)
            found.append((first, first + len(words)))
        start += len(sentence)
    return found


def _ends(text: str, stop: int, mark: str) -> bool:
    after = text[stop : stop + 1]
    if not (after.isspace() or mark[0] in _WIDE):
        return False
    if mark == "." and _ABBREVIATION.search(text, max(stop - _LONGEST_ABBREVIATION, 0), stop):
        return False
    while after.isspace():
        stop += 1
        after = text[stop : stop + 1]
    return bool(after) and not after.islower()
