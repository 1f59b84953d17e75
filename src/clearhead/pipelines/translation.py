"""Texts to their translations, sentence by sentence, by any model that reads a source."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Any

from clearhead.decoding.config import GenerationConfig
from clearhead.decoding.decoder import Output
from clearhead.errors import BadInput, WrongTask, require
from clearhead.io import Progress
from clearhead.models.t5 import T5Config
from clearhead.pipelines.generation import Generator
from clearhead.pipelines.results import Part as Part
from clearhead.pipelines.results import Rewritten as Rewritten
from clearhead.pipelines.runner import chunks_of_text
from clearhead.text import Tokenizer
from clearhead.text.languages import Languages, check_told, tag
from clearhead.text.sentences import sentence_spans

Span = tuple[int, int]
Prefix = Callable[[str], str]  # a text -> what stands before every part of it


@dataclass(frozen=True, slots=True)
class SentenceChunks:
    """A text's chunks, text[start:end], with nothing but white space between them."""

    text: str
    spans: tuple[Span, ...]

    @property
    def texts(self) -> list[str]:
        """The chunks."""
        return [self.text[start:end] for start, end in self.spans]

    def join(self, written: Sequence[str]) -> str:
        """Put what was written for each chunk together, with the text's own white space between."""
        ends = [0, *(end for _, end in self.spans)]
        gaps = [self.text[end:start] for end, (start, _) in zip(ends, self.spans, strict=False)]
        # a sentence that was cut where no space stands still needs one
        parts = [(gap or " ") + new for gap, new in zip(gaps[1:], written[1:], strict=True)]
        return "".join([*written[:1], *parts])


def sentence_chunks(tokenizer: Tokenizer, text: str, limit: int, *, whole: bool = False) -> SentenceChunks:
    """Cut a text into sentences of at most `limit` tokens, or with `whole` into as few chunks as hold so many."""
    require(limit > 0, f"{limit} tokens hold no chunk of a text; give 1 or more", BadInput)
    spans: list[Span] = []
    held = 0  # tokens of the last chunk
    for start, end in sentence_spans(text):
        starts = [first for first, _ in tokenizer.pieces(text[start:end]).offsets]
        for (first, last), count in _cut(text[start:end], starts, limit):
            if whole and spans and held + count <= limit:
                spans[-1], held = (spans[-1][0], start + last), held + count
            else:
                spans.append((start + first, start + last))
                held = count
    return SentenceChunks(text, tuple(spans))


def _cut(sentence: str, starts: Sequence[int], limit: int) -> list[tuple[Span, int]]:
    """Cut a sentence before a word, or before a piece if one word is all there is: spans and their tokens."""
    cuts, first = [(0, 0)], 0  # where each chunk begins: character and piece
    while len(starts) - first > limit:
        last = first + limit
        at = next((i for i in range(last, first, -1) if sentence[starts[i] - 1 : starts[i]].isspace()), last)
        if starts[at] <= cuts[-1][0]:  # several pieces spell one character, which is not cut
            at = bisect_right(starts, cuts[-1][0])
        if at == len(starts):
            break
        cuts.append((starts[at], at))
        first = at
    found = []
    for (begin, first), (stop, last) in pairwise([*cuts, (len(sentence), len(starts))]):
        if words := sentence[begin:stop].strip():
            start = begin + sentence[begin:stop].index(words)
            found.append(((start, start + len(words)), last - first))
    return found


SOURCE_TOKENS = 127  # tokens of a source that is read at once: models for sentences have seen no longer ones
_SLACK = 8


def rewrite(
    generator: Generator,
    texts: Iterable[str],
    config: GenerationConfig,
    *,
    prefix: str | Prefix = "",
    suffix: str = "",
    limit: int = SOURCE_TOKENS,
    whole: bool = False,
    max_new_tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[list[Rewritten]]:
    """Write each text anew, in chunks of at most `limit` tokens that follow `prefix`; see `sentence_chunks`.

    The prefix may depend on the text. A chunk may become twice as long as the next power of two, or have
    `max_new_tokens`. Of several sequences of each chunk, the second ones make the second text. A decoder alone goes on
    from the chunk and a `suffix`; half of its positions are for what it writes, unless `max_new_tokens` are.
    """
    if not suffix:
        check_reads(generator)
    new = 0 if generator.sourced else max_new_tokens or (generator.positions or 0) // 2
    rngs = config.rngs()

    @cache
    def room(before: str) -> int:
        return room_for(generator, before + suffix, limit, new)

    def results(chunk: list[str]) -> Iterator[list[Rewritten]]:
        before = [prefix if isinstance(prefix, str) else prefix(text) for text in chunk]
        texts = list(zip(before, chunk, strict=True))
        cut = [sentence_chunks(generator.tokenizer, text, room(told), whole=whole) for told, text in texts]
        parts = [told + part + suffix for told, one in zip(before, cut, strict=True) for part in one.texts]
        read = generator.ids(parts)
        limits = [max_new_tokens or _enough_for(len(ids)) for ids in read]
        written = iter(generator.write(read, limits, config, rngs=rngs, progress=progress))
        for one in cut:
            found = [next(written) for _ in one.spans]
            yield [
                joined(one, [outputs[:rank][-1] for outputs in found])
                for rank in range(1, config.num_return_sequences + 1)
            ]

    def joined(cut: SentenceChunks, outputs: Sequence[Output]) -> Rewritten:
        new = [generator.tokenizer.decode(output.tokens) for output in outputs]
        new = [one.strip() for one in new] if suffix else new  # a new line, or a space, comes after it
        scores = [output.score for output in outputs]
        return Rewritten(cut.join(new), tuple(Part(*row) for row in zip(cut.texts, new, scores, strict=True)))

    return chain.from_iterable(map(results, chunks_of_text(texts, generator.ahead)))


# the languages that T5 was taught, by their codes
T5_LANGUAGES = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}


