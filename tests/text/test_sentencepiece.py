"""OPUS-MT's tokenizer from its own files: source.spm and vocab.json."""

import json
import struct
from pathlib import Path

import pytest

from clearhead.errors import BadCheckpoint
from clearhead.text import Tokenizer
from clearhead.text.sentencepiece import read_model

PIECES = {"▁the": -2.0, "▁": -3.0, "th": -4.0, "e": -4.5, "re": -4.0, "▁there": -3.5, "t": -6.0, "h": -6.0, "r": -6.0}
VOCABULARY = ["</s>", "<unk>", "▁there", "▁the", "re", "e", "th", "▁", "t", "h", "r", "▁dort", ">>fra<<", "<pad>"]


def field(number: int, value: bytes | int | float) -> bytes:
    """One field of a protocol buffer, as SentencePiece writes it."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    return bytes([number << 3 | 2, len(value)]) + value


def write(folder: Path, pieces: dict[str, float] = PIECES, vocabulary: list[str] = VOCABULARY) -> Path:
    control = field(1, field(1, b"</s>") + field(2, 0.0) + field(3, 3))
    unknown = field(1, field(1, b"<unk>") + field(2, 0.0) + field(3, 2))
    written = [field(1, field(1, piece.encode()) + field(2, score)) for piece, score in pieces.items()]
    (folder / "source.spm").write_bytes(control + unknown + b"".join(written) + field(3, field(1, b"identity")))
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    return folder


def test_the_best_pieces_by_the_ids_of_both_languages(tmp_path):
    tokenizer = Tokenizer.from_folder(write(tmp_path))
    assert tokenizer.encode("there the  three").tokens == ["▁there", "▁the", "▁", "th", "re", "e", "</s>"]
    assert tokenizer.encode("there the").ids == [2, 3, 0]
    assert tokenizer.encode("there").offsets[0] == (0, 5)
    assert tokenizer.encode(">>fra<< there").ids == [12, 2, 0]  # the language to translate into
    assert tokenizer.encode("dxt").ids == [7, 1, 8, 0]


def test_translations_are_cut_by_pieces_of_their_own(tmp_path):
    folder = write(tmp_path)
    assert Tokenizer.of_targets(folder).encode("there").ids == [2, 0]
    (folder / "target.spm").write_bytes(
        (write(tmp_path, {"▁": -1.0, "th": -2.0, "e": -2.0, "re": -2.0}) / "source.spm").read_bytes()
    )
    write(tmp_path)
    assert Tokenizer.from_folder(folder).encode("there").tokens == ["▁there", "</s>"]
    assert Tokenizer.of_targets(folder).encode("there").tokens == ["▁", "th", "e", "re", "</s>"]


def test_saved_and_read_again(tmp_path):
    tokenizer = Tokenizer.from_folder(write(tmp_path))
    (tmp_path / "saved").mkdir()
    tokenizer.save(tmp_path / "saved")
    again = Tokenizer.from_folder(tmp_path / "saved")
    assert again.encode(">>fra<< three the").ids == tokenizer.encode(">>fra<< three the").ids


def test_files_that_are_not_what_they_are_called(tmp_path):
    write(tmp_path)
    assert read_model(tmp_path / "source.spm") == (pytest.approx(PIECES), b"")
    for wrong in (b"", b"no model", (tmp_path / "source.spm").read_bytes()[:-3]):
        (tmp_path / "source.spm").write_bytes(wrong)
        with pytest.raises(BadCheckpoint, match=r"source\.spm is no SentencePiece model"):
            Tokenizer.from_folder(tmp_path)
    write(tmp_path, vocabulary=VOCABULARY[1:])
    with pytest.raises(BadCheckpoint, match="has no </s>"):
        Tokenizer.from_folder(tmp_path)
    write(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 2}))
    with pytest.raises(BadCheckpoint, match="do not count from 0 without a gap"):
        Tokenizer.from_folder(tmp_path)
