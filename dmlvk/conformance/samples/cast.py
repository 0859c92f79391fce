"""Samples of CAST: limits of all types, what lies beside them, and random bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.datatypes import DataType

Array = npt.NDArray[Any]

_SIZES = (1, 1, 24, 32)
_ELEMENTS = 768


def telling_values(data_type: DataType, random: np.random.Generator) -> Array:
    """Values at which conversions change their course, and any bits."""
    dtype = data_type.numpy_dtype
    bits = random.integers(0, 256, _ELEMENTS * dtype.itemsize, np.uint8).view(dtype).copy()
    powers = [2**i + j for i in (0, 7, 8, 11, 15, 16, 24, 25, 31, 32, 53, 54, 63, 64) for j in (-1, 0, 1)]
    if not data_type.is_float:
        limits = np.iinfo(dtype)
        whole = {sign * power for power in powers for sign in (1, -1)} | {limits.min, limits.max, 2**24 + 3, 2**53 + 3}
        fitting = sorted(value for value in whole if limits.min <= value <= limits.max)
        bits[: len(fitting)] = np.array(fitting, dtype)
        return bits
    exact = [0.0, 0.5, 1.5, 2.5, 65504.0, 65519.99, 65520.0, 2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 2.0**-126]
    exact += [2.0**-149, 2.0**-150, 1.5 * 2.0**-150, 2.0**-1022, 2.0**-1074, np.inf, 3.4028235e38, 3.40282357e38]
    exact += [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-52, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**127 * 1.999]
    doubles = np.array([*map(float, powers), *exact, np.nan])
    with np.errstate(over="ignore", under="ignore"):
        values = np.concatenate([doubles, -doubles, doubles * (1 + 2.0**-52), doubles * (1 - 2.0**-53)]).astype(dtype)
    bits[: len(values)] = values
    # Numbers of the size of integers, of which random bits have few.
    around = slice(len(values), len(values) + 200)
    with np.errstate(over="ignore"):
        bits[around] = (random.uniform(-1, 1, 200) * 2.0 ** random.integers(-3, 66, 200)).astype(dtype)
    return bits


@sampler("CAST")
def cast(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Values of all kinds; whole words in each row, and enough of them for tiles."""
    values = telling_values(types["input_tensor"], random).reshape(_SIZES)
    yield sample("telling values", "CAST", types, {"input_tensor": values})
