"""``docs/pictures/roofline.svg``: how fast each operator is beside how much it computes for a byte.

Source: S. Williams, A. Waterman, D. Patterson, «Roofline: an insightful visual performance model for multicore
architectures» (2009).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from dmlvk.bench.plot import SvgCanvas

_WIDTH, _HEIGHT = 960, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 40, 60, 60
_LOW_X, _HIGH_X = 0.05, 100.0
_LOW_Y, _HIGH_Y = 0.2e12, 200e12
_NAMED_BELOW = 0.9
"""Of the copy's bandwidth: operators that stay below are named."""


def roofline_picture(speeds: Path, counts: Mapping[str, int]) -> str:
    """The picture's SVG text.

    Args:
        speeds: what ``dmlvk bench --json`` wrote of operators on contiguous FLOAT32 tensors.
        counts: the operations of each operator for an element.
    """
    document = json.loads(speeds.read_text(encoding="utf-8"))
    copy = float(document["copy_ceiling_in_bytes_per_second"])
    points = []
    for result in document["results"]:
        count = counts.get(result["operator"])
        if count and result["data_type"] == "float32" and result["layout"] == "contiguous":
            intensity = count * result["elements"] / result["bytes_moved"]
            (own,) = (each for each in result["timings"] if each["library"] == "dmlvk")
            points.append((result["operator"], intensity, float(own["bytes_per_second"])))
    return _drawn(document["device"], copy, points)


def _pixel(intensity: float, rate: float) -> tuple[float, float]:
    x = math.log(intensity / _LOW_X) / math.log(_HIGH_X / _LOW_X)
    y = math.log(rate / _LOW_Y) / math.log(_HIGH_Y / _LOW_Y)
    return _LEFT + x * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - y * (_HEIGHT - _TOP - _BOTTOM)


def _drawn(device: str, copy: float, points: list[tuple[str, float, float]]) -> str:
    canvas = SvgCanvas(_WIDTH, _HEIGHT)
    canvas.text(_LEFT, 24, f"{device}, FLOAT32, contiguous: operations a second over operations for a byte")
    canvas.text(
        _LEFT,
        42,
        "Operations of both sides of all branches; the line is what a copy's bandwidth allows",
        colour="#555555",
    )
    for power in range(-1, 3):
        x, bottom = _pixel(10.0**power, _LOW_Y)
        canvas.line([(x, _TOP), (x, bottom)], "#dddddd")
        canvas.text(x, bottom + 18, f"{10.0**power:g}", "middle")
    for power in range(12, 15):
        left, y = _pixel(_LOW_X, 10.0**power)
        canvas.line([(left, y), (_WIDTH - _RIGHT, y)], "#dddddd")
        canvas.text(left - 8, y + 4, f"{10 ** (power - 12):g} T/s", "end")
    canvas.text(_WIDTH - _RIGHT, _HEIGHT - 14, "operations for a byte that is read or written", "end")
    canvas.line([_pixel(_LOW_Y / copy, _LOW_Y), _pixel(_HIGH_Y / copy, _HIGH_Y)], "#555555", 1.5, dashed=True)
    canvas.text(*_pixel(0.2, 0.2 * copy * 2.0), f"copy, {copy / 1e9:.0f} GB/s", colour="#555555")
    for name, intensity, bandwidth in sorted(points, key=lambda point: point[1]):
        x, y = _pixel(intensity, intensity * bandwidth)
        is_low = bandwidth < _NAMED_BELOW * copy
        canvas.rectangle(x - 3, y - 3, 6, 6, "#d1495b" if is_low else "#0b5fa5")
        if is_low:
            short = name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")
            canvas.text(x + 8, y + 12, f"{short}, {bandwidth / copy:.2f}")
    return canvas.contents()
