"""`make demo`: a tour of a minute with the built-in model, offline. Every line of Python is shown, then run."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

import clearhead as ch
from clearhead.errors import ClearheadError
from clearhead.inside.senses import EXAMPLES as SENSES
from clearhead.studio.examples import EXAMPLES

BANKS = (*SENSES["bank"]["money"][:2], *SENSES["bank"]["river"][:2])
NUS = EXAMPLES["/use/ask"][0]["values"]["context"]
QUERY, NOTES = (EXAMPLES["/use/search"][0]["values"][name] for name in ("query", "documents"))


def scores(found: Any) -> str:
    """Labels with their probabilities, the best first."""
    return "   ".join(f"{label} {score:.2f}" for label, score in found.scores.items())


def answer(found: Any) -> str:
    """An answer with its place in the passage."""
    return "(no answer)" if found.text is None else f"{found.text!r}, characters {found.start} to {found.end}"


# a line that is shown and run, and what is shown of its result
TOUR: Sequence[tuple[str, Callable[[Any], str]]] = (
    (
        'model.fill("She opened the [MASK] and walked into the room.", top_k=3)',
        lambda found: "   ".join(f"{one.token} {one.score:.2f}" for one in found.predictions),
    ),
    ('model.answer("What can we learn in NUS?", passage)', answer),
    ('model.answer("What does NUS stand for?", passage)', answer),
    ('model.answer("Who painted the ceiling?", passage)    # the passage does not say', answer),
    (
        'model.tag("Ada Lovelace lived in London and wrote to Charles Babbage.")',
        lambda found: "   ".join(f"{one.text} {one.label}" for one in found.entities) or "(none)",
    ),
    ('model.classify("A warm, funny and clever film.")', scores),
    ('model.classify("URGENT! You have won a 1 week FREE membership. Call 09061701461 now!", skill="spam")', scores),
    ('model.compare("A soccer game with multiple males playing.", "Some men are playing a sport.")', scores),
    ('model.compare("A man is playing a guitar.", "A man plays the guitar.", skill="similarity")', scores),
    (
        'model.follows("The man went to the store.", ["He bought some milk.", "Penguins are flightless birds."])',
        lambda found: "   ".join(f"{'yes' if one.follows else 'no'} {one.probability:.2f}" for one in found),
    ),
    ('model.embed(["any text", "of any length"])', lambda found: f"{len(found)} vectors of width {found.shape[1]}"),
    (
        f'model.search("{QUERY}", notes, top_k=2)    # by words and meaning',
        lambda found: "\n".join(f"{hit.score:.2f} {hit.text}" for hit in found),
    ),
    ('ch.load("builtin:translator").translate("Ich muss auf den Markt gehen.")', str),
    (
        'model.senses("bank", banks)    # two of money, two of rivers: how near, by cosine',
        lambda found: "\n".join(" ".join(f"{cosine:5.2f}" for cosine in row) for row in found.cosines.tolist()),
    ),
    (
        'ch.trace(model, "The animal didn\'t cross the street because it was too tired").heads()'
        ".save(page, overwrite=True)",
        lambda path: f"wrote {path}: open it in a browser, and see what looks at what",
    ),
)

NEXT = """
Try next:
  .venv/bin/clearhead ask "How do tokens travel?" --context README.md   # your own text; docs/cli.md has every verb
  .venv/bin/clearhead look why "A warm, funny and clever film."         # which words made it say so
  .venv/bin/pip install -e '.[studio]' && .venv/bin/clearhead studio    # all of it in the browser
  docs/training.md                                                      # a model of your own, from raw text
"""


def say(line: str) -> None:
    """Show a line of Python before its result."""
    typer.secho(f"\n>>> {line}", fg="cyan")


def main(folder: Path = Path("demo")) -> None:
    """Run the tour and leave a page in `folder`."""
    start = time.perf_counter()
    model = ch.load()
    say("import clearhead as ch; model = ch.load()    # the built-in model, with its skills")
    typer.echo(repr(model))
    typer.echo(f"\nThe passage of the questions:\n{NUS}")
    page = folder / "attention.html"
    known = {"ch": ch, "model": model, "passage": NUS, "notes": NOTES.split("\n\n"), "banks": BANKS, "page": page}
    for line, shown in TOUR:
        say(line)
        typer.echo(shown(eval(line, known)))  # noqa: S307  the lines are those above
    typer.echo(f"\nThat took {time.perf_counter() - start:.0f} s, without a network.")
    typer.echo(NEXT.rstrip())


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))
    except ClearheadError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
