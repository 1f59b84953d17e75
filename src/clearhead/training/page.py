"""A run as a picture and as a page: hand-written SVG and HTML that need nothing else."""

from html import escape
from typing import Any

Row = dict[str, Any]

WIDTH, HEIGHT, MARGIN = 640, 320, 44
POINTS = 400  # more are not seen; neighbours are averaged
_COLOURS = ("#1f6feb", "#d1495b")


def curve(rows: list[Row]) -> str:
    """Draw the training loss, and the evaluation's if there is one, over steps."""
    found = {name: points for name in ("loss", "evaluation/loss") if (points := _points(rows, name))}
    every = [point for points in found.values() for point in points]
    if not every:
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"></svg>\n'
    last, low, high = max(x for x, _ in every), min(y for _, y in every), max(y for _, y in every)
    high = high if high > low else low + 1

    def place(x: float, y: float) -> str:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / max(last, 1)
        return f"{across:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (y - low) / (high - low):.1f}"

    lines = [
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(place(*p) for p in points)}"/>'
        f'<text x="{WIDTH - MARGIN}" y="{MARGIN + 16 * number}" fill="{colour}" text-anchor="end">{escape(name)}</text>'
        for number, ((name, points), colour) in enumerate(zip(found.items(), _COLOURS, strict=False))
    ]
    bottom = HEIGHT - MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><path d="M{MARGIN} {MARGIN}V{bottom}H{WIDTH - MARGIN}" fill="none" stroke="#888"/>'
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{high:.3g}</text>'
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">{low:.3g}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{bottom + 18}" text-anchor="end">step {last:.0f}</text>{"".join(lines)}</svg>\n'
    )


def page(settings: dict[str, Any], rows: list[Row], picture: str) -> str:
    """Put settings, curve and the rows (about a hundred of them) on one page."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = [row for place, row in enumerate(rows) if place % (1 + len(rows) // 100) == 0 or place == len(rows) - 1]
    given = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in settings.items())
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_number(row.get(name))}</td>" for name in columns) + "</tr>" for row in shown
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Training run</title><style>'
        "body{font:14px sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}"
        "td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ddd}.rows{overflow-x:auto}</style>"
        f"<h1>Training run</h1>{picture}<h2>Settings</h2><table>{given}</table>"
        f'<h2>Rows</h2><div class="rows"><table><tr>{head}</tr>{body}</table></div></html>\n'
    )


def _points(rows: list[Row], name: str) -> list[tuple[float, float]]:
    points = [(float(row["step"]), float(row[name])) for row in rows if row.get(name) is not None]
    size = 1 + len(points) // POINTS
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"
