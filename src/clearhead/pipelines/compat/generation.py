"""Drop-in pipelines for text generation, text to text, translation and summarisation."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.decoding.config import BEAMS, GenerationConfig, Sampling
from clearhead.decoding.decoder import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.models.t5 import T5Config
from clearhead.pipelines.compat.calls import Options, at_least_one, feed, settle
from clearhead.pipelines.model import Model
from clearhead.pipelines.summarisation import LONGEST as SUMMARY
from clearhead.pipelines.summarisation import USUAL, WINDOW, prefix_of
from clearhead.pipelines.translation import Portions, check_reads, portions, room_for

_TOP_K = 50  # what `generate` draws among unless told otherwise


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions(Options):
    """As in v4: `max_length` counts the prompt too, `max_new_tokens` does not and goes first.

    `num_beams` and `do_sample` choose the way; `stop_sequence` is an older name of `stop_strings`. Beams stop when no
    beginning can be better, so that `early_stopping` changes nothing; neither does `pad_token_id`.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None
    min_length: int | None = None
    num_beams: int | None = None
    num_return_sequences: int = 1
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    length_penalty: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    stop_strings: str | Sequence[str] | None = None
    stop_sequence: str | Sequence[str] | None = None
    early_stopping: bool | str | None = None
    pad_token_id: int | None = None
    return_tensors: bool = False
    return_text: bool | None = None
    clean_up_tokenization_spaces: bool | None = None

    def most(self, prompt: int, default: int) -> int:
        """How many new tokens after a prompt of so many; of a source, none count."""
        if self.max_new_tokens is not None:
            at_least_one("max_new_tokens", self.max_new_tokens)
            return self.max_new_tokens
        if self.max_length is None:
            return default
        free = self.max_length - prompt
        require(free > 0, f"max_length={self.max_length} leaves no room after {prompt} tokens; add to it", BadInput)
        return free

    def manner(self, prompt: int, *, beams: int = 1) -> GenerationConfig:
        """The same as `Model.generate` has it; `beams` are those of a pipeline that nobody told how many."""
        at_least_one("num_return_sequences", self.num_return_sequences)
        usual = 1 if self.do_sample else beams
        wide = usual if self.num_beams is None else self.num_beams
        at_least_one("num_beams", wide)
        several = self.num_return_sequences
        require(
            self.do_sample or several <= wide,
            f"num_return_sequences={several} needs num_beams={several} or more, or do_sample=True",
            BadInput,
        )
        least = self.min_new_tokens or max(0, (self.min_length or 0) - prompt)
        stop = self.stop_strings or self.stop_sequence or ()
        top_k = _TOP_K if self.top_k is None else self.top_k
        return GenerationConfig(
            beams=wide,
            best=self.num_return_sequences,
            length_penalty=self.length_penalty,
            sampling=Sampling(temperature=self.temperature, top_k=top_k, top_p=self.top_p) if self.do_sample else None,
            least=least,
            repetition_penalty=self.repetition_penalty,
            no_repeat=self.no_repeat_ngram_size,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )


_MOST = 256  # new tokens, if nobody says how many


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions(WriteOptions):
    """`return_full_text`: the prompt with what follows, or only what follows; `prefix` stands before every prompt."""

    return_full_text: bool | None = None
    prefix: str = ""
    add_special_tokens: bool | None = None
    handle_long_generation: str | None = None


class TextGeneration:
    """For each prompt a list of dictionaries with generated_text, or with generated_token_ids for `return_tensors`.

    v5 draws by chance unless told `do_sample=False`; here, as in v4, chance must be asked for. Chats are refused.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        if model.writer.sourced:
            raise WrongTask("this model reads a source; its pipelines are text2text-generation and translation")
        self.model = model
        self._said = options
        settle(GenerationOptions, options)

    def __call__(self, text_inputs: Any, **options: Any) -> Any:
        """Go on from one prompt, from many, or from a stream."""
        chosen = settle(GenerationOptions, self._said, options)
        return feed(text_inputs, lambda prompts: self._results(prompts, chosen), chosen)

    def _results(self, prompts: Sequence[Any], chosen: GenerationOptions) -> Iterator[list[dict[str, Any]]]:
        for prompt in prompts:
            require(
                isinstance(prompt, str), f"A prompt is a text, not {prompt!r}; chats need a chat template.", BadInput
            )
        require(
            chosen.handle_long_generation in (None, "hole"),
            f"handle_long_generation={chosen.handle_long_generation!r} is not known; 'hole' is",
            BadInput,
        )
        writer = self.model.writer
        ids = writer.ids([chosen.prefix + prompt for prompt in prompts])
        limits = [chosen.most(len(one), _MOST) for one in ids]
        if chosen.handle_long_generation == "hole" and writer.positions is not None:
            ids = [one[-max(1, writer.positions - most) :] for one, most in zip(ids, limits, strict=True)]
        ways: dict[GenerationConfig, list[int]] = {}
        for place, one in enumerate(ids):
            ways.setdefault(chosen.manner(len(one)), []).append(place)
        found: dict[int, list[Output]] = {}
        for manner, places in ways.items():
            written = writer.write([ids[i] for i in places], [limits[i] for i in places], manner)
            found |= dict(zip(places, written, strict=True))
        for place, (prompt, read) in enumerate(zip(prompts, ids, strict=True)):
            yield [self._dictionary(prompt, read, output, chosen) for output in found[place]]

    def _dictionary(self, prompt: str, read: list[int], output: Output, chosen: GenerationOptions) -> dict[str, Any]:
        if chosen.return_tensors:
            by_end = output.ended and len(output.log_probabilities) > len(output.tokens)
            return {"generated_token_ids": [*read, *output.tokens, *([self.model.writer.end] if by_end else [])]}
        # what the prompt's tokens are decoded to may differ from the prompt, so that the new text is a difference
        before, whole = (self.model.tokenizer.decode(tokens) for tokens in (read, [*read, *output.tokens]))
        text = whole[len(before) :]
        return {"generated_text": text if chosen.return_full_text is False else prompt + text}


_MOST_WRITTEN = 256  # new tokens, if nobody says how many
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
        written = iter(writer.write(read, [chosen.most(_START, _MOST_WRITTEN)] * len(read), manner))
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
