"""The references of functions agree with those of Python's ``math``, and have the special values that are known."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import powers
from dmlvk.operators import OPERATORS
from tests.conformance.known import reference

Array = npt.NDArray[Any]

_E = 2.718281828459045

INF, NAN = math.inf, math.nan


def _is(got: float, expected: float) -> bool:
    """Equal to within 2**-46, zeros with their signs."""
    if math.isnan(expected) or expected == 0 or math.isinf(expected):
        return math.isnan(got) if math.isnan(expected) else got == expected and str(got) == str(expected)
    return math.isclose(got, expected, rel_tol=2.0**-46)


_OF_MATH = "EXP LOG ERF SINH COSH TANH ASINH ACOSH ATANH SIN COS TAN ASIN ACOS ATAN"
FUNCTIONS: dict[str, Callable[[float], float]] = {"ACTIVATION_TANH": math.tanh}
FUNCTIONS |= {f"ELEMENT_WISE_{name}": getattr(math, name.lower()) for name in _OF_MATH.split()}

POLES = {("ELEMENT_WISE_LOG", 0.0): -INF, ("ELEMENT_WISE_ATANH", 1.0): INF, ("ELEMENT_WISE_ATANH", -1.0): -INF}

# 16367173 * 2**72 is the float32 nearest to a multiple of pi/2, 9168424 * 2**-12 one of the nearest below 4096.
NUMBERS = (
    *(0.0, 1e-40, 2.0**-24, 2.0**-20, 0.1, 0.5, 0.7853982, 1 - 2.0**-24, 1.0, 1 + 2.0**-23, 1.5707964, 2.5, 6.0, 30.0),
    *(89.0, 4095.9998, 65504.0, 9168424 * 2.0**-12, 16367173 * 2.0**72, 1e-30, 3.4028235e38, INF, NAN),
)


def _by_python(operator: str, x: float) -> float:
    if (operator, x) in POLES:
        return POLES[operator, x]
    try:
        return FUNCTIONS[operator](x)
    except OverflowError:
        return math.copysign(INF, x) if operator.endswith("SINH") else INF
    except ValueError:  # outside of its domain
        return NAN


def _flushed(x: Array) -> list[float]:
    """As Python's numbers; denormals of FLOAT32 are zeros."""
    return [math.copysign(0.0, v) if x.dtype == np.float32 and abs(v) < 2.0**-126 else v for v in x.tolist()]


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_functions_are_those_of_python(operator: str, data_type: Any) -> None:
    with np.errstate(over="ignore"):
        x = np.array([*NUMBERS, *(-number for number in NUMBERS)]).astype(data_type)
    for number, got in zip(_flushed(x), reference(operator, x).tolist(), strict=True):
        assert _is(got, _by_python(operator, number)), number
    if any(field.name == "ScaleBias" for field in OPERATORS[operator].fields):
        scaled = reference(operator, np.array([2.5, -4.0], data_type), ScaleBias=dml.ScaleBias(0.5, -1.0))
        assert _is(scaled[0], _by_python(operator, 0.25)) and _is(scaled[1], _by_python(operator, -3.0))


def test_a_scaled_and_biased_number_is_rounded_before_the_function() -> None:
    one = dml.ScaleBias(1.0, 1.0)  # 1 + 2**-24 is 1 in FLOAT32
    assert _is(reference("ELEMENT_WISE_EXP", np.array([2.0**-24], np.float32), ScaleBias=one)[0], _E)


def test_angles_of_points_are_those_of_python() -> None:
    numbers = [0.0, 1e-40, 2.0**-126, 2.0, 3.0, 2.0**127, INF, NAN]
    pairs = itertools.product([*numbers, *(-number for number in numbers)], repeat=2)
    y, x = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    found = reference("ELEMENT_WISE_ATAN_YX", y, x).tolist()
    for a, b, got in zip(_flushed(y), _flushed(x), found, strict=True):
        assert _is(got, math.atan2(a, b)), (a, b)


