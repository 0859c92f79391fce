"""NumPy's words, operators and special values on graphs give what NumPy gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.operators import OPERATORS
from tests.graphs.support import Array, result

RNG = np.random.default_rng(11)

A = RNG.integers(-9, 9, (3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("word", ["sum", "prod", "max", "min", "mean"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_reductions(device: dml.Device, word: str, axis: Any) -> None:
    small = np.sign(A) * 2 if word == "prod" else A
    for keepdims in (False, True):
        got = result(device, lambda a, k=keepdims: getattr(F, word)(a, axis=axis, keepdims=k), small)
        expected = getattr(np, word)(small.astype(np.float64), axis=axis, keepdims=keepdims)
        assert got.shape == (expected.shape or (1,))
        assert np.array_equal(got, expected.astype(np.float32).reshape(got.shape))


def test_sums_of_small_integers_do_not_wrap(device: dml.Device) -> None:
    bytes_ = np.full(300, 200, np.uint8)
    got = result(device, F.sum, bytes_)
    assert got.dtype == np.uint32 and got == 60000
    assert result(device, lambda a: F.sum(a < 0), A).tolist() == [(A < 0).sum()]


@pytest.mark.parametrize("word", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_running_sums_and_products(device: dml.Device, word: str, axis: Any) -> None:
    small = np.sign(A) * 2 if word == "cumprod" else A
    got = result(device, lambda a: getattr(F, word)(a, axis=axis), small)
    expected = getattr(np, word)(small.astype(np.float64), axis=axis)
    assert np.array_equal(got, expected.astype(np.float32))
    assert result(device, getattr(F, word), np.full(9, 3, np.uint8)).dtype == np.uint32
    for bad in (3, -4, (0, 1), 0.5):
        with pytest.raises(dml.InvalidArgumentError, match=f"functions.{word}: axis"):
            result(device, lambda a, bad=bad: getattr(F, word)(a, axis=bad), small)


@pytest.mark.parametrize("word", ["argmax", "argmin"])
def test_places(device: dml.Device, word: str) -> None:
    for axis in (None, 1, -1):
        got = result(device, lambda a, axis=axis: getattr(F, word)(a, axis=axis), A)
        assert np.array_equal(got, np.atleast_1d(getattr(np, word)(A, axis=axis)))


def test_two_tensors_or_one(device: dml.Device) -> None:
    b = A[::-1].copy()
    assert np.array_equal(result(device, F.max, A, b), np.maximum(A, b))
    assert np.array_equal(result(device, lambda a: F.max(a, 2), A), np.maximum(A, 2))
    assert np.array_equal(result(device, F.maximum, A, b), np.maximum(A, b))
    assert result(device, F.max, A) == A.max()
    assert np.array_equal(result(device, F.mean, A, b), (A + b) / 2)


SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((7, 1, 3, 4), (2, 4, 5)),
    ((2, 3, 2, 3, 4), (3, 1, 4, 2)), ((2, 2, 1, 2, 3, 4), (1, 1, 3, 1, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_of_matrices(device: dml.Device, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in shapes)
    expected = np.atleast_1d(a @ b)
    for build in (F.matmul, operator.matmul):
        got = result(device, build, a, b)
        assert got.shape == expected.shape
        assert np.array_equal(got, expected)
    assert np.array_equal(result(device, lambda x: a @ x, b), expected)
    assert np.array_equal(result(device, lambda x: x @ b, a), expected)


def test_products_that_do_not_fit(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    x = graph.input("x", dml.FLOAT32, (2, 3, 4))
    with pytest.raises(dml.InvalidArgumentError, match="must be as long as"):
        F.matmul(x, x)
    with pytest.raises(dml.InvalidArgumentError, match="do not broadcast"):
        F.matmul(x, np.ones((3, 4, 2), np.float32))


def test_putting_together(device: dml.Device) -> None:
    b = A[:, :2] * 2
    assert np.array_equal(result(device, lambda a, b: F.concatenate([a, b], -2), A, b), np.concatenate([A, b], 1))
    for axis in (0, 2, -1):
        got = result(device, lambda a, axis=axis: F.stack([a, a + 1, A], axis), A)
        assert np.array_equal(got, np.stack([A, A + 1, A], axis))
    condition = lambda a: F.where(F.not_equal(a, 3), a, 0)  # noqa: E731
    assert np.array_equal(result(device, condition, A), np.where(A != 3, A, 0))


def test_shapes(device: dml.Device) -> None:
    assert np.array_equal(result(device, F.transpose, A), A.T)
    assert np.array_equal(result(device, lambda a: F.transpose(a, (1, 0, 2)), A), A.transpose(1, 0, 2))
    assert np.array_equal(result(device, lambda a: F.reshape(a, (-1, 2, 5)), A), A.reshape(-1, 2, 5))
    assert np.array_equal(
        result(device, lambda a: F.broadcast_to(a, (2, 3, 4, 5)), A), np.broadcast_to(A, (2, 3, 4, 5))
    )
    for axis in (0, 3, -2):
        assert result(device, lambda a, axis=axis: F.expand_dims(a, axis), A).shape == np.expand_dims(A, axis).shape
    assert np.array_equal(result(device, F.squeeze, A[:1, :, :1].copy()), A[0, :, 0])
    assert result(device, lambda a: F.squeeze(a, -1), A[:1, :, :1].copy()).shape == (1, 4)


INDICES: list[Any] = [
    0, -1, np.s_[1:], np.s_[:2], np.s_[::2], np.s_[::-1], np.s_[:, 1:3], np.s_[..., -1], np.s_[1, :, ::-2],
    np.s_[:, None, 2], np.s_[..., 4:0:-3], np.s_[:, :, 1:2], np.s_[0, 0, 0], np.s_[None, ..., None], np.s_[:, 3, 1::3],
    ...,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_parts(device: dml.Device, index: Any) -> None:
    expected = A[index]
    for build, wanted in ((lambda a: a[index], expected), (lambda a: a[index] * 2 + 1, expected * 2 + 1)):
        got = result(device, build, A)
        assert np.array_equal(got, np.atleast_1d(wanted)) and got.shape == (wanted.shape or (1,))
    turned = A.transpose(2, 0, 1)
    if not isinstance(index, tuple):
        assert np.array_equal(result(device, lambda a: a.transpose(2, 0, 1)[index] + 1, A), turned[index] + 1)


@pytest.mark.parametrize(
    "index", [3, -4, np.s_[2:1], np.s_[0, 0, 0, 0], np.s_[..., ...], [0, 1], True, np.s_[::0], 1.5, "x"]
)
def test_parts_that_are_not_there(any_device: dml.Device, index: Any) -> None:
    x = dml.Graph(any_device).input("x", dml.FLOAT32, A.shape)
    with pytest.raises(dml.InvalidArgumentError, match=r"^<dmlvk.Expression x: FLOAT32 \[3, 4, 5\]>: "):
        x[index]


def test_an_expression_tells_what_an_array_tells(any_device: dml.Device) -> None:
    x = dml.Graph(any_device).input("x", dml.FLOAT16, (2, 3, 4))
    assert x.shape == (2, 3, 4) and x.ndim == 3 and x.dtype == np.float16 and x.T.shape == (4, 3, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint8])
def test_floor_division(device: dml.Device, dtype: Any) -> None:
    a, b = RNG.integers(-128, 127, (2, 500)) if np.dtype(dtype).kind != "u" else RNG.integers(0, 255, (2, 500))
    a[:2], b[b == 0] = (-128 if np.dtype(dtype).kind != "u" else 255), 3
    b[b == -1] = 3  # -128 // -1 is no int8
    a, b = a.astype(dtype), b.astype(dtype)
    assert np.array_equal(result(device, operator.floordiv, a, b), a // b)
    assert np.array_equal(result(device, lambda x: x // 3, a), a // dtype(3))
    assert np.array_equal(result(device, lambda x: 100 // x, b), dtype(100) // b)
    assert np.array_equal(result(device, lambda x, y: divmod(x, y)[1], a, b), np.mod(a, b))


def test_views_that_strides_can_say(device: dml.Device) -> None:
    x = RNG.integers(0, 99, (4, 6, 5)).astype(np.float32)
    got = result(device, lambda a: a.transpose(2, 0, 1).reshape(5, 24) + 0, x)
    assert np.array_equal(got, x.transpose(2, 0, 1).reshape(5, 24))
    with pytest.raises(dml.InvalidArgumentError, match=r"use functions\.identity first"):
        result(device, lambda a: a.transpose(1, 0, 2).reshape(24, 5), x)


def test_every_activation_has_a_short_name() -> None:
    for name in OPERATORS:
        if name.startswith("ACTIVATION_"):
            short = name.removeprefix("ACTIVATION_").lower()
            of_elements = f"ELEMENT_WISE_{short.upper()}" in OPERATORS
            assert of_elements or getattr(F, short) is getattr(F, name.lower()), name


def test_no_word_of_numpys_hides_an_operator() -> None:
    from dmlvk.graphs.numpy_words import ALIASES, BOTH, WORDS

    names = {F.function_name(name) for name in OPERATORS}
    assert not names & (ALIASES.keys() | WORDS.keys())
    assert names >= BOTH.keys() | set(ALIASES.values())


def test_what_was_meant(any_device: dml.Device) -> None:
    with pytest.raises(AttributeError, match=r"no 'tanhh'; did you mean 'tanh'"):
        F.tanhh  # type: ignore[attr-defined]  # noqa: B018  # that is what is tested
    x = dml.Graph(any_device).input("x", dml.FLOAT32, (2, 3))
    for call, meant in (
        (lambda: F.clip(x, mim=0, max=1), "min"),  # type: ignore[call-arg]
        (lambda: F.max(x, axs=0), "axis"),  # type: ignore[call-overload]
        (lambda: F.argmin(x, axis=0, keepdim=True), "keepdims"),  # type: ignore[call-overload]
    ):
        with pytest.raises(TypeError, match=rf"; did you mean '{meant}'\?$") as caught:
            call()
        assert isinstance(caught.value, dml.InvalidArgumentError)


UNARY: dict[str, Array] = {
    "unit": np.array([[-0.75, 0.0, 0.5], [0.25, 0.125, -1.0]], np.float32),
    "positive": np.array([[1.0, 1.5, 2.0], [3.0, 8.0, 100.0]], np.float32),
    "integers": np.array([[-8, 0, 5], [77, 2, -1]], np.int32),
}


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        *[(name, ["unit"]) for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")],
        *[(name, ["unit"]) for name in ("arcsinh", "exp", "sign", "floor", "ceil", "rint", "isnan", "isinf")],
        *[(name, ["positive"]) for name in ("arccosh", "log", "sqrt", "reciprocal")],
        *[(name, ["integers"]) for name in ("negative", "positive", "absolute", "invert")],
        *[(name, ["unit", "positive"]) for name in ("add", "subtract", "multiply", "floor_divide", "arctan2", "fmod")],
        *[(name, ["positive", "unit"]) for name in ("maximum", "minimum", "power", "divide")],
        *[(name, ["unit", "positive"]) for name in ("less", "less_equal", "greater", "greater_equal", "equal")],
        *[(name, ["integers", "integers"]) for name in ("not_equal", "bitwise_and", "bitwise_or", "bitwise_xor")],
    ],
)
def test_universal_functions_of_numpy_take_expressions(device: dml.Device, name: str, arrays: list[str]) -> None:
    """Each operand may be the expression, and the other one a NumPy array: what NumPy gives, but for the last bits."""
    given = [UNARY[which] for which in arrays]
    ufunc = getattr(np, name)
    with np.errstate(all="ignore"):
        expected = ufunc(*given)
    builds: list[Callable[..., Any]] = [ufunc]
    if len(given) == 2:
        builds += [lambda a, b: ufunc(a, given[1]), lambda a, b: ufunc(given[0], b)]
    graph = dml.Graph(device)
    inputs = [graph.input(f"x{number}", array.dtype, array.shape) for number, array in enumerate(given)]
    model = graph.compile(**{f"y{number}": build(*inputs) for number, build in enumerate(builds)})
    results = device.run(model, {f"x{number}": array for number, array in enumerate(given)})
    assert len(results) == len(builds)
    for result_ in results.values():
        np.testing.assert_allclose(result_, expected, rtol=1e-6)


def test_other_functions_of_numpy_take_expressions(device: dml.Device) -> None:
    def built(x: Any) -> Any:
        parts = [np.max(x, 0), np.sum(x, axis=0), np.mean(x, 0), np.clip(x, -1, 2)[0], np.where(x > 0, x, 1)[1]]
        return np.concatenate([*parts, np.stack([np.clip(x, a_min=0, a_max=1)[0]])[0]])

    x = A[:, :, 0] / 4
    expected = [x.max(0), x.sum(0), x.mean(0), np.clip(x, -1, 2)[0], np.where(x > 0, x, 1)[1], np.clip(x, 0, 1)[0]]
    np.testing.assert_allclose(result(device, built, x), np.concatenate(expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.hypot(x, x), "numpy.hypot is not for expressions of graphs; see dmlvk.functions"),
        (lambda x: np.add(x, 1, out=np.zeros(3, np.float32)), "numpy.add with out is not for expressions of graphs"),
        (lambda x: np.add.reduce(x), r"numpy.add.reduce is not for expressions of graphs"),
        (lambda x: np.sum(x, dtype=np.int64), "numpy.sum of expressions of graphs takes .a: .*dtype"),
        (lambda x: np.fft.fft(x), "numpy.fft is not for expressions of graphs"),
        (lambda x: np.round(x, 2), "numpy.round is not for expressions of graphs.*call functions.round"),
    ],
)
def test_numpys_functions_without_a_counterpart_are_refused(
    device: dml.Device, call: Callable[[Any], Any], message: str
) -> None:
    x = dml.Graph(device).input("x", dml.FLOAT32, (3,))
    with pytest.raises(dml.InvalidArgumentError, match=message):
        call(x)
    assert np.shape(x) == (3,) and np.ndim(x) == 1 and np.size(x) == 3


ONE = ["sign", "absolute", "negative", "floor", "ceil", "rint", "sqrt", "reciprocal", "isnan", "isinf", "exp", "log"]

TWO = [
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum", "minimum", "power"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "arctan2"),
]

SPECIAL_OPERATORS: list[Callable[..., Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod)
]

NUMBERS = (0.0, -0.0, 2.5, -2.5, np.inf, -np.inf, np.nan)


def _values(dtype: str) -> Array:
    largest = float(np.finfo(dtype).max)
    plain: list[float] = [0.0, 1, 0.5, 2.5, 3, 7, np.inf, largest, 1e-3]
    return np.array([*plain, *(-value for value in plain), np.nan], dtype)


def _pairs(dtype: str) -> tuple[Array, Array]:
    first, second = np.meshgrid(_values(dtype), _values(dtype))
    return first.ravel().copy(), second.ravel().copy()


def _check(result: Array, expected: Array, *operands: Array, zeros_have_signs: bool = True) -> None:
    """Equal places of NaN and signs of zeros, and numbers within a few units of the last place."""
    assert result.shape == expected.shape
    a, b = result.astype(np.float64), expected.astype(np.float64)
    if expected.dtype == np.float32:  # whose denormals count as zeros of their sign
        b = np.where(np.abs(b) < np.finfo(np.float32).tiny, np.copysign(0, b), b)
    epsilon = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 0.0
    with np.errstate(invalid="ignore"):
        right = (np.isnan(a) & np.isnan(b)) | (a == b) | (np.abs(a - b) <= 8 * epsilon * np.abs(b)) & np.isfinite(b)
    if zeros_have_signs:
        right &= (b != 0) | (np.signbit(a) == np.signbit(b))
    wrong = [[*(each[i] for each in operands), result[i], expected[i]] for i in np.flatnonzero(~right)]
    assert not wrong, f"operands, result, NumPy's: {wrong[:8]}"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", [*ONE, *TWO])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_expressions(device: dml.Device, name: str, dtype: str) -> None:
    operands = (_values(dtype),) if name in ONE else _pairs(dtype)
    expected = getattr(np, name)(*operands)
    signed = name not in ("maximum", "minimum")  # of which zero is the larger one NumPy itself gives now so, now so
    _check(result(device, getattr(np, name), *operands), expected, *operands, zeros_have_signs=signed)
    if hasattr(F, name) and name != "sign":  # that one is the operator
        _check(result(device, getattr(F, name), *operands), expected, *operands, zeros_have_signs=signed)


def _standard(function: Callable[..., Any], first: Array, second: Array) -> Array:
    """NumPy's results, where the standard of arrays has no others: of and by infinities ``//`` is ``/``."""
    expected: Array = function(first, second)
    is_other = (np.isinf(first) | np.isinf(second)) & (function is operator.floordiv)
    return np.where(is_other, first / second, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("function", SPECIAL_OPERATORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_of_arrays_and_numbers(device: dml.Device, function: Callable[..., Any], dtype: str) -> None:
    first, second = _pairs(dtype)
    _check(
        function(device.array(first), device.array(second)).numpy(), _standard(function, first, second), first, second
    )
    values = _values(dtype)
    for number in NUMBERS:
        alike = np.full_like(values, number)
        _check(function(device.array(values), number).numpy(), _standard(function, values, alike), values, alike)
        _check(function(number, device.array(values)).numpy(), _standard(function, alike, values), alike, values)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_bounds(device: dml.Device, dtype: str) -> None:
    values = _values(dtype)
    bounds = [None, *NUMBERS]
    for low in bounds:
        for high in bounds:
            if low is None and high is None:
                continue
            expected = np.clip(values, *(None if each is None else np.dtype(dtype).type(each) for each in (low, high)))
            got = result(device, lambda x, low=low, high=high: np.clip(x, low, high), values)
            _check(got, expected, values, zeros_have_signs=False)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("word", ["argmax", "argmin"])
def test_places_of_extremes_among_zeros_of_both_signs(device: dml.Device, word: str, dtype: str) -> None:
    draw = np.random.default_rng(3)
    tiny = np.finfo(dtype).smallest_subnormal
    values = draw.choice(np.array([0.0, -0.0, 0.0, -0.0, -1, 1, tiny, -tiny], dtype), (200, 5))
    got = result(device, lambda x: getattr(np, word)(x, axis=1), values)
    assert got.tolist() == getattr(np, word)(values, axis=1).tolist()
