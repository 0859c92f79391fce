"""Small models for tests, and ONNX Runtime's sessions of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import dmlvk.onnx as ort

OPSET = 17


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Iterable[str],
    constants: Mapping[str, npt.ArrayLike] | None = None,
    *,
    element: int = TensorProto.FLOAT,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """A model of these nodes.

    Args:
        nodes: of ONNX, of ONNX Runtime and of ``ai.onnx.ml``.
        inputs: an array, whose type and sizes it has; or sizes; or an element type and sizes. Names are open sizes.
        outputs: names of values; their types follow, or are those of a mapping, where ONNX Runtime infers none.
        constants: those that nothing reads are left out.
        element: the type of inputs that state only their sizes.
        opset: of ONNX's nodes.
    """
    outputs = outputs if isinstance(outputs, Mapping) else list(outputs)
    shown, nodes = list(outputs), list(nodes)
    read = {*shown, *_read(nodes)}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, *_kind(value, element)) for name, value in inputs.items()],
        [_shown(name, outputs) for name in shown],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in (constants or {}).items() if name in read],
    )
    domains = (("", opset), ("com.microsoft", 1), ("ai.onnx.ml", 3))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in domains], ir_version=10)


def _kind(value: Any, element: int) -> tuple[int, Any]:
    if isinstance(value, np.ndarray | np.generic):
        return helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    is_typed = isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], int | str)
    return value if is_typed else (element, value)


def _shown(name: str, outputs: Iterable[str]) -> onnx.ValueInfoProto:
    if isinstance(outputs, Mapping):
        return helper.make_tensor_value_info(name, outputs[name], None)
    return onnx.ValueInfoProto(name=name)


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)
            yield from (info.name for info in attribute.g.output)


def in_order(names: Iterable[str], feed: Iterable[str]) -> list[str]:
    """The inputs of a node of which some are absent."""
    order = [name if name in feed else "" for name in names]
    return order[: max(index for index, name in enumerate(order) if name) + 1]


def onnx_runtime(made: onnx.ModelProto, *, is_optimized: bool = True) -> Any:
    """ONNX Runtime's session of a model, on the processor.

    Its one thread matters: how it divides a batch among threads shows in what it quantizes dynamically.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def on_host(session: ort.InferenceSession) -> list[str]:
    """The nodes that the host computes, each with its operator and the reason: what a test's failure is to show."""
    return [f"{item.op_type} {item.node!r}: {item.reason}" for item in session.partition if item.place == "host"]


def two_branches() -> onnx.ModelProto:
    """Views, element-wise operators, a shape that follows from another one, and a symbolic size."""
    return model(
        [
            helper.make_node("Add", ["x", "bias"], ["sum"], name="add"),
            helper.make_node("Relu", ["sum"], ["bent"], name="bend"),
            helper.make_node("Transpose", ["bent"], ["turned"], perm=[1, 0]),
            helper.make_node("Shape", ["turned"], ["shape"]),
            helper.make_node("Neg", ["shape"], ["negated"]),
            helper.make_node("Abs", ["negated"], ["same shape"]),
            helper.make_node("Reshape", ["bent", "same shape"], ["y"], name="reshape"),
            helper.make_node("Exp", ["turned"], ["z"]),
        ],
        {"x": ["rows", 3]},
        ["y", "z"],
        {"bias": np.array([1, -2, 3], np.float32)},
    )
