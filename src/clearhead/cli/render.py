"""Results as they are printed: a JSON object a line for programs; for people lines, bars and marked texts.

Who reads through a pipe, or has set NO_COLOR, gets plain lines.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import typer

from clearhead.io import as_json_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Cell = Union[str, "Text"]
Line = Union[Cell, "Table"]
Row = tuple[Mapping[str, Any], Iterable[Line]]  # one result: the object for programs, the lines for people
Rows = Iterable[Row]


def print_rows(rows: Rows, *, as_json: bool) -> None:
    """Print results one after another, as they come; lines that are not wanted are not made, if they are lazy."""
    for record, lines in rows:
        if as_json:
            typer.echo(as_json_line(record))
            continue
        for line in lines:
            if isinstance(line, str):
                typer.echo(line)
                continue
            from rich.console import Console

            Console(highlight=False, emoji=False, markup=False).print(line)


def in_colour() -> bool:
    """Whether somebody looks at a terminal and likes colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shorten(text: str, width: int = 60) -> str:
    """A text on one line of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """A table after an empty line, names to the left and numbers to the right: with rules for people, else plain."""
    yield ""
    if in_colour():
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(head):
            table.add_column(name.translate(_CONTROLS), justify="right" if place else "left")
        for row in rows:
            table.add_row(*(cell.translate(_CONTROLS) for cell in row))
        yield table
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [f"{cell:{'>' if place else '<'}{widths[place]}}" for place, cell in enumerate(row)]
        yield "  ".join(cells).rstrip()


def scored(score: float, *columns: Cell) -> Cell:
    """A probability and what it is the probability of: in colour with a bar for people, else in plain columns."""
    if not in_colour():
        return "  ".join([f"{score:.3f}", *map(str, columns)])
    from rich.text import Text

    line = Text.assemble(f"{score:.3f} ", (bar(score), "cyan"))
    for number, column in enumerate(columns):
        shown = Text(column.translate(_CONTROLS), "" if number else "bold") if isinstance(column, str) else column
        line.append("  ").append_text(shown)
    return line


def bar(score: float, width: int = 12) -> str:
    """A probability as a bar, an eighth of a character fine."""
    eighths = round(max(0.0, min(1.0, score)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)


_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
# a text may hold control characters, which a terminal would obey; each is shown as the one that means "unknown"
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Mark(NamedTuple):
    """Characters start … end - 1 of a text, and what they are."""

    start: int
    end: int
    label: str = ""


def marked(text: str, marks: Sequence[Mark]) -> "Text":
    """The text with each mark in the colour of its label, and the label behind it."""
    from rich.text import Text

    labels = list(dict.fromkeys(mark.label for mark in marks))
    line, done = Text(), 0
    for mark in sorted(marks):
        if mark.start < done:  # entities never overlap; what does is left as it is
            continue
        colour = _COLOURS[labels.index(mark.label) % len(_COLOURS)]
        line.append(text[done : mark.start].translate(_CONTROLS))
        line.append(text[mark.start : mark.end].translate(_CONTROLS), f"bold reverse {colour}")
        if mark.label:
            line.append(f" {mark.label.translate(_CONTROLS)}", colour)
        done = mark.end
    line.append(text[done:].translate(_CONTROLS))
    return line


def in_context(text: str, mark: Mark, width: int = 80) -> "Text":
    """A mark with at most `width` characters of its text on either side, on one line."""
    first, last = max(0, mark.start - width), min(len(text), mark.end + width)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    # spaces for line ends keep every character in its place
    piece = left + text[first:last].replace("\n", " ").replace("\t", " ") + right
    moved = len(left) - first
    return marked(piece, [Mark(mark.start + moved, mark.end + moved, mark.label)])


def difference(before: str, after: str) -> Mark:
    """Where two texts differ, as a mark in the second."""
    start = _common_start(before, after)
    return Mark(start, len(after) - _common_start(before[start:][::-1], after[start:][::-1]))


def _common_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
