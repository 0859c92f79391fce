"""Draws a benchmark: bandwidth over size, one line for each library; and every operator beside the copy's ceiling.

As SVG, or as a picture through Pillow, by the name of the file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Protocol

from PIL import Image, ImageDraw

from dmlvk.bench.report import BenchReport
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.files import write_whole, written_whole

_WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 190, 40, 46
_PANEL_HEIGHT = 300
_FIGURES = 200
"""The width of the column to the right of bars: a bandwidth and a library's name."""
_LETTER = 7.6
"""What a letter of an operator's name takes at most, in the fonts that browsers have for ``sans-serif``."""
_LINE = 16
_COLOURS = ("#0b5fa5", "#d1495b", "#66a182", "#edae49", "#7a5195", "#8d6b48", "#444444", "#00a6a6")
_FORMATS = (".svg", ".png", ".webp", ".jpg")


class Canvas(Protocol):
    """Something to draw on; the origin is the upper left corner."""

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.0, dashed: bool = False
    ) -> None:
        """A line through some points."""

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""

    def text(self, x: float, y: float, text: str, anchor: str = "start", colour: str = "#222222") -> None:
        """A line of text that starts, ends or has its middle at a point."""

    def write(self, path: Path) -> None:
        """Writes the file."""


class SvgCanvas:
    """Draws into SVG text that stands by itself."""

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

    def contents(self) -> str:
        """The file's text."""
        return "\n".join([*self._parts, "</svg>"]) + "\n"

    def write(self, path: Path) -> None:
        """Writes the file."""
        write_whole(path, self.contents())


class PictureCanvas:
    """Draws pixels, four for each unit of area."""

    _SCALE = 2

    def __init__(self, width: int, height: int) -> None:
        self._image = Image.new("RGB", (width * self._SCALE, height * self._SCALE), "#ffffff")
        self._draw = ImageDraw.Draw(self._image)

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.0, dashed: bool = False
    ) -> None:
        """A line through some points."""
        scaled = [(x * self._SCALE, y * self._SCALE) for x, y in points]
        pixels = round(width * self._SCALE)
        if not dashed:
            self._draw.line(scaled, fill=colour, width=pixels)
            return
        for (x0, y0), (x1, y1) in itertools.pairwise(scaled):
            steps = max(1, int(math.hypot(x1 - x0, y1 - y0) / 10))
            for step in range(0, steps, 2):
                a, b = step / steps, (step + 1) / steps
                self._draw.line(
                    [(x0 + (x1 - x0) * a, y0 + (y1 - y0) * a), (x0 + (x1 - x0) * b, y0 + (y1 - y0) * b)],
                    fill=colour,
                    width=pixels,
                )

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        corners = [x, y, x + width, y + height]
        self._draw.rectangle([corner * self._SCALE for corner in corners], fill=colour)

    def text(self, x: float, y: float, text: str, anchor: str = "start", colour: str = "#222222") -> None:
        """A line of text that starts, ends or has its middle at a point."""
        # Pillow's built-in font knows Latin-1 only and has one size: drawn alone and enlarged.
        plain = text.encode("latin-1", "replace").decode("latin-1")
        _, _, right, bottom = self._draw.textbbox((0, 0), plain)
        mask = Image.new("L", (max(1, int(right)), max(1, int(bottom))), 0)
        ImageDraw.Draw(mask).text((0, 0), plain, fill=255)
        mask = mask.resize((mask.width * self._SCALE, mask.height * self._SCALE))
        offset = {"start": 0.0, "middle": mask.width / 2, "end": float(mask.width)}[anchor]
        pixel = (round(x * self._SCALE - offset), round(y * self._SCALE - mask.height))
        self._image.paste(Image.new("RGB", mask.size, colour), pixel, mask)

    def write(self, path: Path) -> None:
        """Writes the file."""
        with written_whole(path) as file:
            self._image.save(file, format=Image.registered_extensions()[path.suffix.lower()])


def check_plot_path(path: Path) -> None:
    """Raises InvalidArgumentError when a file's name does not say a format that can be drawn."""
    if path.suffix.lower() not in _FORMATS:
        raise InvalidArgumentError(f"{path}: a plot's name must end in {', '.join(_FORMATS)}")


def canvas_for(path: Path, width: int, height: int) -> Canvas:
    """What draws into a file of this name, in pixels.

    Raises:
        InvalidArgumentError: when the name does not end in a format that can be drawn.
    """
    check_plot_path(path)
    return (SvgCanvas if path.suffix.lower() == ".svg" else PictureCanvas)(width, height)


def write_plot(report: BenchReport, path: Path) -> None:
    """Draws a report.

    Args:
        report: what was measured.
        path: a file that ends in .svg, .png, .webp or .jpg.

    Raises:
        InvalidArgumentError: when the name ends in something else.
    """
    curves = _curves(report)
    bars = _bars(report)
    height = 46 + _PANEL_HEIGHT * len(curves) + (_TOP + _BOTTOM + 20 * len(bars) if bars else 0)
    canvas = canvas_for(path, _WIDTH, height)
    canvas.text(16, 20, f"{report.device}, {report.driver}", colour="#000000")
    canvas.text(16, 36, "; ".join(f"{each['name']} {each['version']}" for each in report.libraries), colour="#555555")
    names = [each["name"] for each in report.libraries]
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    top = 46.0
    for title, lines in curves.items():
        _draw_curves(canvas, top, title, lines, colours, report.ceiling())
        top += _PANEL_HEIGHT
    if bars:
        _draw_bars(canvas, top, bars, colours, report.ceiling())
    canvas.write(path)


