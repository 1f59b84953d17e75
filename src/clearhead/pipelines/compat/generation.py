"""Drop-in pipelines for text generation, text to text, translation and summarisation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.decoding.config import BEAMS, GenerationConfig, Sampling, WritingHabits
from clearhead.decoding.decoder import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.models.rnnlm import RecurrentLM
from clearhead.models.t5 import T5Config
from clearhead.pipelines.compat.base import Options, Pipeline, at_least_one
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.model import Model
from clearhead.pipelines.summarisation import MAX_NEW_TOKENS as SUMMARY
from clearhead.pipelines.summarisation import TLDR, USUAL, WINDOW, summary_prefix
from clearhead.pipelines.translation import (
    Prefix,
    SentenceChunks,
    check_reads,
    room_for,
    sentence_chunks,
    t5_prefix,
    told_languages,
)

_TOP_K = 50  # what `generate` samples from unless told otherwise
_NEW_TOKENS = 256  # at most, unless told otherwise
_START = 1  # the start token, which v4's max_length counts


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateOptions(Options):
    """As in v4: `max_length` counts the prompt too, `max_new_tokens` does not and goes first.

    `num_beams` and `do_sample` choose the way; `stop_sequence` is an older name of `stop_strings`. What is None is as
    the model's own files say.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None
    min_length: int | None = None
    num_beams: int | None = None
    num_return_sequences: int = 1
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    length_penalty: float | None = None
    early_stopping: bool | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    stop_strings: str | Sequence[str] | None = None
    stop_sequence: str | Sequence[str] | None = None
    return_tensors: bool = False

    def limit(self, prompt: int, habits: WritingHabits) -> int:
        """How many new tokens at most after a prompt of so many."""
        if self.max_new_tokens is not None:
            at_least_one("max_new_tokens", self.max_new_tokens)
            return self.max_new_tokens
        if self.max_length is None:
            return habits.max_new_tokens or _NEW_TOKENS
        free = self.max_length - prompt
        require(free > 0, f"max_length={self.max_length} leaves no room after {prompt} tokens; add to it", BadInput)
        return free

    def config(self, prompt: int, habits: WritingHabits, *, beams: int = 1) -> GenerationConfig:
        """The same as `Model.generate` has it; `beams` are the task's, unless the options say otherwise."""
        several = self.num_return_sequences
        at_least_one("num_return_sequences", several)
        usual: dict[str, Any] = {**habits.usual(self.limit(prompt, habits))}
        drawn: dict[str, Any] = {"temperature": 1.0, "top_k": _TOP_K, "top_p": 1.0}
        drawn |= {name: usual.pop(name) for name in drawn if name in usual}
        drawn |= {name: value for name in drawn if (value := getattr(self, name)) is not None}
        usual.pop("seed", None)  # torch's own generator is what draws, as there
        do_sample = (habits.samples and self.num_beams in (None, 1)) if self.do_sample is None else self.do_sample
        beams = self.num_beams if self.num_beams is not None else 1 if do_sample else beams
        at_least_one("num_beams", beams)
        enough = do_sample or several <= beams
        require(
            enough, f"num_return_sequences={several} needs num_beams={several} or more, or do_sample=True", BadInput
        )
        stop = self.stop_strings or self.stop_sequence or ()
        least = self.min_new_tokens if self.min_length is None else max(0, self.min_length - prompt)
        said = {"min_new_tokens": self.min_new_tokens or least}
        said |= {name: getattr(self, name) for name in _SAID}
        usual |= {name: value for name, value in said.items() if value is not None}
        return GenerationConfig(
            **{name: value for name, value in usual.items() if name != "num_beams"},
            num_beams=beams,
            num_return_sequences=several,
            sampling=Sampling(**drawn) if do_sample else None,
            stop_strings=(stop,) if isinstance(stop, str) else tuple(stop),
        )


