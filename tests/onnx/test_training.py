"""What exports for training have: normalization by the batch's own statistics, and steps of optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import dmlvk as dml
import dmlvk.onnx as ort

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
    """The outputs, computed by the device alone."""
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


@pytest.mark.t_way(2)
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
