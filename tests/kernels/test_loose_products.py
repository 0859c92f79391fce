"""Where a device may round a product before it is added, or not, the results are the same either way."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

import dmlvk as dml

SHADERS = Path(__file__).parents[2] / "shaders"
SOURCE = (SHADERS / "include" / "half_exponential.glsl").read_text()
NUMBER = r"(-?[0-9.e-]+)"
STEP = re.compile(rf"power = loose_product_plus\(f, (?:power|{NUMBER}), {NUMBER}\);")
PATTERNS = np.arange(65536, dtype=np.uint16)

Singles = npt.NDArray[np.float32]


def rounded_twice(a: Singles, b: Singles, c: np.float32) -> Singles:
    return a * b + c


def rounded_once(a: Singles, b: Singles, c: np.float32) -> Singles:
    """The product is exact in 53 bits; the sum is rounded to odd there, so that rounding it again is harmless."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), np.float64(c)
    total = product + addend
    part = total - product
    lost = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    away = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where((lost != 0) & (bits % 2 == 0), bits + away, bits)
    return odd.view(np.float64).astype(np.float32)


def test_rounding_once_is_that_of_exact_integers() -> None:
    random = np.random.default_rng(3)
    a, b = (random.integers(1 << 23, 1 << 24, 20_000).astype(np.float32) for _ in range(2))
    for addend in (0.0, 1.0, -1.0, float(1 << 23), float(3 << 45), -float(3 << 45)):
        exact = [int(x) * int(y) + int(addend) for x, y in zip(a, b, strict=True)]
        # float(int) rounds to nearest even once; here to 24 bits, by hand.
        for number, found in zip(exact, rounded_once(a, b, np.float32(addend)), strict=True):
            unit = 1 << max(abs(number).bit_length() - 24, 0)
            quotient, rest = divmod(number, unit)
            nearest = quotient + (2 * rest > unit or (2 * rest == unit and quotient % 2 == 1))
            assert int(found) == nearest * unit


def test_no_result_of_float16_exp_depends_on_how_its_sums_are_rounded(any_device: dml.Device) -> None:
    steps = STEP.findall(SOURCE)
    body = SOURCE.split("float power_of_fraction(float f)")[1].split("}")[0]
    assert len(steps) == body.count("loose_product_plus") == SOURCE.count("loose_product_plus") == 5
    (limit,) = re.findall(r"#define FAR_EXPONENT_F16 (0x\w+)u", SOURCE)
    high, magic = map(np.float32, re.findall(rf"shifted = exact_product_plus\(value, {NUMBER}, {NUMBER}\)", SOURCE)[0])
    (low,) = map(np.float32, re.findall(rf"fraction = exact_product_plus\(value, {NUMBER}, ", SOURCE))

    magnitudes = PATTERNS & 0x7FFF
    near = PATTERNS[magnitudes < int(limit, 16)]
    value = near.view(np.float16).astype(np.float32)
    shifted = value * high + magic
    fraction = value * low + (value * high - (shifted - magic))

    tensor = dml.TensorDesc(dml.FLOAT16, near.shape)
    desc = dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=None)
    (found,) = any_device.run(desc, {"InputTensor": near.view(np.float16)}).values()

    polynomials = [np.full_like(fraction, steps[0][0])]
    for _, addend in steps:
        polynomials = [
            add(fraction, polynomial, np.float32(addend))
            for polynomial in polynomials
            for add in (rounded_once, rounded_twice)
        ]
    assert len(polynomials) == 32
    for way, polynomial in enumerate(polynomials):
        scaled = (polynomial.view(np.uint32) + (shifted.view(np.uint32) << 23)).view(np.float32)
        with np.errstate(over="ignore"):
            results = scaled.astype(np.float16)
        different = np.flatnonzero(results.view(np.uint16) != found.view(np.uint16))
        assert different.size == 0, f"way {way:05b}: {different.size} differ, the first of {near[different[0]]:#06x}"
