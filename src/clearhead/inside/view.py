"""A picture as one HTML page: in a file, in a browser, or in a notebook."""

import html
import logging
import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.hub.atomic import staged

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class View:
    """A self-contained page. In a notebook it shows itself when it is the last value of a cell.

    `data` are the numbers behind the picture, as JSON has them.
    """

    title: str
    html: str = field(repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; the file is there completely or as it was before."""
        target = Path(path)
        with staged(target.parent) as stage:
            (stage / target.name).write_text(self.html, encoding="utf-8", newline="\n")
        return target

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
