"""`pipeline("fill-mask")`: the best tokens for each mask."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.pipelines.dropin.calls import Options, at_least_one, feed, settle
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.fill import Filled, fill
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class FillOptions(Options):
    """`top_k` predictions a mask; with `targets`, only these words, or the first piece of one that is no token."""

    top_k: int | None = None
    targets: str | Sequence[str] | None = None


class FillMask:
    """Dictionaries with score, token, token_str and sequence; of several masks, one list for each.

    v4 fails on a text longer than the model; here it is read in windows, each mask where it sees most.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        check_head(model.network, "masked_lm")
        self.model = model
        self._said = options
        settle(FillOptions, options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Fill the masks of one text, of many, or of a stream."""
        chosen = settle(FillOptions, self._said, options)
        found = feed(inputs, lambda texts: self._results(texts, chosen), chosen)
        # v4 gives a list of one text the result of that text
        return found[0] if isinstance(inputs, list) and len(inputs) == 1 else found

    def _results(self, texts: Sequence[str], chosen: FillOptions) -> Iterator[Any]:
        tokenizer = self.model.tokenizer
        top = 5 if chosen.top_k is None else chosen.top_k
        at_least_one("top_k", top)
        targets = None if chosen.targets is None else _target_ids(tokenizer, chosen.targets)
        filled = fill(self.model.network, tokenizer, texts, top=top, candidates=targets)
        for text, found in zip(texts, filled, strict=True):
            yield _dictionaries(tokenizer, text, found)


def _dictionaries(tokenizer: Tokenizer, text: str, found: Filled) -> list[Any]:
    ids = tokenizer.encode(text).ids
    masks = [position for position, token in enumerate(ids) if token == tokenizer.mask_id]
    single = len(masks) == 1
    rows: list[list[dict[str, Any]]] = [[] for _ in masks]
    for one in found.predictions:
        position = masks[one.mask]
        # with several masks the special tokens are written too, since the other masks are among them
        sequence = tokenizer.decode([*ids[:position], one.id, *ids[position + 1 :]], special=not single)
        token = tokenizer.decode([one.id], special=True)
        rows[one.mask].append({"score": one.score, "token": one.id, "token_str": token, "sequence": sequence})
    return rows[0] if single else rows


def _target_ids(tokenizer: Tokenizer, targets: str | Sequence[str]) -> list[int]:
    found = []
    for target in [targets] if isinstance(targets, str) else targets:
        token = tokenizer.token_to_id(target)
        if token is None:
            pieces = tokenizer.pieces(target).ids
            if not pieces:
                log.warning("target=%r has no tokens and is left out", target)
                continue
            token = pieces[0]
            log.warning("target=%r is not in the vocabulary; %r stands for it", target, tokenizer.id_to_token(token))
        found.append(token)
    require(bool(found), f"targets={targets!r} has no word with a token; name at least one", BadInput)
    return found
