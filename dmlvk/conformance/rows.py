"""Inputs for the operators along axes: tensors of many shapes, whose rows make results of every kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dmlvk.conformance import patterns
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]
_Number = TypeVar("_Number", int, float)

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 128, 129, 255, 257, 1000, 1024, 1025, 2053, 4096, 4097, 5000, 20011)
"""Of rows: primes, and what is next to the numbers at which the way of computing changes."""


@dataclasses.dataclass(frozen=True)
class RowShape:
    """Sizes of a tensor, and the axes along which its rows lie; ``None``: the last one, of two at most."""

    sizes: tuple[int, ...]
    axes: tuple[int, ...] | None

    @property
    def row_axes(self) -> tuple[int, ...]:
        return (len(self.sizes) - 1,) if self.axes is None else tuple(sorted(self.axes))


_SEVERAL_AXES = (
    RowShape((3, 5, 7), (0,)),
    RowShape((3, 5, 7), (1,)),
    RowShape((30, 5, 70), (2, 0)),
    RowShape((2, 600, 3), (1,)),
    RowShape((7, 300, 5), (0, 1)),
    RowShape((2, 3, 4, 5), (1, 3)),
    RowShape((40, 3, 50, 2), (3, 0, 2)),
    RowShape((3, 2, 2, 3, 2, 2, 3), (1, 3, 5)),
    RowShape((3, 2, 2, 3, 2, 2, 3), (6, 4, 2, 0)),
    RowShape((3, 2, 2, 3, 2, 2, 3), tuple(range(7))),
    RowShape((1, 1, 9, 1), (1, 3)),
    RowShape((64, 21, 33), (1,)),
)


def row_inputs(
    data_type: DataType, names_axes: bool, total: int, random: np.random.Generator
) -> Iterator[tuple[str, RowShape, Array]]:
    """Tensors with names, that hold ``total`` elements together, or somewhat more.

    Args:
        names_axes: whether the operator lets axes be named.
    """
    shapes = [RowShape((1, length) if length % 2 else (length,), (1,) if length % 2 else (0,)) for length in LENGTHS]
    if names_axes:
        shapes += _SEVERAL_AXES
    share = total // len(shapes)
    for shape in shapes:
        length = math.prod(shape.sizes[axis] for axis in shape.row_axes)
        rows = max(1, -(-share // math.prod(shape.sizes)))
        repeated = RowShape((rows, *shape.sizes), tuple(axis + 1 for axis in shape.row_axes))
        if not names_axes:
            repeated = RowShape((rows, shape.sizes[-1]), None)
        count = math.prod(repeated.sizes) // length
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.concatenate([_kind(kind, length, data_type, random) for kind in range(count)])
        turned = [axis for axis in range(len(repeated.sizes)) if axis not in repeated.row_axes]
        order = [*turned, *repeated.row_axes]
        tensor = np.transpose(values.reshape([repeated.sizes[axis] for axis in order]), np.argsort(order))
        yield f"{count} rows of {length}", repeated, np.ascontiguousarray(tensor)


def _kind(number: int, length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """A row of the kind of that number, the kinds in turn."""
    made = _KINDS[number % len(_KINDS)](length, data_type, random)
    return made if made.dtype == data_type.numpy_dtype else made.astype(data_type.numpy_dtype)


def _one_of(values: Sequence[_Number], random: np.random.Generator) -> _Number:
    """The one that ``random.choice`` gives, which first makes an array of a few values, for each of many short rows."""
    return values[random.integers(0, len(values))]


def _ordinary(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Of any spread, about any middle."""
    spread, middle = 2.0 ** random.uniform(-12, 6), _one_of((0.0, 1.0, -30.0, 1000.0, -0.001), random)
    return np.asarray(random.normal(middle, spread, length))


def _one_above(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """One element is far above all others, or a few are: results next to 1 and 0, logarithms next to 0."""
    gap = _one_of((0.5, 3.0, 12.0, 17.0, 30.0, 87.0, 88.5, 104.0, 109.9, 110.1, 150.0), random)
    values = random.normal(0, 0.3, length) - gap
    values[random.integers(0, length, random.integers(1, 3))] = _one_of((0.0, 2.0**-20, 5.0), random)
    return np.asarray(values)


def _far_below(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Differences from 0 to beyond all that a power can be, in steps."""
    return np.asarray(-random.permutation(length) * _one_of((0.03, 1.0, 30.0), random) - random.normal(0, 10))


def _equal(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """All the same, or a step apart: many peaks of equal height."""
    base: Array = np.full(length, random.normal(0, 10)).astype(data_type.numpy_dtype)
    beside: Array = np.nextafter(base, base.dtype.type(np.inf)) if random.integers(2) else base
    return np.where(random.integers(0, 2, length) == 1, base, beside)


def _tiny(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Denormals, zeros of both signs and the numbers next to them."""
    bits = patterns.bits_dtype(data_type)
    sign = random.integers(0, 2, length).astype(bits) << bits.type(data_type.size_in_bits - 1)
    hidden = 2**10 if data_type is DataType.FLOAT16 else 2**23
    patterns_of_tiny = random.integers(0, _one_of((2, 4 * hidden), random), length).astype(bits) | sign
    return np.asarray(patterns_of_tiny.view(data_type.numpy_dtype))


def _huge(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Up to the largest numbers: differences overflow."""
    largest = float(np.finfo(data_type.numpy_dtype).max)
    return np.asarray(random.uniform(-largest, largest, length) * _one_of((1.0, 1e-3), random))


def _numbers(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    bits = patterns.bits_dtype(data_type)
    made = random.integers(0, 2**data_type.size_in_bits, length, dtype=np.uint64).astype(bits)
    values = made.view(data_type.numpy_dtype)
    return np.where(np.isfinite(values), values, values.dtype.type(1.5))


def _with_infinities_below(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Some or all are -infinity, as masks make them."""
    values = np.asarray(random.normal(0, 3, length))
    values[random.random(length) < _one_of((0.1, 0.9, 1.0), random)] = -np.inf
    return values


def _without_result(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """NaN or +infinity somewhere, NaN of any payload; or everywhere."""
    values = np.asarray(random.normal(0, 3, length)).astype(data_type.numpy_dtype)
    special = patterns.special_patterns(data_type).view(data_type.numpy_dtype)
    special = special[~np.isfinite(special)]
    chosen = random.random(length) < _one_of((0.02, 0.5, 1.1), random)
    chosen[random.integers(0, length)] = True
    values[chosen] = random.choice(special, int(chosen.sum()))
    return values


def _special(length: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Special numbers, no NaN and no infinities."""
    special = patterns.special_patterns(data_type).view(data_type.numpy_dtype)
    return np.asarray(random.choice(special[np.isfinite(special)], length))


_KINDS: Sequence[Callable[[int, DataType, np.random.Generator], Array]] = (
    _ordinary,
    _one_above,
    _far_below,
    _ordinary,
    _equal,
    _with_infinities_below,
    _one_above,
    _tiny,
    _ordinary,
    _huge,
    _without_result,
    _numbers,
    _one_above,
    _special,
)
