"""The reference, made from the code: public names, verbs, JSON keys, HTTP routes, errors, keys of recipes.

Each function gives one page of Markdown. Signatures are those that Python has when the package runs, which for a use
(one text or many) no reader of source text finds; examples are the docstrings' own, which the tests run.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cached_property
from typing import Any, get_args

import typer

import clearhead
from clearhead import errors
from clearhead.cli import app
from clearhead.data.documents import Document
from clearhead.inside.page import View
from clearhead.inside.trace import Trace
from clearhead.io import Record
from clearhead.pipelines import results
from clearhead.pipelines.search.index import Index
from clearhead.serve.app import DIALECTS
from clearhead.serve.dialects.dialect import Dialect
from clearhead.serve.dialects.native import NATIVE
from clearhead.serve.openapi import document
from clearhead.training.recipes.distil import Distil
from clearhead.training.recipes.finetune import Finetune
from clearhead.training.recipes.language import Language
from clearhead.training.recipes.pretrain import Pretrain
from clearhead.training.recipes.translate import Translate
from clearhead.training.recipes.word2vec import Vectors

# what a public function takes or gives, and is not public by itself
ALSO = (Trace, View, Index, Document)
_HOME = re.compile(r"\b(?:clearhead(?:\.\w+)*|collections\.abc|pathlib|typing)\.(?=[A-Z])")  # where a type is defined
RECIPES = {
    "pretrain": Pretrain,
    "pretrain of gpt2, t5, xlnet, rnnlm and elmo": Language,
    "finetune": Finetune,
    "finetune translation": Translate,
    "distil": Distil,
    "vectors train": Vectors,
}
# an error of the package -> what the one who meets it does
REMEDIES = {
    errors.ClearheadError: "Catch it to catch all of them; each has a row of its own.",
    errors.BadInput: "Change what was given: the sentence shows it and says to what.",
    errors.InputTooLong: "Give a part, or choose a model with more positions.",
    errors.UnknownOption: "Take the keyword that the sentence names.",
    errors.BadConfig: "Change the value in config.json, a recipe or `--set` that the sentence names.",
    errors.BadCheckpoint: "Fetch or make the folder again; the sentence names the file that is wrong.",
    errors.UnsafeCheckpoint: "Take the safetensors of that model, or `clearhead convert` the file.",
    errors.NotFound: "Check the name; the sentence says what is there, or which extra to install.",
    errors.WrongTask: "Choose another model or skill; the sentence says what this one can do.",
    errors.Unavailable: "Ask again later; the client has waited as long as the service said.",
}


def python() -> str:
    """Every public name, with its signature and its examples, which the tests run."""
    lines = ["# Python", "", "`import clearhead as ch`; nothing is loaded before a name is used.", ""]
    for name in sorted(clearhead.__all__, key=lambda name: name.endswith("Config")):  # what one begins with comes first
        thing = getattr(clearhead, name)
        if not isinstance(thing, str):
            lines += entry(name, thing)
    lines += ["## What they give and take", ""]
    for thing in ALSO:
        lines += entry(thing.__name__, thing)
    return "\n".join(lines)


def entry(name: str, thing: Any) -> list[str]:
    """A name with its signature and docstring; of a class its public methods too."""
    lines = [f"## {name}", "", *_signed(name, thing), *_prose(inspect.getdoc(thing))]
    if not inspect.isclass(thing):
        return lines
    for method, value in _members(thing):
        if isinstance(value, property | cached_property):
            lines += [f"### {name}.{method}", "", *_prose(inspect.getdoc(value))]
        else:
            bound = getattr(thing, method)
            lines += [f"### {name}.{method}", "", *_signed(f"{name}.{method}", bound), *_prose(inspect.getdoc(bound))]
    return lines


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class itself defines and describes, as the source has them."""
    for name, value in vars(thing).items():
        told = isinstance(value, property | cached_property | classmethod | staticmethod) or callable(value)
        if not name.startswith("_") and told and inspect.getdoc(getattr(thing, name, None)):
            yield name, value


