"""Beam search: keep the best few hypotheses of each text, and take the best end."""

# B texts still running · W beams of each · R rows, their open hypotheses · E continuations · V vocabulary

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import Decoder, Output, Recorder, check_numbers, log_probabilities
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


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """One beginning of a text: the one before it, and a token more. The end token counts in its length."""

    before: "_Hypothesis | None" = None
    token: int = -1
    log_prob: float = 0.0
    total: float = 0.0
    length: int = 0
    row: int = 0  # of the state that it goes on from

    def extend(self, token: int, log_prob: float, row: int) -> "_Hypothesis":
        return _Hypothesis(self, token, log_prob, self.total + log_prob, self.length + 1, row)

    def steps(self) -> list["_Hypothesis"]:
        """It and all before it that have a token, the first one first."""
        found, one = [], self
        while one.before is not None:
            found.append(one)
            one = one.before
        return found[::-1]

    @property
    def tokens(self) -> list[int]:
        return [one.token for one in self.steps()]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Candidates = list[tuple[_Hypothesis, float, int, int]]  # each with the log probability of a token and the row it is of


@dataclass
class _Beam:
    """The hypotheses of one text: those that go on, and those that ended; both best first."""

    text: int
    width: int
    length_penalty: float
    early_stopping: bool
    history: list[int]
    open: list[_Hypothesis] = field(default_factory=lambda: [_Hypothesis()])
    ends: list[tuple[_Hypothesis, list[int], bool]] = field(default_factory=list)  # with their tokens

    def score(self, one: _Hypothesis) -> float:
        """The log probability, normalised for length."""
        return one.total / one.length**self.length_penalty

    def end(self, one: _Hypothesis, tokens: list[int], *, ended: bool) -> None:
        """Put a hypothesis among the best ends, if it is one of them."""
        self.ends.append((one, tokens, ended))
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
        return [
            Output(tokens, self.score(one), [step.log_prob for step in one.steps()], ended)
            for one, tokens, ended in self.ends
        ]


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
        hypotheses = [one for beam in self.running for one in beam.open]
        log_probs, tokens = self._likeliest(hypotheses)
        texts = [beam.text for beam in self.running for _ in beam.open]
        self.count += 1
        for beam, candidates in zip(self.running, self._candidates(hypotheses, log_probs, tokens), strict=True):
            self._choose(beam, candidates)
        if self.recorder is not None:
            self._note(self.recorder, texts, hypotheses)
        self.running = [beam for beam in self.running if not beam.done]
        if self.running:
            open_ = [one for beam in self.running for one in beam.open]
            latest = torch.tensor([one.token for one in open_], device=self.logits.device)
            self.go_on(latest, [one.row for one in open_])

    def _candidates(self, hypotheses: Sequence[_Hypothesis], log_probs: Floats, tokens: Ints) -> Iterator[Candidates]:
        """Of each text, the likeliest continuations (R, E) of all its hypotheses: at most E, the best first."""
        enough = log_probs.shape[1]
        totals = (log_probs + np.array([[one.total] for one in hypotheses])).ravel()
        counts = np.array([[len(beam.open)] for beam in self.running]) * enough
        starts, column = np.cumsum(counts)[:, None] - counts, np.arange(counts.max())
        by_text = np.where(column < counts, totals.take(starts + column, mode="clip"), -np.inf)
        places = starts + np.argsort(-by_text, axis=1, kind="stable")[:, :enough]
        columns = (places // enough, log_probs.ravel()[places], tokens.ravel()[places])
        for rows, probable, following in zip(*(one.tolist() for one in columns), strict=True):
            found = zip(rows, probable, following, strict=True)
            yield [(hypotheses[row], log_prob, token, row) for row, log_prob, token in found if log_prob > -math.inf]

    def _choose(self, beam: _Beam, candidates: Candidates) -> None:
        rules, last = self.controls, self.count == self.controls.max_new_tokens
        cut = last and rules.last is not None  # the end is the limit's
        beam.open = []
        for rank, (before, log_prob, token, row) in enumerate(candidates):
            if rank >= self.width and (last or len(beam.open) == self.width):
                break
            end, one = token in rules.end, before.extend(token, log_prob, row)
            stops = rules.decode is not None and rules.stops((before if end else one).tokens)
            ended = (end and not cut) or stops
            if (ended or last) and rank < self.width:
                beam.end(one, (before if end else one).tokens, ended=ended)
            elif not ended and not last and len(beam.open) < self.width:
                beam.open.append(one)

    def _note(self, recorder: Recorder, texts: Sequence[int], before: Sequence[_Hypothesis]) -> None:
        went_on: list[list[int]] = [[] for _ in before]
        for beam in self.running:
            for one in beam.open:
                went_on[one.row].append(one.token)
        recorder.note(texts, [one.tokens for one in before], self.logits, went_on)

    def _likeliest(self, hypotheses: Sequence[_Hypothesis]) -> tuple[Floats, Ints]:
        """Log probabilities and tokens of each row's best continuations, (R, E): as many as can end, and as many again.

        Those that end are not gone on from.
        """
        log_probs = log_probabilities(self.logits)
        if self.controls.changes(self.count):
            seen = (beam.history for beam in self.running for _ in beam.open)
            texts = [history + one.tokens for history, one in zip(seen, hypotheses, strict=True)]
            self.controls.apply_(log_probs, texts if self.controls.reads else [], self.count)
        values, tokens = top(log_probs, max(2, 1 + len(self.controls.end)) * self.width)
        found = values.double().cpu().numpy()
        check_numbers(found[:, 0])
        return found, tokens.cpu().numpy()
