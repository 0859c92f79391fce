"""Element-wise functions give what array-api-strict gives: exactly, or within their stated roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dmlvk.array_api as xp
from tests.array_api.samples import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMERIC,
    arrays,
    check,
    ours,
    pairs,
    same,
    shapes,
    strict,
    theirs,
    tried,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, of overflow in the reference


def _of(*groups: tuple[Any, str]) -> dict[str, Any]:
    return {name: value for value, names in groups for name in names.split()}


EXACT_OF_ONE = _of(
    (NUMERIC, "abs ceil floor isfinite isinf isnan negative positive round sign square trunc"),
    (FLOATS, "reciprocal signbit sqrt"),
    (("bool", *INTEGERS), "bitwise_invert"),
    (("bool",), "logical_not"),
)
ROUNDED_OF_ONE = _of(
    (4.0, "acos acosh asin asinh atan atanh cos cosh exp log log2 log10 sin sinh tan tanh"), (6.0, "expm1 log1p")
)
EXACT_OF_TWO = _of(
    (NUMERIC, "add greater greater_equal less less_equal maximum minimum multiply subtract"),
    (FLOATS, "copysign divide"),
    (("bool", *INTEGERS), "bitwise_and bitwise_or bitwise_xor"),
    (("bool",), "logical_and logical_or logical_xor"),
    (ALL, "equal not_equal"),
)
ROUNDED_OF_TWO = _of((4.0, "atan2 hypot logaddexp"))
OTHERS = {
    "bitwise_left_shift", "bitwise_right_shift", "clip", "floor_divide", "imag", "nextafter", "pow", "remainder",
    "where", "conj", "real",
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT_OF_ONE)
@tried
@given(data=st.data())
def test_functions_of_one_array_are_exact(name: str, data: Any) -> None:
    x = data.draw(st.sampled_from(EXACT_OF_ONE[name]).flatmap(lambda dtype: arrays(dtype, shapes())))
    same(name, x)


@pytest.mark.parametrize("name", ROUNDED_OF_ONE)
@tried
@given(data=st.data())
def test_functions_of_one_array_are_rounded(name: str, data: Any) -> None:
    same(name, data.draw(arrays("float32", shapes())), is_wide=True, ulps=ROUNDED_OF_ONE[name])


@pytest.mark.parametrize("name", EXACT_OF_TWO)
@tried
@given(data=st.data())
def test_functions_of_two_arrays_are_exact(name: str, data: Any) -> None:
    signs = name not in ("maximum", "minimum")  # of zeros, which are equal
    same(name, *data.draw(pairs(EXACT_OF_TWO[name])), signs=signs)


@pytest.mark.parametrize("name", ROUNDED_OF_TWO)
@tried
@given(data=st.data())
def test_functions_of_two_arrays_are_rounded(name: str, data: Any) -> None:
    same(name, *data.draw(pairs(FLOATS)), is_wide=True, ulps=ROUNDED_OF_TWO[name])


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@tried
@given(data=st.data())
def test_division_of_integers_rounds_down(name: str, data: Any) -> None:
    a, b = data.draw(pairs(INTEGERS))
    assume(np.all(b != 0))
    same(name, a, b)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@tried
@given(data=st.data())
def test_division_of_floats_has_the_special_values_of_the_standard(name: str, data: Any) -> None:
    a, b = data.draw(pairs(FLOATS))
    if name == "floor_divide":
        # An infinity's quotient may be NaN or infinite, and one by an infinity is a zero where NumPy has -1.
        assume(np.all(np.isfinite(a)) and not np.any(np.isinf(b)))
    same(name, a, b)


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
@tried
@given(data=st.data())
def test_shifts_leave_nothing_of_what_is_moved_out(name: str, data: Any) -> None:
    a = data.draw(st.sampled_from(INTEGERS).flatmap(lambda dtype: arrays(dtype, shapes())))
    b = data.draw(arrays(a.dtype.name, a.shape, 0, 70))
    same(name, a, b)


@tried
@given(data=st.data())
def test_the_next_float_is_the_next_one(data: Any) -> None:
    a, b = data.draw(pairs(FLOATS))
    with np.errstate(all="ignore"):
        wanted = np.nextafter(a, b)
    made = np.asarray(xp.nextafter(ours(a), ours(b)))
    np.testing.assert_array_equal(made, wanted)


@tried
@given(data=st.data())
def test_integers_are_raised_to_powers(data: Any) -> None:
    same("pow", *data.draw(pairs(INTEGERS, 0, 20)))


@tried
@given(data=st.data())
def test_floats_are_raised_to_powers(data: Any) -> None:
    same("pow", *data.draw(pairs(FLOATS)), is_wide=True, ulps=8)


@tried
@given(data=st.data())
def test_floats_are_raised_to_a_number(data: Any) -> None:
    x, power = data.draw(arrays("float32", shapes())), data.draw(st.sampled_from([2, 3, 0.5, -1, -2.5, 0, 1]))
    x = x[None]  # NumPy's root of an array without axes is NaN of -infinity, against the standard
    wanted = strict.pow(theirs(x, is_wide=True), strict.asarray(np.full(x.shape, float(power))))
    check(ours(x) ** power, wanted, ulps=8)


@tried
@given(data=st.data())
def test_elements_are_kept_within_bounds(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    x = data.draw(arrays(dtype, shapes()))
    low, high = sorted(data.draw(st.tuples(st.integers(0, 100), st.integers(0, 100))))
    low_or_none, high_or_none = data.draw(st.sampled_from([(low, high), (None, high), (low, None), (None, None)]))
    same("clip", x, low_or_none, high_or_none)


@tried
@given(data=st.data())
def test_a_condition_chooses(data: Any) -> None:
    a, b = data.draw(pairs(ALL))
    shape = np.broadcast_shapes(a.shape, b.shape)
    same("where", data.draw(arrays("bool", shape[-1:])), a, b)


@tried
@given(data=st.data())
def test_real_numbers_are_their_own_conjugates(data: Any) -> None:
    x = data.draw(arrays("float32", shapes()))
    for name in ("conj", "real"):
        check(getattr(xp, name)(ours(x)), x)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, 0.5, -0.5, 1e-30, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32
)


@pytest.mark.parametrize("name", [name for name in EXACT_OF_ONE if "float32" in EXACT_OF_ONE[name]] + [*ROUNDED_OF_ONE])
def test_special_values_of_one_array(name: str) -> None:
    same(name, SPECIAL, is_wide=name in ROUNDED_OF_ONE, ulps=ROUNDED_OF_ONE.get(name, 0))


@pytest.mark.parametrize(
    "name",
    [name for name in EXACT_OF_TWO if "float32" in EXACT_OF_TWO[name]]
    + [*ROUNDED_OF_TWO, "floor_divide", "remainder", "pow"],
)
def test_special_values_of_two_arrays(name: str) -> None:
    is_wide = name in ROUNDED_OF_TWO or name == "pow"
    a, b = SPECIAL[:, None], SPECIAL
    if name == "floor_divide":  # an infinity's quotient may be NaN or infinite, and one by an infinity is a zero
        a, b = a[:13], b[~np.isinf(b)]
    same(name, a, b, is_wide=is_wide, ulps=8 if is_wide else 0, signs=name not in ("maximum", "minimum"))


@pytest.mark.parametrize("power", [2, 3, 0.5, -1, -2.5, 0, 1])
def test_special_values_to_the_power_of_a_number(power: float) -> None:
    wanted = strict.pow(theirs(SPECIAL, is_wide=True), strict.asarray(np.full(SPECIAL.shape, float(power))))
    check(ours(SPECIAL) ** power, wanted, ulps=8)


@pytest.mark.parametrize(
    "word", ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]
)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_operators_take_numbers_on_both_sides_and_in_place(word: str, dtype: str) -> None:
    values = np.array([1, 2, 3, 7], dtype)
    names = {"x": ours(values), "y": theirs(values)}
    for text in (f"x {word} 2", f"2 {word} x", f"x {word} x"):
        check(eval(text, dict(names)), eval(text.replace("x", "y"), dict(names)))  # of the list above
    if word not in ("<", "<=", ">", ">=", "==", "!="):
        exec(f"x {word}= 2; y {word}= 2", names)  # of the list above
        check(names["x"], names["y"])
