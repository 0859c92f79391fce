"""The light models of the onnx package: real architectures, whose weights are constants; here also random ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from tests.onnx import models

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

Floats = npt.NDArray[Any]


def load(name: str) -> onnx.ModelProto:
    return onnx.load(FOLDER / f"light_{name}.onnx")


def input_of(model: onnx.ModelProto, batch: int = 1) -> tuple[str, Floats]:
    """The suite's input: numbers that rise from 0 to 1; each further picture is darker than the one before."""
    constants = {tensor.name for tensor in model.graph.initializer}
    info = next(info for info in model.graph.input if info.name not in constants)
    shape = tuple(dimension.dim_value for dimension in info.type.tensor_type.shape.dim)
    count = int(np.prod(shape))
    picture = (np.arange(count).reshape(shape) / count).astype(np.float32)
    return info.name, np.concatenate([picture * np.float32(1 - i / 40) for i in range(batch)])


def with_random_weights(model: onnx.ModelProto, *, batch: int = 1) -> onnx.ModelProto:
    """The same network with seeded random weights, without its last Softmax, which would hide most differences."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            readers.setdefault(name, (node.op_type, index))
    generator = np.random.default_rng(0)
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = [int(size) for size in shapes[node.input[0]]]
        value = numpy_helper.to_array(node.attribute[0].t)
        if value.dtype != np.float32:
            kept.append(node)
            continue
        op_type, index = readers.get(node.output[0], ("", 0))
        weights = _weights(op_type, index, shape, generator)
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    used = {name for node in graph.node for name in node.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
    inputs = [info for info in graph.input if info.name in used]
    del graph.input[:]
    graph.input.extend(inputs)
    if kept[-1].op_type == "Softmax":
        graph.output[0].name = kept[-1].input[0]
        del graph.node[-1]
    if batch > 1:
        _with_batch(made, batch)
    return made


def in_halves(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with FLOAT16 instead of FLOAT: weights, input and output."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for index, tensor in enumerate(made.graph.initializer):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            halves = numpy_helper.to_array(tensor).astype(np.float16)
            made.graph.initializer[index].CopyFrom(numpy_helper.from_array(halves, tensor.name))
    for info in [*made.graph.input, *made.graph.output]:
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.t.data_type == onnx.TensorProto.FLOAT:
                halves = numpy_helper.to_array(attribute.t).astype(np.float16)
                attribute.t.CopyFrom(numpy_helper.from_array(halves))
    del made.graph.value_info[:]
    return made


def _weights(op_type: str, index: int, shape: Sequence[int], generator: np.random.Generator) -> Floats:
    if op_type in ("Conv", "Gemm") and index == 1:
        inputs = int(np.prod(shape[1:]))
        return generator.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / max(inputs, 1)))
    if op_type == "BatchNormalization" and index in (1, 4):
        return generator.random(shape, np.float32) + np.float32(0.5)
    if op_type == "Unsqueeze":
        return generator.random(shape, np.float32) + np.float32(0.5)
    return generator.standard_normal(shape, np.float32) * np.float32(0.1)


def _with_batch(model: onnx.ModelProto, batch: int) -> None:
    """Another number of pictures, also in the shapes that they (but not weights) are given in between."""
    names = {tensor.name for tensor in model.graph.initializer}
    for info in [*model.graph.input, *model.graph.output]:
        if info.name not in names:
            info.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape" and node.input[0] not in names}
    for position, tensor in enumerate(model.graph.initializer):
        if tensor.name in shapes:
            sizes = numpy_helper.to_array(tensor).copy()
            sizes[0] = batch
            model.graph.initializer[position].CopyFrom(numpy_helper.from_array(sizes, tensor.name))


def by_onnx_runtime(model: onnx.ModelProto, feed: dict[str, Floats]) -> Floats:
    """What ONNX Runtime's CPU provider computes."""
    return np.asarray(models.by_onnx_runtime(model, feed)[0])
