"""Beam search: keep the best few beginnings of each text, and take the best end."""

# B texts still running · W beams of each · V vocabulary

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from clearhead.decoding.config import Controls
from clearhead.decoding.decoder import Decoder, Output, Recorder, log_probabilities
from clearhead.decoding.generate import top
from clearhead.errors import BadInput, require

Texts = Sequence[Sequence[int]]


def beam_search(
    model: Decoder,
    prompts: Texts,
    controls: Controls,
    *,
    beams: int = 4,
    length_penalty: float = 1.0,
    best: int = 1,
    history: Texts | None = None,
    recorder: Recorder | None = None,
) -> list[list[Output]]:
    """Write each text `beams` ways at once and give the `best` of them, best first.

    A finished way counts by its log probability divided by its length, end included, to the power `length_penalty`.
    A text is done when no beginning is better than the worst of its `beams` ends. `history`: see `greedy`.
    """
    require(beams >= 1, f"beams must be at least 1, got {beams}", BadInput)
    require(1 <= best <= beams, f"best must be from 1 to the number of beams, {beams}, got {best}", BadInput)
    search = _Search(model, prompts, controls, beams, length_penalty, history, recorder)
    while search.running:
        search.advance()
    require(all(beam.ends for beam in search.beams), "the rules leave no token to be written; forbid less", BadInput)
    return [beam.results()[:best] for beam in search.beams]


@dataclass(frozen=True)
class _Way:
    """One beginning of a text. The end token counts in its length and is not among its tokens."""

    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    total: float = 0.0
    row: int = 0  # of the state that it goes on from

    def onward(self, token: int, chance: float, row: int, *, end: bool) -> "_Way":
        tokens = self.tokens if end else [*self.tokens, token]
        return _Way(tokens, [*self.log_probabilities, chance], self.total + chance, row)


@dataclass
class _Beam:
    """The ways of one text: those that go on, and those that ended; both best first."""

    text: int
    width: int
    length_penalty: float
    history: list[int]
    ways: list[_Way] = field(default_factory=lambda: [_Way()])
    ends: list[tuple[_Way, bool]] = field(default_factory=list)

    def score(self, way: _Way) -> float:
        """The log probability for a length of one, more or less."""
        return way.total / len(way.log_probabilities) ** self.length_penalty

    def end(self, way: _Way, *, ended: bool) -> None:
        """Put a way among the best ends, if it is one of them."""
        self.ends.append((way, ended))
        self.ends.sort(key=lambda end: -self.score(end[0]))
        del self.ends[self.width :]

    @property
    def done(self) -> bool:
        """Whether no way can be expected to be better than the ends that there are."""
        if not self.ways:
            return True
        return len(self.ends) == self.width and self.score(self.ways[0]) <= self.score(self.ends[-1][0])

    def results(self) -> list[Output]:
        """The ends."""
        return [Output(way.tokens, self.score(way), way.log_probabilities, ended) for way, ended in self.ends]


class _Search:
    """All texts at once; those that are done leave the batch."""

    def __init__(
        self,
        model: Decoder,
        prompts: Texts,
        controls: Controls,
        width: int,
        length_penalty: float,
        history: Texts | None,
        recorder: Recorder | None,
    ) -> None:
        self.model, self.controls, self.width, self.recorder = model, controls, width, recorder
        before = history or [()] * len(prompts)
        self.beams = [_Beam(text, width, length_penalty, list(seen)) for text, seen in enumerate(before)]
        self.running = list(self.beams)
        self.count = 0
        if prompts:
            with torch.inference_mode():
                self.logits, self.state = model.begin(prompts)

    @torch.inference_mode()
    def advance(self) -> None:
        """Write one token of every way of every running text."""
        chances, tokens = self._likeliest()
        before = [(beam.text, way.tokens) for beam in self.running for way in beam.ways]
        self.count += 1
        row = 0
        for beam in self.running:
            # as many as can end, and as many again to go on with
            candidates = [
                (way, chance, token, row + i)
                for i, way in enumerate(beam.ways)
                for chance, token in zip(chances[row + i], tokens[row + i], strict=True)
                if chance > -torch.inf
            ]
            candidates.sort(key=lambda found: -(found[0].total + found[1]))
            row += len(beam.ways)
            self._choose(beam, candidates[: self._enough])
        self._note(before)
        self.running = [beam for beam in self.running if not beam.done]
        if self.running:
            self._go_on([way for beam in self.running for way in beam.ways])

    def _choose(self, beam: _Beam, candidates: list[tuple[_Way, float, int, int]]) -> None:
        last = self.count == self.controls.limit
        beam.ways = []
        for rank, (before, chance, token, row) in enumerate(candidates):
            end = token in self.controls.end
            way = before.onward(token, chance, row, end=end)
            ended = end or self.controls.stops(way.tokens)
            if (ended or last) and rank < self.width:
                beam.end(way, ended=ended)
            elif not ended and not last and len(beam.ways) < self.width:
                beam.ways.append(way)

    def _note(self, before: list[tuple[int, list[int]]]) -> None:
        if self.recorder is not None:
            went_on: list[list[int]] = [[] for _ in before]
            for beam in self.running:
                for way in beam.ways:
                    went_on[way.row].append(way.tokens[-1])
            self.recorder.note([text for text, _ in before], [tokens for _, tokens in before], self.logits, went_on)

    @property
    def _enough(self) -> int:
        return max(2, 1 + len(self.controls.end)) * self.width

    def _likeliest(self) -> tuple[list[list[float]], list[list[int]]]:
        """Log probabilities and tokens of each row's best continuations."""
        chances = log_probabilities(self.logits)
        if self.controls.changes(self.count):
            texts = [beam.history + way.tokens for beam in self.running for way in beam.ways]
            self.controls.apply_(chances, texts, self.count)
        values, tokens = top(chances, self._enough)
        return values.tolist(), tokens.tolist()

    def _go_on(self, ways: list[_Way]) -> None:
        rows = [way.row for way in ways]
        tokens = torch.tensor([way.tokens[-1] for way in ways], device=self.logits.device)
        if rows != list(range(self.logits.shape[0])):
            self.state = self.state.select(torch.tensor(rows, device=self.logits.device))
        self.logits, self.state = self.model.step(tokens, self.state)
