"""A task small enough to train in milliseconds, and a program that trains it and dies on the way.

usage: python -m training.toy FOLDER DEATHS    DEATHS is a JSON list of [kind, when]; after the last, it runs to the end
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from clearhead import io
from clearhead.data.batch import Batch
from clearhead.hub.weights import read_tensors
from clearhead.models.bert import Bert, BertConfig, heads
from clearhead.nn.heads import Network
from clearhead.objectives.loss import Loss
from clearhead.training import checkpoint
from clearhead.training.checkpoint import TENSORS, checkpoints
from clearhead.training.loop import TrainResult, train
from clearhead.training.settings import Every, Settings

VOCABULARY = 40


def network(seed: int = 0, dropout: float = 0.1) -> Network:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    bert = Bert(config)
    # "classes" is used by no part of the loss: its parameters never have a gradient
    return Network(bert, heads(bert, {"masked_lm": VOCABULARY, "next_sentence": 2, "classes": 3}))


class ToyTask:
    """Fill masks and judge sequences. `before` is called ahead of each pass, with its number and the batch."""

    def __init__(self, dropout: float = 0.1, before: Callable[[int, Batch], None] | None = None) -> None:
        self.network = network(dropout=dropout)
        self.weights: Mapping[str, float] = {"masked_lm": 1.0, "next_sentence": 0.5}
        self.before = before
        self.passes = 0
        self.factor = 1.0

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"masked_lm": batch.targets["labels"].shape[0], "next_sentence": batch.layout.batch}

    def losses(self, batch: Batch) -> dict[str, Loss]:
        self.passes += 1
        if self.before is not None:
            self.before(self.passes, batch)
        hidden = self.network.encoder(batch.ids, batch.layout, batch.segments)
        words = self.network.heads["masked_lm"](hidden, batch.layout, batch.targets["where"]).float()
        judged = self.network.heads["next_sentence"](hidden, batch.layout).float()
        labels, order = batch.targets["labels"], batch.targets["next_sentence"]
        right = (words.argmax(-1) == labels).sum()
        masked = self.factor * F.cross_entropy(words, labels, reduction="sum")
        return {
            "masked_lm": Loss(masked, labels.shape[0], {"accuracy": (right, labels.shape[0])}),
            "next_sentence": Loss(F.cross_entropy(judged, order, reduction="sum"), batch.layout.batch),
        }


class ToySource:
    """Sequences of random ids that count upwards, so that there is something to learn."""

    def __init__(self, seed: int = 0, batches: int = 10) -> None:
        self.seed, self.batches = seed, batches

    def batch(self, index: int) -> Batch:
        draw = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, index])))
        lengths = draw.integers(3, 9, size=int(draw.integers(2, 6)))
        starts = draw.integers(1, VOCABULARY - 12, size=len(lengths))
        sequences = [list(range(start, start + length)) for start, length in zip(starts, lengths, strict=True)]
        ids = [token for sequence in sequences for token in sequence]
        where = sorted(draw.choice(len(ids), size=max(1, len(ids) // 4), replace=False).tolist())
        targets = {
            "where": torch.tensor(where),
            "labels": torch.tensor([int(ids[place]) for place in where]),
            "next_sentence": torch.tensor([int(length % 2) for length in lengths]),
        }
        batch = Batch.of(sequences, [[0] * len(sequence) for sequence in sequences], targets)
        batch.ids[targets["where"]] = 0
        return batch

    def batches_in(self, epochs: float) -> int:
        return round(epochs * self.batches)

    def epoch_of(self, index: int) -> float:
        return index / self.batches


class Poisoned(ToySource):
    """Batches from `first` to `last` make the loss of the task `factor` times as large."""

    def __init__(self, task: ToyTask, first: int, last: int, factor: float) -> None:
        super().__init__()
        bad = {tuple(self.batch(index).ids.tolist()) for index in range(first, last + 1)}
        task.before = lambda _passes, batch: setattr(
            task, "factor", factor if tuple(batch.ids.tolist()) in bad else 1.0
        )


def settings(**changes: object) -> Settings:
    every = Every(log=2, save=3, evaluate=4)
    return Settings(**{"steps": 12, "accumulate": 3, "learning_rate": 0.01, "every": every, **changes})


def final_tensors(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(checkpoints(folder)[-1] / TENSORS)


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same(folder: Path, other: Path) -> None:
    ours, theirs = final_tensors(folder), final_tensors(other)
    assert ours.keys() == theirs.keys()
    assert any(name.startswith("optimiser.") for name in ours)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
    clocks = ("elapsed", "tokens_per_second")
    plain = [[{k: v for k, v in row.items() if k not in clocks} for row in rows(f)] for f in (folder, other)]
    assert plain[0] == plain[1]


def run(folder: Path, task: ToyTask | None = None, source: ToySource | None = None, **options: object) -> TrainResult:
    changes = {name: options.pop(name) for name in list(options) if name in Settings.__dataclass_fields__}
    return train(task or ToyTask(), source or ToySource(), settings(**changes), folder, **options)


def _die_at(kind: str, when: int) -> ToyTask:
    """Kill this process in a pass (so in mid-accumulation), while a checkpoint is written, or ask it to stop."""

    def kill(number: int) -> None:
        os.kill(os.getpid(), number)

    if kind in ("kill", "term"):
        number = signal.SIGKILL if kind == "kill" else signal.SIGTERM
        return ToyTask(before=lambda passes, _batch: kill(number) if passes == when else None)
    count = 0
    home, stage = {"tensors": (checkpoint, "write_tensors"), "sync": (io, "sync")}[kind]
    real = getattr(home, stage)

    def dying(*values: object) -> None:
        nonlocal count
        count += 1
        if count == when and kind == "tensors":  # half a file
            Path(str(values[1])).write_bytes(b"\x00" * 100)
        if count == when:
            kill(signal.SIGKILL)
        real(*values)

    setattr(home, stage, dying)
    return ToyTask()


def main() -> None:
    torch.set_num_threads(1)
    folder, deaths = Path(sys.argv[1]), json.loads(sys.argv[2])
    for kind, when in deaths:  # children are forked, because importing torch takes longer than training this
        child = os.fork()
        if not child:
            result = run(folder, _die_at(kind, when))
            os._exit(3 if result.exit == "interrupted" else 0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
    sys.stdout.write(f"{run(folder).exit}\n")


if __name__ == "__main__":
    main()
