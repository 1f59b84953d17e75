"""One token after another: the most probable (greedy), or one that is drawn (sampling)."""

# B rows still running · V vocabulary

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

from clearhead.decoding.config import Controls, Sampling
from clearhead.decoding.decoder import Decoder, Output, Recorder, check_numbers, log_probabilities
from clearhead.errors import BadInput, renamed

_CHUNK = 128
_WORTH = 8  # chunks a row must have for each value that is wanted
_FEWEST = 32  # chunks a row must have at all


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest scores (B, V) of each row and their places, both (B, count), largest first.

    On a CPU, a look at the largest of each chunk finds the chunks that can hold them, which is much less to sort.
    """
    count = min(count, scores.shape[-1])
    chunks = scores.shape[-1] // _CHUNK
    if scores.device.type != "cpu" or chunks < max(_FEWEST, _WORTH * count):
        return tuple(scores.topk(count))  # type: ignore[return-value]
    whole = chunks * _CHUNK
    parts = scores[:, :whole].unflatten(1, (chunks, _CHUNK))
    likely = parts.amax(-1).topk(count).indices  # (B, count)
    places = (likely.unsqueeze(-1) * _CHUNK + torch.arange(_CHUNK)).flatten(1)
    rest = torch.arange(whole, scores.shape[-1]).expand(len(scores), -1)
    places = torch.cat([places, rest], 1)
    values, found = scores.gather(1, places).topk(count)
    return values, places.gather(1, found)


Texts = Sequence[Sequence[int]]
Choose = Callable[[Tensor, Sequence[int]], Tensor]  # of scores (B, V) and the text of each row


def greedy(
    model: Decoder,
    prompts: Texts,
    controls: Controls,
    *,
    history: Texts | None = None,
    recorder: Recorder | None = None,
) -> list[Output]:
    """Write the likeliest token each time. `history` is what the rules on repetition count as written before.

    For a decoder-only model that is the prompts; a source is no history.
    """
    return _Decoding(model, prompts, controls, history, recorder, _likeliest).finish()


@renamed(chance="rngs")
def sample(
    model: Decoder,
    prompts: Texts,
    controls: Controls,
    sampling: Sampling,
    *,
    rngs: Sequence[Random],
    history: Texts | None = None,
    recorder: Recorder | None = None,
) -> list[Output]:
    """Draw each token by its probability; every text by its own rng, whatever runs beside it."""
    return _Decoding(model, prompts, controls, history, recorder, _drawing(sampling, rngs)).finish()


@renamed(chance="rng")
def stream(
    model: Decoder,
    prompt: Sequence[int],
    controls: Controls,
    sampling: Sampling | None = None,
    *,
    rng: Random | None = None,
    history: Sequence[int] | None = None,
) -> Iterator[int]:
    """Give the tokens of one text as they are written, greedily unless there is a `sampling`."""
    if sampling is not None and rng is None:
        raise BadInput("sampling needs something to draw with; give rng=random.Random(0)")
    choose = _likeliest if sampling is None or rng is None else _drawing(sampling, [rng])
    decoding = _Decoding(model, [prompt], controls, None if history is None else [history], None, choose)
    while decoding.running:
        before = len(decoding.drafts[0].tokens)
        decoding.advance()
        yield from decoding.drafts[0].tokens[before:]


@dataclass
class Rows:
    """Texts in the making, one or several rows of the model's state each; those that have ended leave the batch."""

    model: Decoder
    prompts: Texts
    controls: Controls
    history: Texts | None
    recorder: Recorder | None

    def __post_init__(self) -> None:
        self.before = [list(seen) for seen in self.history or [()] * len(self.prompts)]
        if self.prompts:
            with torch.inference_mode():
                self.logits, self.state = self.model.begin(self.prompts)

    def go_on(self, tokens: Tensor, rows: list[int]) -> None:
        """Append a token to each of these rows of the state; the others leave."""
        if rows != list(range(self.logits.shape[0])):
            self.state = self.state.select(torch.tensor(rows, device=tokens.device))
        self.logits, self.state = self.model.step(tokens, self.state)


@dataclass
class _Draft:
    """One text in the making."""

    history: list[int]
    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    ended: bool = False


@dataclass
class _Decoding(Rows):
    """One row of each text."""

    choose: Choose

    def __post_init__(self) -> None:
        super().__post_init__()
        self.drafts = list(map(_Draft, self.before))
        self.running = list(range(len(self.drafts)))  # which text each row of the state is

    def finish(self) -> list[Output]:
        """Write all texts to their ends."""
        while self.running:
            self.advance()
        return [Output(one.tokens, sum(one.log_probabilities), one.log_probabilities, one.ended) for one in self.drafts]

    @torch.inference_mode()
    def advance(self) -> None:
        """Write one token of every running text."""
        drafts = [self.drafts[text] for text in self.running]
        count = len(drafts[0].tokens)
        texts = [draft.history + draft.tokens for draft in drafts] if self.controls.reads else []
        log_probs = log_probabilities(self.logits)
        try:
            tokens = self.choose(self.controls.apply(self.logits, texts, count), self.running)
        except BadInput:  # the rules may not be to blame
            check_numbers(log_probs[:, 0].tolist())
            raise
        # in one piece, since a GPU is waited for each time
        chosen, found = _columns(tokens, log_probs.gather(1, tokens[:, None])[:, 0])
        check_numbers(found)
        if self.recorder is not None:
            written = [draft.tokens for draft in drafts]
            self.recorder.note(self.running, written, self.logits, [[token] for token in chosen])
        full = count + 1 == self.controls.max_new_tokens
        if self.controls.forced(count) is not None:
            found = [0.0] * len(chosen)
        for draft, token, log_prob in zip(drafts, chosen, found, strict=True):
            draft.log_probabilities.append(log_prob)
            if token in self.controls.end:
                draft.ended = not full or self.controls.last is None  # else the end is the limit's
            else:
                draft.tokens.append(token)
                draft.ended = self.controls.stops(draft.tokens)
        rows = [row for row, draft in enumerate(drafts) if not (full or draft.ended)]
        self.running = [self.running[row] for row in rows]
        if rows:
            self.go_on(tokens if len(rows) == len(drafts) else tokens[rows], rows)


def _columns(tokens: Tensor, log_probs: Tensor) -> tuple[list[int], list[float]]:
    chosen, found = torch.stack([tokens.double(), log_probs.double()]).tolist()
    return list(map(int, chosen)), found


def _likeliest(logits: Tensor, _: Sequence[int]) -> Tensor:
    return top(logits, 1)[1][:, 0] if logits.device.type == "cpu" else logits.argmax(-1)


def _drawing(sampling: Sampling, rngs: Sequence[Random]) -> Choose:
    return lambda logits, texts: sampling.draw(logits, [rngs[text] for text in texts])
