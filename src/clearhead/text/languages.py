"""The languages of a translator, told by tokens: their codes, and where the token stands beside a source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Self

from clearhead.errors import BadConfig, BadInput, require
from clearhead.text.language_id import identify_language

# NLLB's eng_Latn and mBART's en_XX are their own tokens; M2M-100 writes __en__, OPUS-MT with several targets >>fra<<
_CODE = re.compile(r"(?P<own>[a-z]{2,3}_[A-Z][A-Za-z]{1,3})|__(?P<m2m>[a-z]{2,3})__|>>(?P<opus>[^<>\s]+)<<")
_ENGLISH = ("eng_Latn", "en_XX", "en")  # what these models take a source for, if nothing is said
_NEAR = 5
_SHOWN = 40  # characters of a text in a sentence about it
# codes of two letters (ISO 639-1) whose three letters in NLLB begin otherwise, or are those of the usual variety
_PAIRS = """ar:arb az:azj bn:ben bs:bos cs:ces es:spa et:est fa:pes ga:gle gd:gla gl:glg hr:hrv id:ind is:isl ja:jpn
ka:kat kk:kaz kn:kan ko:kor ky:kir lt:lit lv:lvs mg:plt mk:mkd ml:mal mn:khk mr:mar ms:zsm mt:mlt my:mya ne:npi nl:nld
no:nob pa:pan pl:pol ps:pbt pt:por sk:slk sl:slv sq:als sr:srp sv:swe sw:swh tl:tgl tr:tur yi:ydd"""
_LONG = dict(pair.split(":") for pair in _PAIRS.split())


# before a source, after its end, or before it and naming the target's language instead of its own
Place = Literal["before", "after", "target"]
Around = tuple[tuple[int, ...], tuple[int, ...]]  # the ids before a source and after it
Direction = tuple[str, str]  # the codes of a source and its target
DIRECTIONS = "directions"  # in tokenizer_config.json; other libraries do not know it
_DIRECTION = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


def read_directions(written: object) -> tuple[Direction, ...]:
    """Read directions such as ["de-en", "en-de"]; what is no such list is refused."""
    rows = written if isinstance(written, list | tuple) else [written]
    found = [_DIRECTION.fullmatch(str(row)) for row in rows]
    told = f"{DIRECTIONS} are pairs of codes such as de-en and en-de, got {written!r}"
    require(all(found), told, BadConfig)
    return tuple((match[1], match[2]) for match in found if match is not None)


def tag(code: str) -> str:
    """The token before a source that says what to translate it to, as OPUS-MT writes it: >>de<<."""
    return f">>{code}<<"


@dataclass(frozen=True, slots=True)
class Languages:
    """The token of each language by its code, and where it stands; `source` and `target` are what the files say.

    `directions` are the pairs that a small translator was taught, where its files name them: it knows no others.
    """

    ids: Mapping[str, int]
    place: Place
    source: str | None = None
    target: str | None = None
    directions: tuple[Direction, ...] = ()

    @classmethod
    def find(cls, specials: Mapping[str, int], around: Around, settings: Mapping[str, Any]) -> Self | None:
        """Look for languages among the special tokens, and for their place in what the tokenizer puts round a text.

        The classes of transformers whose place is another than their files say are known by name.
        """
        found = {token: match for token in specials if (match := _CODE.fullmatch(token)) is not None}
        ids = {str(match[match.lastgroup or 0]): specials[token] for token, match in found.items()}
        if len(ids) < 2:
            return None
        kind = str(settings.get("tokenizer_class"))
        if all(match.lastgroup == "opus" for match in found.values()):
            return cls(ids, "target", directions=read_directions(settings.get(DIRECTIONS, [])))
        after = any(token in ids.values() for token in around[1])
        if kind.startswith("Nllb"):
            after = settings.get("legacy_behaviour") is True
        elif kind.startswith(("MBart", "M2M100")):
            after = kind.startswith("MBartTokenizer")
        said = (settings.get(name) for name in ("src_lang", "tgt_lang"))
        source, target = (code if isinstance(code, str) and code in ids else None for code in said)
        written = [code for code, token in ids.items() if token in (*around[0], *around[1])]
        return cls(ids, "after" if after else "before", source or next(iter(written), None), target)

    def id(self, code: object) -> int:
        """The token of a language; one that is not there is told the near ones."""
        if isinstance(code, str) and code in self.ids:
            return self.ids[code]
        told = f"{code!r} is no language of this model"
        near = _near(str(code), list(self.ids))
        some = f"near ones are {', '.join(near)}" if near else f"there are {', '.join(sorted(self.ids)[:_NEAR])}"
        rest = len(self.ids) - len(near or sorted(self.ids)[:_NEAR])
        others = f" and {rest} other{'s' if rest > 1 else ''}" if rest else ""
        raise BadInput(f"{told}; {some}{others}")

    def direction(self, text: str, source: str | None = None, target: str | None = None) -> Direction:
        """The first of the directions that fits what was told; a source that was not is the text's own language."""
        pairs = ", ".join(map("-".join, self.directions))
        shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
        own = source or identify_language(text)
        told = f"the language of {shown} cannot be told"
        require(own is not None, f"{told}; say it with src_lang (--from): this model translates {pairs}", BadInput)
        found = [pair for pair in self.directions if pair[0] == own and target in (None, pair[1])]
        wanted = f"{own}-{target}" if target else f"from {own}"
        seems = "" if source else f"; {shown} seems to be {own}, and if it is not, say src_lang (--from)"
        require(bool(found), f"this model translates {pairs}, not {wanted}{seems}", BadInput)
        return found[0]

    def around(self, end: int, code: str | None = None) -> Around:
        """What stands round a source in this language, by default the files' own, or English."""
        default = next((one for one in (self.source, *_ENGLISH) if one in self.ids), None)
        if code is None and default is None:
            return (), (end,)
        token = self.id(code or default)
        return ((), (end, token)) if self.place == "after" else ((token,), (end,))


def _near(code: str, known: list[str]) -> list[str]:
    """Codes that begin like this one, which may lack the script or the country, or that are spelt like it."""
    small = code.lower().partition("-")[0]
    long = _LONG.get(small)
    alike = [one for one in known if long is not None and one.startswith(long)]
    if small and not alike:
        alike = [one for one in known if one.lower().startswith(small) or small.startswith(one.lower())]
    spelt = get_close_matches(code, known, n=_NEAR, cutoff=0.6)
    return list(dict.fromkeys([*alike, *spelt]))[:_NEAR]


def check_told(**codes: str | None) -> None:
    """Refuse languages where a model is told none."""
    given = [name for name, code in codes.items() if code is not None]
    require(not given, f"this model translates between languages of its own; leave {' and '.join(given)} out", BadInput)
