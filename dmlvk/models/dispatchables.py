"""The ``dispatchables`` of a model file: operator descriptions, read by the member tables of the operators.

There is no code for single operators here: :data:`MEMBER_READERS` has one function for each *type* of member, and a new
operator whose members have known types can be used in model files as soon as it is declared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlvk.datatypes import DataType
from dmlvk.graphs.description import GraphDesc, InputGraphEdge, OperatorGraphNode, OutputGraphEdge
from dmlvk.models.bindings import Bound, ModelBindPoint, parse_bindings
from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.onnx_dispatchables import OnnxDispatchable, parse_onnx
from dmlvk.models.resources import Resource
from dmlvk.models.values import (
    UINT64_MAX,
    Members,
    array,
    boolean,
    data_type,
    enumeration,
    flags,
    integer,
    integers,
    real,
    reals,
    refuse_later,
    string,
)
from dmlvk.objects.compilation import CompiledOperator, ExecutionFlags, Operator, is_owned
from dmlvk.operators import OPERATORS, Field, FusedActivation, OperatorDesc, ScaleBias, Size2D
from dmlvk.operators.members import directml_prefix
from dmlvk.operators.naming import other_operators
from dmlvk.tensors import TensorDesc, TensorFlags

if TYPE_CHECKING:
    from dmlvk.device import Device

_OPERATOR_PREFIX = "DML_OPERATOR_"
_TENSOR_TYPES = ("BUFFER", "DML_TENSOR_TYPE_BUFFER")

_LATER_TYPES = {"hlsl": "an HLSL shader ('hlsl')", "dmlserializedgraph": "a serialized graph ('dmlSerializedGraph')"}
"""Kinds of dispatchables that the format knows and dmlvk does not run, by their type in lower case."""


class ModelDispatchable(Protocol):
    """Something that a ``dispatch`` command can run."""

    @property
    def name(self) -> str:
        """Its key in the file."""

    @property
    def node(self) -> JsonNode:
        """Where it stands."""

    @property
    def bind_points(self) -> tuple[ModelBindPoint | None, ...]:
        """In the order of the bindings; ``None`` for what is not bound: absent tensors, and those OWNED_BY_DML."""

    @property
    def owned(self) -> Bound:
        """What is bound when it is initialized: for each input the resource that it is copied from, if it is owned."""

    def compile(self, device: Device) -> CompiledOperator:
        """Prepares it for ``device``.

        Raises:
            ModelFileError: when the device refuses it.
        """


@dataclasses.dataclass(frozen=True)
class OperatorDispatchable:
    """A single DirectML operator."""

    name: str  # its key in the file
    node: JsonNode  # where it stands
    desc: OperatorDesc  # the operator's description
    options: CompileOptions  # how it is compiled
    owned: Bound  # what its inputs that are OWNED_BY_DML are copied from when it is initialized

    @property
    def bind_points(self) -> tuple[ModelBindPoint | None, ...]:
        """The inputs, then the outputs, in the order of the description; an array of tensors is one of them."""
        points: list[ModelBindPoint | None] = []
        for kind in ("input", "output"):
            for field in self.desc.fields:
                if field.kind == kind:
                    points += _bind_points(field, getattr(self.desc, field.attribute))
        return tuple(points)

    def compile(self, device: Device) -> CompiledOperator:
        """Creates and compiles the operator; the device's errors get this dispatchable's place."""
        with self.node.located(f"the dispatchable {shortened(self.name)}: "):
            operator = device.create_operator(self.desc)
            if not self.options.as_graph:
                return device.compile_operator(operator, self.options.flags)
            return device.compile_graph(
                _graph_of(operator),
                self.options.flags,
                input_names=[field.name for field, _ in self.desc.inputs],
                output_names=[field.name for field, _ in self.desc.outputs],
            )


def _bind_points(field: Field, value: Any) -> list[ModelBindPoint | None]:
    """Where the resources of a member are bound: all tensors of an array together, but for those OWNED_BY_DML."""
    is_output = field.kind == "output"
    if field.type != "tensors":
        return [None if value is None or is_owned(value) else ModelBindPoint(field.name, (value,), is_output)]
    if not any(is_owned(tensor) for tensor in value):
        return [ModelBindPoint(field.name, tuple(value), is_output)]
    elements = [(field.element(number).name, tensor) for number, tensor in enumerate(value)]
    return [None if is_owned(tensor) else ModelBindPoint(name, (tensor,), is_output) for name, tensor in elements]


def _graph_of(operator: Operator) -> GraphDesc:
    inputs, outputs = operator.desc.inputs, operator.desc.outputs
    return GraphDesc(
        len(inputs),
        len(outputs),
        [OperatorGraphNode(operator, operator.desc.operator_name)],
        [InputGraphEdge(number, 0, number) for number, (_, tensor) in enumerate(inputs) if tensor is not None],
        [OutputGraphEdge(0, number, number) for number, (_, tensor) in enumerate(outputs) if tensor is not None],
    )


def parse_dispatchable(
    name: str, node: JsonNode, resources: Mapping[str, Resource], directory: Path
) -> ModelDispatchable | OnnxDispatchable:
    """Reads one entry of ``dispatchables``.

    Args:
        resources: what inputs that are OWNED_BY_DML can be copied from.
        directory: where the model file lies.

    Raises:
        ModelFileError: when it breaks a rule of the format, or is of a kind that dmlvk does not run.
    """
    what = f"the dispatchable {shortened(name)}"
    members = Members(node, what)
    type_node = _type_node(members)
    type_name = string(type_node, f"{what}: type")
    if type_name.lower() == "onnx":
        return parse_onnx(name, members, directory)
    later = _LATER_TYPES.get(type_name.lower())
    if later is not None:
        raise refuse_later(type_node, f"{what}: {later}")
    desc_class = _operator_class(type_node, type_name, what)
    options, bindings = _compile_options(members, what)

    nested = _nested_node(members)
    if nested is None:
        desc = read_operator(desc_class, members)
    else:
        members.finish()
        desc = read_operator(desc_class, Members(nested, desc_class.operator_name))
    return OperatorDispatchable(name, node, desc, options, _owned(desc, node, bindings, what, resources))


def _owned(
    desc: OperatorDesc, node: JsonNode, bindings: JsonNode | None, what: str, resources: Mapping[str, Resource]
) -> Bound:
    """The ``bindings`` of a dispatchable: what its inputs that are OWNED_BY_DML are copied from."""
    points = [
        ModelBindPoint(field.name, (tensor,), False) if tensor is not None and is_owned(tensor) else None
        for field, tensor in desc.inputs
    ]
    if bindings is not None:
        return parse_bindings(Members(bindings, f"{what}: bindings"), points, resources)
    owned = [point.name for point in points if point is not None]
    if owned:
        raise node.error(
            f"{what}: {owned[0]} is OWNED_BY_DML: the dispatchable needs 'bindings' that say what it is copied from"
        )
    return tuple(() for _ in points)


def _type_node(members: Members) -> JsonNode:
    """``type``, or ``Type`` as the format's structures write it."""
    return members.required("Type") if "type" not in members and "Type" in members else members.required("type")


