"""Plots of the error over the range of an input, as SVG text that stands by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.patterns import SIGNIFICAND_BITS
from dmlvk.conformance.profile import line_order, shift
from dmlvk.datatypes import DataType

_WIDTH, _HEIGHT = 960, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 34
_COLUMNS = _WIDTH - _LEFT - _RIGHT

_TICKS = {
    DataType.FLOAT32: (-math.inf, -(2.0**64), -1.0, -(2.0**-64), 0.0, 2.0**-64, 1.0, 2.0**64, math.inf),
    DataType.FLOAT16: (-math.inf, -256.0, -1.0, -(2.0**-8), 0.0, 2.0**-8, 1.0, 256.0, math.inf),
}

Float64Array = npt.NDArray[np.float64]


def error_plot(profile: Sequence[float | None], data_type: DataType, bound: float, title: str) -> str:
    """The largest error in each stretch of an input, from minus infinity to infinity.

    Binades are equally wide, as the numbers of a float type are. Errors beyond the promised bound are red; those far
    beyond end at the upper edge.

    Args:
        profile: by number of the stretch, as :class:`dmlvk.conformance.profile.Profile` gives it.
        bound: the promised largest error, drawn as a line.
        title: for those who cannot see the picture.
    """
    columns = _columns(profile, data_type)
    finite = columns[np.isfinite(columns)]
    highest = min(max([1.0, 1.2 * bound, *(1.05 * finite)]), max(1.0, 4 * bound))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" class="plot">',
        f"<title>{escape(title)}</title>",
        *_grid(data_type, bound, highest),
        *_bars(columns, bound, highest),
        "</svg>",
    ]
    return "\n".join(parts)


def _columns(profile: Sequence[float | None], data_type: DataType) -> Float64Array:
    """The largest error in each column of pixels; -1 where there is none."""
    errors = np.array([-1.0 if error is None else error for error in profile])[line_order(data_type)]
    columns: Float64Array = np.full(_COLUMNS, -1.0)
    np.maximum.at(columns, np.arange(errors.size) * _COLUMNS // errors.size, errors)
    if errors.size < _COLUMNS:  # wider than a column
        columns = errors[np.arange(_COLUMNS) * errors.size // _COLUMNS]
    return columns


def _x_of(value: float, data_type: DataType) -> float:
    order = line_order(data_type)
    bits = int(np.array([abs(value)], data_type.numpy_dtype).view(f"u{data_type.size_in_bytes}")[0])
    middle = order.size / 2
    infinity = (2 ** (data_type.size_in_bits - 1) - 2 ** SIGNIFICAND_BITS[data_type.size_in_bits]) >> shift(data_type)
    distance = (bits >> shift(data_type)) / (infinity + 1) * middle
    return _LEFT + (middle + math.copysign(distance, value)) / order.size * _COLUMNS


def _y_of(error: float, highest: float) -> float:
    return _TOP + (1 - min(error, highest) / highest) * (_HEIGHT - _TOP - _BOTTOM)


def _grid(data_type: DataType, bound: float, highest: float) -> list[str]:
    base = _HEIGHT - _BOTTOM
    parts = [f'<rect x="{_LEFT}" y="{_TOP}" width="{_COLUMNS}" height="{base - _TOP}" fill="none" stroke="#999"/>']
    bound_y, half_y = _y_of(bound, highest), _y_of(0.5, highest)
    for y, dashes in ((half_y, "2 4"), (bound_y, "8 4")):
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#555" '
            f'stroke-dasharray="{dashes}"/>'
        )
    parts.append(_text(_LEFT - 5, bound_y + 4, f"{bound:.4g}", "end"))
    if min(abs(half_y - bound_y), base - half_y) > 12:  # else it would stand over another
        parts.append(_text(_LEFT - 5, half_y + 4, "0.5", "end"))
    parts.append(_text(_LEFT - 5, base + 4, "0", "end"))
    parts.append(_text(_LEFT - 5, _TOP + 8, "ULP", "end"))  # where no bound comes: it is at most 1 / 1.2 of the height
    for value in _TICKS[data_type]:
        x = _x_of(value, data_type)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}" stroke="#555"/>')
        parts.append(_text(x, base + 18, _number(value), "middle"))
    return parts


def _number(value: float) -> str:
    if value == 0 or abs(value) == 1:
        return f"{value:.0f}"
    sign = "-" if value < 0 else ""
    return f"{sign}∞" if math.isinf(value) else f"{sign}2^{math.frexp(abs(value))[1] - 1}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11">{escape(text)}</text>'


def _bars(columns: Float64Array, bound: float, highest: float) -> list[str]:
    base = _HEIGHT - _BOTTOM
    parts = []
    for colour, chosen in (("#2a6f97", (columns > 0) & (columns <= bound)), ("#c1121f", columns > bound)):
        steps = [
            f"M{_LEFT + column + 0.5:.1f} {base}V{_y_of(float(columns[column]), highest):.1f}"
            for column in np.flatnonzero(chosen)
        ]
        if steps:
            parts.append(f'<path d="{"".join(steps)}" stroke="{colour}" stroke-width="1" fill="none"/>')
    return parts
