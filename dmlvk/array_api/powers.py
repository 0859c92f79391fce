"""The standard's powers, which look at the exponents of integers."""

from __future__ import annotations

from typing import Any

from dmlvk.array_api import forms, statistics
from dmlvk.array_api.array import checked, operands
from dmlvk.array_api.calls import applied
from dmlvk.array_api.dtypes import FLOATS, NUMERIC, SIGNED, is_number
from dmlvk.array_api.elementwise import by_float32, pair
from dmlvk.arrays.array import Array
from dmlvk.errors import InvalidArgumentError


@by_float32
def pow(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2; integers wrap around.

    Raises:
        InvalidArgumentError: an integer is to be raised to a power below 0.
    """
    if is_number(x2):
        base = checked(x1, "pow")
        if base.dtype in FLOATS:
            operands("pow", base, x2)  # whether it may stand beside the array
            return applied("pow", forms.power_by_number, [base], base.dtype, (float(x2),))
    base, exponent, dtype = pair("pow", x1, x2, NUMERIC)
    if dtype in FLOATS:
        return applied("pow", forms.power_of_floats, [base, exponent], dtype)
    bits = _bits_of_exponents(exponent, None if not is_number(x2) else int(x2))
    return applied("pow", forms.power_of_integers, [base, exponent], dtype, (bits,))


def _bits_of_exponents(exponent: Array, known: int | None) -> int:
    """How many bits the largest exponent has: what it takes is read from the device."""
    if exponent.size == 0:
        return 1
    least = known if known is not None else int(statistics.min(exponent)) if exponent.dtype in SIGNED else 0
    if least < 0:
        raise InvalidArgumentError(f"pow: an integer's power must not be below 0; got {least}")
    most = known if known is not None else int(statistics.max(exponent))
    return int(most).bit_length() or 1
