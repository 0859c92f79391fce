"""Operators that exporters write out as several nodes are joined, by hand and in the very graphs that they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.models import on_host

onnxruntime = pytest.importorskip("onnxruntime")

Arrays = dict[str, npt.NDArray[Any]]

ROOT_TWO, ROOT_TWO_BY_PI = 2.0**0.5, (2 / np.pi) ** 0.5


class Form(models.Writer):
    def __init__(self, version: int = 17, element: int = TensorProto.FLOAT) -> None:
        super().__init__()
        self.version, self.element = version, element

    def op(self, kind: str, *inputs: str | float | list[int] | npt.NDArray[Any], **attributes: Any) -> str:
        """A node; numbers and arrays among its inputs become constants. The name of its result."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        return self.one(kind, *names, **attributes)

    def constant(self, array: Any) -> str:
        """The name of a constant: integers stay such, all else is of the form's type."""
        array = np.asarray(array)
        if array.dtype.kind != "i" or array.ndim == 0:
            array = array.astype(helper.tensor_dtype_to_np_dtype(self.element))
        return super().constant(array)

    def mean(self, x: str, axes: list[int]) -> str:
        if self.version >= 18:
            return self.op("ReduceMean", x, axes, keepdims=1)
        return self.op("ReduceMean", x, axes=axes, keepdims=1)

    def model(self, inputs: Arrays, *outputs: str) -> onnx.ModelProto:
        sizes = {name: (self.element, array.shape) for name, array in inputs.items()}
        return models.model(self.nodes, sizes, outputs, self.constants, opset=self.version)


def layer_norm(
    form: Form, square: str = "Pow", end: str = "Div", again: bool = False, axes: tuple[int, ...] = (-1,)
) -> str:
    mean = form.mean("x", list(axes))
    centred = form.op("Sub", "x", mean)
    other = form.op("Sub", "x", mean) if again else centred
    squares = form.op("Pow", other, 2.0) if square == "Pow" else form.op("Mul", other, other)
    return ended(form, centred, form.op("Add", form.mean(squares, list(axes)), 1e-5), end)


def ended(form: Form, values: str, variance: str, end: str) -> str:
    """Values divided by a root, in one of the ways to write it."""
    if end == "Div":
        return form.op("Div", values, form.op("Sqrt", variance))
    if end == "Reciprocal":
        return form.op("Mul", values, form.op("Reciprocal", form.op("Sqrt", variance)))
    if end == "one":
        return form.op("Mul", form.op("Div", 1.0, form.op("Sqrt", variance)), values)
    return form.op("Mul", values, form.op("Pow", variance, -0.5))


def affine(form: Form, value: str, scale: bool = True, bias: bool = True) -> str:
    random = np.random.default_rng(3)
    if scale:
        value = form.op("Mul", value, 1 + 0.2 * random.standard_normal(24))
    return form.op("Add", random.standard_normal(24), value) if bias else value


def root_mean_square(form: Form, end: str = "Reciprocal") -> str:
    return ended(form, "x", form.op("Add", form.mean(form.op("Pow", "x", 2.0), [-1]), 1e-6), end)


def gelu(form: Form, order: str) -> str:
    argument = form.op("Mul", "x", 1 / ROOT_TWO) if order == "halved" else form.op("Div", "x", ROOT_TWO)
    more = form.op("Add", form.op("Erf", argument), 1.0)
    if order == "halved":
        return form.op("Mul", form.op("Div", "x", 2.0), more)
    if order == "before":
        return form.op("Mul", form.op("Mul", 0.5, "x"), more)
    return form.op("Mul", form.op("Mul", "x", more), 0.5)


def fast_gelu(form: Form, order: str) -> str:
    if order == "power":
        cubic = form.op("Mul", form.op("Pow", "x", 3.0), 0.044715)
        inner = form.op("Mul", form.op("Add", "x", cubic), ROOT_TWO_BY_PI)
    else:
        square = form.op("Mul", form.op("Mul", 0.044715, "x"), "x")
        inner = form.op("Mul", form.op("Mul", "x", ROOT_TWO_BY_PI), form.op("Add", 1.0, square))
    return form.op("Mul", form.op("Mul", "x", 0.5), form.op("Add", 1.0, form.op("Tanh", inner)))