_SAID = ("length_penalty", "early_stopping", "repetition_penalty", "no_repeat_ngram_size")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextGenerationOptions(GenerateOptions):
    """`return_full_text`: the prompt with what follows, or only what follows; `prefix` stands before every prompt."""

    return_full_text: bool | None = None
    prefix: str = ""
    handle_long_generation: str | None = None


class TextGeneration(Pipeline[TextGenerationOptions]):
    """For each prompt a list of dictionaries with generated_text, or with generated_token_ids for `return_tensors`.

    v5 samples unless told `do_sample=False`; here, as in v4, you or the model's files say `do_sample=True`. Chats are
    refused.
    """

    options = TextGenerationOptions

    def _check(self) -> None:
        """Refuse a model that reads a source."""
        if self.model.generator.sourced:
            raise WrongTask("this model reads a source; its pipelines are text2text-generation and translation")

    def __call__(self, text_inputs: Any, **options: Any) -> Any:  # type: ignore[override] # the name is v4's
        """Go on from one prompt, from many, or from a stream."""
        return super().__call__(text_inputs, **options)

    def _results(self, inputs: Sequence[Any], options: TextGenerationOptions) -> Iterator[list[dict[str, Any]]]:
        for prompt in inputs:
            text = isinstance(prompt, str)
            require(text, f"A prompt is a text, not {prompt!r}; chats need a chat template.", BadInput)
        known = (long := options.handle_long_generation) in (None, "hole")
        require(known, f"handle_long_generation={long!r} is not known; 'hole' is", BadInput)
        writer = self.model.generator
        ids = writer.ids([options.prefix + prompt for prompt in inputs])
        limits = [options.limit(len(one), writer.habits) for one in ids]
        if long is not None and writer.positions is not None:
            ids = [one[-max(1, writer.positions - new) :] for one, new in zip(ids, limits, strict=True)]
        alike: dict[GenerationConfig, list[int]] = {}
        for place, one in enumerate(ids):
            alike.setdefault(options.config(len(one), writer.habits), []).append(place)
        found: dict[int, list[Output]] = {}
        for config, places in alike.items():
            written = writer.write([ids[i] for i in places], [limits[i] for i in places], config)
            found |= dict(zip(places, written, strict=True))
        for place, (prompt, read) in enumerate(zip(inputs, ids, strict=True)):
            yield [self._dictionary(prompt, read, output, options) for output in found[place]]

    def _dictionary(
        self, prompt: str, read: list[int], output: Output, options: TextGenerationOptions
    ) -> dict[str, Any]:
        if options.return_tensors:
            by_end = output.ended and len(output.log_probabilities) > len(output.tokens)
            return {"generated_token_ids": [*read, *output.tokens, *([self.model.generator.end] if by_end else [])]}
        # what the prompt's tokens are decoded to may differ from the prompt, so that the new text is a difference
        before, whole = (self.model.tokenizer.decode(tokens) for tokens in (read, [*read, *output.tokens]))
        text = whole[len(before) :]
        return {"generated_text": text if options.return_full_text is False else prompt + text}


@dataclass(frozen=True, kw_only=True, slots=True)
class Text2TextOptions(GenerateOptions):
    """`src_lang` and `tgt_lang` are codes such as "en" for T5, which is told in words, and "eng_Latn" for NLLB."""

    src_lang: str | None = None
    tgt_lang: str | None = None


