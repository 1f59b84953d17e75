"""The demo as a recording: python book/recording.py runs it and writes docs/demo.svg, which plays in a browser.

Each line of Python appears with its result as `make demo` prints them, on a screen that scrolls by CSS alone. There is
no script in it, and where a reader asks for less motion the end is shown.
"""

import io
import re
import tempfile
import textwrap
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

from clearhead import demo

TARGET = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
COLUMNS, ROWS, STEP, PAUSE = 108, 26, 19, 2.2  # characters, lines that are seen, pixels of a line, seconds for a result


def recorded() -> list[list[str]]:
    """What the demo prints, in the steps in which it comes: a line of Python and its result."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as out:
        demo.main(Path(folder) / "demo")
    text = out.getvalue().replace(folder, ".").partition("\nThat took ")[0]
    steps = re.split(r"\n(?=>>> )", re.sub(r"\x1b\[\d*m", "", text).strip())
    return [[part for line in step.splitlines() for part in _wrapped(line)] for step in steps]


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, COLUMNS, subsequent_indent="  ") or [""]


def svg(steps: list[list[str]]) -> str:
    """The recording: all lines in one column, that moves up when the screen is full."""
    shown, lines, moves, clock, duration = "", 0, [], 0.0, PAUSE * (len(steps) + 2)
    for step in steps:
        begun = clock / duration
        for line in [*step, ""]:
            colour = "#7dd3fc" if line.startswith(">>> ") else "#e5e7eb"
            said = escape(line) or " "
            shown += f'<text class="l" style="--at:{clock:.1f}s" y="{lines * STEP}" fill="{colour}">{said}</text>\n'
            lines += 1
        moves.append((begun, max(0, lines - ROWS) * STEP))
        clock += PAUSE
    frames = "".join(f"{begun:.2%}{{transform:translateY(-{up}px)}}" for begun, up in moves)
    last = moves[-1][1]
    width, height = COLUMNS * 8.1 + 40, ROWS * STEP + 70
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">
<title>make demo, recorded</title>
<style>
text{{font:13.4px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}
.l{{opacity:0;animation:show .01s linear var(--at) forwards}}
.roll{{animation:roll {duration:.1f}s step-end forwards}}
@keyframes show{{to{{opacity:1}}}}
@keyframes roll{{{frames}to{{transform:translateY(-{last}px)}}}}
@media (prefers-reduced-motion:reduce){{
.l{{opacity:1;animation:none}}
.roll{{transform:translateY(-{last}px);animation:none}}
}}
</style>
<rect width="{width:g}" height="{height}" rx="10" fill="#111827"/>
<g fill="#6b7280"><circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/><circle cx="56" cy="18" r="5"/></g>
<text x="{width / 2:g}" y="23" fill="#9ca3af" text-anchor="middle">make demo</text>
<svg y="38" height="{ROWS * STEP + 14}" width="{width:g}"><g transform="translate(20 18)"><g class="roll">
{shown}</g></g></svg>
</svg>
"""


if __name__ == "__main__":
    TARGET.write_text(svg(recorded()), encoding="utf-8")
