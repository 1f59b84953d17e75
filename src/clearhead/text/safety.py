"""What a stranger's tokenizer.json may say: nothing that hangs, fills the memory or ends the process.

The library believes its file: a pattern may take for ever, a replacement may grow without end, a table may name more
memory than there is. What the known families use is bounded and accepted; other parts that the library has are tried
once, in a process of their own; patterns that no family uses are refused, unless the user trusts the file.
"""

import base64
import binascii
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from clearhead.errors import BadCheckpoint, require, short
from clearhead.io import parse_json

TRUST = "CLEARHEAD_TRUST_TOKENIZERS"  # set to 1 by who knows where a file comes from
_REMEDY = f"if you trust where it comes from, set {TRUST}=1"
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
# what the families' tokenizers are made of; each is bounded by its own rules below
_KNOWN = set(
    """
    WordPiece BPE Unigram WordLevel BertNormalizer NFC NFD NFKC NFKD Lowercase StripAccents Strip Precompiled Replace
    Prepend Sequence BertPreTokenizer ByteLevel Metaspace Whitespace WhitespaceSplit Split TemplateProcessing
    BertProcessing RobertaProcessing BPEDecoder
    """.split()  # noqa: SIM905
)
# parts of the library that are tried in another process before they are used
_TRIED = {"Nmt", "Punctuation", "Digits", "UnicodeScripts", "CharDelimiterSplit", "ByteFallback", "Fuse"}
# every pattern that transformers writes for a family, each quick on any text
_PATTERNS = {
    r"\s+",
    r"\s",
    r"\n",
    r" {2,}",
    r"\s{2,}",
    r"[\n\r\t]",
    r"\s{2,}|[\n\r\t]",
    r"^▁+$",
    r" +▁",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}
_MOST_PARTS = 32  # of one kind
_GROWTH = 64  # times that all replacements together may lengthen a text
_LONGEST_WORD = 1000  # characters that WordPiece looks at: its time is the cube of them
_AFFIX = 32  # characters that are put before a text or a piece
_AROUND = 32  # tokens round a text
_TABLE_ENTRY = 64  # bytes that a normaliser's table puts for one character; NFKC's longest has 33
_TRIAL_SECONDS, _TRIAL_BYTES = 30, 4 << 30


def check_tokenizer(text: str, path: Path) -> None:
    """Refuse the text of a tokenizer.json that could do more than tokenise; `path` is where it was read."""
    if os.environ.get(TRUST) == "1":
        return
    content = parse_json(text, str(path), BadCheckpoint, unique=True)
    require(
        isinstance(content, dict), f"{path} is not a tokenizer ({short(content)}). Copy the file again.", BadCheckpoint
    )
    model = content.get("model")
    require(
        isinstance(model, dict),
        f"{path} is not a tokenizer (it has no model). Copy the file again from its source.",
        BadCheckpoint,
    )
    kinds: set[str] = set()
    for name in _PARTS:
        parts = list(_flat(content.get(name)))
        fits = len(parts) <= _MOST_PARTS
        require(fits, f"{path} has {len(parts)} parts in its {name}, at most {_MOST_PARTS} are read.", BadCheckpoint)
        growth = 1.0
        for part in parts:
            kinds.add(_kind(part, path))
            growth *= _grows(part, path)
        message = f"{path}: the {name} makes a text {growth:.0f} times as long; {_REMEDY}."
        require(growth <= _GROWTH, message, BadCheckpoint)
    if "type" in model:  # the first files do not name it
        kinds.add(_kind(model, path))
    _check_model(model, path)
    if kinds - _KNOWN:
        _try(text, path)


def _flat(part: Any) -> Iterator[Any]:
    """A part, or those of a sequence in their order, however deep; more than may be are not looked at."""
    waiting, seen = [part], 0
    while waiting and seen <= 4 * _MOST_PARTS:
        one, seen = waiting.pop(), seen + 1
        if isinstance(one, dict) and one.get("type") == "Sequence":
            inside: list[Any] = next((one[key] for key in _SEQUENCES if isinstance(one.get(key), list)), [])
            waiting += inside[: 4 * _MOST_PARTS]
            yield {"type": "Sequence"}
        elif one is not None:
            yield one


_SEQUENCES = ("normalizers", "pretokenizers", "processors", "decoders")


def _kind(part: Any, path: Path) -> str:
    """The type of a part, which the library must have and a family use."""
    kind = part.get("type") if isinstance(part, dict) else None
    known = isinstance(kind, str) and kind in _KNOWN | _TRIED
    require(known, f"{path} has the part {short(kind)}, which no known family uses; {_REMEDY}.", BadCheckpoint)
    return str(kind)