def attention(form: Form, scale: str = "Div", mask: bool = True, heads: bool = True, axis: int = -1) -> str:
    query, key, value = (form.op("Mul", "x", factor) for factor in (0.5, -0.75, 1.25))
    order = [0, 1, 3, 2] if heads else [0, 2, 1]
    scores = form.op("MatMul", query, form.op("Transpose", key, perm=order))
    if scale:
        scores = form.op(scale, scores, 4.0 if scale == "Div" else 0.25)
    if mask:
        scores = form.op("Add", scores, np.triu(np.full((6, 6), -1e4), 1))
    return form.op("MatMul", form.op("Softmax", scores, axis=axis), value)


def guarded_attention(form: Form, guard: str, zero: float = 0.0) -> str:
    """Queries and keys with the scale's root each; the first query sees no key, and what that gives is hidden."""
    query = form.op("Mul", form.op("Sin", "x"), 0.4)
    key = form.op("Mul", form.op("Transpose", form.op("Cos", "x"), perm=[0, 1, 3, 2]), 0.4)
    mask = np.triu(np.full((6, 6), -np.inf), 1)
    mask[0] = -np.inf
    scores = form.op("Add", form.op("MatMul", query, key), mask)
    shares = form.op("Softmax", scores, axis=-1)
    if guard == "IsNaN":
        condition = form.op("IsNaN", shares)
    elif guard == "rows":
        condition = form.op("Equal", form.op("ReduceMax", form.constant(mask), axes=[-1]), form.constant([-np.inf]))
    else:
        condition = form.op("Less", form.op("Abs", form.op("MatMul", query, key)), form.constant([0.01]))
    number = form.op("CastLike", form.constant([zero]), shares) if guard == "rows" else form.constant([zero])
    return form.op("MatMul", form.op("Where", condition, number, shares), "x")


def silu(form: Form) -> str:
    return form.op("Mul", "x", form.op("Sigmoid", "x"))


def group_norm(form: Form) -> str:
    groups = form.op("Reshape", "x", [0, 1, -1])
    centred = form.op("Sub", groups, form.mean(groups, [2]))
    made = ended(form, centred, form.op("Add", form.mean(form.op("Mul", centred, centred), [2]), 1e-5), "Div")
    scaled = form.op("Mul", form.op("Reshape", made, form.op("Shape", "x")), 1 + 0.2 * np.arange(3.0).reshape(3, 1, 1))
    return form.op("Add", scaled, np.arange(3.0).reshape(1, 3, 1, 1))


FORMS: dict[str, tuple[Callable[[Form], str], str]] = {
    "layer norm": (lambda form: affine(form, layer_norm(form)), "LayerNormalization"),
    "layer norm of products": (
        lambda form: affine(form, layer_norm(form, "Mul", "Reciprocal", True)),
        "LayerNormalization",
    ),
    "layer norm without scale": (lambda form: layer_norm(form, end="one"), "LayerNormalization"),
    "layer norm without bias": (
        lambda form: affine(form, layer_norm(form, end="Pow"), bias=False),
        "LayerNormalization",
    ),
    "layer norm of two axes": (lambda form: layer_norm(form, axes=(1, 3)), "LayerNormalization"),
    "RMS norm": (lambda form: affine(form, root_mean_square(form), bias=False), "RMSNormalization"),
    "RMS norm by quotient": (lambda form: root_mean_square(form, "Div"), "RMSNormalization"),
    "RMS norm by power": (lambda form: root_mean_square(form, "Pow"), "RMSNormalization"),
    "GELU": (lambda form: gelu(form, "behind"), "Gelu"),
    "GELU, halved before": (lambda form: gelu(form, "before"), "Gelu"),
    "GELU, halved by a quotient": (lambda form: gelu(form, "halved"), "Gelu"),
    "GELU by tanh": (lambda form: fast_gelu(form, "power"), "FastGelu"),
    "GELU by tanh, with squares": (lambda form: fast_gelu(form, "squares"), "FastGelu"),
    "SiLU": (silu, "Swish"),
    "SiLU, scaled": (lambda form: form.op("Mul", form.op("Sigmoid", form.op("Mul", "x", 1.702)), "x"), "Swish"),
    "SwiGLU": (lambda form: form.op("Mul", form.op("Abs", "x"), silu(form)), "SwiGLU"),
    "group norm": (group_norm, "GroupNormalization"),
    "attention": (attention, "Attention"),
    "attention without mask": (lambda form: attention(form, "Mul", False), "Attention"),
    "attention without scale": (lambda form: attention(form, ""), "Attention"),
    "attention that hides what is no number": (lambda form: guarded_attention(form, "IsNaN"), "Attention"),
}