KNOWN: dict[str, tuple[tuple[str, ...], list[tuple[float, ...]]]] = {
    "ACTIVATION_SIGMOID": (
        (),
        [
            (0.0, 0.5), (-0.0, 0.5), (1e-40, 0.5), (1.0, _E / (1 + _E)), (-1.0, 1 / (1 + _E)), (40.0, 1.0),
            (-87.0, 1.6458114310822737e-38), (-1000.0, 0.0), (-INF, 0.0), (INF, 1.0), (NAN, NAN),
        ],
    ),
    "ACTIVATION_SWISH": (
        ("SigmoidInputScale",),
        [
            (2.0, 0.0, 1.0), (-2.0, -0.0, -1.0), (3.0, 1e-40, 1.5), (1.0, 1.0, _E / (1 + _E)),
            (-1.0, 1.0, -1 / (1 + _E)), (2.0, -0.5, 2 / (1 + _E)), (2.0**127, 2.0**-126, 1.4985985723568012e+38),
            (2.0**127, -(2.0**-120), 4.376387467694916e-18),
            (INF, 1.0, INF), (-INF, 1.0, -0.0), (INF, -2.0, 0.0), (-INF, -2.0, -INF),
            (INF, 0.0, NAN), (0.0, INF, NAN), (-0.0, 5.0, -0.0), (1e-40, 5.0, 0.0),
            (2.0, INF, 2.0), (-2.0, INF, -0.0), (-2.0, -INF, -2.0), (2.0, -INF, 0.0),
            (-INF, INF, -0.0), (NAN, 1.0, NAN), (1.0, NAN, NAN),
        ],
    ),
    "ACTIVATION_ELU": (
        ("Alpha",),
        [
            (2.5, 3.0, 2.5), (0.0, NAN, 0.0), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (1e-40, 2.0, 0.0),
            (INF, 2.0, INF),
            (-1.0, 1.0, 1 / _E - 1), (-1.0, -2.0, 2 - 2 / _E), (-(2.0**-30), 2.0, -(2.0**-29) * (1 - 2.0**-31)),
            (-INF, 1.5, -1.5), (-1.0, INF, -INF), (-1.0, -INF, INF), (-1.0, 0.0, -0.0),
            (-1.0, -1e-40, 0.0), (-1.0, NAN, NAN), (1.0, NAN, 1.0), (NAN, 1.0, NAN),
        ],
    ),
    "ACTIVATION_SCALED_ELU": (
        ("Alpha", "Gamma"),
        [
            (2.5, 3.0, -2.0, -5.0), (0.0, 3.0, -2.0, -0.0), (-0.0, 3.0, 2.0, -0.0), (-1.0, 2.0, 4.0, 8 / _E - 8),
            (-INF, 1.5, 2.0, -3.0), (INF, 1.5, -2.0, -INF), (1.0, NAN, 2.0, 2.0),
            (-1.0, NAN, 2.0, NAN),
            (1.0, 1.0, NAN, NAN), (NAN, 1.0, 1.0, NAN), (INF, 1.0, 0.0, NAN), (0.0, 1.0, INF, NAN),
            (-1.0, 0.0, INF, NAN), (-1.0, INF, 1e-40, NAN), (-1.0, INF, -1.0, INF),
            (-1.0, 2.0**100, 2.0**100, 2.0**200 * (1 / _E - 1)), (5.0, INF, 2.0, 10.0),
        ],
    ),
    "ACTIVATION_CELU": (
        ("Alpha",),
        [
            (2.5, 3.0, 2.5), (2.5, -3.0, 2.5), (-0.0, 2.0, -0.0), (-1e-40, 2.0, -0.0), (INF, -2.0, INF),
            (-1.0, 1.0, 1 / _E - 1), (-2.0, 2.0, 2 / _E - 2), (-2.0, -2.0, 2 - 2 * _E), (-1.0, 2.0**-20, -(2.0**-20)),
            (-1.0, 2.0**120, -1.0), (-INF, 1.5, -1.5), (-INF, -1.5, -INF),
            (-1.0, 0.0, -0.0), (-1.0, -0.0, -0.0), (-1.0, -1e-40, -0.0), (1.0, 0.0, 1.0), (-INF, 0.0, -0.0),
            (-3.0, INF, -3.0), (-3.0, -INF, -3.0), (-INF, INF, -INF),
            (1.0, NAN, NAN), (-1.0, NAN, NAN), (NAN, 1.0, NAN), (NAN, 0.0, NAN), (NAN, INF, NAN),
        ],
    ),
    "ACTIVATION_SCALED_TANH": (
        ("Alpha", "Beta"),
        [
            (1.0, 3.0, 0.5, 3 * 0.46211715726000973), (-1.0, 3.0, 0.5, -3 * 0.46211715726000973),
            (5.0, 2.0, 1e-40, 0.0), (2.0**-100, 2.0**100, 2.0**-100, 2.0**-100),
            (INF, -2.0, 3.0, -2.0), (-0.0, 2.0, 3.0, -0.0), (1.0, 2.0, -INF, -2.0), (0.0, 2.0, INF, NAN),
            (INF, 2.0, 0.0, NAN),
            (1.0, INF, 1.0, INF),
            (0.0, INF, 1.0, NAN), (1.0, INF, 0.0, NAN), (1.0, NAN, 1.0, NAN), (1.0, 1.0, NAN, NAN),
            (NAN, 1.0, 1.0, NAN), (1.0, -0.0, 1.0, -0.0),
        ],
    ),
}  # fmt: skip
"""By operator its attributes, and rows of an input, values of these attributes, and the result."""


