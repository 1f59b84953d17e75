"""Verbs that generate text: generate, translate, summarise."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from clearhead.cli.options import (
    CHECKPOINT,
    TEXTS,
    AnyGenerator,
    AnyTranslator,
    GivenTexts,
    JsonOption,
    ServerOption,
    Shared,
    Texts,
    Verbs,
    at_a_service,
    each,
    each_written,
    given,
    in_parts,
    note,
    progress,
    reach_summariser,
    read_texts,
    whole_texts,
)
from clearhead.cli.render import Rows, shorten
from clearhead.errors import BadInput, require
from clearhead.hub.remote import unasked

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model

app = Verbs()
_PROMPTS = 1000  # of which the longest says how much room is left
_TEMPERATURE = "Sample: below 1 likely tokens become likelier, above 1 the text is wilder."
_TOP_P = "Sample among the most probable tokens that add up to this probability."
_CHAT = (
    "Instead of prompts, a file of messages for a model with a chat template: JSON lines with a role and a content, "
    "all one conversation, or lines with a list of messages each, a conversation a line."
)
_FROM = "The language of the texts, by the model's code for it: en (M2M-100, T5), eng_Latn (NLLB), en_XX (mBART)."
_TO = "The language to translate to, such as de, deu_Latn or de_DE."
_SEVERAL: dict[str, tuple[Any, Any]] = {
    "num_return_sequences": (int | None, Option(None, help="How many versions of each text to give, the best first.")),
    "length_penalty": (float | None, Option(None, help="Of beams: above 1 favours long texts, below 1 short ones.")),
}
GenerationOptions = Annotated[
    dict[str, Any],
    Shared(
        given,
        min_new_tokens=(int | None, Option(None, help="Fewest new tokens.")),
        temperature=(float | None, Option(None, help=_TEMPERATURE)),
        top_k=(int | None, Option(None, help="Sample among the k most probable tokens.")),
        top_p=(float | None, Option(None, help=_TOP_P)),
        seed=(int | None, Option(None, help="Of sampling: the same seed gives the same texts.")),
        num_beams=(int | None, Option(None, help="Beam search with so many beams, not streamed; 1 is greedy.")),
        **_SEVERAL,
        no_repeat_ngram_size=(int | None, Option(None, help="No n-gram of this size comes twice.")),
        repetition_penalty=(float | None, Option(None, help="Above 1: tokens that came before are rarer.")),
        stop_strings=(list[str] | None, Option(None, help="Stop after this string; may be given more than once.")),
    ),
]


def _prompts(texts: list[str] | None, files: list[str] | None, document: bool, chat: Path | None) -> Texts | Path:
    """Prompts as any verb has its texts, or the file of conversations."""
    if chat is None:
        return read_texts(texts, files, document)
    require(not texts and not files, "give prompts, or messages with --chat FILE, not both", BadInput)
    return chat


@app.verb
def generate(
    *,
    prompts: Annotated[Texts | Path, Shared(_prompts, **TEXTS, chat=(Path | None, Option(None, help=_CHAT)))],
    model: AnyGenerator,
    max_new_tokens: int | None = Option(None, help="Most new tokens.", show_default="the model's own, or 128"),
    options: GenerationOptions,
    json: JsonOption = False,
) -> Rows:
    """Generate text from a prompt: as the model's own files say, else greedily, unless sampling or beams are asked for.

    `builtin:gpt`, where this copy has it, samples by a seed of its own; `--num-beams 1` is greedy. With `--chat` an
    instruction-tuned model goes on with conversations, by its own chat template.

    Example: `clearhead generate "Once upon a time" --model ./my-gpt`, or `clearhead generate "The old house" --seed 7`
    """
    if isinstance(prompts, Path):
        told = "a service takes conversations by the OpenAI protocol; name a --model of this machine"
        require(at_a_service(model) is None, told, BadInput)
        yield from _answer_chats(prompts, model, options | given(max_new_tokens=max_new_tokens))
        return
    first = [one.text for one in prompts.first(_PROMPTS)]
    require(bool(first), "there is no prompt; give one as an argument, or one a line", BadInput)
    if max_new_tokens is not None:
        if at_a_service(model) is None:
            _note_limit(model, first, max_new_tokens)
        options["max_new_tokens"] = max_new_tokens
    single = options.get("num_return_sequences", 1) <= 1 and options.get("num_beams", 1) == 1
    if len(first) == 1 and not json and single:
        _print_stream(model, first[0], options)
        return
    sourced = cache(partial(_is_sourced, model))  # a service is only asked for it where lines are printed
    for prompt, written in each_written("generating", prompts, model.generate, **options):
        for one in written if "num_return_sequences" in options else [written]:
            yield {"prompt": prompt.text, **one.to_dict()}, _written_lines(prompt.text, one.text, sourced)


def _answer_chats(file: Path, model: "Model", options: dict[str, Any]) -> Rows:
    """The next message of each conversation of a file."""
    from clearhead.data.published import read_conversations

    conversations = read_conversations(file)
    with progress("answering", len(conversations)) as advance:
        for part in in_parts(conversations, lambda one: sum(len(message["content"]) for message in one)):
            for messages, written in zip(part, model.chat(part, progress=advance, **options), strict=True):
                yield {"messages": messages, **written.to_dict()}, [written.text]


def _written_lines(prompt: str, text: str, sourced: Callable[[], bool]) -> Iterator[str]:
    yield text if sourced() else prompt + text


def _print_stream(model: "Model", prompt: str, options: dict[str, Any]) -> None:
    """Print the prompt and what goes on from it, token by token."""
    pieces = model.stream(prompt, **options)
    first = next(pieces, "")  # what is refused is refused now, and nothing was printed
    typer.echo(("" if _is_sourced(model) else prompt) + first, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()


def _is_sourced(model: "Model") -> bool:
    """Whether what is generated stands alone, since the prompt is the source of an encoder, and not before it."""
    if (client := at_a_service(model)) is None:
        return model.generator.sourced
    return any("translate" in one.uses for one in client.models() if one.id == client.model)


def _note_limit(model: "Model", prompts: list[str], max_new_tokens: int) -> None:
    """Say where the model has fewer positions than the text may be long."""
    writer = model.generator
    room = min(writer.limit(len(ids), max_new_tokens) for ids in writer.ids(prompts))
    if room < max_new_tokens:
        room_for = f"{room} new tokens{'' if writer.sourced else ' after the longest prompt'}, not {max_new_tokens}"
        typer.echo(f"note: the model has {writer.positions} positions, room for {room_for}", err=True)


@app.verb
def translate(
    *,
    texts: GivenTexts,
    model: AnyTranslator,
    src_lang: str | None = Option(None, "--from", help=_FROM, show_default="built in: that of each text"),
    tgt_lang: str | None = Option(None, "--to", help=_TO, show_default="built in: en, and de for English"),
    num_beams: int | None = Option(
        None, help="Beams of the search; 1 is greedy.", show_default="the model's own, or 4"
    ),
    options: Annotated[dict[str, Any], Shared(given, **_SEVERAL)],
    prefix: str = Option("", help='Put before every sentence: "translate English to German: ".'),
) -> Rows:
    """Translate texts, sentence by sentence: German and French to English, English to either; or by another model.

    That is an OPUS-MT, NLLB, M2M-100, T5, or one trained here. A model of many languages is told which: `--from
    deu_Latn --to eng_Latn`.

    Example: `clearhead translate "Ich muss auf den Markt gehen."`, or `clearhead translate "I am a student" --to fr`
    """
    options |= {"prefix": prefix, **given(src_lang=src_lang, tgt_lang=tgt_lang, num_beams=num_beams)}
    chosen = False  # a target that nobody named is told once
    for text, written in each_written("translating", texts, model.translate, **options):
        if not chosen and tgt_lang is None and at_a_service(model) is None:
            chosen = _note_direction(model, text.text, src_lang)
        for one in written if "num_return_sequences" in options else [written]:
            found = {"translation": one.text, "parts": one.to_dict()["parts"]}
            yield {"source": text.text, **found}, [one.text]


def _note_direction(model: "Model", text: str, src_lang: str | None) -> bool:
    """Say which of several targets was taken for a text; whether there were several."""
    languages = model.tokenizer.languages
    if languages is None or not languages.directions or not text.strip():
        return False
    source, target = languages.direction(text, src_lang)
    others = [there for here, there in languages.directions if here == source and there != target]
    if others:
        note(f"{source} is translated to {target}; choose with --to {' or --to '.join([target, *others])}")
    return bool(others)


_ABSTRACTIVE = f"In the model's own words, by {unasked('generate')} or another generator, such as a BART or a T5."
_SUMMARISER = f"{CHECKPOINT} Default: {unasked()}, with --abstractive {unasked('generate')}."
_MOST = "Of --abstractive: most tokens for a part of the text."
_FEWEST = "Of --abstractive: fewest tokens for a part."
WholeTexts = Annotated[
    Texts,
    Shared(
        whole_texts,
        texts=TEXTS["texts"],
        files=(list[str] | None, Option(None, "--in", help="A file that is one text, or a folder of such files.")),
    ),
]


@app.verb
def summarise(
    *,
    texts: WholeTexts,
    summariser: Annotated[
        tuple["Model", bool],
        Shared(
            reach_summariser,
            model=(str | None, Option(None, "--model", "-m", help=_SUMMARISER)),
            abstractive=(bool, Option(False, "--abstractive", help=_ABSTRACTIVE)),
            server=(ServerOption, None),
        ),
    ],
    sentences: int | None = Option(None, help="How many sentences to keep.", show_default="3"),
    max_new_tokens: int | None = Option(None, help=_MOST, show_default="the model's own, or 200"),
    min_new_tokens: int | None = Option(None, help=_FEWEST, show_default="the model's own, or 30 by a T5"),
) -> Rows:
    """Keep the sentences that say most of a text, word for word and in order; or generate a summary.

    Example: `clearhead summarise --in article.txt --sentences 3`, or `clearhead summarise --in article.txt
    --abstractive`
    """
    model, abstractive = summariser
    options = given(sentences=sentences, max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens)
    several = len(texts.first(2)) > 1
    for one, found in each("reading", texts, model.summarise, abstractive=abstractive, **options):
        record = {"summary": found.text} if abstractive else found.to_dict()
        lines = [found.text] if abstractive else [" ".join(part.text.split()) for part in found.sentences]
        name = one.source or shorten(one.text)
        yield {"source": one.source, **record}, [f"{name}:", *lines] if several else lines
