"""Probes: how much of a task is in the vectors of a frozen encoder; for `feature_probe.py` and `contextual.py`.

A tagger on any mix of a word's layers (`probe_tags`), or a logistic regression on a text's [CLS] (`probe_classes`).
"""

# B texts · N packed tokens · W words of all sentences · K layers, the embeddings among them · D width · L labels

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data.batch import Batch, group_by_length
from clearhead.data.dataset import ShuffledBatches, TokenizedDataset
from clearhead.data.encode import encode_tags
from clearhead.data.examples import Labels, TextExample, WordsExample
from clearhead.errors import BadInput, require
from clearhead.evaluation.conll import conlleval
from clearhead.evaluation.glue import accuracy
from clearhead.evaluation.tasks import Metrics
from clearhead.nn.features import RecurrentTokenHead, ScalarMix
from clearhead.nn.heads import Network, TokenHead
from clearhead.nn.hooks import hidden_states
from clearhead.nn.layout import Layout, Packed
from clearhead.pipelines.model import Model
from clearhead.pipelines.runner import per_token, run
from clearhead.text import Tokenizer
from clearhead.text.packed import Sequences
from clearhead.training.loop import train
from clearhead.training.settings import Every, Settings
from clearhead.training.tasks.classification import TagTokens


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


class MixedTagger(nn.Module):
    """A tagger on several layers of each word, mixed in shares that it learns with the rest (Peters et al. 2018)."""

    def __init__(self, layers: int, tagger: nn.Module) -> None:
        super().__init__()
        self.mix = ScalarMix(layers)
        self.tagger = tagger

    def forward(self, hidden: Tensor, layout: Packed) -> Tensor:
        """(W, K, D) packed -> (W, L)."""
        return self.tagger(self.mix(hidden), layout)


def probe_classes(
    model: Model, training: Sequence[TextExample], dev: Sequence[TextExample], *, strength: float = 1.0
) -> Metrics:
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
) -> Metrics:
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
        else RecurrentTokenHead(width, recipe.lstm, len(labels), recipe.dropout)
    )
    if features.dim() == 3:
        tagger = MixedTagger(features.shape[1], tagger)
    source = ShuffledBatches(words, seed=recipe.train.seed, items=recipe.items)
    with tempfile.TemporaryDirectory() as folder:  # it is soon trained again; only its figures are kept
        task = TagTokens(Network(FrozenWords(features, *scale), {"tags": tagger}))
        if train(task, source, recipe.train, Path(folder), device=device).exit == "interrupted":
            raise KeyboardInterrupt  # half a probe measures nothing
    network = Network(FrozenWords(dev[1], *scale), {"tags": tagger}).to(device).eval()
    return _figures(network, dev[0], labels, device)


@torch.inference_mode()
def _figures(network: Network, examples: Sequence[WordsExample], labels: Labels, device: str) -> Metrics:
    encoded = _sentences(examples, None)
    best = np.empty(encoded.tokens, dtype=np.int64)
    for items in group_by_length(encoded.lengths(), _TOKENS):
        batch = encoded.batch(items).to(device)
        best[encoded.token_indices(items)] = network("tags", batch.ids, batch.layout).argmax(-1).cpu()
    names = iter(labels.names[i] for i in best.tolist())
    predicted = [[next(names) for _ in example.words] for example in examples]
    return conlleval([_tags_of(example) for example in examples], predicted).metrics()


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


_TOKENS = 16_384  # of a batch of words
_WINDOWS = 256  # run at a time, so that little is held in full precision
_MEASURED = 20_000  # words, or somewhat more

# as Devlin et al. 2018 (table 7) have them; "all" are all layers without the embeddings
MIXES: dict[str, Callable[[Tensor], Tensor]] = {
    "embeddings": lambda states: states[:, 0],
    "last": lambda states: states[:, -1],
    "sum of all": lambda states: states[:, 1:].sum(1, dtype=torch.float32),
    "second-to-last": lambda states: states[:, -2],
    "sum of last four": lambda states: states[:, -4:].sum(1, dtype=torch.float32),
    "concat of last four": lambda states: states[:, -4:].flatten(1),
}


def word_states(model: Model, examples: Sequence[WordsExample]) -> Tensor:
    """Give the hidden states of each word's first piece: (W, K, D) in float16, on the CPU.

    Long sentences are read in windows, each word where it sees most; a word without pieces has zeros.
    """

    def layers(batch: Batch) -> Tensor:
        """Packed batch -> (N, K, D)."""
        return torch.stack(hidden_states(model.encoder, batch.ids, batch.layout, batch.segments), 1)

    return of_words(model.encoder, layers, examples, model.tokenizer, model.encoder.max_length)


