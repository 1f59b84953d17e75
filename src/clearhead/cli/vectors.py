"""`clearhead vectors`: one vector for each word, learnt from one's own text."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.inout import JsonOption, print_json, progress, up_to
from clearhead.cli.recipe import (
    CORPUS,
    DeviceOption,
    RecipeOption,
    SetOption,
    changes,
    command_line,
    leave_if_interrupted,
    pick_device,
)

app = typer.Typer(name="vectors", help="Train and ask word vectors.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def vectors() -> None:
    """Word vectors (word2vec): one for each word, whatever the sentence."""


@app.command()
def train(
    corpus: Annotated[list[str], typer.Argument(help=CORPUS)],
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the vectors.")],
    kind: Annotated[
        str | None, typer.Option(help="skipgram (guess the words around) or cbow (guess the word in the middle).")
    ] = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Learn a vector for every word of your own text; run it again to go on after a stop.

    Example: `clearhead vectors train wiki.txt --out ./my-vectors --kind skipgram`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.training.overrides import override
    from clearhead.training.recipes.vectors import Vectors, train_vectors

    texts = Corpus(corpus)
    plan = override(Vectors(), changes(recipe, set_, kind=kind))
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        learnt, result = train_vectors(
            texts, out, plan, device=pick_device(device), progress=up_to(advance), command=command_line()
        )
    if json:
        print_json({"folder": str(out), "exit": result.exit, "steps": result.step, "words": len(learnt)})
    else:
        again = result.exit == "interrupted"
        outcome = "run the same command again to go on" if again else f"{len(learnt):,} words in {out}"
        typer.echo(f"{result.exit} after {result.step:,} steps: {outcome}")
    leave_if_interrupted(result)


@app.command()
def near(
    word: Annotated[str, typer.Argument(help="The word to look up.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The folder that `vectors train` wrote.")],
    top: Annotated[int | None, typer.Option(help="How many neighbours.", show_default="10")] = None,
    json: JsonOption = False,
) -> None:
    """Which words are used like this one? Prints them with their cosines.

    Example: `clearhead vectors near bank --model ./my-vectors`
    """
    from clearhead.pipelines.words import WordVectors

    found = WordVectors.load(model).near(word, top=top)
    if json:
        print_json({"word": word, "near": [{"word": other, "cosine": cosine} for other, cosine in found]})
        return
    for other, cosine in found:
        typer.echo(f"{cosine:6.3f}  {other}")
