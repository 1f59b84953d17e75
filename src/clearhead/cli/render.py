"""Results for people on a terminal: bars for probabilities, and what was found marked in its text.

Who reads through a pipe, or has set NO_COLOR, gets plain lines.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.text import Text


_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
# a text may hold what a terminal would obey; each such character is shown as one that means "unknown"
_OBEYED = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Mark(NamedTuple):
    """Characters start … end - 1 of a text, and what they are."""

    start: int
    end: int
    label: str = ""


def for_people() -> bool:
    """Whether somebody looks at a terminal and likes colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bar(score: float, width: int = 12) -> str:
    """A probability as a bar, an eighth of a character fine."""
    eighths = round(max(0.0, min(1.0, score)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)


def scored(score: float, *columns: str) -> "Text":
    """A line: probability, its bar, and what it is the probability of, the first column bold."""
    from rich.text import Text

    line = Text(f"{score:.3f} ")
    line.append(bar(score), "cyan")
    for number, column in enumerate(columns):
        line.append("  ")
        line.append(column.translate(_OBEYED), "" if number else "bold")
    return line


def tell(score: float, *columns: str) -> None:
    """Print a probability and what it is the probability of: in colour for people, in plain columns for the others."""
    if for_people():
        say(scored(score, *columns))
    else:
        typer.echo("  ".join([f"{score:.3f}", *columns]))


def marked(text: str, marks: Sequence[Mark]) -> "Text":
    """The text with each mark in the colour of its label, and the label behind it."""
    from rich.text import Text

    labels = list(dict.fromkeys(mark.label for mark in marks))
    line, done = Text(), 0
    for mark in sorted(marks):
        if mark.start < done:  # entities never overlap; what does is left as it is
            continue
        colour = _COLOURS[labels.index(mark.label) % len(_COLOURS)]
        line.append(text[done : mark.start].translate(_OBEYED))
        line.append(text[mark.start : mark.end].translate(_OBEYED), f"bold reverse {colour}")
        if mark.label:
            line.append(f" {mark.label.translate(_OBEYED)}", colour)
        done = mark.end
    line.append(text[done:].translate(_OBEYED))
    return line


def around(text: str, mark: Mark, width: int = 80) -> "Text":
    """A mark with at most `width` characters of its text on either side, on one line."""
    first, last = max(0, mark.start - width), min(len(text), mark.end + width)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    # spaces for line ends keep every character in its place
    piece = left + text[first:last].replace("\n", " ").replace("\t", " ") + right
    moved = len(left) - first
    return marked(piece, [Mark(mark.start + moved, mark.end + moved, mark.label)])


def changed(before: str, after: str) -> Mark:
    """Where two texts differ, as a mark in the second."""
    start = _alike(before, after)
    return Mark(start, len(after) - _alike(before[start:][::-1], after[start:][::-1]))


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def say(*lines: "Text") -> None:
    """Print lines in colour; what is wider than the terminal is wrapped."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        console.print(line)
