"""Tokenizers from SentencePiece's files: OPUS-MT's source.spm with vocab.json, DeBERTa's spm.model."""

import json
import struct
from pathlib import Path

import pytest
import transformers

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


def write_deberta(folder: Path, specials=("[PAD]", "[CLS]", "[SEP]", "[UNK]")) -> Path:
    kinds = {"[UNK]": 2}
    control = [field(1, field(1, name.encode()) + field(2, 0.0) + field(3, kinds.get(name, 3))) for name in specials]
    written = [field(1, field(1, piece.encode()) + field(2, score)) for piece, score in PIECES.items()]
    (folder / "spm.model").write_bytes(b"".join(control + written) + field(3, field(1, b"identity")))
    return folder


def test_deberta_counts_as_its_file_does_and_puts_the_mask_last(tmp_path):
    tokenizer = Tokenizer.from_folder(write_deberta(tmp_path))
    ids = {piece: 4 + i for i, piece in enumerate(PIECES)}
    found = tokenizer.encode("there  the", "three [MASK]")
    assert found.tokens[:4] == ["[CLS]", "▁there", "▁the", "[SEP]"]
    assert found.ids[:4] == [1, ids["▁there"], ids["▁the"], 2]
    assert found.ids[-2:] == [13, 2]
    assert found.segments == [0] * 4 + [1] * (len(found) - 4)
    assert tokenizer.mask_id == tokenizer.vocabulary - 1 == 13
    assert tokenizer.encode("Q").ids == [1, ids["▁"], 3, 2]
    assert tokenizer.special == {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.from_folder(tmp_path).encode("THE").ids == [1, ids["▁the"], 2]
    reference = transformers.DebertaV2Tokenizer(
        vocab=[*[(name, 0.0) for name in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")], *PIECES.items()], unk_id=3
    )
    for text in ("there the three", "re [MASK] there", "Q there"):
        assert tokenizer.encode(text).ids == reference(text)["input_ids"]


def test_what_is_no_file_of_deberta_is_refused(tmp_path):
    with pytest.raises(BadCheckpoint, match="has no \\[CLS\\] and no \\[UNK\\]; give a DeBERTa's own file"):
        Tokenizer.from_folder(write_deberta(tmp_path, ("[PAD]", "[SEP]")))
    with pytest.raises(BadCheckpoint, match="stands there twice"):
        Tokenizer.from_folder(write_deberta(tmp_path, ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[PAD]")))
    write_deberta(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"split_by_punct": true}')
    with pytest.raises(BadCheckpoint, match="split_by_punct = True is not supported"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "spm.model").write_bytes(b"nothing")
    with pytest.raises(BadCheckpoint, match="is no SentencePiece model"):
        Tokenizer.from_folder(tmp_path)
