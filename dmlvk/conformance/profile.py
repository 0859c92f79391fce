"""Errors over the range of an input: the number line of a float type in stretches, the largest error in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.patterns import SIGNIFICAND_BITS, bits_dtype
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

_STRETCHES_OF_A_BINADE = {DataType.FLOAT32: 8, DataType.FLOAT16: 16}


def shift(data_type: DataType) -> int:
    """Stretches are the bits of the input without their lowest ``shift`` ones: an eighth of each binade of FLOAT32."""
    stretches = _STRETCHES_OF_A_BINADE[data_type]
    return SIGNIFICAND_BITS[data_type.size_in_bits] - (stretches.bit_length() - 1)


def stretches(data_type: DataType) -> int:
    """How many stretches there are: 4096 for FLOAT32, 1024 for FLOAT16."""
    return 1 << (data_type.size_in_bits - shift(data_type))


def line_order(data_type: DataType) -> npt.NDArray[np.intp]:
    """The numbers of the stretches in the order of the number line: from minus infinity over zero to infinity.

    NaN, whose bits lie beyond the infinities', are left out.
    """
    count = stretches(data_type)
    half = count // 2
    infinity = ((1 << (data_type.size_in_bits - 1)) - (1 << SIGNIFICAND_BITS[data_type.size_in_bits])) >> shift(
        data_type
    )
    upwards = np.arange(infinity + 1)  # the stretch of infinity holds NaN too
    return np.concatenate([half + upwards[::-1], upwards])


class Profile:
    """Collects the largest error for each stretch of one input."""

    def __init__(self, data_type: DataType) -> None:
        self._shift = shift(data_type)
        self._bits = bits_dtype(data_type)
        self._largest: Float64Array = np.full(stretches(data_type), -1.0)

    def add(self, values: Array, errors: Float64Array) -> None:
        """Takes in errors and the inputs at which they occurred, of the same shape."""
        numbers = np.ascontiguousarray(values).reshape(-1).view(self._bits) >> self._bits.type(self._shift)
        np.maximum.at(self._largest, numbers, errors.reshape(-1))

    def as_list(self) -> list[float | None]:
        """By number of the stretch; None where no input fell."""
        return [None if error < 0 else error for error in self._largest.tolist()]
