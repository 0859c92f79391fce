"""Tensors without elements, zeros of both signs, batches in parts: what ONNX Runtime gives, and ONNX's rules say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx
import dmlvk.onnx as ort
from dmlvk import array_api as xp
from tests.onnx import models

node = helper.make_node

PICTURES = (0, 3, 6, 8)

CONSTANTS: dict[str, Any] = {
    "w": np.ones((3, 4, 2, 2), np.float32),
    "grid": np.zeros((0, 4, 4, 2), np.float32),
    "axes": np.array([0]),
    "m": np.ones((8, 5), np.float32),
    "one": np.ones(8, np.float32),
}


def _ran(
    nodes: list[onnx.NodeProto],
    x: np.ndarray[Any, Any],
    device: dml.Device,
    constants: Mapping[str, np.ndarray[Any, Any]] = CONSTANTS,
) -> list[Any]:
    element, sizes = helper.np_dtype_to_tensor_dtype(x.dtype), [f"d{axis}" for axis in range(x.ndim)]
    outputs = [name for name in nodes[-1].output if name]
    made = models.model(nodes, {"x": (element, sizes)}, outputs, constants, opset=20)
    results: list[Any] = ort.InferenceSession(made, device=device).run(None, {"x": x})
    return results


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (node("Flatten", ["x"], ["y"]), (0, 144)),
        (node("GlobalAveragePool", ["x"], ["y"]), (0, 3, 1, 1)),
        (node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]), (0, 4, 12, 16)),
        (node("GridSample", ["x", "grid"], ["y"]), (0, 3, 4, 4)),
        (node("FusedMatMul", ["x", "m"], ["y"], domain="com.microsoft"), (0, 3, 6, 5)),
        (node("SkipLayerNormalization", ["x", "x", "one"], ["y"], domain="com.microsoft"), (0, 3, 6, 8)),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_results_without_elements_have_their_shapes(
    made: onnx.NodeProto, shape: tuple[int, ...], device: dml.Device
) -> None:
    (y,) = _ran([made], np.zeros(PICTURES, np.float32), device)
    assert (y.shape, y.dtype) == (shape, np.dtype(np.float32))


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ("y = LayerNormalization <axis = 3> (x, w)", [np.zeros((0, 0, 8, 24)), np.ones(24)]),
        ("y = AveragePool <kernel_shape = [3, 1], strides = [2, 2], ceil_mode = 1> (x)", [np.zeros((0, 1, 6, 4))]),
        ("y = MaxPool <kernel_shape = [2, 3], strides = [3, 3]> (x)", [np.zeros((0, 2, 0, 4))]),
        ("y = STFT (x, w,, e)", [np.zeros((0, 32)), np.array(4), np.array(8)]),
        ("y = MatMul (x, w)", [np.zeros((3, 3, 0), np.float16), np.zeros((3, 0, 3), np.float16)]),
        ("y = GatherND (x, w)", [np.arange(6).reshape(2, 3), np.zeros((4, 0), np.int64)]),
        ("y = ScatterND (x, w, e)", [np.zeros((4, 0)), np.array([[1]]), np.zeros((1, 0))]),
        ("y = ScatterND (x, w, e)", [np.zeros((2, 3)), np.zeros((2, 0), np.int64), np.ones((2, 2, 3))]),
        ('y = ScatterND <reduction = "add"> (x, w, e)', [np.ones(3), np.zeros((2, 0), np.int64), np.ones((2, 3))]),
        ("y = Pad (x, w)", [np.zeros((0, 4)), np.array([-1, 2, 3, 0])]),
    ],
    ids=lambda value: value.split()[2] if isinstance(value, str) else "",
)
def test_nodes_that_read_nothing_give_what_onnx_runtime_does(
    text: str, arrays: list[np.ndarray[Any, Any]], device: dml.Device
) -> None:
    floats = [array.astype(np.float32) if array.dtype == np.float64 else array for array in arrays]
    inputs = dict(zip(("x", "w", "e"), floats, strict=False))
    made = models.model(models.parsed(text), {"x": inputs.pop("x")}, ["y"], inputs, opset=17)
    (expected,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": floats[0]})
    (y,) = ort.InferenceSession(made, device=device).run(None, {"x": floats[0]})
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(y, expected)


def test_sums_without_terms_are_zero_also_where_onnx_runtime_dies_or_reads_what_lay_there(device: dml.Device) -> None:
    x, weights = np.zeros((1, 0, 5, 5), np.uint8), np.zeros((3, 0, 3, 3), np.uint8)
    (y,) = _ran(models.parsed("y = ConvInteger (x, w)"), x, device, {"w": weights})
    np.testing.assert_array_equal(y, np.zeros((1, 3, 3, 3), np.int32))
    nodes = models.parsed('y = Einsum <equation = "ij,kj->ki"> (x, w)')
    (y,) = _ran(nodes, np.zeros((4, 0), np.float32), device, {"w": np.zeros((6, 0), np.float32)})
    np.testing.assert_array_equal(y, np.zeros((6, 4), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_reductions_of_nothing_are_onnx_runtimes(dtype: Any, device: dml.Device) -> None:
    is_float = dtype is np.float32
    low: float = -np.inf if is_float else np.iinfo(dtype).min
    high: float = np.inf if is_float else np.iinfo(dtype).max
    wanted: dict[str, float] = dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0)
    wanted |= {"ReduceProd": 1, "ReduceMax": low, "ReduceMin": high, "ReduceLogSum": low, "ReduceLogSumExp": low}
    for op_type, value in wanted.items():
        (y,) = _ran([node(op_type, ["x", "axes"], ["y"], keepdims=0)], np.zeros((0, 3), dtype), device)
        np.testing.assert_array_equal(y, np.full(3, value, dtype), err_msg=op_type)


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (node("Unique", ["x"], ["y"], axis=0), (2, 0)),
        (node("Unique", ["x"], ["y"], axis=1), (2, 3, 0)),
        (node("ConvTranspose", ["x", "v"], ["y"]), (1, 1, 8, 0, 6)),
        (node("SkipLayerNormalization", ["w", "x", "e", "e"], ["y"], domain="com.microsoft"), (0, 3, 8)),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else str(value),
)
def test_what_onnx_runtime_dies_of_is_refused(
    made: onnx.NodeProto, shape: tuple[int, ...], any_device: dml.Device
) -> None:
    constants = {"v": np.ones((1, 2, 1, 2, 2)), "w": np.ones((2, 3, 8)), "e": np.ones(8)}
    constants = {name: array.astype(np.float32) for name, array in constants.items() if name in made.input}
    with pytest.raises(dml.ModelFileError, match="ONNX Runtime: takes no such inputs without elements"):
        _ran([made], np.zeros(shape, np.float32), any_device, constants)
    of_others = _ran(models.parsed("y = Unique <axis = 0> (x)"), np.zeros((0, 2), np.float32), any_device, {})
    assert of_others[0].shape == (0, 2)


@pytest.mark.parametrize("gathered", ["Shape (x)", "Transpose (x)", "SequenceAt (parts, zero)"])
def test_what_a_loop_gathers_without_iterations_is_onnx_runtimes(gathered: str, device: dml.Device) -> None:
    """The body says neither a type nor a shape of it; a sequence is given, too."""
    loop = (
        f"last, all = Loop <body = body (int64 i, bool go, seq(float[n]) s) => (bool on, seq(float[n]) t, u)"
        f" {{on = Identity (go)  t = Identity (s)  u = {gathered}}}> (zero, , parts)"
    )
    nodes = models.parsed(f"parts = SplitToSequence (x)  {loop}  count = SequenceLength (last)")
    made = models.model(nodes, {"x": [2, 3]}, ["all", "count"], {"zero": np.array(0)})
    feed = {"x": np.ones((2, 3), np.float32)}
    models.assert_same_bits(
        models.by_device(device, made, feed, strict=False), models.by_onnx_runtime(made, feed), gathered
    )


def test_absent_values_pass_branches_and_loops_which_gather_what_they_declare(device: dml.Device) -> None:
    """Nothing is inferred of rows where a type is not known."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    absent, v, w = (helper.make_value_info(name, helper.make_optional_type_proto(tensor)) for name in ("o", "v", "w"))
    go, on = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "on"))
    number, row = helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_value_info("row", tensor)
    nodes = models.parsed("on = Identity (go)  w = Identity (v)  row = Identity (x)")
    body = helper.make_graph(nodes, "body", [number, go, v], [on, w, row])
    there = helper.make_graph([node("Optional", ["x"], ["o"])], "there", [], [absent])
    nowhere = helper.make_graph([node("Optional", [], ["o"], type=tensor)], "nowhere", [], [absent])
    made = models.model(
        [
            node("If", ["c"], ["chosen"], then_branch=there, else_branch=nowhere),
            node("Loop", ["n", "", "chosen"], ["last", "rows"], body=body),
            *models.parsed("is_there = OptionalHasElement (last)"),
        ],
        {"x": [2], "c": (TensorProto.BOOL, []), "n": (TensorProto.INT64, [])},
        {"is_there": TensorProto.BOOL, "rows": TensorProto.FLOAT},
        opset=18,
    )
    for count, is_so in itertools.product((0, 2), (False, True)):
        feed = {"x": np.ones(2, np.float32), "c": np.array(is_so), "n": np.array(count)}
        models.assert_same_bits(
            models.by_device(device, made, feed, strict=False), models.by_onnx_runtime(made, feed), f"{count} {is_so}"
        )


