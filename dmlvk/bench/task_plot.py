"""Draws what tasks took: speed over an extent, one panel for each series of them; and bars for all others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dmlvk.bench.plot import Canvas, canvas_for
from dmlvk.bench.task_measurement import TaskResult

_WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 190, 40, 46
_PANEL_HEIGHT = 300
_FIGURES = 200
_LETTER = 7.6
_LINE = 16
_BAR = 20
_COLOURS = {"dmlvk": "#0b5fa5", "PyTorch": "#d1495b"}
_GREY = "#555555"

_FEWEST = 3
"""Sizes that make a line."""

Ceiling: TypeAlias = "tuple[float, str]"
"""A speed that nothing gets above, and what it is."""


def write_task_plot(
    results: Sequence[TaskResult], facts: dict[str, Any], peak: float | None, path: Path, *, is_portable: bool = True
) -> None:
    """Draws results.

    Args:
        results: what was measured.
        facts: of the device and its driver, as ``dmlvk.bench.report.environment`` has them.
        peak: FLOAT32 operations a second that the device can do at most; ``None``: not known.
        path: a file that ends in .svg, .png, .webp or .jpg.
        is_portable: whether products and sums were rounded apart, which takes two instructions.

    Raises:
        InvalidArgumentError: when the name ends in something else.
    """
    ceilings: list[Ceiling] = []
    if peak is not None:
        ceilings.append((peak, "peak"))
        if is_portable:
            ceilings.append((peak / 2, "product and sum apart"))
    panels = _series(results)
    in_panels = {id(result) for panel in panels for result in panel}
    others = [result for result in results if id(result) not in in_panels]
    groups = [[result for result in others if result.unit == unit] for unit in ("OP/s", "B/s")]
    groups = [group for group in groups if group]
    height = 46 + _PANEL_HEIGHT * len(panels)
    height += sum(_TOP + _BOTTOM + _BAR * len(list(_bars(group))) for group in groups)
    canvas = canvas_for(path, _WIDTH, height)
    canvas.text(16, 20, f"{facts['device']}, {facts['driver']}", colour="#000000")
    known = "" if peak is None else f"; at most {_speed_text(peak, 'OP/s')} of FLOAT32 by its data sheet"
    canvas.text(16, 36, f"medians of runs one after the other{known}", colour=_GREY)
    top = 46.0
    for panel in panels:
        _draw_panel(canvas, top, panel, ceilings if panel[0].unit == "OP/s" else [])
        top += _PANEL_HEIGHT
    for group in groups:
        bars = list(_bars(group))
        _draw_bars(canvas, top, bars, group[0].unit, ceilings if group[0].unit == "OP/s" else [])
        top += _TOP + _BOTTOM + _BAR * len(bars)
    canvas.write(path)


def _series(results: Iterable[TaskResult]) -> list[list[TaskResult]]:
    """The results that make lines, by series, data type and rising extent."""
    found: dict[tuple[str, str], list[TaskResult]] = {}
    for result in results:
        if result.series:
            found.setdefault((result.series, result.data_type), []).append(result)
    rising = (sorted(each, key=lambda result: result.extent) for each in found.values())
    return [each for each in rising if len({result.extent for result in each}) >= _FEWEST]


def _bars(group: Iterable[TaskResult]) -> Iterable[tuple[str, str, float]]:
    """Task, library and speed."""
    for result in group:
        label = f"{result.name} {result.data_type}"
        yield label, "dmlvk", result.speed
        if result.torch_speed is not None:
            yield label, "PyTorch", result.torch_speed


def _draw_panel(canvas: Canvas, top: float, panel: Sequence[TaskResult], ceilings: Sequence[Ceiling]) -> None:
    lines = {"dmlvk": [(result.extent, result.speed) for result in panel]}
    beside = [(result.extent, result.torch_speed) for result in panel if result.torch_speed is not None]
    if beside:
        lines["PyTorch"] = beside
    unit = panel[0].unit
    speeds = [speed for points in lines.values() for _, speed in points] + [speed for speed, _ in ceilings]
    low_x, high_x = math.log2(panel[0].extent), math.log2(panel[-1].extent)
    low_y, high_y = math.floor(math.log10(min(speeds))), math.ceil(math.log10(max(speeds)))
    bottom = top + _PANEL_HEIGHT - _BOTTOM
    width, height = _WIDTH - _LEFT - _RIGHT, bottom - top - _TOP

    def pixel(extent: float, speed: float) -> tuple[float, float]:
        x = _LEFT + (math.log2(extent) - low_x) / max(high_x - low_x, 1e-9) * width
        return x, bottom - (math.log10(speed) - low_y) / max(high_y - low_y, 1e-9) * height

    canvas.text(_LEFT, top + _TOP - 14, f"{panel[0].series}, {panel[0].data_type}", colour="#000000")
    for exponent in range(low_y, high_y + 1):
        y = pixel(panel[0].extent, 10.0**exponent)[1]
        canvas.line([(_LEFT, y), (_LEFT + width, y)], "#dddddd")
        canvas.text(_LEFT - 6, y + 4, _speed_text(10.0**exponent, unit), "end")
    last = -math.inf
    for result in panel:
        x = pixel(result.extent, speeds[0])[0]
        canvas.line([(x, bottom), (x, bottom + 5)], _GREY)
        if x - last > 5 * _LETTER:  # where there is room for the number
            canvas.text(x, bottom + 18, str(result.extent), "middle")
            last = x
    canvas.text(_LEFT + width, bottom + 34, "n", "end")
    labels: list[tuple[float, str, str]] = []
    for speed, what in ceilings:
        y = pixel(panel[0].extent, speed)[1]
        canvas.line([(_LEFT, y), (_LEFT + width, y)], _GREY, dashed=True)
        labels.append((y, what, "#222222"))
    for name, points in lines.items():
        canvas.line([pixel(*point) for point in points], _COLOURS[name], width=2.5 if name == "dmlvk" else 1.5)
        labels.append((pixel(*points[-1])[1], name, _COLOURS[name]))
    lowest = -math.inf
    for y, text, colour in sorted(labels):  # beside the lines' ends, or below where another one stands
        lowest = max(y + 4, lowest + _LINE)
        canvas.text(_LEFT + width + 8, lowest, text, colour=colour)


def _draw_bars(
    canvas: Canvas, top: float, bars: Sequence[tuple[str, str, float]], unit: str, ceilings: Sequence[Ceiling]
) -> None:
    left = _LETTER * max(len(label) for label, _, _ in bars) + 28
    width = max(100.0, _WIDTH - left - _FIGURES)
    full = max([speed for _, _, speed in bars] + [speed for speed, _ in ceilings])
    what = "operations" if unit == "OP/s" else "bytes read and written"
    canvas.text(16, top + _TOP - 18, f"{what} a second", colour="#000000")
    for number, ((label, library, speed), before) in enumerate(zip(bars, itertools.chain([None], bars), strict=False)):
        y = top + _TOP + _BAR * number
        if before is None or before[0] != label:
            canvas.text(16, y + 14, label)
        canvas.rectangle(left, y + 3, width, 14, "#f3f3f3")
        canvas.rectangle(left, y + 3, max(1.0, speed / full * width), 14, _COLOURS[library])
        canvas.text(left + width + 8, y + 14, f"{_speed_text(speed, unit)} {library}")
    for speed, _ in ceilings:
        x = left + speed / full * width
        canvas.line([(x, top + _TOP), (x, top + _TOP + _BAR * len(bars))], "#222222", dashed=True)


def _speed_text(speed: float, unit: str) -> str:
    """``17.7 TFLOP/s``, ``3.98 TB/s``."""
    word = "FLOP/s" if unit == "OP/s" else "B/s"
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if speed >= factor:
            return f"{speed / factor:.3g} {prefix}{word}"
    return f"{speed:.3g} {word}"
