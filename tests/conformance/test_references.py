"""The reference functions give known results, and every operator has one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.operators import OPERATORS
from tests.conformance.known import bits_of, float16, float32, reference

Array = npt.NDArray[Any]


def _threshold(x: Array, minimum: float, scale_bias: tuple[float, float] | None = None) -> Array:
    pair: dict[str, Any] = {} if scale_bias is None else {"ScaleBias": dml.ScaleBias(*scale_bias)}
    return reference("ELEMENT_WISE_THRESHOLD", x, Min=minimum, **pair)


def test_every_operator_has_a_reference_and_no_other_has() -> None:
    assert sorted(REFERENCES) == sorted(OPERATORS)


def test_if_movesbits_of() -> None:
    a = float32(0x7F800001, 0x00000001, 0x80000000, 0x3F800000)
    b = float32(0xFFC12345, 0x80000001, 0x00000000, 0x40000000)
    condition = np.array([0, 1, 255, 0], np.uint8)
    got = reference("ELEMENT_WISE_IF", condition, a, b, output=dml.FLOAT32)
    assert bits_of(got) == ["ffc12345", "00000001", "80000000", "40000000"]


@pytest.mark.parametrize("output_type", [dml.UINT8, dml.UINT32])
def test_greater_than_orders_denormals_and_zeros_and_refuses_nan(output_type: dml.DataType) -> None:
    nan, low_nan, minus_nan, inf, tiny, minus_tiny = 0x7FC00000, 0x7F800001, 0xFF800001, 0x7F800000, 1, 0x80000001
    pairs = [(nan, 0), (0, nan), (low_nan, minus_nan), (inf, nan), (0, 0x80000000), (0x80000000, 0), (tiny, 0)]
    pairs += [(2, 1), (1, 2), (minus_tiny, tiny), (tiny, minus_tiny), (inf, 0x7F7FFFFF), (0, 0xFF800000)]
    a, b = (float32(*column) for column in zip(*pairs, strict=True))
    got = reference("ELEMENT_WISE_LOGICAL_GREATER_THAN", a, b, output=output_type)
    assert got.dtype == output_type.numpy_dtype
    assert got.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1]


def test_greater_than_of_64_bit_integers_needs_all_theirbits_of() -> None:
    a = np.array([2**63 - 1, -(2**63), 2**53 + 1, -1, 2**32], np.int64)
    b = np.array([2**63 - 2, 2**63 - 1, 2**53, -(2**33), 2**32], np.int64)
    assert reference("ELEMENT_WISE_LOGICAL_GREATER_THAN", a, b, output=dml.UINT8).tolist() == [1, 0, 1, 1, 0]


def test_sign_of_floats() -> None:
    x = float32(0, 0x80000000, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0xC0490FDB)
    one, minus_one, zero = "3f800000", "bf800000", "00000000"
    assert bits_of(reference("ELEMENT_WISE_SIGN", x)) == [
        zero,
        zero,
        one,
        minus_one,
        one,
        minus_one,
        zero,
        zero,
        minus_one,
    ]


def test_sign_of_integers() -> None:
    signed, unsigned = np.array([-(2**63), -1, 0, 1, 2**63 - 1], np.int64), np.array([0, 1, 128, 255], np.uint8)
    for x, expected in ((signed, [-1, -1, 0, 1, 1]), (unsigned, [0, 1, 1, 1])):
        assert reference("ELEMENT_WISE_SIGN", x).tolist() == expected


def test_threshold_prefers_numbers_and_positive_zero() -> None:
    x = float32(0x7F800001, 0x80000000, 0x00000000, 0xC0000000, 0x40000000, 1, 0x80000001, 0xFF800000)
    assert bits_of(_threshold(x, 0.0)) == ["00000000"] * 4 + ["40000000", "00000001", "00000000", "00000000"]
    assert bits_of(_threshold(x, -0.0))[:3] == ["80000000", "80000000", "00000000"]
    assert bits_of(_threshold(x, math.nan)) == ["7fc00000", *bits_of(x)[1:]]
    assert bits_of(_threshold(x, -math.inf)) == ["ff800000", *bits_of(x)[1:]]


def test_threshold_converts_min_to_the_tensors_type() -> None:
    lowest16 = float16(0xFC00)
    minimums = {65519.0: "7bff", 65520.0: "7c00", 2.0**-24: "0001", 2.0**-25: "0000", -1e-10: "8000", 0.1: "2e66"}
    for minimum, bits in minimums.items():
        assert bits_of(_threshold(lowest16, minimum)) == [bits], minimum
    lowest8 = np.array([-128], np.int8)
    integers = {
        1.9: 1,
        -1.9: -1,
        -0.5: 0,
        127.5: 127,
        1e9: 127,
        -1e9: -128,
        math.inf: 127,
        -math.inf: -128,
        math.nan: 0,
    }
    for minimum, number in integers.items():
        assert _threshold(lowest8, minimum).tolist() == [number], minimum
    assert _threshold(np.array([0, 7], np.uint32), 4294967296.0).tolist() == [2**32 - 1] * 2
    assert _threshold(np.array([0, 7], np.uint16), -5.0).tolist() == [0, 7]


def test_scale_bias_is_rounded_once_and_drops_float32_denormals() -> None:
    x = float32(0x3F800003, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF)
    # (1 + 3 * 2**-23)**2 - 1 is 6 * 2**-23 + 9 * 2**-46: rounding the product first would lose the last term.
    got = _threshold(x, -math.inf, (float(x[0]), -1.0))
    assert bits_of(got) == ["35400002", "bf800000", "bf800000", "bf800000", "7f800000"]
    assert bits_of(_threshold(x, -math.inf, (0.5, 0.0)))[1:4] == ["00000000"] * 3
    assert bits_of(_threshold(x, -math.inf, (-0.5, -0.0)))[1:4] == ["80000000", "00000000", "80000000"]
    assert bits_of(_threshold(x, -math.inf, (1.0, 1e-45)))[1:3] == ["00000000", "00000000"]
    assert bits_of(_threshold(x, -math.inf, (1e-45, 2.0)))[:1] == ["40000000"]
    assert bits_of(_threshold(x, -math.inf, (-1.0, -0.0)))[1:3] == ["80000000", "00000000"]


def test_scale_bias_keeps_float16_denormals() -> None:
    x = float16(0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7C01)
    assert bits_of(_threshold(x, -math.inf, (1.0, 0.0))) == ["0001", "03ff", "0400", "7bff", "7c00", "fc00"]
    assert bits_of(_threshold(x, -math.inf, (0.5, 0.0)))[:3] == ["0000", "0200", "0200"]
    assert bits_of(_threshold(x, -math.inf, (math.inf, 0.0)))[0] == "7c00"
    assert bits_of(_threshold(float16(0, 0x8000), math.nan, (math.inf, 0.0)))[0] == "7e00"


def test_scale_bias_of_integers_truncates_and_saturates() -> None:
    x = np.array([-128, -3, -1, 0, 1, 3, 127], np.int8)
    assert _threshold(x, -math.inf, (0.5, 0.0)).tolist() == [-64, -1, 0, 0, 0, 1, 63]
    assert _threshold(x, -math.inf, (2.0, 1.0)).tolist() == [-128, -5, -1, 1, 3, 7, 127]
    assert _threshold(x, -math.inf, (1.0, 1e-45)).tolist() == x.tolist()
    assert _threshold(x, -math.inf, (1.0, -(2.0**-126))).tolist() == [-128, -3, -1, 0, 0, 2, 126]
    large = np.array([2**31 - 1, -(2**31), 16777217], np.int32)
    assert _threshold(large, -math.inf, (1.0, 0.0)).tolist() == large.tolist()
    assert _threshold(large, -math.inf, (3.0, 2.0**31)).tolist() == [2**31 - 1, -(2**31), 2**31 - 1]
    assert _threshold(np.array([2**32 - 1], np.uint32), -math.inf, (-1.0, 2.0**32)).tolist() == [1]
