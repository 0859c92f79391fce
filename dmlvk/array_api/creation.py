"""The standard's functions that make arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlvk import functions as F
from dmlvk.array_api import forms
from dmlvk.array_api.array import (
    check_computable,
    check_room,
    checked,
    checked_device,
    checked_shape,
    integers,
    one_or_more,
)
from dmlvk.array_api.calls import applied, computed_now, converted, copied
from dmlvk.array_api.dtypes import (
    FLOATS,
    INTEGERS,
    LARGEST,
    NUMERIC,
    DType,
    check_is,
    check_number,
    checked_dtype,
    device_type,
    float32,
    int64,
    is_number,
)
from dmlvk.array_api.dtypes import bool as bool_dtype
from dmlvk.array_api.lazy import number as number_value
from dmlvk.arrays.array import Array
from dmlvk.arrays.values import Shape
from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.errors import CopyError, DataTypeError, InvalidArgumentError, OutOfMemoryError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression
from dmlvk.support import faults
from dmlvk.support.integers import checked_integer


def _shape_of(shape: Any, where: str) -> Shape:
    return checked_shape(integers(one_or_more(shape), f"{where}: shape", 0), where)


def _natural(number: Any) -> DType:
    if isinstance(number, (bool, np.bool_)):
        return bool_dtype
    return int64 if isinstance(number, (int, np.integer)) else float32


def asarray(obj: Any, /, *, dtype: Any = None, device: Device | None = None, copy: bool | None = None) -> Array:
    """An array of what is given.

    Args:
        obj: a number, nested lists of them, an array, or what NumPy or DLPack make one of.
        dtype: ``None``: the array's own; int64, float32 or bool of Python's numbers.
        device: a ``dmlvk.Device``; ``None``: the array's, or the process's.
        copy: ``False``: an error where elements would have to be copied; ``True``: always.

    Raises:
        DataTypeError: the device does not compute with the type.
        InvalidArgumentError: it is no array, or would have to be copied.
    """
    wanted = None if dtype is None else checked_dtype(dtype, "asarray")
    if isinstance(obj, Array):
        check_computable([obj], "asarray")
        if device is not None and checked_device(device, "asarray") is not obj.device:
            if copy is False:
                raise CopyError("asarray: an array of another device cannot be had without a copy")
            return asarray(obj.numpy(), dtype=wanted, device=device)
        if wanted not in (None, obj.dtype) and copy is False:
            raise CopyError(f"asarray: {obj.dtype.name} cannot become {wanted} without a copy")
        made = converted(obj, obj.dtype if wanted is None else wanted, "asarray")
        return copied(obj) if made is obj and copy else made
    if copy is False:
        raise CopyError("asarray: elements come to the device by a copy; got copy=False")
    return _uploaded(_plain(obj, wanted), checked_device(device, "asarray"))


def _plain(obj: Any, wanted: DType | None) -> Any:
    """NumPy's array of something, in a type that the device has."""
    try:
        values = np.asarray(obj)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"asarray: not an array: {error}") from error
    except MemoryError as error:
        raise OutOfMemoryError(f"asarray: too large for an array: {error or 'no memory is left'}") from error
    if wanted is None:
        is_of_python = (is_number(obj) and not isinstance(obj, np.generic)) or isinstance(obj, (list, tuple, range))
        if is_of_python and values.dtype == np.float64:
            values = values.astype(np.float32)
        elif is_of_python and values.dtype == np.int32:
            values = values.astype(np.int64)  # NumPy 1 on Windows
        return values.astype(checked_dtype(values.dtype, "asarray"), copy=False)
    if values.dtype.kind not in "biuf":
        raise DataTypeError(f"asarray: {values.dtype} cannot become {wanted.name}")
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(wanted)


