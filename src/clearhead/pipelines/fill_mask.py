"""Which word stands behind a mask: every mask of a text by itself, from the vocabulary or among given words."""

# M masks of a batch · V vocabulary · k best

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from clearhead.data.batch import Batch
from clearhead.errors import BadInput, require
from clearhead.io import Progress
from clearhead.pipelines.results import Filled as Filled
from clearhead.pipelines.results import Prediction as Prediction
from clearhead.pipelines.runner import check_head, read_windows, windows_of_texts
from clearhead.text import Tokenizer, Window
from clearhead.text.packed import Ints, starts_of

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model


def fill(
    model: "Model",
    texts: Iterable[str],
    top_k: int,
    candidates: Sequence[str | int] | None,
    progress: Progress | None = None,
) -> Iterator[Filled]:
    """Fill the masks of texts, in order; a long text is read in windows, each mask where it sees most.

    Masks are filled independently of one another. With `candidates`, only these words (or token ids) are ranked; their
    scores are still probabilities among the whole vocabulary, as in transformers.
    """
    network, tokenizer = model.network, model.tokenizer
    check_head(network, "masked_lm")
    require(top_k > 0, f"top_k={top_k} predictions cannot be given; choose 1 or more", BadInput)
    allowed = None if candidates is None else _candidate_ids(tokenizer, candidates)

    forward = _BestTokens(network, tokenizer.mask_id, top_k, allowed)

    def divide(ids: Ints, lengths: Ints) -> Ints:
        """A row for each mask."""
        return np.diff(starts_of(ids == tokenizer.mask_id)[starts_of(lengths)])

    limit = network.encoder.max_length
    read = read_windows(network, forward, divide, texts, lambda chunk: _windows(tokenizer, chunk, limit), progress)
    return (_result(tokenizer, *found) for found in read)


@dataclass(frozen=True, slots=True)
class _BestTokens:
    """The best tokens of each mask (M, 2, k), probabilities and ids: the vocabulary is too wide to carry along."""

    network: Any
    mask_id: int
    top_k: int
    allowed: tuple[int, ...] | None

    def __call__(self, batch: Batch) -> Tensor:
        """Of all masks of a batch."""
        hidden = self.network.encoder(batch.ids, batch.layout, batch.segments)
        logits = self.network.heads["masked_lm"](hidden, batch.layout, where=batch.ids == self.mask_id)
        scores = logits.float().softmax(-1)
        allowed = None if self.allowed is None else torch.tensor(self.allowed, device=scores.device)
        if allowed is not None:
            scores = scores[:, allowed]
        best, ids = scores.topk(min(self.top_k, scores.shape[-1]))
        if allowed is not None:
            ids = allowed[ids]
        return torch.stack([best, ids.float()], 1)  # a float holds every id of a vocabulary below 2²⁴ exactly


def _windows(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> list[list[Window]]:
    """The windows that are the best one for a mask; the others need not run."""
    mask_id = tokenizer.mask_id
    found = []
    for text, item in zip(texts, windows_of_texts(tokenizer, texts, limit), strict=True):
        wanted = [one for one in item if any(one.encoding.ids[position] == mask_id for position in one.best)]
        todo = f"write {tokenizer.special['mask']} where a word is wanted."
        require(bool(wanted), f"There is no mask in {text[:60]!r}; {todo}", BadInput)
        found.append(wanted)
    return found


def _result(tokenizer: Tokenizer, text: str, item: list[Window], tables: Sequence[Tensor]) -> Filled:
    predictions: list[Prediction] = []
    mask = 0
    for window, table in zip(item, tables, strict=True):
        ids = window.encoding.ids
        masks = [position for position, token in enumerate(ids) if token == tokenizer.mask_id]
        for position, (scores, tokens) in zip(masks, table.tolist(), strict=True):
            span = window.encoding.offsets[position]
            if position not in window.best or span is None:
                continue
            before = ids[position - 1] if position > window.passage.start else None
            for score, token in zip(scores, map(int, tokens), strict=True):
                sequence = _filled(text, span, _written(tokenizer, token, before))
                predictions.append(Prediction(_written(tokenizer, token).strip(), score, sequence, mask, token))
            mask += 1
    return Filled(tuple(predictions))


def _written(tokenizer: Tokenizer, token: int, before: int | None = None) -> str:
    """A token as text, with a space in front if it stands apart from the token before."""
    if before is not None:
        left, both = tokenizer.decode([before], special=True), tokenizer.decode([before, token], special=True)
        if both.startswith(left):
            return both[len(left) :]
    return tokenizer.decode([token], special=True)


def _filled(text: str, span: tuple[int, int], written: str) -> str:
    """The text with a mask replaced; a token that continues the word before it takes the space between away."""
    start, end = span
    start = end - len(text[start:end].lstrip())  # some families count the space before a mask to it
    head = text[:start]
    return (head if written.startswith(" ") else head.rstrip(" ")) + written.strip() + text[end:]


def _candidate_ids(tokenizer: Tokenizer, candidates: Sequence[str | int]) -> tuple[int, ...]:
    several = not isinstance(candidates, str) and len(candidates) > 0
    require(several, f"candidates must be a list of at least one word, not {candidates!r}.", BadInput)
    found: dict[int, None] = dict.fromkeys(one for one in candidates if isinstance(one, int))
    words = [one for one in candidates if isinstance(one, str)]
    # within a text, words follow a space, and some families have tokens of their own for that
    for word, ids in zip(words, tokenizer.ids_batch([f" {word}" for word in words]), strict=True):
        known = ids if len(ids) == 1 else [tokenizer.token_to_id(word)]
        told = f"{len(ids)} tokens to this model ({' '.join(str(tokenizer.id_to_token(i)) for i in ids)})"
        todo = "a mask holds one. Choose words of its vocabulary."
        require(known[0] is not None, f"The candidate {word!r} is {told}; {todo}", BadInput)
        require(known[0] != tokenizer.unk_id, f"The candidate {word!r} is not in the model's vocabulary.", BadInput)
        found[int(known[0] or 0)] = None
    return tuple(found)