class Text2Text(Pipeline[Text2TextOptions]):
    """Dictionaries with generated_text; for `return_tensors`, with generated_token_ids.

    v4 truncates a text that is longer than the model, or fails; here it is cut at sentences and read to its end.
    """

    options = Text2TextOptions
    key = "generated"
    beams = 1  # unless the options say otherwise

    def _check(self) -> None:
        """Refuse a model that reads no source."""
        check_reads(self.model.generator)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """Write one text anew, many, or a stream."""
        found = super().__call__(inputs, **options)
        # as in v4: a list of single results is flat, and so is the list that one text gets
        single = self._choose(options).num_return_sequences == 1
        return [one for (one,) in found] if isinstance(inputs, list) and single else found

    def _told(self, options: Text2TextOptions) -> tuple[Generator, Prefix]:
        """What writes, and what stands before a text."""
        return self.model.generator, lambda text: ""

    def _suffix(self, writer: Generator) -> str:
        """What stands after every text."""
        return ""

    def _results(self, inputs: Sequence[Any], options: Text2TextOptions) -> Iterator[list[dict[str, Any]]]:
        for text in inputs:
            require(isinstance(text, str), f"An input is a text, not {text!r}.", BadInput)
        writer, prefix = self._told(options)
        suffix, most = self._suffix(writer), options.limit(_START, writer.habits)
        new = 0 if writer.sourced else most
        config = options.config(_START, writer.habits, beams=writer.habits.options.get("num_beams", self.beams))
        before = [prefix(text) for text in inputs]
        room = {told: room_for(writer, told + suffix, WINDOW, new) for told in dict.fromkeys(before)}
        texts = list(zip(before, inputs, strict=True))
        cut = [sentence_chunks(writer.tokenizer, text, room[told], whole=True) for told, text in texts]
        parts = [(told, part) for told, one in zip(before, cut, strict=True) for part in one.texts or [""]]
        read = writer.ids([told + part + suffix for told, part in parts])
        written = iter(writer.write(read, [most] * len(read), config))
        for one in cut:
            found = [next(written) for _ in one.texts or [""]]
            several = range(config.num_return_sequences)
            yield [self._dictionary(one, [ways[way].tokens for ways in found], options) for way in several]

    def _dictionary(self, cut: SentenceChunks, new: list[list[int]], options: Text2TextOptions) -> dict[str, Any]:
        if options.return_tensors:
            return {f"{self.key}_token_ids": [token for tokens in new for token in tokens]}
        decoded = [self._text(tokens) for tokens in new]
        return {f"{self.key}_text": cut.join(decoded) if cut.spans else decoded[0]}

    def _text(self, tokens: list[int]) -> str:
        return self.model.tokenizer.decode(tokens)


class Summarization(Text2Text):
    """Dictionaries with summary_text; a T5 is told to summarise, as its own files say, a GPT goes on from "TL;DR:"."""

    key = "summary"
    beams = BEAMS

    def __init__(self, model: Model, task: str = "", **options: Any) -> None:
        if isinstance(model.generator.config, T5Config):
            usual = {"min_length" if name == "min_new_tokens" else name: value for name, value in USUAL.items()}
            options = {**usual, "max_length": SUMMARY, **options}
        super().__init__(model, task, **options)

    def _check(self) -> None:
        """Refuse a model that remembers no text of several sentences."""
        if isinstance(self.model.network, RecurrentLM):
            check_reads(self.model.generator)

    def _told(self, options: Text2TextOptions) -> tuple[Generator, Prefix]:
        """T5's word for it."""
        writer = self.model.generator_for("summarization")
        told = summary_prefix(writer)
        return writer, lambda text: told

    def _suffix(self, writer: Generator) -> str:
        """A GPT's."""
        return "" if writer.sourced else TLDR

    def _text(self, tokens: list[int]) -> str:
        text = super()._text(tokens)
        return text if self.model.generator.sourced else text.strip()  # after a suffix comes a new line, or a space


class Translation(Text2Text):
    """Dictionaries with translation_text; four beams, unless `num_beams` says otherwise."""

    key = "translation"
    beams = BEAMS

    def _told(self, options: Text2TextOptions) -> tuple[Generator, Prefix]:
        """T5 is told the languages in words, a model of many by tokens; an OPUS-MT model knows its own."""
        writer = self.model.generator
        if isinstance(writer.config, T5Config):
            told = t5_prefix(options.src_lang, options.tgt_lang)
            return writer, lambda text: told
        languages, target = writer.tokenizer.languages, options.tgt_lang
        if languages is None:
            return writer, lambda text: ""
        if (
            languages.place == "target" and not languages.directions
        ):  # the pipeline's name may say what an OPUS-MT calls otherwise
            return told_languages(writer, None, target if target in languages.ids else None)
        return told_languages(writer, options.src_lang, target)
