"""Changes to good files and texts, by a seed: what a damaged disk, a careless hand or an attacker makes of them."""

import copy
import json
import random
import struct
from typing import Any

# values that have broken something somewhere, of every type that JSON has
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 16, 64, 255, 1024, 65536, 2**20, 2**24, 2**31 - 1, 2**31, 2**32,
    2**53, 2**63, 2**64, 10**30, -(2**63), 0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 1e-300, 1e300, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), "", " ", "a", "0", "1", "null", "\x00", "\ud800", "\udfff", "🙂",
    "é", "../..", "/etc/passwd", "a" * 300, "[MASK]", "<s>", "##", "▁", "\n", "\u2028", "gelu", "bert", "mean",
    "cls", "Sequence", "Precompiled", "Replace", "(a+)+$", [], {}, [[]], [{}], {"a": 1}, [1], ["a"], [None],
    [0.5], {"id": 1}, {"type": "Sequence"}, [1] * 50, ["a", "b"], [[1, 2]], {"0": "a"}, {"1": "a"}, {"a": "a"},
    {"Regex": "(a|aa)+$"}, {"String": ""}, {"type": "Lowercase"}, {"content": "a"},
]  # fmt: skip
PIECES = [
    "a", "b", "the", "Ada", "Lovelace", "Berlin", " ", "  ", "\t", "\n", "\r\n", ".", "!", "?", ",", "'", '"',
    "-", "–", "…", "1", "42", "3.50", "€", "é", "e\u0301", "ß", "İ", "ı", "ﬁ", "ﷺ", "ά", "Ω", "你", "好", "日本",
    "한", "가", "ا", "ل", "ש", "ก", "ि", "्", "🙂", "👩\u200d👩\u200d👧", "🇩🇪", "\u200b", "\u200d", "\ufeff",
    "\u00a0", "\u2028", "\u0000", "\u007f", "\x1b", "\ud800", "\udfff", "\uffff", "\ufffd", "\U0010ffff",
    "[MASK]", "[CLS]", "[SEP]", "<s>", "</s>", "<mask>", "<unk>", "##", "▁", "Ġ", "<|endoftext|>",
    "<extra_id_0>", "http://x.y", "a@b.c", "#tag", "x" * 40, "\u0301" * 9, "½", "①", "𝔸", "ｆ", "㎏",
]  # fmt: skip


def text(rng: random.Random) -> str:
    """A text, mostly short: words, every script, what is no character, and any code point at all."""
    kind = rng.random()
    if kind < 0.05:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(12)))
    if kind < 0.052:
        return rng.choice(PIECES) * rng.randrange(1, 1000)
    return "".join(rng.choices(PIECES, k=rng.randrange(1, 9)))


def any_value(rng: random.Random) -> Any:
    """One of the values, which may be changed further."""
    return copy.deepcopy(rng.choice(VALUES))


def value(rng: random.Random, content: Any) -> Any:
    """JSON with one to three changes: a value, a key, or what lies under it."""
    content = json.loads(json.dumps(content))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = _changed(rng, content)
    return content


def _changed(rng: random.Random, content: Any) -> Any:
    parents = _containers(content)
    if not parents or rng.random() < 0.01:
        return any_value(rng)
    parent = rng.choice(parents[: 1 + rng.randrange(len(parents))])  # the outer ones more often
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    act = rng.random()
    if not keys or act < 0.1:
        new = any_value(rng)
        if isinstance(parent, dict):
            parent[rng.choice(["", "a", "type", "id", "model_type", "labels", "x" * 50, "\ud800"])] = new
        else:
            parent.insert(rng.randrange(len(parent) + 1), new)
        return content
    key = rng.choice(keys)
    if act < 0.2:
        del parent[key]
    elif act < 0.3:
        other = rng.choice(keys)
        parent[key], parent[other] = parent[other], parent[key]
    elif act < 0.45 and type(parent[key]) in (int, float):
        parent[key] = rng.choice(
            (parent[key] + 1, parent[key] - 1, parent[key] * 2, -parent[key], parent[key] // 2, 0.5)
        )
    elif act < 0.5 and isinstance(parent, dict):
        parent[rng.choice((key.upper(), key + "s", key[:-1], ""))] = parent.pop(key)
    elif act < 0.55:
        parent[key] = [parent[key]] * rng.choice((1, 2, 40))
    elif act < 0.56:
        for _ in range(rng.choice((70, 200))):
            parent[key] = [parent[key]]
    else:
        parent[key] = any_value(rng)
    return content


def _containers(content: Any) -> list[Any]:
    """All objects and lists, the outermost first."""
    found, place = [content] if isinstance(content, dict | list) else [], 0
    while place < len(found) and len(found) < 3000:
        one = found[place]
        found += [x for x in (one.values() if isinstance(one, dict) else one) if isinstance(x, dict | list)]
        place += 1
    return found


def json_bytes(rng: random.Random, content: Any) -> bytes:
    """A JSON file with changes inside it, or to its bytes."""
    good = rng.random() < 0.85
    written = json.dumps(value(rng, content) if good else content, ensure_ascii=rng.random() < 0.9)
    encoded = written.encode("utf-8", "surrogatepass")
    return encoded if good else raw(rng, encoded)


def raw(rng: random.Random, content: bytes) -> bytes:
    """Bytes with flips, cuts, insertions and runs of zeros."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(changed) + 1)
        act = rng.random()
        if act < 0.4 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif act < 0.55:
            del changed[place:]
        elif act < 0.7:
            changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        elif act < 0.85:
            del changed[place : place + rng.randrange(1, 65)]
        else:
            changed[place : place + 8] = bytes(8) if rng.random() < 0.5 else b"\xff" * 8
    return bytes(changed)


def safetensors(rng: random.Random, content: bytes) -> bytes:
    """A safetensors file with changes to its bytes, or to its header, whose length is then right or nearly."""
    if rng.random() < 0.4:
        return raw(rng, content)
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    if rng.random() < 0.7:  # as any other program would write it, without our digest
        header.pop("__metadata__", None)
    changed = json.dumps(value(rng, header)).encode("utf-8", "surrogatepass")
    claimed = len(changed) + (0 if rng.random() < 0.95 else rng.choice((-1, 1, 8, 2**40)))
    return struct.pack("<Q", max(claimed, 0)) + changed + content[8 + size :]