def of_words(
    module: nn.Module,
    forward: Callable[[Batch], Tensor],
    examples: Sequence[WordsExample],
    tokenizer: Tokenizer,
    length: int,
) -> Tensor:
    """What `forward` of a packed batch, (N, …), says of each word's first piece: (W, …) in float16, on the CPU."""
    windows = encode_tags(examples, tokenizer, length=length)
    encoded, found = windows.encoded, None
    before = np.cumsum(windows.sizes) - windows.sizes  # words of the sentences before
    for start in range(0, len(encoded), _WINDOWS):
        chosen = range(start, min(start + _WINDOWS, len(encoded)))
        spans = [slice(encoded.offsets[i], encoded.offsets[i + 1]) for i in chosen]
        kinds = [() if encoded.segments is None else encoded.segments[span].tolist() for span in spans]
        inputs = Sequences.of([encoded.ids[span].tolist() for span in spans], kinds)
        rows = run(module, forward, per_token, inputs)
        if found is None:
            found = torch.zeros(int(windows.sizes.sum()), *rows.shape[1:], dtype=torch.float16)
        for i, span, states in zip(chosen, spans, rows.split(inputs.lengths.tolist()), strict=True):
            words = windows.words[span]
            places = before[windows.owners[i]] + words[words >= 0]
            found[torch.from_numpy(places)] = states[torch.from_numpy(words >= 0)].half()
    assert found is not None
    return found


def mix(states: Tensor, name: str) -> Tensor:
    """Make the features of one mix (see MIXES) out of (W, K, D): (W, D), or (W, 4 D) where layers are concatenated."""
    require(name in MIXES, f"there is no mix {name!r}; choose one of {', '.join(MIXES)}", BadInput)
    layers = states.shape[1] - 1
    require("four" not in name or layers >= 4, f"{name!r} needs 4 layers, this model has {layers}", BadInput)
    return MIXES[name](states)


class FrozenWords(nn.Module):
    """In the place of an encoder: ids are rows of a table of features, which is neither trained nor saved.

    What comes out is standardised by a mean and a deviation, (D,) each.
    """

    def __init__(self, features: Tensor, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.features: Tensor
        self.mean: Tensor
        self.deviation: Tensor
        for name, value in (("features", features.half()), ("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, value, persistent=False)

    def forward(self, ids: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Tensor:
        """Rows (W,) -> features (W, D)."""
        return (self.features[ids].float() - self.mean) / self.deviation


def mean_and_deviation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Measure each feature, (D,) and (D,), over a share of the words: all of them in float32 may be too large."""
    some = features[:: max(len(features) // _MEASURED, 1)].float()
    return some.mean(0), some.std(0, correction=0).clamp(min=1e-6)


log = logging.getLogger(__name__)

_ITERATIONS = 2000
_GRADIENT = 1e-7  # of the mean loss of an example; below it nothing moves that a figure would show


@dataclass(frozen=True)
class LogisticRegression:
    """A linear map to classes; two classes share one row, which speaks for the second."""

    weight: Tensor  # (L, D), or (1, D) for two classes
    bias: Tensor  # (L,) or (1,)

    @classmethod
    def fit(cls, features: Tensor, classes: Tensor, count: int, *, strength: float = 1.0) -> Self:
        """Find the one best map from (B, D) to `count` classes (B,): the loss times `strength`, plus half of weight².

        The problem has one solution, so there is no seed; `strength` is scikit-learn's C.
        """
        require(strength > 0, f"strength must be positive, got {strength}")
        require(count >= 2, f"there are {count} classes; a choice needs at least 2", BadInput)
        x, rows = features.double(), 1 if count == 2 else count
        weight = torch.zeros(rows, x.shape[1], dtype=x.dtype, requires_grad=True)
        bias = torch.zeros(rows, dtype=x.dtype, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [weight, bias],
            max_iter=_ITERATIONS,
            max_eval=2 * _ITERATIONS,
            tolerance_grad=_GRADIENT,
            tolerance_change=0.0,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimiser.zero_grad()
            penalty = weight.square().sum() / (2 * strength * len(x))
            value = F.cross_entropy(_logits(x, weight, bias), classes) + penalty
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(loss)
        left = max(float(part.grad.abs().max()) for part in (weight, bias) if part.grad is not None)
        if left > 100 * _GRADIENT:
            log.warning("logistic regression stopped early: gradient=%.1e iterations=%d", left, _ITERATIONS)
        return cls(weight.detach().to(features.dtype), bias.detach().to(features.dtype))

    def logits(self, features: Tensor) -> Tensor:
        """(B, D) -> (B, L)."""
        return _logits(features, self.weight, self.bias)


def _logits(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    found = F.linear(x, weight, bias)
    return F.pad(found, (1, 0)) if weight.shape[0] == 1 else found  # the first of two classes is the measure, 0
