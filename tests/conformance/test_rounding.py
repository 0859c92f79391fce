"""Rounding is right, and errors in units in the last place: beside Fractions, NumPy's conversions, known numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import ulp
from dmlvk.conformance.comparison import compare_bits, compare_values, difference, fault_text
from dmlvk.conformance.patterns import bits_dtype, landmark_patterns
from dmlvk.conformance.references.rounding import (
    FLOAT16,
    FLOAT32,
    FloatFormat,
    round_fraction,
    round_to_format,
    sum_to_odd,
    truncated_affine,
    widened,
)
from dmlvk.operators import Accuracy

FORMATS = pytest.mark.parametrize("target", [FLOAT16, FLOAT32], ids=["float16", "float32"])


def _bits_of(value: Fraction, negative_zero: bool, target: FloatFormat) -> int:
    rounded = round_fraction(value, target)
    number = math.copysign(math.inf, value) if rounded is None else float(rounded)
    if number == 0 and (value < 0 or negative_zero):
        number = -0.0
    return int(np.array(number).astype(target.dtype).view(target.bits_dtype))


def test_this_process_keeps_denormals() -> None:
    """Some libraries switch the processor's denormals off when they are loaded; no reference could be trusted then."""
    with np.errstate(under="ignore"):
        assert (np.array([1], np.uint32).view(np.float32).astype(np.float64) == 2.0**-149).all()
        assert (np.array([2.0**-149]).astype(np.float32).view(np.uint32) == 1).all()
        assert (np.array([2.0**-1022]) * 0.5 > 0).all()


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0.0, 0x0000),
        (-0.0, 0x8000),
        (1.0, 0x3C00),
        (-2.0, 0xC000),
        (65504.0, 0x7BFF),
        (65519.99, 0x7BFF),
        (65520.0, 0x7C00),
        (-65520.0, 0xFC00),
        (1e30, 0x7C00),
        (math.inf, 0x7C00),
        (math.nan, 0x7E00),
        (2.0**-14, 0x0400),
        (2.0**-24, 0x0001),
        (2.0**-25, 0x0000),
        (-(2.0**-25), 0x8000),
        (1.0000001 * 2.0**-25, 0x0001),
        (3 * 2.0**-25, 0x0002),
        (1 + 2.0**-11, 0x3C00),
        (1 + 3 * 2.0**-11, 0x3C02),
        (1 + 2.0**-11 + 2.0**-40, 0x3C01),
    ],
)
def test_float16_of_known_numbers(value: float, bits: int) -> None:
    got = int(round_to_format(np.array([value]), FLOAT16, denormals_are_zero=False).view(np.uint16)[0])
    assert got == bits, f"{value!r}: got {got:#06x}, expected {bits:#06x}"


@FORMATS
def test_rounding_agrees_with_numpys_conversion(target: FloatFormat) -> None:
    random = np.random.default_rng(1)
    exponents = random.uniform(target.lowest_exponent - target.precision - 3, target.highest_exponent + 3, 200_000)
    values = random.uniform(-1, 1, exponents.size) * 2.0**exponents
    # Ties and their neighbours: numbers of the format and what lies halfway between them.
    numbers = random.integers(0, 2 ** (8 * target.dtype.itemsize), 50_000, dtype=np.uint64).astype(target.bits_dtype)
    exact = widened(numbers.view(target.dtype))
    halfway = exact[np.isfinite(exact)] * (1 + 2.0**-target.precision)
    values = np.concatenate([values, exact[np.isfinite(exact)], halfway, np.nextafter(halfway, 0)])
    got = round_to_format(values, target, denormals_are_zero=False)
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(target.dtype)
    wrong = np.flatnonzero(got.view(target.bits_dtype) != expected.view(target.bits_dtype))
    assert wrong.size == 0, f"{values[wrong[0]]!r}: got {got[wrong[0]]!r}, expected {expected[wrong[0]]!r}"


