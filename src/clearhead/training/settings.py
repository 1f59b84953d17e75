"""How a run trains. A recipe makes one `Settings`; the command line changes fields of it by name."""

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from clearhead.errors import require

Schedule = Literal["linear", "cosine", "trapezoidal", "constant", "noam"]
Optimiser = Literal["adamw", "muon"]
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    """After how many steps something happens, how many checkpoints to keep, and how many are averaged at the end."""

    log: int = 10
    save: int = 500
    evaluate: int = 500
    keep: int = 2
    average: int = 1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            require(value >= 1, f"every.{name} must be at least 1, got {value}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Exactly one of `steps`, `epochs` and `minutes` says how long; shares are of the whole run.

    `metric` names what `evaluate` returns and early stopping looks at; "-loss" means that a smaller loss is better.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    accumulate: int = 1  # micro-batches of a step, over all ranks
    ramp: float = 0.0  # share of the run in which the step grows from one micro-batch to all
    learning_rate: float = 1e-4
    weight_decay: float = 0.01  # not on biases and norms
    warmup: float = 0.1  # share of the run
    schedule: Schedule = "linear"
    clip: float = 1.0
    optimiser: Optimiser = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    layer_decay: float = 1.0  # each layer learns this much slower than the one above
    precision: Precision = "auto"  # bf16 on a GPU, else fp32
    compile: bool | None = None  # None leaves it to the recipe
    checkpointing: bool = False  # forget what is inside a block and compute it again on the way back
    seed: int = 0
    metric: str | None = None
    patience: int | None = None  # evaluations without a better metric before the run stops
    every: Every = field(default_factory=Every)

    def __post_init__(self) -> None:
        lengths = {name: getattr(self, name) for name in ("steps", "epochs", "minutes")}
        given = {name: value for name, value in lengths.items() if value is not None}
        require(len(given) == 1, f"give exactly one of steps, epochs and minutes, got {given or 'none'}")
        for name, value in given.items():
            require(0 < value < math.inf, f"{name} must be positive and finite, got {value}")
        require(self.accumulate >= 1, f"accumulate must be at least 1, got {self.accumulate}")
        rate, decay = self.learning_rate, self.weight_decay
        require(0 < rate < math.inf, f"learning_rate must be positive and finite, got {rate}")
        require(0 <= decay < math.inf, f"weight_decay must be finite and not negative, got {decay}")
        require(self.clip > 0, f"clip must be positive, got {self.clip}; write inf for none")
        require(0 < self.layer_decay <= 1, f"layer_decay must be in (0, 1], got {self.layer_decay}")
        require(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        for name in ("ramp", "warmup"):
            require(0 <= getattr(self, name) < 1, f"{name} is a share in [0, 1), got {getattr(self, name)}")
        require(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas are two numbers in [0, 1), got {self.betas}",
        )
        for name, kind in (("schedule", Schedule), ("optimiser", Optimiser), ("precision", Precision)):
            value, known = getattr(self, name), get_args(kind)
            require(value in known, f"unknown {name} {value!r}; known: {', '.join(known)}")
        average = self.every.average
        require(
            average == 1 or self.metric is None,
            f"every.average {average} takes the last weights, metric {self.metric!r} the best; choose one of the two",
        )
        require(self.schedule != "noam" or self.warmup > 0, "the schedule noam needs a warmup; give 0.1, say")
        require(self.patience is None or self.patience >= 1, f"patience must be at least 1, got {self.patience}")
        require(
            self.patience is None or self.metric is not None,
            f"patience {self.patience} needs a metric to look at; name one, such as metric='f1' or '-loss'",
        )

    def to_json(self) -> dict[str, Any]:
        """Give the fields as JSON reads them back, tuples as lists."""
        return json.loads(json.dumps(asdict(self)))