@pytest.mark.parametrize("operator", KNOWN)
def test_known_values(operator: str) -> None:
    names, rows = KNOWN[operator]
    for x, *values, expected in rows:
        attributes: dict[str, Any] = dict(zip(names, values, strict=True))
        (got,) = reference(operator, np.array([x], np.float32), **attributes)
        assert _is(float(got), expected), (x, *values)


def _softplus(x: Array, steepness: float) -> Array:
    return reference("ACTIVATION_SOFTPLUS", x, Steepness=steepness)


def _parametric_softplus(x: Array, alpha: float, beta: float) -> Array:
    return reference("ACTIVATION_PARAMETRIC_SOFTPLUS", x, Alpha=alpha, Beta=beta)


def test_softplus_is_its_formula() -> None:
    x = np.concatenate([np.linspace(-30, 30, 121), [200.0, -200.0]]).astype(np.float32)
    for steepness in (1.0, 2.5, -3.0, 2.0**-20):
        steep = x.astype(np.float64) * steepness
        expected = np.maximum(steep, 0) + np.log1p(np.exp(-np.abs(steep)))
        np.testing.assert_allclose(_softplus(x, steepness), expected / steepness, rtol=1e-14)
        np.testing.assert_allclose(_parametric_softplus(x, 3.0, steepness), 3 * expected, rtol=1e-14)


INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4)]


def _pow(x: Array, exponent: Array, **attributes: Any) -> Array:
    return reference("ELEMENT_WISE_POW", x, exponent, **attributes)


