"""Reading SentencePiece models: the tokenizers of Marian, DeBERTa, M2M-100 and mBART, from the files that they bring.

Such a file is a protocol buffer; of its many fields we need the pieces with their scores, which of two algorithms they
are for, and the normaliser's table.
"""

import logging
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from clearhead.errors import BadCheckpoint, NotFound, explained, require
from clearhead.io import check_file
from clearhead.text.families import metaspace_bpe, one_space, template, unigram
from clearhead.text.safety import check_charsmap

log = logging.getLogger(__name__)

_PIECES, _TRAINER, _NORMALISER = 1, 2, 3  # fields of the model
_ALGORITHM, _TABLE = 3, 2  # fields of the trainer and of the normaliser
_BPE = 2  # an algorithm
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # types of pieces; text is cut into the first and the last
_NEVER = -1e6  # a score below that of any text made of the source's own pieces
_LARGEST = 1 << 28  # bytes
_LONGEST = 128  # characters of a piece that is joined of others; SentencePiece makes none beyond 16, unless it is told
_LANGUAGE = re.compile(r">>[^<>]+<<")


def marian(vocabulary: Mapping[str, int], source: Path) -> tokenizers.Tokenizer:
    """Unigram pieces of one language (in `source`), by their ids in the vocabulary of both languages: A </s>."""
    pieces, table = read_model(source)
    ordered = _ordered(vocabulary, source)
    scored = [(token, pieces.get(token, _NEVER)) for token in ordered]
    specials = [t for t in ordered if t in ("</s>", "<unk>", "<pad>") or _LANGUAGE.fullmatch(t)]
    with explained(BadCheckpoint, f"{source} and the vocabulary beside it make no tokenizer ({{}}). Copy both again."):
        return unigram("marian", scored, _cleaning(table), specials)


def m2m100(vocabulary: Mapping[str, int], source: Path, codes: str) -> tokenizers.Tokenizer:
    """Pieces of all languages (in `source`) by their ids in a vocabulary, and after these the languages: __en__ A </s>.

    `codes` is the name of a list of languages. A piece without an id is cut further.
    """
    pieces, table = read_model(source)
    ordered = _ordered(vocabulary, source)
    require(codes in _M2M100, f"language_codes = {codes!r} is not known; there are {', '.join(_M2M100)}", BadCheckpoint)
    languages = [f"__{code}__" for code in _M2M100[codes].split()]
    if lost := [piece for piece in pieces if piece not in vocabulary]:
        log.warning("%s has %d pieces that vocab.json has no id for, such as %r", source, len(lost), lost[0])
    specials = [token for token in ("<s>", "<pad>", "</s>", "<unk>") if token in vocabulary]
    with explained(BadCheckpoint, f"{source} and the vocabulary beside it make no tokenizer ({{}}). Copy both again."):
        if _algorithm(source) == _BPE:
            library = metaspace_bpe(vocabulary, _merges(pieces, vocabulary), _cleaning(table), specials)
        else:
            scored = [(token, pieces.get(token, _NEVER)) for token in ordered]
            library = unigram("marian", scored, _cleaning(table), specials)
        library.add_special_tokens(languages)
        english = ("__en__", len(vocabulary) + languages.index("__en__"))
        library.post_processor = template([english], [("</s>", vocabulary["</s>"])])
    return library


def mbart(source: Path, kind: str) -> tokenizers.Tokenizer:
    """Unigram pieces, numbered as by fairseq, and the languages after them: A </s> en_XX, in mBART-50 en_XX A </s>."""
    pieces, table = read_pieces(source)
    begin = ["<s>", "<pad>", "</s>", "<unk>"]
    middle = [(piece, score) for piece, score, type_ in pieces if type_ in (_NORMAL, _USER_DEFINED)]
    languages = [*_MBART.split(), *(_MBART_50.split() if kind.startswith("MBart50") else ())]
    scored = [*((token, 0.0) for token in begin), *middle, *((code, 0.0) for code in languages), ("<mask>", 0.0)]
    with explained(BadCheckpoint, f"{source} makes no tokenizer ({{}}). Copy the file again."):
        library = unigram("marian", scored, _cleaning(table), [*begin, *languages, "<mask>"])
        english, end = ("en_XX", len(begin) + len(middle) + languages.index("en_XX")), ("</s>", begin.index("</s>"))
        before = kind.startswith("MBart50")
        library.post_processor = template([english], [end]) if before else template([], [end, english])
    return library


# in the order of their ids: Fan et al. 2020, and their systems for WMT 2021; Liu et al. 2020, Tang et al. 2020
_M2M100 = {
    "m2m100": """af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr
    ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt
    ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu""",
    "wmt21": "en ha is ja cs ru zh de",
}
_MBART = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"""
_MBART_50 = """af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE
sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"""


def _ordered(vocabulary: Mapping[str, int], source: Path) -> list[str]:
    """The tokens of a vocabulary in the order of their ids, which must be all there are."""
    ids = vocabulary.values()
    numbered = all(type(i) is int for i in ids) and sorted(ids) == list(range(len(vocabulary)))
    message = f"the ids beside {source} do not count from 0 without a gap; copy vocab.json again"
    require(numbered, message, BadCheckpoint)
    missing = [token for token in ("</s>", "<unk>") if token not in vocabulary]
    require(not missing, f"the vocabulary beside {source} has no {' and no '.join(missing)}", BadCheckpoint)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _cleaning(table: bytes) -> normalizers.Normalizer:
    return one_space(*([normalizers.Precompiled(table)] if table else []))


def _merges(pieces: Mapping[str, float], vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """All pairs of pieces that make a piece, the best first: SentencePiece joins by the score of what comes of it."""
    pairs = [
        (-score, at, (piece[:at], piece[at:]))
        for piece, score in pieces.items()
        for at in range(1, len(piece) if len(piece) <= _LONGEST else 1)
        if piece in vocabulary and piece[:at] in pieces and piece[at:] in pieces
    ]
    return [pair for _, _, pair in sorted(pairs) if pair[0] in vocabulary and pair[1] in vocabulary]


def _algorithm(path: Path) -> int:
    trainer = next((value for field, value in _fields(path.read_bytes()) if field == _TRAINER), b"")
    return int(dict(_fields(trainer)).get(_ALGORITHM, 1))


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
