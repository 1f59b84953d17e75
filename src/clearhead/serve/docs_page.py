"""The page of examples: every route of an OpenAPI document, with a body that can be changed and sent.

One file without anything from elsewhere; `docs_policy` is the Content-Security-Policy under which it works.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

_HERE = Path(__file__).parent
_BASE = _HERE.parent / "inside" / "pages" / "shared" / "base.css"  # read as a file: the room itself imports torch
_EXAMPLE_HOST = "http://127.0.0.1:8643"  # until the script puts the page's own in its place
_VALUES = {"model": "built-in", "task": "fill-mask"}  # to begin with, of what stands in braces

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<div class="brand">{title} {version}</div>
<h1>The service, by example</h1>
<p class="lead">Every route, as each kind of client speaks it. Change a body and send it from here, or take the line
below it to a terminal. For programs: <a href="openapi.json">openapi.json</a>.</p>
</header>
<div class="controls">
{key}<div class="field"><label for="find">Find a route</label><input id="find" type="search" autocomplete="off"></div>
</div>
<nav aria-label="Kinds of clients">{links}</nav>
<main class="single">
{sections}
<p class="none" hidden>No route has these words.</p>
</main>
<script type="module">{script}</script>
</body>
</html>
"""
_KEY = """<div class="field"><label for="key">API key</label><input id="key" type="password" autocomplete="off"
placeholder="kept in this page alone"></div>
"""
_ROUTE = """<details class="card route {method}" data-method="{verb}" data-path="{path}"{open}>
<summary><span class="method">{verb}</span><code>{path}</code><span class="about">{about}</span></summary>
<div class="inner">
{places}{body}<div class="actions"><button class="send" type="button">Send</button>{reset}<span class="status"
role="status"></span></div>
<pre class="answer" aria-label="Answer" tabindex="0" hidden></pre>
<pre class="curl" aria-label="The same with curl" tabindex="0">{curl}</pre>
</div>
</details>
"""
_BODY = """<div><label>Body<textarea spellcheck="false" rows="{rows}">
{text}</textarea></label></div>
"""
_PLACE = """<label>{name}<br><input name="{name}" value="{value}" autocomplete="off" spellcheck="false"></label>
"""


class _Route(NamedTuple):
    dialect: str
    method: str
    path: str
    about: str
    places: list[str]
    keyless: bool
    example: Mapping[str, Any] | None  # of a body


def docs_page(document: Mapping[str, Any]) -> str:
    """Show an OpenAPI document, as `clearhead.serve.openapi` makes it, as one HTML page."""
    routes = list(_routes(document))
    names = [tag["name"] for tag in document["tags"]]
    shown = {name: [route for route in routes if route.dialect == name] for name in names}
    shown = {name: some for name, some in shown.items() if some}
    secured = "security" in document
    style, script = _inline()
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        style=style,
        script=script,
        key=_KEY if secured else "",
        links="".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name in shown),
        sections="\n".join(_section(name, some) for name, some in shown.items()),
    )


def docs_policy() -> str:
    """The Content-Security-Policy for the page: its own style and script, by their hashes, and requests to its host."""
    style, script = (
        "'sha256-" + base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() + "'" for one in _inline()
    )
    sources = f"style-src {style}; script-src {script}; connect-src 'self'"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def _inline() -> tuple[str, str]:
    """What stands in the page's style and script elements."""
    pages = _HERE / "pages"
    style, script = pages / "docs.css", pages / "docs.js"
    return "".join(path.read_text(encoding="utf-8") for path in (_BASE, style)), script.read_text(encoding="utf-8")


def _routes(document: Mapping[str, Any]) -> Iterator[_Route]:
    """Each route once for every dialect that speaks on it."""
    secured = "security" in document
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            places = [one["name"] for one in operation.get("parameters", ()) if one.get("in") == "path"]
            keyless = not secured or operation.get("security") == []
            if method == "post":
                examples = operation["requestBody"]["content"]["application/json"]["examples"]
                for one in examples.values():
                    yield _Route(one["x-dialect"], method, path, one["summary"], places, keyless, one["value"])
            else:
                yield _Route(operation["tags"][0], method, path, operation["summary"], places, keyless, None)


def _section(name: str, routes: list[_Route]) -> str:
    inner = "".join(_shown(route) for route in routes)
    return f'<section id="{_anchor(name)}"><h2>{escape(name)}<small>{len(routes)}</small></h2>\n{inner}</section>'


def _shown(route: _Route) -> str:
    body = ""
    if route.example is not None:
        fields = (f"  {_json(name)}: {_json(value)}" for name, value in route.example.items())
        text = "{\n" + ",\n".join(fields) + "\n}"
        body = _BODY.format(rows=min(text.count("\n") + 1, 16), text=escape(text))
    places = "".join(_PLACE.format(name=escape(name), value=escape(_VALUES.get(name, ""))) for name in route.places)
    return _ROUTE.format(
        method=route.method,
        verb=route.method.upper(),
        path=escape(route.path),
        about=escape(route.about),
        open=' data-open="yes"' if route.keyless else "",
        places=f'<div class="places">{places}</div>\n' if places else "",
        body=body,
        reset='<button class="plain reset" type="button">Reset</button>' if body else "",
        curl=escape(_curl(route)),
    )


def _curl(route: _Route) -> str:
    path = re.sub(r"\{(\w+)\}", lambda place: _VALUES.get(place[1], place[0]), route.path)
    parts = [f"curl {_quoted(_EXAMPLE_HOST + path)}"]
    if not route.keyless:
        parts.append('-H "authorization: Bearer $CLEARHEAD_API_KEY"')
    if route.example is not None:
        parts += ["-H 'content-type: application/json'", f"-d {_quoted(_json(route.example))}"]
    return " ".join(parts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    """A word for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _anchor(name: str) -> str:
    return "-".join(re.findall(r"\w+", name.lower()))
