import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from hypothesis import assume, example, given
from hypothesis import strategies as st

from clearhead.errors import BadInput, NotFound
from clearhead.text import Encoding, Tokenizer

from .strategies import HOSTILE, any_strings, small_texts, texts


def test_import_is_quiet_and_without_torch() -> None:
    code = "import clearhead.text, sys; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_lecture_table(bert: Tokenizer) -> None:
    without = bert.encode("Be alert", "BERT will hurt").rows()
    assert without == [
        ("[CLS]", 1, 1),
        ("be", 2, 1),
        ("alert", 3, 1),
        ("[SEP]", 4, 1),
        ("bert", 5, 2),
        ("will", 6, 2),
        ("hurt", 7, 2),
        ("[SEP]", 8, 2),
    ]
    spoken = [row for row in bert.encode("Be alert!", "BERT will hurt!").rows() if row[0] != "!"]
    assert [(token, sentence) for token, _, sentence in spoken] == [(t, s) for t, _, s in without]


def test_tokens_are_joined_as_the_checkpoint_writes_them(
    bert: Tokenizer, roberta: Tokenizer, albert: Tokenizer
) -> None:
    assert bert.join(["be", "alert", "##s", "Zürich", "\ud800"]) == "be alerts Zürich \ufffd"
    assert roberta.join(["Ġthe", "Ġcat"]) == " the cat"
    assert albert.join(["▁the", "▁c", "at"]) == "the cat"
    assert [one.continuation for one in (bert, roberta, albert)] == ["##", None, None]


def test_roberta_joins_texts_by_two_separators(roberta: Tokenizer) -> None:
    encoding = roberta.encode("a", "b")
    assert encoding.tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert encoding.segments == [0] * 6
    assert encoding.parts == (range(1, 2), range(4, 5))
    assert encoding.special == [True, False, True, True, False, True]


@given(first=texts, second=texts)
def test_special_tokens_as_the_library_puts_them(
    tokenizer: Tokenizer, library: tokenizers.Tokenizer, first: str, second: str
) -> None:
    for ours, theirs in [
        (tokenizer.encode(first), library.encode(first)),
        (tokenizer.encode(first, second), library.encode(first, second)),
    ]:
        assert ours.ids == theirs.ids
        assert ours.segments == theirs.type_ids
        assert ours.words == theirs.word_ids
        assert [ours.part_of(i) for i in range(len(ours))] == theirs.sequence_ids
        assert ours.tokens == [library.id_to_token(i) for i in theirs.ids]


def check_offsets(encoding: Encoding, *sources: str) -> None:
    assert len(encoding.ids) == len(encoding.segments) == len(encoding.tokens) == len(encoding.words)
    for part, text in enumerate(sources):
        before = end_before = 0
        for position in encoding.parts[part]:
            span = encoding.offsets[position]
            assert span is not None
            start, end = span
            assert before <= start <= end <= len(text)
            assert end_before <= end
            before, end_before = start, end
            assert encoding.words[position] is not None


@given(first=any_strings, second=any_strings)
@example("\ud800", "\udfff")
def test_offsets_of_any_string_are_valid(tokenizer: Tokenizer, first: str, second: str) -> None:
    check_offsets(tokenizer.encode(first), first)
    check_offsets(tokenizer.encode(first, second), first, second)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings(tokenizer: Tokenizer, text: str) -> None:
    check_offsets(tokenizer.encode(text), text)
    tokenizer.decode(tokenizer.encode(text).ids)
    tokenizer.words_batch([[text, "", text]])


def test_half_a_surrogate_counts_as_one_character(bert: Tokenizer) -> None:
    assert bert.pieces("\ud800 be").offsets[-1] == (2, 4)


def test_empty_text_still_has_its_special_tokens(bert: Tokenizer) -> None:
    assert bert.encode("").tokens == ["[CLS]", "[SEP]"]
    assert bert.encode("", "").parts == (range(1, 1), range(2, 2))