def _curves(report: BenchReport) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """By operator, data type and layout, by library: (bytes, bytes a second), for what has several sizes."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for result in report.results:
        title = f"{result.operator}, {result.data_type}, {result.layout}"
        for timing in result.timings:
            if timing.wall_seconds is not None:
                lines = found.setdefault(title, {})
                bandwidth = result.bytes_moved / timing.wall_seconds.median
                lines.setdefault(timing.library, []).append((result.bytes_moved, bandwidth))
    return {
        title: {name: sorted(points) for name, points in lines.items()}
        for title, lines in found.items()
        if any(len(points) > 2 for points in lines.values())
    }


def _bars(report: BenchReport) -> list[tuple[str, str, float]]:
    """Operator, library and bytes a second of the largest size of everything."""
    largest: dict[tuple[str, str, str], int] = {}
    for result in report.results:
        key = (result.operator, result.data_type, result.layout)
        largest[key] = max(largest.get(key, 0), result.elements)
    return [
        (
            f"{result.operator.removeprefix('ELEMENT_WISE_')} {result.data_type} {result.layout}",
            timing.library,
            bandwidth,
        )
        for result in report.results
        if result.elements == largest[result.operator, result.data_type, result.layout]
        for timing in result.timings
        if (bandwidth := result.bandwidth(timing.library)) is not None
    ]


def _draw_curves(
    canvas: Canvas,
    top: float,
    title: str,
    lines: dict[str, list[tuple[int, float]]],
    colours: dict[str, str],
    ceiling: float | None,
) -> None:
    every = [point for points in lines.values() for point in points]
    low_x, high_x = math.log2(min(x for x, _ in every)), math.log2(max(x for x, _ in every))
    low_y = math.floor(math.log10(min([y for _, y in every] + ([ceiling] if ceiling else []))))
    high_y = math.ceil(math.log10(max([y for _, y in every] + ([ceiling] if ceiling else []))))
    bottom = top + _PANEL_HEIGHT - _BOTTOM
    width, height = _WIDTH - _LEFT - _RIGHT, bottom - top - _TOP

    def pixel(size: float, bandwidth: float) -> tuple[float, float]:
        x = _LEFT + (math.log2(size) - low_x) / max(high_x - low_x, 1e-9) * width
        return x, bottom - (math.log10(bandwidth) - low_y) / max(high_y - low_y, 1e-9) * height

    canvas.text(_LEFT, top + _TOP - 14, f"{title}: one operator alone, submitted and waited for", colour="#000000")
    for exponent in range(low_y, high_y + 1):
        y = pixel(2**low_x, 10.0**exponent)[1]
        canvas.line([(_LEFT, y), (_LEFT + width, y)], "#dddddd")
        canvas.text(_LEFT - 6, y + 4, _bandwidth_text(10.0**exponent), "end")
    for exponent in range(math.ceil(low_x), math.floor(high_x) + 1, 4):
        x = pixel(2.0**exponent, 10.0**low_y)[0]
        canvas.line([(x, bottom), (x, bottom + 5)], "#555555")
        canvas.text(x, bottom + 18, _size_text(2**exponent), "middle")
    canvas.text(_LEFT + width, bottom + 34, "bytes read and written", "end")
    copy_y = None
    if ceiling:
        y = pixel(2**low_x, ceiling)[1]
        canvas.line([(_LEFT, y), (_LEFT + width, y)], "#555555", dashed=True)
        copy_y = y - 2
        canvas.text(_LEFT + width + 8, copy_y, _copy_label(ceiling))
    label_y = top + _TOP + 30
    for name, points in lines.items():
        canvas.line([pixel(*point) for point in points], colours[name], width=2.5 if name == "dmlvk" else 1.5)
        if copy_y is not None and abs(label_y - copy_y) < _LINE:
            label_y = copy_y + _LINE
        canvas.text(_LEFT + width + 8, label_y, name, colour=colours[name])
        label_y += _LINE


def _draw_bars(
    canvas: Canvas,
    top: float,
    bars: list[tuple[str, str, float]],
    colours: dict[str, str],
    ceiling: float | None,
) -> None:
    # Figures stand in a column of their own, where neither bars nor the copy's line come.
    left = _LETTER * max(len(label) for label, _, _ in bars) + 28
    width = _WIDTH - left - _FIGURES
    full = max([bandwidth for _, _, bandwidth in bars] + ([ceiling] if ceiling else []))
    canvas.text(16, top + _TOP - 18, "Largest size, device time: bytes read and written a second", colour="#000000")
    previous = ""
    for number, (label, library, bandwidth) in enumerate(bars):
        y = top + _TOP + 20 * number
        if label != previous:
            canvas.text(16, y + 14, label)
        previous = label
        canvas.rectangle(left, y + 3, width, 14, "#f3f3f3")  # leads the eye from the bar to its figure
        canvas.rectangle(left, y + 3, max(1.0, bandwidth / full * width), 14, colours[library])
        canvas.text(left + width + 8, y + 14, f"{_bandwidth_text(bandwidth)} {library}")
    if ceiling:
        x = left + ceiling / full * width
        canvas.line([(x, top + _TOP), (x, top + _TOP + 20 * len(bars))], "#222222", dashed=True)
        canvas.text(x, top + _TOP - 3, _copy_label(ceiling), "middle")


def _copy_label(ceiling: float) -> str:
    return f"copy, {_bandwidth_text(ceiling)}"


def _bandwidth_text(bytes_per_second: float) -> str:
    for unit, factor in (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_second >= factor:
            return f"{bytes_per_second / factor:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"


def _size_text(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"
