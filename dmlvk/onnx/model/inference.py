"""Element types and shapes of what a node gives, by ONNX's own rules.

Most nodes of a network are like others of it. What follows from types and shapes alone is asked once for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, TypeProto, helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from dmlvk.onnx.model.limits import check_claims
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.values import Known, Tensor, Value

_MOST_KNOWN = 4096  # Elements of inputs that shape inference looks at

_MOST_ATTRIBUTE_BYTES = 512  # Of a node whose result is kept

INVALID = (ValueError, MemoryError)
"""What functions of the host raise of a node that breaks a rule, NumPy's own among them, besides errors of dmlvk."""

_NOT_INFERRED = (ValueError, TypeError, RuntimeError, InferenceError, onnx.checker.ValidationError)
"""What the onnx package raises of a node whose shapes it cannot say."""

Inferred = tuple[int, tuple[int, ...]]  # Element type and shape


class NotInferred(Exception):
    """ONNX's rules for shapes say that a node is not valid, or cannot say what it gives."""


def inferred(step: Step, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[Inferred | None]:
    """Element type and shape of each output of a node, as far as they follow from its inputs.

    Raises:
        NotInferred: when the node breaks a rule.
    """
    proto = step.proto
    nothing: list[Inferred | None] = [None] * len(proto.output)
    types = [None if value is None else _type_of(value) for value in inputs]
    if step.schema is None or types.count(None) > inputs.count(None):
        return nothing
    claim = check_claims(step, inputs)
    if claim is not None:
        raise NotInferred(claim)
    if _has_plain_attributes(proto):
        wanted = tuple(map(bool, proto.output))
        attributes = tuple(attribute.SerializeToString(deterministic=True) for attribute in proto.attribute)
        kind = step.schema.name, step.schema.since_version, step.schema.domain
        found = _of_types(kind, attributes, tuple(types), wanted, tuple(opsets.items()))
        if found is not None:
            return list(found)
    return _of_contents(step, inputs, types, opsets)


def _has_plain_attributes(proto: onnx.NodeProto) -> bool:
    """Whether the attributes of a node are few numbers and texts, no graphs that read values by their names."""
    plain = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS)
    return all(each.type in plain for each in proto.attribute) and (
        sum(each.ByteSize() for each in proto.attribute) <= _MOST_ATTRIBUTE_BYTES
    )


@functools.lru_cache(maxsize=1024)
def _of_types(
    kind: tuple[str, int, str],  # name, version and domain of the operator
    attributes: tuple[bytes, ...],
    types: tuple[Inferred | None, ...],  # of the inputs; ``None`` for one that is left out
    outputs: tuple[bool, ...],
    opsets: tuple[tuple[str, int], ...],  # versions of the operator sets
) -> tuple[Inferred | None, ...] | None:
    """What follows from types and shapes alone; ``None``: not all of it does, or the node is not valid."""
    schema = onnx.defs.get_schema(*kind)
    proto = onnx.NodeProto(op_type=schema.name, domain=schema.domain)
    proto.attribute.extend(map(AttributeProto.FromString, attributes))
    proto.input.extend("" if found is None else f"input{index}" for index, found in enumerate(types))
    proto.output.extend(f"output{index}" if wanted else "" for index, wanted in enumerate(outputs))
    given = {f"input{index}": _tensor_type(*found) for index, found in enumerate(types) if found is not None}
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    try:
        results = infer_node_outputs(schema, proto, given, opset_imports=imports)
    except _NOT_INFERRED:
        return None
    shapes = tuple(_shaped(results.get(output)) for output in proto.output)
    is_complete = all(shape is not None for shape, wanted in zip(shapes, outputs, strict=True) if wanted)
    return shapes if is_complete else None


def _of_contents(
    step: Step, inputs: Sequence[Value | None], types: Sequence[Inferred | None], opsets: Mapping[str, int]
) -> list[Inferred | None]:
    """What follows from small inputs that are known, too."""
    given: dict[str, TypeProto] = {}
    contents: dict[str, onnx.TensorProto] = {}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        for name, value, found in zip(step.proto.input, inputs, types, strict=True):
            if found is None:
                continue
            given[name] = _tensor_type(*found)
            if isinstance(value, Known) and value.value.size <= _MOST_KNOWN and value.value.dtype != "O":
                array = np.ascontiguousarray(value.value).reshape(value.value.shape)
                contents[name] = numpy_helper.from_array(array, name)
        assert step.schema is not None  # without one nothing is inferred
        outputs = infer_node_outputs(step.schema, step.proto, given, contents, opset_imports=imports)
    except _NOT_INFERRED as error:
        raise NotInferred(" ".join(str(error).split())) from error
    return [_shaped(outputs.get(name)) for name in step.proto.output]


def _type_of(value: Value) -> Inferred | None:
    if isinstance(value, Tensor):
        return value.element, value.shape
    if isinstance(value, Known) and isinstance(value.value, np.ndarray):
        try:
            return helper.np_dtype_to_tensor_dtype(value.value.dtype), value.value.shape
        except (ValueError, KeyError):
            return None
    return None


@functools.lru_cache(maxsize=1024)  # the tensors of a network are of few shapes; what is made is only read
def _tensor_type(element: int, shape: tuple[int, ...]) -> TypeProto:
    return helper.make_tensor_type_proto(element, shape)


def _shaped(found: TypeProto | None) -> Inferred | None:
    if found is None or found.WhichOneof("value") != "tensor_type" or not found.tensor_type.HasField("shape"):
        return None
    sizes = []
    for dimension in found.tensor_type.shape.dim:
        if dimension.WhichOneof("value") != "dim_value" or dimension.dim_value < 0:
            return None
        sizes.append(dimension.dim_value)
    return found.tensor_type.elem_type, tuple(sizes)