@FORMATS
def test_rounding_a_fraction_agrees_with_rounding_a_float(target: FloatFormat) -> None:
    random = np.random.default_rng(2)
    exponents = random.uniform(target.lowest_exponent - target.precision - 3, target.highest_exponent + 3, 3_000)
    values = random.uniform(-1, 1, exponents.size) * 2.0**exponents
    got = round_to_format(values, target, denormals_are_zero=False).view(target.bits_dtype)
    for value, bits in zip(values.tolist(), got.tolist(), strict=True):
        assert bits == _bits_of(Fraction(value), False, target), repr(value)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (2.0**-126, 0x00800000),
        (-(2.0**-126), 0x80800000),
        (2.0**-126 - 2.0**-149, 0x00000000),
        (2.0**-149 - 2.0**-126, 0x80000000),
        (2.0**-126 - 2.0**-150, 0x00000000),  # a number of 24 bits, below the smallest normal one
        (2.0**-126 - 2.0**-151, 0x00800000),  # a tie, which the even neighbour wins: the smallest normal number
        (2.0**-126 - 2.0**-151 - 2.0**-170, 0x00000000),
        (-(2.0**-149), 0x80000000),
        (0.0, 0x00000000),
    ],
)
def test_denormal_float32_results_become_zero(value: float, bits: int) -> None:
    got = int(round_to_format(np.array([value]), FLOAT32, denormals_are_zero=True).view(np.uint32)[0])
    assert got == bits, f"{value.hex()}: got {got:#010x}, expected {bits:#010x}"


