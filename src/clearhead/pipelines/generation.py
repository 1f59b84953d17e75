"""Text generation: prompts or sources to new text, whole or piece by piece."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from random import Random
from typing import Any, Self

import torch
from torch import nn

from clearhead.data.batch import chunks
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import Controls, GenerationConfig, check_length
from clearhead.decoding.decoder import Decoder, Output, Recorder, continuing
from clearhead.decoding.generate import greedy, sample, stream
from clearhead.errors import BadInput, InputTooLong, WrongTask, require
from clearhead.io import Progress
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.heads import Network
from clearhead.nn.hooks import evaluating
from clearhead.pipelines.runner import chunks_of_text
from clearhead.text import Tokenizer
from clearhead.text.encoding import Slot

# texts written at a time: on a CPU the keys of all should stay in its cache; a GPU wants to be filled
_TOGETHER = 64
_TOGETHER_GPU = 512
_WAYS = 8  # of a text; with more of them, fewer texts are written at a time
# characters to read for each of those texts: neighbours in length are many, and the first results come soon
_AHEAD = 3000


@dataclass(frozen=True)
class Generator:
    """A network with its tokenizer, made ready to write. `sourced`: it reads a source, and writes from nothing."""

    module: nn.Module
    model: Decoder
    tokenizer: Tokenizer
    sourced: bool

    @classmethod
    def of(cls, network: Any, tokenizer: Tokenizer) -> Self:
        """Take any network that writes, recurrent or not."""
        if isinstance(network, Network):
            return cls(network, continuing(network), tokenizer, isinstance(network.encoder, EncoderDecoder))
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

    @property
    def positions(self) -> int | None:
        """Most tokens of a text; recurrent networks know no limit."""
        return self.module.encoder.max_length if isinstance(self.module, Network) else None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.module.parameters()).device

    @property
    def together(self) -> int:
        """How many texts are written at a time."""
        return _TOGETHER if self.device.type == "cpu" else _TOGETHER_GPU

    @property
    def ahead(self) -> int:
        """How many characters of a stream are read before the first of it is written."""
        return _AHEAD * self.together

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts to what is read: a source ends with the end token; a prompt begins as the tokenizer begins a text."""
        given = self.tokenizer.ids_batch(list(texts))
        if self.sourced:
            return [[*ids, self.end] for ids in given]
        opening = []
        for item in self.tokenizer.template.single:
            if isinstance(item, Slot):
                break
            opening.append(item.id)
        # a prompt of nothing begins as a text does after the end of another
        return [[*opening, *ids] or [self.end] for ids in given]

    def controls(self, manner: GenerationConfig, limit: int) -> Controls:
        """Make the rules: padding is never written, as far as it is a token of its own, nor what has no name."""
        pad = getattr(self.config, "pad_token_id", None)
        padding = [] if pad in (None, self.end) or not self.sourced else [pad]
        # tables are often longer than the vocabulary, for the sake of the GPU
        spare = range(self.tokenizer.vocabulary, self.config.vocab_size)
        nameless = [token for token in spare if self.tokenizer.id_to_token(token) is None]
        return Controls(
            end=(self.end,),
            limit=limit,
            least=manner.least,
            banned=(*padding, *nameless),
            repetition_penalty=manner.repetition_penalty,
            no_repeat=manner.no_repeat,
            stop=manner.stop,
            decode=self.tokenizer.decode if manner.stop else None,
        )

    def limit(self, length: int, longest: int) -> int:
        """How many new tokens there is room for after a prompt, or beside a source, of this length."""
        if self.positions is None:
            return longest
        free = self.positions if self.sourced else self.positions - length
        if length > self.positions or free < 1:
            raise InputTooLong(
                f"the text has {length} tokens, the model has {self.positions} positions; give a shorter one"
            )
        return min(longest, free)

    def write(
        self,
        given: Sequence[Sequence[int]],
        longest: Sequence[int],
        manner: GenerationConfig,
        *,
        chances: Iterator[list[Random]] | None = None,
        recorder: Recorder | None = None,
        progress: Progress | None = None,
    ) -> list[list[Output]]:
        """Write at most `longest` tokens for each: the best ways of each text, in the order asked.

        Texts with like limits run together; what one gets does not depend on the others. Chance is the manner's own,
        unless `chances` go on from earlier texts.
        """
        limits = [self.limit(len(one), most) for one, most in zip(given, longest, strict=True)]
        order = sorted(range(len(given)), key=lambda i: (limits[i], len(given[i])))
        found: dict[int, list[Output]] = {}
        with evaluating(self.module):
            draws = chances or manner.chances()
            chance = [next(draws) for _ in given] if manner.sampling is not None else []
            most = max(1, self.together * _WAYS // max(_WAYS, manner.beams, manner.best))
            same_limit = (run for _, run in groupby(order, key=limits.__getitem__))
            for group in chain.from_iterable(chunks(run, most) for run in same_limit):
                some = [list(given[i]) for i in group]
                controls = self.controls(manner, limits[group[0]])
                own = [one for i in group for one in chance[i]] if chance else []
                outputs = self._choose(some, controls, manner, own, recorder)
                found |= dict(zip(group, outputs, strict=True))
                if progress is not None:
                    progress(len(group))
        return [found[i] for i in range(len(given))]

    def stream(self, given: Sequence[int], longest: int, manner: GenerationConfig) -> Iterator[int]:
        """Give the tokens of one text as they are written; beams only know the best text at its end."""
        require(manner.beams == 1, f"{manner.beams} beams cannot be streamed; choose one, or do not stream", BadInput)
        controls = self.controls(manner, self.limit(len(given), longest))
        chance = next(manner.chances())[0] if manner.sampling is not None else None
        with evaluating(self.module):
            yield from stream(
                self.model,
                given,
                controls,
                manner.sampling,
                chance=chance,
                history=None if self.sourced else given,
            )

    def _choose(
        self,
        given: list[list[int]],
        controls: Controls,
        manner: GenerationConfig,
        chance: Sequence[Random],
        recorder: Recorder | None,
    ) -> list[list[Output]]:
        history = None if self.sourced else given
        if manner.sampling is not None:
            repeated = [one for one in given for _ in range(manner.best)]
            before = None if self.sourced else repeated
            drawn = sample(
                self.model, repeated, controls, manner.sampling, chance=chance, history=before, recorder=recorder
            )
            return [drawn[i : i + manner.best] for i in range(0, len(drawn), manner.best)]
        if manner.beams == 1:
            return [[one] for one in greedy(self.model, given, controls, history=history, recorder=recorder)]
        return beam_search(
            self.model,
            given,
            controls,
            beams=manner.beams,
            length_penalty=manner.length_penalty,
            best=manner.best,
            history=history,
            recorder=recorder,
        )


_HALF = "\ufffd"  # what a character whose bytes are not all there is decoded to


@dataclass(frozen=True, slots=True)
class Written:
    """New text. `score` is its log probability, of beams for a length of one; `ended`: not cut off by the limit."""

    text: str
    score: float
    ended: bool
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, output: Output, tokenizer: Tokenizer) -> "Written":
        """Decode what was written."""
        return cls(tokenizer.decode(output.tokens), output.score, output.ended, tuple(output.tokens))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"generated": self.text, "score": self.score, "ended": self.ended}

    def __str__(self) -> str:
        return self.text