def _signed(name: str, thing: Any) -> list[str]:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return []
    shown = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", _HOME.sub("", str(signature)))
    shown = shown.replace("(self, ", "(").replace("(self)", "()")
    if len(shown) > 80:
        parts = _top_level(shown)
        shown = "(\n" + "".join(f"    {part},\n" for part in parts[0]) + ")" + parts[1]
    return ["```python", f"{name}{shown}", "```", ""]


def _top_level(signature: str) -> tuple[list[str], str]:
    """The parameters of a signature, and what stands behind them."""
    depth, start, parts = 0, 1, []
    for place, sign in enumerate(signature):
        depth += (sign in "([{") - (sign in ")]}")
        if (sign == "," and depth == 1) or depth == 0:
            parts.append(signature[start:place].strip())
            start = place + 1
        if depth == 0:
            return [part for part in parts if part], signature[place + 1 :]
    return parts, ""


def _prose(docstring: str | None) -> list[str]:
    """A docstring as Markdown: examples become blocks of code."""
    lines, example = [], False
    for line in (docstring or "").splitlines():
        begins, ends = line.startswith(">>> "), not line.strip()
        if begins and not example:
            lines += ["", "```pycon"]
        elif ends and example:
            lines.append("```")
        example = (example or begins) and not ends
        lines.append(line)
    return [*lines, *(["```"] if example else []), ""]


def command_line() -> str:
    """Every verb with its arguments and options, as `--help` has them."""
    lines = ["# The command line, word by word", "", "[A guide with examples](../cli.md) comes before this page.", ""]
    for path, command in commands():
        lines += [f"## clearhead {path}", "", *_prose(_plain(command.help))]
        shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
        rows = [(spelling(one), default(one), _plain(getattr(one, "help", None))) for one in shown]
        lines += [*_table(("", "default", ""), rows), ""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words after `clearhead`."""

    def below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, one in getattr(command, "commands", {}).items():
            path = f"{words} {name}".strip()
            if hasattr(one, "commands"):
                yield from below(one, path)
            elif not one.hidden:
                yield path, one

    return below(typer.main.get_command(app), "")


def spelling(parameter: Any) -> str:
    """An argument or option as one writes it."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def default(parameter: Any) -> str:
    """What a parameter is where it is not given."""
    value = parameter.default
    if parameter.required:
        return "required"
    return "" if value in (None, False, ()) or callable(value) or "UNSET" in repr(value).upper() else f"`{value}`"


def json_keys() -> str:
    """The keys of what `--json`, the service and `to_dict` give."""
    lines = ["# JSON keys", "", "What `--json`, the service and `to_dict()` write of each kind of result.", ""]
    for name, kind in vars(results).items():
        if inspect.isclass(kind) and issubclass(kind, Record) and is_dataclass(kind):
            lines += [f"## {name}", "", *_prose(inspect.getdoc(kind))]
            rows = [(f"`{one.name}`", f"`{_type(one.type)}`") for one in fields(kind)]
            lines += [*_table(("key", "type"), rows), ""]
    return "\n".join(lines)


def http(dialects: Iterable[Dialect] = (NATIVE,)) -> str:
    """The service's own routes, from the document that it gives at /openapi.json."""
    described = document(tuple(dialects), title="clearhead", version=clearhead.__version__, secured=False)
    told = "The routes of `clearhead serve` in its own words; those of other services are in [serving](../serving.md)."
    lines = ["# HTTP", "", f"{told} `/openapi.json` of a running service has all of them with their schemas.", ""]
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", "", route.get("summary", ""), "", route.get("description", ""), ""]
            lines += _body(route, described)
    lines += ["## As other services have them", "", "Their bodies and answers are those of the service itself.", ""]
    for dialect in DIALECTS:
        if dialect not in dialects:
            posts = [("POST", f"`{post.path}`", post.about) for post in dialect.posts]
            gets = [("GET", f"`{get.path}`", get.about) for get in dialect.gets]
            lines += [f"### {dialect.name}", "", *_table(("", "route", ""), list(dict.fromkeys([*posts, *gets]))), ""]
    return "\n".join(lines)


def _body(route: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = _resolved(content.get("schema", {}), described)
    required = schema.get("required", ())
    rows = [
        (f"`{name}`", f"`{_schema(_resolved(one, described))}`", "required" if name in required else _value(one))
        for name, one in schema.get("properties", {}).items()
    ]
    return [*_table(("field", "type", "default"), rows), ""] if rows else []


def _resolved(schema: Mapping[str, Any], described: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Any = described
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _schema(schema: Mapping[str, Any]) -> str:
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(_schema(one) for one in several))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kind = schema.get("type", "object" if "$ref" in schema else "any")
    return f"list of {_schema(schema.get('items', {}))}" if kind == "array" else str(kind)


def _value(schema: Mapping[str, Any]) -> str:
    return f"`{schema['default']}`" if schema.get("default") is not None else ""


def all_errors() -> str:
    """Every error that the package raises on purpose, and what to do about it."""
    lines = ["# Errors", "", "Each is one sentence: what is wrong, the value, what to do. On the command line it is "]
    lines[-1] += "printed on stderr, with exit code 2; over HTTP it is a 4xx."
    rows = [(f"`{kind.__name__}`", inspect.getdoc(kind).splitlines()[0], REMEDIES[kind]) for kind in error_kinds()]
    return "\n".join([*lines, "", *_table(("error", "when", "what to do"), rows), ""])


def error_kinds() -> list[type[errors.ClearheadError]]:
    """All classes of errors, in the order of the source."""
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.ClearheadError)]
    return list(dict.fromkeys(found))


