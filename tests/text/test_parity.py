"""Our tokenizers against transformers' own, built from the same vocabulary."""

import json
from pathlib import Path

import pytest
import transformers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken

from clearhead.text import Encoding, Tokenizer

from .strategies import texts

# transformers takes an empty second text for none at all
second_texts = texts.filter(bool)

Theirs = transformers.PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def their_bert(vocab_file: Path) -> Theirs:
    return transformers.BertTokenizer(vocab=str(vocab_file), do_lower_case=True)


@pytest.fixture(scope="session")
def their_roberta(roberta: Tokenizer) -> Theirs:
    model = json.loads(roberta._library.to_str())["model"]
    mask = AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    merges = [(left, right) for left, right in model["merges"]]
    return transformers.RobertaTokenizer(vocab=model["vocab"], merges=merges, mask_token=mask)


@pytest.fixture(scope="session")
def their_albert(albert: Tokenizer) -> Theirs:
    pieces = [tuple(item) for item in json.loads(albert._library.to_str())["model"]["vocab"]]
    return transformers.AlbertTokenizer(vocab=pieces, unk_token="<unk>", pad_token="<pad>")


@pytest.fixture(scope="session")
def their_mpnet(mpnet: Tokenizer) -> Theirs:
    return transformers.MPNetTokenizer(vocab=json.loads(mpnet._library.to_str())["model"]["vocab"])


@pytest.fixture(scope="session")
def their_deberta(deberta: Tokenizer) -> Theirs:
    pieces = [tuple(item) for item in json.loads(deberta._library.to_str())["model"]["vocab"]]
    return transformers.DebertaV2Tokenizer(vocab=pieces)


def assert_same(ours: Encoding, theirs: transformers.BatchEncoding, *, offsets: bool = True) -> None:
    assert ours.ids == theirs["input_ids"]
    assert ours.segments == theirs["token_type_ids"]
    if offsets:
        assert [span or (0, 0) for span in ours.offsets] == theirs["offset_mapping"]


def run(theirs: Theirs, *texts: str) -> transformers.BatchEncoding:
    return theirs(*texts, return_offsets_mapping=True, return_token_type_ids=True)


@given(first=texts, second=second_texts)
@example("be  [MASK] alert", "[MASK][SEP] ")
def test_bert(bert: Tokenizer, their_bert: Theirs, first: str, second: str) -> None:
    assert_same(bert.encode(first), run(their_bert, first))
    assert_same(bert.encode(first, second), run(their_bert, first, second))


@given(first=texts, second=second_texts)
@example("be  <mask> alert", "<mask><mask> ")
def test_roberta(roberta: Tokenizer, their_roberta: Theirs, first: str, second: str) -> None:
    assert_same(roberta.encode(first), run(their_roberta, first))
    assert_same(roberta.encode(first, second), run(their_roberta, first, second))


# without what our normaliser does otherwise on purpose: white space, and two quotation marks for one
plain = st.lists(st.text("abelrtTHé!.?😀你½", min_size=1, max_size=8), max_size=6).map(" ".join)


@given(first=plain, second=plain.filter(bool))
def test_albert(albert: Tokenizer, their_albert: Theirs, first: str, second: str) -> None:
    assert_same(albert.encode(first), run(their_albert, first), offsets=False)
    assert_same(albert.encode(first, second), run(their_albert, first, second), offsets=False)


@given(first=texts, second=second_texts)
@example("be  <mask> alert", "<mask></s> ")
def test_mpnet(mpnet: Tokenizer, their_mpnet: Theirs, first: str, second: str) -> None:
    assert_same(mpnet.encode(first), run(their_mpnet, first))
    assert_same(mpnet.encode(first, second), run(their_mpnet, first, second))


# without compatibility forms, which theirs keeps
@given(first=plain.filter(lambda text: "½" not in text), second=plain.filter(lambda text: text and "½" not in text))
def test_deberta(deberta: Tokenizer, their_deberta: Theirs, first: str, second: str) -> None:
    assert_same(deberta.encode(first), run(their_deberta, first), offsets=False)
    assert_same(deberta.encode(first, second), run(their_deberta, first, second), offsets=False)


@given(words=st.lists(st.text("abelrt!é你'", min_size=1, max_size=8), min_size=1, max_size=8))
def test_words(bert: Tokenizer, their_bert: Theirs, words: list[str]) -> None:
    ours = bert.template.wrap(bert.words_batch([words])[0])
    theirs = their_bert(words, is_split_into_words=True)
    assert ours.ids == theirs["input_ids"]
    assert ours.words == theirs.word_ids()


@pytest.fixture(scope="session")
def reloaded(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    folder = tmp_path_factory.mktemp("saved")
    tokenizer.save(folder, max_length=512)
    found: Theirs = transformers.AutoTokenizer.from_pretrained(folder)
    return found


@given(first=texts, second=second_texts)
def test_transformers_reads_what_we_save(tokenizer: Tokenizer, reloaded: Theirs, first: str, second: str) -> None:
    assert_same(tokenizer.encode(first), run(reloaded, first), offsets=False)
    assert_same(tokenizer.encode(first, second), run(reloaded, first, second), offsets=False)
    assert reloaded.model_max_length == 512
    assert reloaded.mask_token_id == tokenizer.mask_id
    assert reloaded.pad_token_id == tokenizer.pad_id


def test_mpnet_vocabulary_with_the_words_of_bert(mpnet: Tokenizer, tmp_path: Path) -> None:
    """The published vocab.txt has [CLS], [SEP], [PAD] and [MASK] as well, which mean nothing there."""
    vocabulary = json.loads(mpnet._library.to_str())["model"]["vocab"]
    lines = [*sorted(vocabulary, key=vocabulary.__getitem__), "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    ours = Tokenizer.from_folder(tmp_path)
    assert ours.encode("be alert", "will hurt").ids == mpnet.encode("be alert", "will hurt").ids
    assert ours.special == {"pad": "<pad>", "unk": "[UNK]", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    assert ours.encode("be <mask>").ids[-2] == ours.mask_id
    ours.save(tmp_path / "saved")
    assert Tokenizer.from_folder(tmp_path / "saved").special == ours.special
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(again).__name__.startswith("MPNetTokenizer")
    assert again("be alert", "will <mask>")["input_ids"] == ours.encode("be alert", "will <mask>").ids


@pytest.mark.parametrize("lowercase", [True, False])
def test_bert_tokenizer_reads_what_we_save(vocab_file: Path, tmp_path: Path, lowercase: bool) -> None:
    ours = Tokenizer.from_vocab(vocab_file, lowercase=lowercase, split_chinese=lowercase)
    ours.save(tmp_path)
    for reader in (transformers.BertTokenizer, transformers.AutoTokenizer, transformers.PreTrainedTokenizerFast):
        theirs = reader.from_pretrained(tmp_path)
        for text in ("Be Alert! 你好 CAFÉ café é", "a [MASK] b"):
            assert theirs(text)["input_ids"] == ours.encode(text).ids
