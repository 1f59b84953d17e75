"""Reading the files of a tokenizer; whatever is wrong with one of them becomes one sentence."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.normalizers import BertNormalizer

from clearhead.errors import BadCheckpoint, NotFound, explained, require, typed
from clearhead.io import PACKAGE, read_object, read_text
from clearhead.text import families
from clearhead.text.safety import check_tokenizer
from clearhead.text.sentencepiece import deberta, m2m100, marian, mbart

TARGETS = "target.spm"
_CHAT = "chat_template.jinja"
PIECES = "sentencepiece.bpe.model"
_LOOKED_FOR = f"tokenizer.json, vocab.txt, spm.model, or vocab.json with merges.txt, source.spm or {PIECES}"


def load_folder(folder: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """The tokenizer of a checkpoint folder and its tokenizer_config.json (empty if there is none)."""
    require(folder.is_dir(), f"There is no folder {folder}; name a folder that holds {_LOOKED_FOR}.", NotFound)
    there = {path.name for path in folder.iterdir()}
    settings = read_object(folder / "tokenizer_config.json") if "tokenizer_config.json" in there else {}
    if _CHAT in there:  # where newer files have what was in tokenizer_config.json
        settings = {**settings, "chat_template": read_text(folder / _CHAT)}
    if "tokenizer.json" in there:
        return load_json(folder / "tokenizer.json"), settings
    if "vocab.txt" in there:
        lowercase, chinese = (settings.get(key) is not False for key in ("do_lower_case", "tokenize_chinese_chars"))
        strip = typed(settings.get("strip_accents"), bool | None, f"{folder / 'tokenizer_config.json'}: strip_accents")
        return load_vocabulary(folder / "vocab.txt", lowercase, strip, chinese), settings
    if "spm.model" in there:
        by_signs = settings.get("split_by_punct")
        require(not by_signs, f"{folder}: split_by_punct = {by_signs!r} is not supported", BadCheckpoint)
        return deberta(folder / "spm.model", lowercase=settings.get("do_lower_case") is True), settings
    if {"vocab.json", PIECES} <= there:
        codes = str(settings.get("language_codes", "m2m100"))
        library = m2m100(read_object(folder / "vocab.json"), folder / PIECES, codes)
        return library, {"tokenizer_class": "M2M100Tokenizer", **settings}
    if PIECES in there and (kind := _mbart_class(folder, settings)).startswith("MBart"):
        return mbart(folder / PIECES, kind), {**settings, "tokenizer_class": kind}
    if {"vocab.json", "source.spm"} <= there:
        return marian(read_object(folder / "vocab.json"), folder / "source.spm"), settings
    if {"vocab.json", "merges.txt"} <= there:
        return _load_byte_level(folder, add_prefix_space=settings.get("add_prefix_space") is True), settings
    raise NotFound(f"{folder} holds no tokenizer: {_LOOKED_FOR} were looked for. Copy one of them there.")


def _mbart_class(folder: Path, settings: dict[str, Any]) -> str:
    """The tokenizer's class, which mBART's files name in the one place or the other, or leave to the family."""
    config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    usual = "MBartTokenizer" if config.get("model_type") == "mbart" else ""
    return str(settings.get("tokenizer_class") or config.get("tokenizer_class") or usual)


def load_json(path: Path) -> tokenizers.Tokenizer:
    """A tokenizer.json, with the padding and truncation it may ask for switched off: we never truncate silently."""
    text = _read_text(path)
    if not path.resolve().is_relative_to(PACKAGE):
        check_tokenizer(text, path)
    with explained(BadCheckpoint, f"{path} is not a tokenizer ({{}}). Copy the file again from its source."):
        library = tokenizers.Tokenizer.from_str(text)
    library.no_padding()
    library.no_truncation()
    return library


def load_vocabulary(
    path: Path, lowercase: bool, strip_accents: bool | None, split_chinese: bool
) -> tokenizers.Tokenizer:
    """BERT's vocab.txt, or MPNet's: one token a line, its id is the line number from 0."""
    lines = _read_text(path).rstrip("\r\n").split("\n")
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(lines):
        token = line.rstrip("\r")
        if token in vocabulary:
            twice = f"{token!r} on line {number + 1} and on line {vocabulary[token] + 1}"
            raise BadCheckpoint(f"{path} has {twice}; every token must be there once.")
        vocabulary[token] = number
    mpnet = {"<s>", "</s>", "<mask>"} <= vocabulary.keys()  # beside BERT's own, which it does not use
    wanted = ("[UNK]",) if mpnet else ("[UNK]", "[CLS]", "[SEP]")
    missing = " and no ".join(token for token in wanted if token not in vocabulary)
    message = f"{path} has no {missing} among its {len(vocabulary)} lines; give a BERT vocabulary."
    require(not missing, message, BadCheckpoint)
    normalizer = BertNormalizer(handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase)
    return (families.mpnet if mpnet else families.bert)(vocabulary, normalizer)


def _load_byte_level(folder: Path, *, add_prefix_space: bool) -> tokenizers.Tokenizer:
    vocabulary = read_object(folder / "vocab.json")
    lines = _read_text(folder / "merges.txt").split("\n")
    merges: list[tuple[str, str]] = []
    for line in (line.rstrip("\r") for line in lines):
        if line.strip() and not line.startswith("#version"):
            left, space, right = line.partition(" ")
            if not space or " " in right:
                wrong = f"{folder / 'merges.txt'} has the line {line!r}"
                raise BadCheckpoint(f"{wrong}; each line must hold two tokens and one space.")
            merges.append((left, right))
    wrong = f"vocab.json and merges.txt in {folder} do not fit together ({{}})"
    with explained(BadCheckpoint, f"{wrong}. Copy both from the same source."):
        return families.roberta(vocabulary, merges, add_prefix_space=add_prefix_space)


def _read_text(path: Path) -> str:
    text = read_text(path, BadCheckpoint)
    require(bool(text.strip()), f"{path} is empty. Copy the file again from its source.", BadCheckpoint)
    return text
