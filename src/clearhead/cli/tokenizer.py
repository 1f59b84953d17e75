"""Verbs of tokenizers: tokenize, tokenizer train."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from clearhead.cli.options import SAID, ModelOption, Output, Verbs, Written, progress, read_texts
from clearhead.cli.render import Rows

if TYPE_CHECKING:
    from clearhead.text import Tokenizer
    from clearhead.text.encoding import Encoding

app = Verbs()


@app.verb
def tokenize(
    text: Annotated[str, Argument(help='The text, or "-" for one text a line from stdin.'), SAID] = "-",
    pair: Annotated[str | None, Argument(help="A second text, for models that read pairs."), SAID] = None,
    model: ModelOption = None,
) -> Rows:
    """Show the tokens of a text: pieces, ids, sentence numbers, and where each lies in the text.

    Example: `clearhead tokenize "Be alert!" "BERT will hurt!"`
    """
    from clearhead.text.encoding import CAPITALS

    tokenizer = _read_tokenizer(model)
    for one in [text] if pair is not None else (given.text for given in read_texts([text])):
        encoding = tokenizer.encode(one, pair)
        capitals = [CAPITALS[kind] for kind in encoding.segments] if tokenizer.tells_capitals else None
        record = {
            "tokens": encoding.tokens,
            "ids": encoding.ids,
            "segments": encoding.sentences,
            **({} if capitals is None else {"capitals": capitals}),
            "offsets": encoding.offsets,
            "words": encoding.words,
        }
        yield record, _token_lines(encoding, capitals)


def _read_tokenizer(model: str | None) -> "Tokenizer":
    """The tokenizer of a model, or one that is a file by itself."""
    from clearhead.hub.remote import find, unasked
    from clearhead.text import Tokenizer

    if model is not None and (path := Path(model)).is_file():
        return Tokenizer.from_vocab(path) if path.suffix == ".txt" else Tokenizer.from_file(path)
    return Tokenizer.from_folder(find(unasked() if model is None else model))


def _token_lines(encoding: "Encoding", capitals: list[str] | None) -> Iterator[str]:
    column = [""] * len(encoding) if capitals is None else [f" {kind:>8}" for kind in capitals]
    yield f"{'position':>8} {'sentence':>8}{'' if capitals is None else ' capitals'} {'id':>6}  {'from–to':<9} token"
    for (token, position, sentence), kind, token_id, offset in zip(
        encoding.rows(), column, encoding.ids, encoding.offsets, strict=True
    ):
        where = "" if offset is None else f"{offset[0]}–{offset[1]}"
        yield f"{position:>8} {sentence:>8}{kind} {token_id:>6}  {where:<9} {token}"


training = Verbs("tokenizer", "Train a tokenizer on your own text.")
app.add_typer(training)


@training.verb
def train(
    *,
    files: list[Path] = Argument(..., help='Text files, or .jsonl with a "text" field; .gz, .xz and .zst too.'),
    out: Annotated[Output, Written("out", Path, Option(..., help="The folder to write to."), "folder")],
    kind: str = Option(
        "wordpiece",
        help="wordpiece (BERT), bpe (RoBERTa), unigram (ALBERT), word, gpt2, t5, xlnet, mpnet or deberta-v2.",
    ),
    vocabulary: int = Option(30_000, help="How many tokens to learn at most."),
    cased: bool = Option(False, "--cased", help="Keep upper and lower case apart."),
    min_frequency: int = Option(2, help="What is rarer than this teaches nothing."),
) -> Rows:
    """Learn a vocabulary from files; the same files give the same vocabulary.

    Example: `clearhead tokenizer train corpus.txt --out ./my-tokenizer --vocabulary 8000`
    """
    from clearhead.text import train_tokenizer

    size = sum(file.stat().st_size for file in files if file.is_file())
    with progress("reading", size, of_bytes=True) as advance:
        trained = train_tokenizer(
            files, kind=kind, vocabulary=vocabulary, lowercase=not cased, min_frequency=min_frequency, progress=advance
        )
    trained.save(out.path, overwrite=out.overwrite)
    record = {"folder": str(out.path), "kind": kind, "vocabulary": trained.vocabulary}
    yield record, [f"wrote a {kind} tokenizer of {trained.vocabulary:,} tokens to {out.path}"]