def joined_nodes(session: Any) -> set[str]:
    start = "joined with others to "
    return {item.reason.removeprefix(start) for item in session.partition if item.reason.startswith(start)}


@pytest.mark.parametrize("version", [13, 18])
@pytest.mark.parametrize("name", FORMS)
def test_a_written_out_form_is_joined_and_right(any_device: dml.Device, name: str, version: int) -> None:
    write, wanted = FORMS[name]
    form = Form(version)
    result = write(form)
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 24)).astype(np.float32)
    model = form.model({"x": x}, result)
    expected = models.onnx_runtime(model).run(None, {"x": x})[0]
    session = ort.InferenceSession(model, device=any_device)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=2e-5, atol=2e-6)
    assert joined_nodes(session) == {wanted}
    assert not models.on_host(session)


@pytest.mark.parametrize("version", [12, 17])  # along all axes from one on, and along one
@pytest.mark.parametrize(("axis", "wanted"), [(3, {"Attention"}), (2, set())])
def test_attention_may_name_the_axis_of_its_softmax(
    any_device: dml.Device, version: int, axis: int, wanted: set[str]
) -> None:
    form = Form(version)
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 24)).astype(np.float32)
    model = form.model({"x": x}, attention(form, axis=axis))
    session = ort.InferenceSession(model, device=any_device)
    expected = models.onnx_runtime(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=2e-5, atol=2e-6)
    assert joined_nodes(session) == wanted


def test_rows_that_are_said_to_see_no_key_become_zeros(any_device: dml.Device) -> None:
    form = Form(17)  # onnx's own function of Attention names them so
    x = np.random.default_rng(1).standard_normal((2, 3, 6, 24)).astype(np.float32)
    model = form.model({"x": x}, guarded_attention(form, "rows"))
    (expected,) = models.onnx_runtime(model).run(None, {"x": x})
    session = ort.InferenceSession(model, device=any_device)
    (got,) = session.run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)
    assert not got[:, :, 0].any()
    assert joined_nodes(session) == {"Attention"}


@pytest.mark.parametrize("name", ["layer norm", "RMS norm", "group norm", "attention", "GELU by tanh"])
def test_float16_does_not_overflow_inside(any_device: dml.Device, name: str) -> None:
    x = np.random.default_rng(2).standard_normal((2, 3, 6, 24)).astype(np.float16)
    x[0, 0, 0, :4] = [400, -600, 300, 5]
    results = {}
    for element, array in ((TensorProto.FLOAT16, x), (TensorProto.FLOAT, x.astype(np.float32))):
        form = Form(17, element)
        model = form.model({"x": array}, FORMS[name][0](form))
        results[element] = ort.InferenceSession(model, device=any_device).run(None, {"x": array})[0].astype(np.float64)
    half, single = results[TensorProto.FLOAT16], results[TensorProto.FLOAT]
    assert np.isfinite(half).all()
    np.testing.assert_allclose(half, single, rtol=4e-3, atol=4e-3)


def test_an_option_leaves_nodes_as_they_are(any_device: dml.Device) -> None:
    form = Form()
    x = np.ones((2, 24), np.float32)
    model = form.model({"x": x}, affine(form, layer_norm(form)))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(model, options, device=any_device)
    session.run(None, {"x": x})
    assert joined_nodes(session) == set()


def seen_elsewhere(form: Form) -> list[str]:
    result = affine(form, layer_norm(form))
    return [result, "v1"]  # the difference from the mean is an output, too


def of_other_axes(form: Form) -> list[str]:
    centred = form.op("Sub", "x", form.mean("x", [-2]))
    variance = form.op("Add", form.mean(form.op("Mul", centred, centred), [-1]), 1e-5)
    return [form.op("Div", centred, form.op("Sqrt", variance))]


def of_a_wrong_constant(form: Form) -> list[str]:
    more = form.op("Add", form.op("Erf", form.op("Div", "x", 1.5)), 1.0)
    return [form.op("Mul", form.op("Mul", "x", more), 0.5)]


def of_another_value(form: Form) -> list[str]:
    return [form.op("Mul", "x", form.op("Sigmoid", form.op("Abs", "x")))]


