"""How a run trains, and changing a recipe by name: `--set train.learning_rate=3e-5`, or a TOML file."""

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from clearhead.errors import BadConfig, NotFound, require, typed

NEVER = 10**9  # but at the end
LENGTHS = ("steps", "epochs", "minutes")

# what other trainers call it, and what we do; where two recipes differ, the first that one has
SYNONYMS = {
    "lr": ("train.learning_rate",),
    "batch_size": ("items", "tokens"),
    "per_device_train_batch_size": ("items", "tokens"),
    "train_batch_size": ("items", "tokens"),
    "num_epochs": ("train.epochs",),
    "num_train_epochs": ("train.epochs",),
    "max_steps": ("train.steps",),
    "gradient_accumulation_steps": ("train.accumulate",),
    "gradient_checkpointing": ("train.checkpointing",),
    "max_length": ("length",),
    "max_seq_length": ("length",),
    "warmup_ratio": ("train.warmup",),
    "lr_scheduler_type": ("train.schedule",),
    "optimizer": ("train.optimiser",),
    "max_grad_norm": ("train.clip",),
    "adam_epsilon": ("train.eps",),
    "early_stopping_patience": ("train.patience",),
    "lora_r": ("lora",),
    "save_steps": ("train.every.save",),
    "eval_steps": ("train.every.evaluate",),
    "logging_steps": ("train.every.log",),
}
_RATES = "1e-5 to 1e-4 is usual for fine-tuning, 1e-4 to 3e-3 for a new model"