def _nested_node(members: Members) -> JsonNode | None:
    """``desc`` or ``Desc``; ``None`` where the members stand beside the type."""
    return members.optional("Desc") if "Desc" in members else members.optional("desc")


def _operator_class(node: JsonNode, name: str, what: str) -> type[OperatorDesc]:
    desc_class = OPERATORS.get(name.removeprefix(_OPERATOR_PREFIX))
    if desc_class is None:
        short = name.removeprefix(_OPERATOR_PREFIX)
        raise node.error(f"{what}: dmlvk has no operator {shortened(short)}; {other_operators(short[:100])}")
    return desc_class


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    as_graph: bool  # as a graph of one operator (``DmlCompileGraph``)
    flags: ExecutionFlags  # its execution flags


def _compile_options(members: Members, what: str) -> tuple[CompileOptions, JsonNode | None]:
    """``dmlCompileType`` and ``executionFlags``; and ``bindings``: what stands beside the description."""
    compile_type = members.optional("dmlCompileType")
    name = "DmlCompileOp" if compile_type is None else string(compile_type, f"{what}: dmlCompileType")
    if compile_type is not None and name not in ("DmlCompileOp", "DmlCompileGraph"):
        raise compile_type.error(
            f"{what}: dmlCompileType must be 'DmlCompileOp' or 'DmlCompileGraph'; got {shortened(name)}"
        )
    flags_node = members.optional("executionFlags")
    execution_flags = ExecutionFlags.NONE
    if flags_node is not None:
        execution_flags = flags(flags_node, f"{what}: executionFlags", ExecutionFlags, "DML_EXECUTION_FLAG_")
    return CompileOptions(name == "DmlCompileGraph", execution_flags), members.optional("bindings")


