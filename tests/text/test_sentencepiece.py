"""Tokenizers from SentencePiece's files: OPUS-MT's, M2M-100's with vocab.json, mBART's, DeBERTa's spm.model."""

import json
import struct
from pathlib import Path

import pytest
import transformers

from clearhead.errors import BadCheckpoint, NotFound
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
    whole = (tmp_path / "spm.model").read_bytes()
    (tmp_path / "spm.model").write_bytes(whole + field(3, field(2, b"\xff\xff\xff\x7f")))
    with pytest.raises(BadCheckpoint, match="the normaliser's table is damaged"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"nothing")
    with pytest.raises(BadCheckpoint, match="is no SentencePiece model"):
        Tokenizer.from_folder(tmp_path)


# as SentencePiece itself numbers merges: the score is the place at which a pair was joined
JOINED = {"▁t": -0.0, "he": -1.0, "▁the": -2.0, "re": -3.0, "▁": -4.0, "t": -5.0, "h": -6.0, "e": -7.0, "r": -8.0}


def write_m2m100(folder: Path, *, bpe: bool = True, lost: str = "") -> Path:
    pieces = JOINED if bpe else PIECES
    written = [field(1, field(1, piece.encode()) + field(2, score)) for piece, score in pieces.items()]
    trainer = field(2, field(3, 2 if bpe else 1))
    (folder / "sentencepiece.bpe.model").write_bytes(b"".join(written) + trainer + field(3, field(1, b"identity")))
    kept = [piece for piece in reversed(pieces) if piece != lost]
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *kept])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


def test_m2m100_joins_pieces_and_numbers_its_languages_after_them(tmp_path):
    tokenizer = Tokenizer.from_folder(write_m2m100(tmp_path))
    assert tokenizer.pieces("there  the three").tokens == ["▁the", "re", "▁the", "▁t", "h", "re", "e"]
    assert tokenizer.pieces("thexx ").tokens == ["▁the", "<unk>"]
    languages = tokenizer.languages
    assert len(languages.ids) == 100
    # the ids that M2M100Tokenizer gives: those of the vocabulary, then the languages in their order
    assert (languages.ids["af"], languages.ids["en"], languages.ids["zu"]) == (13, 13 + 18, 13 + 99)
    assert (languages.place, languages.source) == ("before", "en")
    assert languages.around(2, "de") == ((13 + 16,), (2,))
    assert tokenizer.encode("the").tokens == ["__en__", "▁the", "</s>"]
    assert tokenizer.decode(tokenizer.encode("there the").ids) == "there the"
    (tmp_path / "saved").mkdir()
    tokenizer.save(tmp_path / "saved")
    again = Tokenizer.from_folder(tmp_path / "saved")
    assert (again.encode("there").ids, again.languages.ids) == (tokenizer.encode("there").ids, languages.ids)


def test_m2m100_by_unigram_pieces_and_of_other_languages(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"language_codes": "wmt21"}')
    tokenizer = Tokenizer.from_folder(write_m2m100(tmp_path, bpe=False))
    assert tokenizer.pieces("there the").tokens == ["▁there", "▁the"]
    assert list(tokenizer.languages.ids) == ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]
    (tmp_path / "tokenizer_config.json").write_text('{"language_codes": "martian"}')
    with pytest.raises(BadCheckpoint, match="language_codes = 'martian' is not known; there are m2m100, wmt21"):
        Tokenizer.from_folder(tmp_path)


def test_a_piece_without_an_id_is_told_and_cut_further(tmp_path, caplog):
    tokenizer = Tokenizer.from_folder(write_m2m100(tmp_path, lost="▁the"))
    assert "has 1 pieces that vocab.json has no id for, such as '▁the'" in caplog.text
    assert tokenizer.pieces("the").tokens == ["▁t", "he"]


@pytest.mark.parametrize(
    ("kind", "count", "around"), [("MBartTokenizer", 25, "after"), ("MBart50Tokenizer", 52, "before")]
)
def test_mbart_numbers_its_pieces_as_fairseq_does(tmp_path, kind, count, around):
    (write(tmp_path) / "source.spm").rename(tmp_path / "sentencepiece.bpe.model")
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "src_lang": "de_DE"}))
    tokenizer = Tokenizer.from_folder(tmp_path)
    first = 4 + len(PIECES)
    languages = tokenizer.languages
    assert (len(languages.ids), languages.place, languages.source) == (count, around, "de_DE")
    assert (languages.ids["ar_AR"], tokenizer.mask_id) == (first, first + count)
    assert tokenizer.pieces("there the").ids == [4 + list(PIECES).index(piece) for piece in ("▁there", "▁the")]
    german = first + 2
    assert languages.around(2) == (((german,), (2,)) if around == "before" else ((), (2, german)))


def test_mbart_may_name_its_tokenizer_in_config_json(tmp_path):
    (write(tmp_path) / "source.spm").rename(tmp_path / "sentencepiece.bpe.model")
    (tmp_path / "vocab.json").unlink()
    for config, languages in (({"tokenizer_class": "MBart50Tokenizer"}, 52), ({"model_type": "mbart"}, 25)):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert len(Tokenizer.from_folder(tmp_path).languages.ids) == languages
    (tmp_path / "config.json").unlink()
    with pytest.raises(NotFound, match="holds no tokenizer"):
        Tokenizer.from_folder(tmp_path)
