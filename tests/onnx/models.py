"""Small models for tests, and ONNX Runtime's sessions of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx as ort

OPSET = 17


def parsed(text: str) -> list[onnx.NodeProto]:
    """Nodes in ONNX's own notation, as ``a = Abs (x)  [name] y, , z = com.microsoft.Op <axis = 1> (a, , "b c")``."""
    return list(onnx.parser.parse_graph(f"nodes () => () {{{text}}}").node)


def model(
    nodes: str | Iterable[onnx.NodeProto],  # of ONNX, of ONNX Runtime and of ``ai.onnx.ml``; text is :func:`parsed`
    # an array, whose type and sizes it has; or sizes; or an element type and sizes. Names are open sizes
    inputs: Mapping[str, Any],
    # names of values; their types follow, or are those of a mapping, where ONNX Runtime infers none; sizes beside them
    outputs: Iterable[str],
    constants: Mapping[str, npt.ArrayLike] | None = None,  # those that nothing reads are left out
    *,
    element: int = TensorProto.FLOAT,  # the type of inputs that state only their sizes
    opset: int = OPSET,
) -> onnx.ModelProto:
    outputs = outputs if isinstance(outputs, Mapping) else list(outputs)
    shown, nodes = list(outputs), parsed(nodes) if isinstance(nodes, str) else list(nodes)
    read = {*shown, *_read(nodes)}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, *_kind(value, element)) for name, value in inputs.items()],
        [_shown(name, outputs) for name in shown],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in (constants or {}).items() if name in read],
    )
    versions = dict.fromkeys((node.domain for node in nodes), 1) | {"com.microsoft": 1, "ai.onnx.ml": 3, "": opset}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*e) for e in versions.items()], ir_version=10)


def _kind(value: Any, element: int) -> tuple[int, Any]:
    if isinstance(value, np.ndarray | np.generic):
        return helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    is_typed = isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], int | str)
    return value if is_typed else (element, value)


def _shown(name: str, outputs: Iterable[str]) -> onnx.ValueInfoProto:
    if isinstance(outputs, Mapping):
        kind = outputs[name]
        return helper.make_tensor_value_info(name, *(kind if isinstance(kind, tuple) else (kind, None)))
    return onnx.ValueInfoProto(name=name)


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)
            yield from (info.name for info in attribute.g.output)


class Writer:
    """Nodes and constants of a model, as they are put together; their names follow from their numbers."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """The names of a node's outputs."""
        names = [f"v{len(self.nodes)}" + (f".{index}" if index else "") for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names

    def one(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node's only output."""
        return self.node(op_type, *inputs, **attributes)[0]


def in_order(names: Iterable[str], feed: Iterable[str]) -> list[str]:
    """The inputs of a node of which some are absent."""
    order = [name if name in feed else "" for name in names]
    return order[: max(index for index, name in enumerate(order) if name) + 1]


def onnx_runtime(made: onnx.ModelProto | bytes, *, is_optimized: bool = True) -> Any:
    """ONNX Runtime's session of a model, on the processor.

    Its one thread matters: how it divides a batch among threads shows in what it quantizes dynamically.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    contents = made if isinstance(made, bytes) else made.SerializeToString()
    return onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])


def by_onnx_runtime(made: onnx.ModelProto | bytes, feed: Mapping[str, Any]) -> list[Any]:
    return list(onnx_runtime(made).run(None, dict(feed)))


def by_device(device: dml.Device, made: onnx.ModelProto | bytes, feed: Mapping[str, Any], **more: Any) -> list[Any]:
    """What dmlvk gives, by the device alone, unless ``more`` says otherwise."""
    return list(ort.InferenceSession(made, device=device, **{"strict": True, **more}).run(None, dict(feed)))


def difference(found: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float) -> str:
    """What floats have otherwise by more than a part of the largest one, and others at all; empty: nothing."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    near = found == expected
    if expected.dtype.kind == "f":
        a, b = found.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            largest = np.abs(b[np.isfinite(b)]).max(initial=1e-2)
            near |= (np.abs(a - b) <= tolerance * largest) | (np.isnan(a) & np.isnan(b))
    return "" if near.all() else f"{np.sum(~near)} differ: {found[~near][:4]} for {expected[~near][:4]}"


def assert_close(found: Iterable[Any], expected: Iterable[Any], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"output {number}"
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=f"output {number}")


def assert_same_bits(found: Iterable[Any], expected: Iterable[Any], label: object = "") -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes()), f"output {number} {label}"


def on_host(session: ort.InferenceSession) -> list[str]:
    """The nodes that the host computes, each with its operator and the reason: what a test's failure is to show."""
    return [f"{item.op_type} {item.node!r}: {item.reason}" for item in session.partition if item.place == "host"]


def two_branches() -> onnx.ModelProto:
    """Views, element-wise operators, a shape that follows from another one, and a symbolic size."""
    return model(
        (
            "[add] sum = Add (x, bias)  [bend] bent = Relu (sum)  turned = Transpose <perm = [1, 0]> (bent)"
            ' shape = Shape (turned)  negated = Neg (shape)  "same shape" = Abs (negated)'
            ' [reshape] y = Reshape (bent, "same shape")  z = Exp (turned)'
        ),
        {"x": ["rows", 3]},
        ["y", "z"],
        {"bias": np.array([1, -2, 3], np.float32)},
    )
