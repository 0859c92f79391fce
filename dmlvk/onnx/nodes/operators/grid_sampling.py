"""GridSample: elements at places that a grid names, by gathered elements and their weights.

All places are computed in FLOAT32, in the order of ONNX's reference, since a last bit decides what nearest takes. Open
lengths of a picture are numbers in memory: FLOAT32 has them, and their halves, exactly.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from onnx import TensorProto

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.onnx.nodes.operators.heads import both
from dmlvk.onnx.nodes.operators.movement import sliced
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import RoundingMode

_BY = ("GATHER_ELEMENTS", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ADD")
_MODES = {"bilinear": "linear", "bicubic": "cubic"}
_MOST_TAPS = 16
_CUBIC = -0.75  # Keys' parameter, which GridSample does not leave open


_LONGEST = 2**22  # Of an open length, of which FLOAT32 has all that is made of it

_Number: TypeAlias = float | Tensor  # One that is known, or that follows from open sizes


@dataclasses.dataclass(frozen=True)
class _Length:
    """The length of an axis of a picture."""

    whole: _Number  # it
    last: _Number  # the place of its last element
    low: float  # where the picture begins
    high: _Number  # where it ends
    span: _Number  # what lies between these

    @classmethod
    def of(cls, node: Node, length: int, *, corners: bool) -> _Length:
        """The length, whose first and last places are those of its outermost elements, or their edges."""
        if not is_dynamic(length) or length > _LONGEST:
            whole, last = float(length), length - 1.0
            return cls(whole, last, *((0.0, last, last) if corners else (-0.5, length - 0.5, whole)))
        size, place, twice = (
            node.cast(node.assembly.size(number, TensorProto.INT32), TensorProto.FLOAT)
            for number in (length, length - 1, 2 * length - 1)
        )
        edges = (0.0, place, place) if corners else (-0.5, twice * 0.5, size)
        return cls(size, place, *edges)


@dataclasses.dataclass(frozen=True)
class _GridTap:
    """An element along an axis, for each place."""

    index: Tensor  # which one, inside of the axis
    is_inside: Tensor | None  # whether it was there before; ``None``: it does not matter
    weight: Tensor | None  # ``None``: 1


def _floor(a: Tensor) -> Tensor:
    return a.elementwise("FLOOR", input_tensor=a)


def _clipped(a: Tensor, low: float, high: _Number) -> Tensor:
    """Brought between two numbers; what is none becomes the second one."""
    if isinstance(high, Tensor):
        below = a.elementwise("MIN", a_tensor=a, b_tensor=high)
        return below.elementwise("MAX", a_tensor=below, b_tensor=low)
    return a.elementwise("CLIP", input_tensor=a, min=low, max=high)


def _outside(a: Tensor, low: float, high: _Number) -> Tensor:
    """Whether it is below the one or above the other."""
    return (a < low) | (a > high)


def _reflected(a: Tensor, length: _Length) -> Tensor:
    """Thrown back from both bounds as often as needed."""
    low, high, span = length.low, length.high, length.span
    if not isinstance(span, Tensor) and span <= 0:
        return a * 0.0 + low
    distance = abs(a - low)
    times = _floor(distance / span)
    rest = distance - times * span
    is_odd = times - _floor(times * 0.5) * 2.0 > 0.5
    return is_odd.where(high - rest, rest + low)


@translates("GridSample", by=_BY, note="cubic: of at most two axes")
def grid_sample(node: Node) -> None:
    """Nearest, linear and cubic, beyond the edges zeros, the edge or a reflection."""
    tensor, grid = node.tensor(0), node.tensor(1)
    said = node.text("mode", "linear")
    mode, padding, corners = _MODES.get(said, said), node.text("padding_mode", "zeros"), node.integer("align_corners")
    axes, count = tensor.shape[2:], tensor.rank - 2
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise NotOnDevice(f"mode {mode!r}, padding_mode {padding!r}")
    if count < 1 or grid.rank != tensor.rank or grid.shape[-1] != count or grid.shape[0] != tensor.shape[0]:
        raise NotOnDevice(f"a grid {list(grid.shape)} does not fit the tensor {list(tensor.shape)}")
    if mode == "cubic" and 4**count > _MOST_TAPS:
        raise NotOnDevice("cubic along more than two axes")
    if mode != "nearest":
        node.check_element(0, *FLOATS)
    node.check_element(1, *FLOATS)
    shape = (*tensor.shape[:2], *grid.shape[1:-1])
    taps = [
        _taps(
            node,
            _component(node, grid, count - 1 - axis),
            _Length.of(node, axes[axis], corners=bool(corners)),
            mode,
            padding,
            bool(corners),
        )
        for axis in range(count)
    ]
    source = tensor if mode == "nearest" else node.cast(tensor, TensorProto.FLOAT)
    flat = node.reshaped(source, (*tensor.shape[:2], math.prod(axes)))
    made = _summed(node, flat, axes, taps, ())
    node.set(node.cast(made.viewed(shape), tensor.element))


def _component(node: Node, grid: Tensor, number: int) -> Tensor:
    """The places along an axis: batch, 1, places."""
    packed = node.packed(grid)
    rows = packed.viewed((grid.shape[0], math.prod(grid.shape[1:-1]), grid.shape[-1]))
    taken = sliced(node, rows, [0, 0, number], [*rows.shape[:2], 1], [1, 1, 1])
    return node.cast(taken.viewed((rows.shape[0], 1, rows.shape[1])), TensorProto.FLOAT)


def _taps(node: Node, positions: Tensor, length: _Length, mode: str, padding: str, corners: bool) -> list[_GridTap]:
    if corners:
        x = (positions + 1.0) * 0.5 * length.last
    else:
        x = ((positions + 1.0) * length.whole - 1.0) * 0.5
    if mode == "nearest":
        x = node.apply("ELEMENT_WISE_ROUND", input_tensor=x, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)
    if padding != "zeros" and mode != "cubic":  # of cubic ones each tap is brought inside by itself, as PyTorch does it
        inside = _clipped(x, 0.0, length.last) if padding == "border" else _reflected(x, length)
        x = _outside(x, length.low, length.high).where(inside, x)
    if mode == "nearest":
        return [_tap(node, x, None, length, padding)]
    base = _floor(x)
    weights = _weights(x - base, mode)
    first = 0 if mode == "linear" else -1
    return [_tap(node, base + float(first + number), weight, length, padding) for number, weight in enumerate(weights)]


def _tap(node: Node, position: Tensor, weight: Tensor | None, length: _Length, padding: str) -> _GridTap:
    is_inside = None
    if padding == "zeros":
        is_inside = ~_outside(position, 0.0, length.last)
    elif padding == "reflection":
        is_outside = _outside(position, length.low, length.high)
        position = is_outside.where(_reflected(position, length), position)
    return _GridTap(node.cast(_clipped(position, 0.0, length.last), TensorProto.INT32), is_inside, weight)


def _weights(part: Tensor, mode: str) -> list[Tensor]:
    """Those of two or four neighbours, from how far a place lies behind the one before it."""
    rest = part * -1.0 + 1.0
    if mode == "linear":
        return [rest, part]
    return [_far(part + 1.0), _near(part), _near(rest), _far(rest + 1.0)]


def _near(x: Tensor) -> Tensor:
    return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1.0


def _far(x: Tensor) -> Tensor:
    return ((x * _CUBIC - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC


def _summed(
    node: Node, flat: Tensor, axes: Sequence[int], taps: Sequence[Sequence[_GridTap]], chosen_taps: tuple[_GridTap, ...]
) -> Tensor:
    """The weighted sum along the axes that are left, the last one first."""
    if len(chosen_taps) == len(axes):
        return _element(node, flat, axes, chosen_taps)
    total: Tensor | None = None
    for tap in taps[len(chosen_taps)]:
        found = _summed(node, flat, axes, taps, (*chosen_taps, tap))
        if tap.weight is not None:
            found = found * tap.weight
        total = found if total is None else total + found
    assert total is not None  # an axis has at least one tap
    return total


def _element(node: Node, flat: Tensor, axes: Sequence[int], taps: tuple[_GridTap, ...]) -> Tensor:
    """The elements that one tap of each axis names, or 0 where there is none."""
    steps = list(itertools.accumulate(reversed(axes[1:]), lambda a, b: a * b, initial=1))[::-1]
    index: Tensor | None = None
    is_inside: Tensor | None = None
    for tap, step in zip(taps, steps, strict=True):
        part = tap.index
        if step > 1:
            factor = _integer(node, step)
            part = part * factor
        index = part if index is None else index + part
        is_inside = both(is_inside, tap.is_inside)
    assert index is not None  # there is an axis
    shape = (*flat.shape[:2], index.shape[2])
    found = node.apply("GATHER_ELEMENTS", input_tensor=flat, indices_tensor=index.broadcast(shape), axis=2)
    return found if is_inside is None else is_inside.where(found, 0)


def _integer(node: Node, number: int) -> Tensor:
    return (
        node.assembly.size(number, TensorProto.INT32) if is_dynamic(number) else node.scalar(number, TensorProto.INT32)
    )