def read_operator(desc_class: type[OperatorDesc], members: Members) -> OperatorDesc:
    """Makes a description from the members of a JSON object.

    Raises:
        ModelFileError: when a member is missing, unknown, or breaks a rule.
    """
    values: dict[str, object] = {}
    for field in desc_class.fields:
        where = f"{desc_class.operator_name}: {field.name}"
        node = members.optional(field.name) if field.optional else members.required(field.name)
        if node is not None:
            values[field.attribute] = MEMBER_READERS[field.type](node, where, field, values)
    members.finish()
    with members.node.located():
        return desc_class(**values)


def read_tensor(node: JsonNode, where: str) -> TensorDesc:
    """A DML_TENSOR_DESC: the members of DML_BUFFER_TENSOR_DESC, alone or inside ``{Type, Desc}``.

    Raises:
        ModelFileError: when it breaks a rule.
    """
    outer = Members(node, where)
    type_node = outer.optional("Type")
    if type_node is not None and string(type_node, f"{where}.Type") not in _TENSOR_TYPES:
        raise type_node.error(f"{where}.Type must be BUFFER; got {type_node.kind}")
    members = outer
    if "Desc" in outer:
        members = Members(outer.required("Desc"), where)
        outer.finish()

    type_of_elements = data_type(members.required("DataType"), f"{where}.DataType", in_whole_bytes=False)
    sizes = integers(members.required("Sizes"), f"{where}.Sizes")
    strides_node = members.optional("Strides")
    strides = None if strides_node is None else integers(strides_node, f"{where}.Strides")
    count_node = members.optional("DimensionCount")
    if count_node is not None and integer(count_node, f"{where}.DimensionCount") != len(sizes):
        raise count_node.error(
            f"{where}.DimensionCount must be {len(sizes)}, the number of Sizes; got {count_node.value}"
        )
    total_node = members.optional("TotalTensorSizeInBytes")
    total = 0 if total_node is None else integer(total_node, f"{where}.TotalTensorSizeInBytes", 0, UINT64_MAX)
    alignment_node = members.optional("GuaranteedBaseOffsetAlignment")
    alignment = 0 if alignment_node is None else integer(alignment_node, f"{where}.GuaranteedBaseOffsetAlignment")
    flags_node = members.optional("Flags")
    tensor_flags = TensorFlags.NONE
    if flags_node is not None:
        tensor_flags = flags(flags_node, f"{where}.Flags", TensorFlags, "DML_TENSOR_FLAG_")
    members.finish()
    with node.located(f"{where}: "):
        return TensorDesc(
            type_of_elements,
            sizes,
            strides or None,  # an empty array is DirectML's null
            total or None,  # as in DxDispatch, 0 asks for the size that Sizes and Strides imply
            alignment,
            tensor_flags,
        )


def read_scale_bias(node: JsonNode, where: str) -> ScaleBias:
    """A DML_SCALE_BIAS: ``{Scale, Bias}``, both required.

    Raises:
        ModelFileError: when it breaks a rule.
    """
    members = Members(node, where)
    scale = real(members.required("Scale"), f"{where}.Scale")
    bias = real(members.required("Bias"), f"{where}.Bias")
    members.finish()
    with node.located(f"{where}: "):
        return ScaleBias(scale, bias)


def _fused_activation(node: JsonNode, where: str) -> FusedActivation:
    """A DML_OPERATOR_DESC without tensors: ``{Type, Desc: {Alpha}}``, or the members beside the Type."""
    outer = Members(node, where)
    type_node = outer.required("Type")
    desc_class = _operator_class(type_node, string(type_node, f"{where}.Type"), f"{where}.Type")
    members = outer
    if "Desc" in outer:
        members = Members(outer.required("Desc"), f"{where}.Desc")
        outer.finish()
    values: dict[str, object] = {}
    for field in desc_class.fields:
        location = f"{where}: {desc_class.operator_name}: {field.name}"
        if field.type == "tensor":
            tensor = members.optional(field.name)
            if tensor is not None and tensor.value is not None:
                raise tensor.error(f"{location} must be null: a fused activation has no tensors")
            continue
        member = members.optional(field.name) if field.optional else members.required(field.name)
        if member is not None:
            values[field.attribute] = MEMBER_READERS[field.type](member, location, field, values)
    members.finish()
    with node.located(f"{where}: "):
        return FusedActivation(desc_class, **values)


