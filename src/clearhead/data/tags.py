"""Tags of words: those that say where entities begin and end (IOB1, IOB2, IOBES, BILOU), and plain ones (POS)."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from clearhead.data.examples import WordsExample
from clearhead.errors import BadInput, require

Scheme = Literal["IOB1", "IOB2", "IOBES", "BILOU", "plain"]

OUTSIDE = "O"  # the tag of a word that belongs to no entity
_PREFIXED = re.compile(r"[BIESLU]-.")
_UNNAMED = re.compile(r"LABEL_\d+")


def entity_type(tag: str) -> str:
    """The type of an entity, without the prefix: PER of B-PER; a plain tag is its own."""
    return tag[2:] if _PREFIXED.match(tag) else tag


def are_plain(tags: Iterable[str]) -> bool:
    """Whether each word has a tag by itself, so that nothing is an entity: no B-, and no O for what is outside.

    Labels that have no names may mean anything.
    """
    names = set(tags)
    unnamed = all(map(_UNNAMED.fullmatch, names))
    return not unnamed and OUTSIDE not in names and not any(map(_PREFIXED.match, names))


def scheme_of(examples: Sequence[WordsExample]) -> Scheme:
    """Recognise the scheme of tagged sentences; some with a prefix and some without are refused, with their place.

    Tags without any prefix are plain, O among them or not.
    """
    counts = Counter(tag for example in examples for tag in example.tags or ())
    prefixed = {tag for tag in counts if _PREFIXED.match(tag)}
    bare = counts.keys() - prefixed - {OUTSIDE}
    if prefixed and bare:
        _refuse_mixture(examples, min(bare, prefixed, key=lambda tags: sum(counts[tag] for tag in tags)))
    kinds = {tag[0] for tag in prefixed}
    mixed = f"{examples[0].where.partition(',')[0]} has tags of two schemes, {', '.join(sorted(prefixed)[:6])}"
    require(not (kinds & set("ES") and kinds & set("LU")), f"{mixed}; write E- and S-, or L- and U-.", BadInput)
    scheme = scheme_of_labels(counts)
    if scheme == "IOB2" and any(to_iob2(example.tags or ()) != list(example.tags or ()) for example in examples):
        return "IOB1"
    return scheme


def scheme_of_labels(labels: Iterable[str]) -> Scheme:
    """The scheme of a model's labels, or of all tags that occur; B, I and O alone are entities of one type."""
    names = set(labels)
    kinds = {name[0] for name in names if _PREFIXED.match(name)}
    if not kinds:
        return "IOB2" if "B" in names and names <= set("BIO") else "plain"
    return "BILOU" if kinds & set("LU") else "IOBES" if kinds & set("ES") else "IOB2"


def _refuse_mixture(examples: Sequence[WordsExample], odd: set[str]) -> None:
    """Say where the first tag of the rarer kind stands."""
    for example in examples:
        for word, tag in zip(example.words, example.tags or (), strict=True):
            if tag in odd:
                has, others = ("a prefix", "have none") if _PREFIXED.match(tag) else ("no B- or I-", "have one")
                todo = "write O, B-TYPE and I-TYPE everywhere, or plain tags everywhere"
                where = f"in the sentence at {example.where}," if example.where else "somewhere,"
                raise BadInput(f"{where} the tag {tag!r} of {word!r} has {has}, others {others}; {todo}.")


def recognised(examples: Sequence[WordsExample]) -> list[WordsExample]:
    """The sentences in a scheme that can be learnt and measured: IOB1 becomes IOB2, BILOU becomes IOBES."""
    tagged = [example for example in examples if example.tags is not None]
    scheme = scheme_of(tagged) if tagged else "plain"
    if scheme == "IOB1":
        return [replace(one, tags=tuple(to_iob2(one.tags))) if one.tags else one for one in examples]
    if scheme == "BILOU":
        letters = str.maketrans("LU", "ES")
        spelt = {tag: tag[0].translate(letters) + tag[1:] for one in tagged for tag in one.tags or ()}
        return [replace(one, tags=tuple(spelt[tag] for tag in one.tags)) if one.tags else one for one in examples]
    return list(examples)


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Write every first tag of an entity with B-, all others with I-.

    IOB1 does so only between neighbours of the same type; IOBES has E- for the last and S- for one alone.
    """
    found, before = [], OUTSIDE
    for tag in tags:
        prefix, name = tag[:2], tag[2:]
        opens = prefix in ("B-", "S-", "U-") or before == OUTSIDE or before[2:] != name or before[:2] in ("E-", "L-")
        found.append(tag if not _PREFIXED.match(tag) else f"B-{name}" if opens else f"I-{name}")
        before = tag
    return found
