"""`clearhead tokenize`: how a model sees a text."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, print_json, read_texts


def tokenize(
    text: Annotated[str, typer.Argument(help='The text, or "-" for one text a line from stdin.')] = "-",
    pair: Annotated[str | None, typer.Argument(help="A second text, for models that read pairs.")] = None,
    model: ModelOption = None,
    json: JsonOption = False,
) -> None:
    """Show the tokens of a text: pieces, ids, sentence numbers, and where each lies in the text.

    Example: `clearhead tokenize "Be alert!" "BERT will hurt!"`
    """
    from clearhead.hub.builtin import builtin_folder
    from clearhead.hub.remote import find
    from clearhead.text import Tokenizer
    from clearhead.text.capitals import KINDS

    path = builtin_folder() if model is None else Path(model)
    if path.is_file():
        tokenizer = Tokenizer.from_vocab(path) if path.suffix == ".txt" else Tokenizer.from_file(path)
    else:
        tokenizer = Tokenizer.from_folder(path if model is None else find(model))
    texts = [text] if pair is not None else read_texts([text], None)
    for one in texts:
        encoding = tokenizer.encode(one, pair)
        capitals = [KINDS[kind] for kind in encoding.segments] if tokenizer.tells_capitals else None
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
