"""Reading SentencePiece models: the tokenizers of Marian (OPUS-MT: source.spm with vocab.json) and DeBERTa (spm.model).

A .spm file is a protocol buffer; of its many fields we need the pieces with their scores, and the normaliser's table.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from clearhead.errors import BadCheckpoint, NotFound, explained, require
from clearhead.io import check_file
from clearhead.text.families import one_space, unigram
from clearhead.text.safety import check_charsmap

_PIECES, _NORMALISER, _TABLE = 1, 3, 2  # fields of the model, and of its normaliser
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # types of pieces; text is cut into the first and the last
_NEVER = -1e6  # a score below that of any text made of the source's own pieces
_LARGEST = 1 << 28  # bytes
_LANGUAGE = re.compile(r">>[^<>]+<<")


def marian(vocabulary: Mapping[str, int], source: Path) -> tokenizers.Tokenizer:
    """Unigram pieces of one language (in `source`), by their ids in the vocabulary of both languages: A </s>."""
    pieces, table = read_model(source)
    ids = vocabulary.values()
    numbered = all(type(i) is int for i in ids) and sorted(ids) == list(range(len(vocabulary)))
    message = f"the ids beside {source} do not count from 0 without a gap; copy vocab.json again"
    require(numbered, message, BadCheckpoint)
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    missing = [token for token in ("</s>", "<unk>") if token not in vocabulary]
    require(not missing, f"the vocabulary beside {source} has no {' and no '.join(missing)}", BadCheckpoint)
    scored = [(token, pieces.get(token, _NEVER)) for token in ordered]
    specials = [t for t in ordered if t in ("</s>", "<unk>", "<pad>") or _LANGUAGE.fullmatch(t)]
    with explained(BadCheckpoint, f"{source} and the vocabulary beside it make no tokenizer ({{}}). Copy both again."):
        cleaning = [normalizers.Precompiled(table)] if table else []
        return unigram("marian", scored, one_space(*cleaning), specials)


def deberta(path: Path, *, lowercase: bool) -> tokenizers.Tokenizer:
    """Unigram pieces by their places in the file, which has the special tokens but the mask: [CLS] A [SEP] B [SEP]."""
    pieces, table = read_pieces(path)
    scored = [(piece, score) for piece, score, _ in pieces]
    names = [piece for piece, _ in scored]
    missing = [token for token in ("[CLS]", "[SEP]", "[UNK]") if token not in names]
    require(not missing, f"{path} has no {' and no '.join(missing)}; give a DeBERTa's own file", BadCheckpoint)
    once = len(set(names)) == len(names)
    require(once, f"{path} has a piece that stands there twice; copy the file again from its source", BadCheckpoint)
    if "[MASK]" not in names:
        scored.append(("[MASK]", 0.0))
    kinds = {piece: kind for piece, _, kind in pieces} | {"[MASK]": _CONTROL}
    specials = [piece for piece, _ in scored if kinds[piece] in (_UNKNOWN, _CONTROL)]
    with explained(BadCheckpoint, f"{path} makes no tokenizer ({{}}). Copy the file again from its source."):
        cleaning: list[normalizers.Normalizer] = [normalizers.Lowercase()] if lowercase else []
        cleaning += [normalizers.Precompiled(table)] if table else []
        return unigram("deberta-v2", scored, one_space(*cleaning), specials)


def read_model(path: Path) -> tuple[dict[str, float], bytes]:
    """The pieces that text is cut into with their log probabilities, and the table of the normaliser."""
    pieces, table = read_pieces(path)
    return {piece: score for piece, score, kind in pieces if kind in (_NORMAL, _USER_DEFINED)}, table


def read_pieces(path: Path) -> tuple[list[tuple[str, float, int]], bytes]:
    """All pieces of a SentencePiece model with their log probabilities and types, and the table of its normaliser."""
    check_file(path, _LARGEST)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotFound(f"{path} cannot be read ({error.strerror}).") from None
    pieces: list[tuple[str, float, int]] = []
    table = b""
    try:
        for field, value in _fields(content):
            if field == _PIECES:
                piece = dict(_fields(value))
                score = struct.unpack("<f", piece.get(2, bytes(4)))[0]
                pieces.append((piece[1].decode(), score, piece.get(3, _NORMAL)))
            elif field == _NORMALISER:
                table = dict(_fields(value)).get(_TABLE, b"")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error):
        pieces = []
    cut = any(kind in (_NORMAL, _USER_DEFINED) for _, _, kind in pieces)
    readable = cut and isinstance(table, bytes)
    require(readable, f"{path} is no SentencePiece model. Copy the file again from its source.", BadCheckpoint)
    if table:
        check_charsmap(table, path)
    return pieces, table


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol-buffer message: number and value, a whole number or bytes, as a damaged file has it."""
    place = 0
    while place < len(message):
        key, place = _whole(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _whole(message, place)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = _whole(message, place)
        if size is None or place + size > len(message):
            raise ValueError("not a protocol buffer")
        yield key >> 3, message[place : place + size]
        place += size


def _whole(message: bytes, place: int) -> tuple[int, int]:
    """A whole number in groups of seven bits, the lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if shift > 63 and byte > 127:
            raise ValueError("not a protocol buffer")
        if byte < 128:
            return value, place
