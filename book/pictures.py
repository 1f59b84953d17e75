"""The drawings of docs/, made from the code and from measured figures: python book/pictures.py writes them anew.

Which room imports which is read from the source; a family's picture from the network that its file builds, without
numbers; latency from benchmarks/results. docs/families.md is made here, too. A test holds that all are current.
"""

import ast
import importlib
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead.models import ALL_FAMILIES, Family

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "clearhead"
DRAWN = ROOT / "docs" / "pictures"
INK, PALE, LINE = "#1f2937", "#6b7280", "#9ca3af"
FILLS = {"embed": "#fde68a", "attend": "#bfdbfe", "feed": "#bbf7d0", "norm": "#e5e7eb", "other": "#fbcfe8"}


class Drawing:
    """An SVG on white paper, so that it can be read on dark pages, too; its height follows what is drawn."""

    def __init__(self, width: int, title: str) -> None:
        self.width, self.title, self.height, self.parts = width, title, 0.0, list[str]()

    def text(self, x: float, y: float, words: str, *, size: int = 13, fill: str = INK, anchor: str = "start") -> None:
        """Write a line that begins, or is centred, at x."""
        said = (
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'
        )
        self._add(said, y + 8)

    def box(self, x: float, y: float, width: float, height: float, fill: str, words: str = "") -> None:
        """Draw a box with a line of words in its middle."""
        shape = (
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{LINE}"/>'
        )
        self._add(shape, y + height)
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words, anchor="middle")

    def path(self, points: Sequence[tuple[float, float]], *, stroke: str = LINE, width: float = 1.5) -> None:
        """Draw a line through points."""
        joined = " ".join(f"{x:g},{y:g}" for x, y in points)
        line = f'<polyline points="{joined}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>'
        self._add(line, max(y for _, y in points))

    def dot(self, x: float, y: float, fill: str, radius: float = 4) -> None:
        """Draw a dot."""
        self._add(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}"/>', y + radius)

    def _add(self, part: str, bottom: float) -> None:
        self.parts.append(part)
        self.height = max(self.height, bottom)

    def svg(self) -> str:
        """The whole file."""
        height = self.height + 16
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height:g}" role="img"'
        font = 'font-family="Helvetica, Arial, sans-serif"'
        paper = f'<rect width="{self.width}" height="{height:g}" rx="8" fill="#ffffff"/>'
        return "\n".join([f"{head} {font}>", f"<title>{escape(self.title)}</title>", paper, *self.parts, "</svg>", ""])


# ---- the package -------------------------------------------------------------------------------------------------