def _grows(part: dict[str, Any], path: Path) -> float:
    """Check the values of a part; give by how much it may lengthen a text."""
    if part["type"] == "Precompiled":
        try:
            check_charsmap(base64.b64decode(part.get("precompiled_charsmap") or b"", validate=True), path)
        except (binascii.Error, TypeError, ValueError):
            raise BadCheckpoint(f"{path}: the normaliser's table is damaged. Copy the file again.") from None
    if part["type"] == "TemplateProcessing":
        _check_template(part, path)
    for affix in ("prepend", "prefix", "suffix", "replacement"):
        _check_affix(part, affix, path)
    pattern = part.get("pattern")
    if pattern is None:
        return 1.0
    said: Any = pattern.get("Regex", pattern.get("String")) if isinstance(pattern, dict) and len(pattern) == 1 else None
    require(isinstance(said, str), f"{path} has the pattern {short(pattern)}, which is none.", BadCheckpoint)
    known = "String" in pattern or said in _PATTERNS
    require(known, f"{path} has the pattern {short(said)}, which no known family uses; {_REMEDY}.", BadCheckpoint)
    content = part.get("content", "")
    shortest = len(said) if "String" in pattern else 1
    return max(1.0, len(content) / max(shortest, 1)) if isinstance(content, str) else 1.0


def _check_affix(part: dict[str, Any], name: str, path: Path) -> None:
    value = part.get(name)
    fits = not isinstance(value, str) or len(value) <= _AFFIX
    require(fits, f"{path}: {name} has more than {_AFFIX} characters; {_REMEDY}.", BadCheckpoint)


def _check_template(part: dict[str, Any], path: Path) -> None:
    """Refuse a template that is longer than any family's or names a token that it does not explain."""
    special = part.get("special_tokens")
    around = 0
    for name in ("single", "pair"):
        items = part.get(name)
        good = isinstance(items, list) and len(items) <= _AROUND and isinstance(special, dict)
        require(good, f"{path}: the template {name!r} is none, or has more than {_AROUND} parts.", BadCheckpoint)
        for item in items or ():
            token = item.get("SpecialToken") if isinstance(item, dict) else None
            if token is None:
                continue
            named = token.get("id") if isinstance(token, dict) else None
            entry = special.get(named) if isinstance(special, dict) and isinstance(named, str) else None
            ids = entry.get("ids") if isinstance(entry, dict) else None
            known = isinstance(ids, list)
            require(known, f"{path}: the template names {short(named)}, which it does not explain.", BadCheckpoint)
            around += len(ids or ())
    require(around <= _AROUND, f"{path}: the template puts {around} tokens round a text.", BadCheckpoint)


def _check_model(model: dict[str, Any], path: Path) -> None:
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):
        _check_affix(model, affix, path)
    longest = model.get("max_input_chars_per_word", 100)
    fits = type(longest) is int and longest <= _LONGEST_WORD
    message = f"{path}: max_input_chars_per_word {short(longest)} is no number up to {_LONGEST_WORD}; {_REMEDY}."
    require(fits, message, BadCheckpoint)


def check_charsmap(table: bytes, path: Path) -> None:
    """Refuse a normaliser's table that claims more than it holds, or that puts whole texts for a character."""
    size = int.from_bytes(table[:4], "little")
    whole = len(table) > 4 and size % 4 == 0 and 0 < size <= len(table) - 4
    longest = max(map(len, table[4 + size :].split(b"\0")), default=0)
    fits = whole and longest <= _TABLE_ENTRY
    require(fits, f"{path}: the normaliser's table is damaged. Copy the file again from its source.", BadCheckpoint)


# reads a tokenizer.json from its input, and uses it as we would, on texts of every kind
_CHILD = """
import sys
sys.path[:] = sys.argv[3:]
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
except ImportError:
    pass
import tokenizers
library = tokenizers.Tokenizer.from_str(sys.stdin.buffer.read().decode())
library.no_padding()
library.no_truncation()
blocks = ["".join(map(chr, range(start, start + 64))) for start in range(0, 0x3000, 64)]
texts = ["", "a", " ", "a a", "\\u00e9\\u0301" * 2000, "hello world " * 500, *(one * 5000 for one in "a 1.\\n")]
for text in [*texts, *blocks, *(chr(code) for code in range(0x3000, 0x20000, 97) if not 0xD800 <= code < 0xE000)]:
    for encoded in (library.encode(text), library.encode(text, "a")):
        library.decode(encoded.ids)
print("fine")
"""


def _try(text: str, path: Path) -> None:
    """Use the tokenizer in a process that may neither take long nor much; what went well is remembered."""
    known = _remembered(text)
    if known is not None and known.exists():
        return
    command = [sys.executable, "-c", _CHILD, str(_TRIAL_BYTES), str(_TRIAL_SECONDS), *sys.path]
    settings = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    try:
        tried = subprocess.run(  # noqa: S603 – our own lines, by our own interpreter
            command, input=text.encode(), capture_output=True, timeout=_TRIAL_SECONDS, env=settings, check=False
        )
        fine = tried.stdout.strip() == b"fine"
    except (OSError, subprocess.TimeoutExpired):
        fine = False
    message = f"{path} was tried apart and failed, took {_TRIAL_SECONDS} s or too much memory; {_REMEDY}."
    require(fine, message, BadCheckpoint)
    if known is not None:
        try:
            known.parent.mkdir(parents=True, exist_ok=True)
            known.write_text(json.dumps({"file": str(path)}) + "\n", encoding="utf-8")
        except OSError:  # then it is tried again the next time
            return


def _remembered(text: str) -> Path | None:
    """Where it is remembered that this text did well with this version of the library."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or str(Path("~/.cache").expanduser())
    digest = hashlib.sha256(f"{tokenizers.__version__} {text}".encode()).hexdigest()
    return Path(home, "clearhead", "tokenizers", digest) if Path(home).is_absolute() else None
