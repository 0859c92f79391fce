"""Charts, as SVG: speeds over a size as lines, and bars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import write_whole

_WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 210, 40, 46
_PANEL_HEIGHT = 300
_FIGURES = 250  # The width of the column to the right of bars: their figures
_LETTER = 7.6  # What a letter takes at most, in the fonts that browsers have for ``sans-serif``
_LINE = 16
_BAR = 20
_COLOURS = ("#0b5fa5", "#d1495b", "#66a182", "#edae49", "#7a5195", "#8d6b48", "#444444", "#00a6a6")
_GREY = "#555555"


class Canvas:
    """Draws into SVG text that stands by itself; the origin is the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.0, dashed: bool = False
    ) -> None:
        """A line through some points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        self._parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "start", colour: str = "#222222") -> None:
        """A line of text that starts, ends or has its middle at a point."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
        )

    def write(self, path: Path) -> None:
        """Writes the file."""
        write_whole(path, "\n".join([*self._parts, "</svg>"]) + "\n")


def check_plot_path(path: Path) -> None:
    """Raises InvalidArgumentError when a file's name is not that of an SVG file."""
    if path.suffix.lower() != ".svg":
        raise InvalidArgumentError(f"{path}: a plot's name must end in .svg")


Ceiling: TypeAlias = tuple[float, str]  # A speed that nothing gets above, and what it is


@dataclasses.dataclass(frozen=True)
class Panel:
    """Lines over a size; both scales are logarithmic."""

    title: str  # what is drawn
    lines: Mapping[str, Sequence[tuple[float, float]]]  # points (size, value) by name, by rising size
    extent: str  # what the sizes are
    size_text: Callable[[int], str]  # a size in words
    value_text: Callable[[float], str]  # a value in words
    ceilings: Sequence[Ceiling] = ()  # values that stand beside the lines

    height = _PANEL_HEIGHT

    def draw(self, canvas: Canvas, top: float, colours: Mapping[str, str]) -> None:
        points = [point for line in self.lines.values() for point in line]
        sizes = sorted({size for size, _ in points})
        values = [value for _, value in points] + [value for value, _ in self.ceilings]
        low_x, high_x = math.log2(sizes[0]), math.log2(sizes[-1])
        low_y, high_y = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        bottom, right = top + _PANEL_HEIGHT - _BOTTOM, _WIDTH - _RIGHT

        def pixel(size: float, value: float) -> tuple[float, float]:
            x = (math.log2(size) - low_x) / max(high_x - low_x, 1e-9)
            y = (math.log10(value) - low_y) / max(high_y - low_y, 1e-9)
            return _LEFT + x * (right - _LEFT), bottom - y * (bottom - top - _TOP)

        canvas.text(_LEFT, top + _TOP - 14, self.title, colour="#000000")
        for exponent in range(low_y, high_y + 1):
            y = pixel(sizes[0], 10.0**exponent)[1]
            canvas.line([(_LEFT, y), (right, y)], "#dddddd")
            canvas.text(_LEFT - 6, y + 4, self.value_text(10.0**exponent), "end")
        last = -math.inf
        for size in sizes:
            x = pixel(size, values[0])[0]
            canvas.line([(x, bottom), (x, bottom + 5)], _GREY)
            if x - last > 8 * _LETTER:  # where there is room for the number
                canvas.text(x, bottom + 18, self.size_text(int(size)), "middle")
                last = x
        canvas.text(right, bottom + 34, self.extent, "end")
        labels: list[tuple[float, str, str]] = []
        for value, what in self.ceilings:
            y = pixel(sizes[0], value)[1]
            canvas.line([(_LEFT, y), (right, y)], _GREY, dashed=True)
            labels.append((y, what, "#222222"))
        for name, line in self.lines.items():
            drawn = [pixel(*point) for point in line]
            ends = drawn if len(drawn) > 1 else [*drawn, (drawn[0][0] + 4, drawn[0][1])]
            canvas.line(ends, colours[name], width=2.5 if name == "dmlvk" else 1.5)
            labels.append((drawn[-1][1], name, colours[name]))
        lowest = -math.inf
        for y, text, colour in sorted(labels):  # beside the lines' ends, or below where another one stands
            lowest = max(y + 4, lowest + _LINE)
            canvas.text(right + 8, lowest, text, colour=colour)


@dataclasses.dataclass(frozen=True)
class Bars:
    title: str  # what is drawn
    rows: Sequence[tuple[str, str, float, str]]  # label, name, length, and a figure in words
    ceilings: Sequence[Ceiling] = ()  # lengths that stand beside the bars

    @property
    def height(self) -> int:
        """In units of the canvas."""
        return _TOP + _BOTTOM + _BAR * len(self.rows)

    @property
    def lines(self) -> Sequence[str]:
        return [name for _, name, _, _ in self.rows]

    def draw(self, canvas: Canvas, top: float, colours: Mapping[str, str]) -> None:
        # Figures stand in a column of their own, where neither bars nor a ceiling's line come.
        left = _LETTER * max(len(label) for label, _, _, _ in self.rows) + 28
        width = max(100.0, _WIDTH - left - _FIGURES)
        full = max([length for _, _, length, _ in self.rows] + [length for length, _ in self.ceilings])
        canvas.text(16, top + _TOP - 18, self.title, colour="#000000")
        previous = ""
        for number, (label, name, length, figure) in enumerate(self.rows):
            y = top + _TOP + _BAR * number
            if label != previous:
                canvas.text(16, y + 14, label)
            previous = label
            canvas.rectangle(left, y + 3, width, 14, "#f3f3f3")  # leads the eye from the bar to its figure
            canvas.rectangle(left, y + 3, max(1.0, length / full * width), 14, colours[name])
            canvas.text(left + width + 8, y + 14, figure)
        for length, what in self.ceilings:
            x = left + length / full * width
            canvas.line([(x, top + _TOP), (x, top + _TOP + _BAR * len(self.rows))], "#222222", dashed=True)
            canvas.text(x, top + _TOP - 3, what, "middle")


def write_charts(path: Path, heading: Sequence[str], charts: Sequence[Panel | Bars]) -> None:
    """Draws charts below one another, each name in one colour.

    Args:
        path: a file that ends in .svg.
        heading: what was measured, and where: lines of text.

    Raises:
        InvalidArgumentError: when the name ends in something else.
    """
    top = 10.0 + 18 * len(heading)
    check_plot_path(path)
    canvas = Canvas(_WIDTH, int(top) + sum(chart.height for chart in charts))
    for number, line in enumerate(heading):
        canvas.text(16, 20 + 16 * number, line, colour="#000000" if number == 0 else _GREY)
    names = dict.fromkeys(name for chart in charts for name in chart.lines)
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    for chart in charts:
        chart.draw(canvas, top, colours)
        top += chart.height
    canvas.write(path)


def speed_text(speed: float, unit: str = "B/s") -> str:
    """``17.7 TFLOP/s``, ``3.98 TB/s``: ``unit`` is ``"OP/s"`` or ``"B/s"``."""
    word = "FLOP/s" if unit == "OP/s" else "B/s"
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if speed >= factor:
            return f"{speed / factor:.3g} {prefix}{word}"
    return f"{speed:.3g} {word}"


def size_text(size: int) -> str:
    """``64 MiB``."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
