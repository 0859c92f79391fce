"""The standard's extension ``linalg``, as far as it needs no decomposition of matrices."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from dmlvk.array_api import elementwise, statistics
from dmlvk.array_api.array import along, checked, checked_axes, checked_axis, checked_real
from dmlvk.array_api.calls import converted, one_now
from dmlvk.array_api.creation import arange, eye
from dmlvk.array_api.dtypes import FLOATS, NUMERIC, check_is, is_number
from dmlvk.array_api.elementwise import by_float32, multiply, pair, subtract
from dmlvk.array_api.indexing import take
from dmlvk.array_api.manipulation import broadcast_arrays, reshape, stack
from dmlvk.array_api.powers import pow
from dmlvk.array_api.products import matmul, matrix_transpose, outer, tensordot, vecdot
from dmlvk.array_api.statistics import norm_of_squares, without_axes
from dmlvk.array_api.support import UNSUPPORTED
from dmlvk.arrays.array import Array
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.support.integers import checked_integer

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    reason = UNSUPPORTED.get(f"linalg.{name}")
    if reason is None:
        raise AttributeError(f"dmlvk.array_api.linalg has no {name!r}; it has {', '.join(__all__)}")

    def refused(*_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"linalg.{name}: {reason}")

    return refused


def _matrices(x: Any, where: str) -> Array:
    array = checked(x, where)
    if array.ndim < 2:
        raise InvalidArgumentError(f"{where}: needs 2 axes at least; got {list(array.shape)}")
    return array


@by_float32
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The vector product along an axis of size 3.

    Raises:
        InvalidArgumentError: it has another size.
    """
    *given, _ = pair("cross", x1, x2, NUMERIC)
    first, second = broadcast_arrays(*given)
    dimension = checked_axis(axis, first.ndim, "cross")
    own = [checked_axis(axis, one.ndim, "cross") for one in given]
    if any(one.shape[place] != 3 for one, place in zip((first, *given), (dimension, *own), strict=True)):
        raise InvalidArgumentError(f"cross: the axis must have size 3; got {list(first.shape)}, axis {axis}")
    a, b = ([array[along(dimension, number)] for number in range(3)] for array in (first, second))
    parts = [
        subtract(multiply(a[(k + 1) % 3], b[(k + 2) % 3]), multiply(a[(k + 2) % 3], b[(k + 1) % 3])) for k in range(3)
    ]
    return stack(parts, axis=dimension)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The elements of a diagonal of each matrix, the one that is ``offset`` above the main one.

    Raises:
        InvalidArgumentError: there are fewer than 2 axes.
    """
    array = _matrices(x, "diagonal")
    rows, columns = array.shape[-2:]
    offset = max(-rows, min(columns, checked_integer(offset, "diagonal: offset", -(2**63))))
    first = max(0, offset) + columns * max(0, -offset)
    count = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    flat = reshape(array, (*array.shape[:-2], rows * columns))
    if count == 0:
        return flat[..., :0]
    indices = arange(first, first + count * (columns + 1), columns + 1, device=array.device)
    return take(flat, indices, axis=array.ndim - 2)


@by_float32
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a diagonal of each matrix; of integers in 64 bits if no type is asked for."""
    return statistics.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


@by_float32
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Array:
    """The norm of vectors along axes: the root of the sum of squares, or another one.

    Raises:
        InvalidArgumentError: there is no such axis.
    """
    array = checked(x, "vector_norm")
    check_is(array.dtype, FLOATS, "vector_norm")
    axes = checked_axes(axis, array.ndim, "vector_norm")
    order = checked_real(ord, "vector_norm: ord")
    if order == 2 and array.size and axes:
        shape = without_axes(array.shape, axes, keepdims)
        return one_now("vector_norm", norm_of_squares, array, array.dtype, shape, (axes,))
    sizes = elementwise.abs(array)
    if math.isinf(order):
        function = statistics.max if order > 0 else statistics.min
        return function(sizes, axis=axes, keepdims=keepdims)
    if order == 0:
        return converted(statistics.count_nonzero(array, axis=axes, keepdims=keepdims), array.dtype)
    powers = sizes if order == 1 else pow(sizes, order)
    total = statistics.sum(powers, axis=axes, keepdims=keepdims)
    return total if order == 1 else pow(total, 1 / order)


@by_float32
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of each matrix: ``"fro"``, or the largest or smallest sum of a row or a column.

    Raises:
        UnsupportedError: the norm needs singular values.
        InvalidArgumentError: there is no such norm.
    """
    array = _matrices(x, "matrix_norm")
    check_is(array.dtype, FLOATS, "matrix_norm")
    if isinstance(ord, str) and ord == "fro":
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if (isinstance(ord, str) and ord == "nuc") or (is_number(ord) and ord in (2, -2)):
        raise UnsupportedError(f"matrix_norm: ord={ord!r}: {UNSUPPORTED['linalg.svd']}")
    if not is_number(ord) or ord not in (1, -1, math.inf, -math.inf):
        raise InvalidArgumentError(f"matrix_norm: there is no norm {ord!r}")
    sums = statistics.sum(elementwise.abs(array), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    function = statistics.max if ord > 0 else statistics.min
    made = function(sums, axis=(-2, -1), keepdims=True)
    return made if keepdims else reshape(made, array.shape[:-2])


@by_float32
def matrix_power(x: Any, n: int, /) -> Array:
    """Square matrices multiplied by themselves, by squaring.

    Raises:
        UnsupportedError: the power is below 0, which needs an inverse.
        InvalidArgumentError: the matrices are not square.
    """
    array = _matrices(x, "matrix_power")
    if array.shape[-1] != array.shape[-2]:
        raise InvalidArgumentError(f"matrix_power: the matrices must be square; got {list(array.shape)}")
    n = checked_integer(n, "matrix_power: n", -(2**63))
    if n < 0:
        raise UnsupportedError(f"matrix_power: n={n}: {UNSUPPORTED['linalg.inv']}")
    made = eye(array.shape[-1], dtype=array.dtype, device=array.device)
    if n == 0:
        return broadcast_arrays(made, array)[0]
    result: Array | None = None
    while n:
        if n & 1:
            result = array if result is None else matmul(result, array)
        n >>= 1
        array = matmul(array, array) if n else array
    assert result is not None  # n was above 0
    return result
