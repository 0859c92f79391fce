"""The references of quantization, held against Fractions, one element at a time; and the inputs that are tried."""

from __future__ import annotations

import math
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
from dmlvk.conformance.references.rounding import FLOAT32, float_format, round_fraction

Array = npt.NDArray[Any]

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
            results.append(_rounded(n["input"] - n["zero_point"], n["scale"], output_type))
    return results


def _rounded(difference: int, scale: float, output_type: dml.DataType) -> float:
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


@pytest.mark.parametrize(
    ("x", "scale", "zero_point", "expected"),
    [
        ([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], 1.0, 10, [10, 12, 12, 10, 8, 8]),
        ([1e30, -1e30, math.inf, -math.inf, math.nan], 1.0, 7, [127, -128, 127, -128, 7]),
        ([1.0, -1.0, 0.0, -0.0, math.nan], 0.0, 7, [127, -128, 7, 7, 7]),
        ([1.0, -1.0, 0.0], -0.0, 7, [-128, 127, 7]),
        ([1.0, math.inf, -math.inf], math.inf, 7, [7, 7, 7]),
        ([1e-40, 2e-38], 1e-40, 7, [7, 127]),  # a denormal scale is 0, a denormal number too
        ([12.0, -12.0], -5.0, 0, [-2, 2]),
        ([3.0, 1.0], math.nan, -9, [-9, -9]),
    ],
)
def test_known_quotients(x: list[float], scale: float, zero_point: int, expected: list[int]) -> None:
    numbers = np.array(x, np.float32)
    tensor, small = dml.TensorDesc(dml.FLOAT32, (len(x),)), dml.TensorDesc(dml.INT8, (len(x),))
    desc = dml.ElementWiseQuantizeLinear(
        input_tensor=tensor, scale_tensor=tensor, zero_point_tensor=small, output_tensor=small
    )
    scales, zero_points = np.full(len(x), scale, np.float32), np.full(len(x), zero_point, np.int8)
    assert expected_output(desc, [numbers, scales, zero_points]).tolist() == expected
