"""`pipeline("token-classification")`, also called "ner": labels of tokens, or entities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.pipelines.dropin.calls import Options, feed, settle
from clearhead.pipelines.dropin.entities import Unit, entities_of, longest_of_overlapping, units_of, words_of
from clearhead.pipelines.engine import check_head
from clearhead.pipelines.model import Model
from clearhead.pipelines.tag import TagWindows, tag_windows

_STRATEGIES = ("none", "simple", "first", "average", "max")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenOptions(Options):
    """As in v4; `grouped_entities` and `ignore_subwords` are its older way of naming a strategy.

    With `stride`, windows of a long text share so many pieces, and of entities that overlap the longest is kept;
    without, each piece counts in the window where it sees most. `delimiter` stands between words that are given.
    """

    aggregation_strategy: str | None = None
    ignore_labels: Sequence[str] | None = None
    stride: int | None = None
    is_split_into_words: bool = False
    delimiter: str | None = None
    grouped_entities: bool | None = None
    ignore_subwords: bool | None = None

    def __post_init__(self) -> None:
        known = ", ".join(_STRATEGIES)
        fits = self.strategy in _STRATEGIES
        require(fits, f"aggregation_strategy={self.aggregation_strategy!r} is not known; choose {known}", BadInput)
        joins = self.stride is None or self.strategy != "none"
        require(joins, "stride needs an aggregation_strategy other than none", BadInput)

    @property
    def strategy(self) -> str:
        """How pieces become entities."""
        older = "none" if not self.grouped_entities else "first" if self.ignore_subwords else "simple"
        return str(self.aggregation_strategy or older).lower()


class TokenClassification:
    """Dictionaries with entity, score, index, word, start, end; of entities: entity_group, score, word, start, end.

    text[start:end] is the entity. v4 truncates a text longer than the model unless `stride` is given; here it is
    always read in windows.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        check_head(model.network, "tags")
        self.model = model
        self._said = options
        settle(TokenOptions, options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Label the tokens of one text, of many, or of a stream; of lists of words with `is_split_into_words`."""
        chosen = settle(TokenOptions, self._said, options)
        if chosen.is_split_into_words and isinstance(inputs, list) and all(isinstance(one, str) for one in inputs):
            inputs = [inputs]
        return feed(inputs, lambda texts: self._results(texts, chosen), chosen)

    def _results(self, texts: Sequence[Any], chosen: TokenOptions) -> Iterator[list[dict[str, Any]]]:
        for one in texts:
            fits = isinstance(one, list if chosen.is_split_into_words else str)
            require(fits, f"A text is a string, or a list with is_split_into_words=True, not {one!r}.", BadInput)
        ignored = ("O",) if chosen.ignore_labels is None else chosen.ignore_labels
        for read in tag_windows(self.model.network, self.model.tokenizer, texts, overlap=chosen.stride):
            found = self._found(read, chosen)
            kept = [one for one in found if one.get("entity", one.get("entity_group")) not in ignored]
            yield longest_of_overlapping(kept) if chosen.stride is not None else kept

    def _found(self, read: TagWindows, chosen: TokenOptions) -> Iterator[dict[str, Any]]:
        striding = chosen.stride is not None
        delimiter = " " if chosen.delimiter is None else chosen.delimiter
        parts = units_of(self.model.tokenizer, read, delimiter=delimiter, every=striding)
        for units in parts if striding else [[unit for part in parts for unit in part]]:
            match chosen.strategy:
                case "none":
                    yield from (self._token(unit) for unit in units)
                case "simple":
                    yield from entities_of(self.model.tokenizer, units, self.model.labels)
                case words:
                    yield from entities_of(self.model.tokenizer, words_of(units, words), self.model.labels)

    def _token(self, unit: Unit) -> dict[str, Any]:
        label, score = unit.best(self.model.labels)
        place = {"index": unit.index, "word": unit.tokens[0], "start": unit.start, "end": unit.end}
        return {"entity": label, "score": score, **place}
