"""A hostile tokenizer.json is one sentence: no panic, no abort, no hang, no memory."""

import base64
import json
import struct
import time
from pathlib import Path

import pytest

from clearhead.errors import BadCheckpoint, ClearheadError
from clearhead.io import PACKAGE
from clearhead.text import Tokenizer, safety, train_tokenizer
from clearhead.text.train import KINDS

TEXTS = ["a", "a b", "a" * 30 + "b", "", "é 🙂 ﷺ", "a" * 5000, "hello world " * 500]
WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a"]
MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {token: i for i, token in enumerate(WORDPIECES)},
}
BPE = {"type": "BPE", "vocab": {"a": 0, "aa": 1, "aaa": 2}, "merges": [["a", "a"], ["aa", "a"]]}


def charsmap(size: int, body: bytes = b"") -> dict:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(struct.pack("<I", size) + body).decode()}


def replace(pattern: dict, content: str) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": content}


def template(**changes) -> dict:
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    special = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special} | changes


def sequence(name: str, parts: list) -> dict:
    return {"type": "Sequence", name: parts}


def nested(depth: int) -> dict:
    part = {"type": "Lowercase"}
    for _ in range(depth):
        part = sequence("normalizers", [part])
    return part


HOSTILE = {
    "a table of 4 GB in 8 bytes": {"normalizer": charsmap(2**32 - 4, b"abcd")},
    "a table that points outside": {"normalizer": charsmap(8, b"abcdefgh")},
    "no table": {"normalizer": charsmap(0)},
    "a table of long texts": {"normalizer": charsmap(8, b"abcdefgh" + b"a" * 1000)},
    "a table that is no text": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": [1]}},
    "replacements that grow": {"normalizer": sequence("normalizers", [replace({"String": "a"}, "a" * 1000)] * 4)},
    "a replacement of nothing": {"normalizer": replace({"Regex": ""}, "xyz")},
    "a pattern for ever": {"normalizer": replace({"Regex": "(a+)+$"}, "x")},
    "a split for ever": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated"}},
    "two patterns": {"normalizer": replace({"Regex": "(a+)+$", "String": "a"}, "x")},
    "a long prefix": {"normalizer": {"type": "Prepend", "prepend": "a" * 10**6}},
    "a long continuation": {"model": MODEL | {"continuing_subword_prefix": "#" * 10**5}},
    "words without end": {"model": MODEL | {"max_input_chars_per_word": 10**18}},
    "a text many times": {"post_processor": template(single=[{"Sequence": {"id": "A", "type_id": 0}}] * 10**4)},
    "many tokens round it": {
        "post_processor": template(
            special_tokens={"[CLS]": {"id": "[CLS]", "ids": [2] * 10**4, "tokens": ["a"] * 10**4}}
        )
    },
    "more ids than tokens": {
        "post_processor": template(special_tokens={"[CLS]": {"id": "[CLS]", "ids": [2, 3], "tokens": ["[CLS]"]}})
    },
    "a token without an id": {"post_processor": template(special_tokens={})},
    "an id without a token": {
        "post_processor": template(special_tokens={"[CLS]": {"id": "[CLS]", "ids": [99], "tokens": ["[CLS]"]}})
    },
    "no place for a text": {"post_processor": template(single=[])},
    "a text in two places": {
        "post_processor": template(pair=[{"Sequence": {"id": "A", "type_id": i}} for i in (0, 1)])
    },
    "a part of length 0": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "parts within parts": {"normalizer": nested(100)},
    "parts without end": {"normalizer": sequence("normalizers", [{"type": "NFKD"}] * 10**5)},
    "an unknown part": {"normalizer": {"type": "Own"}},
    "no part": {"normalizer": 3},
    "pieces shorter than their prefix": {"model": BPE | {"continuing_subword_prefix": "abcdef"}},
    "a prefix in the middle of a letter": {
        "model": BPE | {"continuing_subword_prefix": "é", "end_of_word_suffix": "éé"}
    },
    "no unknown token": {"model": {"type": "Unigram", "unk_id": None, "vocab": [["<unk>", 0.0], ["b", -1.0]]}},
    "an unknown token that is none": {"model": MODEL | {"unk_token": "[NONE]"}},
    "no model": {"model": None},
}


def write(folder: Path, changes: dict) -> Path:
    path = folder / "tokenizer.json"
    parts = {"pre_tokenizer": {"type": "BertPreTokenizer"}, "model": MODEL, "added_tokens": []}
    path.write_text(json.dumps({"version": "1.0", **parts, **changes}))
    return path


def use(path: Path) -> None:
    tokenizer = Tokenizer.from_file(path)
    for text in TEXTS:
        tokenizer.decode(tokenizer.encode(text).ids)
        tokenizer.encode(text, text)


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_one_sentence_at_once(tmp_path, changes):
    began = time.perf_counter()
    with pytest.raises(BadCheckpoint) as refused:
        use(write(tmp_path, changes))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600
    assert time.perf_counter() - began < 10


HARMLESS = {
    "a token twice": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0], ["", -1.0], ["a", -2.0]]}},
    "padding without end": {
        "padding": {
            "strategy": {"Fixed": 2**40},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        }
    },
    "a quick pattern": {"normalizer": replace({"Regex": r"\s+"}, " ")},
}


@pytest.mark.parametrize("changes", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_read(tmp_path, changes):
    use(write(tmp_path, changes))


def test_a_key_twice(tmp_path):
    path = write(tmp_path, {})
    path.write_text(path.read_text().replace('"model":', '"model": {"type": "BPE"}, "model":'))
    with pytest.raises(BadCheckpoint, match="a key stands twice"):
        use(path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_our_own_need_no_trial(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(safety, "_try", lambda *_: pytest.fail("it was tried"))
    train_tokenizer(texts=TEXTS[:5] * 9, kind=kind, vocabulary=300, min_frequency=1).save(tmp_path)
    Tokenizer.from_folder(tmp_path)


def test_other_parts_are_tried_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path, {"pre_tokenizer": {"type": "Digits", "individual_digits": True}})
    use(path)
    assert len(list((tmp_path / "cache" / "clearhead" / "tokenizers").iterdir())) == 1
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it was tried again"))
    use(path)


def test_what_fails_the_trial_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    path = write(tmp_path, {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "two"}})
    with pytest.raises(BadCheckpoint, match="was tried apart and failed"):
        use(path)


def test_the_user_may_say_yes(tmp_path, monkeypatch):
    path = write(tmp_path, {"normalizer": replace({"Regex": "b+"}, "a")})
    with pytest.raises(ClearheadError, match=r"pattern 'b\+', which no known family uses; .* set CLEARHEAD_TRUST_TOK"):
        use(path)
    monkeypatch.setenv("CLEARHEAD_TRUST_TOKENIZERS", "1")
    assert Tokenizer.from_file(path).pieces("bb").tokens == ["a"]


def test_what_lies_in_the_package_is_ours(monkeypatch):
    monkeypatch.setattr("clearhead.text.files.check_tokenizer", lambda *_: pytest.fail("it was checked"))
    for path in PACKAGE.glob("builtin/*/tokenizer.json"):
        Tokenizer.from_file(path)
