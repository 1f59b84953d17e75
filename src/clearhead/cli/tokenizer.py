"""Verbs of tokenizers: tokenize, tokenizer train."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.options import JsonOption, ModelOption, print_json, progress, read_texts


def tokenize(
    text: Annotated[str, typer.Argument(help='The text, or "-" for one text a line from stdin.')] = "-",
    pair: Annotated[str | None, typer.Argument(help="A second text, for models that read pairs.")] = None,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Show the tokens of a text: pieces, ids, sentence numbers, and where each lies in the text.

    Example: `clearhead tokenize "Be alert!" "BERT will hurt!"`
    """
    from clearhead.hub.remote import builtin_folder, find
    from clearhead.text import Tokenizer
    from clearhead.text.encoding import CAPITALS

    path = builtin_folder() if model is None else Path(model)
    if path.is_file():
        tokenizer = Tokenizer.from_vocab(path) if path.suffix == ".txt" else Tokenizer.from_file(path)
    else:
        tokenizer = Tokenizer.from_folder(path if model is None else find(model))
    texts = [text] if pair is not None else read_texts([text], None)
    for one in texts:
        encoding = tokenizer.encode(one, pair)
        capitals = [CAPITALS[kind] for kind in encoding.segments] if tokenizer.tells_capitals else None
        if json:
            print_json(
                {
                    "tokens": encoding.tokens,
                    "ids": encoding.ids,
                    "segments": encoding.sentences,
                    **({} if capitals is None else {"capitals": capitals}),
                    "offsets": encoding.offsets,
                    "words": encoding.words,
                }
            )
            continue
        told = [""] * len(encoding) if capitals is None else [f" {kind:>8}" for kind in capitals]
        header = "" if capitals is None else " capitals"
        typer.echo(f"{'position':>8} {'sentence':>8}{header} {'id':>6}  {'from–to':<9} token")
        for (token, position, sentence), kind, token_id, offset in zip(
            encoding.rows(), told, encoding.ids, encoding.offsets, strict=True
        ):
            where = "" if offset is None else f"{offset[0]}–{offset[1]}"
            typer.echo(f"{position:>8} {sentence:>8}{kind} {token_id:>6}  {where:<9} {token}")


app = typer.Typer(name="tokenizer", help="Train a tokenizer.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def tokenizer() -> None:
    """Train a tokenizer on your own text."""


@app.command()
def train(
    files: Annotated[
        list[Path], typer.Argument(help='Text files, or .jsonl with a "text" field; .gz, .xz and .zst too.')
    ],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    kind: Annotated[
        str, typer.Option(help="wordpiece (BERT), bpe (RoBERTa), unigram (ALBERT), word, gpt2, t5 or xlnet.")
    ] = "wordpiece",
    vocabulary: Annotated[int, typer.Option(help="How many tokens to learn at most.")] = 30_000,
    cased: Annotated[bool, typer.Option("--cased", help="Keep upper and lower case apart.")] = False,
    min_frequency: Annotated[int, typer.Option(help="What is rarer than this teaches nothing.")] = 2,
    json: JsonOption = False,
) -> None:
    """Learn a vocabulary from files; the same files give the same vocabulary.

    Example: `clearhead tokenizer train corpus.txt --out ./my-tokenizer --vocabulary 8000`
    """
    from clearhead.io import staged
    from clearhead.text import train_tokenizer

    size = sum(file.stat().st_size for file in files if file.is_file())
    with progress("reading", size, of_bytes=True) as advance:
        trained = train_tokenizer(
            files,
            kind=kind,
            vocabulary=vocabulary,
            lowercase=not cased,
            min_frequency=min_frequency,
            progress=advance,
        )
    with staged(out) as stage:
        trained.save(stage)
    if json:
        print_json({"folder": str(out), "kind": kind, "vocabulary": trained.vocabulary})
    else:
        typer.echo(f"wrote a {kind} tokenizer of {trained.vocabulary:,} tokens to {out}")
