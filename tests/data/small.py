"""Small tokenizers that several tests of fine-tuning data share."""

from functools import cache

from clearhead.text import Tokenizer, train_tokenizer

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Be alert! BERT will hurt! Peter Blackburn went to Brussels, 1996-08-22.",
    "A man, a plan, a canal: Panama. Élan vital, naïve café, Straße.",
    "你好 世界, the cat sat on the mat and the mat sat on the cat.",
]


@cache
def tokenizer(kind: str = "wordpiece") -> Tokenizer:
    """BERT's, RoBERTa's (bpe) or ALBERT's (unigram) kind, with few and short pieces."""
    return train_tokenizer(texts=SENTENCES, kind=kind, vocabulary=350 if kind == "bpe" else 120, min_frequency=1)
