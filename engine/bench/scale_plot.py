"""Log-log plots of a grid as one SVG, written by hand: the engine draws with no library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from engine.bench.scale import Cell, Grid
from engine.bench.scale_work import OPERATIONS

# Okabe and Ito's colours, then greys; every line also carries its name.
_COLOURS = {
    "write": "#C27C00", "publish": "#D55E00", "verify": "#8C8C8C", "open": "#56B4E9", "load": "#0072B2",
    "count": "#009E73", "exact_test": "#000000", "null": "#666666", "trend_test": "#7A5C00", "surface": "#CC79A7",
    "regression": "#882255", "temperatures": "#882255", "diagnose": "#CC79A7",
}  # fmt: skip
_WIDTH, _HEIGHT = 400, 380
_LEFT, _TOP, _BOTTOM, _LABELS = 72, 44, 56, 176
_APART = 17  # pixels between two names
_SECONDS = {1e-3: "1 ms", 1e-2: "10 ms", 1e-1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 100.0: "100 s", 1000.0: "1000 s"}


def scale_svg(grid: Grid, cells: Sequence[Cell]) -> str:
    """Time on the left, memory on the right, a line per operation; a cross where one was stopped."""
    own = [cell for cell in cells if cell.grid == grid.name]
    panel = _LEFT + _WIDTH + _LABELS
    total = _TOP + _HEIGHT + _BOTTOM
    drawn = [
        _panel(grid, own, "Time", lambda cell: cell.seconds, _seconds_label, 0),
        _panel(grid, own, "Peak memory beyond the libraries'", lambda cell: cell.added_mb, _memory_label, panel),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * panel} {total}" width="{2 * panel}" '
        f'height="{total}" font-family="Helvetica, Arial, sans-serif" font-size="14">'
    )
    background = f'<rect width="{2 * panel}" height="{total}" fill="#fff"/>'
    return "\n".join([head, background, *drawn, "</svg>"]) + "\n"


def _seconds_label(power: int) -> str:
    return _SECONDS.get(10.0**power, f"1e{power} s")


def _memory_label(power: int) -> str:
    return f"{10.0**power / 1000:g} GB" if power >= 3 else f"{10.0**power:g} MB"


def _count(x: int) -> str:
    power = round(math.log10(x))
    if x >= 10_000 and x == 10**power:
        return f'10<tspan dy="-6" font-size="13">{power}</tspan>'
    return f"{x:,}"


def _panel(
    grid: Grid,
    cells: Sequence[Cell],
    title: str,
    quantity: Callable[[Cell], float | None],
    label: Callable[[int], str],
    offset: int,
) -> str:
    lines = {name: [cell for cell in cells if cell.operation == name] for name in grid.operations}
    # Less than a megabyte is noise of the allocator: it is drawn on the axis.
    floor = 1e-4 if title == "Time" else 1.0
    points = {
        name: sorted((cell.x, max(value, floor)) for cell in line if (value := quantity(cell)) is not None)
        for name, line in lines.items()
    }
    values = [value for line in points.values() for _, value in line] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)
    sizes = sorted({cell.x for cell in cells}) or [1]
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def across(x: float) -> float:
        share = 0.5 if last == first else (math.log10(x) - first) / (last - first)
        return offset + _LEFT + 14 + share * (_WIDTH - 28)

    def down(y: float) -> float:
        return _TOP + _HEIGHT - (math.log10(y) - low) / (high - low) * _HEIGHT

    parts = [f'<text x="{offset + _LEFT}" y="24" font-size="16" font-weight="bold">{escape(title)}</text>']
    for power in range(low, high + 1):
        y = down(10.0**power)
        parts.append(
            f'<line x1="{offset + _LEFT}" x2="{offset + _LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{offset + _LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{label(power)}</text>')
    for x in sizes:
        at = across(x)
        parts.append(_stroke((at, _TOP), (at, _TOP + _HEIGHT), "#eee"))
        parts.append(f'<text x="{at:.1f}" y="{_TOP + _HEIGHT + 22}" text-anchor="middle">{_count(x)}</text>')
    middle = offset + _LEFT + _WIDTH / 2
    parts.append(f'<text x="{middle}" y="{_TOP + _HEIGHT + 46}" text-anchor="middle">{escape(grid.axis)}</text>')
    drawn = {name: line for name, line in points.items() if line}
    heights = _spread({name: down(line[-1][1]) for name, line in drawn.items()})
    for name, line in drawn.items():
        parts += _line(name, [(across(x), down(y)) for x, y in line], heights[name], offset + _LEFT + _WIDTH)
        stopped = [cell for cell in lines[name] if cell.note.startswith("stopped")]
        if title == "Time" and stopped:
            end = min(stopped, key=lambda cell: cell.x)
            y = min(max(down(end.cap), _TOP), _TOP + _HEIGHT)
            parts.append(_cross(across(end.x), y, _COLOURS[name], end.note))
    return "\n".join(parts)


def _line(name: str, path: Sequence[tuple[float, float]], height: float, right: float) -> list[str]:
    colour = _COLOURS[name]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
    x, y = path[-1]
    return [
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>' for px, py in path),
        f'<polyline points="{x:.1f},{y:.1f} {right + 4:.1f},{height:.1f} {right + 8:.1f},{height:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="1" stroke-dasharray="2 2"/>',
        f'<text x="{right + 12:.1f}" y="{height + 5:.1f}" fill="{colour}">{escape(OPERATIONS[name].label)}</text>',
    ]


def _stroke(start: tuple[float, float], end: tuple[float, float], colour: str, width: int = 1) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _cross(x: float, y: float, colour: str, note: str) -> str:
    arms = "".join(_stroke((x - 6, y - dy), (x + 6, y + dy), colour, 2) for dy in (6, -6))
    return f'{arms}<text x="{x - 10:.1f}" y="{y + 5:.1f}" text-anchor="end" fill="{colour}">{escape(note)}</text>'


def _spread(heights: dict[str, float]) -> dict[str, float]:
    """The heights of names at the ends of lines, moved apart as little as keeps their order and the lowest inside."""
    order = sorted(heights, key=lambda name: heights[name])
    placed: dict[str, float] = {}
    for name in order:
        above = max(placed.values(), default=-math.inf)
        placed[name] = max(heights[name], above + _APART)
    ceiling = float(_TOP + _HEIGHT)
    for name in reversed(order):
        placed[name] = min(placed[name], ceiling)
        ceiling = placed[name] - _APART
    return placed
