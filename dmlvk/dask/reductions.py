"""REDUCE over whole arrays of Dask: each block on a device, partial results in Dask's own trees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from dmlvk.dask.mapping import refuse_mask
from dmlvk.dask.models import Array
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.objects.portable import default_device
from dmlvk.operators import FeatureLevel, OperatorDesc, ReduceFunction, check_operator
from dmlvk.operators.arithmetic import ElementWiseDivide, ElementWiseSqrt
from dmlvk.operators.reduction import Reduce
from dmlvk.operators.transcendental import ElementWiseLog
from dmlvk.support.integers import checked_integer, checked_integers
from dmlvk.tensors import TensorDesc

_SUM = ReduceFunction.SUM

_STAGES: dict[ReduceFunction, tuple[ReduceFunction, ReduceFunction]] = {
    ReduceFunction.AVERAGE: (_SUM, _SUM),
    ReduceFunction.L1: (ReduceFunction.L1, _SUM),
    ReduceFunction.L2: (ReduceFunction.SUM_SQUARE, _SUM),
    ReduceFunction.LOG_SUM: (_SUM, _SUM),
    ReduceFunction.LOG_SUM_EXP: (ReduceFunction.LOG_SUM_EXP, ReduceFunction.LOG_SUM_EXP),
    ReduceFunction.MAX: (ReduceFunction.MAX, ReduceFunction.MAX),
    ReduceFunction.MIN: (ReduceFunction.MIN, ReduceFunction.MIN),
    ReduceFunction.MULTIPLY: (ReduceFunction.MULTIPLY, ReduceFunction.MULTIPLY),
    ReduceFunction.SUM: (_SUM, _SUM),
    ReduceFunction.SUM_SQUARE: (ReduceFunction.SUM_SQUARE, _SUM),
}
"""What is done with blocks, and what with results of blocks."""

_MOST_JOINED = 2**20  # Partial results that are joined at a time; Dask makes lists that long

_OF_THE_SUM = (ReduceFunction.AVERAGE, ReduceFunction.L2, ReduceFunction.LOG_SUM)
"""Functions of which something is left to do when all blocks are added up."""

_EXTREMES = (ReduceFunction.MAX, ReduceFunction.MIN)


def reduce(
    function: ReduceFunction | str,  # DirectML's; ARGMIN and ARGMAX are ``dask.array.argmin`` and ``argmax``
    array: da.Array,  # of a data type that REDUCE takes for the function and gives
    axis: int | Sequence[int] | None = None,  # one or several; ``None``: all
    *,
    keepdims: bool = False,  # whether reduced axes stay, with size 1
    # how many partial results are joined at a time, as for ``dask.array.reduction``
    split_every: int | dict[int, int] | None = None,
) -> da.Array:
    """REDUCE over an array that is larger than a device, or lies on several.

    Blocks are reduced on devices, and their results in a tree by ``dask.array.reduction``. Partial results of FLOAT16
    are FLOAT32. The bits follow from the array, its chunks and ``split_every``, whichever devices compute them.

    Raises:
        InvalidArgumentError: when REDUCE does not have it.
    """
    wanted = ReduceFunction[function] if isinstance(function, str) and function in _NAMES else function
    if not isinstance(wanted, ReduceFunction) or wanted not in _STAGES:
        names = sorted(stage.name for stage in _STAGES)
        raise InvalidArgumentError(f"reduce: function must be one of {names}; got {function!r}")
    if not isinstance(array, da.Array):
        raise InvalidArgumentError(f"reduce: takes an array of Dask's; got {type(array).__name__}")
    refuse_mask(array._meta, "reduce")
    listed = range(array.ndim) if axis is None else axis if isinstance(axis, Iterable) else [axis]
    given = checked_integers(listed, "reduce: axis", -array.ndim, array.ndim - 1)
    axes = tuple(sorted({each % array.ndim for each in given}))
    for each in axes:
        if not array.shape[each] > 0:  # nan is a size that nobody knows
            raise InvalidArgumentError(
                f"reduce: axis {each} must have elements, of a number that is known; got {array.shape[each]} (an "
                "array's compute_chunk_sizes() finds it)"
            )
    for count in split_every.values() if isinstance(split_every, dict) else [split_every]:
        if count is not None:
            checked_integer(count, "reduce: split_every", 2, _MOST_JOINED)
    dtype = np.dtype(array.dtype)
    check_operator(_described(wanted, (1,) * max(array.ndim, 1), dtype, axes), FeatureLevel.LEVEL_6_4)
    count = math.prod(array.shape[each] for each in axes) if wanted is ReduceFunction.AVERAGE else 1
    of_blocks, of_results = _STAGES[wanted]
    last = _TreeStage(of_results, dtype, wanted if wanted in _OF_THE_SUM else None, count)
    made: da.Array = da.reduction(
        array,
        _TreeStage(of_blocks, _partial(wanted, dtype)),
        last,
        combine=_TreeStage(of_results, _partial(wanted, dtype)),
        axis=axes,
        keepdims=keepdims,
        dtype=dtype,
        split_every=split_every,
        name=f"reduce-{wanted.name.lower()}",
        meta=np.empty((0,) * (array.ndim if keepdims else array.ndim - len(axes)), dtype),
    )
    return made


_NAMES = frozenset(ReduceFunction.__members__)


class _TreeStage:
    """A stage of the tree, as ``da.reduction`` calls it.

    Args:
        rest: of what something is left to do; ``None``: nothing is.
        count: how many elements an average is of.
    """

    def __init__(
        self, function: ReduceFunction, dtype: np.dtype[Any], rest: ReduceFunction | None = None, count: int = 1
    ) -> None:
        self._function, self._dtype, self._rest, self._count = function, dtype, rest, count
        self.__name__ = function.name.lower()

    def __call__(self, block: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        shape = tuple(min(size, 1) if number in axis else size for number, size in enumerate(block.shape))
        if block.size == 0:  # Dask asks for the type of the result, or the array has empty blocks
            made = np.empty(shape, self._dtype)
        else:
            values = np.asarray(block)
            if values.dtype == np.float16 and self._function not in _EXTREMES:
                values = values.astype(np.float32)
            made = _run(_described(self._function, values.shape, values.dtype, tuple(axis)), InputTensor=values)
            with np.errstate(over="ignore"):
                made = self._finished(made, shape).astype(self._dtype, copy=False)
        return made if keepdims else made.reshape([size for n, size in enumerate(made.shape) if n not in axis])

    def _finished(self, made: Array, shape: tuple[int, ...]) -> Array:
        tensor = TensorDesc(DataType(made.dtype), shape)
        if self._rest is ReduceFunction.AVERAGE:
            divide = ElementWiseDivide(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
            return _run(divide, ATensor=made, BTensor=np.full(shape, self._count, made.dtype))
        if self._rest is ReduceFunction.L2:
            return _run(ElementWiseSqrt(input_tensor=tensor, output_tensor=tensor), InputTensor=made)
        if self._rest is ReduceFunction.LOG_SUM:
            return _run(ElementWiseLog(input_tensor=tensor, output_tensor=tensor), InputTensor=made)
        return made

    def __dask_tokenize__(self) -> object:
        rest = None if self._rest is None else self._rest.name
        return "dmlvk.dask.reduce", self._function.name, str(self._dtype), rest, self._count


def _partial(function: ReduceFunction, dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype == np.float16 and function not in _EXTREMES else dtype


def _described(
    function: ReduceFunction, shape: tuple[int, ...], dtype: np.dtype[Any], axes: tuple[int, ...]
) -> OperatorDesc:
    data_type = DataType(dtype)
    reduced = tuple(1 if number in axes else size for number, size in enumerate(shape))
    return Reduce(
        function=function,
        input_tensor=TensorDesc(data_type, shape),
        output_tensor=TensorDesc(data_type, reduced),
        axis_count=len(axes),
        axes=axes,
    )


def _run(desc: OperatorDesc, **inputs: Array) -> Array:
    (result,) = default_device().run(desc, inputs).values()
    return result
