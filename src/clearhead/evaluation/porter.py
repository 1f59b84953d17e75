"""Porter's stemmer (1980) with the extensions of NLTK, which ROUGE's reference package uses."""

_IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

# suffix > replacement; the first suffix that fits decides, even if its condition then forbids the change
_PLURALS = "sses>ss ies>i ss>ss s>"
_DOUBLE_SUFFIXES = (
    "ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble alli>al entli>ent eli>e ousli>ous ization>ize "
    "ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble fulli>ful logi>log"
)
_ENDINGS = "icate>ic ative> alize>al iciti>ic ical>ic ful> ness>"
_LAST_ENDINGS = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"


def stem(word: str) -> str:
    """The stem of a lower-case English word: "relational" and "relate" give "relat"."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _without_plural(word)
    word = _without_past(word)
    if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c":
        word = word[:-1] + "i"
    word = _shorten_double_suffix(word)
    head, new = _cut(word, _ENDINGS)
    if new is not None and _measure(head) > 0:
        word = head + new
    word = _without_last_ending(word)
    return _tidy(word)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    head, new = _cut(word, _PLURALS)
    return word if new is None else head + new


def _without_past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        head = word.removesuffix(suffix)
        if head != word and "v" in _shape(head):
            return _repair(head)
    return word


def _repair(head: str) -> str:
    """Give back what the past or the -ing form took: hopp > hop, fil > file, conflat > conflate."""
    if head.endswith(("at", "bl", "iz")):
        return head + "e"
    if len(head) > 1 and head[-1] == head[-2] and _shape(head)[-1] == "c":
        return head if head[-1] in "lsz" else head[:-1]
    return head + "e" if _measure(head) == 1 and _is_short(head) else head


def _shorten_double_suffix(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _shorten_double_suffix(word[:-2])
    head, new = _cut(word, _DOUBLE_SUFFIXES)
    # the l of -logi counts with its stem, so that "theology" is treated as "archaeology"
    stays = head + "l" if new == "log" else head
    return word if new is None or _measure(stays) == 0 else head + new


def _without_last_ending(word: str) -> str:
    head, new = _cut(word, _LAST_ENDINGS)
    if new is None or _measure(head) < 2 or (word.endswith("ion") and head[-1] not in "st"):
        return word
    return head


def _tidy(word: str) -> str:
    head = word.removesuffix("e")
    if head != word and (_measure(head) > 1 or (_measure(head) == 1 and not _is_short(head))):
        word = head
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _cut(word: str, rules: str) -> tuple[str, str | None]:
    for rule in rules.split(" "):
        suffix, _, new = rule.partition(">")
        if word.endswith(suffix):
            return word.removesuffix(suffix), new
    return word, None


def _shape(word: str) -> str:
    """Consonants as c and vowels as v; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _is_short(word: str) -> bool:
    """Porter's *o: the word ends consonant, vowel, consonant other than w, x, y; "at" counts too."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")