def of_another_axis(form: Form) -> list[str]:
    scores = form.op("MatMul", "x", form.op("Transpose", "x", perm=[0, 1, 3, 2]))
    return [form.op("MatMul", form.op("Softmax", scores, axis=-2), "x")]


def of_shares_hidden_one_by_one(form: Form) -> list[str]:
    return [guarded_attention(form, "shares")]


def of_shares_that_become_another_number(form: Form) -> list[str]:
    return [guarded_attention(form, "IsNaN", 0.5)]


def of_groups_in_another_shape(form: Form) -> list[str]:
    groups = form.op("InstanceNormalization", form.op("Reshape", "x", [0, 1, -1]), np.ones(1), np.zeros(1))
    return [form.op("Mul", form.op("Reshape", groups, [1, 2, 24, 6]), np.full((24, 1), 2.0))]


def of_groups_with_a_scale(form: Form) -> list[str]:
    groups = form.op("InstanceNormalization", form.op("Reshape", "x", [0, 2, -1]), np.array([1.0, 2.0]), np.zeros(2))
    return [form.op("Reshape", groups, form.op("Shape", "x"))]


@pytest.mark.parametrize(
    ("write", "wanted"),
    [
        (seen_elsewhere, {"RMSNormalization"}),
        (of_other_axes, {"RMSNormalization"}),
        (of_a_wrong_constant, set()),
        (of_another_value, set()),
        (of_another_axis, set()),
        (of_shares_hidden_one_by_one, set()),
        (of_shares_that_become_another_number, set()),
        (of_groups_in_another_shape, set()),
        (of_groups_with_a_scale, set()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_only_looks_like_a_form_is_computed_as_it_stands(
    any_device: dml.Device, write: Callable[[Form], list[str]], wanted: set[str]
) -> None:
    form = Form()
    outputs = write(form)
    x = np.random.default_rng(5).standard_normal((1, 2, 6, 24)).astype(np.float32)
    model = form.model({"x": x}, *outputs)
    expected = models.onnx_runtime(model).run(None, {"x": x})
    session = ort.InferenceSession(model, device=any_device)
    for got, right in zip(session.run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-6)
    assert joined_nodes(session) == wanted


def test_joined_nodes_that_the_device_lacks_are_computed_one_by_one(any_device: dml.Device) -> None:
    form = Form(17, TensorProto.DOUBLE)
    x = np.random.default_rng(6).standard_normal((2, 24))
    model = form.model({"x": x}, affine(form, layer_norm(form)))
    expected = models.onnx_runtime(model).run(None, {"x": x})[0]
    session = ort.InferenceSession(model, device=any_device)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-12)
    assert joined_nodes(session) == set()
    broadcast = Form()
    wide = broadcast.op("Mul", layer_norm(broadcast), np.ones((3, 1, 1, 24)))  # more dimensions than the values
    small = x.astype(np.float32)
    session = ort.InferenceSession(broadcast.model({"x": small}, wide), device=any_device)
    assert session.run(None, {"x": small})[0].shape == (3, 1, 2, 24)
    assert joined_nodes(session) == set()


EXPORTED_FORMS = sorted(Path(__file__).with_name("exported_forms").glob("*.txt"))
"""Graphs by both exporters, named after the form, the exporter, and what nodes are joined to."""

ERRORS = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 4e-3}
"""Of the largest element, by the type of the input: ONNX Runtime computes FLOAT16 in FLOAT32, too, with other sums."""


def with_weights(text: str) -> onnx.ModelProto:
    """A model from a text that only declares its weights."""
    random = np.random.default_rng(0)
    model = onnx.parser.parse_model(text)
    written = {name for node in model.graph.node for name in node.output}
    for info in model.graph.value_info:
        if info.name not in written:
            shape = [dimension.dim_value for dimension in info.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            weight = np.asarray(0.5 + random.random(shape)).astype(dtype)
            model.graph.initializer.append(numpy_helper.from_array(weight, info.name))
    model.graph.ClearField("value_info")
    return model


def test_forms_of_both_exporters_are_there() -> None:
    assert len({path.name.split(".")[0] for path in EXPORTED_FORMS}) >= 12
    assert {path.name.split(".")[1] for path in EXPORTED_FORMS} == {"dynamo", "torchscript"}


@pytest.mark.parametrize("path", EXPORTED_FORMS, ids=lambda path: path.name.rpartition(".")[0].rpartition(".")[0])
def test_an_exported_form_is_joined_and_right(any_device: dml.Device, path: Path) -> None:
    model = with_weights(path.read_text())
    source = model.graph.input[0].type.tensor_type
    sizes = [dimension.dim_value for dimension in source.shape.dim]
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(source.elem_type))
    session = ort.InferenceSession(model, device=any_device)
    reference = onnxruntime.InferenceSession(model.SerializeToString())
    for batch in (2,) if sizes[0] else (2, 3):
        x = np.random.default_rng(batch).standard_normal((batch, *sizes[1:])).astype(dtype)
        (expected,) = reference.run(None, {"x": x})
        (got,) = session.run(None, {"x": x})
        assert got.dtype == expected.dtype
        largest = float(np.abs(expected.astype(np.float64)).max())
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=ERRORS[dtype] * largest)
    assert joined_nodes(session) == {path.name.split(".")[2]}
    assert not on_host(session)


