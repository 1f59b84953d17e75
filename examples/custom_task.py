"""A task of your own: how many stars, from 1 to 5, a review gives, where 4 instead of 5 is a smaller fault than 1.

A class for each number would not know that they are in order. Here one score is compared with four thresholds (Cao et
al. 2020), which asks for a head, an objective and a metric that the package does not have.

    python examples/custom_task.py [MODEL]
"""

import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data.encode import encode_texts
from clearhead.data.formats import parse_score, read_texts
from clearhead.evaluation.tasks import Evaluated, Evaluation
from clearhead.nn.heads import SentenceVector
from clearhead.objectives.loss import Loss
from clearhead.pipelines.classification import class_logits
from clearhead.training.recipes.finetune import Finetune, finetune
from clearhead.training.recipes.task_specs import TaskSpec
from clearhead.training.settings import override
from clearhead.training.tasks.task import HeadTask

# ---- the task: head, objective, metric, data ----


class Thresholds(nn.Module):
    """The head: one score for a text, and how far it lies above each threshold."""

    def __init__(self, encoder, outputs: int) -> None:
        super().__init__()
        self.pool = SentenceVector("mean")
        self.score = nn.Linear(encoder.width, 1)
        self.thresholds = nn.Parameter(torch.linspace(-4, 4, outputs))

    def forward(self, hidden: Tensor, layout) -> Tensor:
        """Hidden states and which of them make a text -> logits, a row for each text."""
        return self.score(self.pool(hidden, layout)) - self.thresholds


def more_stars_than(logits: Tensor, stars: Tensor) -> Loss:
    """The objective: is it more than 1, than 2, than 3, than 4? A sum, and of how many it is."""
    above = stars[:, None] > torch.arange(1, 5, device=stars.device)
    return Loss(F.binary_cross_entropy_with_logits(logits.float(), above.float(), reduction="sum"), len(stars))


class LearnStars(HeadTask):
    """What the loop trains: the head's logits beside the target "scores", which `encode_texts` makes of numbers."""

    head = part = "stars"
    targets = ("scores",)
    objective = staticmethod(more_stars_than)


def predict(model, examples, *, progress=None) -> list[dict]:
    """What the model says of each example."""
    logits = class_logits(model, (one.text for one in examples), progress, head="stars")
    return [{"predicted": 1 + int((row > 0).sum())} for row in logits]


def score(examples, rows, labels=None) -> Evaluated:
    """The metrics of what was said."""
    errors = [abs(example.label - row["predicted"]) for example, row in zip(examples, rows, strict=True)]
    right = 100 * sum(error == 0 for error in errors) / len(errors)
    return Evaluated(metrics={"exact": right, "stars_off": sum(errors) / len(errors)})


STARS = TaskSpec(
    name="stars",
    read=lambda file, columns: read_texts(file, parse=parse_score, **columns),
    tokenise=encode_texts,
    head="stars",
    module=Thresholds,
    outputs=4,
    task=lambda model, data, options: LearnStars(model.network),
    evaluation=Evaluation(predict=predict, score=score),
)

# ---- and its use ----

WORDS = ("terrible", "weak", "decent", "good", "wonderful")


def write_reviews(path: Path, count: int, seed: int) -> Path:
    """Small data, generated: the first half of a review counts more than the second."""
    draw = random.Random(seed)  # noqa: S311
    rows = []
    for _ in range(count):
        film, music = draw.randrange(5), draw.randrange(5)
        text = f"The film was {WORDS[film]}, the music {WORDS[music]}."
        rows.append({"text": text, "score": 1 + round((3 * film + music) / 4)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main(source: str | Path, folder: Path, steps: int = 100) -> dict[str, float]:
    """Fine-tune, evaluate, save, load, and ask."""
    train, dev = write_reviews(folder / "train.jsonl", 400, 1), write_reviews(folder / "dev.jsonl", 80, 2)
    changes = {"length": 32, "items": 16, "train.epochs": None, "train.steps": steps, "train.learning_rate": 1e-3}
    outcome = finetune(STARS, source, train, folder / "stars", dev=dev, recipe=override(Finetune(), changes))
    print("on the development data:", outcome.metrics)

    again = STARS.load(folder / "stars")
    again.save(folder / "copy")
    for text in ("The film was wonderful.", "The film was terrible, the music weak."):
        (logits,) = class_logits(again, [text], head="stars")
        print(text, 1 + int((logits > 0).sum()))
    found = STARS.evaluation(STARS.load(folder / "copy"), STARS.read(dev, {})).metrics
    print("loaded, saved and loaded:", found)
    return found


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        main(sys.argv[1] if len(sys.argv) > 1 else "builtin:encoder", Path(scratch))
