"""The standard's data types: which there are, which of them promote to what, and what they can hold."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from typing import Any, TypeAlias

import numpy as np

from dmlvk.datatypes import DataType
from dmlvk.errors import DataTypeError, InvalidArgumentError

DType: TypeAlias = "np.dtype[Any]"  # NumPy's objects stand for the standard's data types


_PYTHON_BOOL = builtins.bool

bool: DType = np.dtype(np.bool_)
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
float16: DType = np.dtype(np.float16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)
complex64: DType = np.dtype(np.complex64)
complex128: DType = np.dtype(np.complex128)

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (float16, float32)
NUMERIC = (*INTEGERS, *FLOATS)
SUPPORTED = (bool, *NUMERIC)

_FLOATING = (float16, float32, float64, complex64, complex128)

_REFUSED = {
    float64: "Vulkan devices need not have float64 arithmetic, and dmlvk's shaders compute without it: use float32",
    complex64: "Vulkan has no complex numbers: keep real and imaginary parts in two arrays",
    complex128: "Vulkan has no complex numbers: keep real and imaginary parts in two arrays",
}

LARGEST = int(np.finfo(np.float64).max)  # What Python makes a float of

_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": (float16, float32, float64),
    "complex floating": (complex64, complex128),
    "numeric": (*INTEGERS, float16, float32, float64, complex64, complex128),
}


def checked_dtype(value: object, where: str) -> DType:
    """A data type that arrays on the device can have.

    Args:
        value: one of the standard's, or what NumPy takes for it.
        where: the function, for messages.

    Raises:
        DataTypeError: when there is no such type, or the device does not compute with it.
    """
    found = _dtype_of(value, where).newbyteorder("=")
    if value is None or found not in SUPPORTED:
        reason = _REFUSED.get(found, f"there are {', '.join(one.name for one in SUPPORTED)}")
        raise DataTypeError(f"{where}: {value if value is None else found.name} is not supported: {reason}")
    return found


@functools.cache  # a name of NumPy's types takes microseconds
def device_type(dtype: DType) -> DataType:
    """DirectML's type of the elements: UINT8 of 0 and 1 stands for ``bool``."""
    return DataType.UINT8 if dtype == bool else DataType[dtype.name.upper()]


def check_is(dtype: DType, accepted: tuple[DType, ...], where: str) -> None:
    """Checks an operand's type.

    Raises:
        DataTypeError: when it is none of these.
    """
    if dtype not in accepted:
        raise DataTypeError(f"{where}: takes {', '.join(one.name for one in accepted)}; got {dtype.name}")


@functools.cache
def promoted(first: DType, second: DType, where: str) -> DType:
    """The type to which both promote, by the standard's tables.

    Raises:
        DataTypeError: when there is none: types of different kinds, and uint64 beside signed integers.
    """
    if first == second:
        return first
    if first in INTEGERS and second in INTEGERS:
        found = np.promote_types(first, second)
        if found in INTEGERS:
            return found
    if first in _FLOATING and second in _FLOATING:  # of names: there are no arrays of most
        return np.promote_types(first, second)
    raise DataTypeError(
        f"{where}: {first.name} and {second.name} have no common type: convert one with astype (the standard leaves "
        "types of different kinds, and uint64 beside signed integers, without one)"
    )


@dataclasses.dataclass(frozen=True)
class FloatInfo:
    """What ``finfo`` tells; the smallest normal number is the smallest that arithmetic keeps, others count as zero."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclasses.dataclass(frozen=True)
class IntegerInfo:
    """What ``iinfo`` tells."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any, where: str) -> DType:
    """A data type, or that of an array.

    Raises:
        DataTypeError: it is none.
    """
    try:
        return np.dtype(getattr(value, "dtype", value))
    except (TypeError, ValueError, SyntaxError, OverflowError) as error:  # what NumPy says of what it does not know
        raise DataTypeError(f"{where}: {value!r} is no data type") from error


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point type (also asked of an array); of a complex one those of its parts.

    Raises:
        DataTypeError: it is another type.
    """
    dtype = _dtype_of(type, "finfo")
    check_is(dtype, _FLOATING, "finfo")
    found = np.finfo(dtype)
    eps, most, least, normal = (float(one) for one in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(found.bits, eps, most, least, normal, found.dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer type (also asked of an array).

    Raises:
        DataTypeError: it is another type.
    """
    dtype = checked_dtype(_dtype_of(type, "iinfo"), "iinfo")
    check_is(dtype, INTEGERS, "iinfo")
    found = np.iinfo(dtype)
    return IntegerInfo(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a type is another one, of a kind (``"integral"``, ``"real floating"``, …), or of one of several.

    Raises:
        InvalidArgumentError: there is no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise InvalidArgumentError(f"isdtype: there is no kind {kind!r}; there are {', '.join(_KINDS)}")
        return _dtype_of(dtype, "isdtype") in _KINDS[kind]
    return _dtype_of(dtype, "isdtype") == _dtype_of(kind, "isdtype")


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a type (or an array's) promotes to another one."""
    try:
        first, second = (_dtype_of(one, "can_cast") for one in (from_, to))
        return promoted(first, second, "can_cast") == second
    except DataTypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type to which arrays, types and Python's numbers promote together.

    Raises:
        DataTypeError: they have no common type.
        InvalidArgumentError: there is no array and no type among them.
    """
    numbers = [
        item for item in arrays_and_dtypes if isinstance(item, (int, float, complex)) and not hasattr(item, "dtype")
    ]
    others = [item for item in arrays_and_dtypes if not any(item is number for number in numbers)]
    if not others:
        raise InvalidArgumentError("result_type: needs an array or a data type")
    dtypes = [_dtype_of(one, "result_type") for one in others]
    found = functools.reduce(lambda a, b: promoted(a, b, "result_type"), dtypes)
    for number in numbers:
        check_number(number, found, "result_type")
    return found


def check_number(number: Any, dtype: DType, where: str) -> None:
    """Checks that a Python number may stand beside arrays of a type.

    Raises:
        DataTypeError: it is of a kind that the type does not hold.
    """
    is_bool = isinstance(number, (np.bool_, _PYTHON_BOOL))
    accepted = (
        dtype == bool if is_bool else dtype in NUMERIC if isinstance(number, (int, np.integer)) else dtype in FLOATS
    )
    if not accepted or isinstance(number, complex):
        raise DataTypeError(f"{where}: the number {number!r} is not combined with {dtype.name}")
    is_beyond = (
        not np.iinfo(dtype).min <= int(number) <= np.iinfo(dtype).max
        if dtype in INTEGERS
        else isinstance(number, int) and abs(number) > LARGEST
    )
    if is_beyond:
        raise DataTypeError(f"{where}: the number {number!r} is beyond {dtype.name}")


def is_number(x: object) -> builtins.bool:
    """Whether it is a number of Python, or NumPy's of one."""
    return isinstance(x, (_PYTHON_BOOL, int, float, complex, np.number, np.bool_))
