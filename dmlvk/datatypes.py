"""DirectML's tensor data types (DML_TENSOR_DATA_TYPE) and their NumPy counterparts."""

from __future__ import annotations

import difflib
import enum
import functools
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError

_PREFIX = "DML_TENSOR_DATA_TYPE_"


class DataType(enum.IntEnum):
    """The type of a tensor's elements; the values are those of DirectML's enumeration.

    Called with DirectML's name (``"FLOAT32"``, ``"DML_TENSOR_DATA_TYPE_FLOAT32"``), or with NumPy's data type
    (``numpy.float32``, ``"float32"``), it gives the member with the same values and bytes; ``bool`` is UINT8.

    Raises:
        InvalidArgumentError: when there is no such type.
    """

    if TYPE_CHECKING:  # what :meth:`_missing_` takes besides numbers

        def __new__(cls, value: int | str | npt.DTypeLike) -> DataType:
            """The member of a number or name."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @classmethod
    def _missing_(cls, value: object) -> DataType:
        name = value.removeprefix(_PREFIX) if isinstance(value, str) else ""
        if name in cls.__members__:
            return cls.__members__[name]
        if isinstance(value, str) and value in _NUMPY_NAMES:
            return cls[value.upper()]
        if isinstance(value, (type, np.dtype)):
            try:
                found = np.dtype(value)
            except TypeError:
                found = np.dtype(object)
            if found == np.bool_:
                return cls.UINT8
            if found.name in _NUMPY_NAMES:
                return cls[found.name.upper()]
        near = difflib.get_close_matches(name.upper(), cls.__members__, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(cls.__members__)}, and NumPy's names"
        raise InvalidArgumentError(f"{value!r} is no data type of tensors; {hint}")

    @property
    def size_in_bits(self) -> int:
        """Bits of one element; 0 for UNKNOWN."""
        return _SIZE_IN_BITS[self]

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element: 1, 2, 4 or 8.

        Raises:
            InvalidArgumentError: for UNKNOWN and for the 4-bit types, of which two share a byte.
        """
        bits = self.size_in_bits
        if bits < 8:
            raise InvalidArgumentError(f"DataType {self.name}: an element has no size in whole bytes")
        return bits // 8

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy data type with the same values, and but for the 4-bit types with the same bytes.

        NumPy has no 4-bit types: arrays of UINT4 and INT4 tensors hold a uint8 or an int8 for each element, from 0 to
        15 or from -8 to 7.

        Raises:
            InvalidArgumentError: for UNKNOWN.
        """
        if self is DataType.UNKNOWN:
            raise InvalidArgumentError(f"DataType {self.name}: NumPy has no such data type")
        return _numpy_dtype(_NUMPY_STAND_INS.get(self, self.name))

    @property
    def integer_limits(self) -> tuple[int, int]:
        """The least and the greatest value of an integer type."""
        if self.size_in_bits == 4:
            return (0, 15) if self is DataType.UINT4 else (-8, 7)
        limits = np.iinfo(self.numpy_dtype)
        return int(limits.min), int(limits.max)

    def bytes_of(self, count: int) -> int:
        """Bytes that so many neighbouring elements take, the last one perhaps in part."""
        return (count * self.size_in_bits + 7) // 8

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.name.startswith("FLOAT")

    @classmethod
    def from_name(cls, name: str) -> DataType:
        """The member called ``name``, with or without the prefix ``DML_TENSOR_DATA_TYPE_``.

        Raises:
            InvalidArgumentError: when there is none of that name (names are case-sensitive).
        """
        member = cls.__members__.get(name.removeprefix(_PREFIX))
        if member is None:
            raise InvalidArgumentError(f"unknown data type {name!r}; known are {', '.join(cls.__members__)}")
        return member


DataTypeLike: TypeAlias = "DataType | int | str | npt.DTypeLike"
"""What names a data type: a member, its number, or DirectML's or NumPy's name."""


def checked_data_type(value: object, where: str) -> DataType:
    """The data type that was meant.

    Args:
        value: what names it.
        where: for messages.

    Raises:
        InvalidArgumentError: when there is no such type.
    """
    if isinstance(value, DataType):
        return value
    try:
        return DataType(value)  # type: ignore[arg-type]  # which refuses what names none
    except (ValueError, TypeError) as error:  # of arrays, which compare in ways of their own
        raise InvalidArgumentError(f"{where}: {error}") from None


_NUMPY_NAMES = frozenset(name.lower() for name in DataType.__members__) - {"unknown", "uint4", "int4"}
"""NumPy's names of the data types that it has."""

_NUMPY_STAND_INS = {DataType.UINT4: "UINT8", DataType.INT4: "INT8"}
"""The types of arrays whose tensors have elements that NumPy does not have."""

_SIZE_IN_BITS = {
    DataType.UNKNOWN: 0, DataType.UINT4: 4, DataType.INT4: 4, DataType.UINT8: 8, DataType.INT8: 8,
    DataType.UINT16: 16, DataType.INT16: 16, DataType.FLOAT16: 16, DataType.UINT32: 32, DataType.INT32: 32,
    DataType.FLOAT32: 32, DataType.UINT64: 64, DataType.INT64: 64, DataType.FLOAT64: 64,
}  # fmt: skip


@functools.cache
def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name.lower())


def float32_bits(value: float) -> int:
    """The bits of a number, rounded to FLOAT32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
