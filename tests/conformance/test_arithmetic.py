"""The references of arithmetic, piecewise linear activations and quantization agree with Fractions and known bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.conformance.quantization import QUANTIZING
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.references.rounding import FLOAT16, FLOAT32, FloatFormat, float_format, round_fraction
from tests.conformance.known import bits_of, reference

Array = npt.NDArray[Any]

FORMATS = pytest.mark.parametrize("target", [FLOAT32, FLOAT16], ids=["float32", "float16"])


def _floats(target: FloatFormat, *bits: int) -> Array:
    return np.array(bits, target.bits_dtype).view(target.dtype)


def _random_floats(target: FloatFormat, count: int, seed: int) -> Array:
    """Normal numbers of moderate exponents, a half of them with few bits."""
    random = np.random.default_rng(seed)
    numbers = random.uniform(1, 2, count) * random.choice([-1, 1], count)
    short = random.integers(1, 64, count) * random.choice([-1, 1], count)
    scaled: Array = np.where(random.integers(0, 2, count) == 0, numbers, short) * 2.0 ** random.integers(-6, 4, count)
    return scaled.astype(target.dtype)


def _rounded(value: Fraction, target: FloatFormat) -> Array:
    """A Fraction as a number of the format; FLOAT32's denormals cannot come out of ``_random_floats``."""
    rounded = round_fraction(value, target)
    number = math.inf if rounded is None else float(abs(rounded))
    return np.array([math.copysign(number, value)], target.dtype)


@FORMATS
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("ELEMENT_WISE_ADD", lambda a, b: a + b),
        ("ELEMENT_WISE_SUBTRACT", lambda a, b: a - b),
        ("ELEMENT_WISE_MULTIPLY", lambda a, b: a * b),
        ("ELEMENT_WISE_DIVIDE", lambda a, b: a / b),
        ("ELEMENT_WISE_MEAN", lambda a, b: (a + b) / 2),
        ("ELEMENT_WISE_MODULUS_TRUNCATE", lambda a, b: a - b * math.trunc(a / b)),
        ("ELEMENT_WISE_MODULUS_FLOOR", lambda a, b: a - b * math.floor(a / b)),
    ],
)
def test_results_are_fractions_rounded_once(
    target: FloatFormat, operator: str, function: Callable[[Fraction, Fraction], Fraction]
) -> None:
    a, b = _random_floats(target, 3000, 1), _random_floats(target, 3000, 2)
    got = reference(operator, a, b)
    for x, y, result in zip(a.tolist(), b.tolist(), bits_of(got), strict=True):
        exact = function(Fraction(x), Fraction(y))
        if exact:
            assert result == bits_of(_rounded(exact, target))[0], f"{x!r}, {y!r}"
        else:
            assert int(result, 16) in (0, 2 ** (8 * target.dtype.itemsize - 1)), f"{x!r}, {y!r}: not a zero"


@FORMATS
def test_difference_squares_are_fractions_rounded_by_the_documented_steps(target: FloatFormat) -> None:
    a, b = _random_floats(target, 3000, 3), _random_floats(target, 3000, 4)
    for x, y, result in zip(
        a.tolist(), b.tolist(), bits_of(reference("ELEMENT_WISE_DIFFERENCE_SQUARE", a, b)), strict=True
    ):
        difference = Fraction(x) - Fraction(y)
        if target is FLOAT32:
            difference = Fraction(float(_rounded(difference, target)[0]))
        expected = bits_of(_rounded(difference**2, target))[0] if difference else bits_of(np.zeros(1, target.dtype))[0]
        assert result == expected, f"{x!r}, {y!r}"


def _python(function: Callable[[float, float], float]) -> Callable[[float, float], float]:
    def computed(a: float, b: float) -> float:
        try:
            return function(a, b)
        except (ValueError, ZeroDivisionError):
            return math.nan

    return computed


_OF_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    **{"ADD": np.add, "SUBTRACT": np.subtract, "MULTIPLY": np.multiply, "DIVIDE": np.divide},
    "MEAN": lambda a, b: (a + b) / 2,
    "MODULUS_TRUNCATE": np.vectorize(_python(math.fmod), otypes="d"),
    "MODULUS_FLOOR": np.vectorize(_python(lambda a, b: a % b), otypes="d"),
}


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x) if x.dtype == np.float32 else x


