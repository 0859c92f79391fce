"""Python's operators of Arrays, and outputs that are written to Arrays that are there."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
import dmlvk.array_api as xp

RNG = np.random.default_rng(5)
FLOATS = RNG.integers(-9, 9, (3, 4)).astype(np.float32) + np.float32(0.5)
OTHERS = RNG.integers(1, 9, (3, 4)).astype(np.float32)
INTEGERS = RNG.integers(1, 9, (3, 4)).astype(np.int32)

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
SIGN = dml.ElementWiseSign(input_tensor=dml.TensorDesc("FLOAT32", (8,)), output_tensor=dml.TensorDesc("FLOAT32", (8,)))


@pytest.mark.parametrize("operation", [*ARITHMETIC, *COMPARISONS, operator.truediv], ids=lambda f: f.__name__)
def test_arrays_numbers_and_numpys_arrays_on_either_side(device: dml.Device, operation: Callable[..., Any]) -> None:
    """Operands of which NumPy's results are exact, or correctly rounded."""
    a, b = device.array(FLOATS), device.array(OTHERS)
    results = (
        (operation(a, b), operation(FLOATS, OTHERS)),
        (operation(a.T, b.T), operation(FLOATS.T, OTHERS.T)),
        (operation(a, OTHERS[0]), operation(FLOATS, OTHERS[0])),
        (operation(FLOATS[:, :1], b), operation(FLOATS[:, :1], OTHERS)),
        (operation(a, 2), operation(FLOATS, np.float32(2))),
        (operation(7, b), operation(np.float32(7), OTHERS)),
        (operation(np.float32(7), b), operation(np.float32(7), OTHERS)),
    )
    for got, expected in results:
        assert isinstance(got, dml.Array)
        assert np.array_equal(got.numpy(), expected)
        assert got.dtype == (np.bool_ if operation in COMPARISONS else np.float32)


@pytest.mark.parametrize("operation", [*BITS, *ARITHMETIC], ids=lambda f: f.__name__)
def test_integers(device: dml.Device, operation: Callable[..., Any]) -> None:
    values = INTEGERS.view(np.uint32) if operation in (operator.lshift, operator.rshift) else INTEGERS
    array = device.array(values)
    for other, left in ((2, 3), (values[::-1].copy(), values[:1])):
        assert np.array_equal(operation(array, other).numpy(), operation(values, other))
        assert np.array_equal(operation(left, array).numpy(), operation(left, values))


def test_every_operator_of_expressions_is_there() -> None:
    own = {name for kind in dml.Array.__mro__[:-1] for name in vars(kind)}
    words = {name for kind in dml.Expression.__mro__[:-1] for name in vars(kind) if name.startswith("__")}
    wanted = {name for name in words if callable(getattr(dml.Expression, name))}
    wanted -= {"__array_ufunc__", "__array_function__"}
    assert {"__add__", "__rmatmul__", "__pos__"} <= wanted <= own


def test_the_others(device: dml.Device) -> None:
    a, b = device.array(FLOATS), device.array(OTHERS)
    assert np.array_equal((a @ b.T).numpy(), FLOATS @ OTHERS.T)  # of few bits: exact
    product: Any = OTHERS @ a.T  # type checkers take it for NumPy's
    assert np.array_equal(product.numpy(), OTHERS @ FLOATS.T)
    assert np.array_equal((b**2).numpy(), OTHERS**2)
    assert np.array_equal((2**b).numpy(), 2**OTHERS)
    assert np.array_equal((-a).numpy(), -FLOATS) and np.array_equal(abs(a).numpy(), abs(FLOATS))
    copy = +a
    assert np.array_equal(copy.numpy(), FLOATS) and copy.storage is not a.storage
    for got, expected in zip(divmod(a, 2), divmod(FLOATS, 2), strict=True):
        assert np.array_equal(got.numpy(), expected)
    for got, expected in zip(divmod(7, b), divmod(7, OTHERS), strict=True):
        assert np.array_equal(got.numpy(), expected)
    assert np.array_equal(
        (~((a > 0) & (b > 4)) | (a == b)).numpy(), ~((FLOATS > 0) & (OTHERS > 4)) | (FLOATS == OTHERS)
    )
    assert np.array_equal((~(a > 0)[1:]).numpy(), ~(FLOATS > 0)[1:])
    assert np.array_equal((~device.array(INTEGERS)).numpy(), ~INTEGERS)
    assert np.array_equal(np.sin(a), np.sin(FLOATS))  # NumPy's functions compute on the host
    assert len({a, b, a}) == 2


