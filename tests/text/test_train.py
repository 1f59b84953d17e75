import gzip
import json
import lzma
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clearhead.errors import BadInput, NotFound
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.text.encoding import Special
from clearhead.text.train import learn_unigrams, learn_wordpieces, reproducible

from .conftest import SENTENCES

SIZES = {"wordpiece": 150, "bpe": 330, "unigram": 110, "word": 60, "gpt2": 330, "t5": 210, "xlnet": 112}


@pytest.mark.parametrize("kind", SIZES)
def test_the_same_text_gives_the_same_vocabulary_in_another_process(kind: str) -> None:
    code = (
        "import sys, json; from clearhead.text import train_tokenizer; "
        "texts, kind, size = json.loads(sys.stdin.read()); "
        "tokenizer = train_tokenizer(texts=texts, kind=kind, vocabulary=size); "
        "sys.stdout.buffer.write(tokenizer._library.to_str().encode())"
    )
    request = json.dumps([SENTENCES * 2, kind, SIZES[kind]])
    done = subprocess.run([sys.executable, "-c", code], input=request.encode(), capture_output=True, check=True)
    here = train_tokenizer(texts=SENTENCES * 2, kind=kind, vocabulary=SIZES[kind])
    assert here._library.to_str() == done.stdout.decode()
    assert done.stderr == b""
    assert here.vocabulary <= SIZES[kind]


def test_special_tokens_have_the_ids_of_their_family() -> None:
    first = {
        kind: [train_tokenizer(texts=SENTENCES * 2, kind=kind, vocabulary=size).id_to_token(i) for i in range(5)]
        for kind, size in SIZES.items()
    }
    assert first == {
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "bpe": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "unigram": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
        "word": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "gpt2": ["<|endoftext|>", "!", '"', "#", "$"],
        "t5": ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>"],
        "xlnet": ["<unk>", "<s>", "</s>", "<cls>", "<sep>"],
    }


def test_each_family_puts_its_own_tokens_round_a_text() -> None:
    found = {}
    for kind in ("gpt2", "t5", "xlnet"):
        tokenizer = train_tokenizer(texts=SENTENCES * 2, kind=kind, vocabulary=SIZES[kind])
        special = set(tokenizer.template.pair) | set(tokenizer.template.single)
        names = {item.token for item in special if isinstance(item, Special)}
        found[kind] = [
            " ".join(token if token in names else "·" for token in encoding.tokens).replace("· · ", "· ")
            for encoding in (tokenizer.encode("a"), tokenizer.encode("a", "a"))
        ]
        assert tokenizer.decode(tokenizer.encode("bert and bert").ids).strip() == "bert and bert"
    assert found["gpt2"] == ["·", "· ·"]
    assert found["t5"] == ["· </s>", "· </s> · </s>"]
    assert found["xlnet"] == ["· <sep> <cls>", "· <sep> · <sep> <cls>"]


