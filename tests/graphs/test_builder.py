"""Graphs built from expressions: NumPy's results, DirectMLX's defaults, readable errors, stubs for type checkers."""

from __future__ import annotations

import importlib.util
import inspect
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.operators import REGULAR_OPERATORS
from tests.effort import IS_QUICK
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
    with pytest.raises(invalid, match=r"^ELEMENT_WISE_ADD: .*DataType.*FLOAT32.*INT32"):
        a + n
    with pytest.raises(invalid, match=r"300"):
        graph.input("u", dml.UINT8, (4,)) + 300
    with pytest.raises(invalid, match=r"belongs to another graph"):
        a + dml.Graph(any_device).input("z", dml.FLOAT32, (3, 4))


def test_graphs_and_functions_say_what_is_wrong(any_device: dml.Device) -> None:
    graph = dml.Graph(any_device)
    a, _ = graph.input("a", dml.FLOAT32, (3, 4)), graph.input("b", dml.FLOAT32, (2, 4))
    invalid = dml.InvalidArgumentError
    refused(invalid, "Graph.compile: no output depends on the input 'b'", lambda: graph.compile(a + 1))
    refused(invalid, "Graph.compile: needs at least one output", graph.compile)
    refused(
        invalid,
        "Graph.input: name must be a string that no other input has; got 'a'",
        lambda: graph.input("a", dml.FLOAT32, (1,)),
    )
    with pytest.raises(invalid, match=r"^functions\.clip\(input, min, max"):
        F.clip(a)  # type: ignore[call-arg]
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


RANDOM = np.random.default_rng(5)


def test_a_product_needs_two_matrices(any_device: dml.Device) -> None:
    a, b = (RANDOM.integers(-8, 8, sizes).astype(np.float32) for sizes in ((3, 4), (4, 5)))
    graph = dml.Graph(any_device)
    model = graph.compile(y=F.gemm(graph.input("a", dml.FLOAT32, (3, 4)), graph.input("b", dml.FLOAT32, (4, 5))))
    assert np.array_equal(any_device.run(model, {"a": a, "b": b})["y"], a @ b)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_convolution_has_strides_of_one_and_no_padding(any_device: dml.Device, axes: int) -> None:
    x = RANDOM.integers(-8, 8, (1, 2, *(5, 4, 3)[:axes])).astype(np.float32)
    weights = RANDOM.integers(-8, 8, (3, 2, *(1,) * axes)).astype(np.float32)
    graph = dml.Graph(any_device)
    source, filters = graph.input("x", dml.FLOAT32, x.shape), graph.input("w", dml.FLOAT32, weights.shape)
    model = graph.compile(y=F.convolution(source, filters))
    expected = np.einsum("nc...,oc->no...", x, weights.reshape(3, 2))
    assert np.array_equal(any_device.run(model, {"x": x, "w": weights})["y"], expected)


def test_a_pool_needs_a_window(any_device: dml.Device) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    graph = dml.Graph(any_device)
    model = graph.compile(y=F.max_pooling(graph.input("x", dml.FLOAT32, x.shape), window_size=(2, 2), strides=(2, 2)))
    assert np.array_equal(any_device.run(model, {"x": x})["y"], [[[[5, 7], [13, 15]]]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
def test_a_reduction_keeps_the_data_type_and_indices_are_uint32(any_device: dml.Device, dtype: Any) -> None:
    x: npt.NDArray[Any] = RANDOM.integers(-8, 8, (3, 5)).astype(dtype)
    graph = dml.Graph(any_device)
    source = graph.input("x", dml.DataType[np.dtype(dtype).name.upper()], x.shape)
    total, largest, index = (
        F.reduce(source, function, axes=[1])
        for function in (dml.ReduceFunction.SUM, dml.ReduceFunction.MAX, dml.ReduceFunction.ARGMAX)
    )
    model = graph.compile(SUM=total, MAX=largest, ARGMAX=index)
    found = any_device.run(model, {"x": x})
    assert {name: each.dtype for name, each in found.items()} == {"SUM": dtype, "MAX": dtype, "ARGMAX": np.uint32}
    expected = {"SUM": x.sum(1), "MAX": x.max(1), "ARGMAX": x.argmax(1)}
    assert all(np.array_equal(found[name][:, 0], each) for name, each in expected.items())


ROOT = Path(__file__).resolve().parent.parent.parent

GOOD = """
import numpy as np
import dmlvk as dml
from dmlvk import functions as F

def build(x: dml.Expression) -> dml.Expression:
    y: dml.Expression = F.clip(x, min=0, max=1)
    values, indices = F.top_k(F.sigmoid(x), axis=1, k=2)
    y = F.where(F.isnan(y), 0.0, F.matmul(y, np.ones((2, 2), np.float32)))
    y = F.max(F.max(y, 1.0), axis=0, keepdims=True) + F.reduce(y, dml.ReduceFunction.SUM, axes=[0])
    return F.concatenate([y, values[:, ::-1]], axis=0) @ F.gemm(y, y.T).reshape((2, -1))
"""

BAD = [
    *(("F.tanhh(x)", "attr-defined"), ("F.clip(x, mim=0, max=1)", "call-arg")),
    *(("F.clip(x, min='0', max=1)", "arg-type"), ("F.max(x, axs=0)", "call-overload")),
    *(("F.convolution(x)", "call-arg"), ("F.round(x, rounding_mode=dml.ReduceFunction.SUM)", "arg-type")),
    *(("F.sum(x, axis='first')", "arg-type"), ("F.join(x, axis=0).nothing", "attr-defined")),
]


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_a_type_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    head = "import dmlvk as dml\nfrom dmlvk import functions as F\ndef build(x: dml.Expression) -> object:\n"
    program = head + "".join(f"    {line}\n" for line, _ in BAD) + "    return x\n"
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), "--show-error-codes"]
    printed = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True).stdout
    assert "good.py" not in printed, printed
    for number, (line, code) in enumerate(BAD, 4):
        assert any(f"bad.py:{number}: " in text and f"[{code}]" in text for text in printed.splitlines()), (
            line,
            printed,
        )


