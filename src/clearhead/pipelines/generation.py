"""Text generation: prompts or sources to new text, whole or piece by piece."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from random import Random
from typing import Any, Self, cast

from torch import nn

from clearhead.data.batch import chunks
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls, GenerationConfig, GenerationOptions, WritingHabits, check_length
from clearhead.decoding.decoder import Decoder, Output, Recorder, as_decoder
from clearhead.decoding.generate import greedy, sample, stream
from clearhead.errors import BadCheckpoint, BadInput, InputTooLong, WrongTask, require
from clearhead.hub.checkpoint import GENERATION, source_marks
from clearhead.io import Progress
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.hooks import evaluating
from clearhead.pipelines.results import Written as Written
from clearhead.pipelines.runner import Item, chunks_of_text
from clearhead.text import Tokenizer
from clearhead.text.languages import Around

# texts written at a time: on a CPU the keys of all should stay in its cache; a GPU wants to be filled
_TOGETHER = 64
_TOGETHER_GPU = 512
_ROWS = 8  # of a text: beams or sequences; with more of them, fewer texts are written at a time
# characters to read for each of those texts: neighbours in length are many, and the first results come soon
_AHEAD = 3000


@dataclass(frozen=True)
class Generator:
    """A network with its tokenizer, ready to generate. `sourced`: it reads a source, and writes from nothing.

    `habits` are what its checkpoint says about writing, `around` are the ids before a source and after it. Prompts that
    are `templated` come from a chat template, which writes how they begin.
    """

    module: nn.Module
    model: Decoder
    tokenizer: Tokenizer
    sourced: bool
    habits: WritingHabits = field(default_factory=WritingHabits)
    around: Around | None = None
    templated: bool = False

    @classmethod
    def of(cls, network: Any, tokenizer: Tokenizer, said: Mapping[str, Any] | None = None) -> Self:
        """Take any network that writes, recurrent or not; `said` is what its files say of generation."""
        if isinstance(network, Network):
            sourced = isinstance(network.encoder, EncoderDecoder)
            habits = WritingHabits.read(said or {}, sourced=sourced, name=GENERATION)
            size = network.encoder.config.vocab_size
            for token in (habits.start, habits.first, habits.last, *habits.ends):
                told = f"{GENERATION} names the token {token}, the model has vectors for {size}"
                require(token is None or token < size, f"{told}; they are from different models", BadCheckpoint)
            around = source_marks(tokenizer, network.encoder) if sourced else None
            return cls(network, as_decoder(network, habits.start), tokenizer, sourced, habits, around)
        if not (hasattr(network, "begin") and hasattr(network, "step")):
            raise WrongTask(f"{type(network).__name__} writes no text; choose a model that translates or goes on")
        return cls(network, network, tokenizer, hasattr(network, "read"))

    @property
    def config(self) -> Any:
        """The family's configuration."""
        return self.module.encoder.config if isinstance(self.module, Network) else self.module.config

    @property
    def end(self) -> int:
        """The token that ends a text."""
        end = getattr(self.config, "eos_token_id", None)
        return self.tokenizer.sep_id if end is None else int(end)

    def between(self, source: str | None, target: str | None) -> Self:
        """The same for sources in one language and texts in another, which a token tells; None: as the files say.

        mBART's first models are told the target by the token that they start with, all others by the first they write.
        """
        languages, body = self.tokenizer.languages, cast("Network", self.module).encoder
        assert languages is not None  # noqa: S101
        source, target = source or languages.source, target or languages.target
        forced = any(token in languages.ids.values() for token in (self.habits.first, self.habits.start))
        for name, code, known in (("src_lang (--from)", source, False), ("tgt_lang (--to)", target, forced)):
            some = ", ".join(sorted(languages.ids)[:3])
            say = f"this model knows {len(languages.ids)} languages; say {name}, such as {some}"
            told = f"{say}, or write it into tokenizer_config.json"
            require(code is not None or known, told, BadInput)
        around = source_marks(self.tokenizer, body, source)
        if target is None:
            return replace(self, around=around)
        token = languages.id(target)
        if languages.place == "after":
            return replace(self, around=around, model=as_decoder(cast("Network", self.module), token))
        return replace(self, around=around, habits=replace(self.habits, first=token))

    @property
    def positions(self) -> int | None:
        """Most tokens of a text; recurrent networks know no limit."""
        return self.module.encoder.max_length if isinstance(self.module, Network) else None

    @property
    def together(self) -> int:
        """How many texts are written at a time."""
        on_cpu = next(self.module.parameters()).device.type == "cpu"
        return _TOGETHER if on_cpu else _TOGETHER_GPU

    @property
    def ahead(self) -> int:
        """How many characters of a stream are read before the first of it is written."""
        return _AHEAD * self.together

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts to what is read: a source between its marks; a prompt begins as the tokenizer begins a text."""
        given = self.tokenizer.ids_batch(list(texts))
        if self.sourced:
            before, after = self.around or ((), (self.end,))
            return [[*before, *ids, *after] for ids in given]
        opening = () if self.templated else self.tokenizer.template.around_text[0]
        # a prompt of nothing begins as a text does after the end of another
        return [[*opening, *ids] or [self.end] for ids in given]

    def controls(self, config: GenerationConfig, max_new_tokens: int) -> Controls:
        """Make the rules: padding is never written, as far as it is a token of its own, nor what has no name."""
        pad = getattr(self.config, "pad_token_id", None)
        padding = [] if pad in (None, self.end) or not self.sourced else [pad]
        # tables are often longer than the vocabulary, for the sake of the GPU
        spare = range(self.tokenizer.vocabulary, self.config.vocab_size)
        nameless = [token for token in spare if self.tokenizer.id_to_token(token) is None]
        return Controls(
            end=self.habits.ends or (self.end,),
            max_new_tokens=max_new_tokens,
            min_new_tokens=config.min_new_tokens,
            banned=(*padding, *nameless),
            repetition_penalty=config.repetition_penalty,
            no_repeat_ngram_size=config.no_repeat_ngram_size,
            stop_strings=config.stop_strings,
            whole_sentences=config.whole_sentences,
            decode=self.tokenizer.decode if config.stop_strings or config.whole_sentences else None,
            first=self.habits.first,
            last=self.habits.last,
        )

    def limit(self, length: int, max_new_tokens: int) -> int:
        """How many new tokens there is room for after a prompt, or beside a source, of this length."""
        if self.positions is None:
            return max_new_tokens
        free = self.positions if self.sourced else self.positions - length
        told = f"the text has {length} tokens, the model has {self.positions} positions; give a shorter one"
        require(length <= self.positions and free > 0, told, InputTooLong)
        return min(max_new_tokens, free)

    def write(
        self,
        given: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        config: GenerationConfig,
        *,
        rngs: Iterator[list[Random]] | None = None,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> list[list[Output]]:
        """Generate at most so many tokens for each: the best sequences of each text, in the order asked.

        Texts with like limits run together; what one gets does not depend on the others. Sampling follows the config's
        seed, unless `rngs` go on from earlier texts.
        """
        limits = [self.limit(len(one), most) for one, most in zip(given, max_new_tokens, strict=True)]
        order = sorted(range(len(given)), key=lambda i: (limits[i], len(given[i])))
        found: dict[int, list[Output]] = {}
        with evaluating(self.module):
            draws = rngs or config.rngs()
            drawn_by = [next(draws) for _ in given] if config.sampling is not None else []
            most = max(1, self.together * _ROWS // max(_ROWS, config.num_beams, config.num_return_sequences))
            same_limit = (run for _, run in groupby(order, key=limits.__getitem__))
            for group in chain.from_iterable(chunks(run, most) for run in same_limit):
                some = [list(given[i]) for i in group]
                controls = self.controls(config, limits[group[0]])
                own = [rng for i in group for rng in drawn_by[i]] if drawn_by else []
                outputs = self._decode(some, controls, config, own, recorder)
                found |= dict(zip(group, outputs, strict=True))
                if progress is not None:
                    progress(len(group))
        return [found[i] for i in range(len(given))]

    def stream(self, given: Sequence[int], max_new_tokens: int, config: GenerationConfig) -> Iterator[int]:
        """Give the tokens of one text as they are written; beams only know the best text at its end."""
        beams = config.num_beams
        require(beams == 1, f"{beams} beams cannot be streamed; choose one, or do not stream", BadInput)
        controls = self.controls(config, self.limit(len(given), max_new_tokens))
        rng = next(config.rngs())[0] if config.sampling is not None else None
        (history,) = self._history([given])
        with evaluating(self.module):
            yield from stream(self.model, given, controls, config.sampling, rng=rng, history=history)

    def _decode(
        self,
        given: list[list[int]],
        controls: Controls,
        config: GenerationConfig,
        rngs: Sequence[Random],
        recorder: Recorder | None,
    ) -> list[list[Output]]:
        several = config.num_return_sequences
        if config.sampling is not None:
            given = [one for one in given for _ in range(several)]
        history = self._history(given)
        if config.sampling is not None:
            drawn = sample(self.model, given, controls, config.sampling, rngs=rngs, history=history, recorder=recorder)
            return [drawn[i : i + several] for i in range(0, len(drawn), several)]
        if config.num_beams == 1:
            return [[one] for one in greedy(self.model, given, controls, history=history, recorder=recorder)]
        return beam_search(
            self.model,
            given,
            controls,
            num_beams=config.num_beams,
            length_penalty=config.length_penalty,
            early_stopping=config.early_stopping,
            num_return_sequences=several,
            history=history,
            recorder=recorder,
        )

    def _history(self, given: Sequence[Sequence[int]]) -> list[list[int]]:
        """What was there before the first new token: the prompt, or beside a source the start token."""
        if not self.sourced:
            return [list(one) for one in given]
        start = getattr(self.model, "start", None)
        return [[] if start is None else [start]] * len(given)


_HALF = "\ufffd"  # what a character whose bytes are not all there is decoded to


def generate(
    generator: Generator,
    texts: Iterable[str],
    max_new_tokens: int,
    config: GenerationConfig,
    progress: Progress | None = None,
) -> Iterator[list[Written]]:
    """Write on from each prompt: the best sequences, as many as the config says.

    Of an encoder–decoder the prompt is the source, and what is written stands alone.
    """
    check_length(max_new_tokens, config.min_new_tokens)
    rngs, decode = config.rngs(), generator.tokenizer.decode

    def results(chunk: list[str]) -> Iterator[list[Written]]:
        ids = generator.ids(chunk)
        for outputs in generator.write(ids, [max_new_tokens] * len(ids), config, rngs=rngs, progress=progress):
            yield [Written(decode(one.tokens), one.score, one.ended, tuple(one.tokens)) for one in outputs]

    return chain.from_iterable(map(results, chunks_of_text(texts, generator.ahead)))


def best_or_all(found: Iterator[list[Item]], options: GenerationOptions) -> Iterator[Any]:
    """The best sequence of each text, or the list of them for whoever has said how many."""
    return found if "num_return_sequences" in options else (sequences[0] for sequences in found)


def stream_text(generator: Generator, max_new_tokens: int, config: GenerationConfig, prompt: str) -> Iterator[str]:
    """Give the text as it is written; put together, the pieces are what `generate` gives."""
    check_length(max_new_tokens, config.min_new_tokens)
    (ids,) = generator.ids([prompt])
    tokens: list[int] = []
    shown = ""
    for token in generator.stream(ids, max_new_tokens, config):
        tokens.append(token)
        text = generator.tokenizer.decode(tokens)
        # a character of several tokens waits for its last one
        if len(text) > len(shown) and text.startswith(shown) and not text.endswith(_HALF):
            yield text[len(shown) :]
            shown = text
    rest = generator.tokenizer.decode(tokens)
    if len(rest) > len(shown):
        yield rest[len(shown) :]


STOP = "\n\n"  # what a model writes when it goes on to a next example; give it to `generate` as `stop_strings`


def few_shot(
    examples: Iterable[tuple[str, str]],
    query: str,
    *,
    instruction: str = "",
    names: tuple[str, str] = ("Input", "Output"),
) -> str:
    """Make a prompt of examples, each with its answer, and a query without one (Brown et al. 2020).

    With no examples it is zero-shot, with one one-shot. `names` stand before each side; the text ends with the colon
    after which a model goes on, and `STOP` ends its answer.
    """
    asked, answered = names
    blocks = [instruction] if instruction else []
    for example in [*examples, (query, None)]:
        require(len(example) == 2, f"an example is a text and its answer, not {example!r}", BadInput)
        text, answer = example
        for side in (text, answer or ""):
            require(STOP not in side, f"an empty line would end the example {side!r}; take it out", BadInput)
        blocks.append(f"{asked}: {text}\n{answered}:" + ("" if answer is None else f" {answer}"))
    return STOP.join(blocks)
