"""Arguments of the standard's functions, and float16, which the standard has not: beside NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
import dmlvk.array_api as xp
from dmlvk.array_api import lazy
from tests.counted_calls import calls_of

untyped: Any = xp


def _few() -> xp.Array:
    return xp.asarray([[1.0, 2.0], [3.0, 4.0]])


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "tile": lambda: xp.tile(_few(), (2**31, 2**31)),
    "tile by a range": lambda: xp.tile(_few(), range(10**12)),
    "repeat": lambda: xp.repeat(_few(), 2**40),
    "repeat by an array": lambda: xp.repeat(_few(), xp.asarray([2**62, 2**62]), axis=0),
    "broadcast_to": lambda: xp.broadcast_to(xp.asarray(1.0), (2**20, 2**20)),
    "zeros": lambda: xp.zeros((2**31, 2**31)),
    "ones": lambda: xp.ones((2**24, 2**10)),
    "full": lambda: xp.full(2**40, 1),
    "empty": lambda: xp.zeros((0, 2**63, 2**63)),
    "arange": lambda: xp.arange(2**62),
    "arange of floats": lambda: xp.arange(0.0, 1e308, 1e-300),
    "linspace": lambda: xp.linspace(0.0, 1.0, 2**40),
    "eye": lambda: xp.eye(2**31),
    "outer": lambda: xp.linalg.outer(xp.ones(2**20), xp.ones(2**20)),
    "broadcasting": lambda: xp.ones((2**20, 1)) + xp.ones((1, 2**20)),
    "sum of none": lambda: xp.sum(xp.zeros((0, 2**40)), axis=0),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_no_device_has_is_refused_at_the_call(case: str) -> None:
    with pytest.raises(dml.DmlError):
        TOO_LARGE[case]()


@pytest.mark.parametrize("order", ["nuc", 2, -2])
def test_norms_by_singular_values_are_told_from_those_that_there_are_not(order: str | int) -> None:
    with pytest.raises(dml.UnsupportedError, match=f"matrix_norm: ord={order!r}"):
        xp.linalg.matrix_norm(xp.ones((2, 2)), ord=order)
    with pytest.raises(dml.InvalidArgumentError, match="matrix_norm: there is no norm 'other'"):
        xp.linalg.matrix_norm(xp.ones((2, 2)), ord="other")


@pytest.mark.parametrize("counts", [(2**16, 1), (1, 2**16), (3, 2, 5), (0, 2), ()])
def test_tile_takes_few_launches_and_is_numpys(counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = calls_of(monkeypatch, lazy.Trace, "run")
    made = xp.tile(_few(), counts).numpy()
    np.testing.assert_array_equal(made, np.tile(_few().numpy(), counts))
    assert len(runs) <= 3


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("repeats", [0, 1, 5, np.int64(3)])
def test_repeat_by_a_number_is_numpys(axis: int | None, repeats: int) -> None:
    made = xp.repeat(_few(), repeats, axis=axis).numpy()
    np.testing.assert_array_equal(made, np.repeat(_few().numpy(), repeats, axis=axis))
    np.testing.assert_array_equal(untyped.repeat(_few(), [1, 2], axis=0).numpy(), np.repeat(_few().numpy(), [1, 2], 0))


def test_meshgrid_and_broadcast_arrays_give_lists() -> None:
    vectors = xp.asarray([1, 2, 3]), xp.asarray([4, 5])
    assert type(xp.meshgrid(*vectors)) is list
    assert type(xp.meshgrid()) is list
    assert type(xp.broadcast_arrays(_few(), xp.asarray(1.0))) is list


def test_expand_dims_takes_its_axis_by_place_and_several() -> None:
    assert inspect.signature(xp.expand_dims).parameters["axis"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert xp.expand_dims(_few(), 1).shape == (2, 1, 2)
    assert xp.expand_dims(_few(), axis=(0, -1)).shape == np.expand_dims(_few().numpy(), (0, -1)).shape
    with pytest.raises(IndexError):
        xp.expand_dims(_few(), 3)
    with pytest.raises(dml.InvalidArgumentError):
        xp.expand_dims(_few(), (0, 0))


@pytest.mark.parametrize("named", [{"copy": False}, {"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": "cpu"}])
def test_dlpack_refuses_by_an_error_of_both_kinds(named: dict[str, Any]) -> None:
    with pytest.raises(BufferError) as told:
        _few().__dlpack__(**named)
    assert isinstance(told.value, dml.DmlError)


@pytest.mark.parametrize(
    "named", [{}, {"copy": True}, {"dl_device": (1, 0)}, {"max_version": (0, 0)}, {"max_version": (1, 0)}]
)
def test_dlpack_gives_a_copy(named: dict[str, Any]) -> None:
    assert "dltensor" in repr(_few().__dlpack__(**named))


class _Faulty:
    def __dlpack__(self, **_: object) -> object:
        raise RuntimeError("no such elements")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_from_dlpack_takes_devices_and_tells_what_it_cannot_have() -> None:
    device = xp.asarray(1.0).device
    source = np.arange(3, dtype=np.float32)
    assert xp.from_dlpack(source, device=device, copy=True).numpy().tolist() == [0, 1, 2]
    refused: tuple[tuple[Any, dict[str, Any]], ...] = ((source, {"copy": False}), (_Faulty(), {}))
    for given, named in refused:
        with pytest.raises(BufferError) as told:
            untyped.from_dlpack(given, **named)
        assert isinstance(told.value, dml.DmlError)
    wrong: tuple[tuple[Any, dict[str, Any]], ...] = ((1, {}), (source, {"device": "cpu"}))
    for given, named in wrong:
        with pytest.raises(dml.InvalidArgumentError):
            untyped.from_dlpack(given, **named)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_finfo_knows_every_floating_type(dtype: str) -> None:
    told, known = xp.finfo(np.dtype(dtype)), np.finfo(dtype)
    assert [told.bits, told.eps, told.max, told.min] == [
        float(n) for n in (known.bits, known.eps, known.max, known.min)
    ]
    assert told.dtype == known.dtype


def test_floor_divide_by_an_infinity_is_the_standards_zero() -> None:
    numbers = xp.asarray([2.0, -2.0, 2.0, -2.0])
    by = xp.asarray([-np.inf, np.inf, np.inf, -np.inf])
    for made in (xp.floor_divide(numbers, by), numbers // by):
        assert made.numpy().tolist() == [0, 0, 0, 0]
        assert np.signbit(made.numpy()).tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("values", [[-0.0, 0.0], [0.0, -0.0], [-1.0, -0.0, 0.0], [1.0, 0.0, -0.0]])
def test_zeros_of_both_signs_are_equal_where_places_are_sought(name: str, values: list[float]) -> None:
    assert int(getattr(xp, name)(xp.asarray(values))) == getattr(np, name)(np.array(values, np.float32))


def test_bytes_in_the_other_order_are_taken() -> None:
    assert xp.asarray(np.array([1.0, 2.0], ">f4")).numpy().tolist() == [1, 2]


FOREIGN: dict[str, Callable[[], Any]] = {
    "a number beyond floats": lambda: _few() + 10**400,
    "a correction that is text": lambda: untyped.std(_few(), correction="x"),
    "a complex correction": lambda: untyped.var(_few(), correction=1j),
    "a norm that is a list": lambda: untyped.linalg.vector_norm(_few(), ord=[2]),
    "a matrix norm that is an array": lambda: untyped.linalg.matrix_norm(_few(), ord=np.array([1, 2])),
    "an offset that is text": lambda: untyped.linalg.trace(_few(), offset="x"),
    "a diagonal that is a list": lambda: untyped.triu(_few(), k=[1]),
    "an axis that is a float": lambda: untyped.sum(_few(), axis=1.0),
    "an axis of a set": lambda: untyped.linalg.cross(untyped.ones(3), untyped.ones(3), axis={0}),
    "axes that are a module": lambda: untyped.tensordot(_few(), _few(), axes=np),
    "axes named twice": lambda: untyped.tensordot(_few(), _few(), axes=((0, 0), (0, 0))),
    "an order beyond any": lambda: untyped.diff(_few(), n=object()),
    "a class for an index": lambda: _few()[int],
    "a slice of no steps": lambda: _few()[::0],
    "a slice of text": lambda: _few()["a":],
    "an index of 400 digits": lambda: _few()[10**400],
    "a range for arrays": lambda: untyped.concat(range(10**12)),
    "a type of nothing": lambda: untyped.sum(_few(), dtype=(_few(), None)),
    "a matrix as a truth value": lambda: bool(_few()),
    "the length of a number": lambda: len(untyped.asarray(1)),
    "a vector as an index": lambda: [1, 2].__getitem__(untyped.asarray([1])),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_bad_arguments_get_an_error_of_dmlvk(case: str) -> None:
    with pytest.raises(dml.DmlError):
        FOREIGN[case]()


def test_large_numbers_become_infinities_without_a_warning() -> None:
    assert (xp.asarray([1.0]) * 1e60).numpy().tolist() == [np.inf]


def test_differences_of_more_than_all_are_none() -> None:
    assert xp.diff(_few(), n=10**9).shape == (2, 0)


X = np.array([[1.5, -2.25, 0.1, 3.0], [60000.0, 6e-8, -0.0, 7.0], [0.3, np.inf, -np.inf, 2048.0]], np.float16)

Y = np.array([2.0, 0.7, 3.0, 1.0], np.float16)

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda np, x, y: (x + y) * y - x / y,
    "roots": lambda np, x, y: np.sqrt(np.abs(x)),
    "comparisons": lambda np, x, y: np.where(x > y, x, -x),
    "rounding": lambda np, x, y: np.floor(x[:2]) + np.ceil(y),
    "sums": lambda np, x, y: np.sum(x[:1, :], axis=1) + np.sum(np.abs(y)),
    "extremes": lambda np, x, y: np.max(x, axis=0) + np.min(y),
    "means of what overflows as a sum": lambda np, x, y: np.mean(np.broadcast_to(x[1:2, :1], (3, 1))),
    "places": lambda np, x, y: np.argmax(x[:2], axis=1),
    "order": lambda np, x, y: np.sort(x[:2, :], axis=1),
    "products": lambda np, x, y: np.matmul(x[:1, :], y),
    "shapes": lambda np, x, y: np.concat([x.T, np.flip(x.T, axis=0)], axis=0)[1:, :],
    "kinds": lambda np, x, y: np.isinf(x) | np.isnan(x),
    "numbers": lambda np, x, y: 2 * x[:1, :] ** 2 + 0.5,
    "other types": lambda np, x, y: np.astype(x[:1, :], np.int32) + np.astype(np.astype(y, np.float32) * 3, np.int32),
    "wider": lambda np, x, y: x[:1, :] + np.astype(y, np.float32),
    "made": lambda np, x, y: np.full((4,), 0.1, dtype=np.float16) + np.linspace(0.0, 1.0, 4, dtype=np.float16),
}


@pytest.mark.skipif(not hasattr(np, "concat"), reason="NumPy has the standard's names from 2.0 on")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(device: dml.Device, name: str) -> None:
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wanted = function(np, X, Y)
    made = function(xp, xp.asarray(X, device=device), xp.asarray(Y, device=device))
    found = np.asarray(made)
    assert found.dtype == wanted.dtype
    if found.dtype == np.float16:
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-3, equal_nan=True)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_arithmetic_is_correctly_rounded(any_device: dml.Device) -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.integers(0, 2**16, 20_000, dtype=np.uint16).view(np.float16) for _ in range(2))
    mine = [xp.asarray(values, device=any_device) for values in (x, y)]
    with np.errstate(all="ignore"):
        wanted = [x + y, x - y, x * y, x / y, np.sqrt(np.abs(x))]
    found = [mine[0] + mine[1], mine[0] - mine[1], mine[0] * mine[1], mine[0] / mine[1], xp.sqrt(xp.abs(mine[0]))]
    for made, numpy_made in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(made), numpy_made)
