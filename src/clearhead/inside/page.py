"""Pictures as self-contained HTML pages: in a file, in a browser, or in a notebook; tensors as rounded numbers."""

import html
import json
import logging
import os
import sys
import tempfile
import webbrowser
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.errors import BadCheckpoint, BadInput, require
from clearhead.io import staged


def rounded(x: Tensor, digits: int = 4) -> Any:
    """Lists of numbers with so many decimals, nested as the tensor is; -0.0 is written as 0."""
    require(
        bool(x.isfinite().all()),
        "the model computes numbers that are not finite; its weights are damaged",
        BadCheckpoint,
    )
    # in double precision a rounded number is written with no more digits than it has
    return (x.detach().cpu().double().round(decimals=digits) + 0.0).tolist()


def cosines(x: Tensor) -> Tensor:
    """The cosine of every vector with every other: (…, T, D) -> (…, T, T)."""
    unit = F.normalize(x, dim=-1)
    return unit @ unit.mT


def flat_map(x: Tensor) -> tuple[Tensor, Tensor]:
    """Principal components: vectors (T, D) -> places on a plane (T, 2), and the shares of the variance they show.

    The sign of each axis is fixed, so that the same vectors always give the same map.
    """
    centred = (x - x.mean(0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    places = F.pad(left * sizes, (0, 2))[:, :2]
    signs = places.gather(0, places.abs().argmax(0, keepdim=True)).sign()
    # what equal vectors differ by when they are subtracted from their mean is rounding, and no variance
    rounding = 1e-10 * (x.double() ** 2).sum().clamp(min=1e-12)
    shares = F.pad(sizes**2 / (sizes**2).sum().clamp(min=rounding), (0, 2))[:2]
    return (places * signs.where(signs != 0, 1.0)).float(), shares.float()


def page(
    folder: str,
    title: str,
    scripts: Sequence[str],
    facts: Mapping[str, object],
    chunks: Mapping[str, bytes] | None = None,
) -> str:
    """Put `pages/<folder>/body.html` into the common shell: the facts as JSON, each chunk as base64 by its id.

    The scripts run in this order, after the common one; "shared/…" are those that several pages use.
    """
    home = files("clearhead.inside") / "pages"

    def read(*names: str) -> str:
        return "\n".join(home.joinpath(name).read_text(encoding="utf-8") for name in names)

    own = [f"{folder}/style.css"] if home.joinpath(f"{folder}/style.css").is_file() else []
    style = read("shared/base.css", "shared/parts.css", *own)
    script = read("shared/base.js", *(name if "/" in name else f"{folder}/{name}" for name in scripts))
    # only these two texts may run or style anything, whatever else finds its way into the page
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(read("shared/page.html")).substitute(
        title=html.escape(title),
        policy=policy,
        style=style,
        body=read(f"{folder}/body.html"),
        script=script,
        # no string in it can end the script element or open a comment
        facts=json.dumps(facts).replace("<", "\\u003c"),
        chunks="\n".join(
            f'<script type="application/octet-stream" id="{name}">{b64encode(data).decode()}</script>'
            for name, data in (chunks or {}).items()
        ),
    )


def check_length(tokens: int, most: int) -> None:
    """Refuse a text that is too long for a picture."""
    require(
        tokens <= most, f"the text has {tokens} tokens, this page shows at most {most}; give a part of it", BadInput
    )


def message_page(message: str) -> str:
    """A page that says one sentence in the place of a picture."""
    return page("message", "Not this time", ["main.js"], {"message": message})


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


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
