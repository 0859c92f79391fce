"""What exports for training have, and RNN, GRU and LSTM: beside ONNX Runtime and ONNX's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

Array = npt.NDArray[Any]

_TRAINING = "ai.onnx.preview.training"


def _model(node: onnx.NodeProto, feed: dict[str, Array], opset: int = 15) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feed.items()
    ]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(_TRAINING, 1)]
    graph = helper.make_graph([node], "one", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _run(device: dml.Device, node: onnx.NodeProto, feed: dict[str, Array]) -> list[Array]:
    found: list[Array] = ort.InferenceSession(_model(node, feed), device=device, strict=True).run(None, feed)
    return found


@pytest.mark.parametrize("types", [("f4", "f4", "f4"), ("f2", "f2", "f2"), ("f2", "f4", "f4")], ids="-".join)
@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (6, 3)], ids=str)
def test_normalization_as_in_training(device: dml.Device, types: tuple[str, str, str], shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    x = (3 * random.standard_normal(shape) + 1).astype(types[0])
    scale, bias = (random.standard_normal(3).astype(types[1]) for _ in range(2))
    mean, variance = random.standard_normal(3).astype(types[2]), random.random(3).astype(types[2])
    feed = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    options: dict[str, Any] = {"training_mode": 1, "momentum": 0.75, "epsilon": 1e-3}
    node = helper.make_node("BatchNormalization", [*feed], ["y", "new_mean", "new_variance"], **options)
    found = _run(device, node, feed)
    axes = (0, *range(2, x.ndim))
    wide = x.astype(np.float64)
    own_mean, own_variance = wide.mean(axes), wide.var(axes)

    def along(values: Array) -> Array:
        return values.astype(np.float64).reshape(3, *[1] * (x.ndim - 2))

    y = along(scale) * (wide - along(own_mean)) / np.sqrt(along(own_variance) + 1e-3) + along(bias)
    expected = [y, 0.75 * mean + 0.25 * own_mean, 0.75 * variance + 0.25 * own_variance]
    for got, values, data_type in zip(found, expected, (types[0], types[2], types[2]), strict=True):
        assert got.dtype == np.dtype(data_type)
        np.testing.assert_allclose(got, values, rtol=0, atol=1e-5 if data_type == "f4" else 1e-2)


_STEPS: dict[str, tuple[int, dict[str, Any]]] = {
    "Adam": (4, {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-3}),
    "Adagrad": (3, {"decay_factor": 0.1, "epsilon": 1e-3}),
    "Momentum": (3, {"alpha": 0.8, "beta": 0.3, "mode": "standard", "norm_coefficient": 0.0}),
    "Momentum of Nesterov": (3, {"alpha": 0.8, "beta": 0.3, "mode": "nesterov", "norm_coefficient": 0.0}),
}

_NORMS = [{}, {"norm_coefficient": 0.1}]


@pytest.mark.parametrize("count", [0, 1, 7, -1])
@pytest.mark.parametrize(
    ("name", "norms"),
    [*((name, norms) for name in _STEPS for norms in _NORMS), ("Adam", {"norm_coefficient_post": 0.2})],
    ids=str,
)
def test_steps_of_optimizers_are_the_evaluator_s(
    device: dml.Device, name: str, count: int, norms: dict[str, float]
) -> None:
    """Of two tensors at once; learning rate and count of steps are inputs."""
    each, options = _STEPS[name]
    random = np.random.default_rng(2)
    feed: dict[str, Array] = {"rate": np.array(0.1, np.float32), "count": np.array(count, np.int64)}
    for part in range(each):
        for tensor, shape in enumerate(((3, 4), (5,))):
            values = random.standard_normal(shape).astype(np.float32)
            feed[f"{part} of {tensor}"] = abs(values) if part > 1 else values
    outputs = [f"new {part} of {tensor}" for part in range(each) if part != 1 for tensor in range(2)]
    kind = name.split()[0]
    node = helper.make_node(kind, [*feed], outputs, domain=_TRAINING, **{**options, **norms})
    found = _run(device, node, feed)
    expected = ReferenceEvaluator(_model(node, feed)).run(None, feed)
    for output, got, values in zip(outputs, found, expected, strict=True):
        np.testing.assert_allclose(got, values, rtol=2e-6, atol=1e-6, err_msg=output)


def test_what_adam_cannot_correct_is_the_host_s(device: dml.Device) -> None:
    """With alpha = 1, the first moment stays what it is, and its correction is a division by 0."""
    feed: dict[str, Array] = {"rate": np.array(0.1, np.float32), "count": np.array(0, np.int64)}
    feed |= {name: np.ones(3, np.float32) for name in "xgvh"}
    node = helper.make_node("Adam", [*feed], ["x2", "v2", "h2"], domain=_TRAINING, alpha=1.0)
    session = ort.InferenceSession(_model(node, feed), device=device)
    np.testing.assert_allclose(session.run(None, feed)[0], 0.9, rtol=1e-5)
    with pytest.raises(dml.UnsupportedError, match=r"alpha 1\.0 and beta"):
        ort.InferenceSession(_model(node, feed), device=device, strict=True).run(None, feed)


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_RECURRENT_STEPS, _BATCH, _INPUTS, _UNITS = 6, 3, 4, 5

_WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("RNN", {}),
    "rnn, softsign and scaled tanh": (
        "RNN",
        {"activations": ["Softsign", "ScaledTanh"], "activation_alpha": [1.25], "activation_beta": [0.75]},
    ),
    "gru": ("GRU", {}),
    "gru, linear before reset": ("GRU", {"linear_before_reset": 1}),
    "gru, hard sigmoid": (
        "GRU",
        {
            "activations": ["HardSigmoid", "Tanh", "Sigmoid", "Relu"],
            "activation_alpha": [0.3],
            "activation_beta": [0.4],
        },
    ),
    "rnn, a threshold": ("RNN", {"clip": 0.25}),
    "gru, a threshold": ("GRU", {"clip": 0.25}),
    "gru, a threshold, linear before reset": ("GRU", {"clip": 0.25, "linear_before_reset": 1}),
    "lstm, a threshold": ("LSTM", {"clip": 0.25}),
    "lstm, a threshold, peepholes": ("LSTM", {"clip": 0.25, "peepholes": True, "input_forget": 1}),
    "lstm": ("LSTM", {}),
    "lstm, peepholes": ("LSTM", {"peepholes": True}),
    "lstm, coupled": ("LSTM", {"input_forget": 1}),
}


def model_of(
    op_type: str, direction: str, *, lengths: bool = True, peepholes: bool = False, layout: int = 0, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    random = np.random.default_rng(1)
    directions = 2 if direction == "bidirectional" else 1
    rows = _GATES[op_type] * _UNITS
    state = (directions, _BATCH, _UNITS)

    def numbers(*shape: int) -> Array:
        return random.normal(0, 0.5, shape).astype(np.float32)

    feed: dict[str, Array] = {
        "x": numbers(_RECURRENT_STEPS, _BATCH, _INPUTS),
        "w": numbers(directions, rows, _INPUTS),
        "r": numbers(directions, rows, _UNITS),
        "b": numbers(directions, 2 * rows),
        "lengths": np.array([6, 2, 4], np.int32),
        "h": numbers(*state),
    }
    if not lengths:
        del feed["lengths"]
    names = ["x", "w", "r", "b", "lengths" if lengths else "", "h"]
    if op_type == "LSTM":
        feed["c"] = numbers(*state)
        names.append("c")
        if peepholes:
            feed["p"] = numbers(directions, 3 * _UNITS)
            names.append("p")
    if layout:
        for name in ("x", "h", "c"):
            if name in feed:
                feed[name] = np.ascontiguousarray(feed[name].swapaxes(0, 1))
    if "activations" in attributes and direction != "bidirectional":
        each = {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type]
        attributes = {**attributes, "activations": attributes["activations"][:each]}
    outputs = ["y", "y_h", "y_c"][: 3 if op_type == "LSTM" else 2]
    more: dict[str, Any] = {"layout": layout} if layout else {}
    node = helper.make_node(op_type, names, outputs, direction=direction, hidden_size=_UNITS, **attributes, **more)
    return models.model([node], feed, outputs, opset=14), feed


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("way", list(_WAYS))
def test_as_onnx_runtime(any_device: dml.Device, way: str, direction: str) -> None:
    pytest.importorskip("onnxruntime")
    op_type, attributes = _WAYS[way]
    model, feed = model_of(op_type, direction, **attributes)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    expected = models.onnx_runtime(model).run(None, feed)
    for got, wanted in zip(session.run(None, feed), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op_type", list(_GATES))
def test_layouts_give_the_same_bits(any_device: dml.Device, op_type: str) -> None:
    model, feed = model_of(op_type, "bidirectional")
    expected = ort.InferenceSession(model, device=any_device, strict=True).run(None, feed)
    turned, own = model_of(op_type, "bidirectional", layout=1)
    got = ort.InferenceSession(turned, device=any_device, strict=True).run(None, own)
    assert got[0].tobytes() == expected[0].transpose(2, 0, 1, 3).tobytes()
    for last, wanted in zip(got[1:], expected[1:], strict=True):
        assert last.tobytes() == wanted.swapaxes(0, 1).tobytes()


@pytest.mark.parametrize(
    ("op_type", "attributes", "why"),
    [
        ("LSTM", {"activations": ["Nothing", "Tanh", "Tanh"]}, "LSTM.*cannot be computed.*ONNX Runtime"),
        ("RNN", {"activations": ["Nothing"]}, "RNN.*Nothing"),
    ],
)
def test_what_neither_device_nor_host_computes_is_refused(
    any_device: dml.Device, op_type: str, attributes: dict[str, Any], why: str
) -> None:
    model, feed = model_of(op_type, "forward", lengths=False, **attributes)
    with pytest.raises(dml.DmlError, match=why):
        ort.InferenceSession(model, device=any_device).run(None, feed)


def test_what_is_known_is_not_computed_without_its_lengths(any_device: dml.Device) -> None:
    model, feed = model_of("GRU", "reverse")
    expected = ort.InferenceSession(model, device=any_device, strict=True).run(None, feed)
    del model.graph.input[:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in feed.items())
    got = ort.InferenceSession(model, device=any_device, strict=True).run(None, {})
    assert [values.tobytes() for values in got] == [values.tobytes() for values in expected]


def test_float16(any_device: dml.Device) -> None:
    model, feed = model_of("LSTM", "bidirectional", peepholes=True)
    expected = ort.InferenceSession(model, device=any_device, strict=True).run(None, feed)
    for values in (*model.graph.input, *model.graph.output):
        if values.name != "lengths":
            values.type.tensor_type.elem_type = TensorProto.FLOAT16
    half = {name: array if name == "lengths" else array.astype(np.float16) for name, array in feed.items()}
    for got, wanted in zip(ort.InferenceSession(model, device=any_device).run(None, half), expected, strict=True):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, wanted, atol=0.01)


def test_networks_of_too_many_single_steps_are_not_for_the_device(device: dml.Device) -> None:
    x = np.zeros((300, 1, 2), np.float32)
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=3, clip=0.5)
    weights = {name: np.ones((1, 3, size), np.float32) for name, size in (("w", 2), ("r", 3))}
    model = models.model([node], {"x": x}, ["y"], weights, opset=14)
    with pytest.raises(dml.UnsupportedError, match=r"RNN.*300 steps, .* more than the 256"):
        ort.InferenceSession(model, device=device, strict=True)
