"""The standard's linear algebra: products of matrices, vectors and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.array_api.array import broadcast, checked, checked_axis, integers
from dmlvk.array_api.calls import computed_now, converted
from dmlvk.array_api.creation import zeros
from dmlvk.array_api.dtypes import FLOATS, NUMERIC, UNSIGNED, int64, uint64
from dmlvk.array_api.elementwise import by_float32, multiply, pair
from dmlvk.array_api.manipulation import broadcast_to, concat, permute_dims, reshape
from dmlvk.array_api.statistics import sum as summed
from dmlvk.arrays.array import Array
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import ReduceFunction
from dmlvk.support.integers import checked_integer

_MOST_AXES = 64  # Of any array

_MOST_PRODUCTS = 2**24  # Products of integers that are in memory at once


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes exchanged.

    Raises:
        InvalidArgumentError: there are fewer.
    """
    array = checked(x, "matrix_transpose")
    if array.ndim < 2:
        raise InvalidArgumentError(f"matrix_transpose: needs 2 axes at least; got {list(array.shape)}")
    order = list(range(array.ndim))
    return permute_dims(array, (*order[:-2], order[-1], order[-2]))


def _product(a: Expression, b: Expression) -> Expression:
    return F.matmul(a, b)


def _integer_product(a: Expression, b: Expression) -> Expression:
    """(batch, m, k) times (batch, k, n): all products, added up."""
    batch, rows, terms = a.sizes
    products = F.multiply(
        a.reshape(batch, rows, terms, 1) if a.tensor.is_packed else F.identity(a).reshape(batch, rows, terms, 1),
        (b if b.tensor.is_packed else F.identity(b)).reshape(batch, 1, terms, b.sizes[-1]),
    )
    made = F.reduce(products, function=ReduceFunction.SUM, axes=[2], output_data_type=a.data_type)
    return made.reshape(batch, rows, b.sizes[-1])


@by_float32
def matmul(x1: Any, x2: Any, /) -> Array:
    """The product of matrices in the last two axes; the others broadcast. Integers wrap around.

    Raises:
        InvalidArgumentError: the shapes do not fit.
        DataTypeError: the types have no common one.
    """
    first, second, dtype = pair("matmul", x1, x2, NUMERIC)
    if not first.ndim or not second.ndim:
        raise InvalidArgumentError("matmul: needs an axis of both; use multiply")
    is_row, is_column = first.ndim == 1, second.ndim == 1
    left = reshape(first, (1, *first.shape)) if is_row else first
    right = reshape(second, (*second.shape, 1)) if is_column else second
    if left.shape[-1] != right.shape[-2]:
        raise InvalidArgumentError(
            f"matmul: {list(first.shape)} and {list(second.shape)}: the last axis of the first one must be as long as "
            "the last but one of the second one"
        )
    batch = broadcast("matmul", [left.shape[:-2], right.shape[:-2]])
    whole = (*batch, left.shape[-2], right.shape[-1])
    shape = tuple(whole[: len(batch)]) + ((), (whole[-2],))[not is_row] + ((), (whole[-1],))[not is_column]
    if 0 in whole or left.shape[-1] == 0:
        return zeros(shape, dtype=dtype, device=first.device)
    if dtype in FLOATS:
        (made,) = computed_now("matmul", _product, [left, right], [(dtype, whole)])
    else:
        made = _of_integers(left, right, batch)
    return reshape(converted(made, dtype), shape)


def _of_integers(left: Array, right: Array, batch: tuple[int, ...]) -> Array:
    """In rows at a time, so that all products of the terms fit into memory."""
    wide = left.dtype if left.dtype.itemsize >= 4 else uint64 if left.dtype in UNSIGNED else int64
    number, (rows, terms), columns = math.prod(batch), left.shape[-2:], right.shape[-1]
    a = reshape(broadcast_to(converted(left, wide), (*batch, rows, terms)), (number, rows, terms))
    b = reshape(broadcast_to(converted(right, wide), (*batch, terms, columns)), (number, terms, columns))
    step = max(1, _MOST_PRODUCTS // (number * terms * columns))
    parts = []
    for start in range(0, rows, step):
        some = a[:, start : start + step, :]
        parts += computed_now("matmul", _integer_product, [some, b], [(wide, (number, some.shape[1], columns))])
    return reshape(concat(parts, axis=1) if len(parts) > 1 else parts[0], (*batch, rows, columns))


@by_float32
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """The sum of products along some axes of both: the last of one and the first of the other, or as they are named.

    Raises:
        InvalidArgumentError: the axes do not fit.
    """
    first, second, _ = pair("tensordot", x1, x2, NUMERIC)
    if not isinstance(axes, (tuple, list)):
        axes = checked_integer(axes, "tensordot: axes", 0)
        own: Sequence[int] = range(first.ndim - axes, first.ndim)
        others: Sequence[int] = range(axes)
        if axes > min(first.ndim, second.ndim):
            raise InvalidArgumentError(f"tensordot: axes must be from 0 to {min(first.ndim, second.ndim)}; got {axes}")
    else:
        if len(axes) != 2:
            raise InvalidArgumentError(f"tensordot: axes must be a number or two sequences; got {axes!r}")
        named = [integers(some, "tensordot: axes", -(2**63)) for some in axes]
        own = [checked_axis(axis, first.ndim, "tensordot") for axis in named[0]]
        others = [checked_axis(axis, second.ndim, "tensordot") for axis in named[1]]
        if len(set(own)) < len(own) or len(set(others)) < len(others):
            raise InvalidArgumentError(f"tensordot: each axis must be named once; got {axes!r}")
    if [first.shape[axis] for axis in own] != [second.shape[axis] for axis in others]:
        raise InvalidArgumentError(
            f"tensordot: axes {list(own)} of {list(first.shape)} and {list(others)} of {list(second.shape)} differ"
        )
    left = [axis for axis in range(first.ndim) if axis not in own]
    right = [axis for axis in range(second.ndim) if axis not in others]
    terms = math.prod(first.shape[axis] for axis in own)
    shapes = [tuple(first.shape[axis] for axis in left), tuple(second.shape[axis] for axis in right)]
    a = reshape(permute_dims(first, (*left, *own)), (math.prod(shapes[0]), terms))
    b = reshape(permute_dims(second, (*others, *right)), (terms, math.prod(shapes[1])))
    return reshape(matmul(a, b), shapes[0] + shapes[1])


@by_float32
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sums of products along an axis, which must not be broadcast.

    Raises:
        InvalidArgumentError: the axis has other sizes, or is not there in both.
    """
    first, second, dtype = pair("vecdot", x1, x2, NUMERIC)
    axis = checked_integer(axis, "vecdot: axis", -_MOST_AXES)
    if axis >= 0 or -axis > min(first.ndim, second.ndim) or first.shape[axis] != second.shape[axis]:
        raise InvalidArgumentError(
            f"vecdot: axis {axis} (from -{min(first.ndim, second.ndim)} to -1) must have one size in "
            f"{list(first.shape)} and {list(second.shape)}"
        )
    return summed(multiply(first, second), axis=axis, dtype=dtype)


@by_float32
def outer(x1: Any, x2: Any, /) -> Array:
    """All products of two vectors' elements.

    Raises:
        InvalidArgumentError: one is no vector.
    """
    first, second, _ = pair("outer", x1, x2, NUMERIC)
    if first.ndim != 1 or second.ndim != 1:
        raise InvalidArgumentError(f"outer: needs vectors; got {list(first.shape)} and {list(second.shape)}")
    return multiply(reshape(first, (first.size, 1)), second)
