"""Word vectors: raw text to one vector for each word (word2vec)."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.word2vec import Kind, WordWindows
from clearhead.io import Progress
from clearhead.models.word2vec import Word2Vec, Word2VecConfig
from clearhead.pipelines.word_vectors import WordVectors
from clearhead.text import train_tokenizer
from clearhead.training.card import Training, corpus_fact, save_with_card
from clearhead.training.distributed import first_process
from clearhead.training.loop import Result, train
from clearhead.training.recipes.pretrain import CORPUS, RUN, tokenise_once
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks import GuessWord


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """What can be set of a run; the defaults are word2vec's, but for AdamW and batches in place of single words."""

    kind: Kind = "skipgram"
    model: Word2VecConfig = field(default_factory=Word2VecConfig)
    vocabulary: int = 30_000
    min_frequency: int = 5  # rarer words have no vector
    lowercase: bool = True
    words: int = 1024  # running words of a batch
    window: int = 5
    negatives: int = 5
    threshold: float = 1e-3  # frequent words are thinned out above this share
    train: Settings = field(
        default_factory=lambda: Settings(
            epochs=5.0, learning_rate=2e-2, weight_decay=0.0, warmup=0.02, every=Every(save=10**9, evaluate=10**9)
        )
    )


def train_vectors(
    corpus: Corpus,
    out: Path,
    recipe: Vectors | None = None,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str | None = None,
) -> tuple[WordVectors, Result]:
    """Learn a vocabulary and its vectors and save them with a card in `out`; a run that was stopped there goes on.

    `progress` is told of bytes of the corpus that are tokenised. `command` is for the card.
    """
    recipe = recipe or Vectors()
    tokenizer = train_tokenizer(
        texts=corpus.documents(),
        kind="word",
        vocabulary=recipe.vocabulary,
        lowercase=recipe.lowercase,
        min_frequency=recipe.min_frequency,
    )
    shards = tokenise_once(corpus, tokenizer, out / CORPUS, progress)
    source = WordWindows(
        shards,
        tokenizer,
        kind=recipe.kind,
        seed=recipe.train.seed,
        words=recipe.words,
        window=recipe.window,
        negatives=recipe.negatives,
        threshold=recipe.threshold,
    )
    torch.manual_seed(recipe.train.seed)
    network = Word2Vec(replace(recipe.model, vocab_size=tokenizer.vocabulary, pad_token_id=tokenizer.pad_id))
    result = train(GuessWord(network), source, recipe.train, out / RUN, device=device)
    vectors = WordVectors(network.eval(), tokenizer)
    if result.exit != "interrupted" and first_process():
        facts = {"corpus": corpus_fact(corpus, shards.tokens)}
        told = Training(facts=facts, recipe=recipe, result=result, figures={}, command=command)
        save_with_card(vectors.held, out, told)
    return vectors, result