def _uploaded(values: Any, device: Device) -> Array:
    checked_shape(values.shape, "asarray")
    return Array(device, values.dtype, values.shape, None) if values.size == 0 else device.array(values)


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """An array of another library's, through main memory.

    Args:
        x: an array with ``__dlpack__`` and ``__dlpack_device__``; a dmlvk.Array is taken where it is.
        device: where to; ``None``: the array's own, or the process's.
        copy: ``False``: an error where elements would have to be copied; ``True``: always.

    Raises:
        CopyError: without a copy, or from where it is, it is not to be had.
        DataTypeError: the device does not compute with its type.
        InvalidArgumentError: it is no array that gives itself by DLPack.
    """
    target = None if device is None else checked_device(device, "from_dlpack")
    if isinstance(x, Array):
        if copy is False and target not in (None, x.device):
            raise CopyError("from_dlpack: an array of another device cannot be had without a copy")
        return asarray(x, device=target, copy=copy)
    if isinstance(x, type) or not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise InvalidArgumentError(f"from_dlpack: takes arrays with __dlpack__; got {type(x).__name__}")
    if copy is False:
        raise CopyError("from_dlpack: elements come to the device by a copy; got copy=False")
    try:
        values = np.from_dlpack(x)
    except Exception as error:  # of another library: what it says of its array, in its own words
        faults.raise_of_handler(error)
        raise CopyError(f"from_dlpack: {type(x).__name__} does not give its elements: {error}") from error
    return asarray(values, device=target)


def _filled(graph: Graph, number: Any, data_type: DataType, shape: Shape) -> Expression:
    return F.fill_value_constant(number, output_data_type=data_type, output_sizes=shape or (1,), graph=graph)