Schedule = Literal["linear", "cosine", "trapezoidal", "constant", "noam", "inverse_sqrt"]
Optimiser = Literal["adamw", "muon", "lamb", "adafactor"]
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    """After how many steps something happens, how many checkpoints to keep, and how many are averaged at the end.

    Beside those by steps, a checkpoint is saved when `minutes` have gone by since the last.
    """

    log: int = 10  # steps from one row of metrics.jsonl to the next
    save: int = 500  # steps from one checkpoint to the next; the end has one in any case
    minutes: float = 5.0  # one is saved as well when so many have gone by since the last
    evaluate: int = 500  # steps from one measurement on the development data to the next; and at the end
    keep: int = 2  # how many checkpoints stay
    average: int = 1  # of how many of the last the final weights are the mean

    def __post_init__(self) -> None:
        require(self.minutes > 0, f"every.minutes must be positive, got {self.minutes}")
        for name, value in asdict(self).items():
            require(value >= 1 or name == "minutes", f"every.{name} must be at least 1, got {value}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Exactly one of `steps`, `epochs` and `minutes` says how long; shares are of the whole run.

    `metric` names what `evaluate` returns and early stopping looks at; "-loss" means that a smaller loss is better.
    """

    steps: int | None = None  # how long: a number of steps,
    epochs: float | None = None  # or readings of the data,
    minutes: float | None = None  # or a time; exactly one of the three
    accumulate: int = 1  # micro-batches of a step, over all ranks
    ramp: float = 0.0  # share of the run in which the step grows from one micro-batch to all
    learning_rate: float = 1e-4  # the highest, after the warm-up
    weight_decay: float = 0.01  # not on biases and norms
    warmup: float = 0.1  # share of the run
    schedule: Schedule = "linear"  # how the rate falls after the warm-up
    clip: float = 1.0  # longest gradient, by its norm; inf for none
    optimiser: Optimiser = "adamw"  # muon is for matrices, with AdamW for the rest
    betas: tuple[float, float] = (0.9, 0.999)  # memory of the first and the second moment
    eps: float | None = None  # beside the root of the second moment; None is 1e-8, of lamb 1e-6
    layer_decay: float = 1.0  # each layer learns this much slower than the one above
    precision: Precision = "auto"  # bf16 on a GPU, else fp32
    compile: bool | None = None  # None leaves it to the recipe
    checkpointing: bool = False  # forget what is inside a block and compute it again on the way back
    seed: int = 0  # of every draw: order, masks, dropout, new weights
    metric: str | None = None  # whose best weights are kept, such as f1, or -loss, of which less is better
    patience: int | None = None  # evaluations without a better metric before the run stops
    every: Every = field(default_factory=Every)

    def __post_init__(self) -> None:
        lengths = {name: getattr(self, name) for name in LENGTHS}
        given = {name: value for name, value in lengths.items() if value is not None}
        require(len(given) == 1, f"give exactly one of steps, epochs and minutes, got {given or 'none'}")
        for name, value in given.items():
            require(0 < value < math.inf, f"{name} must be positive and finite, got {value}")
        require(self.accumulate >= 1, f"accumulate must be at least 1, got {self.accumulate}")
        rate, decay = self.learning_rate, self.weight_decay
        require(0 < rate < math.inf, f"learning_rate must be positive and finite, got {rate}; {_RATES}")
        require(rate <= 1, f"learning_rate {rate:g} is far too large to learn anything; {_RATES}")
        require(0 <= decay < math.inf, f"weight_decay must be finite and not negative, got {decay}")
        require(self.clip > 0, f"clip must be positive, got {self.clip}; write inf for none")
        require(0 < self.layer_decay <= 1, f"layer_decay must be in (0, 1], got {self.layer_decay}")
        require(self.seed >= 0, f"seed must not be negative, got {self.seed}")
        for name in ("ramp", "warmup"):
            require(0 <= getattr(self, name) < 1, f"{name} is a share in [0, 1), got {getattr(self, name)}")
        shares = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(shares, f"betas are two numbers in [0, 1), got {self.betas}")
        if self.eps is not None:
            used = self.optimiser != "adafactor"
            require(used, f"eps {self.eps:g} is none of adafactor's, which has its own; leave it out")
            require(0 < self.eps < 1, f"eps must be positive and small, got {self.eps}; 1e-8 to 1e-6 is usual")
        for name, kind in (("schedule", Schedule), ("optimiser", Optimiser), ("precision", Precision)):
            value, known = getattr(self, name), get_args(kind)
            require(value in known, f"unknown {name} {value!r}; known: {', '.join(known)}")
        both = f"every.average {self.every.average} takes the last weights, metric {self.metric!r} the best"
        require(self.every.average == 1 or self.metric is None, f"{both}; choose one of the two")
        rootless = self.schedule not in ("noam", "inverse_sqrt") or self.warmup > 0
        require(rootless, f"the schedule {self.schedule} needs a warmup; give 0.1, say")
        require(self.patience is None or self.patience >= 1, f"patience must be at least 1, got {self.patience}")
        blind = f"patience {self.patience} needs a metric to look at; name one, such as metric='f1' or '-loss'"
        require(self.patience is None or self.metric is not None, blind)

    def to_json(self) -> dict[str, Any]:
        """Give the fields as JSON reads them back, tuples as lists."""
        return json.loads(json.dumps(asdict(self)))


Recipe = TypeVar("Recipe")


def override(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return the recipe (nested frozen dataclasses) with the dotted names changed; an unknown one is an error."""
    values = values_of(recipe)
    for name in changes:
        if name not in values:
            meant = called(name, values)
            hint = f"did you mean {meant}? It is {values[meant]} now" if meant else f"known: {', '.join(values)}"
            part = name.partition(".")[0]
            possible = get_args(get_type_hints(type(recipe)).get(part))
            if values.get(part, part) is None and any(map(is_dataclass, possible)):
                hint = f"there is none without --{part}"
            raise BadConfig(f"unknown key {name}; {hint}")
    return _changed(recipe, changes, "")


def called(name: str, known: Iterable[str]) -> str | None:
    """The dotted name that somebody means who writes another trainer's, leaves the first part out, or mistypes it."""
    names = list(known)
    own = name.rpartition(".")[2].replace("-", "_")
    same_end = [one for one in names if one.rpartition(".")[2] == own]
    found = get_close_matches(name, same_end, n=1, cutoff=0.0) or [one for one in SYNONYMS.get(own, ()) if one in names]
    found = found or get_close_matches(name, names, n=1, cutoff=0.5)
    return found[0] if found else None


def parse_settings(written: Iterable[str]) -> dict[str, Any]:
    """Read `key=value` as the command line gives it; a value that is no JSON is a plain string."""
    changes: dict[str, Any] = {}
    for item in written:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise BadConfig(f"--set {item!r} is not key=value, such as train.learning_rate=3e-5")
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = {"none": None}.get(value.lower(), value)
    return changes


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a TOML file of changes; its tables become dotted names."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"there is no recipe {path}") from None
    except OSError as error:
        raise NotFound(f"the recipe {path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not valid TOML: {error}") from None
    return dict(_flat(content))


def as_toml(recipe: Any) -> str:
    """Write all values of a recipe as `read_recipe` reads them; TOML has no word for None, which is left out."""
    # JSON's way to write a value is TOML's too, but for numbers that are not finite
    written = {
        name: str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        for name, value in values_of(recipe).items()
        if value is not None
    }
    return "".join(f"{name} = {text}\n" for name, text in written.items())


def beside_training(recipe: Any) -> dict[str, Any]:
    """Every value of a recipe by its dotted name, but for those of `train`, which the loop looks after."""
    return {name: value for name, value in values_of(recipe).items() if not name.startswith("train.")}


def values_of(recipe: Any) -> dict[str, Any]:
    """Every value that can be changed, by its dotted name."""
    return dict(_flat(asdict(recipe)))


def _changed(recipe: Any, changes: Mapping[str, Any], prefix: str) -> Any:
    """Change the fields of one dataclass all at once: some are valid only together."""
    hints = get_type_hints(type(recipe))
    new = {}
    for spec in fields(recipe):
        name = prefix + spec.name
        inside = {key: value for key, value in changes.items() if key.startswith(f"{name}.")}
        if inside:
            new[spec.name] = _changed(getattr(recipe, spec.name), inside, f"{name}.")
        elif name in changes:
            try:
                new[spec.name] = typed(changes[name], hints[spec.name], name)
            except BadConfig as error:
                raise BadConfig(f"{error}; it is {getattr(recipe, spec.name)} now") from None
    return replace(recipe, **new)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
