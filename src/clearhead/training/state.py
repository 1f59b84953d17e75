"""What a run knows beside its tensors: a few numbers, saved as JSON with every checkpoint."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from clearhead.errors import BadCheckpoint
from clearhead.training.spikes import Noise


@dataclass(kw_only=True)
class State:
    """Where a run is. No random state: dropout is seeded by the number of the batch."""

    step: int = 0
    index: int = 0  # of the next batch; not step × accumulate, because batches can be passed over
    tokens: int = 0
    pieces: int = 1  # into how many a micro-batch is cut, because memory ran out
    elapsed: float = 0.0  # seconds of training, in all sessions
    setup: float = 0.0  # seconds of it spent on the first step of each session, which compiles
    pace: float = 0.0  # seconds of the last step that was not a session's first
    closing: float = 0.0  # seconds of the longest evaluation and saving
    sums: dict[str, list[float]] = field(default_factory=dict)  # since the last log: name -> [sum, count]
    norms: Noise = field(default_factory=Noise)
    losses: Noise = field(default_factory=Noise)
    bad: int = 0  # steps skipped in a row
    rollbacks: int = 0
    best: float | None = None
    best_step: int | None = None
    stale: int = 0  # evaluations since the best

    def to_json(self) -> dict[str, Any]:
        """Give the fields; JSON keeps every bit of a float."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        try:
            noise = {name: Noise(**content[name]) for name in ("norms", "losses")}
            return cls(**{**content, **noise})
        except (TypeError, KeyError) as error:
            raise BadCheckpoint(
                f"the training state does not fit this version of clearhead ({error}); start in another folder"
            ) from None