def _sequence(graph: Graph, start: Any, step: Any, data_type: DataType, count: int) -> Expression:
    return F.fill_value_sequence(start, step, output_data_type=data_type, output_sizes=(count,), graph=graph)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """One number everywhere.

    Raises:
        InvalidArgumentError: there is no such shape.
        DataTypeError: the type does not hold the number.
    """
    sizes, target = _shape_of(shape, "full"), checked_device(device, "full")
    if isinstance(fill_value, Array):
        fill_value = fill_value.item()
    wanted = _natural(fill_value) if dtype is None else checked_dtype(dtype, "full")
    plain = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    if isinstance(plain, complex):
        raise DataTypeError(f"full: {plain!r}: Vulkan has no complex numbers")
    try:
        plain = int(bool(plain)) if wanted == bool_dtype else int(plain) if wanted in INTEGERS else float(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataTypeError(f"full: {fill_value!r} is no number of {wanted}") from error
    if wanted in INTEGERS:
        check_number(plain, wanted, "full")
    if 0 in sizes:
        return Array(target, wanted, sizes, None)
    check_room(target, wanted, sizes, "full")
    value = number_value(target, plain, device_type(wanted))
    one = Array(target, wanted, (), value)
    return applied("full", forms.broadcast, [one], wanted, (sizes,), sizes) if sizes else one


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """One number everywhere, in the shape, the type and on the device of another array."""
    like = checked(x, "full_like")
    return full(
        like.shape,
        fill_value,
        dtype=like.dtype if dtype is None else dtype,
        device=like.device if device is None else device,
    )


def zeros(shape: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """0 everywhere, of float32 if nothing else is asked for."""
    return full(shape, 0, dtype=float32 if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """1 everywhere, of float32 if nothing else is asked for."""
    return full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """Elements that nothing is said of: they are 0, so that programs do the same on every device."""
    return zeros(shape, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Device | None = None) -> Array:
    """0 everywhere, in the shape, the type and on the device of another array."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Device | None = None) -> Array:
    """1 everywhere, in the shape, the type and on the device of another array."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Device | None = None) -> Array:
    """Elements that nothing is said of, in the shape, the type and on the device of another array."""
    return full_like(x, 0, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Device | None = None) -> Array:
    """Numbers from a first one on, by a step, up to a last one, which is not among them.

    Raises:
        InvalidArgumentError: the step is 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    for one in (first, last, step):
        _check_plain(one, "arange")
    if step == 0:
        raise InvalidArgumentError("arange: step must not be 0")
    is_whole = all(isinstance(one, (int, np.integer)) for one in (first, last, step))
    wanted = (int64 if is_whole else float32) if dtype is None else checked_dtype(dtype, "arange")
    check_is(wanted, NUMERIC, "arange")
    count = max(0, -((int(first) - int(last)) // int(step)) if is_whole else _steps(first, last, step))
    target = checked_device(device, "arange")
    if count == 0:
        return Array(target, wanted, (0,), None)
    if wanted in INTEGERS:
        first, step = int(first), int(step)
        check_number(first, wanted, "arange")
    attributes = (first, step, device_type(wanted), int(count))
    (made,) = computed_now("arange", _sequence, [], [(wanted, (int(count),))], attributes, target)
    return made


def _steps(first: float, last: float, step: float) -> int:
    count = (float(last) - float(first)) / float(step) if step else 0.0
    return math.ceil(count) if math.isfinite(count) else 2**63


def _check_plain(number: Any, where: str) -> None:
    """Refuses what is no finite number.

    Raises:
        InvalidArgumentError: it is none.
    """
    is_real = isinstance(number, (int, float, np.integer, np.floating))
    if not is_real or (abs(number) > LARGEST if isinstance(number, int) else not math.isfinite(number)):
        raise InvalidArgumentError(f"{where}: must be given finite numbers; got {number!r}")


def _spaced(graph: Graph, start: float, stop: float, count: int, parts: int, data_type: DataType) -> Expression:
    position = _sequence(graph, 0, 1, DataType.INT32, count)
    step = (stop - start) / parts if parts else 0.0
    made = F.add(
        F.multiply(F.cast(position, output_data_type=DataType.FLOAT32), graph.constant(step, DataType.FLOAT32)),
        graph.constant(start, DataType.FLOAT32),
    )
    is_last = F.equal(position, graph.constant(parts if parts else -1, DataType.INT32))
    made = F.where(is_last, graph.constant(stop, DataType.FLOAT32), made)
    return made if data_type is DataType.FLOAT32 else F.cast(made, output_data_type=data_type)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Device | None = None, endpoint: bool = True
) -> Array:
    """Numbers at equal distances from a first one to a last one.

    Raises:
        InvalidArgumentError: their number is below 0.
    """
    wanted = float32 if dtype is None else checked_dtype(dtype, "linspace")
    check_is(wanted, FLOATS, "linspace")
    target = checked_device(device, "linspace")
    num = checked_integer(num, "linspace: num", 0)
    for one in (start, stop):
        _check_plain(one, "linspace")
    if num == 0:
        return Array(target, wanted, (0,), None)
    attributes = (float(start), float(stop), int(num), num - 1 if endpoint else num, device_type(wanted))
    (made,) = computed_now("linspace", _spaced, [], [(wanted, (int(num),))], attributes, target)
    return made


def _offsets(graph: Graph, rows: int, columns: int) -> Expression:
    """How far each element of a matrix is above the diagonal."""
    row = _sequence(graph, 0, 1, DataType.INT32, rows).reshape(rows, 1)
    return F.subtract(_sequence(graph, 0, 1, DataType.INT32, columns), row)


def _diagonal(graph: Graph, rows: int, columns: int, k: int, data_type: DataType) -> Expression:
    is_there = F.equal(_offsets(graph, rows, columns), graph.constant(k, DataType.INT32))
    return is_there if data_type is DataType.UINT8 else F.cast(is_there, output_data_type=data_type)


def _distance(k: Any, where: str) -> int:
    """How far above the main diagonal another one is; beyond INT32 there are no elements."""
    return max(-(2**31), min(2**31 - 1, checked_integer(k, f"{where}: k", -(2**63))))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Device | None = None
) -> Array:
    """A matrix with 1 on a diagonal, the k-th above the main one, and 0 elsewhere."""
    shape = _shape_of((n_rows, n_rows if n_cols is None else n_cols), "eye")
    wanted = float32 if dtype is None else checked_dtype(dtype, "eye")
    target = checked_device(device, "eye")
    if 0 in shape:
        return Array(target, wanted, shape, None)
    attributes = (*shape, _distance(k, "eye"), device_type(wanted))
    (made,) = computed_now("eye", _diagonal, [], [(wanted, shape)], attributes, target)
    return made


def _triangle(x: Expression, k: int, is_lower: bool) -> Expression:
    offsets = _offsets(x.graph, *x.sizes[-2:])
    limit = x.graph.constant(k, DataType.INT32)
    is_kept = F.less_equal(offsets, limit) if is_lower else F.greater_equal(offsets, limit)
    return F.where(is_kept, x, x.graph.constant(0, x.data_type))


def _triangular(name: str, x: Any, k: int, is_lower: bool) -> Array:
    array = checked(x, name)
    if array.ndim < 2:
        raise InvalidArgumentError(f"{name}: needs 2 axes at least; got {list(array.shape)}")
    return applied(name, _triangle, [array], array.dtype, (_distance(k, name), is_lower), array.shape)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """The elements up to the k-th diagonal, and 0 above it."""
    return _triangular("tril", x, k, True)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """The elements from the k-th diagonal on, and 0 below it."""
    return _triangular("triu", x, k, False)
