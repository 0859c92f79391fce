"""The references of exponentials, logarithms, powers, trigonometric and error functions give known values."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import powers
from tests.conformance.known import float32, reference, signed

Array = npt.NDArray[Any]

_E = 2.718281828459045

INF, NAN = math.inf, math.nan


def _is(got: float, expected: float) -> bool:
    """Equal to within 2**-48, zeros with their signs."""
    if math.isnan(expected) or expected == 0 or math.isinf(expected):
        return math.isnan(got) if math.isnan(expected) else got == expected and str(got) == str(expected)
    return math.isclose(got, expected, rel_tol=2.0**-48)


KNOWN: dict[str, tuple[tuple[str, ...], list[tuple[float, ...]]]] = {
    "ELEMENT_WISE_EXP": (
        (),
        [
            (0.0, 1.0), (-0.0, 1.0), (1e-40, 1.0), (1.0, _E), (-1.0, 1 / _E), (0.5, 1.6487212707001282),
            (10.0, 22026.465794806718), (-87.0, 1.6458114310822737e-38), (1000.0, math.inf), (-1000.0, 0.0),
            (math.inf, math.inf), (-math.inf, 0.0), (math.nan, math.nan),
        ],
    ),
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
    "ELEMENT_WISE_SINH": (
        (),
        [
            (0.5, 0.5210953054937474), (-2.0, -3.626860407847019), (2.0**-20, 9.536743164063946e-07),
            (89.0, 2.2448064095871728e+38), (-0.0, -0.0), (-1e-40, -0.0), (2000.0, INF),
            (-INF, -INF), (NAN, NAN),
        ],
    ),
    "ELEMENT_WISE_COSH": (
        (),
        [
            (0.5, 1.1276259652063807), (-2.0, 3.7621956910836314), (-0.0, 1.0), (1e-40, 1.0),
            (-INF, INF), (NAN, NAN),
        ],
    ),
    "ELEMENT_WISE_TANH": (
        (),
        [
            (0.5, 0.46211715726000973), (-2.0, -0.9640275800758169), (30.0, 1.0),
            (2.0**-20, 9.536743164059608e-07), (-0.0, -0.0), (1e-40, 0.0), (-INF, -1.0), (NAN, NAN),
        ],
    ),
}  # fmt: skip
"""By operator its attributes, and rows of an input, values of these attributes, and the result."""
KNOWN["ACTIVATION_TANH"] = KNOWN["ELEMENT_WISE_TANH"]


@pytest.mark.parametrize("operator", KNOWN)
def test_known_values(operator: str) -> None:
    names, rows = KNOWN[operator]
    for x, *values, expected in rows:
        attributes: dict[str, Any] = dict(zip(names, values, strict=True))
        (got,) = reference(operator, np.array([x], np.float32), **attributes)
        assert _is(float(got), expected), (x, *values)


def test_exponential_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(reference("ELEMENT_WISE_EXP", np.array([4.0], np.float32), ScaleBias=half)[0], _E)
    # 1 + 2**-24 is 1 in float32 and 2**-24 itself a denormal of float16, which counts.
    assert _is(
        reference("ELEMENT_WISE_EXP", np.array([2.0**-24], np.float32), ScaleBias=dml.ScaleBias(1.0, 1.0))[0], _E
    )
    assert _is(reference("ELEMENT_WISE_EXP", np.array([2.0**-24], np.float16))[0], 1 + 2.0**-24 + 2.0**-49)


def test_hyperbolic_functions_of_what_scale_bias_made() -> None:
    half = dml.ScaleBias(0.5, -1.0)
    assert _is(reference("ELEMENT_WISE_SINH", np.array([3.0], np.float32), ScaleBias=half)[0], 0.5210953054937474)
    assert _is(reference("ELEMENT_WISE_COSH", np.array([3.0], np.float32), ScaleBias=half)[0], 1.1276259652063807)
    assert _is(reference("ELEMENT_WISE_TANH", np.array([3.0], np.float32), ScaleBias=half)[0], 0.46211715726000973)


def test_logarithm_of_special_values() -> None:
    x = float32(0, 0x80000000, 1, 0x807FFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001)
    assert signed(reference("ELEMENT_WISE_LOG", x)) == [
        *("-inf", "-inf", "-inf", "-inf", "0.0", "nan", "inf", "nan", "nan")
    ]
    half = np.array([0, 1, 0x8001, 0xFC00], np.uint16).view(np.float16)
    assert signed(reference("ELEMENT_WISE_LOG", half)) == ["-inf", repr(-24 * math.log(2)), "nan", "nan"]


def test_logarithm_next_to_one_is_a_series_in_the_distance() -> None:
    x = float32(0x3F7FFFFF, 0x3F800001)
    for value, distance in zip(reference("ELEMENT_WISE_LOG", x), (-(2.0**-24), 2.0**-23), strict=True):
        series = distance - distance**2 / 2 + distance**3 / 3
        assert abs(value / series - 1) < 2.0**-50


def test_logarithm_after_scale_and_bias() -> None:
    x = np.array([0.0, 1.0, 2.5], np.float32)
    got = reference("ELEMENT_WISE_LOG", x, ScaleBias=dml.ScaleBias(2.0, 3.0))
    assert np.abs(got - [math.log(3), math.log(5), math.log(8)]).max() < 2.0**-50


def test_inverse_hyperbolic_functions_undo_the_hyperbolic_ones() -> None:
    """Where the hyperbolic function does not lose what its inverse needs."""
    pairs: list[tuple[Any, Any, Array]] = [
        ("ELEMENT_WISE_ACOSH", np.cosh, np.linspace(1.0, 80.0, 1000)),
        ("ELEMENT_WISE_ASINH", np.sinh, np.linspace(-80.0, 80.0, 1001)),
        ("ELEMENT_WISE_ATANH", np.tanh, np.linspace(-1.0, 1.0, 1001)),
    ]
    for operator, function, y in pairs:
        x = function(y).astype(np.float32)
        true = reference(operator, x)
        assert np.abs(function(true) - x).max() <= 1e-13 * np.abs(x).max()
        assert np.abs(true - y).max() < 3e-7, "off by x's rounding at most"


def test_inverse_hyperbolic_functions_of_small_distances_are_series() -> None:
    t = 2.0**-23
    above_one = np.array([1 + t], np.float32)
    series = math.sqrt(2 * t) * (1 - t / 12)
    assert abs(reference("ELEMENT_WISE_ACOSH", above_one)[0] / series - 1) < 1e-14
    x = 2.0**-20
    small = np.array([x, -x], np.float32)
    for operator, term in (("ELEMENT_WISE_ASINH", -1 / 6), ("ELEMENT_WISE_ATANH", 1 / 3)):
        expected = np.array([1.0, -1.0]) * (x + term * x**3)
        assert np.abs(reference(operator, small) / expected - 1).max() < 1e-15
    below_one = np.array([1 - 2.0**-24], np.float32)
    assert abs(reference("ELEMENT_WISE_ATANH", below_one)[0] - math.log(2.0**25 - 1) / 2) < 1e-14


def test_inverse_hyperbolic_functions_of_special_values() -> None:
    x = float32(0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001)
    above, half = float32(0x3F800001), float32(0x3F000000)
    acosh, asinh, atanh = "ELEMENT_WISE_ACOSH", "ELEMENT_WISE_ASINH", "ELEMENT_WISE_ATANH"
    assert signed(reference(acosh, x)) == ["nan"] * 4 + ["0.0", "nan", "inf", "nan", "nan"]
    one = math.log(1 + math.sqrt(2))
    got = reference(asinh, x)
    assert signed(got[:4]) == ["0.0", "-0.0", "0.0", "-0.0"]
    assert np.abs(got[4:6] - [one, -one]).max() < 1e-15
    assert signed(got[6:]) == ["inf", "-inf", "nan"]
    expected = ["0.0", "-0.0", "0.0", "-0.0", "inf", "-inf", "nan", "nan", "nan"]
    assert signed(reference(atanh, x)) == expected
    assert signed(reference(atanh, above)) == ["nan"]
    assert abs(reference(atanh, half)[0] - math.log(3) / 2) < 1e-15


def _softplus(x: Array, steepness: float) -> Array:
    return reference("ACTIVATION_SOFTPLUS", x, Steepness=steepness)


def _parametric_softplus(x: Array, alpha: float, beta: float) -> Array:
    return reference("ACTIVATION_PARAMETRIC_SOFTPLUS", x, Alpha=alpha, Beta=beta)


def test_softplus_is_symmetric_about_its_ramp_and_follows_its_ends() -> None:
    x = np.linspace(-30, 30, 121, dtype=np.float32)
    for steepness in (1.0, 2.5, -3.0, 2.0**-20):
        got = _softplus(x, steepness)
        assert np.abs(got - got[::-1] - x).max() <= 1e-14 * np.abs(got).max(), "f(x) - f(-x) = x"
        assert got[60] == math.log(2) / steepness
        assert np.abs(_parametric_softplus(x, 3.0, steepness) / (3 * steepness * got) - 1).max() < 1e-14
    far = np.array([200.0, -200.0], np.float32)
    assert np.abs(_softplus(far, 1.0) / [200.0, math.exp(-200.0)] - 1).max() < 1e-15


def test_softplus_of_special_values_and_attributes() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([-inf, -2.0, -0.0, 1e-40, 2.0, inf, nan], np.float32)
    assert signed(_softplus(x, 0.0)) == ["nan", *["inf"] * 4, "nan", "nan"]
    assert signed(_softplus(x, -1e-40)) == ["nan", *["-inf"] * 4, "nan", "nan"]
    assert signed(_softplus(x, inf)) == ["0.0", "0.0", "nan", "nan", "nan", "nan", "nan"]
    assert signed(_softplus(x, -inf)) == ["nan", "nan", "nan", "nan", "-0.0", "-0.0", "nan"]
    assert signed(_softplus(x, nan)) == ["nan"] * 7
    assert signed(_softplus(x, 1.0))[::5] == ["0.0", "inf"]
    assert signed(_softplus(x, -1.0))[::5] == ["-inf", "-0.0"]
    assert signed(_parametric_softplus(x, -0.0, 1.0)) == ["-0.0", *["-0.0"] * 4, "nan", "nan"]
    assert signed(_parametric_softplus(x, -inf, 1.0)) == ["nan", *["-inf"] * 4, "-inf", "nan"]
    assert signed(_parametric_softplus(np.array([-1e30], np.float32), inf, 1.0)) == ["inf"], "above zero, if by little"
    assert signed(_parametric_softplus(x, nan, 1.0)) == ["nan"] * 7


INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4)]


def _pow(x: Array, exponent: Array, **attributes: Any) -> Array:
    return reference("ELEMENT_WISE_POW", x, exponent, **attributes)


# ISO C, F.10.4.4, in order; with numbers where it says «finite», «integer» and the like.
ANNEX_F = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (0.0, -0.5, INF), (-0.0, -0.5, INF),
    (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0),
    (0.0, 0.5, 0.0), (-0.0, 0.5, 0.0), (0.0, INF, 0.0), (-0.0, INF, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0),
    (1.0, NAN, 1.0), (1.0, INF, 1.0), (1.0, -7.3, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (-INF, 0.0, 1.0),
    (0.0, 0.0, 1.0), (-0.0, -0.0, 1.0), (-8.0, 1 / 3, NAN), (-1.0, 0.5, NAN), (-1e4, -1.5, NAN), (0.5, -INF, INF),
    (-0.5, -INF, INF), (2.0, -INF, 0.0), (-2.0, -INF, 0.0), (INF, -INF, 0.0), (0.5, INF, 0.0), (-0.5, INF, 0.0),
    (2.0, INF, INF), (-2.0, INF, INF), (-INF, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0),
    (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -0.5, 0.0), (INF, 0.5, INF), (NAN, 1.0, NAN),
    (2.0, NAN, NAN), (-1.0, NAN, NAN), (0.0, NAN, NAN), (NAN, NAN, NAN),
]  # fmt: skip


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_special_values_of_floats(data_type: Any) -> None:
    x, exponent, expected = (np.array(column) for column in zip(*ANNEX_F, strict=True))
    got = _pow(x.astype(data_type), exponent.astype(np.float32))
    assert signed(got) == signed(expected)
    for value, power, result in ANNEX_F:
        array = np.full(9, value, np.float32)
        assert set(signed(reference("ELEMENT_WISE_CONSTANT_POW", array, Exponent=power))) == {repr(result)}


def test_denormal_exponents_and_bases_are_zeros() -> None:
    x, exponent = np.array([3.0, -1e-40, -1e-40], np.float32), np.array([1e-40, -3.0, 2.0], np.float32)
    assert signed(_pow(x, exponent)) == ["1.0", "-inf", "0.0"]


def test_integer_exponents_of_floats_keep_all_their_bits() -> None:
    x = np.array([-1.0, -1.0, 1 + 2.0**-23, -(1 + 2.0**-23)], np.float32)
    exponent = np.array([2**31 - 1, -(2**31), 2**29 + 1, 2**29 + 1], np.int32)
    got = _pow(x, exponent)
    assert got[:2].tolist() == [-1.0, 1.0]
    true = math.exp((2**29 + 1) * math.log1p(2.0**-23))
    assert np.abs(got[2:] / [true, -true] - 1).max() < 1e-13


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


def test_integers_to_fractions_are_truncated_roots() -> None:
    draw = random.Random(3)
    squares = [
        n * n + d for n in (2, 3, 46340, 65535, *(draw.randint(2, 65535) for _ in range(300))) for d in (-1, 0, 1)
    ]
    x = np.array([n for n in squares if n < 2**32], np.uint32)
    numbers = [int(n) for n in x]

    def power(exponent: float) -> list[int]:
        return [int(v) for v in _pow(x, np.full(x.shape, exponent, np.float32))]

    assert power(0.5) == [math.isqrt(n) for n in numbers]
    assert power(0.25) == [math.isqrt(math.isqrt(n)) for n in numbers]
    assert power(0.75) == [math.isqrt(math.isqrt(n**3)) for n in numbers]
    assert power(1.5) == [min(math.isqrt(n**3), 2**32 - 1) for n in numbers]
    assert power(2.0) == [min(n**2, 2**32 - 1) for n in numbers]
    assert power(1e-30) == power(0.0) == [1] * len(numbers)
    assert power(-1e-30) == power(-0.5) == [0] * len(numbers)


def test_integers_to_floats_saturate_and_give_0_for_nan() -> None:
    pairs = [
        (0, -1.0, 127), (0, -INF, 127), (0, -0.5, 127), (0, 0.0, 1), (0, 2.5, 0), (0, INF, 0), (0, NAN, 0),
        (1, NAN, 1), (1, INF, 1), (-1, INF, 1), (-1, 0.5, 0), (-1, 3.0, -1), (-1, -3.0, -1), (-1, 2.0, 1),
        (-1, NAN, 0), (2, INF, 127), (-2, INF, 127), (-2, -INF, 0), (-2, 7.0, -128), (-2, 9.0, -128), (-2, 8.0, 127),
        (-2, 1.5, 0), (2, 6.99, 127), (2, 6.98, 126), (-2, -1.0, 0), (-128, 1.0, -128), (-128, 0.0, 1), (5, NAN, 0),
        (2, 1e-40, 1), (-2, 16777216.0, 127),
    ]  # fmt: skip
    x, exponent, expected = (np.array(column) for column in zip(*pairs, strict=True))
    assert _pow(x.astype(np.int8), exponent.astype(np.float32)).tolist() == expected.tolist()
    unsigned = np.array([0, 255, 16, 3], np.uint8)
    assert _pow(unsigned, np.array([-1.0, 1.0, 2.0, -1.0], np.float16)).tolist() == [255, 255, 255, 0]


def test_scale_and_bias_apply_to_the_base() -> None:
    x, exponent = np.array([1, 2, 3], np.int32), np.array([2, 3, 1], np.uint8)
    assert _pow(x, exponent, ScaleBias=dml.ScaleBias(-2.0, 1.0)).tolist() == [1, -27, -5]


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


def test_error_function_agrees_with_pythons() -> None:
    x = _samples(20000, 7.0)
    expected = [math.erf(value) for value in x.tolist()]
    np.testing.assert_allclose(reference("ELEMENT_WISE_ERF", x), expected, rtol=2.0**-48)


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


def test_gelu_below_zero_agrees_with_a_series_of_fractions() -> None:
    # x / 2 + x^2 / sqrt(2 pi) * (1 - x^2 / 6 + x^4 / 40 - ...), in which much cancels: hence 400 bits.
    root = Fraction(math.isqrt((1 << 800) * 2 * 31415926535897932384626433832795 // 10**31), 1 << 400)
    for x in (-0.5, -1.5, -3.0, -5.0):
        square, term, total = Fraction(x) ** 2, Fraction(1), Fraction(0)
        for n in range(200):
            total += term / (2 * n + 1)
            term *= -square / (2 * (n + 1))
        expected = float(Fraction(x) / 2 + square * total / root)
        got = float(reference("ACTIVATION_GELU", np.array([x], np.float32))[0])
        assert math.isclose(got, expected, rel_tol=2.0**-46), x


def test_special_values() -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e30, -1e30], np.float32)
    assert signed(reference("ELEMENT_WISE_ERF", x)) == signed([0.0, -0.0, 1, -1, math.nan, 0.0, -0.0, 1, -1])
    got = reference("ACTIVATION_GELU", x)
    assert signed(got) == signed([0.0, -0.0, math.inf, -0.0, math.nan, 0.0, -0.0, x[7], -0.0])
    half = np.array([2.0**-24, -(2.0**-24), 65504, -65504], np.float16)
    assert signed(reference("ELEMENT_WISE_ERF", half))[2:] == ["1.0", "-1.0"]
    tiny = reference("ELEMENT_WISE_ERF", half)[:2] * math.sqrt(math.pi) / 2
    np.testing.assert_allclose(tiny, [2.0**-24, -(2.0**-24)], rtol=2.0**-44)


def test_the_error_function_is_scaled_and_biased_first() -> None:
    x = np.array([1.0, 0.5], np.float32)
    got = reference("ELEMENT_WISE_ERF", x, ScaleBias=dml.ScaleBias(-2.0, 0.5))
    np.testing.assert_allclose(got, [math.erf(-1.5), math.erf(-0.5)], rtol=2.0**-48)


PRECISION = 300
"""Bits behind the point of the fixed-point numbers here: 128 for the largest float32, 64 for a remainder near zero."""


def _inverse_arctangent(n: int) -> int:
    """arctan(1 / n)."""
    power, total, k = (1 << PRECISION) // n, 0, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return total


PI = 4 * (4 * _inverse_arctangent(5) - _inverse_arctangent(239))  # J. Machin's formula


def _sine_and_cosine(x: Fraction) -> tuple[float, float]:
    angle = int(x * (1 << PRECISION)) % (2 * PI)
    sums, power, n = [0, 0], 1 << PRECISION, 0
    while power:
        sums[n % 2] += power if n % 4 < 2 else -power
        n += 1
        power = (power * angle >> PRECISION) // n
    cosine, sine = (float(Fraction(total, 1 << PRECISION)) for total in sums)
    return sine, cosine


# 16367173 * 2**72 is the float32 nearest to a multiple of pi/2, 9168424 * 2**-12 one of the nearest below 4096.
ANGLES = [0.1, 0.5, 0.7853982, 1.0, 1.5707964, 3.1415927, 4.0, 6.2831855, 100.0, 4095.9998, 4096.0, 65504.0, 1e10]

ANGLES += [16367173 * 2.0**72, 9168424 * 2.0**-12, 1e30, 3.4028235e38, 2.0**127, 1e-30, 2.0**-126]


def test_sine_cosine_and_tangent_agree_with_series() -> None:
    x = np.array([*ANGLES, *(-angle for angle in ANGLES)], np.float32)
    expected = [_sine_and_cosine(Fraction(float(value))) for value in x]
    sines, cosines = (np.array(column) for column in zip(*expected, strict=True))
    np.testing.assert_allclose(reference("ELEMENT_WISE_SIN", x), sines, rtol=2.0**-48)
    np.testing.assert_allclose(reference("ELEMENT_WISE_COS", x), cosines, rtol=2.0**-48)
    np.testing.assert_allclose(reference("ELEMENT_WISE_TAN", x), sines / cosines, rtol=2.0**-48)


@pytest.mark.parametrize("operator", ["ELEMENT_WISE_SIN", "ELEMENT_WISE_COS", "ELEMENT_WISE_TAN"])
def test_trigonometric_functions_of_infinities_are_nan(operator: str) -> None:
    for dtype in (np.float32, np.float16):
        x = np.array([math.inf, -math.inf, math.nan], dtype)
        assert np.isnan(reference(operator, x)).all()


def test_odd_functions_keep_the_sign_of_zero_and_float32_denormals_are_zeros() -> None:
    x = np.array([0.0, -0.0, 1e-40, -1e-40], np.float32)
    for operator in ("ELEMENT_WISE_SIN", "ELEMENT_WISE_TAN"):
        assert [math.copysign(1, value) if value == 0 else 0 for value in reference(operator, x)] == [1, -1, 1, -1]
    assert reference("ELEMENT_WISE_COS", x).tolist() == [1.0] * 4
    tiny = np.array([2.0**-24], np.float16)
    assert reference("ELEMENT_WISE_SIN", tiny).tolist() == [math.sin(2.0**-24)]


def test_an_angle_is_scaled_and_biased_first() -> None:
    x = np.array([1.0, 2.0], np.float32)
    pair = dml.ScaleBias(-2.0, 0.5)
    assert reference("ELEMENT_WISE_SIN", x, ScaleBias=pair).tolist() == [math.sin(-1.5), math.sin(-3.5)]
    assert reference("ELEMENT_WISE_COS", x, ScaleBias=pair).tolist() == [math.cos(-1.5), math.cos(-3.5)]


def test_inverse_functions_undo_the_series() -> None:
    angles = np.array([-1.5, -0.7, -0.1, 1e-6, 0.3, 0.5235988, 0.8, 1.2, 1.57])
    for angle in angles.tolist():
        sine, cosine = _sine_and_cosine(Fraction(angle))
        for operator, value, slope in (
            ("ELEMENT_WISE_ASIN", sine, 1 / cosine),
            ("ELEMENT_WISE_ACOS", sine, -1 / cosine),
            ("ELEMENT_WISE_ATAN", sine / cosine, cosine * cosine),
        ):
            x = np.array([value], np.float32)
            difference = float(x[0]) - value
            if abs(slope * difference) > 2.0**-24:
                continue  # too steep for one step along the tangent
            start = angle if operator != "ELEMENT_WISE_ACOS" else math.pi / 2 - angle
            curved = start + slope * difference
            np.testing.assert_allclose(reference(operator, x), [curved], rtol=0, atol=2.0**-40)


def test_inverse_functions_of_special_values() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 1.0000001, math.inf, -math.inf, math.nan, -1e-40], np.float32)
    half_pi, quarter_pi, pi = PI / 2 ** (PRECISION + 1), PI / 2 ** (PRECISION + 2), PI / 2**PRECISION
    assert signed(reference("ELEMENT_WISE_ASIN", x)) == signed(
        [0.0, -0.0, half_pi, -half_pi, math.nan, math.nan, math.nan, math.nan, -0.0]
    )
    assert signed(reference("ELEMENT_WISE_ACOS", x)) == signed(
        [half_pi, half_pi, 0.0, pi, math.nan, math.nan, math.nan, math.nan, half_pi]
    )
    assert signed(reference("ELEMENT_WISE_ATAN", x)) == signed(
        [0.0, -0.0, quarter_pi, -quarter_pi, math.atan(1 + 2.0**-23), half_pi, -half_pi, math.nan, -0.0]
    )


def test_angle_of_points_in_every_quadrant_and_at_the_edges() -> None:
    pi, inf = PI / 2**PRECISION, math.inf
    points = [
        (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, pi), (-0.0, -0.0, -pi),
        (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, pi), (-0.0, -2.0, -pi),
        (2.0, 0.0, pi / 2), (2.0, -0.0, pi / 2), (-2.0, 0.0, -pi / 2), (-2.0, -0.0, -pi / 2),
        (3.0, inf, 0.0), (-3.0, inf, -0.0), (3.0, -inf, pi), (-3.0, -inf, -pi),
        (inf, 3.0, pi / 2), (-inf, -3.0, -pi / 2),
        (inf, inf, pi / 4), (-inf, inf, -pi / 4), (inf, -inf, 3 * pi / 4), (-inf, -inf, -3 * pi / 4),
        (math.nan, 0.0, math.nan), (0.0, math.nan, math.nan),
        (5.0, 5.0, pi / 4), (5.0, -5.0, 3 * pi / 4), (-5.0, -5.0, -3 * pi / 4), (-5.0, 5.0, -pi / 4),
        (2.0**-126, 2.0**127, 2.0**-253), (2.0**-126, -(2.0**127), pi), (1e-40, 1.0, 0.0), (-1e-40, -1e-40, -pi),
    ]  # fmt: skip
    y, x, expected = (np.array(column) for column in zip(*points, strict=True))
    found = reference("ELEMENT_WISE_ATAN_YX", y.astype(np.float32), x.astype(np.float32))
    assert signed(found) == signed(expected)