def _enum_member(node: JsonNode, where: str, field: Field, _: Mapping[str, object]) -> object:
    assert field.enumeration is not None  # what makes it an enum
    return enumeration(node, where, field.enumeration, directml_prefix(field.enumeration))


_UNION_VIEWS = {
    DataType.FLOAT64: "Float64", DataType.FLOAT32: "Float32", DataType.FLOAT16: "UInt16", DataType.INT64: "Int64",
    DataType.INT32: "Int32", DataType.INT16: "Int16", DataType.INT8: "Int8", DataType.UINT64: "UInt64",
    DataType.UINT32: "UInt32", DataType.UINT16: "UInt16", DataType.UINT8: "UInt8",
}  # fmt: skip


def _scalar_union(node: JsonNode, where: str, field: Field, earlier: Mapping[str, object]) -> object:
    """A number of the type that an earlier member states, or an object with that type's view of the union.

    FLOAT16 has no view of its own: an object gives its bits as UInt16.
    """
    assert field.typed_by is not None  # what makes it a scalar union
    type_of_value = earlier[field.typed_by]
    assert isinstance(type_of_value, DataType)
    view = _UNION_VIEWS.get(type_of_value)
    if view is None:
        raise node.error(f"{where} cannot be a {type_of_value.name}")
    if isinstance(node.value, dict):
        members = Members(node, where)
        node = members.required(view)
        members.finish()
        if type_of_value is DataType.FLOAT16:
            bits = integer(node, f"{where}.{view}", 0, 0xFFFF)
            return float(np.array(bits, np.uint16).view(np.float16))
    if type_of_value.is_float:
        return real(node, where)
    limits = np.iinfo(type_of_value.numpy_dtype)
    lowest = -(int(limits.max) // 2) - 1 if field.wraps else int(limits.min)
    return integer(node, where, lowest, int(limits.max))


def _truth(node: JsonNode, where: str) -> bool:
    """A BOOL: true or false, or 1 or 0."""
    return bool(node.value) if node.value in (0, 1) and isinstance(node.value, int) else boolean(node, where)


def _size(node: JsonNode, where: str) -> Size2D:
    """A DML_SIZE_2D: ``{Width, Height}``."""
    members = Members(node, where)
    width = integer(members.required("Width"), f"{where}.Width")
    height = integer(members.required("Height"), f"{where}.Height")
    members.finish()
    return Size2D(width, height)


def read_tensors(node: JsonNode, where: str) -> list[TensorDesc]:
    """An array of DML_TENSOR_DESC.

    Raises:
        ModelFileError: when it is none, or one of them breaks a rule.
    """
    return [read_tensor(item, f"{where}[{number}]") for number, item in enumerate(array(node, where))]


MemberReader = Callable[[JsonNode, str, Field, Mapping[str, object]], object]

MEMBER_READERS: dict[str, MemberReader] = {
    "tensor": lambda node, where, *_: read_tensor(node, where),
    "float": lambda node, where, *_: real(node, where),
    "scale_bias": lambda node, where, *_: read_scale_bias(node, where),
    "enum": _enum_member,
    "data_type": lambda node, where, *_: data_type(node, where),
    "scalar_union": _scalar_union,
    "tensors": lambda node, where, *_: read_tensors(node, where),
    "float_array": lambda node, where, *_: reals(node, where),
    "bool": lambda node, where, *_: _truth(node, where),
    "int32": lambda node, where, *_: integer(node, where, -(2**31), 2**31 - 1),
    "int32_array": lambda node, where, *_: integers(node, where, -(2**31), 2**31 - 1),
    "size_2d": lambda node, where, *_: _size(node, where),
    "uint32": lambda node, where, *_: integer(node, where),
    "uint32_array": lambda node, where, *_: integers(node, where),
    "operator_desc": lambda node, where, *_: _fused_activation(node, where),
    "operator_descs": lambda node, where, *_: [
        _fused_activation(item, f"{where}[{number}]") for number, item in enumerate(array(node, where))
    ],
}
"""How a member is read, by the type that the operators' member tables state, with the members before it at hand."""