def test_a_scan_of_nothing_gathers_along_its_axis(device: dml.Device) -> None:
    """ONNX Runtime refuses it."""
    body = "body (float[2] s, float[3] r) => (float[2] t, u) {t = Neg (s)  u = Shape (x)}"
    scan = f"y, z = Scan <num_scan_inputs = 1, scan_output_axes = [-1], body = {body}> (one, x)"
    y, z = _ran(models.parsed(scan), np.zeros((0, 3), np.float32), device, {"one": np.ones(2, np.float32)})
    assert (y.tolist(), z.shape, z.dtype) == ([1, 1], (2, 0), np.dtype(np.int64))


def test_nothing_has_no_parts(device: dml.Device) -> None:
    nodes = "parts = SplitToSequence (x, one)  count = SequenceLength (parts)"
    (count,) = _ran(models.parsed(nodes), np.zeros((0, 3), np.float32), device, {"one": np.array(1)})
    assert count == 0


def test_what_is_expanded_to_nothing_has_its_shape(device: dml.Device) -> None:
    inputs = {"x": ["n", 1], "sizes": (TensorProto.INT64, [2])}
    session = ort.InferenceSession(models.model("a = Abs (x)  y = Expand (a, sizes)", inputs, ["y"]), device=device)
    for rows, sizes in ((3, (3, 2)), (3, (1, 0)), (5, (5, 0)), (2, (1, 3)), (3, (3, 0))):
        (found,) = session.run(None, {"x": np.ones((rows, 1), np.float32), "sizes": np.array(sizes)})
        assert found.shape == (rows, sizes[1])


