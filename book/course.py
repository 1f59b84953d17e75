"""The course: chapters in jupytext's percent format, run cell by cell, as pages of the site and as notebooks.

A chapter is a Python file: `# %% [markdown]` opens a cell of text, `# %%` one of code, `# %% tags=["solution"]` the
answer to an exercise, which a page folds away. In a text, a line such as {{ clearhead.nn.attention.causal_mask }} is
replaced by the source of that function, so that what is taught is what runs. `python book/course.py FOLDER` writes the
chapters as notebooks.
"""

import ast
import contextlib
import importlib
import inspect
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from clearhead.inside.page import View

CHAPTERS = Path(__file__).with_name("course")
# how a notebook begins where the package may not be there yet, as in Colab
INSTALL = """try:
    import clearhead
except ModuleNotFoundError:
    # where it is not published, upload the wheel and install that: %pip install clearhead-VERSION-py3-none-any.whl
    %pip install --quiet clearhead"""
_BESIDE = re.compile(
    r"\[([^\]]*)\]\((?!https?:)[^)]*\)"
)  # a link to a page of the site, which a notebook is not beside
_CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)
_SOURCE = re.compile(r"^\{\{ (\S+) \}\}$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """Text or code; a solution is code that a reader should not see at once."""

    text: str
    is_code: bool
    is_solution: bool = False


@dataclass(frozen=True)
class Shown:
    """What a cell printed, and the picture that it ended with, if any."""

    printed: str
    picture: View | None


def chapters() -> list[Path]:
    """All chapters, in their order."""
    return sorted(CHAPTERS.glob("[0-9]*.py"))


def read(path: Path) -> list[Cell]:
    """The cells of a chapter."""
    _, *parts = _CELL.split(path.read_text(encoding="utf-8"))
    found = []
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in head:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(Cell(_SOURCE.sub(lambda named: source(named[1]), text), is_code=False))
        else:
            found.append(Cell(body.strip(), is_code=True, is_solution="solution" in head))
    return found


def source(name: str) -> str:
    """The source of a function or class of the package, as a block of code."""
    module, _, rest = name.rpartition(".")
    owner = module.rpartition(".")[2]
    if owner[:1].isupper():  # a method of a class
        thing = getattr(getattr(importlib.import_module(module.rpartition(".")[0]), owner), rest)
    else:
        thing = getattr(importlib.import_module(module), rest)
    file = Path(inspect.getfile(thing)).as_posix().partition("/clearhead/")[2]
    return f"```python\n# {file}\n{dedent(inspect.getsource(thing)).rstrip()}\n```"


def run(cells: Iterable[Cell]) -> Iterator[Shown | None]:
    """Run the code of a chapter, and give what each cell showed: None of text.

    As in a notebook, the value of a last line that is an expression is shown, too.
    """
    names: dict[str, Any] = {"__name__": "__chapter__"}
    for cell in cells:
        if not cell.is_code:
            yield None
            continue
        tree = ast.parse(cell.text)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None and not isinstance(value, View):
                print(repr(value))
        yield Shown(printed.getvalue(), value if isinstance(value, View) else None)


def page(path: Path, folder: Path) -> str:
    """A chapter as Markdown, with what its code shows; pictures are written beside it, into the folder.

    The notebook, to which it links, is written by `write_notebooks`.
    """
    cells, parts = read(path), []
    for number, (cell, shown) in enumerate(zip(cells, run(cells), strict=True)):
        if shown is None:
            parts.append(cell.text)
            continue
        block = f"```python\n{cell.text}\n```"
        if shown.printed:
            block += f"\n\n```text\n{shown.printed.rstrip()}\n```"
        if shown.picture is not None:
            name = f"{path.stem}-{number}.html"
            (folder / name).write_text(shown.picture.html, encoding="utf-8")
            block += f'\n\n<iframe src="{name}" title="{shown.picture.title}" width="100%" height="640"></iframe>'
            block += f"\n\n[The picture by itself]({name})"
        parts.append(_folded(block) if cell.is_solution else block)
    parts.append(f"[This chapter as a notebook](notebooks/{path.stem}.ipynb), for Jupyter and Colab.")
    return "\n\n".join(parts) + "\n"


def _folded(block: str) -> str:
    inner = "\n".join(f"    {line}" if line else "" for line in block.splitlines())
    return f'??? success "A solution"\n\n{inner}'


def notebook(path: Path) -> dict[str, Any]:
    """A chapter for Jupyter and Colab (nbformat 4.5), without outputs; after its title it sees to the package."""
    first, *others = read(path)
    cells = [
        {
            "id": f"cell-{number}",
            "cell_type": "code" if cell.is_code else "markdown",
            "metadata": {"tags": ["solution"], "jupyter": {"source_hidden": True}} if cell.is_solution else {},
            "source": (cell.text if cell.is_code else _BESIDE.sub(r"\1", cell.text)).splitlines(keepends=True),
            **({"outputs": [], "execution_count": None} if cell.is_code else {}),
        }
        for number, cell in enumerate((first, Cell(INSTALL, is_code=True), *others))
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebooks(folder: Path) -> None:
    """Write every chapter as a notebook."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in chapters():
        (folder / f"{path.stem}.ipynb").write_text(json.dumps(notebook(path), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_notebooks(Path(sys.argv[1] if len(sys.argv) > 1 else "build/notebooks"))
