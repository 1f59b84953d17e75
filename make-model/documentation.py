"""What programs say of themselves, for the skill `search`: docstrings of installed packages, searched by what they do.

usage: python make-model/documentation.py DATA OUT.jsonl PACKAGE…

Rows are those of search_data.py: a name in words, a summary, or "how to" do what the summary says, with the rest of the
docstring, and that of a neighbour in its file. What the Python language itself says is measured, and is not read here.
"""

import ast
import importlib.util
import inspect
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from measured import measured
from overlaps import Runs
from search_data import Row, shorten, usable
from skill_data import write_rows

FEWEST = 12  # words of what is found
# parts of a docstring that are no prose: examples, tables of parameters, references
_NO_PROSE = re.compile(r"^(>>>|\.\.\.|\.\. |:param|:type|:return|[-=~`*^]{3,}|\[\d+\]|\|)|^\s{4,}\S|::$")
_IMPERATIVE = re.compile(r"[A-Z][a-z]*[a-rt-z] (?:the|an?|all|each|if|whether|this|two|one|[a-z]+s?)\b")
_ASKED = ("how to {}", "how do I {}", "{}", "is there a way to {}?", "I want to {}")


def docstrings(package: str) -> Iterator[list[tuple[str, str]]]:
    """The names and docstrings of each file of a package, tests aside."""
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations if found else None) or ():
        for path in sorted(Path(folder).rglob("*.py")):
            if any(part.startswith(("test", "_vendor")) for part in path.parts):
                continue
            try:
                tree = ast.parse(path.read_text("utf-8"))
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue
            nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))
            said = ((node.name, ast.get_docstring(node) or "") for node in nodes)
            yield [(name, inspect.cleandoc(text)) for name, text in said if len(text.split()) >= FEWEST]


def prose(text: str) -> tuple[str, str]:
    """The summary of a docstring, and its other sentences."""
    paragraphs = [part.split("\n") for part in text.split("\n\n")]
    kept = [" ".join(line.strip() for line in part) for part in paragraphs if not any(map(_NO_PROSE.search, part))]
    plain = [re.sub(r":\w+:|[`*]+|~", "", part) for part in kept]
    return (plain[0], " ".join(plain[1:])) if plain else ("", "")


def rows(package: str, rng: random.Random) -> Iterator[Row]:
    for file in docstrings(package):
        cut = [(name, *prose(text)) for name, text in file]
        for place, (name, summary, rest) in enumerate(cut):
            others = [one for one in cut[max(place - 5, 0) : place + 6] if one[1] and one[1] != summary]
            if not summary or not others:
                continue
            other = rng.choice(others)
            negative, whole = shorten(f"{other[1]} {other[2]}"), shorten(f"{summary} {rest}")
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", name).strip().lower()
            if len(words.split()) > 1:
                yield {"first": words, "second": whole, "negative": negative}
            if _IMPERATIVE.match(summary):
                done = summary.split(". ")[0].rstrip(".")
                asked = rng.choice(_ASKED).format(done[0].lower() + done[1:])
                second = shorten(rest) if len(rest.split()) >= FEWEST and rng.random() < 0.5 else whole
                yield {"first": asked, "second": second, "negative": negative}
            elif len(rest.split()) >= FEWEST:
                yield {"first": summary, "second": shorten(rest), "negative": negative}


def main() -> None:
    data, out, *packages = sys.argv[1:]
    found = [row for package in packages for row in rows(package, random.Random(package))]
    kept = list(usable(found, Runs(measured(Path(data)))))
    write_rows(kept, Path(out))
    print(f"{out}: {len(kept):,} pairs out of {', '.join(packages)}")


if __name__ == "__main__":
    main()