def test_every_function_is_in_the_stub() -> None:
    stub = (ROOT / "dmlvk" / "functions.pyi").read_text(encoding="utf-8")
    for name in F.__all__:
        assert f"\ndef {name}(" in stub or f"\n{name} = " in stub, name
        assert callable(getattr(F, name))
    assert F.relu is F.activation_relu and dml.ReduceFunction.SUM.name == "SUM"


JUNK: tuple[Any, ...] = (
    None, "x", "", b"x", 1.5, float("nan"), float("inf"), -1, 2**70, -(2**70), True, [], [None], ["a"], [1.5],
    (1,) * 20, {}, {"a": 1}, object(), np.zeros((2, 2)), np.array("x"), np.float16(2), [[1]], 1j, len, {1, 2}, range(3),
    np.ma.masked, "FLOAT32", dml.FLOAT32, [2**70], slice(1), ..., np.array([2**63], np.uint64), type, [1] * 5_000,
)  # fmt: skip
"""Of every kind that Python and NumPy have words for; some of it fits some parameters."""

SHAPE = (1, 2, 4, 4)


def distinct_functions() -> list[str]:
    return sorted({id(getattr(F, name)): name for name in reversed(F.__all__)}.values())


def arguments_with(function: Callable[..., Any], wrong: str, junk: object, operand: dml.Expression) -> dict[str, Any]:
    """An expression for each parameter without a default, but for one of them."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: operand for p in parameters if p.default is p.empty} | {wrong: junk}


@pytest.mark.parametrize("name", distinct_functions())
def test_functions_refuse_in_their_own_words(device: dml.Device, name: str) -> None:
    function = getattr(F, name)
    graph = dml.Graph(device)
    operand = graph.input("a", dml.FLOAT32, SHAPE)
    for parameter in inspect.signature(function).parameters:
        for junk in JUNK[:: 4 if IS_QUICK else 1]:
            try:
                function(**arguments_with(function, parameter, junk, operand))
            except dml.DmlError as error:
                assert "\n" not in str(error)
                assert len(str(error)) <= 2000


def _apply(**changed: Any) -> Callable[[dml.Graph, dml.Expression], Any]:
    given = {"operator": "TOP_K", "attributes": {"axis": 3, "k": 1}, **changed}
    return lambda graph, a: graph.apply_all(**{"tensors": {"input_tensor": a}, **given})


REFUSED: dict[str, Callable[[dml.Graph, dml.Expression], Any]] = {
    "TOP_K: tensors must be given by name, in a dict; got None": _apply(tensors=None),
    "TOP_K: attributes must be given by name, in a dict; got [1]": _apply(attributes=[1]),
    "TOP_K: has no 'axs'; did you mean 'axis'?": _apply(attributes={"axs": 3, "k": 1}),
    "TOP_K: has no 'depth'; it has axis, k": _apply(attributes={"depth": 3}),
    "TOP_K: member K is required": _apply(attributes={"axis": 3}),
    "TOP_K: Axis must be an integer; got 'last'": _apply(attributes={"axis": "last", "k": 1}),
    "TOP_K: name must be a string; got 3": _apply(name=3),
    "TOP_K: optional_outputs must be a sequence of names; got 'all'": _apply(optional_outputs="all"),
    "TOP_K: output_sizes: there is no output 'values'; there are output_value_tensor, output_index_tensor": _apply(
        output_sizes={"values": (1,)}
    ),
    "TOP_K: output_data_type: there is no output 'values'; there are output_value_tensor, output_index_tensor": _apply(
        output_data_type={"values": "FLOAT32"}
    ),
    "JOIN: input_tensors must be a list of expressions, arrays and numbers; got <dmlvk.Expression a: FLOAT32 "
    "[1, 2, 4, 4]>": lambda graph, a: graph.apply("JOIN", {"input_tensors": a}, {"axis": 0}),
    "CONVOLUTION: FilterTensor.DimensionCount must be from 3 to 5 at feature level 6_4; got 2, which no feature level "
    "has": lambda graph, a: F.convolution(a, a[0, 0]),
    "ELEMENT_WISE_CLIP: member 'max' is required": lambda graph, a: graph.apply(
        "ELEMENT_WISE_CLIP", {"input_tensor": a}, {"min": 0.0}
    ),
    "functions.gru: with_sequence must be True or False; got 'yes'": lambda graph, a: F.gru(
        a,
        a,
        a,
        [],
        dml.RecurrentNetworkDirection.FORWARD,
        False,
        with_sequence="yes",  # type: ignore[arg-type]
    ),
    "functions.sum: keepdims must be True or False; got 'yes'": lambda graph, a: F.sum(a, keepdims="yes"),  # type: ignore[arg-type]
    "functions.concatenate: arrays must be a list of operands; got None": lambda graph, a: F.concatenate(None),  # type: ignore[arg-type]
    "functions.tanh: needs at least one expression of a graph (Graph.input makes one); got ndarray": lambda graph, a: (
        F.tanh(np.ones(3, np.float32))
    ),
    "functions.fill_value_constant: has no operand that tells its graph: give graph=": lambda graph, a: (
        F.fill_value_constant(1.0, output_sizes=(2,))
    ),
    "functions.fill_value_constant: graph must be a dmlvk.Graph; got 3": lambda graph, a: F.fill_value_constant(
        1.0,
        output_sizes=(2,),
        graph=3,  # type: ignore[arg-type]
    ),
    "Graph: device must be a dmlvk.Device; got 'gpu'": lambda graph, a: dml.Graph("gpu"),  # type: ignore[arg-type]
}
"""What a call says that nothing can be made of."""


@pytest.mark.parametrize("message", REFUSED)
def test_message_says_what_is_wrong(device: dml.Device, message: str) -> None:
    graph = dml.Graph(device)
    with pytest.raises(dml.DmlError) as caught:
        REFUSED[message](graph, graph.input("a", dml.FLOAT32, SHAPE))
    assert str(caught.value) == message


def test_expressions_are_no_numbers(device: dml.Device) -> None:
    a = dml.Graph(device).input("a", dml.FLOAT32, SHAPE)
    for converted in (int, float):
        with pytest.raises(dml.InvalidArgumentError) as caught:
            converted(a)
        assert str(caught.value) == (
            "<dmlvk.Expression a: FLOAT32 [1, 2, 4, 4]> is no number: it is a tensor that is not computed yet"
        )


def test_members_that_repeat_a_data_type_follow_from_it(device: dml.Device) -> None:
    """PADDING1 and the operators that fill state the data type of their value beside that of their tensors."""
    graph = dml.Graph(device)
    a = graph.input("a", dml.INT32, (3,))
    model = graph.compile(
        padded=F.padding1(a, dml.PaddingMode.CONSTANT, 7, [1], [2]),
        ones=F.fill_value_constant(1.5, graph=graph, output_data_type=dml.FLOAT32, output_sizes=(2, 2)),
        counted=F.fill_value_sequence(5, 2, graph=graph, output_data_type=dml.UINT32, output_sizes=(4,)),
    )
    made = device.run(model, {"a": np.arange(3, dtype=np.int32)})
    assert made["padded"].tolist() == [7, 0, 1, 2, 7, 7]
    assert made["ones"].tolist() == [[1.5, 1.5], [1.5, 1.5]]
    assert made["counted"].tolist() == [5, 7, 9, 11]
