"""Lines over groups as a small SVG that reads in light and dark."""

import re
from html import escape

COLOURS = ("#8a8f98", "#5f6b7a", "#d98b2b", "#c2571a", "#8c3fb0", "#2f5fd0", "#1f8a5b")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 400, 48, 44, 190, 44


def lines_plot(curves: dict[str, dict[str, float]], title: str) -> str:
    """Draw one line for each name over the same groups, in the order that the groups come in."""
    groups = list(dict.fromkeys(group for curve in curves.values() for group in curve))
    most = max((value for curve in curves.values() for value in curve.values()), default=1.0)
    top = 10 * (int(most / 10) + 1)

    def x(group: str) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (groups.index(group) + 0.5) / max(1, len(groups))

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for value in range(0, top + 1, 10):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    parts += [
        f'<text x="{x(group):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{_name(group)}</text>'
        for group in groups
    ]
    for place, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = " ".join(f"{x(group):.1f},{y(value):.1f}" for group, value in curve.items())
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        row = TOP + 12 + 20 * (len(curves) - 1 - place)
        parts.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{row - 9}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{row + 1}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _name(group: str) -> str:
    """Without the zeros that let names sort."""
    return escape(re.sub(r"\b0", "", group))
