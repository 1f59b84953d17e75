import pytest

from clearhead.errors import BadConfig
from clearhead.training.settings import Every, Settings

WRONG = [
    ({}, "exactly one of steps, epochs and minutes, got none"),
    ({"steps": 1, "minutes": 2}, r"exactly one .* got \{'steps': 1, 'minutes': 2\}"),
    ({"epochs": 0}, "epochs must be positive and finite, got 0"),
    ({"epochs": float("inf")}, "epochs must be positive and finite, got inf"),
    ({"minutes": float("inf")}, "minutes must be positive and finite, got inf"),
    ({"minutes": float("nan")}, "minutes must be positive and finite, got nan"),
    ({"steps": 1, "accumulate": 0}, "accumulate must be at least 1, got 0"),
    ({"steps": 1, "learning_rate": 0}, "learning_rate must be positive and finite, got 0"),
    ({"steps": 1, "learning_rate": float("inf")}, "learning_rate must be positive and finite, got inf"),
    ({"steps": 1, "weight_decay": float("inf")}, "weight_decay must be finite and not negative, got inf"),
    ({"steps": 1, "warmup": 1.0}, r"warmup is a share in \[0, 1\), got 1.0"),
    ({"steps": 1, "betas": (0.9, 1.0)}, "betas are two numbers"),
    ({"steps": 1, "layer_decay": 0}, r"layer_decay must be in \(0, 1\], got 0"),
    ({"steps": 1, "schedule": "square"}, "unknown schedule 'square'; known: linear, cosine, trapezoidal"),
    ({"steps": 1, "optimiser": "sgd"}, "unknown optimiser 'sgd'; known: adamw, muon"),
    ({"steps": 1, "precision": "fp16"}, "unknown precision 'fp16'"),
    ({"steps": 1, "clip": 0}, "clip must be positive, got 0; write inf for none"),
    ({"steps": 1, "patience": 2}, "patience 2 needs a metric"),
    ({"steps": 1, "seed": -1}, "seed must not be negative"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_wrong_values_are_named(fields, message):
    with pytest.raises(BadConfig, match=message):
        Settings(**fields)


def test_intervals_are_positive():
    with pytest.raises(BadConfig, match=r"every\.save must be at least 1, got 0"):
        Every(save=0)


def test_few_fields():
    assert len(Settings.__dataclass_fields__) <= 20
