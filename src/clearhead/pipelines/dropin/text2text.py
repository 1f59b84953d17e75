"""`pipeline("text2text-generation")`, "translation" and "summarization": what an encoder–decoder makes of a text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import BadInput, require
from clearhead.models.t5 import T5Config
from clearhead.pipelines.dropin.calls import feed, settle
from clearhead.pipelines.dropin.generation import WriteOptions
from clearhead.pipelines.manner import BEAMS
from clearhead.pipelines.model import Model
from clearhead.pipelines.portions import Portions, portions
from clearhead.pipelines.retell import LONGEST as SUMMARY
from clearhead.pipelines.retell import USUAL, WINDOW, prefix_of
from clearhead.pipelines.translate import check_reads, room_for

_MOST = 256  # new tokens, if nobody says how many
_START = 1  # the start token, which v4's max_length counts
# the languages that T5 was taught, by the codes that pipelines are named with
_LANGUAGES = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}
_NAMED = re.compile(r"translation_(\w+)_to_(\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextOptions(WriteOptions):
    """`src_lang` and `tgt_lang` are codes such as "en", for T5, which is told in words what to do."""

    src_lang: str | None = None
    tgt_lang: str | None = None


class Text2Text:
    """Dictionaries with generated_text; for `return_tensors`, with generated_token_ids.

    v4 truncates a text that is longer than the model, or fails; here it is cut at sentences and read to its end.
    """

    key = "generated"
    beams = 1  # unless the options say otherwise

    def __init__(self, model: Model, **options: Any) -> None:
        check_reads(model.writer)
        self.model = model
        self._said = options
        self._settled({})

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Write one text anew, many, or a stream."""
        chosen = self._settled(options)
        found = feed(inputs, lambda texts: self._results(texts, chosen), chosen)
        # as in v4: a list of single results is flat, and so is the list that one text gets
        single = chosen.num_return_sequences == 1
        return [one for (one,) in found] if isinstance(inputs, list) and single else found

    def prefix(self, chosen: TextOptions) -> str:
        """What stands before every text."""
        return ""

    def defaults(self) -> dict[str, Any]:
        """What this task's options are, where nobody says otherwise."""
        return {}

    def _settled(self, options: dict[str, Any]) -> TextOptions:
        return settle(TextOptions, self.defaults(), self._said, options)

    def _results(self, texts: Sequence[Any], chosen: TextOptions) -> Iterator[list[dict[str, Any]]]:
        for text in texts:
            require(isinstance(text, str), f"An input is a text, not {text!r}.", BadInput)
        writer, prefix = self.model.writer, self.prefix(chosen)
        limit = room_for(writer, prefix, WINDOW)
        manner = chosen.manner(_START, beams=self.beams)
        cut = [portions(writer.tokenizer, text, limit, whole=True) for text in texts]
        read = writer.ids([prefix + portion for one in cut for portion in one.texts or [""]])
        written = iter(writer.write(read, [chosen.most(_START, _MOST)] * len(read), manner))
        for one in cut:
            found = [next(written) for _ in one.texts or [""]]
            yield [self._dictionary(one, [ways[way].tokens for ways in found], chosen) for way in range(manner.best)]

    def _dictionary(self, cut: Portions, new: list[list[int]], chosen: TextOptions) -> dict[str, Any]:
        if chosen.return_tensors:
            return {f"{self.key}_token_ids": [token for tokens in new for token in tokens]}
        decoded = [self.model.tokenizer.decode(tokens) for tokens in new]
        return {f"{self.key}_text": cut.join(decoded) if cut.spans else decoded[0]}


class Summarization(Text2Text):
    """Dictionaries with summary_text; a T5 is told to summarise, as its own files say."""

    key = "summary"
    beams = BEAMS

    def prefix(self, chosen: TextOptions) -> str:
        """T5's word for it."""
        return prefix_of(self.model.writer)

    def defaults(self) -> dict[str, Any]:
        """T5's own settings for summaries."""
        if not isinstance(self.model.writer.config, T5Config):
            return {}
        return {
            "length_penalty": USUAL["length_penalty"],
            "no_repeat_ngram_size": USUAL["no_repeat"],
            "min_length": USUAL["least"],
            "max_length": SUMMARY,
        }


class Translation(Text2Text):
    """Dictionaries with translation_text; four beams, unless `num_beams` says otherwise."""

    key = "translation"
    beams = BEAMS

    def prefix(self, chosen: TextOptions) -> str:
        """T5 is told the languages in words; an OPUS-MT model knows its own."""
        if not isinstance(self.model.writer.config, T5Config):
            return ""
        codes = (chosen.src_lang, chosen.tgt_lang)
        require(
            all(code in _LANGUAGES for code in codes),
            f"a T5 must be told src_lang and tgt_lang, got {codes[0]!r} and {codes[1]!r}; "
            f"choose among {', '.join(_LANGUAGES)}",
            BadInput,
        )
        first, second = (_LANGUAGES[str(code)] for code in codes)
        return f"translate {first} to {second}: "


def languages(task: str) -> tuple[str, str] | None:
    """The two codes of a task named translation_xx_to_yy."""
    named = _NAMED.fullmatch(task)
    return None if named is None else (named[1], named[2])
