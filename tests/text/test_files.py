import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import BadCheckpoint, NotFound
from clearhead.text import Tokenizer

from .strategies import texts

SPECIALS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.fixture(scope="session")
def again(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("again")
    tokenizer.save(folder, max_length=128)
    return Tokenizer.from_folder(folder)


@given(texts)
def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, again: Tokenizer, text: str) -> None:
    assert again.encode(text, text) == tokenizer.encode(text, text)
    assert again.max_length == 128
    assert tokenizer.max_length is None


def test_folder_with_a_vocabulary_only(tmp_path: Path, vocab_file: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(vocab_file.read_bytes().replace(b"\n", b"\r\n"))
    assert Tokenizer.from_folder(tmp_path).encode("BE").tokens == ["[CLS]", "be", "[SEP]"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 1e30}')
    cased = Tokenizer.from_folder(tmp_path)
    assert cased.encode("BE be").tokens == ["[CLS]", "[UNK]", "be", "[SEP]"]
    assert cased.max_length is None
    assert not cased.lowercase


def test_folder_with_byte_level_files(tmp_path: Path, roberta: Tokenizer) -> None:
    model = json.loads(roberta._library.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), "utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + merges, "utf-8")
    loaded = Tokenizer.from_folder(tmp_path)
    assert loaded.encode("Be alert <mask>!", "é") == roberta.encode("Be alert <mask>!", "é")
    (tmp_path / "merges.txt").write_text(merges + "qqq zzz\n", "utf-8")
    with pytest.raises(BadCheckpoint, match=r"vocab.json and merges.txt in .* do not fit together"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "merges.txt").write_text(merges + "three small words\n", "utf-8")
    with pytest.raises(BadCheckpoint, match="has the line 'three small words'"):
        Tokenizer.from_folder(tmp_path)


def test_stored_padding_and_truncation_are_switched_off(tmp_path: Path, bert: Tokenizer) -> None:
    stored = json.loads(bert._library.to_str())
    stored["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    stored["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(stored))
    assert Tokenizer.from_file(path).encode("a b c d").tokens == ["[CLS]", "a", "b", "c", "d", "[SEP]"]


def test_settings_of_a_folder_are_kept(tmp_path: Path, bert: Tokenizer) -> None:
    bert.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": "ElectraTokenizer", "own": 1}))
    Tokenizer.from_folder(tmp_path).save(tmp_path / "b", max_length=64)
    written = json.loads((tmp_path / "b" / "tokenizer_config.json").read_text())
    assert (written["tokenizer_class"], written["own"], written["model_max_length"]) == ("ElectraTokenizer", 1, 64)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(
        NotFound, match=r"holds no tokenizer: tokenizer.json, vocab.txt, spm.model, or vocab.json with merges.txt"
    ):
        Tokenizer.from_folder(tmp_path)
    with pytest.raises(NotFound, match="There is no folder"):
        Tokenizer.from_folder(tmp_path / "absent")
    with pytest.raises(NotFound, match="There is no file"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
    with pytest.raises(BadCheckpoint, match="is no plain file"):
        Tokenizer.from_file(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n \n", "is empty"),
        ((SPECIALS + "be\nalert\nbe\n").encode(), "has 'be' on line 8 and on line 6"),
        (b"be\nalert\n[CLS]\n", r"has no \[UNK\] and no \[SEP\] among its 3 lines"),
        (b"\xff\xfe\x00b", r"not UTF-8 text \(byte 0\)"),
    ],
)
def test_bad_vocabularies(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(BadCheckpoint, match=message):
        Tokenizer.from_vocab(path)


@pytest.mark.parametrize("content", ['{"version": "1.0", "mod', '{"a": 1}', "[1, 2]", '{"model": null}', "null", "7"])
def test_bad_tokenizer_files(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(BadCheckpoint, match=r"tokenizer.json is not (a tokenizer|JSON) \("):
        Tokenizer.from_file(path)


def test_a_vocabulary_without_its_unknown_token(tmp_path: Path, bert: Tokenizer) -> None:
    stored = json.loads(bert._library.to_str())
    stored["added_tokens"] = [token for token in stored["added_tokens"] if token["content"] != "[UNK]"]
    del stored["model"]["vocab"]["[UNK]"]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(stored))
    with pytest.raises(BadCheckpoint, match=r"cannot write this text .*files are incomplete"):
        Tokenizer.from_file(path).encode("zebra")
    del stored["model"]["vocab"]["a"]
    path.write_text(json.dumps(stored))
    with pytest.raises(BadCheckpoint, match="The tokenizer cannot encode"):
        Tokenizer.from_file(path)


def test_a_byte_order_mark_is_no_token(tmp_path: Path, vocab_file: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbf" + vocab_file.read_bytes())
    assert Tokenizer.from_folder(tmp_path).pad_id == 0


@pytest.mark.parametrize(("content", "message"), [("{", "is not JSON"), ("[]", "holds a list, not a JSON object")])
def test_bad_settings(tmp_path: Path, vocab_file: Path, content: str, message: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(vocab_file.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(BadCheckpoint, match=message):
        Tokenizer.from_folder(tmp_path)


@given(cut=st.integers(1, 2000))
def test_damaged_files_give_one_of_our_errors(
    bert: Tokenizer, tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    whole = bert._library.to_str()
    kept = min(cut, len(whole) - 1)
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(whole[:kept], "utf-8")
    with pytest.raises(BadCheckpoint):
        Tokenizer.from_file(path)