def test_a_quantization_of_nothing_has_the_scale_1(device: dml.Device) -> None:
    y, scale, zero = _ran(models.parsed("y, s, z = DynamicQuantizeLinear (x)"), np.zeros(PICTURES, "f4"), device)
    assert (y.shape, y.dtype, scale, zero) == (PICTURES, np.dtype(np.uint8), 1.0, 0)
    assert helper.np_dtype_to_tensor_dtype(zero.dtype) == TensorProto.UINT8


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_network_without_steps_gives_its_first_states(op_type: str, gates: int, device: dml.Device) -> None:
    states = {"h": np.full((1, 2, 4), 0.5, np.float32), "c": np.full((1, 2, 4), 1.5, np.float32)}
    names = ["h", "c"] if op_type == "LSTM" else ["h"]
    weights = {"w": np.ones((1, 4 * gates, 3), np.float32), "r": np.ones((1, 4 * gates, 4), np.float32)}
    outputs = ["y", *(f"{name} after" for name in names)]
    network = node(op_type, ["x", "w", "r", "", "", *names], outputs, hidden_size=4)
    constants = {**weights, **{name: states[name] for name in names}}
    y, *after = _ran([network], np.zeros((0, 2, 3), np.float32), device, constants)
    assert y.shape == (0, 1, 2, 4)
    for name, state in zip(names, after, strict=True):
        np.testing.assert_array_equal(state, states[name])


TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}

TINY = {"float32": 1e-45, "float16": 6e-8}

CASES: list[tuple[str, dict[str, Any], int]] = [
    ("ArgMax", {"axis": 1}, 1),
    ("ArgMax", {"axis": 2, "select_last_index": 1, "keepdims": 0}, 1),
    ("ArgMin", {"axis": 3}, 1),
    ("ArgMin", {"axis": 0, "select_last_index": 1}, 1),
    ("TopK", {"axis": 3}, 2),
    ("TopK", {"axis": 2, "largest": 0}, 2),
    ("MaxPool", {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0]}, 2),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "storage_order": 1}, 2),
    ("Hardmax", {"axis": 3}, 1),
]


