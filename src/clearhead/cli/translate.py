"""`clearhead translate`: texts in the other language."""

from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.inout import (
    BestOption,
    JsonOption,
    PenaltyOption,
    TextsArgument,
    TextsOption,
    WriterOption,
    given_texts,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from clearhead.pipelines.manner import How


def translate(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: WriterOption = None,
    beams: Annotated[int, typer.Option(help="Beginnings that are kept at each step; 1 is greedy.")] = 4,
    best: BestOption = None,
    length_penalty: PenaltyOption = None,
    prefix: Annotated[str, typer.Option(help='Put before every sentence: "translate English to German: ".')] = "",
    json: JsonOption = False,
) -> None:
    """Translate texts, sentence by sentence, by an OPUS-MT, T5 or recurrent model, or one trained here.

    Example: `clearhead translate "Ich muss auf den Markt gehen." --model ./de-en`
    """
    from clearhead.pipelines.model import load

    given = given_texts(texts, file)
    options = {"beams": beams, "best": best, "length_penalty": length_penalty}
    how: How = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]
    loaded = load(model)
    with progress("translating", None) as advance:
        # of an iterator, translations come as they are made
        found = loaded.translate(iter(given), prefix=prefix, progress=advance, **how)
        for text, ways in zip(given, found, strict=True):
            for one in ways if how.get("best", 1) > 1 else [ways]:
                if json:
                    print_json({"source": text, "translation": one.text, "parts": one.to_dict()["parts"]})
                else:
                    typer.echo(one.text)
