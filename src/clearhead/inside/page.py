"""Make one HTML file that needs nothing else: its styles, scripts and data are inside, and it may load nothing."""

import html
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from string import Template

from clearhead.errors import BadInput, require


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
