from pathlib import Path

import pytest
import tokenizers

from clearhead.text import Tokenizer, train_tokenizer

SENTENCES = [
    "Be alert! BERT will hurt!",
    "The animal didn't cross the street because it was too tired.",
    "A man, a plan, a canal: Panama. Élan vital, naïve café, Straße, ÅNGSTRÖM.",
    "If you don't want to inhale virus, wear a mask; 42 masks cost 3.50 €.",
    "你好 世界, the cat sat on the mat and the mat sat on the cat.",
    "hurt alerts alerting hurting streets streetwise willing will bert be being",
]
WORDS = """
be alert bert will hurt the animal street mask a b c d e ##s ##ing ##t ##e ##a . , ! ? 你 好 cafe ##é é
"""


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def bert(vocab_file: Path) -> Tokenizer:
    return Tokenizer.from_vocab(vocab_file)


@pytest.fixture(scope="session")
def roberta() -> Tokenizer:
    return train_tokenizer(texts=SENTENCES, kind="bpe", vocabulary=400, min_frequency=1)


@pytest.fixture(scope="session")
def albert() -> Tokenizer:
    return train_tokenizer(texts=SENTENCES, kind="unigram", vocabulary=120, min_frequency=1)


@pytest.fixture(scope="session")
def mpnet() -> Tokenizer:
    return train_tokenizer(texts=SENTENCES, kind="mpnet", vocabulary=200, min_frequency=1)


@pytest.fixture(scope="session")
def deberta() -> Tokenizer:
    return train_tokenizer(texts=SENTENCES, kind="deberta-v2", vocabulary=120, min_frequency=1, lowercase=False)


@pytest.fixture(scope="session", params=["bert", "roberta", "albert", "mpnet", "deberta"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def library(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> tokenizers.Tokenizer:
    """The same tokenizer without us."""
    folder = tmp_path_factory.mktemp("library")
    tokenizer.save(folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
