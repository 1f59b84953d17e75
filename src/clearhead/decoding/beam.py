"""Beam search: keep the best few hypotheses of each text, and take the best end."""

# B texts still running · W beams of each · V vocabulary

from dataclasses import dataclass, field

import torch

from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import Decoder, Output, Recorder, log_probabilities
from clearhead.decoding.generate import Rows, Texts, top
from clearhead.errors import BadInput, renamed, require


@renamed(beams="num_beams", best="num_return_sequences")
def beam_search(
    model: Decoder,
    prompts: Texts,
    controls: Controls,
    *,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    num_return_sequences: int = 1,
    history: Texts | None = None,
    recorder: Recorder | None = None,
) -> list[list[Output]]:
    """Keep `num_beams` hypotheses of each text and give the best `num_return_sequences`, best first.

    A finished one counts by its log probability divided by its length, end included, to the power `length_penalty`. A
    text is done when no hypothesis is better than the worst of its `num_beams` ends, or, with `early_stopping`, as soon
    as it has so many. `history`: see `greedy`.
    """
    several = num_return_sequences
    require(num_beams >= 1, f"num_beams must be at least 1, got {num_beams}", BadInput)
    fits = 1 <= several <= num_beams
    require(fits, f"num_return_sequences must be from 1 to num_beams={num_beams}, got {several}", BadInput)
    search = _Search(model, prompts, controls, history, recorder, num_beams, length_penalty, early_stopping)
    while search.running:
        search.advance()
    require(all(beam.ends for beam in search.beams), "the rules leave no token to be written; forbid less", BadInput)
    return [beam.results()[:several] for beam in search.beams]


@dataclass(frozen=True)
class _Hypothesis:
    """One beginning of a text. The end token counts in its length and is not among its tokens."""

    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    total: float = 0.0
    row: int = 0  # of the state that it goes on from

    def extend(self, token: int, log_prob: float, row: int, *, end: bool) -> "_Hypothesis":
        tokens = self.tokens if end else [*self.tokens, token]
        return _Hypothesis(tokens, [*self.log_probabilities, log_prob], self.total + log_prob, row)


@dataclass
class _Beam:
    """The hypotheses of one text: those that go on, and those that ended; both best first."""

    text: int
    width: int
    length_penalty: float
    early_stopping: bool
    history: list[int]
    open: list[_Hypothesis] = field(default_factory=lambda: [_Hypothesis()])
    ends: list[tuple[_Hypothesis, bool]] = field(default_factory=list)

    def score(self, one: _Hypothesis) -> float:
        """The log probability, normalised for length."""
        return one.total / len(one.log_probabilities) ** self.length_penalty

    def end(self, one: _Hypothesis, *, ended: bool) -> None:
        """Put a hypothesis among the best ends, if it is one of them."""
        self.ends.append((one, ended))
        self.ends.sort(key=lambda end: -self.score(end[0]))
        del self.ends[self.width :]

    @property
    def done(self) -> bool:
        """Whether no open hypothesis can be expected to be better than the ends that there are."""
        if not self.open or len(self.ends) < self.width:
            return not self.open
        return self.early_stopping or self.score(self.open[0]) <= self.score(self.ends[-1][0])

    def results(self) -> list[Output]:
        """The ends."""
        return [Output(one.tokens, self.score(one), one.log_probabilities, ended) for one, ended in self.ends]


@dataclass
class _Search(Rows):
    """A row for each open hypothesis of each text."""

    width: int
    length_penalty: float
    early_stopping: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = self.width, self.length_penalty, self.early_stopping
        self.beams = [_Beam(text, *rules, seen) for text, seen in enumerate(self.before)]
        self.running = list(self.beams)
        self.count = 0

    @torch.inference_mode()
    def advance(self) -> None:
        """Write one token of every hypothesis of every running text."""
        log_probs, tokens = self._likeliest()
        before = [(beam.text, one.tokens) for beam in self.running for one in beam.open]
        self.count += 1
        row = 0
        for beam in self.running:
            # as many as can end, and as many again to go on with
            candidates = [
                (one, log_prob, token, row + i)
                for i, one in enumerate(beam.open)
                for log_prob, token in zip(log_probs[row + i], tokens[row + i], strict=True)
                if log_prob > -torch.inf
            ]
            candidates.sort(key=lambda found: -(found[0].total + found[1]))
            row += len(beam.open)
            self._choose(beam, candidates[: self._enough])
        self._note(before)
        self.running = [beam for beam in self.running if not beam.done]
        if self.running:
            open_ = [one for beam in self.running for one in beam.open]
            latest = torch.tensor([one.tokens[-1] for one in open_], device=self.logits.device)
            self.go_on(latest, [one.row for one in open_])

    def _choose(self, beam: _Beam, candidates: list[tuple[_Hypothesis, float, int, int]]) -> None:
        last = self.count == self.controls.max_new_tokens
        cut = last and self.controls.last is not None  # the end is the limit's
        beam.open = []
        for rank, (before, log_prob, token, row) in enumerate(candidates):
            end = token in self.controls.end
            one = before.extend(token, log_prob, row, end=end)
            ended = (end and not cut) or self.controls.stops(one.tokens)
            if (ended or last) and rank < self.width:
                beam.end(one, ended=ended)
            elif not ended and not last and len(beam.open) < self.width:
                beam.open.append(one)

    def _note(self, before: list[tuple[int, list[int]]]) -> None:
        if self.recorder is not None:
            went_on: list[list[int]] = [[] for _ in before]
            for beam in self.running:
                for one in beam.open:
                    went_on[one.row].append(one.tokens[-1])
            self.recorder.note([text for text, _ in before], [tokens for _, tokens in before], self.logits, went_on)

    @property
    def _enough(self) -> int:
        return max(2, 1 + len(self.controls.end)) * self.width

    def _likeliest(self) -> tuple[list[list[float]], list[list[int]]]:
        """Log probabilities and tokens of each row's best continuations."""
        log_probs = log_probabilities(self.logits)
        if self.controls.changes(self.count):
            texts = [beam.history + one.tokens for beam in self.running for one in beam.open]
            self.controls.apply_(log_probs, texts, self.count)
        values, tokens = top(log_probs, self._enough)
        return values.tolist(), tokens.tolist()
