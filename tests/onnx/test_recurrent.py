"""RNN, GRU and LSTM of ONNX models, compared with ONNX Runtime where it is installed, and in layout 1 with layout 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.beside_onnx_runtime import compare

Array = npt.NDArray[Any]

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_STEPS, _BATCH, _INPUTS, _UNITS = 6, 3, 4, 5

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
    """A node with all outputs, and inputs for it."""
    random = np.random.default_rng(1)
    directions = 2 if direction == "bidirectional" else 1
    rows = _GATES[op_type] * _UNITS
    state = (directions, _BATCH, _UNITS)

    def numbers(*shape: int) -> Array:
        return random.normal(0, 0.5, shape).astype(np.float32)

    feed: dict[str, Array] = {
        "x": numbers(_STEPS, _BATCH, _INPUTS),
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


@pytest.mark.combinations
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


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("more", [{}, {"clip": 0.5, "input_forget": 1}])
def test_networks_of_integer_weights(device: dml.Device, direction: str, dtype: type, more: dict[str, Any]) -> None:
    """What quantize_dynamic makes of an LSTM; the states of all sequences of a step are quantized together."""
    random, directions = np.random.default_rng(1), 2 if direction == "bidirectional" else 1
    _, feed = model_of("LSTM", direction, peepholes=bool(more))
    low, high, zero = (-100, 100, 0) if dtype is np.int8 else (0, 250, 128)
    feed["w"] = random.integers(low, high, (directions, _INPUTS, 4 * _UNITS)).astype(dtype)
    feed["r"] = random.integers(low, high, (directions, _UNITS, 4 * _UNITS)).astype(dtype)
    names = [*feed, "ws", "wz", "rs", "rz"] if more else [*feed, "", "ws", "wz", "rs", "rz"]
    for name in ("ws", "rs"):
        feed[name] = random.uniform(0.001, 0.01, (directions, 4 * _UNITS)).astype(np.float32)
    feed |= {name: np.full((directions, 4 * _UNITS), zero, dtype) for name in ("wz", "rz")}
    compare(
        device,
        "DynamicQuantizeLSTM",
        feed,
        names=names,
        constants=["w", "r", "ws", "wz", "rs", "rz"],
        outputs=["y", "y_h", "y_c"],
        domain="com.microsoft",
        direction=direction,
        hidden_size=_UNITS,
        tolerance=2e-3,  # where a state lies in the middle between two integers its last bit decides
        **more,
    )


def test_networks_of_too_many_single_steps_are_not_for_the_device(device: dml.Device) -> None:
    x = np.zeros((300, 1, 2), np.float32)
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=3, clip=0.5)
    weights = {name: np.ones((1, 3, size), np.float32) for name, size in (("w", 2), ("r", 3))}
    model = models.model([node], {"x": x}, ["y"], weights, opset=14)
    with pytest.raises(dml.UnsupportedError, match=r"RNN.*300 steps, .* more than the 256"):
        ort.InferenceSession(model, device=device, strict=True)