@FORMATS
def test_a_sum_is_rounded_once(target: FloatFormat) -> None:
    """Sums of numbers far apart, where rounding twice goes wrong, against Fractions."""
    random = np.random.default_rng(3)
    count = 20_000
    first = random.integers(-(2**48), 2**48, count) * 2.0 ** random.integers(-60, 10, count)
    second = random.integers(-(2**24), 2**24, count) * 2.0 ** random.integers(-60, 30, count)
    ties = random.integers(1, 2**10, count) * 2.0 ** random.integers(0, 4, count)  # a half of some unit plus a trifle
    first[: count // 2] = ties[: count // 2] + 0.5
    second[: count // 2] = random.choice([-1, 0, 1], count // 2) * 2.0 ** random.integers(-140, -60, count // 2)
    got = round_to_format(sum_to_odd(first, second), target, denormals_are_zero=False).view(target.bits_dtype)
    for a, b, bits in zip(first.tolist(), second.tolist(), got.tolist(), strict=True):
        expected = _bits_of(Fraction(a) + Fraction(b), False, target)
        assert bits == expected, f"{a.hex()} + {b.hex()}: got {bits:#x}, expected {expected:#x}"


def test_a_sums_special_values_are_those_of_ieee_754() -> None:
    first = np.array([0.0, -0.0, -0.0, 1.0, np.inf, np.inf, np.nan, 1.0, -np.inf])
    second = np.array([-0.0, -0.0, 0.0, -1.0, -np.inf, 1.0, 1.0, np.inf, -np.inf])
    got = [float(value).hex() for value in sum_to_odd(first, second)]
    assert got == ["0x0.0p+0", "-0x0.0p+0", "0x0.0p+0", "0x0.0p+0", "nan", "inf", "nan", "inf", "-inf"]


def _affine_of_fractions(value: int, scale: float, bias: float, lowest: int, highest: int) -> int:
    return min(max(math.trunc(value * Fraction(scale) + Fraction(bias)), lowest), highest)


@pytest.mark.parametrize("bounds", [(-(2**31), 2**31 - 1), (0, 2**32 - 1), (-128, 127), (0, 65535)])
def test_truncated_affine_agrees_with_fractions(bounds: tuple[int, int]) -> None:
    lowest, highest = bounds
    random = np.random.default_rng(4)
    extremes = [lowest, lowest + 1, highest, highest - 1, 0, 1, -1 if lowest else 2, 3, 77]
    scales = [0.0, 1.0, -1.0, 0.5, -0.5, 0.1, -0.1, 3.0, 1e-3, 2.0**-30, -(2.0**-62), 2.0**-63, 2.0**-70, 2.0**-126]
    scales += [2.0**31, -(2.0**40), 1e30, float(np.float32(3.4e38)), 1.0000001192092896, 0.99999994]
    biases = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.99999994, 1e-30, -1e-30, 2.0**-126, 127.5, -3e9, 1e10, -1e30, 3.4e38]
    for scale in map(float, np.array(scales, np.float32)):
        for bias in map(float, np.array(biases, np.float32)):
            numbers = [*extremes, *random.integers(lowest, highest + 1, 20).tolist()]
            if scale:  # where the line crosses zero, one and the bounds
                for target in (0, 1, -1, lowest, highest):
                    crossing = round((target - Fraction(bias)) / Fraction(scale))
                    numbers += [n for n in range(crossing - 1, crossing + 2) if lowest <= n <= highest]
            got = truncated_affine(np.array(numbers, np.int64), scale, bias, lowest, highest)
            for number, result in zip(numbers, got.tolist(), strict=True):
                expected = _affine_of_fractions(number, scale, bias, lowest, highest)
                assert result == expected, f"{number} * {scale!r} + {bias!r}: got {result}, expected {expected}"


def test_truncated_affine_of_infinities_and_nan() -> None:
    numbers = np.array([-5, 0, 5])
    infinity, nan = math.inf, math.nan
    cases = [
        (infinity, 0.0, [-128, 0, 127]),
        (-infinity, 1.0, [127, 0, -128]),
        (infinity, infinity, [0, 0, 127]),
        (infinity, -infinity, [-128, 0, 0]),
        (1.0, infinity, [127, 127, 127]),
        (0.0, -infinity, [-128, -128, -128]),
        (nan, 1.0, [0, 0, 0]),
        (1.0, nan, [0, 0, 0]),
        (nan, infinity, [0, 0, 0]),
    ]
    for scale, bias, expected in cases:
        assert truncated_affine(numbers, scale, bias, -128, 127).tolist() == expected, (scale, bias)


Float64Array = npt.NDArray[np.float64]

ULP_FORMATS = {np.dtype(np.float32): (24, -126, 127, 0x7FC00000), np.dtype(np.float16): (11, -14, 15, 0x7E00)}


def singles(values: list[Any]) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def halves(values: list[Any]) -> npt.NDArray[np.float16]:
    return np.array(values, np.float16)


def exact_error(got: Any, true: float) -> Fraction | None:
    """The error of one result; ``None``: infinitely far away."""
    precision, lowest, highest, canonical = ULP_FORMATS[got.dtype]
    number = float(got)
    if math.isnan(true):
        return Fraction(0) if int(got.view(f"u{got.dtype.itemsize}")) == canonical else None
    if math.isnan(number) or math.copysign(1, number) != math.copysign(1, true):
        return None
    limit = Fraction(2) ** (highest + 1)
    value = limit if math.isinf(true) else min(abs(Fraction(true)), limit)
    result = limit if math.isinf(number) else abs(Fraction(number))
    exponent = lowest
    while exponent < highest and Fraction(2) ** (exponent + 1) <= value:
        exponent += 1
    unit = Fraction(2) ** (exponent - precision + 1)
    smallest = Fraction(2) ** lowest
    if precision == 24 and result == 0:
        return max(value - smallest, Fraction(0)) / unit
    if precision == 24 and result < smallest:
        return None
    return abs(result - value) / unit


def assert_errors(got: npt.NDArray[Any], true: npt.NDArray[np.float64]) -> None:
    errors = ulp.ulp_errors(got, true)
    for result, value, error in zip(got, true, errors.tolist(), strict=True):
        wanted = exact_error(result, float(value))
        if wanted is None:
            assert error == math.inf, (result, value, error)
        else:
            # float64's own rounding: far below what matters, and relative where errors are huge
            assert error == pytest.approx(float(wanted), rel=2**-29, abs=2**-29), (result, value, error)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=lambda t: t.name)