@pytest.mark.parametrize("operation", [operator.add, operator.pow, operator.lt], ids=lambda f: f.__name__)
def test_lists_and_numpys_default_types_are_converted_where_no_value_changes(
    device: dml.Device, operation: Callable[..., Any]
) -> None:
    given = OTHERS.astype(np.float64), OTHERS.astype(np.int64), OTHERS.tolist(), OTHERS.astype(np.int64).tolist()
    array, graph = device.array(FLOATS), dml.Graph(device)
    expression = graph.input("x", dml.FLOAT32, FLOATS.shape)
    expected = operation(array, OTHERS).numpy()
    assert np.array_equal(expected.shape, FLOATS.shape)
    outputs = {}
    for number, other in enumerate(given):
        assert np.array_equal(operation(array, other).numpy(), expected, equal_nan=True)
        outputs[f"y{number}"] = operation(expression, other)
    for got in device.run(graph.compile(**outputs), {"x": FLOATS}).values():
        assert np.array_equal(got, expected, equal_nan=True)
    swapped = operation(OTHERS.astype(np.float64), array).numpy()
    assert np.array_equal(swapped, operation(device.array(OTHERS), FLOATS).numpy(), equal_nan=True)


def test_zeros_of_either_sign_are_different_numbers(device: dml.Device) -> None:
    one = device.array(np.ones(2, np.float32))
    assert [(one / zero).numpy()[0] for zero in (0.0, -0.0)] == [np.inf, -np.inf]


def test_wrong_operands(device: dml.Device) -> None:
    array = device.array(FLOATS)
    mistakes: tuple[tuple[Callable[[Any], Any], str], ...] = (
        (lambda a: a + None, "add: takes arrays, numbers and lists of them; got None"),
        (lambda a: "x" * a, "multiply: takes arrays, numbers and lists of them; got 'x'"),
        (lambda a: a - [1, 2], r"subtract: the shapes do not broadcast: \[3, 4\] and \[2\]"),
        (lambda a: a - [[1, 2], [3]], "subtract: not an array"),
        (lambda a: a + np.full((3, 4), 0.1), r"add: .*float64, whose value 0.1 at \[0, 0\] float32 does not have"),
        (lambda a: device.array(INTEGERS) + np.full(4, 0.5), "float64, whose value 0.5"),
        (lambda a: a + np.ones(5, np.float32), r"add: the shapes do not broadcast: \[3, 4\] and \[5\]"),
        (lambda a: a @ a, r"matmul: \[3, 4\] and \[3, 4\]: the last axis"),
        (lambda a: device.array(INTEGERS) + 0.5, "add: the number 0.5 is not combined with int32"),
        (lambda a: device.array([0.5]) + 1, "add: float64 is not supported: Vulkan devices need not have"),
        (lambda a: device.array([1, 2], dml.UINT4) + 1, "add: UINT4 is no type of the standard's"),
    )
    for use, message in mistakes:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            use(array)
    with dml.Device(device.info.index) as other, pytest.raises(dml.InvalidArgumentError, match="several devices"):
        array + other.array(FLOATS)


def test_outputs_go_where_out_says(device: dml.Device) -> None:
    values = RNG.normal(size=8).astype(np.float32)
    whole = device.array(np.full(16, 7, np.float32))
    made = device.run(SIGN, {"input_tensor": values}, keep=True, out={"output_tensor": whole[4:12]})
    assert np.array_equal(whole.numpy(), np.concatenate([[7] * 4, np.sign(values), [7] * 4]))
    assert np.array_equal(made["OutputTensor"].numpy(), np.sign(values))
    in_place = device.array(values)
    kept = device.run(SIGN, {"InputTensor": in_place}, keep=True, out={"OutputTensor": in_place})["OutputTensor"]
    assert kept is in_place and np.array_equal(in_place.numpy(), np.sign(values))
    copied = device.run(SIGN, {"InputTensor": values}, out={"OutputTensor": in_place})["OutputTensor"]
    assert isinstance(copied, np.ndarray) and np.array_equal(copied, in_place.numpy())


