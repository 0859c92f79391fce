"""Graphs built from expressions: NumPy's results, shapes and readable errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.operators import REGULAR_OPERATORS
from tests.graphs.support import result

RNG = np.random.default_rng(7)
A = RNG.integers(-9, 9, (3, 4, 5)).astype(np.float32)
B = RNG.integers(1, 9, (4, 1)).astype(np.float32)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod],
    ids=lambda function: function.__name__,
)
def test_arithmetic_broadcasts_as_numpy_does(device: dml.Device, function: Callable[[Any, Any], Any]) -> None:
    for a, b in ((A, B), (B, A)):
        shifted = b + np.float32(20) if b is A else b  # no zeros to divide by
        got = result(device, function, a, shifted)
        assert got.shape == (3, 4, 5)
        assert (got == function(a, shifted)).all()


def test_a_condition_chooses_between_tensors_and_numbers(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    x = graph.input("x", dml.FLOAT32, (2, 3))
    array = np.array([[-1, 0, 2], [3, -4, 5]], np.float32)
    chosen = any_device.run(graph.compile(y=(x < 0).where(0, x), z=(x > 1).where(x, -x)), {"x": array})
    np.testing.assert_array_equal(chosen["y"], np.where(array < 0, 0, array))
    np.testing.assert_array_equal(chosen["z"], np.where(array > 1, array, -array))


@pytest.mark.parametrize(
    "function", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne], ids=lambda f: f.__name__
)
def test_comparisons_give_bytes(any_device: dml.Device, function: Callable[[Any, Any], Any]) -> None:
    got = result(any_device, function, A, B)
    assert got.dtype == np.uint8
    assert (got == function(A, B)).all()
    assert (result(any_device, lambda a: function(a, 2), A) == function(A, 2)).all()
    assert (result(any_device, lambda a: function(2, a), A) == function(2, A)).all()


def test_bits_and_truths(any_device: dml.Device) -> None:
    x, y = RNG.integers(-100, 100, (2, 24)).astype(np.int32)
    for function in (operator.and_, operator.or_, operator.xor):
        assert (result(any_device, function, x, y) == function(x, y)).all()
        assert (result(any_device, lambda a, b, f=function: f(a > 0, b > 0), x, y) == function(x > 0, y > 0)).all()
    assert (result(any_device, operator.invert, x) == ~x).all()
    assert (result(any_device, lambda a: ~(a > 3), x) == ~(x > 3)).all()
    unsigned = x.view(np.uint32)
    assert (result(any_device, lambda a: 1 << (a & 7), unsigned) == 1 << (unsigned & 7)).all()
    assert (result(any_device, lambda a: a >> 3, unsigned) == unsigned >> 3).all()


def test_powers(any_device: dml.Device) -> None:
    assert (result(any_device, lambda a: a**2, A) == A**2).all()
    integers = A.astype(np.int32)
    assert (result(any_device, lambda a: a**3, integers) == integers**3).all()
    assert (result(any_device, lambda a: 2**a, np.arange(5, dtype=np.float32)) == [1, 2, 4, 8, 16]).all()


def test_other_operators(any_device: dml.Device) -> None:
    assert (result(any_device, lambda a: abs(-a) - +a, A) == np.abs(A) - A).all()
    assert (result(any_device, lambda a: 10 - a, A) == 10 - A).all()
    assert (result(any_device, lambda a: A + a, A) == 2 * A).all()
    assert (result(any_device, lambda a: 12 / a, B) == np.float32(12) / B).all()
    assert (result(any_device, lambda a: a * np.float32(0.5), A) == A / 2).all()


def test_functions_have_directmlx_defaults(any_device: dml.Device) -> None:
    assert (result(any_device, lambda a: F.clip(a, min=-1, max=2.5), A) == A.clip(-1, 2.5)).all()
    assert (result(any_device, lambda a: F.activation_relu(a), A) == A.clip(0)).all()
    assert (result(any_device, lambda a, b: F.max(a, b), A, B) == np.maximum(A, B)).all()
    assert (result(any_device, lambda a, b: F.if_(a > b, a, 0), A, B) == np.where(A > B, A, 0)).all()
    assert (result(any_device, lambda a: F.round(a / 2), A) == np.rint(A / 2)).all()
    leaky = result(any_device, F.activation_leaky_relu, A)
    assert (leaky == np.where(A < 0, A * np.float32(0.01), A)).all()


def test_output_types(any_device: dml.Device) -> None:
    counted = result(any_device, lambda a: F.bit_count(a, output_data_type=dml.UINT32), np.arange(9, dtype=np.uint32))
    assert counted.dtype == np.uint32
    assert counted.tolist() == [0, 1, 1, 2, 1, 2, 2, 3, 1]
    quantized = result(any_device, lambda a: F.quantize_linear(a, 0.5, 3, output_data_type=dml.UINT8), B)
    assert quantized.dtype == np.uint8
    assert (quantized == B / 0.5 + 3).all()


def test_views_copy_nothing(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, A.shape)
    expected = {
        "transposed": -A.transpose(1, 2, 0),
        "turned": -A.T,
        "reshaped": -A.reshape(12, 5),
        "repeated": -np.broadcast_to(A, (2, *A.shape)),
        "bits": (-A).view(np.int32),
    }
    compiled = graph.compile(
        transposed=-a.transpose(1, 2, 0),
        turned=-a.transpose(),
        reshaped=-a.reshape(12, -1),
        repeated=-a.broadcast_to((2, *A.shape)),
        bits=(-a).reinterpret(A.shape, data_type=dml.INT32),
    )
    for name, array in any_device.run(compiled, {"a": A}).items():
        assert array.shape == expected[name].shape
        assert (array == expected[name]).all(), name
    assert len(compiled.network.nodes) == 5


def test_a_view_as_output_is_written_out(any_device: dml.Device) -> None:
    assert (result(any_device, lambda a: a.transpose(), A) == A.T).all()
    assert (result(any_device, lambda a: a, A) == A).all()
    graph = dml.Graph(any_device)
    assert any_device.run(graph.compile(graph.constant(B)), {})["output"].tolist() == B.tolist()


def test_equal_expressions_are_computed_once(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, (4,))
    compiled = graph.compile((a + 1) * (a + 1) + F.sqrt(a + 1))
    names = [node.desc.operator_name.removeprefix("ELEMENT_WISE_") for node in compiled.network.nodes]
    assert sorted(names) == ["ADD", "ADD", "MULTIPLY", "SQRT"]
    assert len(compiled.network.constants) == 1


def test_zeros_of_both_signs_are_different_constants(any_device: dml.Device) -> None:
    got = result(any_device, lambda a: 1 / (a * 0.0) + 0 * (1 / (a * -0.0)), np.ones(1, np.float32))
    assert np.isnan(got).all()
    assert result(any_device, lambda a: 1 / (a * -0.0), np.ones(1, np.float32)).tolist() == [-np.inf]


def test_nodes_that_lead_to_no_output_are_left_out(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, (4,))
    F.exp(a)
    assert [node.desc.operator_name for node in graph.compile(-a).network.nodes] == ["ELEMENT_WISE_NEGATE"]


def test_owned_inputs_and_strides(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (3, 4), strides=(1, 3))
    weights = graph.input("weights", dml.FLOAT32, (4,), owned_by_dml=True)
    compiled = graph.compile(y=x * weights)
    assert compiled.binding_properties.persistent_resource_size > 0
    array, row = A[0, :3, :4], np.arange(4, dtype=np.float32)
    assert (device.run(compiled, {"x": array, "weights": row})["y"] == array * row).all()


def test_feature_level_of_the_device_counts(any_device: dml.Device) -> None:
    """At level 6_4 with few dimensions; at 4_1 ADD has 1 to 8, ATAN at 1_0 needs 4: leading ones are added."""
    with dml.Device(any_device.info.index, feature_level=dml.FeatureLevel.LEVEL_2_1) as device:
        graph = dml.Graph(device)
        a = graph.input("a", dml.FLOAT32, (5,))
        assert (a + a).sizes == (5,)
        assert device.run(graph.compile(a + a), {"a": A[0, 0]})["output"].tolist() == (2 * A[0, 0]).tolist()
        with pytest.raises(dml.UnsupportedError, match="6_2"):
            graph.compile(a + 1)


@pytest.mark.parametrize("name", sorted(REGULAR_OPERATORS))
def test_every_operator_has_a_function(any_device: dml.Device, name: str) -> None:
    """With the last data types of its table, it makes a description that passes all checks."""
    kind = REGULAR_OPERATORS[name]
    graph = dml.Graph(any_device)
    function = getattr(F, F.function_name(name))
    assert name in function.__doc__
    table = kind.declaration.support[-1]
    inputs = [field.attribute for field in kind.fields if field.kind == "input"]
    sizes = (1, 1, 4, 5) if kind.declaration.most_effective_dimensions else (2, 3, 4, 5)
    tensors = {
        member.removesuffix("_tensor"): graph.input(member, table.data_types[member][0], sizes) for member in inputs
    }
    attributes = {
        "exponent": 2.0,
        "min": 0,
        "max": 1,
        "sigmoid_input_scale": 1.0,
        "alpha": 1.0,
        "beta": 1.0,
        "gamma": 1.0,
        "epsilon": 1.0,
        "axes": (1, 3),
    }
    parameters = function.__signature__.parameters
    given = {name: value for name, value in attributes.items() if name in parameters and name not in tensors}
    made = function(**tensors, **given)
    assert made.sizes == sizes


def test_rows_in_a_graph(device: dml.Device) -> None:
    """Several kernels along axes beside element-wise ones; the number of axes is counted."""
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (3, 4, 5))
    doubled = F.activation_softmax1(x, axes=(2, 0)) + F.activation_softmax1(x, (0, 2))
    marks = F.activation_hardmax1(F.negate(x), (1,))
    array = A * np.linspace(-1, 1, 5, dtype=np.float32) + np.arange(4, dtype=np.float32)[:, None] / 8
    results = device.run(graph.compile(doubled=doubled, marks=marks), {"x": array})
    powers = np.exp(array.astype(np.float64))
    np.testing.assert_allclose(results["doubled"], 2 * powers / powers.sum((0, 2), keepdims=True), rtol=3e-7)
    assert (results["marks"].argmax(1) == array.argmin(1)).all()
    assert (results["marks"].sum(1) == 1).all()
    with pytest.raises(dml.InvalidArgumentError, match="Axes must be a sequence of integers; got 1"):
        F.activation_softmax1(x, 1)  # type: ignore[arg-type]


def refused(error: type[dml.DmlError], message: str, call: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_errors_say_what_is_wrong(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, (3, 4))
    b = graph.input("b", dml.FLOAT32, (2, 4))
    n = graph.input("n", dml.INT32, (3, 4))
    invalid = dml.InvalidArgumentError
    refused(
        invalid,
        "ELEMENT_WISE_ADD: the shapes do not broadcast: a_tensor [3, 4], b_tensor [2, 4] (axis 0: 3 and 2 of b_tensor)",
        lambda: a + b,
    )
    refused(
        invalid,
        "<dmlvk.Expression a: FLOAT32 [3, 4]> has no truth value: it is a tensor that is not computed yet",
        lambda: bool(a),
    )
    refused(
        invalid,
        "ELEMENT_WISE_ADD: b_tensor must be an expression, an array or a number; got 'one'",
        lambda: operator.add(a, "one"),
    )
    refused(invalid, "<dmlvk.Expression a: FLOAT32 [3, 4]> cannot be reshaped to [5, 3]", lambda: a.reshape(5, 3))
    refused(
        invalid,
        "<dmlvk.Expression a: FLOAT32 [4, 3]> cannot be reshaped: its elements do not lie in order "
        "(use functions.identity first)",
        lambda: a.transpose().reshape(12),
    )
    refused(
        invalid,
        "<dmlvk.Expression a: FLOAT32 [3, 4]>: axes must be a permutation of its 2 axes; got [0, 0]",
        lambda: a.transpose(0, 0),
    )
    refused(invalid, "Graph.compile: no output depends on the input 'b'", lambda: graph.compile(a + 1))
    refused(invalid, "Graph.compile: needs at least one output", graph.compile)
    refused(
        invalid,
        "Graph.input: name must be a string that no other input has; got 'a'",
        lambda: graph.input("a", dml.FLOAT32, (1,)),
    )
    with pytest.raises(invalid, match=r"^ELEMENT_WISE_ADD: .*DataType.*FLOAT32.*INT32"):
        a + n
    with pytest.raises(invalid, match=r"300"):
        graph.input("u", dml.UINT8, (4,)) + 300
    with pytest.raises(invalid, match=r"^functions\.clip\(input, min, max"):
        F.clip(a)  # type: ignore[call-arg]
    with pytest.raises(invalid, match=r"belongs to another graph"):
        a + dml.Graph(any_device).input("z", dml.FLOAT32, (3, 4))
    with pytest.raises(AttributeError, match=r"has no 'multiply_all'"):
        F.multiply_all(a)  # type: ignore[attr-defined]
    with pytest.raises(invalid, match=r"at least one expression"):
        F.exp(3)


def test_constants_keep_their_types(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT16, (3,))
    got = any_device.run(graph.compile(a + np.float16(0.1)), {"a": np.zeros(3, np.float16)})["output"]
    assert (got == np.float16(0.1)).all()
    for wrong in (np.zeros((0, 3)), np.array(["x"]), np.zeros(3, np.complex64), np.zeros((1,) * 9, np.float32)):
        with pytest.raises(dml.InvalidArgumentError, match=r"Graph\.constant"):
            graph.constant(wrong)
    with pytest.raises(
        dml.InvalidArgumentError, match=r"Graph\.constant: .*float64, whose value 0\.1 at \[0\] float32"
    ):
        graph.constant(np.full(3, 0.1), dml.FLOAT32)
    for data_type in (dml.FLOAT32, np.float32, "FLOAT32"):
        assert graph.constant(np.full(3, 0.5), data_type).data_type is dml.FLOAT32


def test_axes_may_be_counted_from_the_end(any_device: dml.Device) -> None:
    """At level 5_1 SOFTMAX1 takes 1 to 8 dimensions; axes are those of the expression, however the tensor is padded."""
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, (3, 4, 5))
    made = graph.compile(last=F.activation_hardmax1(a, axes=[-1]), middle=F.activation_hardmax1(a, axes=[1]))
    results = any_device.run(made, {"a": A})
    assert (results["last"].argmax(-1) == A.argmax(-1)).all()
    assert (results["middle"].argmax(1) == A.argmax(1)).all()
    assert (results["last"].sum(-1) == 1).all()
    with pytest.raises(dml.InvalidArgumentError, match="Axes"):
        F.activation_hardmax1(a, axes=[3])


def test_shapes_and_axes_may_be_sequences(any_device: dml.Device) -> None:
    x = A
    assert (result(any_device, lambda a: a.reshape((4, -1)), x) == x.reshape(4, -1)).all()
    assert (result(any_device, lambda a: a.reshape([60]), x) == x.reshape(60)).all()
    assert (result(any_device, lambda a: a.reshape(np.array([5, 12])), x) == x.reshape(5, 12)).all()
    assert (result(any_device, lambda a: a.transpose((2, 0, 1)), x) == x.transpose(2, 0, 1)).all()
    assert (result(any_device, lambda a: a.transpose(-1, 0, -2), x) == x.transpose(-1, 0, -2)).all()


MASKED: Any = np.ma.masked_array(np.ones(5, np.float32), [0, 0, 1, 0, 0])  # type: ignore[no-untyped-call]

THREE: Any = 3

MISTAKES: dict[str, Callable[[Any, Any], object]] = {
    "reshape: sizes[0] must be an integer; got None": lambda a, g: a.reshape(None),
    "reshape: sizes[0] must be an integer; got 'x'": lambda a, g: a.reshape("x"),
    "reshape: sizes[1] must be an integer; got 2.0": lambda a, g: a.reshape((3, 2.0)),
    "reshape: sizes[0] must be from -1 to 4294967295; got a number of": lambda a, g: a.reshape(10**5000),
    "cannot be reshaped to [7, -1]": lambda a, g: a.reshape((7, -1)),
    "transpose: axes[1] must be an integer; got 'a'": lambda a, g: a.transpose(0, "a"),
    "transpose: axes[0] must be from -2 to 1; got 2": lambda a, g: a.transpose((2, 0)),
    "axes must be a permutation of its 2 axes; got [0, 0]": lambda a, g: a.transpose(0, -2),
    "broadcast_to: sizes must be a sequence of integers; got 3": lambda a, g: a.broadcast_to(3),
    "ELEMENT_WISE_ADD: b_tensor must be an expression, an array or a number; got None": lambda a, g: a + None,
    "ELEMENT_WISE_ADD: a_tensor must be an expression, an array or a number; got None": lambda a, g: None + a,
    "ELEMENT_WISE_LOGICAL_EQUALS: b_tensor must be an expression": lambda a, g: operator.eq(a, None),
    "ELEMENT_WISE_POW: exponent_tensor must be an expression": lambda a, g: a**None,
    "Graph.constant: data_type: <class 'complex'> is no data type": lambda a, g: g.constant(A, complex),
    "Graph.constant: data_type: 'FLOAT' is no data type of tensors": lambda a, g: g.constant(3, "FLOAT"),
    "Graph.constant: not an array": lambda a, g: g.constant([[1], [1, 2]]),
    "ELEMENT_WISE_ADD: b_tensor: the array has masked elements": lambda a, g: a + MASKED,
    "ELEMENT_WISE_IDENTITY: output_strides must be a sequence": lambda a, g: F.identity(a, output_strides=3),  # type: ignore[arg-type]
    "Graph.compile: outputs must be given by name; got 3": lambda a, g: g.compile(3),
    "an operator's name must be a string; got 3": lambda a, g: dml.operator_desc(THREE),
    "ELEMENT_WISE_SIGN: has no 'x'; it has input_tensor": lambda a, g: g.apply("ELEMENT_WISE_SIGN", {"x": a}),
    "is no array: it is a tensor that is not computed yet": lambda a, g: np.asarray(a),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_errors_of_dmlvk(any_device: dml.Device, message: str) -> None:
    graph = dml.Graph(any_device)
    a = graph.input("a", dml.FLOAT32, (2, 5))
    with pytest.raises(dml.InvalidArgumentError) as caught:
        MISTAKES[message](a, graph)
    assert message in str(caught.value)
