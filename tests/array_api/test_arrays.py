"""Creation, shapes, indices, order, sums and products give what array-api-strict gives."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dmlvk
import dmlvk.array_api as xp
from dmlvk.array_api import lazy
from dmlvk.array_api.lazy import MOST_PENDING
from dmlvk.array_api.support import READS_THE_DEVICE, UNSUPPORTED
from tests.array_api import test_elementwise
from tests.array_api.samples import (
    ALL,
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

TRIED_HERE = {
    "all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "astype", "broadcast_arrays", "broadcast_to",
    "can_cast", "concat", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "empty", "empty_like",
    "expand_dims", "eye", "finfo", "flip", "from_dlpack", "full", "full_like", "iinfo", "isdtype", "linspace", "matmul",
    "matrix_transpose", "max", "mean", "meshgrid", "min", "moveaxis", "nonzero", "ones", "ones_like", "permute_dims",
    "prod", "repeat", "reshape", "result_type", "roll", "searchsorted", "sort", "squeeze", "stack", "std", "sum",
    "take", "take_along_axis", "tensordot", "tile", "tril", "triu", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "zeros", "zeros_like",
}  # fmt: skip
LATER = {"broadcast_shapes", "isin"}  # What the standard has since 2025.12

LINALG = {
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "outer", "tensordot", "trace",
    "vecdot", "vector_norm",
}  # fmt: skip


def any_array(dtypes: tuple[str, ...] = ALL, **named: Any) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    return st.sampled_from(dtypes).flatmap(
        lambda dtype: arrays(dtype, shapes(**named), *((-100, 100) if dtype == "float32" else ()))
    )


def axes_of(x: np.ndarray[Any, Any]) -> st.SearchStrategy[Any]:
    """None, an axis, or several."""
    if x.ndim == 0:
        return st.none()
    return st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1), hnp.valid_tuple_axes(x.ndim))


def test_every_function_of_the_standard_is_tried_or_listed() -> None:
    tried_elsewhere = {
        *test_elementwise.EXACT_OF_ONE, *test_elementwise.ROUNDED_OF_ONE, *test_elementwise.EXACT_OF_TWO,
        *test_elementwise.ROUNDED_OF_TWO, *test_elementwise.OTHERS,
    }  # fmt: skip
    standard = {name for name in strict.__all__ if callable(getattr(strict, name)) and name[0].islower()}
    standard -= {"set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags"}
    types = {name for name in standard if isinstance(getattr(strict, name), type(strict.float32))}
    standard = {name for name in standard - types if "Flags" not in name} - LATER
    unsupported = {name for name in UNSUPPORTED if "." not in name}
    assert standard - tried_elsewhere - TRIED_HERE - unsupported == set()
    assert {name for name in standard - unsupported if not hasattr(xp, name)} == set()
    of_linalg = {name for name in strict.linalg.__all__ if name[0].islower()}
    listed = {name.removeprefix("linalg.") for name in UNSUPPORTED if name.startswith("linalg.")}
    assert of_linalg - listed == LINALG & of_linalg
    assert set(READS_THE_DEVICE) <= standard


def test_what_is_unsupported_says_why() -> None:
    for name in UNSUPPORTED:
        if name.startswith("linalg."):
            with pytest.raises(dmlvk.UnsupportedError, match="decomposition"):
                getattr(xp.linalg, name.removeprefix("linalg."))(xp.eye(2))
    for name in ("float64", "complex64", "complex128"):
        with pytest.raises(TypeError, match=f"{name} is not supported: Vulkan"):
            xp.zeros(3, dtype=getattr(xp, name))
    with pytest.raises(TypeError, match="complex"):
        xp.imag(xp.eye(2))
    with pytest.raises(TypeError, match="int32 and float32 have no common type"):
        xp.zeros(3, dtype=xp.int32) + xp.zeros(3)
    with pytest.raises(ValueError, match=r"add: the shapes do not broadcast: \[3\] and \[4\]"):
        xp.zeros(3) + xp.zeros(4)


@tried
@given(data=st.data())
def test_types_promote(data: Any) -> None:
    first, second = data.draw(st.sampled_from(ALL)), data.draw(st.sampled_from(ALL))
    try:
        wanted = strict.result_type(getattr(strict, first), getattr(strict, second))
    except TypeError:
        with pytest.raises(TypeError):
            xp.result_type(getattr(xp, first), getattr(xp, second))
        return
    assert xp.result_type(getattr(xp, first), getattr(xp, second)) == np.dtype(str(wanted).split(".")[-1])
    own, other = getattr(xp, first), getattr(xp, second)
    assert xp.can_cast(own, other) == strict.can_cast(getattr(strict, first), getattr(strict, second))
    for kind in ("bool", "integral", "signed integer", "unsigned integer", "real floating", "numeric"):
        assert xp.isdtype(own, kind) == strict.isdtype(getattr(strict, first), kind)


def test_types_tell_their_limits() -> None:
    for name in INTEGERS:
        assert xp.iinfo(getattr(xp, name)).max == strict.iinfo(getattr(strict, name)).max
        assert xp.iinfo(getattr(xp, name)).min == strict.iinfo(getattr(strict, name)).min
    for word in ("eps", "max", "min", "smallest_normal", "bits"):
        assert getattr(xp.finfo(xp.float32), word) == getattr(strict.finfo(strict.float32), word)


@tried
@given(data=st.data())
def test_elements_are_converted(data: Any) -> None:
    x = data.draw(any_array())
    wanted = data.draw(st.sampled_from(ALL))
    if x.dtype == np.float32 and wanted in INTEGERS:
        x = np.clip(x, 0, 100)
    check(xp.astype(ours(x), getattr(xp, wanted)), strict.astype(theirs(x), getattr(strict, wanted)))


@tried
@given(data=st.data())
def test_arrays_are_made(data: Any) -> None:
    shape, dtype = data.draw(shapes()), data.draw(st.sampled_from(ALL))
    own, other = getattr(xp, dtype), getattr(strict, dtype)
    for name in ("zeros", "ones"):
        check(getattr(xp, name)(shape, dtype=own), getattr(strict, name)(shape, dtype=other))
        like = getattr(xp, f"{name}_like")(xp.empty(shape, dtype=own))
        check(like, getattr(strict, name)(shape, dtype=other))
    check(xp.full(shape, 1, dtype=own), strict.full(shape, True if dtype == "bool" else 1, dtype=other))
    check(
        xp.full_like(xp.empty_like(xp.zeros(shape, dtype=own)), 1),
        strict.full(shape, True if dtype == "bool" else 1, dtype=other),
    )
    rows, columns, k = (data.draw(st.integers(0, 5)) for _ in range(3))
    check(xp.eye(rows, columns, k=k - 2, dtype=own), strict.eye(rows, columns, k=k - 2, dtype=other))


@tried
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool), st.sampled_from(NUMERIC))
def test_sequences_are_made(start: int, stop: int, step: int, dtype: str) -> None:
    if dtype.startswith("u"):
        start, stop, step = abs(start), abs(stop), abs(step)
    check(xp.arange(start, stop, step, dtype=getattr(xp, dtype)), np.arange(start, stop, step, dtype=dtype))
    number = abs(stop)
    check(xp.linspace(start, stop, number), np.linspace(start, stop, number), ulps=4, absolute=1e-5)


def test_vectors_span_a_grid() -> None:
    for indexing in ("xy", "ij"):
        same("meshgrid", np.arange(3), np.arange(4), np.arange(2), indexing=indexing)


@tried
@given(data=st.data())
def test_shapes_are_changed(data: Any) -> None:
    x = data.draw(any_array())
    same("reshape", x, (x.size,))
    same("permute_dims", x, tuple(data.draw(st.permutations(range(x.ndim)))))
    index = data.draw(st.integers(-x.ndim - 1, x.ndim))
    same("expand_dims", x, axis=index)
    check(xp.squeeze(xp.expand_dims(ours(x), axis=index), axis=index), theirs(x))
    same("broadcast_to", x, (2, *(3 if size == 1 else size for size in x.shape)))
    same("broadcast_arrays", x, np.array(True))
    for axis in (None, *range(x.ndim)):
        same("flip", x, axis=axis)
        same("roll", x, 2, axis=axis)
        same("repeat", x, 2, axis=axis)
    same("tile", x, tuple(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))))
    if x.ndim:
        same("moveaxis", x, 0, -1)
        same("unstack", x)
    if x.ndim >= 2:
        check(ours(x).mT, theirs(x).mT)
        for k in (-1, 0, 1):
            same("tril", x, k=k)
            same("triu", x, k=k)


@tried
@given(data=st.data())
def test_arrays_are_joined(data: Any) -> None:
    a, b = np.broadcast_arrays(*data.draw(pairs(ALL)))
    for axis in (None, *range(a.ndim)):
        same("concat", [a, b, a], axis=axis)
    if a.dtype == b.dtype:
        same("stack", [a, b], axis=-1)


def test_elements_are_repeated_as_often_as_an_array_says() -> None:
    same("repeat", np.arange(12).reshape(3, 4), np.array([2, 0, 1]), axis=0)


@tried
@given(data=st.data())
def test_parts_are_taken_and_put(data: Any) -> None:
    x = data.draw(any_array())
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, max_dims=5))
    check(ours(x)[key], x[key])
    made, wanted = ours(x), x.copy()
    view = made[...]
    plain = tuple(one for one in (key if isinstance(key, tuple) else (key,)) if one is not None)
    made[plain] = True if x.dtype == np.bool_ else 1
    wanted[plain] = 1
    check(made, wanted)
    check(view, x)  # other arrays keep their elements


@tried
@given(data=st.data())
def test_elements_at_integers_are_taken_and_put(data: Any) -> None:
    x = data.draw(any_array(least=1, smallest=1))
    index = data.draw(
        hnp.integer_array_indices(x.shape, result_shape=hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    )
    key = tuple(map(ours, index))
    check(ours(x)[key], x[index])
    check(ours(x)[key[0]], x[index[0]])
    check(ours(x)[..., key[-1]], x[..., index[-1]])
    made, wanted = ours(x), x.copy()
    made[key] = ours(np.zeros((), x.dtype))
    wanted[index] = 0
    check(made, wanted)


@tried
@given(data=st.data())
def test_masks_choose(data: Any) -> None:
    x = data.draw(any_array(least=1))
    mask = data.draw(arrays("bool", x.shape[: data.draw(st.integers(1, x.ndim))]))
    check(ours(x)[ours(mask)], x[mask])
    made, wanted = ours(x), x.copy()
    made[ours(mask)] = ours(np.zeros((), x.dtype))
    wanted[mask] = 0
    check(made, wanted)


@tried
@given(data=st.data())
def test_elements_are_taken_along_axes(data: Any) -> None:
    x = data.draw(any_array(least=1, smallest=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape, size = list(x.shape), x.shape[axis]
    same("take", x, data.draw(arrays("int64", (3,), 0, size - 1)), axis=axis)
    shape[axis] = 2
    each = data.draw(arrays("int64", tuple(shape), 0, size - 1))
    check(xp.take_along_axis(ours(x), ours(each), axis=axis), np.take_along_axis(x, each, axis=axis))


def test_what_lies_outside_is_refused() -> None:
    x = xp.zeros((2, 3))
    for key in (2, (0, 3), (0, 0, 0), -3):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(ValueError, match="made of integers"):
        x["a"]
    with pytest.raises(TypeError, match="no common type"):
        xp.zeros(3, dtype=xp.int32)[0] = xp.asarray(1.0)


@pytest.mark.parametrize("name", ["all", "any", "count_nonzero"])
@tried
@given(data=st.data())
def test_truths_are_counted(name: str, data: Any) -> None:
    x = data.draw(any_array())
    same(name, x, axis=data.draw(axes_of(x)), keepdims=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@tried
@given(data=st.data())
def test_integers_are_reduced(name: str, data: Any) -> None:
    x = data.draw(any_array(INTEGERS, smallest=0 if name in ("sum", "prod") else 1))
    same(name, x, axis=data.draw(axes_of(x)), keepdims=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
@tried
@given(data=st.data())
def test_floats_are_reduced(name: str, data: Any) -> None:
    x = data.draw(arrays("float32", shapes(smallest=1), -10, 10))
    if x.ndim and name in ("max", "min") and data.draw(st.booleans()):
        x[..., :1] = np.nan
    axis, keepdims = data.draw(axes_of(x)), data.draw(st.booleans())
    if name in ("var", "std"):
        axis = None if axis == () else axis
    near = 1e-4 if name != "prod" else 0
    same(name, x, is_wide=True, ulps=64, absolute=near, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@tried
@given(data=st.data())
def test_running_sums_and_products(name: str, data: Any) -> None:
    x = data.draw(any_array(INTEGERS, least=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    same(name, x, axis=axis, include_initial=data.draw(st.booleans()))
    same(name, np.clip(x, 0, 2).astype(np.float32), axis=axis)


@tried
@given(data=st.data())
def test_differences(data: Any) -> None:
    same("diff", data.draw(any_array(INTEGERS, least=1)), n=data.draw(st.integers(0, 2)))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@tried
@given(data=st.data())
def test_places_of_extremes(name: str, data: Any) -> None:
    x = data.draw(any_array(NUMERIC, smallest=1))
    axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)) if x.ndim else st.none())
    same(name, x, axis=axis, keepdims=data.draw(st.booleans()))


@tried
@given(data=st.data())
def test_places_of_what_is_not_zero(data: Any) -> None:
    same("nonzero", data.draw(any_array(ALL, least=1)))


@tried
@given(data=st.data())
def test_sorting_is_stable(data: Any) -> None:
    x = data.draw(any_array(NUMERIC, least=1))
    axis, descending = data.draw(st.integers(-x.ndim, x.ndim - 1)), data.draw(st.booleans())
    for name in ("sort", "argsort"):
        made = getattr(xp, name)(ours(x), axis=axis, descending=descending)
        check(made, getattr(strict, name)(theirs(x), axis=axis, descending=descending, stable=True), signs=False)


@tried
@given(data=st.data())
def test_places_in_sorted_vectors(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    x, y = data.draw(arrays(dtype, shapes(least=1, most=1, side=9), -9, 9)), data.draw(arrays(dtype, shapes(), -9, 9))
    for side in ("left", "right"):
        check(
            xp.searchsorted(ours(np.sort(x)), ours(y), side=side), np.asarray(np.searchsorted(np.sort(x), y, side=side))
        )


@tried
@given(data=st.data())
def test_values_once(data: Any) -> None:
    x = data.draw(any_array(ALL))
    for name in ("unique_all", "unique_values", "unique_counts", "unique_inverse"):
        same(name, x, signs=False)


@tried
@given(data=st.data())
def test_products_of_matrices(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    n, m, k = (data.draw(st.integers(0, 4)) for _ in range(3))
    a_shape, b_shape = data.draw(
        st.sampled_from([((n, k), (k, m)), ((k,), (k,)), ((2, 1, n, k), (3, k, m)), ((k,), (k, m)), ((n, k), (k,))])
    )
    limits = (-100, 100) if dtype == "float32" else (None, None)
    a, b = data.draw(arrays(dtype, a_shape, *limits)), data.draw(arrays(dtype, b_shape, *limits))
    same("matmul", a, b, is_wide=True, absolute=0.02 if dtype == "float32" else 0)
    if a.ndim == 2 and b.ndim == 2:
        same("tensordot", a, b, is_wide=True, absolute=0.02, axes=1)
        same("tensordot", np.moveaxis(a, 0, 1), b, is_wide=True, absolute=0.02, axes=((0,), (0,)))
    if a.shape == b.shape:
        same("vecdot", a, b, is_wide=True, absolute=0.02)


@tried
@given(data=st.data())
def test_linear_algebra(data: Any) -> None:
    x = data.draw(arrays("int8", data.draw(st.sampled_from([(3, 3), (2, 3, 3)])), -80, 80)).astype(np.float32) / 8
    for offset in (-1, 0, 1):
        same("linalg.diagonal", x, is_wide=True, offset=offset)
        same("linalg.trace", x, is_wide=True, ulps=4, absolute=1e-5, offset=offset)
    same("linalg.cross", x, x[..., ::-1], is_wide=True, ulps=4, absolute=1e-4)
    for order in (1, 2, 3, float("inf"), -float("inf"), 0):
        same("linalg.vector_norm", x, is_wide=True, ulps=16, axis=-1, ord=order)
    for norm in (1, -1, float("inf"), -float("inf"), "fro"):
        same("linalg.matrix_norm", x, is_wide=True, ulps=16, ord=norm)
    for n in (0, 1, 3):
        same("linalg.matrix_power", x, n, is_wide=True, ulps=16, absolute=0.1)
    same("linalg.outer", *x.reshape(-1, 3)[:2])


def test_numbers_and_other_libraries() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert (float(x[1, 1]), int(x[0, 1]), bool(x[0, 0]), len(x), xp.asarray(3).__index__()) == (4.0, 2, True, 2, 3)
    np.testing.assert_array_equal(np.from_dlpack(x), np.asarray(x))
    check(xp.from_dlpack(np.arange(5)), np.arange(5))
    with pytest.raises(TypeError):
        bool(x)
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    check(x + np.ones((2, 2), np.float32), np.array([[2, 3], [4, 5]], np.float32))
    assert x.__array_namespace__(api_version="2024.12") is xp
    assert x.device in xp.__array_namespace_info__().devices()
    assert set(xp.__array_namespace_info__().dtypes()) == set(ALL)
    assert xp.__array_namespace_info__().default_dtypes()["real floating"] == xp.float32
    check(copy.deepcopy(x), np.asarray(x))


def test_an_array_of_the_device_is_used_where_it_lies() -> None:
    device = dmlvk.default_device()
    own = device.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    namespace = own.__array_namespace__()
    x = namespace.asarray(own)
    assert x.device_array() is own
    check(namespace.sum(own), np.float32(15))


def chain(x: Any, y: Any) -> Any:
    for step in range(2 * MOST_PENDING):
        x = x * y + 0.25 if step % 2 else xp.tanh(x) - y / 3.0
    return xp.where(x > 0, x, xp.expm1(x))


def test_operations_wait_and_have_the_same_bits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    x, y = (ours(generator.normal(size=(7, 5)).astype(np.float32)) for _ in range(2))
    waiting = chain(x, y)
    assert waiting.is_pending
    assert waiting.value.weight <= MOST_PENDING
    monkeypatch.setattr(lazy, "MOST_PENDING", 0)  # then operands are computed before
    at_once = chain(x, y)
    assert at_once.value.weight == 1
    np.testing.assert_array_equal(np.asarray(waiting).view(np.uint32), np.asarray(at_once).view(np.uint32))


def test_what_somebody_holds_is_computed_once() -> None:
    x = xp.asarray([1.0, 2.0])
    held = x + 1.0
    made = (held * 2.0) - 1.0
    were_pending = [held.is_pending]
    check(made, np.array([3, 5], np.float32))
    assert [*were_pending, held.is_pending] == [True, False]  # it was written beside the result
    check(held, np.array([2, 3], np.float32))


def test_operands_are_let_go_when_a_value_is_computed() -> None:
    x = xp.asarray([1.0, 2.0])
    operand = x.value
    made = x * 2.0
    assert operand in (made.value.operands_if_pending() or ())
    made.numpy()
    assert made.value.operands_if_pending() is None


def test_what_is_refused_is_refused_at_the_call() -> None:
    x = xp.exp(xp.zeros(3))
    with pytest.raises(ValueError, match="add: the shapes"):
        x + xp.zeros(2)
    assert x.is_pending  # the error needed no values


def test_an_array_that_is_overwritten_or_closed_leaves_results_as_they_were() -> None:
    device = dmlvk.default_device()
    own = device.array(np.array([1.0, 2.0], np.float32))
    waiting = xp.asarray(own) + 1.0
    graph = dmlvk.Graph(device)
    doubled = graph.compile(graph.input("x", dmlvk.FLOAT32, (2,)) * 2.0)
    device.run(doubled, {"x": np.array([5.0, 6.0], np.float32)}, out={"output": own})
    check(waiting, np.array([2, 3], np.float32))
    check(xp.asarray(own), np.array([10, 12], np.float32))
    waiting = xp.asarray(own) + 1.0
    own.close()
    check(waiting, np.array([11, 13], np.float32))


def test_empty_arrays_need_no_device() -> None:
    x = xp.zeros((0, 3))
    assert float(xp.sum(x)) == 0
    check(xp.sum(x, axis=0), np.zeros(3, np.float32))
    check(xp.exp(x), np.zeros((0, 3), np.float32))
    check(xp.matmul(xp.zeros((2, 0)), x), np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="max: there are no elements"):
        xp.max(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: xp.reshape(x, "ab"), "reshape: shape"),
        (lambda x: xp.reshape(x, float("nan")), "reshape: shape"),
        (lambda x: xp.broadcast_to(x, 3.0), "broadcast_to: shape must be a sequence of integers; got 3.0"),
        (lambda x: xp.permute_dims(x, 1), "permute_dims: axes must be a sequence of integers; got 1"),
        (lambda x: xp.concat(x), "concat: takes a sequence of arrays; got Array"),
        (lambda x: xp.stack(3.5), "stack: takes a sequence of arrays; got float"),
        (lambda x: xp.roll(x, [[1]], axis=0), "roll: shift must be an integer"),
        (lambda x: xp.tile(x, 2), "tile: repetitions must be a sequence of integers; got 2"),
        (lambda x: xp.sum(x, axis=x), "sum: axis must be an integer"),
        (lambda x: xp.sum(x, dtype=2**40), "sum: 1099511627776 is no data type"),
        (lambda x: xp.vecdot(x, x, axis=0.5), "vecdot: axis must be an integer; got 0.5"),  # type: ignore[arg-type]
        (lambda x: xp.eye(x), "eye: "),
        (lambda x: xp.full(2, "x"), "full: 'x' is no number of"),
        (lambda x: xp.full_like(x, float("nan"), dtype=xp.int32), "full: nan is no number of int32"),
        (lambda x: xp.arange([1], x), "arange: must be given finite numbers"),
        (lambda x: xp.arange(0, 1, float("nan")), "arange: must be given finite numbers; got nan"),
        (lambda x: xp.linspace(0, 1, (3,)), "linspace: num must be an integer"),  # type: ignore[arg-type]
        (lambda x: xp.isdtype(object(), "bool"), "isdtype: .* is no data type"),
    ],
)
def test_wrong_arguments_are_one_error_that_names_function_and_argument(call: Any, message: str) -> None:
    with pytest.raises(dmlvk.InvalidArgumentError, match=f"^{message}"):
        call(xp.ones((2, 3)))