def test_landmarks_with_landmarks(data_type: dml.DataType) -> None:
    """Zeros, denormals, powers of two, the largest numbers, infinities, NaN, as results of each other."""
    patterns = landmark_patterns(data_type)
    results = patterns.view(data_type.numpy_dtype)
    with np.errstate(invalid="ignore"):
        values = results.astype(np.float64)
        neighbours = [np.nextafter(values, np.inf), np.nextafter(values, -np.inf), values * (1 + 2.0**-26)]
    near = np.concatenate([values, *neighbours])
    beyond = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-300, -1e-300, 5e-324, 1e300, -1e300])
    random = np.random.default_rng(3)
    for true in (near, np.resize(beyond, near.size), random.permutation(near)):
        assert_errors(np.resize(results, true.size), true)


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=lambda t: t.name)
def test_random_results_near_random_values(data_type: dml.DataType) -> None:
    random = np.random.default_rng(4)
    count = 4000
    bits = random.integers(0, 2**data_type.size_in_bits, count, dtype=bits_dtype(data_type))
    got = bits.view(data_type.numpy_dtype)
    with np.errstate(invalid="ignore"):
        numbers: Float64Array = got.astype(np.float64)
        true: Float64Array = numbers * (1 + random.normal(size=count) * 2.0 ** random.uniform(-30, -5, count))
    assert_errors(got, true)


def test_known_errors() -> None:
    one = singles([1.0, 1.0, 1.0, np.nextafter(np.float32(1), np.float32(0)), 2.0])
    true = np.array([1.0, 1 + 2.0**-24, 1 + 2.0**-22, 1.0, 1.0])
    assert ulp.ulp_errors(one, true).tolist() == [0.0, 0.5, 2.0, 0.5, 2.0**23]
    half = halves([2.0**-24, 0.0, 65504.0, np.inf])
    assert ulp.ulp_errors(half, np.array([2.0**-25, 2.0**-25, 65520.0, 65520.0])).tolist() == [0.5, 0.5, 0.5, 0.5]


def test_float32_results_below_the_normal_numbers_are_zeros() -> None:
    tiny = np.array([2.0**-127, -(2.0**-140), 2.0**-126 * (1 - 2.0**-30), 2.0**-126])
    zeros = singles([0.0, -0.0, 0.0, 0.0])
    assert ulp.ulp_errors(zeros, tiny).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert ulp.ulp_errors(-zeros, tiny).tolist() == [math.inf] * 4
    assert ulp.ulp_errors(tiny.astype(np.float32), tiny).tolist() == [math.inf, math.inf, 2.0**-7, 0.0]


