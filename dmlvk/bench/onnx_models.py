"""Small models of ONNX, and a ResNet-50, by which ONNX Runtime's provider is timed and tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 48

WEIGHTS = [
    numpy_helper.from_array(np.random.default_rng(n).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32), f"w{n}")
    for n in range(2)
]


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Any], outputs: Sequence[str], version: int = 17, **options: Any
) -> onnx.ModelProto:
    """A model with FLOAT inputs of these shapes, INT64 ones where a shape is in a set."""
    given = []
    for name, shape in inputs.items():
        element = TensorProto.INT64 if isinstance(shape, frozenset) else TensorProto.FLOAT
        given.append(helper.make_tensor_value_info(name, element, list(shape)))
    used = {name for node in nodes for name in node.input} | set(options.pop("used", ()))
    graph = helper.make_graph(
        nodes,
        "model",
        given,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [weight for weight in WEIGHTS if weight.name in used],
    )
    opsets = [helper.make_opsetid("", version), *options.pop("opsets", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **options)


def chain(batch: int | str = "batch") -> onnx.ModelProto:
    """Two products with something between them: a graph that the device has whole."""
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w1"], ["c"], name="second"),
            helper.make_node("Softmax", ["c"], ["y"]),
        ],
        {"x": [batch, WIDTH]},
        ["y"],
    )


def resnet50(size: int = 224, blocks: Sequence[int] = (3, 4, 6, 3)) -> onnx.ModelProto:
    """ResNet-50 (He and others, Deep Residual Learning for Image Recognition, 2016) with random weights.

    Args:
        size: rows and columns of the picture.
        blocks: of each stage.
    """
    random = np.random.default_rng(5)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def convolution(x: str, inside: int, outside: int, kernel: int, stride: int = 1) -> str:
        name = f"conv{len(nodes)}"
        values = random.normal(0, (2 / (inside * kernel * kernel)) ** 0.5, (outside, inside, kernel, kernel))
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(outside, np.float32), f"{name}.bias"))
        given = [x, f"{name}.weight", f"{name}.bias"]
        shape: dict[str, Any] = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        nodes.append(helper.make_node("Conv", given, [name], **shape))
        return name

    def node(kind: str, *given: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, given, [f"{kind.lower()}{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    x = node("Relu", convolution("x", 3, 64, 7, 2))
    x = node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            inner = node("Relu", convolution(x, channels, width, 1))
            inner = convolution(node("Relu", convolution(inner, width, width, 3, stride)), width, 4 * width, 1)
            around = convolution(x, channels, 4 * width, 1, stride) if not block else x
            x, channels = node("Relu", node("Add", inner, around)), 4 * width
    x = node("Flatten", node("GlobalAveragePool", x))
    weights.append(numpy_helper.from_array(random.normal(0, 0.02, (channels, 1000)).astype(np.float32), "classes"))
    nodes.append(helper.make_node("MatMul", [x, "classes"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "resnet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1000])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