def recipes() -> str:
    """Every key that `--set` and a recipe's TOML take, with its default."""
    lines = [
        "# Keys of recipes",
        "",
        "What `--set KEY=VALUE` and `--recipe FILE.toml` of each verb take. A default that ",
    ]
    lines[-1] += (
        "a verb chooses by the model or the task is said in [training](../training.md). `model.…` are the fields "
    )
    lines[-1] += "of a new model's config.json, as published. What is required is chosen by the verb's own options."
    for verb, kind in RECIPES.items():
        lines += ["", f"## {verb}", "", *_prose(inspect.getdoc(kind))]
        lines += [*_table(("key", "type", "default", "meaning"), list(_rows(kind, ""))), ""]
    return "\n".join(lines)


def _rows(kind: type, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    said = _comments(kind)
    for one in fields(kind):
        value = one.default_factory() if one.default_factory is not MISSING else one.default
        if is_dataclass(value) and not isinstance(value, type):
            yield from _rows_of(value, f"{prefix}{one.name}.")
        else:
            yield f"`{prefix}{one.name}`", f"`{_type(one.type)}`", _shown(one, value), said.get(one.name, "")
            for part in filter(is_dataclass, get_args(one.type)):  # a part that is there if it is asked for
                yield from _rows_of(part(), f"{prefix}{one.name}.")


def _rows_of(value: Any, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """The rows of a part of a recipe, whose defaults are this recipe's."""
    said = _comments(type(value))
    for one in fields(value):
        own = getattr(value, one.name)
        if is_dataclass(own):
            yield from _rows_of(own, f"{prefix}{one.name}.")
        else:
            yield f"`{prefix}{one.name}`", f"`{_type(one.type)}`", _shown(one, own), said.get(one.name, "")


def _comments(kind: type) -> dict[str, str]:
    """What the source says behind each field."""
    found = re.findall(r"^    (\w+): [^#\n]*  # (.*)$", inspect.getsource(kind), re.MULTILINE)
    return {name: text.split("  # ")[-1] for name, text in found if not text.startswith("type:")}


def _shown(spec: Field[Any], value: Any) -> str:
    return "required" if value is MISSING and spec.default_factory is MISSING else f"`{value}`"


def _type(kind: Any) -> str:
    if inspect.isclass(kind) and not get_args(kind):
        return kind.__name__
    # Markdown keeps the backslash before a | where it stands in code
    return re.sub(r"\b(\w+\.)+", "", str(kind)).replace(" | ", " or ")


def _plain(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(heads), line("---" for _ in heads), *map(line, rows)] if rows else []


PAGES: dict[str, Callable[[], str]] = {
    "python.md": python,
    "command-line.md": command_line,
    "json.md": json_keys,
    "http.md": http,
    "errors.md": all_errors,
    "recipes.md": recipes,
}