def _rolled(form: Form) -> str:
    """As torch.roll is exported, along two axes."""
    x = "x"
    for axis, at in ((1, 3), (2, -2)):
        parts = form.op("Slice", x, [at], [2**62], [axis]), form.op("Slice", x, [0], [at], [axis])
        x = form.op("Concat", *parts, axis=axis)
    return x


def _merged(form: Form) -> str:
    """Every second row and column, beside the columns between them, as Swin merges patches."""
    rows = form.op("Slice", "x", [1], [2**62], [1], [2])
    parts = [form.op("Slice", rows, [first], [2**62], [2], [2]) for first in (0, 1)]
    return form.op("Concat", *parts, axis=3)


def _whole(form: Form) -> str:
    return form.op("Neg", form.op("Slice", "x", [0, 0], [8, 2**62], [1, 2]))


@pytest.mark.parametrize(("write", "launches"), [(_rolled, 2), (_merged, 4), (_whole, 1)])
def test_parts_of_parts_are_cut_from_the_whole(device: dml.Device, write: Callable[[Form], str], launches: int) -> None:
    """What torch.roll writes is a gather along each axis, and no part is a copy that only others read."""
    feed: Arrays = {"x": np.arange(2 * 8 * 6 * 4, dtype=np.float32).reshape(2, 8, 6, 4)}
    form = Form()
    model = form.model(feed, write(form)).SerializeToString()
    session = ort.InferenceSession(model, device=device, strict=True)
    assert np.array_equal(session.run(None, feed)[0], onnxruntime.InferenceSession(model).run(None, feed)[0])
    assert len(session.profile(feed)) <= launches


def _of_windows(form: Form, batch: int) -> tuple[str, Arrays]:
    """As torchvision's Swin has it: four windows of 9 elements, two heads, biases of heads and masks of windows."""
    random, shape = np.random.default_rng(4), (4 * batch, 2, 9, 8)
    feed = {name: random.standard_normal(shape).astype(np.float16) for name in ("q", "k", "v")}
    masks = np.where(random.random((1, 4, 1, 9, 9)) < 0.3, -100.0, 0.0)
    masks[..., range(9), range(9)] = 0
    scores = form.op("MatMul", form.op("Mul", "q", 0.35), form.op("Transpose", "k", perm=[0, 1, 3, 2]))
    biased = form.op("Add", scores, random.standard_normal((1, 2, 9, 9)))
    apart = form.op("Add", form.op("Reshape", biased, [batch, 4, 2, 9, 9]), masks)
    shares = form.op("Softmax", form.op("Reshape", apart, [-1, 2, 9, 9]), axis=-1)
    return form.op("MatMul", shares, "v"), feed


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_with_masks_of_windows_is_joined_where_a_device_may_round(device: dml.Device, batch: int) -> None:
    form = Form(element=TensorProto.FLOAT16)
    result, feed = _of_windows(form, batch)
    model = form.model(feed, result).SerializeToString()
    (expected,) = onnxruntime.InferenceSession(model).run(None, feed)
    with dml.Device(device.info.index, arithmetic="device") as able:
        session = ort.InferenceSession(model, device=able, strict=True)
        assert joined_nodes(session)
        (made,) = session.run(None, feed)
    assert np.abs(made.astype(np.float32) - expected.astype(np.float32)).max() < 4e-3
    assert not joined_nodes(ort.InferenceSession(model, device=device, strict=True))
