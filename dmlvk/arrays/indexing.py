"""Parts of a tensor, as NumPy's basic indexing names them: integers, slices, ``...`` and ``None``."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import InvalidArgumentError
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT


@dataclasses.dataclass(frozen=True)
class AxisPart:
    """The elements that are taken along an axis."""

    start: int  # index of the first one
    count: int  # how many
    step: int  # how far apart they lie; below 0 backwards

    @property
    def window(self) -> tuple[int, int]:
        """Where the lowest of them lies, and how many elements there are up to the highest one, both included."""
        reach = (self.count - 1) * self.step
        return min(self.start, self.start + reach), abs(reach) + 1


@dataclasses.dataclass(frozen=True)
class TensorSlice:
    axes: tuple[AxisPart, ...]  # what is taken along each axis of the tensor
    # the axes of the part: the tensor's by number, ``None`` for a new one of size 1. Those which an integer chooses
    # from are not among them
    shown: tuple[int | None, ...]


def part_of(sizes: Sequence[int], key: object, whole: str) -> TensorSlice:
    """The part that an index names.

    Args:
        key: what stands between the brackets.

    Raises:
        InvalidArgumentError: when the part lies outside or is empty, has too many axes, or the index is of another
            kind.
    """
    items = key if isinstance(key, tuple) else (key,)
    used = sum(item is not None and item is not Ellipsis for item in items)
    ellipses = sum(item is Ellipsis for item in items)
    if used > len(sizes) or ellipses > 1:
        raise InvalidArgumentError(f"{whole}: an index of {len(sizes)} axes at most, with one '...'; got {key!r}")
    rest = (slice(None),) * (len(sizes) - used)
    if ellipses:
        index = next(number for number, item in enumerate(items) if item is Ellipsis)
        items = (*items[:index], *rest, *items[index + 1 :])
    else:
        items = (*items, *rest)
    axes: list[AxisPart] = []
    shown: list[int | None] = []
    for item in items:
        if item is None:
            shown.append(None)
            continue
        axis = len(axes)
        if isinstance(item, slice):
            axes.append(_sliced(item, sizes[axis], f"{whole}: axis {axis}"))
            shown.append(axis)
        else:
            axes.append(AxisPart(_index(item, sizes[axis], f"{whole}: axis {axis}"), 1, 1))
    if len(shown) > MAXIMUM_DIMENSION_COUNT:
        raise InvalidArgumentError(
            f"{whole}: a tensor has at most {MAXIMUM_DIMENSION_COUNT} axes; got an index that gives {len(shown)}"
        )
    return TensorSlice(tuple(axes), tuple(shown))


def _sliced(item: slice, size: int, where: str) -> AxisPart:
    if is_dynamic((size, item.start, item.stop)) and item.step in (None, 1):  # a range has plain numbers only
        start, stop = (_bound(given, size, default) for given, default in ((item.start, 0), (item.stop, size)))
        if start < stop:
            return AxisPart(start, stop - start, 1)
    try:
        taken = range(*item.indices(size))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{where}: {error}; got {item!r}") from error
    if not taken:
        raise InvalidArgumentError(f"{where}: there are no empty tensors; of {size} elements, {item!r} takes none")
    return AxisPart(taken.start, len(taken), taken.step if len(taken) > 1 else 1)


def _bound(given: int | None, size: int, default: int) -> int:
    """Where a slice begins or ends, from 0 to the size."""
    if given is None:
        return default
    counted = given + size if given < 0 else given
    return 0 if counted < 0 else counted if counted < size else size


def _index(item: object, size: int, where: str) -> int:
    if isinstance(item, int) and is_dynamic(size) and -size <= item < size:
        return item if item >= 0 else size + item
    try:
        if isinstance(item, (bool, np.bool_, np.ndarray)):
            raise TypeError
        number = operator.index(item)  # type: ignore[arg-type]  # it refuses what has no index
    except TypeError:
        raise InvalidArgumentError(
            f"{where}: an index is an integer, a slice, '...' or None; got {item!r} (functions.gather takes tensors)"
        ) from None
    if not -size <= number < size:
        raise InvalidArgumentError(f"{where}: there is no index {number} among {size} elements")
    return number % size


def reshaped_sizes(sizes: Sequence[int], values: tuple[Any, ...], whole: str) -> list[int]:
    """The shape that ``reshape`` was given, one by one or as one sequence; -1 is what the others leave.

    Raises:
        InvalidArgumentError: when it holds another number of elements.
    """
    wanted = _one_by_one(values, f"{whole}: reshape: sizes", -1)
    asked, count = list(wanted), math.prod(sizes)
    if wanted.count(-1) == 1:
        others = -math.prod(wanted)
        if others > 0 and count % others == 0:
            wanted[wanted.index(-1)] = count // others
    if math.prod(wanted) != count or not wanted or any(size < 1 for size in wanted):
        raise InvalidArgumentError(f"{whole} cannot be reshaped to {asked}")
    return wanted


def axis_order(rank: int, values: tuple[Any, ...], whole: str) -> list[int]:
    """The order of axes that ``transpose`` was given, one by one or as one sequence; without any the opposite one.

    Raises:
        InvalidArgumentError: when it is no permutation.
    """
    order = [axis % rank for axis in _one_by_one(values, f"{whole}: transpose: axes", -rank, rank - 1)]
    order = order or list(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise InvalidArgumentError(f"{whole}: axes must be a permutation of its {rank} axes; got {order}")
    return order


def _one_by_one(values: tuple[Any, ...], where: str, lowest: int, highest: int = 2**32 - 1) -> list[int]:
    """Integers that were given one by one, or all of them in one sequence."""
    one = values[0] if len(values) == 1 else None
    given = one if isinstance(one, (Sequence, np.ndarray)) and not isinstance(one, str) else values
    return checked_integers(given, where, lowest, highest)