def told_languages(generator: Generator, source: str | None, target: str | None) -> tuple[Generator, Prefix]:
    """The generator for two languages by their codes, and what stands before a text; a T5 is told in words.

    A translator that names its directions takes the one of the text's own language, as far as none is told.
    """
    languages, before = generator.tokenizer.languages, ""
    if languages is not None and languages.directions:
        return generator, lambda text: _tagged(languages, text, source, target)
    if languages is not None and languages.place == "target":
        check_told(src_lang=source)
        before = "" if target is None else f"{generator.tokenizer.id_to_token(languages.id(target))} "
    elif languages is not None and generator.sourced:
        generator = generator.between(source, target)
    elif isinstance(generator.config, T5Config):
        before = "" if source is None and target is None else t5_prefix(source, target)
    else:
        check_told(src_lang=source, tgt_lang=target)
    return generator, lambda text: before


def _tagged(languages: Languages, text: str, source: str | None, target: str | None) -> str:
    """The tag before a text; one of nothing has no language."""
    return f"{tag(languages.direction(text, source, target)[1])} " if text.strip() else ""


def t5_prefix(source: str | None, target: str | None) -> str:
    """What T5 was taught to read before a text to be translated."""
    first, second = T5_LANGUAGES.get(str(source)), T5_LANGUAGES.get(str(target))
    told = f"a T5 must be told src_lang and tgt_lang, got {source!r} and {target!r}"
    known = first is not None and second is not None
    require(known, f"{told}; choose among {', '.join(T5_LANGUAGES)}", BadInput)
    return f"translate {first} to {second}: "


def room_for(generator: Generator, prefix: str, limit: int, new: int = 0) -> int:
    """How many tokens a chunk may have, of `limit` at most, beside a prefix, the end token and `new` ones."""
    # a word that comes to stand at the beginning may be spelt with more pieces than before
    most = limit if generator.positions is None else min(limit, generator.positions - new - _SLACK)
    told = f"{new} new tokens leave no room for a text, of {generator.positions} positions; ask for fewer"
    require(most > 0, told, BadInput)
    taken = len(generator.ids([prefix])[0])
    told = f"the prefix and the end have {taken} tokens, of {most} that are read at once; give a shorter prefix"
    require(not prefix or taken < most, told, BadInput)
    return most - taken


def check_reads(generator: Generator) -> None:
    """Refuse a model that knows no source."""
    told = "this model goes on from a prompt and reads no source; it can generate, but not translate or summarise"
    require(generator.sourced, told, WrongTask)


def translate_texts(
    network: Any,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    num_beams: int = 1,
    max_tokens: int = SOURCE_TOKENS,
    suffix: str = "",
) -> list[str]:
    """Translate each text, which should be a sentence, as it is; one beam is greedy.

    A source of more than `max_tokens` is cut there, as in training. A decoder alone goes on from it and the `suffix`.
    """
    generator = Generator.of(network, tokenizer)
    languages = tokenizer.languages
    if languages is not None and languages.target is not None:
        generator = generator.between(None, None)
    before, after = generator.around or ((), (generator.end,))
    if not generator.sourced:
        before, after = tokenizer.template.around_text[0], tuple(tokenizer.ids_batch([suffix])[0])
    read = [[*before, *ids[:max_tokens], *after] for ids in tokenizer.ids_batch(list(texts))]
    limits = [_enough_for(len(ids)) for ids in read]
    written = generator.write(read, limits, GenerationConfig(num_beams=num_beams))
    found = [tokenizer.decode(best.tokens) for best, *_ in written]
    return [one.strip() for one in found] if suffix else found


def _enough_for(length: int) -> int:
    """Twice the next power of two and some: texts of like length have one limit, so that they run together."""
    return 2 * 2 ** length.bit_length() + 8