@FORMATS
@pytest.mark.parametrize("operator", [*_OF_PAIRS, "RECIP", "SQRT"])
def test_special_values_are_those_of_ieee_754(target: FloatFormat, operator: str) -> None:
    """With denormals of FLOAT32 as zeros, results among them; the largest numbers, whose means do not overflow."""
    largest, least = float(np.finfo(target.dtype).max), float(np.finfo(target.dtype).tiny)
    numbers = [0.0, 1.0, 3.0, 6.0, 5.3, 1e-40, largest, least, least * (1 + 2.0**-10), math.inf, math.nan]
    x = np.array([*numbers, *(-number for number in numbers)]).astype(target.dtype)
    operands = [x] if operator not in _OF_PAIRS else [np.repeat(x, x.size), np.tile(x, x.size)]
    of_one: dict[str, Callable[[Any], Any]] = {"RECIP": lambda a: 1 / a, "SQRT": np.sqrt}
    with np.errstate(all="ignore"):
        wide = [_flushed(operand).astype(np.float64) for operand in operands]
        exact = _OF_PAIRS[operator](*wide) if operator in _OF_PAIRS else of_one[operator](*wide)
        expected = np.where(np.isnan(exact), math.nan, _flushed(exact.astype(target.dtype))).astype(target.dtype)
    got = reference(f"ELEMENT_WISE_{operator}", *operands)
    differs = np.flatnonzero(np.array(bits_of(got)) != np.array(bits_of(expected)))
    assert not differs.size, [[a[differs[0]] for a in operands], got[differs[0]], expected[differs[0]]]


