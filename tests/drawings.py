"""Where the texts of an SVG drawing stand, so that tests find what is drawn over them."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

SVG = "{http://www.w3.org/2000/svg}"

_LETTER, _ABOVE, _BELOW = 0.6, 0.75, 0.2
"""What a letter takes in fonts for ``sans-serif``, as parts of the font's size: its width, and from its base line."""


class Box(NamedTuple):
    """A text, or something else that is drawn, and its edges."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether they have any point in common."""
        beside = self.right < other.left or other.right < self.left
        return not beside and self.top <= other.bottom and other.top <= self.bottom


def texts(root: ElementTree.Element) -> list[Box]:
    """The texts; none of them may be turned."""
    found = []
    for each in root.iter(f"{SVG}text"):
        assert each.text
        assert each.get("transform") is None
        size = float(each.get("font-size") or root.get("font-size") or "nan")
        x, y, width = float(each.get("x", "nan")), float(each.get("y", "nan")), _LETTER * size * len(each.text)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[each.get("text-anchor", "start")]
        found.append(Box(each.text, left, y - _ABOVE * size, left + width, y + _BELOW * size))
    return found


def lines(root: ElementTree.Element) -> list[Box]:
    """Polylines from one point to another."""
    found = []
    for each in root.iter(f"{SVG}polyline"):
        xs, ys = zip(*(map(float, point.split(",")) for point in each.get("points", "").split()), strict=True)
        if len(xs) == 2:
            found.append(Box(f"line {each.get('points')}", min(xs), min(ys), max(xs), max(ys)))
    return found


def rectangles(root: ElementTree.Element) -> list[Box]:
    found = []
    for each in root.iter(f"{SVG}rect"):
        if each.get("x") is not None:
            x, y, width, height = (float(each.get(name, "nan")) for name in ("x", "y", "width", "height"))
            found.append(Box(f"rectangle at {x}, {y}", x, y, x + width, y + height))
    return found


def overlapping(boxes: list[Box]) -> list[tuple[str, str]]:
    """Which of some texts stand over each other."""
    return [(a.what, b.what) for a, b in itertools.combinations(boxes, 2) if a.meets(b)]