def test_any_shape_and_any_length() -> None:
    got = np.ones((3, ulp.BLOCK // 2 + 1, 2), np.float32)
    true = np.ones(got.shape)
    true[2, -1, 1] = 1 + 2.0**-23
    errors = ulp.ulp_errors(got, true)
    assert errors.shape == got.shape
    assert np.argwhere(errors != 0).tolist() == [[2, ulp.BLOCK // 2, 1]]
    transposed = ulp.ulp_errors(got.T, true.T)
    assert np.argwhere(transposed != 0).tolist() == [[1, ulp.BLOCK // 2, 2]]
    assert ulp.ulp_errors(np.empty(0, np.float32), np.empty(0)).size == 0


def test_the_promise_for_half_is_one_more_rounding() -> None:
    accuracy = Accuracy("accurate", 0.8)
    assert ulp.promised_ulp(accuracy, dml.FLOAT32) == 0.8
    assert ulp.promised_ulp(accuracy, dml.FLOAT16) == 0.5 + 0.8 / 8192


def test_the_promise_for_half_may_be_its_own() -> None:
    accuracy = Accuracy("accurate", 0.8, maximum_ulp_of_half=0.51)
    assert ulp.promised_ulp(accuracy, dml.FLOAT32) == 0.8
    assert ulp.promised_ulp(accuracy, dml.FLOAT16) == 0.51


def test_equal_bits() -> None:
    values = singles([1.0, math.nan, -0.0])
    found = compare_bits(values, values.copy())
    assert (found.count, found.broken, found.misrounded, found.largest_error) == (3, 0, 0, 0.0)
    assert (found.worst, found.elements) == (None, ())
    assert difference("here", values, values.copy(), [values]) is None


def test_floats_that_differ_count_the_numbers_between() -> None:
    got = singles([1.0, 2.0, -(2.0**-149), np.nextafter(np.float32(4), np.float32(5))])
    expected = singles([1.0, np.nextafter(np.float32(2), np.float32(0)), 2.0**-149, 4.0])
    found = compare_bits(got, expected)
    assert (found.broken, found.largest_error, found.worst, found.elements) == (3, 2.0, 2, (1, 2, 3))


@pytest.mark.parametrize(("got", "expected"), [(0.0, -0.0), (math.nan, 1.0), (1.0, math.nan)])
def test_what_is_wrong_altogether_is_infinitely_far(got: float, expected: float) -> None:
    assert compare_bits(halves([got]), halves([expected])).largest_error == math.inf


def test_a_nan_of_other_bits_is_wrong() -> None:
    got, expected = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00001, 0x7FC00000))
    assert compare_bits(got, expected).largest_error == math.inf


def test_integers_differ_by_ones() -> None:
    found = compare_bits(np.array([3, 2**64 - 1, 5], np.uint64), np.array([3, 0, 9], np.uint64))
    assert (found.broken, found.largest_error, found.worst) == (2, 2.0**64, 1)
    assert compare_bits(np.array([-128], np.int8), np.array([127], np.int8)).largest_error == 255


def test_shapes_and_types_must_agree() -> None:
    with pytest.raises(ValueError, match=r"got float32 \(2,\), expected float32 \(3,\)"):
        compare_bits(np.zeros(2, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="got uint8"):
        compare_bits(np.zeros(2, np.uint8), np.zeros(2, np.int8))


def test_values_are_counted_by_their_distance() -> None:
    step = 2.0**-23
    true = np.array([1.0, 1 + 0.4 * step, 1 + 0.7 * step, 1 + 3.25 * step])
    found = compare_values(np.ones(4, np.float32), true, 0.8)
    assert (found.count, found.broken, found.misrounded, found.elements) == (4, 1, 2, (3,))
    assert found.largest_error == pytest.approx(3.25)
    assert found.worst == 3
    within = compare_values(np.ones(3, np.float32), true[:3], 0.8)
    assert (within.broken, within.misrounded, within.worst) == (0, 1, 2)
    exact = compare_values(np.ones(1, np.float32), np.ones(1), 0.6)
    assert (exact.worst, exact.largest_error) == (None, 0.0)


def test_texts_name_inputs_and_results() -> None:
    got, expected = singles([[1.0], [2.0]]), singles([[1.0], [-2.0]])
    inputs: list[npt.NDArray[Any]] = [np.array([[5], [-1]], np.int8), singles([[0.5], [math.inf]])]
    assert difference("x", got, expected, inputs) == (
        "x: 1 of 2 elements differ\n"
        "  at [1, 0]: inputs 0xff (-1), 0x7f800000 (inf), got 0x40000000 (2.0), expected 0xc0000000 (-2.0)"
    )
    true = np.array([[1.0], [3.0]])
    text = fault_text("y", compare_values(got, true, 0.6), got, true, inputs)
    assert text == (
        "y: 1 of 2 elements are more than 0.6 ULP off; the worst is 4194304.0000 ULP off\n"
        "  at [1, 0]: inputs 0xff (-1), 0x7f800000 (inf), got 0x40000000 (2.0), true value 3.0"
    )
    right = np.array([[1.0], [2.0]])
    assert fault_text("y", compare_values(got, right, 0.6), got, right, inputs) is None
