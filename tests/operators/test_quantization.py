"""Quotients at halves of integers and beside them, where one of three ways decides; and products of any integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dmlvk.conformance.cases import Batch, value_cases
from dmlvk.conformance.execution import Workbench, check_batch

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

_CASES = {case.name: case for case in value_cases()}

_BESIDE = np.concatenate([[0.0], *([2.0**-k, -(2.0**-k)] for k in range(7, 25))])
"""Distances from a half: on both sides of where the estimate decides, which is about 2^-14."""

_COUNT = 2**18


def _quotients(random: np.random.Generator) -> Float64Array:
    """On halves, at all distances beside them, and where other ways begin: at 2^10, 2^12, 2^21 and 2^23."""
    halves = random.integers(-600, 600, _COUNT) + 0.5
    large = np.ldexp(random.uniform(0.999, 1.001, _COUNT), random.choice((9, 10, 12, 13, 21, 22, 24), _COUNT))
    close = halves + random.choice(_BESIDE, _COUNT)
    chosen = np.where(random.integers(0, 8, _COUNT) == 0, large * random.choice((-1, 1), _COUNT), close)
    return np.where(random.integers(0, 3, _COUNT) == 0, halves, chosen)


def _scales(random: np.random.Generator) -> Array:
    """Of any significand or of few bits, mostly ordinary; others about 2^-126, 2^-60, 2^60 and 2^118; of both signs."""
    significands = 1 + random.integers(0, 2**23, _COUNT) / 2**23
    short = 1 + random.integers(0, 2**6, _COUNT) / 2**6
    exponents = np.where(
        random.integers(0, 3, _COUNT) == 0,
        random.choice((-126, -125, -61, -60, -59, 59, 60, 61, 118), _COUNT),
        random.integers(-40, 40, _COUNT),
    )
    chosen = np.where(random.integers(0, 2, _COUNT) == 0, significands, short)
    return np.asarray(np.ldexp(chosen, exponents) * random.choice((-1, 1), _COUNT), np.float32)


def _stepped(x: Array, random: np.random.Generator) -> Array:
    """Each as it is, or one of the two numbers on either side."""
    bits = x.view(f"i{x.dtype.itemsize}")
    stepped: Array = bits + random.integers(-2, 3, x.size).astype(bits.dtype)
    return stepped.view(x.dtype)


@pytest.mark.parametrize("output", ["int8", "uint8"])
def test_float32_quotients_beside_halves(output: str, benches: list[Workbench]) -> None:
    random = np.random.default_rng(1)
    scales = _scales(random)
    with np.errstate(over="ignore"):
        x = (_quotients(random) * scales).astype(np.float32)
    zero_points = random.integers(0, 100, _COUNT).astype(output)
    batch = Batch("beside halves", {}, (_stepped(x, random), scales, zero_points))
    check_batch(benches, _CASES[f"quantize_linear-float32-{output}"], "contiguous", batch)


def test_float16_quotients_beside_halves(benches: list[Workbench]) -> None:
    """Scales of every pattern, denormals and special ones among them."""
    random = np.random.default_rng(2)
    scales = np.tile(np.arange(2**16, dtype=np.uint16), _COUNT // 2**16).view(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        x = (_quotients(random) * scales.astype(np.float64)).astype(np.float16)
    batch = Batch("beside halves", {}, (_stepped(x, random), scales))
    check_batch(benches, _CASES["quantize_linear-float16-int8-without_zero_point"], "contiguous", batch)


def test_integer_quotients_beside_halves(benches: list[Workbench]) -> None:
    """Even scales make ties; integers of 24 bits and more, which floats do not all hold, among the dividends."""
    random = np.random.default_rng(3)
    even = np.rint(np.ldexp(1 + random.random(_COUNT), random.integers(0, 28, _COUNT))) * 2
    any_size = np.ldexp(1 + random.random(_COUNT), random.integers(-10, 28, _COUNT))
    scales = np.where(random.integers(0, 2, _COUNT) == 0, even, any_size).astype(np.float32)
    products = np.rint(_quotients(random) * scales) + random.integers(-1, 2, _COUNT)
    x = np.clip(products, -(2**31), 2**31 - 1).astype(np.int32)
    batch = Batch("beside halves", {}, (x, scales))
    check_batch(benches, _CASES["quantize_linear-int32-int8-without_zero_point"], "contiguous", batch)


def test_quotients_of_sums_beside_halves(benches: list[Workbench]) -> None:
    """The divisor is what brings the sum beside a half; half of the sums nearly cancel."""
    random = np.random.default_rng(4)
    a, b = (random.integers(-128, 128, _COUNT).astype(np.int8) for _ in range(2))
    a_scales = np.abs(_scales(random))
    opposite = -a_scales.astype(np.float64) * a / np.where(b == 0, 1, b)
    other = np.ldexp(a_scales * (1 + random.random(_COUNT)), random.integers(-4, 4, _COUNT))
    with np.errstate(over="ignore"):
        close = _stepped(opposite.astype(np.float32), random)
        b_scales = np.where(random.integers(0, 2, _COUNT) == 0, close, other.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scales = ((a * a_scales.astype(np.float64) + b * b_scales.astype(np.float64)) / _quotients(random)).astype(
            np.float32
        )
    batch = Batch("beside halves", {}, (a, a_scales, b, b_scales, _stepped(scales, random)))
    name = "quantized_linear_add-int8-float32-int8-float32-float32-int8"
    absent = "without_a_zero_point-without_b_zero_point-without_output_zero_point"
    check_batch(benches, _CASES[f"{name}-{absent}"], "contiguous", batch)


@pytest.mark.parametrize("data_type", ["int16", "uint16", "int32", "uint32"])
def test_products_of_large_differences(data_type: str, benches: list[Workbench]) -> None:
    """Differences of all sizes, of few bits, so that products lie between two results, and of many."""
    random = np.random.default_rng(6)
    limits = np.iinfo(data_type)
    short = random.integers(0, 2**6, _COUNT) / 2**6
    sizes = np.ldexp(
        1 + np.where(random.integers(0, 2, _COUNT) == 0, short, random.random(_COUNT)), random.integers(0, 32, _COUNT)
    )
    x = np.clip(sizes * random.choice((-1, 1), _COUNT), limits.min, limits.max)
    zero_points = np.where(
        random.integers(0, 2, _COUNT) == 0, 0, random.integers(limits.min, limits.max, _COUNT, endpoint=True)
    )
    scales = np.tile(np.arange(2**16, dtype=np.uint16), _COUNT // 2**16).view(np.float16)
    batch = Batch("differences", {}, (x.astype(data_type), scales, zero_points.astype(data_type)))
    check_batch(benches, _CASES[f"dequantize_linear-{data_type}-float16"], "contiguous", batch)
    ordinary = np.where(np.isfinite(scales), scales, 1).astype(np.float32)
    batch = Batch("differences", {}, (x.astype(data_type), ordinary, zero_points.astype(data_type)))
    check_batch(benches, _CASES[f"dequantize_linear-{data_type}-float32"], "contiguous", batch)