def _zeros(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Mostly zeros of both signs; the smallest denormals beside them are no zeros."""
    elements = np.array([0.0, -0.0, 0.0, -0.0, -1.0, TINY[dtype], -TINY[dtype]], dtype)
    return np.random.default_rng(len(shape) + len(dtype)).choice(elements, shape)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("operator", "attributes", "outputs"), CASES)
def test_places_are_onnx_runtimes(operator: str, attributes: dict[str, Any], outputs: int, dtype: str) -> None:
    x = _zeros(dtype, (4, 3, 5, 7))
    model = _model(operator, attributes, outputs, TYPES[dtype], x.shape)
    session = dmlvk.onnx.InferenceSession(model)
    wide = _model(operator, attributes, outputs, TensorProto.FLOAT, x.shape)  # ONNX Runtime has few of them for FLOAT16
    expected = onnxruntime.InferenceSession(wide).run(None, {"x": x.astype(np.float32)})
    for result, other in zip(session.run(None, {"x": x}), expected, strict=True):
        assert result.tolist() == other.tolist()
        if operator == "TopK":
            assert result.tobytes() == other.astype(result.dtype).tobytes()  # also the signs of zeros
    assert all(placed.place == "device" for placed in session.partition)


def _model(operator: str, attributes: dict[str, Any], outputs: int, element: int, shape: tuple[int, ...]) -> bytes:
    k = [helper.make_tensor("k", TensorProto.INT64, [1], [4])] if operator == "TopK" else []
    node = helper.make_node(operator, ["x", *(each.name for each in k)], ["y", "z"][:outputs], **attributes)
    integers = operator.startswith("Arg")
    shown = [
        helper.make_tensor_value_info("y", TensorProto.INT64 if integers else element, None),
        helper.make_tensor_value_info("z", TensorProto.INT64, None),
    ]
    graph = helper.make_graph([node], "zeros", [helper.make_tensor_value_info("x", element, shape)], shown[:outputs], k)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("descending", [False, True])
def test_the_array_api_orders_them_as_they_came(descending: bool) -> None:
    x = _zeros("float32", (6, 50))
    array = xp.asarray(x)
    assert np.asarray(xp.argmax(array, axis=1)).tolist() == np.argmax(x, axis=1).tolist()
    assert np.asarray(xp.argmin(array, axis=0)).tolist() == np.argmin(x, axis=0).tolist()
    places = np.argsort(-x if descending else x, axis=1, kind="stable")
    assert np.asarray(xp.argsort(array, axis=1, descending=descending)).tolist() == places.tolist()
    ordered = np.take_along_axis(x, places, axis=1)
    assert np.asarray(xp.sort(array, axis=1, descending=descending)).tobytes() == ordered.tobytes()
    assert np.asarray(xp.unique_values(array)).tolist() == np.unique(x).tolist()


MOST_BYTES = 2**15

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on no device has a buffer of more than 32 KiB."""
    create = dml.Device.create_buffer

    def limited(device: dml.Device, size_in_bytes: int, **how: Any) -> dml.Buffer:
        if size_in_bytes > MOST_BYTES:
            raise dml.DeviceLimitError(f"buffer: {size_in_bytes} bytes; {MOST_BYTES} at most")
        return create(device, size_in_bytes, **how)

    return lambda: monkeypatch.setattr(dml.Device, "create_buffer", limited)


def batch_node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def weights(**shapes: tuple[int, ...]) -> Arrays:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def model(nodes: list[onnx.NodeProto], shape: list[int | None], constants: Arrays) -> onnx.ModelProto:
    return models.model(nodes, {"x": shape}, ["y"], constants)


BATCH_PICTURES = models.parsed(
    "a = Conv <pads = [1, 1, 1, 1]> (x, w)  n = BatchNormalization (a, s, b, m, v)  r = Relu (n)"
    " p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)  c = Concat <axis = 1> (p, p)"
    " g = GlobalAveragePool (c)  f = Flatten (g)  l = Gemm (f, k)  y = Softmax <axis = -1> (l)"
)

ROWS = models.parsed(
    "n = LayerNormalization <axis = -1> (x, s, b)  h = MatMul (n, q)  sizes = Shape <end = 2> (h)"
    " split = Concat <axis = 0> (sizes, heads)  u = Reshape (h, split)  t = Transpose <perm = [0, 2, 1, 3]> (u)"
    " k = Transpose <perm = [0, 1, 3, 2]> (t)  e = MatMul (t, k)  p = Softmax <axis = -1> (e)  o = MatMul (p, t)"
    " y = ReduceMean <axes = [2], keepdims = 0> (o)"
)

FORMS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], Arrays]] = {
    "pictures": (
        BATCH_PICTURES,
        (9, 3, 16, 16),
        {**weights(w=(8, 3, 3, 3), s=(8,), b=(8,), m=(8,), k=(16, 5)), "v": np.ones(8, np.float32)},
    ),
    "rows of texts": (ROWS, (8, 20, 24), {**weights(q=(24, 64), s=(24,), b=(24,)), "heads": np.array([4, 16])}),
    "shapes that name the size": (
        models.parsed(
            "a = Conv <pads = [1, 1, 1, 1]> (x, w)  f = Reshape (a, flat)  p = Reshape (f, pairs)"
            " e = Expand (p, wide)  y = ReduceMax <axes = [2], keepdims = 0> (e)"
        ),
        (9, 3, 16, 16),
        {
            **weights(w=(8, 3, 3, 3)),
            "flat": np.array([9, -1]),
            "pairs": np.array([9, 1, 1024, 2]),
            "wide": np.array([9, 3, 1, 2]),
        },
    ),
    "inputs and outputs": (models.parsed("y = Mul (x, w)"), (5, 30, 150), weights(w=(150,))),
}