def rooms() -> dict[str, str]:
    """The rooms with what they hold, in the order of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+)(?:/|\.py)` \| ([^|]*) \|", text, re.MULTILINE))


def imports(room: str) -> set[str]:
    """The rooms that a room imports from."""
    files = sorted((SOURCE / room).rglob("*.py")) if (SOURCE / room).is_dir() else [SOURCE / f"{room}.py"]
    found = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {module.split(".")[1]} if module.startswith("clearhead.") else set()
            found |= {alias.name for alias in node.names} if module == "clearhead" else set()
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("clearhead.")}
    return found - {room}


def package() -> str:
    """Who imports whom: a dot in a row stands under the room that this row imports."""
    known = rooms()
    drawing = Drawing(1040, "The rooms of the package, and which imports which")
    drawing.text(24, 34, "The rooms of clearhead: each imports only from those above it", size=17)
    drawing.text(24, 56, "A dot: the room of this row imports the room of this column.", fill=PALE)
    left, top, step = 680, 92, 24
    for number, (name, told) in enumerate(known.items()):
        y = top + number * step
        drawing.box(24, y - 16, 94, 21, FILLS["attend"] if number % 2 else FILLS["norm"], name)
        drawing.text(130, y - 1, _shortened(told, 82), size=12, fill=PALE)
        drawing.dot(left + number * 20, y - 6, LINE, 2)
        used = imports(name)
        for other, column in zip(known, range(number), strict=False):
            if other in used:
                drawing.dot(left + column * 20, y - 6, "#2563eb", 5)
    for number, name in enumerate(known):
        x = left + number * 20 + 4
        place = top + len(known) * step
        turned = (
            f'<text transform="rotate(60 {x} {place})" x="{x}" y="{place}" font-size="11" fill="{PALE}">{name}</text>'
        )
        drawing.parts.append(turned)
    drawing.height = top + len(known) * step + 62
    return drawing.svg()


def _shortened(words: str, length: int) -> str:
    plain = words.replace("`", "").strip()
    return plain if len(plain) <= length else f"{plain[: length - 1].rsplit(' ', 1)[0]} …"


# ---- families ----------------------------------------------------------------------------------------------------


def families() -> dict[str, tuple[list[str], Family, Any, str]]:
    """Each architecture once: its names in config.json, the family, the preset that is drawn, and the name of that."""
    found: dict[tuple[Any, Any], list[str]] = {}
    for name, family in ALL_FAMILIES.items():
        found.setdefault((family.encoder, family.config), []).append(name)
    drawn = {}
    for names in found.values():
        family = ALL_FAMILIES[names[0]]
        module = importlib.import_module(family.encoder.__module__)
        presets = {name: one for name, one in module.PRESETS.items() if type(one) is family.config}
        chosen = next((name for name in ("base", "small") if name in presets), next(iter(presets), ""))
        drawn[names[0]] = (names, family, presets[chosen] if chosen else family.config(), chosen)
    return drawn


def build(family: Family, config: Any) -> nn.Module:
    """The network with shapes and without numbers."""
    with torch.device("meta"):
        return family.encoder(config)


def family_picture(names: Sequence[str], family: Family, config: Any, preset: str) -> str:
    """An architecture as its module has it, read from the bottom to the top: one column for each stack of blocks."""
    network = build(family, config)
    stacks = [(name, part) for name, part in network.named_children() if isinstance(part, nn.ModuleList)]
    stacks = [(name, part) for name, part in stacks if name.endswith("blocks")]
    drawing = Drawing(90 + 390 * len(stacks), f"The architecture of {names[0]}")
    millions = sum(part.numel() for part in network.parameters()) / 1e6
    title = f"{names[0]}{f', {preset}' if preset else ''}: {millions:,.0f} million parameters"
    drawing.text(24, 34, title, size=17)
    lines = [_column(network, name, blocks) for name, blocks in stacks]
    tallest = max(map(len, lines)) - 1  # the frame of a block is drawn between boxes
    for number, column in enumerate(lines):
        _draw_column(drawing, column, x=60 + 390 * number, bottom=60 + tallest * 36)
    return drawing.svg()


Part = tuple[str, str, str]  # what it is for the drawing, its words, and whether a residual sum begins or ends here


def _column(network: nn.Module, name: str, blocks: nn.ModuleList) -> list[Part]:
    """From the tokens up: embeddings, what is told to attention, one block, the norm at the end."""
    side = name.removesuffix("blocks").removesuffix("_")  # encoder, decoder, or nothing where there is one stack
    parts: list[Part] = []
    for child, module in network.named_children():
        if child == "embeddings":
            parts += [("embed", words, "") for words in _embedding(module)]
        elif side in child and isinstance(getattr(module, "table", None), nn.Embedding):
            parts.append(("other", f"{type(module).__name__}: what attention knows of distances", ""))
    distinct = len({id(block) for block in blocks})
    shared = "" if distinct == len(blocks) else f", {distinct} with weights of its own"
    near = [one for block in blocks if (one := getattr(block.attention.attend, "window", None)) is not None]
    local = f", {len(near)} of them see {near[0]} neighbours on either side" if near else ""
    parts.append(("begin", f"× {len(blocks)}{shared}{local}", ""))
    parts += _block(blocks[-1])
    parts.append(("end", "", ""))
    last = getattr(network, f"{side}_norm" if side else "norm", None)
    if last is not None and not isinstance(last, nn.Identity):
        parts.append(("norm", type(last).__name__, ""))
    parts.append(("out", f"hidden states of the {side}" if side else "hidden states", ""))
    return parts


def _embedding(module: nn.Module) -> Iterator[str]:
    for name, part in module.named_children():
        if isinstance(part, nn.Embedding):
            yield f"{name}: {part.num_embeddings:,} × {part.embedding_dim}"
        elif isinstance(part, nn.Linear):
            yield f"{name}: {part.in_features} → {part.out_features}"
        elif isinstance(part, nn.LayerNorm):
            yield type(part).__name__
        elif name == "inner":
            yield from _embedding(part)
        elif not isinstance(part, nn.Dropout | nn.Identity):
            yield f"{name}: {type(part).__name__}"


def _block(block: nn.Module) -> Iterator[Part]:
    """The parts of a block in the order in which it has them; a residual sum goes round each that is no norm."""
    before = next(name for name, _ in block.named_children()).startswith("norm")
    for name, part in block.named_children():
        if name.startswith("norm"):
            if not isinstance(part, nn.Identity):
                yield "norm", type(part).__name__, "begin" if before else ""
        elif hasattr(part, "up"):
            gate = 2 if "Gated" in type(part).__name__ else 1
            inner = part.up.out_features // gate
            yield "feed", f"{type(part).__name__} {part.up.in_features} → {inner}", "end" if before else "both"
        elif not isinstance(part, nn.Dropout):
            turned = ", rotary" if getattr(part, "rotary", None) is not None else ""
            words = f"{type(part).__name__}{_heads(part)}{turned}"
            yield "attend", words, "end" if before else "both"


def _heads(part: nn.Module) -> str:
    count = f", {part.heads} heads" if hasattr(part, "heads") else ""
    return count + (", causal" if getattr(getattr(part, "attend", None), "causal", False) else "")


def _draw_column(drawing: Drawing, parts: Sequence[Part], x: float, bottom: float) -> None:
    """Boxes from the bottom up; residual sums as lines on the left, the block as a frame."""
    width, step, y = 300, 36, bottom
    frame, began = bottom, bottom
    for kind, words, residual in parts:
        if kind == "begin":
            frame, began = y - 4, y
            y -= 8
            drawing.text(x + width + 34, frame - 8, words, anchor="end", fill=PALE, size=12)
            y -= 22
            continue
        if kind == "end":
            y -= 8
            drawing.path(
                [(x - 36, frame), (x - 36, y + 2), (x + width + 40, y + 2), (x + width + 40, frame), (x - 36, frame)]
            )
            y -= 12
            continue
        if residual in ("begin", "both"):
            began = y
        if kind == "out":
            drawing.text(x + width / 2, y - 8, words, anchor="middle", fill=PALE)
            y -= step
            continue
        drawing.box(x, y - 28, width, 28, FILLS[kind], words)
        if residual in ("end", "both"):
            drawing.path([(x + 8, began + 4), (x - 18, began + 4), (x - 18, y - 32), (x + 8, y - 32)], stroke="#2563eb")
            drawing.text(x - 30, y - 28, "+", fill="#2563eb", size=16)
        y -= step


def families_page() -> str:
    """docs/families.md: each architecture with its picture."""
    lines = [
        "# Families, drawn",
        "",
        "Made by `python book/pictures.py` from the networks that the model files build, so that a picture is what",
        "runs. Each is read from the bottom to the top; the frame is one block, the blue lines are residual sums, and",
        "a norm stands where this family has it: before a part (pre-norm) or after its sum (post-norm).",
    ]
    for name, (names, family, *_) in families().items():
        told = (importlib.import_module(family.encoder.__module__).__doc__ or "").splitlines()[0]
        file = family.encoder.__module__.removeprefix("clearhead.").replace(".", "/") + ".py"
        also = f" Also: {', '.join(f'`{one}`' for one in names[1:])}." if names[1:] else ""
        lines += ["", f"## {name}", "", f"{told} `{file}`.{also}", "", f"![{name}](pictures/{name}.svg)"]
    return "\n".join([*lines, ""])


# ---- latency -----------------------------------------------------------------------------------------------------


def latency() -> str:
    """How long the accepted wait, and how many are refused, by load: the figures of benchmarks/serve_open.py."""
    found = json.loads((ROOT / "benchmarks" / "results" / "serve_open.json").read_text(encoding="utf-8"))
    loads, sent, refused, waits = (
        list(column) for column in zip(*((r[0], r[1], r[3], r[4]) for r in found["rows"]), strict=True)
    )
    drawing = Drawing(760, "Latency of the service by load")
    drawing.text(24, 34, "The service by load: seconds until an answer, and what is refused", size=17)
    drawing.text(24, 56, f"{found['command']}, {found['date']}, {found['machine']}", fill=PALE, size=12)
    left, right, top, low = 70, 700, 90, 380
    place = [left + (right - left) * number / (len(loads) - 1) for number in range(len(loads))]

    def height(seconds: float) -> float:  # from a hundredth to a hundred seconds, each power of ten as high
        return low - (low - top) * (torch.tensor(seconds).log10().item() + 2) / 4

    for power in range(-2, 3):
        drawing.path([(left, height(10.0**power)), (right, height(10.0**power))], stroke="#e5e7eb", width=1)
        drawing.text(left - 10, height(10.0**power) + 4, f"{10.0**power:g} s", size=12, fill=PALE, anchor="end")
    for x, load, share in zip(place, loads, (r / s for r, s in zip(refused, sent, strict=True)), strict=True):
        if share:
            drawing.box(x - 16, low - (low - top) * share, 32, (low - top) * share, "#fee2e2")
        drawing.text(x, low + 20, f"{load:g} ×", size=12, fill=PALE, anchor="middle")
        drawing.text(x, low + 38, f"{share:.0%} refused", size=12, fill=PALE, anchor="middle")
    for number, (name, colour) in enumerate((("median", "#2563eb"), ("99th percentile", "#dc2626"))):
        points = [(x, height(wait[number])) for x, wait in zip(place, waits, strict=True)]
        drawing.path(points, stroke=colour, width=2.5)
        for x, y in points:
            drawing.dot(x, y, colour)
        drawing.text(left + 20, top + 16 + 20 * number, name, fill=colour)
    drawing.text(
        (left + right) / 2,
        low + 60,
        "requests a second, in parts of what it can do",
        size=12,
        fill=PALE,
        anchor="middle",
    )
    return drawing.svg()


def files() -> dict[Path, str]:
    """Everything that is made here."""
    drawn = {f"{name}.svg": family_picture(*one) for name, one in families().items()}
    drawn |= {"package.svg": package(), "latency.svg": latency()}
    return {DRAWN / name: text for name, text in drawn.items()} | {ROOT / "docs" / "families.md": families_page()}


def main() -> None:
    """Write all of it."""
    DRAWN.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
