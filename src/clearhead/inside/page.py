"""Views: self-contained HTML pages for a file, a browser or a notebook, and the numbers that go into them.

The studio draws the same page without a frame, in a shadow root of its own page. A view's scripts therefore run as one
function, to which `document`, `window`, `location`, `history`, `matchMedia`, `addEventListener`, `parent` and `Path2D`
are given, and they may rely on this:
- `document` finds what is in the view (by id, by selector) and makes elements; `document.body` and
  `document.documentElement` are the element round the view; keys reach a listener on it while the view is in use.
- What is chosen stands in `location.hash`, as `remember` and `remembered` of shared/base.js have it. `layer`, `head`
  and `token` are whole numbers from 0 in every view, since the studio hands them on from one view to the next, and to
  the same view of another text. On "hashchange" a view that listens shows what the address says; another is drawn anew.
- Canvases are prepared by `prepare`, drawings made of elements by `drawn`: so they are exported as vectors.
- `<main>` is an ordinary element there, and the brand and the h1 are left out, since the studio has its own.
  `@media (max-width: …)` asks for the width of the view, not of the window.
No script may load anything, write markup, or hang a handler on an attribute.
"""

import html
import json
import logging
import os
import sys
import tempfile
import webbrowser
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadCheckpoint, ClearheadError, InputTooLong, NotFound, require
from clearhead.io import write_text

log = logging.getLogger(__name__)
HOME = files("clearhead.inside")
LIMIT = 128  # tokens that a view shows, unless it can show more: most hold tables of their squares
_CAPTION = '<p class="made">{}</p>'


@dataclass(frozen=True)
class View:
    """A self-contained page. In a notebook it shows itself when it is the last value of a cell.

    `data` are the numbers behind the picture, as JSON has them.
    """

    title: str
    html: str = field(repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, name: str, title: str, scripts: Sequence[str], data: Mapping[str, Any]) -> "View":
        """Make the page of `pages/<name>`, which shows these data."""
        return cls(name, page(name, title, scripts, data), data)

    def captioned(self, caption: str) -> "View":
        """The same page with a line at its end that says what it shows: the model, the text, the date."""
        return replace(self, html=self.html.replace(_CAPTION.format(""), _CAPTION.format(html.escape(caption)), 1))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page, whole or not at all; a file that is there is refused, or with `overwrite` replaced."""
        write_text(self.html, Path(path), overwrite=overwrite)
        return Path(path)

    def show(self) -> None:
        """Open the page: below the cell in a notebook, else in the browser, from a temporary file."""
        ipython = sys.modules.get("IPython")
        if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
            ipython.display.display(self)
            return
        # the file stays, since nobody knows how long the browser needs it
        path = self.save(Path(tempfile.mkdtemp(prefix="clearhead-")) / f"{self.title}.html")
        if not webbrowser.open(path.as_uri()):
            log.warning("no browser could be opened; the page is at %s", path)

    def _repr_html_(self) -> str:
        # the sandbox keeps the page's scripts away from the notebook around it
        return (
            f'<iframe title="{html.escape(self.title)}" sandbox="allow-scripts" width="100%" height="820" '
            f'style="border: 0" srcdoc="{html.escape(self.html)}"></iframe>'
        )


def live(draw: Callable[[str], View], text: str) -> Any:
    """A notebook widget (anywidget): a field for the text above `draw(text)`, drawn anew when the text changes.

    Such as live(lambda text: trace(model, text).heads(), "The animal …"). Its `text` can be read and set from Python;
    what is wrong with a text is said in the place of the picture.
    """
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise NotFound(f"a live view needs {error.name}; run: pip install 'clearhead[notebook]'") from None

    class Live(anywidget.AnyWidget):
        _esm = (HOME / "widget.js").read_text(encoding="utf-8")
        text = traitlets.Unicode().tag(sync=True)
        page = traitlets.Unicode().tag(sync=True)
        problem = traitlets.Unicode().tag(sync=True)

        @traitlets.observe("text")
        def _draw(self, change: Any) -> None:
            try:
                self.page, self.problem = draw(self.text).html, ""
            except ClearheadError as error:
                self.problem = str(error)

    return Live(text=text)


def page(
    name: str,
    title: str,
    scripts: Sequence[str],
    facts: Mapping[str, object],
    chunks: Mapping[str, bytes] | None = None,
) -> str:
    """Put `pages/<name>/body.html` into the common shell: the facts as JSON, each chunk as base64 by its id.

    The scripts run in this order, after the common one; "shared/…" are those that several pages use.
    """

    own = [f"{name}/style.css"] if HOME.joinpath("pages", name, "style.css").is_file() else []
    style = _read("shared/base.css", "shared/parts.css", *own)
    script = _code(name, scripts)
    # only these two texts may run or style anything, whatever else finds its way into the page
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_read("shared/page.html")).substitute(
        title=html.escape(title),
        policy=policy,
        style=style,
        body=_read(f"{name}/body.html"),
        name=name,
        files=",".join(scripts),
        script=script,
        # no string in it can end the script element or open a comment
        facts=json.dumps(facts).replace("<", "\\u003c"),
        chunks="\n".join(
            f'<script type="application/octet-stream" id="{one}">{b64encode(data).decode()}</script>'
            for one, data in (chunks or {}).items()
        ),
    )


def module(name: str, scripts: Sequence[str]) -> str:
    """The scripts of a page as a module for the studio, whose `draw` is given what they take for their document."""
    known = {one.name for one in HOME.joinpath("pages").iterdir()}
    require(name in known, f"there is no view {name[:40]!r}", NotFound)
    there = {f"{folder}/{one.name}" for folder in (name, "shared") for one in HOME.joinpath("pages", folder).iterdir()}
    for one in scripts:
        wanted = one if "/" in one else f"{name}/{one}"
        require(wanted in there and one.endswith(".js"), f"the view {name!r} has no script {one[:40]!r}", NotFound)
    given = "document, window, location, history, matchMedia, addEventListener, parent, Path2D"
    return f"export async function draw({{ {given} }}) {{\n{_code(name, scripts)}\n}}\n"


def _read(*names: str) -> str:
    return "\n".join(HOME.joinpath("pages", one).read_text(encoding="utf-8") for one in names)


def _code(name: str, scripts: Sequence[str]) -> str:
    return _read("shared/base.js", *(one if "/" in one else f"{name}/{one}" for one in scripts))


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def message_page(message: str, **more: object) -> str:
    """A page that says one sentence in the place of a picture; what else is known stands among its facts."""
    return page("message", "Not this time", ["main.js"], {"message": message, **more})


def check_length(tokens: int, most: int, todo: str = "give a part of it") -> None:
    """Refuse a text that is too long for a picture."""
    require(tokens <= most, f"the text has {tokens} tokens, this page shows at most {most}; {todo}", InputTooLong)


def rounded(x: Tensor, digits: int = 4) -> Any:
    """Lists of numbers with so many decimals, nested as the tensor is; -0.0 is written as 0."""
    message = "the model computes numbers that are not finite; its weights are damaged"
    require(bool(x.isfinite().all()), message, BadCheckpoint)
    # in double precision a rounded number is written with no more digits than it has
    return (x.detach().cpu().double().round(decimals=digits) + 0.0).tolist()


def cosines(x: Tensor) -> Tensor:
    """The cosine of every vector with every other: (…, T, D) -> (…, T, T)."""
    unit = F.normalize(x, dim=-1)
    return unit @ unit.mT
