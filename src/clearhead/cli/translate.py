"""`clearhead translate`: texts in the other language."""

from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, TextsArgument, TextsOption, WriterOption, given_texts, print_json, progress


def translate(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: WriterOption = None,
    beams: Annotated[int, typer.Option(help="Beginnings that are kept at each step; 1 is greedy.")] = 4,
    prefix: Annotated[str, typer.Option(help='Put before every sentence: "translate English to German: ".')] = "",
    json: JsonOption = False,
) -> None:
    """Translate texts, sentence by sentence, by an OPUS-MT, T5 or recurrent model, or one trained here.

    Example: `clearhead translate "Ich muss auf den Markt gehen." --model ./de-en`
    """
    from clearhead.pipelines.model import load

    given = given_texts(texts, file)
    loaded = load(model)
    with progress("translating", None) as advance:
        found = loaded.translate(given, beams=beams, prefix=prefix, progress=advance)
    for text, one in zip(given, found, strict=True):
        if json:
            print_json({"source": text, "translation": one.text, "parts": one.to_dict()["parts"]})
        else:
            typer.echo(one.text)
