"""Probes: how much of a task is in the vectors of a model that is not trained for it."""

# B texts · W words · K layers · D width of the features · L labels

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data.dataset import FineTuning, InOrder, TokenizedDataset
from clearhead.data.examples import Labels, TextExample, WordsExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.glue import accuracy
from clearhead.evaluation.tasks import Figures
from clearhead.nn.heads import Network, TokenHead
from clearhead.nn.layout import Packed
from clearhead.nn.mix import LayerMix
from clearhead.nn.recurrent import Recurrent
from clearhead.pipelines.model import Model
from clearhead.training.frozen import FrozenWords, mean_and_deviation
from clearhead.training.logistic import LogisticRegression
from clearhead.training.loop import train
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks import TagTokens


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What can be set of a tagger on frozen features."""

    lstm: int | None = None  # width of each direction of a two-layer BiLSTM; None is one linear map
    dropout: float = 0.1
    items: int = 32  # sentences of a batch
    train: Settings = field(
        default_factory=lambda: Settings(
            epochs=10.0, learning_rate=3e-3, every=Every(save=10**9, evaluate=10**9, log=10**9)
        )
    )


class BiLSTMTagger(nn.Module):
    """Two bidirectional layers of LSTM over the words of a sentence, then a linear map (Devlin et al. 2018, 5.3)."""

    def __init__(self, width: int, inner: int, outputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.lstm = Recurrent(nn.LSTM(width, inner, num_layers=2, bidirectional=True, dropout=dropout))
        self.classifier = nn.Linear(2 * inner, outputs)

    def forward(self, hidden: Tensor, layout: Packed) -> Tensor:
        """(W, D) packed -> (W, L)."""
        read, _ = self.lstm(self.dropout(hidden), layout)
        return self.classifier(self.dropout(read))


class MixedTagger(nn.Module):
    """A tagger on several layers of each word, mixed in shares that it learns with the rest (Peters et al. 2018)."""

    def __init__(self, layers: int, tagger: nn.Module) -> None:
        super().__init__()
        self.mix = LayerMix(layers)
        self.tagger = tagger

    def forward(self, hidden: Tensor, layout: Packed) -> Tensor:
        """(W, K, D) packed -> (W, L)."""
        return self.tagger(self.mix(hidden), layout)


def probe_classes(
    model: Model, training: Sequence[TextExample], dev: Sequence[TextExample], *, strength: float = 1.0
) -> Figures:
    """Logistic regression on the last layer's first vector, [CLS]: accuracy on `dev`, in percent."""
    labels = Labels.of(_class_of(example) for example in training)
    vectors, vectors_dev = (
        torch.from_numpy(model.embed([example.text for example in of], pooling="first", normalise=False))
        for of in (training, dev)
    )
    gold, gold_dev = (labels.ids([_class_of(example) for example in of]) for of in (training, dev))
    found = LogisticRegression.fit(vectors, torch.from_numpy(gold), len(labels), strength=strength)
    return {"accuracy": 100 * accuracy(gold_dev, found.logits(vectors_dev).argmax(-1).numpy())}


def probe_tags(
    training: tuple[Sequence[WordsExample], Tensor],
    dev: tuple[Sequence[WordsExample], Tensor],
    recipe: Probe,
    *,
    device: str = "cpu",
) -> Figures:
    """Train a tagger on sentences and the features (W, D) of their words, and score it on `dev` as conlleval does.

    Features (W, K, D) are K layers, whose mix is learnt too. Features are standardised by what the training data show,
    so that no mix gains by its size alone.
    """
    for sentences, rows in (training, dev):
        count = sum(len(example.words) for example in sentences)
        require(len(rows) == count, f"{len(rows)} rows of features do not fit {count} words; give one each", BadInput)
    examples, features = training
    labels = Labels.of(tag for example in examples for tag in _tags_of(example))
    words = _sentences(examples, labels)
    scale = mean_and_deviation(features)
    torch.manual_seed(recipe.train.seed)
    width = features.shape[-1]
    tagger: nn.Module = (
        TokenHead(width, len(labels), recipe.dropout)
        if recipe.lstm is None
        else BiLSTMTagger(width, recipe.lstm, len(labels), recipe.dropout)
    )
    if features.dim() == 3:
        tagger = MixedTagger(features.shape[1], tagger)
    source = FineTuning(words, seed=recipe.train.seed, items=recipe.items)
    with tempfile.TemporaryDirectory() as folder:  # it is soon trained again; only its figures are kept
        task = TagTokens(Network(FrozenWords(features, *scale), {"tags": tagger}))
        if train(task, source, recipe.train, Path(folder), device=device).exit == "interrupted":
            raise KeyboardInterrupt  # half a probe measures nothing
    network = Network(FrozenWords(dev[1], *scale), {"tags": tagger}).to(device).eval()
    return _figures(network, dev[0], labels, device)


@torch.inference_mode()
def _figures(network: Network, examples: Sequence[WordsExample], labels: Labels, device: str) -> Figures:
    batches = InOrder(_sentences(examples, None))
    ready = (batch.to(device) for batch in batches)
    best = batches.tokens([network("tags", one.ids, one.layout).argmax(-1) for one in ready]).tolist()
    names = iter(labels.names[i] for i in best)
    predicted = [[next(names) for _ in example.words] for example in examples]
    return conlleval([_tags_of(example) for example in examples], predicted).figures()


def _sentences(examples: Sequence[WordsExample], labels: Labels | None) -> TokenizedDataset:
    """Lay sentences out as rows of the table of features, with their tags to learn."""
    offsets = np.cumsum([0, *(len(example.words) for example in examples)])
    rows = np.arange(offsets[-1], dtype=np.int32)
    items = np.arange(len(examples)).reshape(-1, 1)
    targets = {}
    if labels is not None:
        targets["tags"] = np.concatenate([labels.ids(_tags_of(example)) for example in examples])
    return TokenizedDataset(rows, offsets, None, items, token_targets=targets)


def _class_of(example: TextExample) -> str:
    require(example.pair is None, "a probe reads single texts, not pairs; give one text for each label", BadInput)
    require(isinstance(example.label, str), f"a probe needs one class for each text, not {example.label!r}", BadInput)
    return str(example.label)


def _tags_of(example: WordsExample) -> tuple[str, ...]:
    if example.tags is None:
        raise BadInput("a sentence has no tags; name the column that holds them")
    return example.tags
