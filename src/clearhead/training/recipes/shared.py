"""What recipes share: folders of a run, what its first process makes for all, and attention without dropout."""

import time
from collections.abc import Callable
from pathlib import Path

from clearhead.data.corpus import Corpus
from clearhead.data.shards import Shards
from clearhead.data.tokenising import find_shards, tokenise
from clearhead.hub.atomic import staged
from clearhead.nn.attend import Attend
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.training.distributed import first_process

Progress = Callable[[int], None]

# inside the model's folder: checkpoints and curves, and the token ids that were trained on
RUN, CORPUS = "run", "corpus"
_PAUSE = 1.0  # seconds between two looks for what the first process writes
_LAST = "tokenizer_config.json"  # put in place after tokenizer.json, so that a tokenizer with it is whole


def learn_vocabulary_once(
    corpus: Corpus, folder: Path, *, size: int, kind: str = "wordpiece", progress: Progress | None = None
) -> Tokenizer:
    """Train a tokenizer on the corpus and save it in `folder`; one that is there already is taken.

    BERT's kind makes all letters small; the others write too, and keep them.
    """
    if first_process() and not (folder / _LAST).is_file():
        small = kind == "wordpiece"
        words = train_tokenizer(texts=corpus.documents(progress), kind=kind, vocabulary=size, lowercase=small)
        with staged(folder) as stage:
            words.save(stage)
    while not (folder / _LAST).is_file():
        time.sleep(_PAUSE)
    return Tokenizer.from_folder(folder)


def tokenise_once(corpus: Corpus, tokenizer: Tokenizer, folder: Path, progress: Progress | None = None) -> Shards:
    """Tokenise the corpus into `folder`; shards of the same corpus and tokenizer that are there already are taken."""
    if first_process():
        return tokenise(corpus, tokenizer, folder, progress=progress)
    while (shards := find_shards(corpus, tokenizer, folder)) is None:
        time.sleep(_PAUSE)
    return shards


def without_attention_dropout(model: Model) -> None:
    """Train without dropout of attention weights, which the fast kernel for packed texts does not know.

    Dropout of hidden states, the other half of the pair, stays as the checkpoint says.
    """
    for module in model.network.modules():
        if isinstance(module, Attend):
            module.dropout = 0.0
