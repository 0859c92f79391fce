"""Operators that ONNX defines by others: a node as the nodes of its function's body."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no annotations
from onnx import helper

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.model.node_attributes import subgraphs
from dmlvk.onnx.nodes.translation import translation_of
from dmlvk.onnx.nodes.values import Known, Tensor, Value

_FOLLOWS_FROM_SHAPES = frozenset({"Constant", "ConstantOfShape", "Range", "Shape", "Size"})
"""Operators of bodies that the host computes while planning."""

_numbers = itertools.count()


def expanded(step: Step, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[Step] | None:
    """The body of a node's function; ``None`` where it has none that the device could compute.

    Args:
        inputs: its inputs; some operators have another body for other types.
        opsets: versions of the operator sets.
    """
    steps = body_of(step, inputs, opsets)
    return steps if steps is not None and all(_is_possible(made) for made in steps) else None


def body_of(
    step: Step, inputs: Sequence[Value | onnx.TypeProto | None], opsets: Mapping[str, int]
) -> list[Step] | None:
    """The body of a node's function, whoever computes it; ``None`` where it has none, or one with graphs inside."""
    function = _body(step, inputs, opsets)
    if function is None:
        return None
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in function.opset_import}
    for domain, version in opsets.items():
        versions.setdefault(domain, version)
    prefix = f"{step.proto.name or step.proto.output[0]}/{next(_numbers)}/"
    names = dict(itertools.zip_longest(function.input, step.proto.input[: len(function.input)], fillvalue=""))
    names |= {inner: outer for inner, outer in zip(function.output, step.proto.output, strict=False) if outer}
    given = {attribute.name: attribute for attribute in step.proto.attribute}
    steps = []
    for proto in function.node:
        inner = _renamed(proto, names, prefix, given, step.schema)
        if inner is None or any(True for _ in subgraphs(inner)):
            return None
        made = step_of(inner, versions)
        if made is None:
            return None
        steps.append(made)
    return steps


def _body(
    step: Step, inputs: Sequence[Value | onnx.TypeProto | None], opsets: Mapping[str, int]
) -> onnx.FunctionProto | None:
    if not has_body(step):
        return None
    schema: Any = step.schema
    version = max(opsets.get(step.domain, 1), schema.since_version)
    if not takes(step, inputs):
        return None  # it would compute something of any type
    try:
        if schema.has_function:
            function: onnx.FunctionProto = schema.function_body
            return function if function.node else None
        types = [_type_of(value).SerializeToString() for value in inputs]
        made = onnx.FunctionProto()
        for opset in dict.fromkeys((version, schema.since_version)):  # a body's operators may have changed since
            contents = schema.get_context_dependent_function_with_opset_version(
                opset, step.proto.SerializeToString(), types
            )
            made.ParseFromString(contents)
            if made.node:
                return made
        return None
    except (RuntimeError, ValueError, TypeError, DecodeError, onnx.defs.SchemaError):
        return None


def takes(step: Step, inputs: Sequence[Value | onnx.TypeProto | None]) -> bool:
    """Whether a node's operator has the element types of these inputs, as far as they are known."""
    schema: Any = step.schema
    elements = [_type_of(value).tensor_type.elem_type for value in inputs]
    return schema is None or all(
        not element or f"tensor({onnx.TensorProto.DataType.Name(element).lower()})" in parameter.types
        for parameter, element in zip(schema.inputs, elements, strict=False)
    )


def _type_of(value: Value | onnx.TypeProto | None) -> onnx.TypeProto:
    if isinstance(value, onnx.TypeProto):
        return value
    if isinstance(value, Tensor):
        # What a body makes of a size is for that size only: it is not told those that are open.
        return helper.make_tensor_type_proto(
            value.element, [None if is_dynamic(size) else size for size in value.shape]
        )
    if isinstance(value, Known) and isinstance(value.value, np.ndarray):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.value.dtype), value.value.shape)
    return onnx.TypeProto()


def _renamed(
    proto: onnx.NodeProto,
    names: dict[str, str],
    prefix: str,
    given: Mapping[str, onnx.AttributeProto],
    schema: onnx.defs.OpSchema | None,
) -> onnx.NodeProto | None:
    """A node of the body with the names and attributes of the node that calls it."""
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    made.name = prefix + (proto.name or proto.op_type)
    del made.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
            continue
        source = given.get(attribute.ref_attr_name)
        if source is None and schema is not None and attribute.ref_attr_name in schema.attributes:
            default = schema.attributes[attribute.ref_attr_name].default_value
            source = default if default.type != onnx.AttributeProto.UNDEFINED else None
        if source is not None:
            copy = onnx.AttributeProto()
            copy.CopyFrom(source)
            copy.name = attribute.name
            made.attribute.append(copy)
    made.input[:] = [_outer(name, names, prefix) for name in proto.input]
    made.output[:] = [_outer(name, names, prefix) for name in proto.output]
    return made


def _outer(name: str, names: dict[str, str], prefix: str) -> str:
    return names.setdefault(name, prefix + name) if name else ""


def step_of(proto: onnx.NodeProto, versions: Mapping[str, int]) -> Step | None:
    """A node that is none of a model's file; ``None``: its operator is none of ONNX's."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = onnx.defs.get_schema(proto.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None
    return Step(-1, proto, schema, tuple(dict.fromkeys(name for name in proto.input if name)))


def _is_possible(step: Step) -> bool:
    """Whether the device has what a node of a body needs; DOUBLE that FLOAT was cast to would be as exact as that."""
    if any(item.name == "to" and item.i == onnx.TensorProto.DOUBLE for item in step.proto.attribute):
        return False
    if not step.domain and step.proto.op_type in _FOLLOWS_FROM_SHAPES:
        return True
    translation = translation_of(step.domain, step.proto.op_type, step.version)
    if translation is not None:
        return translation.missing is None
    return has_body(step)


def has_body(step: Step) -> bool:
    """Whether ONNX defines a node's operator by others."""
    schema: Any = step.schema  # the package's annotations leave out what is asked for
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)