def _power(base: float, exponent: float) -> float:
    """Python's, which is C's but for errors instead of infinities and NaN."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -INF if base < 0 and exponent % 2 == 1 else INF
    except ValueError:
        return NAN if base else math.copysign(INF, base) if exponent % 2 == 1 else INF


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_powers_are_those_of_c(data_type: Any) -> None:
    bases = [0.0, 0.5, 1.0, 2.0, 8.0, 1e4, INF, NAN, 1e-40]
    exponents = [0.0, 1 / 3, 0.5, 1.0, 1.5, 2.0, 3.0, 7.25, INF, NAN, 1e-40]
    pairs = list(itertools.product(*([*some, *(-each for each in some)] for some in (bases, exponents))))
    x, exponent = np.array([a for a, _ in pairs], data_type), np.array([b for _, b in pairs], np.float32)
    found = _pow(x, exponent).tolist()
    for a, b, got in zip(_flushed(x), _flushed(exponent), found, strict=True):
        assert _is(got, _power(a, b)), (a, b)
        (constant,) = reference("ELEMENT_WISE_CONSTANT_POW", np.array([a], data_type), Exponent=b).tolist()
        assert _is(constant, _power(a, b)), (a, b)


@pytest.mark.parametrize("base_type", INTEGERS, ids=str)
@pytest.mark.parametrize("exponent_type", INTEGERS, ids=str)
def test_integers_to_integers_wrap(base_type: np.dtype[Any], exponent_type: np.dtype[Any]) -> None:
    limits, exponents = np.iinfo(base_type), np.iinfo(exponent_type)
    draw = random.Random(7)
    bases = [-3, -2, -1, 0, 1, 2, 3, limits.min, limits.max, *(draw.randint(limits.min, limits.max) for _ in range(20))]
    counts = [-3, -2, -1, 0, 1, 2, 3, 31, 32, exponents.min, exponents.max]
    counts += [draw.randint(exponents.min, exponents.max) for _ in range(20)]
    pairs = [
        (b, e) for b in bases for e in counts if limits.min <= b <= limits.max and exponents.min <= e <= exponents.max
    ]
    x, exponent = (np.array(column) for column in zip(*pairs, strict=True))
    width = 8 * base_type.itemsize
    expected = [_wrapped(b, e, width) for b, e in pairs]
    got = _pow(x.astype(base_type), exponent.astype(exponent_type))
    assert (got.astype(np.int64) % 2**width).tolist() == expected


def _wrapped(base: int, exponent: int, width: int) -> int:
    if exponent >= 0:
        return int(pow(base, exponent, 2**width))
    return 0 if base == 0 else int(Fraction(base) ** (exponent & 1 | -2)) % 2**width  # a power as odd as it


def test_inputs_reach_all_results() -> None:
    """Of the pairs that are meant to, most have finite results, and many lie within a factor of 1.1 of either end."""
    draw = np.random.default_rng(1)
    for base_type, exponent_type in ((dml.FLOAT32, dml.FLOAT32), (dml.FLOAT16, dml.FLOAT32), (dml.INT32, dml.FLOAT32)):
        made = dict(powers.random_pairs(base_type, exponent_type, 2**16, draw))
        assert sum(pair[0].size for pair in made.values()) == 2**16
        x, exponent = made["results of all sizes"]
        with np.errstate(all="ignore"):
            true = np.abs(_pow(x, exponent).astype(np.float64))
        highest = np.finfo(x.dtype).max if base_type.is_float else np.iinfo(x.dtype).max
        assert ((true > 0) & (true < highest)).mean() > 0.3
        x, exponent = made["results near the edges"]
        with np.errstate(all="ignore"):
            near = np.abs(np.log(np.abs(x.astype(np.float64)) ** exponent) / math.log(highest) - 1) < 0.1
        assert near.mean() > 0.2


def _samples(count: int, widest: float) -> Array:
    """Float32 numbers of both signs, of every magnitude up to ``widest``, and the places where the method changes."""
    random = np.random.default_rng(11)
    spread = random.uniform(-widest, widest, count)
    small = random.choice((-1, 1), count) * 2.0 ** random.uniform(-126, 3, count)
    edges = [0.5, 0.49999997, math.sqrt(0.5), 0.70710677, 6.0, 5.9999995, 36.0, 37.0]
    samples: Array = np.concatenate([spread, small, edges, np.negative(edges)]).astype(np.float32)
    return samples


def _probability_below(x: float) -> float:
    """The normal distribution's, from Python's erfc, whose slope makes up for the rounding of x / sqrt(2)."""
    y = -x * math.sqrt(0.5)
    rounding = float(Fraction(x) ** 2 / 2 - Fraction(y) ** 2) / (2 * y)
    return 0.5 * (math.erfc(y) - 2 / math.sqrt(math.pi) * math.exp(-y * y) * rounding)


def test_gelu_agrees_with_pythons_complementary_error_function() -> None:
    x = _samples(20000, 14.0)
    x = x[np.abs(x) < 36]
    expected = [value * _probability_below(value) for value in x.tolist()]
    np.testing.assert_allclose(reference("ACTIVATION_GELU", x), expected, rtol=2.0**-46)
