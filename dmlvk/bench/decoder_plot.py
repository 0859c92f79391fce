"""Draws what tokens of a decoder take over the length of the text before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmlvk.bench.plot import canvas_for

_WIDTH, _HEIGHT = 960, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 210, 50, 50
_COLOURS = ("#0b5fa5", "#d1495b", "#5b8c3a", "#7a4fa3", "#c77d1e", "#555555")
_GREY = "#bbbbbb"


def write_decoder_plot(results: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draws a line for each batch, by dmlvk and by PyTorch where it was timed.

    Args:
        results: what ``dmlvk bench decoder --json`` writes.
        title: what was measured, and where.
        path: a file that ends in .svg, .png, .webp or .jpg.

    Raises:
        InvalidArgumentError: when the name ends in something else.
    """
    lines: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        for name, member in (("dmlvk", "seconds"), ("PyTorch FLOAT16", "torch_seconds")):
            found = [(int(length), of[member] * 1e3) for length, of in result["tokens"].items() if member in of]
            if found:
                lines[f"{name}, batch {result['batch']}"] = sorted(found)
    canvas = canvas_for(path, _WIDTH, _HEIGHT)
    longest = max(length for line in lines.values() for length, _ in line)
    slowest = max(taken for line in lines.values() for _, taken in line) * 1.1
    canvas.text(_LEFT, 20, f"{title}: milliseconds for a step, over the length of the text before", colour="#000000")

    def pixel(length: float, taken: float) -> tuple[float, float]:
        across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * length / longest, _HEIGHT - _BOTTOM - up * taken / slowest

    for part in range(5):
        x, y = pixel(longest * part / 4, slowest * part / 4)
        canvas.line([(_LEFT, y), (_WIDTH - _RIGHT, y)], _GREY)
        canvas.text(_LEFT - 6, y + 4, f"{slowest * part / 4:.2f}", anchor="end")
        canvas.text(x, _HEIGHT - _BOTTOM + 18, f"{longest * part / 4:.0f}", anchor="middle")
    for number, (name, line) in enumerate(lines.items()):
        colour, points = _COLOURS[number % len(_COLOURS)], [pixel(*point) for point in line]
        canvas.line(points if len(points) > 1 else [points[0], (points[0][0] + 4, points[0][1])], colour, 2)
        canvas.text(_WIDTH - _RIGHT + 10, _TOP + 18 * number, name, colour=colour)
    canvas.write(path)


__all__ = ["write_decoder_plot"]