@FORMATS
def test_reciprocals_and_roots_are_fractions_rounded_once(target: FloatFormat) -> None:
    x = np.abs(_random_floats(target, 3000, 5))
    reciprocals, roots = reference("ELEMENT_WISE_RECIP", x), reference("ELEMENT_WISE_SQRT", x)
    for number, reciprocal, root in zip(x.tolist(), bits_of(reciprocals), bits_of(roots), strict=True):
        assert reciprocal == bits_of(_rounded(1 / Fraction(number), target))[0], repr(number)
        # The integer root of 4^64 times the number, and one bit more when it is not exact, is close enough to the root.
        scaled = Fraction(number) * 4**64
        integer = math.isqrt(scaled.numerator // scaled.denominator)
        sticky = Fraction(integer) + (Fraction(1, 2) if integer**2 != scaled else 0)
        assert root == bits_of(_rounded(sticky / 2**64, target))[0], repr(number)


def test_products_at_the_smallest_normal_number() -> None:
    pairs = [
        (0x00800000, 0x3F800000),  # 2^-126
        (0x00FFFFFF, 0x3F000000),  # (2 - 2^-23) * 2^-127: below 2^-126 and a number of 24 bits, so zero
        (0x80FFFFFF, 0x3F000001),  # rounded to 24 bits it is 2^-126
        (0x00FFFFFE, 0x3F000001),  # 2^-126 - 2^-172, rounded to 2^-126
        (0x00FFFFFD, 0x3F000001),  # rounded to (2 - 2^-23) * 2^-127
        (0x00000001, 0x7F7FFFFF),  # a denormal counts as zero
        (0x80000000, 0x7F800000),
    ]
    a, b = (_floats(FLOAT32, *column) for column in zip(*pairs, strict=True))
    expected = ["00800000", "00000000", "80800000", "00800000", "00000000", "00000000", "7fc00000"]
    assert bits_of(reference("ELEMENT_WISE_MULTIPLY", a, b)) == expected


def _quotient_of_integers(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    **{"ADD": int.__add__, "SUBTRACT": int.__sub__, "MULTIPLY": int.__mul__, "DIVIDE": _quotient_of_integers},
    "MODULUS_TRUNCATE": lambda x, y: x - y * _quotient_of_integers(x, y) if y else 0,
    "MODULUS_FLOOR": lambda x, y: x % y if y else 0,
    "MEAN": lambda x, y: math.trunc(Fraction(x + y, 2)),
    "DIFFERENCE_SQUARE": lambda x, y: (x - y) ** 2,
}


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_exact_and_wrap(name: str) -> None:
    limits = np.iinfo(name)
    lowest, highest = int(limits.min), int(limits.max)
    numbers = [lowest, lowest + 1, *((-7, -1) if lowest else ()), 0, 1, 2, 3, 7, highest // 3, highest - 1, highest]
    a, b = np.repeat(np.array(numbers, name), len(numbers)), np.tile(np.array(numbers, name), len(numbers))
    for operator, function in _OF_INTEGERS.items():
        if operator in ("MEAN", "DIFFERENCE_SQUARE") and limits.bits != 32:
            continue
        got = reference(f"ELEMENT_WISE_{operator}", a, b)
        assert got.dtype == a.dtype
        for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
            assert (result - function(x, y)) % 2**limits.bits == 0, f"{operator} of {x}, {y}: {result}"


_NUMBERS = (-3.0, -2.5, -1.25, -1.0, -0.7, -0.5, -0.1, -1e-3, 1e-3, 0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.9, 3.1, 100.0)


def _rounded_number(value: Fraction, target: FloatFormat) -> float:
    rounded = round_fraction(value, target)
    assert rounded is not None
    return float(rounded)


def _hard_sigmoid(x: Fraction, alpha: Fraction, beta: Fraction) -> Fraction:
    return max(Fraction(0), min(alpha * x + beta, Fraction(1)))


def _shrunk(x: Fraction, bias: Fraction, threshold: Fraction) -> Fraction:
    return x - bias if x > threshold else x + bias if x < -threshold else Fraction(0)


PIECEWISE: dict[str, tuple[tuple[str, ...], Callable[..., Fraction]]] = {
    "LINEAR": (("Alpha", "Beta"), lambda x, alpha, beta: alpha * x + beta),
    "HARD_SIGMOID": (("Alpha", "Beta"), _hard_sigmoid),
    "HARD_SWISH": (("Alpha", "Beta"), lambda x, alpha, beta: x * _hard_sigmoid(x, alpha, beta)),
    "LEAKY_RELU": (("Alpha",), lambda x, alpha: x if x >= 0 else alpha * x),
    "SHRINK": (("Bias", "Threshold"), _shrunk),
}


@FORMATS
@pytest.mark.parametrize("pair", [(0.2, 0.5), (1 / 6, 0.5), (-0.3, 0.1), (3.7, -1 / 3), (0.1, 0.3), (1.0, -1.0)])
@pytest.mark.parametrize("operator", PIECEWISE)
def test_pieces_are_fractions_rounded_once(target: FloatFormat, operator: str, pair: tuple[float, float]) -> None:
    names, function = PIECEWISE[operator]
    attributes: dict[str, Any] = dict(zip(names, pair, strict=False))
    x = np.array([*_NUMBERS, 0.0], target.dtype)
    exact = [Fraction(float(np.float32(value))) for value in attributes.values()]
    for number, result in zip(x.tolist(), reference(f"ACTIVATION_{operator}", x, **attributes).tolist(), strict=True):
        expected = function(Fraction(number), *exact)
        if operator == "HARD_SWISH":  # whose product is judged before it is rounded
            assert result == pytest.approx(float(expected), rel=2.0**-50, abs=0)
        else:
            assert result == _rounded_number(expected, target), number


@FORMATS
def test_slopes_of_their_own_below_zero(target: FloatFormat) -> None:
    x = np.array([*_NUMBERS, 0.0, -0.0], target.dtype)
    slope = np.resize(np.array([0.3, -1.7, 5.1], target.dtype), x.shape)
    got = reference("ACTIVATION_PARAMETERIZED_RELU", x, slope)
    for number, factor, result in zip(x.tolist(), slope.tolist(), got.tolist(), strict=True):
        if number >= 0:
            assert repr(result) == repr(number)
        else:
            assert result == _rounded_number(Fraction(number) * Fraction(factor), target)


def test_slopes_of_integers_wrap() -> None:
    x, slope = np.array([-128, -3, -1, 0, 5], np.int8), np.array([-1, 100, 7, 9, 9], np.int8)
    assert reference("ACTIVATION_PARAMETERIZED_RELU", x, slope).tolist() == [-128, -44, -7, 0, 5]


CASES = [case for case in value_cases() if case.desc_class.operator_name in QUANTIZING and not case.lacks_tensors]

EACH_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def _number(value: Any, dtype: np.dtype[Any]) -> float | int:
    """A Python number; FLOAT32 denormals are zeros of their sign."""
    number = value.item()
    if dtype == np.float32 and abs(number) < 2.0**-126:
        return math.copysign(0.0, number)
    return int(number) if dtype.kind in "iu" else float(number)


def _quotient(dividend: Fraction | float, divisor: float) -> float:
    """The nearest integer by Python's rounding of Fractions; infinite or 0 where there is no quotient."""
    if math.isnan(dividend) or math.isnan(divisor):
        return 0
    if math.isinf(dividend):
        return 0 if math.isinf(divisor) else math.inf * math.copysign(1, dividend) * math.copysign(1, divisor)
    if divisor == 0:
        return 0 if dividend == 0 else math.inf * math.copysign(1, dividend) * math.copysign(1, divisor)
    return 0 if math.isinf(divisor) else round(Fraction(dividend) / Fraction(divisor))


def _saturated(number: float, zero_point: int, data_type: dml.DataType) -> int:
    limits = np.iinfo(data_type.numpy_dtype)
    return int(min(max(number + zero_point, int(limits.min)), int(limits.max)))


def _product(factor: int, scale: float) -> Fraction | float:
    return Fraction(factor) * Fraction(scale) if math.isfinite(scale) else (math.nan if factor == 0 else factor * scale)


def _sum(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else float(a) + float(b)


def _one_by_one(case: ValueCase, inputs: tuple[Array, ...]) -> list[Any]:
    """The results, from the formulas on DirectML's pages."""
    names = [field.attribute.removesuffix("_tensor") for field, _ in case.tensors("input")]
    output_type = case.tensors("output")[0][1]
    results: list[Any] = []
    for values in zip(*inputs, strict=True):
        n: dict[str, Any] = {name: _number(v, x.dtype) for name, v, x in zip(names, values, inputs, strict=True)}
        if case.desc_class is dml.ElementWiseQuantizeLinear:
            results.append(_saturated(_quotient(n["input"], n["scale"]), n["zero_point"], output_type))
        elif case.desc_class is dml.ElementWiseQuantizedLinearAdd:
            total = _sum(
                _product(n["a"] - n["a_zero_point"], n["a_scale"]), _product(n["b"] - n["b_zero_point"], n["b_scale"])
            )
            results.append(_saturated(_quotient(total, n["output_scale"]), n["output_zero_point"], output_type))
        else:
            results.append(_quotient_rounded(n["input"] - n["zero_point"], n["scale"], output_type))
    return results


def _quotient_rounded(difference: int, scale: float, output_type: dml.DataType) -> float:
    exact = _product(difference, scale)
    sign = math.copysign(1, scale) * (-1 if difference < 0 else 1)
    if not isinstance(exact, Fraction):
        return exact
    target = float_format(output_type.numpy_dtype)
    # By the contract FLOAT32 results are judged after rounding to 24 bits: 2**200 times as large none is denormal.
    factor = Fraction(2) ** 200 if target is FLOAT32 and abs(exact) < 1 else Fraction(1)
    rounded = round_fraction(exact * factor, target) if factor == 1 else _to_24_bits(exact * factor) / factor
    if rounded is None:
        return sign * math.inf
    is_denormal = target is FLOAT32 and abs(rounded) < Fraction(2) ** -126
    return sign * 0.0 if is_denormal or rounded == 0 else float(rounded)


def _to_24_bits(value: Fraction) -> Fraction:
    if value == 0:
        return value
    exponent = math.floor(math.log2(abs(value)))
    unit = Fraction(2) ** (exponent - 23)
    while abs(value) / unit >= 2**24:
        unit *= 2
    while abs(value) / unit < 2**23:
        unit /= 2
    return round(value / unit) * unit


@EACH_CASE
def test_references_are_exact(case: ValueCase) -> None:
    """A few thousand elements of the very inputs that devices are tried with."""
    for batch in batches(case, 4096):
        desc = describe(case, (batch.size,), [(1,)] * len(case.data_types), {})
        got = expected_output(desc, list(batch.inputs))
        expected = np.array(_one_by_one(case, batch.inputs))
        with np.errstate(over="ignore"):
            expected = expected.astype(got.dtype)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected)) if got.dtype.kind == "f" else got == expected
        wrong = np.flatnonzero(~same | (np.signbit(got) != np.signbit(expected)) & ~np.isnan(got))
        assert wrong.size == 0, f"{case.name}: {[x[wrong[0]] for x in batch.inputs]}: {got[wrong[0]]}"


@EACH_CASE
def test_inputs_lie_on_ties_and_beside_them(case: ValueCase) -> None:
    """Of 4096 quotients 100 at least lie on a half, and as many beside one; some saturate, on both sides."""
    if case.desc_class is dml.ElementWiseDequantizeLinear:
        return
    (batch,) = batches(case, 4096)
    names = [field.attribute.removesuffix("_tensor") for field, _ in case.tensors("input")]
    n = dict(zip(names, batch.inputs, strict=True))
    with np.errstate(all="ignore"):
        if case.desc_class is dml.ElementWiseQuantizeLinear:
            quotient = n["input"].astype(np.float64) / n["scale"]
        else:
            a, b = ((n[m].astype(np.float64) - n[f"{m}_zero_point"]) * n[f"{m}_scale"] for m in ("a", "b"))
            quotient = (a + b) / n["output_scale"]
        distance = np.abs(np.abs(quotient - np.floor(quotient)) - 0.5) / np.abs(quotient)
        distance = distance[np.isfinite(quotient) & (np.abs(quotient) < 600)]
    step = 2.0**-9 if n[names[0]].dtype == np.float16 else 2.0**-21
    assert (distance == 0).sum() > 100, "ties"
    assert ((distance > 0) & (distance < step)).sum() > 100, "beside ties"
    assert (quotient > 500).any()
    assert (quotient < -500).any()
