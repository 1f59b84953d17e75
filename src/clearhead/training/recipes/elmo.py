"""ELMo: raw text to words that have another vector in another sentence."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from clearhead.data.corpus import Corpus
from clearhead.data.following import Following
from clearhead.data.pretraining import PackedText
from clearhead.data.shards import Shards
from clearhead.data.source import Source
from clearhead.models.elmo import Elmo, ElmoConfig
from clearhead.nn.characters import spell
from clearhead.pipelines.contextual import ContextualWords
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.training.card import save_with_card
from clearhead.training.loop import Result
from clearhead.training.recipes.on_text import held_out_figures, train_on_text
from clearhead.training.settings import Every, Settings
from clearhead.training.task import Task
from clearhead.training.tasks import BothNeighbours


@dataclass(frozen=True, kw_only=True)
class PretrainElmo:
    """What can be set of a run."""

    model: ElmoConfig = field(default_factory=ElmoConfig)
    vocabulary: int = 30_000  # words that can be guessed; every word can be read
    length: int = 64  # words of a sequence, begin and end included
    tokens: int = 4096  # of a micro-batch
    train: Settings = field(
        default_factory=lambda: Settings(
            minutes=60.0, learning_rate=1e-3, warmup=0.02, every=Every(save=1000, evaluate=1000)
        )
    )


def pretrain_elmo(
    corpus: Corpus,
    out: Path,
    recipe: PretrainElmo | None = None,
    *,
    device: str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> tuple[ContextualWords, Result]:
    """Train both language models on the corpus and save them in `out`; a run that was stopped there goes on.

    `progress` is told how many bytes of the corpus are tokenised.
    """
    recipe = recipe or PretrainElmo()
    tokenizer = train_tokenizer(texts=corpus.documents(), kind="word", vocabulary=recipe.vocabulary, lowercase=False)
    torch.manual_seed(recipe.train.seed)
    network = build(recipe.model, tokenizer)
    words = ContextualWords(network, tokenizer)

    def batches(shards: Shards, split: str) -> Source:
        sizes = {"tokens": recipe.tokens, "length": recipe.length, "seed": recipe.train.seed}
        return Following(PackedText(shards, tokenizer, split=split, **sizes))

    result = train_on_text(
        BothNeighbours(network),
        corpus,
        tokenizer,
        out,
        recipe,
        batches=batches,
        measure=figures,
        save=lambda training: save_with_card(words.held, out, training),
        device=device,
        progress=progress,
    )
    return words, result


def figures(task: Task, held_out: Source, device: str) -> dict[str, float]:
    """Measure on text never trained on: the loss of each direction, and the perplexity of both."""
    found = held_out_figures(task, held_out, device)
    return {**found, "perplexity": math.exp(sum(found.values()) / len(found))}


def build(config: ElmoConfig, tokenizer: Tokenizer) -> Elmo:
    """Make a network with fresh weights that knows how the words of the vocabulary are spelled."""
    network = Elmo(replace(config, vocab_size=tokenizer.vocabulary, pad_token_id=tokenizer.pad_id))
    names = [tokenizer.id_to_token(i) or "" for i in range(tokenizer.vocabulary)]
    network.spelling.copy_(spell(names, config.max_characters))
    return network