def test_whole_words_are_the_most_frequent_and_others_are_unknown(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(texts=["Die Bank, die Bank!", "eine Bank"], kind="word", vocabulary=8, min_frequency=1)
    assert vocabulary(tokenizer)[5:] == ["bank", "die", "!"]
    encoding = tokenizer.encode("die BANK, eine!")
    assert encoding.tokens == ["[CLS]", "die", "bank", "[UNK]", "[UNK]", "!", "[SEP]"]
    assert encoding.offsets[2] == (4, 8)
    assert tokenizer.decode(tokenizer.pieces("die Bank!").ids) == "die bank!"
    tokenizer.save(tmp_path)
    assert Tokenizer.from_folder(tmp_path).digest == tokenizer.digest
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"
    with pytest.raises(BadInput, match="No word of the corpus occurs 9 times; give more text, or lower min_freq"):
        train_tokenizer(texts=["a b"], kind="word", min_frequency=9)
    with pytest.raises(BadInput, match="give more text, or train a tokenizer with a lower min_frequency"):
        train_tokenizer(texts=["a b"], kind="t5", min_frequency=9)


def test_wordpieces_are_the_most_frequent_merges() -> None:
    words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    pieces = learn_wordpieces(words, size=11, min_frequency=1)
    assert pieces[:7] == ["b", "h", "p", "##g", "##n", "##s", "##u"]
    assert pieces[7:] == ["##ug", "##un", "hug", "pun"]


def test_a_word_seen_often_becomes_one_piece() -> None:
    trained = train_tokenizer(texts=["Transformers attend to transformers"] * 50, vocabulary=100)
    assert trained.encode("TRANSFORMERS").tokens == ["[CLS]", "transformers", "[SEP]"]
    cased = train_tokenizer(texts=["Transformers attend"] * 50, vocabulary=100, lowercase=False)
    assert cased.encode("Transformers").tokens == ["[CLS]", "Transformers", "[SEP]"]


def test_min_frequency_and_alphabet() -> None:
    texts = ["common common common rare", "ж"]
    tokens = {train_tokenizer(texts=texts, min_frequency=2).id_to_token(i) for i in range(200)}
    assert "common" in tokens
    assert "rare" not in tokens
    assert "ж" in tokens
    few = train_tokenizer(texts=texts, min_frequency=2, limit_alphabet=4)
    assert few.token_to_id("ж") is None
    assert few.token_to_id("common") is not None


def write_files(folder: Path) -> list[Path]:
    lines = "\n".join(SENTENCES)
    (folder / "a.txt").write_text(lines, "utf-8")
    with gzip.open(folder / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(lines)
    records = "".join(json.dumps({"text": sentence}) + "\n\n" for sentence in SENTENCES)
    (folder / "c.jsonl").write_text(records, "utf-8")
    with lzma.open(folder / "d.jsonl.xz", "wt", encoding="utf-8") as file:
        file.write(records)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("kind", SIZES)
def test_files_of_every_sort_give_what_their_texts_give(tmp_path: Path, kind: str) -> None:
    files = write_files(tmp_path)
    seen: list[int] = []
    from_files = train_tokenizer(files, kind=kind, vocabulary=SIZES[kind], progress=seen.append)
    assert sum(seen) == sum(path.stat().st_size for path in files)
    assert min(seen) >= 0
    from_texts = train_tokenizer(texts=SENTENCES * 4, kind=kind, vocabulary=SIZES[kind])
    assert Counter(vocabulary(from_files)) == Counter(vocabulary(from_texts))


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    return [str(tokenizer.id_to_token(i)) for i in range(tokenizer.vocabulary)]


def test_progress_over_texts_counts_bytes() -> None:
    seen: list[int] = []
    train_tokenizer(texts=iter(["é b", "\ud800 c"]), min_frequency=1, progress=seen.append)
    assert seen == [4 + 5]


@pytest.mark.parametrize(("kind", "specials"), [("unigram", 5), ("t5", 103), ("xlnet", 7), ("word", 5)])
def test_the_least_vocabulary_is_named_and_is_enough(kind: str, specials: int) -> None:
    texts = ["abba", "cab"] * 3
    least = specials + (1 if kind == "word" else 5)  # one word; or a, b, c, the beginning of a word, and one more
    for vocabulary in (least - 1, 3, -1):
        with pytest.raises(BadInput, match=rf"vocabulary of {vocabulary} .*is too small: {least} is the least"):
            train_tokenizer(texts=texts, kind=kind, vocabulary=vocabulary)
    assert train_tokenizer(texts=texts, kind=kind, vocabulary=least).vocabulary in (least - 1, least)


def test_bad_requests() -> None:
    with pytest.raises(BadInput, match="no tokenizer of kind 'wordpeice'; choose wordpiece, bpe, unigram"):
        train_tokenizer(texts=SENTENCES, kind="wordpeice")
    with pytest.raises(BadInput, match="Give either files or texts"):
        train_tokenizer()
    with pytest.raises(BadInput, match="Give either files or texts"):
        train_tokenizer("a.txt", texts=["a"])
    with pytest.raises(BadInput, match=r"vocabulary of 20 .*too small"):
        train_tokenizer(texts=SENTENCES, vocabulary=25)
    with pytest.raises(BadInput, match=r"bpe vocabulary of 100 is too small: 261 is the least"):
        train_tokenizer(texts=SENTENCES, kind="bpe", vocabulary=100)
    with pytest.raises(BadInput, match="No unigram vocabulary of 1 pieces"):
        learn_unigrams({"word": 5}, size=1)
    with pytest.raises(BadInput, match="No word of the corpus occurs 50 times"):
        train_tokenizer(texts=SENTENCES, kind="unigram", min_frequency=50)
    with pytest.raises(BadInput, match="min_frequency is 0"):
        train_tokenizer(texts=SENTENCES, min_frequency=0)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_empty_corpus(kind: str, texts: list[str]) -> None:
    with pytest.raises(BadInput, match="The corpus holds no words"):
        train_tokenizer(texts=texts, kind=kind)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_bad_files(tmp_path: Path, kind: str) -> None:
    with pytest.raises(NotFound, match=r"There is no file .*absent.txt"):
        train_tokenizer(tmp_path / "absent.txt", kind=kind)
    cases = {
        "latin.txt": (b"caf\xe9", "is not UTF-8 text"),
        "broken.gz": (b"not gzip", "cannot be read"),
        "broken.xz": (b"not xz", "cannot be read"),
        "half.txt.gz": (gzip.compress(b"some text " * 1000)[:30], "cannot be read"),
        "line.jsonl": (b'{"text": "a"}\n{"text": ', "line 2 is not JSON"),
        "field.jsonl": (b'{"txt": "a"}\n', 'line 1 has no string under "text"'),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=message):
            train_tokenizer([tmp_path / name], kind=kind)
    with pytest.raises(BadInput, match="is a folder; name the files in it"):
        train_tokenizer(tmp_path, kind=kind)


def test_scores_are_settled() -> None:
    one = reproducible([("ab", -1.00000000001), ("x", -5.0), ("y", -4.9999), ("c", -2.0)])
    other = reproducible([("ab", -1.0), ("c", -2.0), ("y", -5.0), ("x", -4.9999)])
    assert one == other == [("ab", -1.0), ("c", -2.0), ("x", -5.0), ("y", -5.0)]
