"""The references of logarithms and powers give known values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references import expected_output

Array = npt.NDArray[Any]


def _tensor(array: Array) -> dml.TensorDesc:
    return dml.TensorDesc(dml.DataType.from_name(array.dtype.name.upper()), array.shape)


def _float32(*bits: int) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


def _signed(values: Array) -> list[str]:
    """As text, in which zeros have signs and NaN equals NaN."""
    return [repr(float(value)) for value in values]


def _log(x: Array, scale_bias: dml.ScaleBias | None = None) -> Array:
    desc = dml.ElementWiseLog(input_tensor=_tensor(x), output_tensor=_tensor(x), scale_bias=scale_bias)
    return expected_output(desc, [x])


def test_logarithm_of_special_values() -> None:
    x = _float32(0, 0x80000000, 1, 0x807FFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001)
    assert _signed(_log(x)) == ["-inf", "-inf", "-inf", "-inf", "0.0", "nan", "inf", "nan", "nan"]
    half = np.array([0, 1, 0x8001, 0xFC00], np.uint16).view(np.float16)
    assert _signed(_log(half)) == ["-inf", repr(-24 * math.log(2)), "nan", "nan"]


def test_logarithm_next_to_one_is_a_series_in_the_distance() -> None:
    x = _float32(0x3F7FFFFF, 0x3F800001)
    for value, distance in zip(_log(x), (-(2.0**-24), 2.0**-23), strict=True):
        series = distance - distance**2 / 2 + distance**3 / 3
        assert abs(value / series - 1) < 2.0**-50


def test_logarithm_after_scale_and_bias() -> None:
    x = np.array([0.0, 1.0, 2.5], np.float32)
    got = _log(x, dml.ScaleBias(2.0, 3.0))
    assert np.abs(got - [math.log(3), math.log(5), math.log(8)]).max() < 2.0**-50