def test_where_outputs_cannot_go(device: dml.Device) -> None:
    array, tensor = device.empty(16), dml.TensorDesc(dml.FLOAT32, (2, 4))
    softmax = dml.operator_desc("ACTIVATION_SOFTMAX1", InputTensor=tensor, OutputTensor=tensor, AxisCount=1, Axes=[1])
    square, byte = device.empty((2, 4)), dml.TensorDesc(dml.UINT8, (3,))
    copy = dml.ElementWiseIdentity(input_tensor=byte, output_tensor=byte)
    mistakes: tuple[tuple[Any, Any, Any, str], ...] = (
        (SIGN, array[:8], [array], "takes out as a mapping"),
        (SIGN, array[:8], {"Output": array[8:]}, r"there is no output 'Output'; it has \['OutputTensor'\]"),
        (SIGN, array[:8], {"OutputTensor": array[8:], "output_tensor": array[8:]}, "is given twice 'output_tensor'"),
        (SIGN, array[:8], {"OutputTensor": np.ones(8, "f4")}, "must be a dmlvk.Array"),
        (SIGN, array[:8], {"OutputTensor": array}, r"must be FLOAT32 \[8\]; got FLOAT32 \[16\]"),
        (SIGN, array[:8], {"OutputTensor": array[1:9]}, "from a multiple of 16 bytes on; .* from byte 4 "),
        (SIGN, array[:8], {"OutputTensor": array[::2]}, r"with Strides \[1\], .* the array has \[2\]"),
        (SIGN, array[:8], {"OutputTensor": array[4:12]}, r"overlap in part, .*bytes 0 to 32 and 16 to 48"),
        (softmax, square, {"OutputTensor": square}, "in the same memory, but this operator cannot execute in place"),
        (copy, np.ones(3, "u1"), {"OutputTensor": device.array(np.ones(4, "u1"))[:3]}, "multiple of 4 bytes.* 3 bytes"),
    )
    for desc, given, out, message in mistakes:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            device.run(desc, {"InputTensor": given}, out=out)
    with dml.Device(device.info.index) as other, pytest.raises(dml.InvalidArgumentError, match="another device"):
        device.run(SIGN, {"InputTensor": array[:8]}, out={"OutputTensor": other.empty(8)})


def test_one_element_is_a_number_and_a_truth_value(device: dml.Device) -> None:
    array = device.array(np.array([[2.5]], np.float32))
    assert (bool(array), int(array), float(array), complex(array)) == (True, 2, 2.5, 2.5 + 0j)
    assert array.tolist() == [[2.5]]
    assert not device.array(np.zeros(1, np.float32))
    assert [one.item() for one in divmod(device.array(np.array([7.0], np.float32)), 2)] == [3, 1]


def test_what_a_run_writes_changes_views_and_nothing_that_was_computed_or_copied(device: dml.Device) -> None:
    array = device.array(np.arange(8, dtype=np.float32))
    part = array[4:]
    others = {
        "that waits": array * 2,
        "that waits for a view": part.reshape(2, 2) + 1,
        "of two steps": (array + 1) * part[:1],
        "a copy": copy.copy(array),
        "a plus": +array,
        "of the same type": xp.astype(array, xp.float32),
        "a copy of the namespace": xp.asarray(array, copy=True),
        "an integer rounded": xp.floor(xp.astype(array, xp.int32)),
        "a sum over no axis": xp.sum(array, axis=()),
    }
    before = {name: np.arange(8, dtype=np.float32) for name in others}
    before |= {"that waits": before["a copy"] * 2, "of two steps": (before["a copy"] + 1) * 4}
    before["that waits for a view"] = before["a copy"][4:].reshape(2, 2) + 1
    device.run(SIGN, {"input_tensor": np.full(8, -3, np.float32)}, out={"output_tensor": array})
    assert array.tolist() == [-1] * 8 and part.tolist() == [-1] * 4
    for name, other in others.items():
        assert np.array_equal(other.numpy(), before[name]), name


def test_elements_of_one_array_are_put_without_changing_others(device: dml.Device) -> None:
    array = device.array(FLOATS)
    row, also = array[0], array
    array[0] = [1, 2, 3, 4]
    array += OTHERS
    expected = FLOATS.copy()
    expected[0] = [1, 2, 3, 4]
    assert np.array_equal(array.numpy(), expected + OTHERS) and also is array
    assert np.array_equal(row.numpy(), FLOATS[0])


def test_arrays_without_axes_or_elements_are_inputs_where_tensors_have_some(device: dml.Device) -> None:
    one = dml.TensorDesc("FLOAT32", (1,))
    sign = dml.ElementWiseSign(input_tensor=one, output_tensor=one)
    assert device.run(sign, {"InputTensor": device.array(np.float32(-7))})["OutputTensor"].tolist() == [-1]
    with pytest.raises(dml.InvalidArgumentError, match=r"<dmlvk.Array FLOAT32 \[0\] on .*> has no elements"):
        device.run(sign, {"InputTensor": device.empty(0)})
    empty = device.array(np.zeros((2, 0), np.float32))
    for made, shape in ((empty + 1, (2, 0)), (empty.T, (0, 2)), (empty.T @ empty, (0, 0)), (empty[:1], (1, 0))):
        assert made.numpy().shape == shape
    assert (empty @ empty.T).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(dml.InvalidArgumentError, match="an array of UINT4 has elements"):
        device.empty((2, 0), dml.UINT4)


def test_there_is_one_class_of_arrays() -> None:
    assert xp.Array is dml.Array


def test_truths_are_inputs_of_models(device: dml.Device) -> None:
    graph = dml.Graph(device)
    model = graph.compile(graph.input("x", np.bool_, (3, 4)) & np.uint8(1))
    made = device.run(model, {"x": device.array(FLOATS) > 0}, keep=True)["output"]
    assert made.dtype == np.uint8 and np.array_equal(made.numpy(), FLOATS > 0)
