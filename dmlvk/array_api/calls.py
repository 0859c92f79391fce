"""From functions of expressions to arrays: computed when needed, or now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.array_api import forms
from dmlvk.array_api.array import broadcast, check_computable, check_room
from dmlvk.array_api.dtypes import FLOATS, DType, device_type
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.lazy import Operation, computed, deferred
from dmlvk.arrays.array import Array
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.arrays.values import Shape, Value
from dmlvk.device import Device


def applied(
    where: str,  # the function, for messages
    form: Callable[..., Any],
    arrays: list[Array],  # its operands, of one device
    dtype: DType,
    attributes: tuple[Any, ...] = (),  # what else the form takes
    shape: Shape | None = None,  # of the result; ``None``: to which the operands broadcast
) -> Array:
    """The result of an element-wise form, which is computed when it is needed.

    Raises:
        InvalidArgumentError: the shapes do not broadcast.
        DeviceLimitError: the device cannot have the result.
    """
    check_computable(arrays, where)
    made = broadcast(where, [one.shape for one in arrays]) if shape is None else shape
    device = arrays[0].device
    if 0 in made:
        return Array(device, dtype, made, None)
    check_room(device, dtype, made, where)
    operation = Operation(form, attributes)
    value = deferred(device, operation, [one.value for one in arrays], device_type(dtype), made)
    return Array(device, dtype, made, value)


def computed_now(
    where: str,  # the function, for messages
    # a function of the operands' expressions (of the graph, where there are none) and the attributes
    form: Callable[..., Any],
    arrays: Sequence[Array],  # the operands, of one device; none is empty
    results: Sequence[tuple[DType, Shape]],  # type and shape of each; none is empty
    attributes: tuple[Any, ...] = (),  # what else the form takes
    device: Device | None = None,  # where, if there are no operands
) -> list[Array]:
    """The results of any form, computed now, in one graph with what its operands wait for.

    Raises:
        DeviceLimitError: the device cannot have a result.
    """
    check_computable(arrays, where)
    target = arrays[0].device if device is None else device
    for dtype, shape in results:
        check_room(target, dtype, shape, where)
    described = [(device_type(dtype), shape) for dtype, shape in results]
    values = computed(target, form, attributes, [one.value for one in arrays], described)
    return [Array(target, dtype, shape, value) for (dtype, shape), value in zip(results, values, strict=True)]


def one_now(
    where: str, form: Callable[..., Any], x: Array, dtype: DType, shape: Shape, attributes: tuple[Any, ...] = ()
) -> Array:
    """The only result of a form of one operand, computed now."""
    (made,) = computed_now(where, form, [x], [(dtype, shape)], attributes)
    return made


def seen(x: Array, memory: TensorMemory | None, shape: Shape) -> Array:
    """A view of an array's memory, as an array of the same type."""
    value = None if memory is None else Value(x.device, memory.data_type, shape, memory)
    return Array(x.device, x.dtype, shape, value)


def copied(x: Array) -> Array:
    """The same elements in memory of their own, when they are needed."""
    return applied("copy", F.identity, [x], x.dtype)


def converted(x: Array, dtype: DType, where: str = "astype") -> Array:
    if x.dtype == dtype:
        return x
    if dtype == bool_dtype:
        return applied(where, forms.truth, [x], dtype)
    if x.dtype in FLOATS and dtype not in FLOATS:
        return applied(where, forms.cast, [applied(where, forms.truncated, [x], x.dtype)], dtype, (device_type(dtype),))
    if device_type(x.dtype) == device_type(dtype):  # truth values as uint8
        return Array(x.device, dtype, x.shape, x._value)
    return applied(where, forms.cast, [x], dtype, (device_type(dtype),))
