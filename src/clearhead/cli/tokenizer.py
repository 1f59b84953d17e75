"""`clearhead tokenizer train`: a vocabulary from one's own text."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json, progress, up_to

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
    from clearhead.hub.atomic import staged
    from clearhead.text import train_tokenizer

    size = sum(file.stat().st_size for file in files if file.is_file())
    with progress("reading", size, of_bytes=True) as advance:
        trained = train_tokenizer(
            files,
            kind=kind,
            vocabulary=vocabulary,
            lowercase=not cased,
            min_frequency=min_frequency,
            progress=up_to(advance),
        )
    with staged(out) as stage:
        trained.save(stage)
    if json:
        print_json({"folder": str(out), "kind": kind, "vocabulary": trained.vocabulary})
    else:
        typer.echo(f"wrote a {kind} tokenizer of {trained.vocabulary:,} tokens to {out}")