@pytest.mark.parametrize("is_open", [True, False], ids=["open batch", "fixed batch"])
@pytest.mark.parametrize("name", FORMS)
def test_parts_of_a_batch_have_the_bits_of_the_whole(
    any_device: dml.Device, small_buffers: Callable[[], None], name: str, is_open: bool
) -> None:
    nodes, shape, constants = FORMS[name]
    made = model(nodes, [None, *shape[1:]] if is_open else list(shape), constants)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = ort.InferenceSession(made, device=any_device).run(None, {"x": x})
    small_buffers()
    session = ort.InferenceSession(made, device=any_device)
    for _ in range(2):
        (got,) = session.run(None, {"x": x})
        assert got.shape == expected.shape
        assert got.tobytes() == expected.tobytes()
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert session.run_with_ort_values(None, {"x": value})[0].numpy().tobytes() == expected.tobytes()


LARGE = batch_node("Conv", "x w", "large", pads=[1, 1, 1, 1])

TOGETHER = {
    "a mean over the batch": models.parsed("y = ReduceMean <axes = [0]> (large)"),
    "shares of the batch": models.parsed("y = Softmax <axis = 0> (large)"),
    "a shape that names the size, and is a number besides": models.parsed(
        'fours = Reshape (large, shape)  ["whole y"] whole = Cast <to = 7> (fours)'
        ' ["scaled y"] scaled = Mul (whole, shape)  y = Cast <to = 1> (scaled)'
    ),
    "the items in another order": models.parsed("y = Transpose <perm = [1, 0, 2, 3]> (large)"),
    "other items beside each": models.parsed("y = Slice (large, start, end, zero, minus)"),
    "a number that follows from the size": models.parsed(
        "sizes = Shape <end = 1> (large)  size = Cast <to = 1> (sizes)  y = Div (large, size)"
    ),
    "statistics of the batch": models.parsed("y, m, v = BatchNormalization <training_mode = 1> (large, s, s, s, s)"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_a_batch_whose_items_belong_together_is_refused_by_value_and_node(
    any_device: dml.Device, small_buffers: Callable[[], None], name: str
) -> None:
    constants = {
        **weights(w=(8, 3, 3, 3)),
        "s": np.ones(8, np.float32),
        "shape": np.array([8, -1, 1, 4]),
        "start": np.array([-1]),
        "end": np.array([-9]),
        "zero": np.array([0]),
        "minus": np.array([-1]),
    }
    small_buffers()
    session = ort.InferenceSession(model([LARGE, *TOGETHER[name]], [None, 3, 16, 16], constants), device=any_device)
    with pytest.raises(dml.DeviceLimitError, match=r"'(Conv large|\w+ y)'"):
        session.run(None, {"x": np.ones((8, 3, 16, 16), np.float32)})
