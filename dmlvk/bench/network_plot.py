"""Draws what whole networks take: a bar for each, by dmlvk and by PyTorch where it was timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmlvk.bench.plot import canvas_for

_WIDTH = 960
_LEFT, _RIGHT, _TOP = 270, 210, 50
_BAR, _GAP = 13, 12
_COLOURS = {"seconds": "#0b5fa5", "torch_seconds": "#d1495b"}
_NAMES = {"seconds": "dmlvk", "torch_seconds": "PyTorch"}


def write_network_plot(results: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draws the runs of each network that go into a second, as shares of the fastest library's.

    Args:
        results: what ``dmlvk bench models --json`` writes.
        title: what was measured, and where.
        path: a file that ends in .svg, .png, .webp or .jpg.

    Raises:
        InvalidArgumentError: when the name ends in something else.
    """
    height = _TOP + len(results) * (2 * _BAR + _GAP) + 20
    canvas = canvas_for(path, _WIDTH, height)
    canvas.text(16, 20, f"{title}: speed as a share of the fastest, longer is better", colour="#000000")
    for number, (member, colour) in enumerate(_COLOURS.items()):
        canvas.text(_LEFT + 80 * number, 40, _NAMES[member], colour=colour)
    for row, result in enumerate(results):
        top = _TOP + row * (2 * _BAR + _GAP)
        label = f"{result['model']}, {result['data_type']}, batch {result['batch']}"
        canvas.text(_LEFT - 8, top + _BAR + 4, label, anchor="end")
        taken = {member: result[member] for member in _COLOURS if result.get(member)}
        fastest = min(taken.values())
        for index, (member, seconds) in enumerate(taken.items()):
            width = (_WIDTH - _LEFT - _RIGHT) * fastest / seconds
            canvas.rectangle(_LEFT, top + index * _BAR, width, _BAR - 1, _COLOURS[member])
            text = f"{seconds * 1e3:#.3g} ms, {result['batch'] / seconds:,.0f} a second"
            canvas.text(_LEFT + width + 6, top + index * _BAR + 10, text)
    canvas.write(path)


__all__ = ["write_network_plot"]
