"""Word vectors: raw text to one vector for each word (word2vec)."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.shards import Shards
from clearhead.data.word2vec import Kind, WordWindows
from clearhead.models.word2vec import Word2Vec, Word2VecConfig
from clearhead.pipelines.word_vectors import WordVectors
from clearhead.text import train_tokenizer
from clearhead.training.loop import TrainResult
from clearhead.training.recipes.run import RunOptions, in_own_folder, train_on_text
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.language import NegativeSampling


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What can be set of a run; the defaults are word2vec's, but for AdamW and batches in place of single words."""

    kind: Kind = "skipgram"  # guess the words around, or the word in the middle
    model: Word2VecConfig = field(default_factory=Word2VecConfig)
    vocabulary: int = 30_000  # words that have a vector, at most
    min_frequency: int = 5  # rarer words have no vector
    lowercase: bool = True  # the and The are one word
    words: int = 1024  # running words of a batch
    window: int = 5  # words on either side that are looked at, at most
    negatives: int = 5  # words drawn at random beside each right one
    threshold: float = 1e-3  # frequent words are thinned out above this share
    train: Settings = field(
        default_factory=lambda: Settings(
            epochs=5.0, learning_rate=2e-2, weight_decay=0.0, warmup=0.02, every=Every(save=NEVER, evaluate=NEVER)
        )
    )


@in_own_folder()
def train_vectors(
    corpus: Corpus, out: Path, recipe: Vectors | None = None, **options: Unpack[RunOptions]
) -> tuple[WordVectors, TrainResult]:
    """Learn a vocabulary and its vectors and save them with a card in `out`; a run that was stopped there goes on.

    For the options see `recipes.run.RunOptions`.
    """
    recipe = recipe or Vectors()
    tokenizer = train_tokenizer(
        texts=corpus.documents(),
        kind="word",
        vocabulary=recipe.vocabulary,
        lowercase=recipe.lowercase,
        min_frequency=recipe.min_frequency,
    )
    torch.manual_seed(recipe.train.seed)
    network = Word2Vec(replace(recipe.model, vocab_size=tokenizer.vocabulary, pad_token_id=tokenizer.pad_id))
    vectors = WordVectors(network, tokenizer)

    def batches(shards: Shards, _split: str) -> WordWindows:
        return WordWindows(
            shards,
            tokenizer,
            kind=recipe.kind,
            seed=recipe.train.seed,
            words=recipe.words,
            window=recipe.window,
            negatives=recipe.negatives,
            threshold=recipe.threshold,
        )

    task = NegativeSampling(network)
    result = train_on_text(task, vectors.model, corpus, out, recipe, batches=batches, measured=False, **options)
    return vectors, result