def generate(
    writer: Generator, prompts: Iterable[str], longest: int, manner: GenerationConfig, progress: Progress | None = None
) -> Iterator[Any]:
    """Write on from each prompt, `longest` tokens at most: one `Written`, or a list where several ways are asked for.

    Of an encoder–decoder the prompt is the source, and what is written stands alone.
    """
    check_length(longest, manner.least)
    chances = manner.chances()

    def results(chunk: list[str]) -> Iterator[Any]:
        ids = writer.ids(chunk)
        for outputs in writer.write(ids, [longest] * len(ids), manner, chances=chances, progress=progress):
            ways = [Written.of(output, writer.tokenizer) for output in outputs]
            yield ways if manner.best > 1 else ways[0]

    return chain.from_iterable(map(results, chunks_of_text(prompts, writer.ahead)))


def stream_text(writer: Generator, prompt: str, longest: int, manner: GenerationConfig) -> Iterator[str]:
    """Give the text as it is written; put together, the pieces are what `generate` gives."""
    check_length(longest, manner.least)
    (ids,) = writer.ids([prompt])
    tokens: list[int] = []
    shown = ""
    for token in writer.stream(ids, longest, manner):
        tokens.append(token)
        text = writer.tokenizer.decode(tokens)
        # a character of several tokens waits for its last one
        if len(text) > len(shown) and text.startswith(shown) and not text.endswith(_HALF):
            yield text[len(shown) :]
            shown = text
    rest = writer.tokenizer.decode(tokens)
    if len(rest) > len(shown):
        yield rest[len(shown) :]


STOP = "\n\n"  # what a model writes when it goes on to a next example; give it to `generate` as `stop`


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
