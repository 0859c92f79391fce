"""What a model's outputs are where the model itself does not say it: what follows from its inputs, by ONNX's rules.

What shapes follow from is computed as ONNX Runtime does when it makes a session: constants of constants, and the sizes
that are given. Operators that ONNX defines by others, and of whose results it says nothing, are put as those others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper, shape_inference

from dmlvk.errors import ModelFileError
from dmlvk.onnx.host.evaluators import is_random, own_results
from dmlvk.onnx.model.control import CONTROL_FLOW
from dmlvk.onnx.model.expansion import body_of, step_of
from dmlvk.onnx.model.limits import DEFAULT_LIMITS
from dmlvk.onnx.model.loading import OnnxModel, Step

_MOST_KNOWN = 4096  # Elements of constants from whose contents shapes may follow

_MOST_TIMES = 16
"""How often shapes are inferred, each time of what follows from those before; ONNX Runtime, too, ends after some."""

_OF_KERNELS = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow", "MeanVarianceNormalization"})
"""Operators that ONNX defines by others, but ONNX Runtime computes without them: it says nothing of their results."""

_LIMITS = dataclasses.replace(DEFAULT_LIMITS, result_bytes=16 * _MOST_KNOWN)

_WITHOUT_INPUTS = 4  # The version of files from which on initializers need not be inputs, too

_NOT_INFERRED = (ValueError, TypeError, RuntimeError, shape_inference.InferenceError)
"""What the onnx package raises of a model whose shapes it cannot say."""


def described_outputs(model: OnnxModel, overridable: Collection[str] = ()) -> Sequence[onnx.ValueInfoProto]:
    """A model's outputs with the types and shapes that follow; what does not is as the model has it.

    Args:
        overridable: initializers that a run may give: nothing follows from their contents.
    """
    outputs: Sequence[onnx.ValueInfoProto] = [info.proto for info in model.outputs]
    if all(info.element is not None and info.shape and None not in info.shape for info in model.outputs):
        return outputs
    proto = _with_constants(model, overridable)
    is_fixed = all(isinstance(size, int) for info in model.inputs for size in info.shape or (None,))
    for _ in range(_MOST_TIMES):
        try:  # of names of sizes ONNX Runtime computes nothing
            found = shape_inference.infer_shapes(proto, data_prop=is_fixed).graph
        except _NOT_INFERRED:
            break
        outputs = list(found.output)
        if not _Graph(model, proto.graph, found).simplified():
            break
    return outputs


class _Graph:
    """A graph, or one inside of it, in which what is known is put for what it is computed by.

    Args:
        found: the same, with the types that were inferred.
    """

    def __init__(
        self, model: OnnxModel, graph: onnx.GraphProto, found: onnx.GraphProto, outer: _Graph | None = None
    ) -> None:
        self._model, self._graph, self._found = model, graph, found
        computed = {name for node in graph.node for name in node.output}
        self._own = computed.union((info.name for info in graph.input), (tensor.name for tensor in graph.initializer))
        self._types: dict[str, onnx.TypeProto] = {}
        self._values: dict[str, Any] = {}
        if outer is not None:
            self._types |= {name: kind for name, kind in outer._types.items() if name not in self._own}
            self._values |= {name: value for name, value in outer._values.items() if name not in self._own}
        self._types |= {info.name: info.type for info in (*found.input, *found.value_info, *found.output)}
        for tensor in graph.initializer:
            self._types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            if tensor.raw_data or not math.prod(tensor.dims):
                self._values[tensor.name] = numpy_helper.to_array(tensor)

    def simplified(self) -> bool:
        """Does it once; whether something was changed, so that more may follow."""
        outputs = {info.name for info in self._graph.output}
        nodes: list[onnx.NodeProto] = []
        is_changed = False
        for node, found in zip(self._graph.node, self._found.node, strict=True):
            step = step_of(node, self._model.opsets)
            results = None if step is None or not outputs.isdisjoint(node.output) else self._results(step)
            if results is not None:
                for name, value in zip(node.output, results, strict=True):
                    if name:
                        self._know(name, value)
                is_changed = True
                continue
            body = None if step is None else self._body(step)
            if body is not None:
                nodes += [inner.proto for inner in body]
                is_changed = True
                continue
            nodes.append(node)
            for name in node.input:  # from outside: shapes of a graph are inferred by its own constants alone
                if name in self._values and name not in self._own:
                    self._know(name, self._values[name])
                    is_changed = True
            for inner, inferred in zip(node.attribute, found.attribute, strict=True):
                if inner.type == AttributeProto.GRAPH:
                    is_changed |= _Graph(self._model, inner.g, inferred.g, self).simplified()
        if is_changed:
            kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del self._graph.node[:]
            self._graph.node.extend(kept)
        return is_changed

    def _know(self, name: str, value: Any) -> None:
        self._own.add(name)
        self._values[name] = value
        self._graph.initializer.append(_tensor_of(name, value))

    def _results(self, step: Step) -> list[Any] | None:
        """What a node of known inputs gives, or the sizes of one that is not known itself."""
        node = step.proto
        if node.op_type == "Shape" and not step.domain:
            return self._sizes(node)
        if node.op_type in CONTROL_FLOW or is_random(step) or not all(name in self._values for name in step.reads):
            return None
        try:
            results = own_results(step, {name: self._values[name] for name in step.reads}, self._model.name, _LIMITS)
        except ModelFileError:
            return None  # whoever computes the node says so
        small = results is not None and all(
            isinstance(made, np.ndarray) and made.size <= _MOST_KNOWN and made.dtype != object for made in results
        )
        return results if small else None

    def _sizes(self, node: onnx.NodeProto) -> list[Any] | None:
        kind = self._types.get(node.input[0])
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        ends = {attribute.name: attribute.i for attribute in node.attribute}
        sizes = kind.tensor_type.shape.dim[slice(ends.get("start", 0), ends.get("end"))]
        is_known = all(size.HasField("dim_value") and size.dim_value >= 0 for size in sizes)
        return [np.array([size.dim_value for size in sizes], np.int64)] if is_known else None

    def _body(self, step: Step) -> list[Step] | None:
        """The nodes that ONNX defines a node by, where it says nothing else of what that gives."""
        if step.proto.op_type in _OF_KERNELS:
            return None
        for name in filter(None, step.proto.output):
            kind = self._types.get(name)
            if kind is not None and (kind.WhichOneof("value") != "tensor_type" or kind.tensor_type.HasField("shape")):
                return None
        types = [self._types.get(name, onnx.TypeProto()) for name in step.proto.input]
        return body_of(step, types, self._model.opsets)


def _with_constants(model: OnnxModel, overridable: Collection[str]) -> onnx.ModelProto:
    """A model with its initializers again: the contents of those that shapes may follow from, of others the shapes."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    kept = [node for node in graph.node if not (node.op_type == "Constant" and node.output[0] in model.constants)]
    del graph.node[:]
    graph.node.extend(kept)
    constants = {name: array for name, array in model.constants.items() if name not in overridable}
    given = [info for info in graph.input if info.name not in constants]  # of others the contents have a shape
    del graph.input[:]
    graph.input.extend(given)
    proto.ir_version = max(proto.ir_version, _WITHOUT_INPUTS)
    graph.initializer.extend(_tensor_of(name, array) for name, array in constants.items())
    return proto


def _tensor_of(name: str, array: Any) -> TensorProto:
    """A constant's contents, where shapes may follow from them, or its type and shape alone."""
    if array.size <= _MOST_KNOWN:
        return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    return TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
