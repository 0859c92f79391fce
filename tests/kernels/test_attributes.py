"""Attributes reach the shader in the tensor's data type."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import FLOATS
from dmlvk.conformance.references.rounding import FLOAT16, round_fraction
from dmlvk.conformance.references.scaling import integer_minimum
from dmlvk.kernels.elementwise.elementwise import converted_bits

INTEGERS = [dml.INT8, dml.INT16, dml.INT32, dml.UINT8, dml.UINT16, dml.UINT32]
_NUMBERS = sorted({float(np.float32(value)) for value in FLOATS if math.isfinite(value)})


@pytest.mark.parametrize("data_type", INTEGERS, ids=lambda data_type: data_type.name)
def test_integers_are_truncated_and_saturated(data_type: dml.DataType) -> None:
    limits = np.iinfo(data_type.numpy_dtype)
    for value in (*_NUMBERS, math.inf, -math.inf, math.nan):
        expected = integer_minimum(value, int(limits.min), int(limits.max))
        assert converted_bits(value, data_type) == expected % 2**32, value  # sign-extended to the shader's word


@pytest.mark.parametrize("value", _NUMBERS)
def test_float16_is_rounded_to_nearest_even(value: float) -> None:
    rounded = round_fraction(Fraction(value), FLOAT16)
    got = np.array([converted_bits(value, dml.FLOAT16)], np.uint16).view(np.float16)[0]
    assert math.isinf(got) if rounded is None else float(got) == rounded
    assert np.signbit(got) == (math.copysign(1, value) < 0)


@pytest.mark.parametrize(
    ("value", "bits"),
    [(0.0, 0), (-0.0, 0x80000000), (1.0, 0x3F800000), (2.0**-149, 1), (-math.inf, 0xFF800000), (math.inf, 0x7F800000)],
)
def test_float32_stays_as_it_is(value: float, bits: int) -> None:
    assert converted_bits(value, dml.FLOAT32) == bits


def test_nan_is_the_canonical_one() -> None:
    assert converted_bits(math.nan, dml.FLOAT16) == 0x7E00
    assert converted_bits(-math.nan, dml.FLOAT16) == 0x7E00
    assert converted_bits(math.nan, dml.FLOAT32) == 0x7FC00000
    assert converted_bits(math.copysign(math.nan, -1), dml.FLOAT32) == 0x7FC00000