@given(st.lists(st.one_of(small_texts, st.tuples(small_texts, small_texts)), max_size=5))
def test_batch_equals_one_by_one(tokenizer: Tokenizer, inputs: list[str | tuple[str, str]]) -> None:
    single = [tokenizer.encode(item) if isinstance(item, str) else tokenizer.encode(*item) for item in inputs]
    assert tokenizer.encode_batch(inputs) == single


@given(st.lists(texts, max_size=4))
def test_ids_alone_are_the_same_ids(tokenizer: Tokenizer, inputs: list[str]) -> None:
    assert tokenizer.ids_batch(inputs) == [tokenizer.pieces(text).ids for text in inputs]


@given(st.text())
def test_byte_level_decodes_to_the_same_text(roberta: Tokenizer, text: str) -> None:
    assume(not any(token in text for token in roberta.special.values()))  # these are read as what they are
    assert roberta.decode(roberta.encode(text).ids) == text


def test_decode(bert: Tokenizer) -> None:
    ids = bert.encode("Be alert!", "Hurt [MASK].").ids
    assert bert.decode(ids) == "be alert! hurt."
    assert bert.decode(ids, special=True) == "[CLS] be alert! [SEP] hurt [MASK]. [SEP]"
    with pytest.raises(BadInput, match="Id 999 is not among the 33 tokens"):
        bert.decode([5, 999])
    with pytest.raises(BadInput, match="Id -1"):
        bert.decode([-1])


def test_special_ids(bert: Tokenizer, roberta: Tokenizer, albert: Tokenizer) -> None:
    def ids(t: Tokenizer) -> list[int]:
        return [t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id]

    assert ids(bert) == [0, 1, 2, 3, 4]
    assert ids(roberta) == [1, 3, 0, 2, 4]
    assert ids(albert) == [0, 1, 2, 3, 4]
    assert roberta.special["mask"] == "<mask>"


def test_missing_special_token() -> None:
    gpt = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<|endoftext|>": 1}, unk_token="a")))
    assert gpt.sep_id == 1
    assert gpt.encode("a").tokens == ["a"]
    with pytest.raises(NotFound, match=r"no mask token \(\[MASK\], <mask>\); it has <\|endoftext\|>"):
        _ = gpt.mask_id


def test_tokens_and_ids(bert: Tokenizer) -> None:
    assert bert.vocabulary == 33
    assert bert.token_to_id("bert") == 7
    assert bert.id_to_token(7) == "bert"
    assert bert.token_to_id("nothing") is None
    assert bert.token_to_id("\ud800") is None
    assert bert.id_to_token(-1) is None
    assert bert.id_to_token(2**40) is None


def test_text_must_be_a_string(bert: Tokenizer) -> None:
    with pytest.raises(BadInput, match="A text must be a string, not int"):
        bert.pieces(3)  # type: ignore[arg-type]


def test_batch_of_something_else(bert: Tokenizer) -> None:
    with pytest.raises(BadInput, match="A batch is a list of texts"):
        bert.encode_batch("be alert")
    with pytest.raises(BadInput, match=r"a text or a pair of texts, not \('a', 'b', 'c'\)"):
        bert.encode_batch([("a", "b", "c")])  # type: ignore[list-item]
    with pytest.raises(BadInput, match="a text or a pair of texts, not 3"):
        bert.encode_batch([3])  # type: ignore[list-item]
    assert bert.encode_batch([]) == []


def test_pickle(tokenizer: Tokenizer) -> None:
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode("Be alert!", "é") == tokenizer.encode("Be alert!", "é")


def test_a_model_keeps_its_files_when_a_tokenizer_is_saved_beside_it(bert: Tokenizer, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("the model's")
    bert.save(tmp_path)
    with pytest.raises(BadInput, match=r"tokenizer.json is there already"):
        bert.save(tmp_path)
    bert.save(tmp_path, overwrite=True)
    assert (tmp_path / "model.safetensors").read_text() == (tmp_path / "config.json").read_text() == "the model's"
    assert Tokenizer.from_folder(tmp_path).encode("Be alert!") == bert.encode("Be alert!")
