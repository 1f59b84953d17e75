"""Make one HTML file that needs nothing else: its styles, scripts and data are inside, and it may load nothing."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from string import Template


def page(folder: str, scripts: Sequence[str], facts: Mapping[str, object], chunks: Mapping[str, bytes]) -> str:
    """Fill `pages/<folder>/page.html`: the scripts in this order, the facts as JSON, each chunk as base64 by its id."""
    home = files("clearhead.inside") / "pages" / folder
    style = (home / "style.css").read_text(encoding="utf-8")
    script = "\n".join((home / name).read_text(encoding="utf-8") for name in scripts)
    # only these two texts may run or style anything, whatever else finds its way into the page
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template((home / "page.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        style=style,
        script=script,
        # no string in it can end the script element or open a comment
        facts=json.dumps(facts).replace("<", "\\u003c"),
        chunks="\n".join(
            f'<script type="application/octet-stream" id="{name}">{b64encode(data).decode()}</script>'
            for name, data in chunks.items()
        ),
    )


def _digest(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
