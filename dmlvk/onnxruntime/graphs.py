"""Graphs as ONNX Runtime hands them out, as models of the onnx package and of dmlvk.onnx."""

from __future__ import annotations

import ctypes
import dataclasses
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, helper, numpy_helper

from dmlvk.errors import DmlError
from dmlvk.onnx.model.large_tensors import LEAST_BYTES, STORED_AS_IN_MEMORY
from dmlvk.onnx.model.loading import OnnxModel, reloaded
from dmlvk.onnxruntime.interface import Api, array_of, as_text
from dmlvk.support.mapped_files import ChangedFileError, MappedFile

Shape = tuple[int | str | None, ...]

_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS, _GRAPH, _TENSOR = range(1, 9)
"""OrtOpAttrType."""


@dataclasses.dataclass(frozen=True)
class RuntimeValue:
    name: str  # its name
    element: int | None  # ONNX's element type; ``None`` for what is no tensor
    shape: Shape | None  # as far as it is known
    handle: int  # ONNX Runtime's
    is_constant: bool  # whether it is an initializer that no caller can replace


@dataclasses.dataclass(frozen=True, eq=False)
class GraphNode:
    handle: int  # ONNX Runtime's
    proto: onnx.NodeProto  # the node; without the attributes that cannot be read
    version: int  # since when its operator is as it is
    unreadable: str | None  # why dmlvk cannot have it; ``None`` where it may
    reads: tuple[str, ...]  # the names of all values that it needs, also for graphs inside it


class RuntimeGraph:
    """A graph, read; handles are valid only as long as ONNX Runtime's call lasts."""

    def __init__(self, api: Api, handle: int) -> None:
        self._api = api
        self.values: dict[str, RuntimeValue] = {}
        self._files: dict[Path, MappedFile] = {}
        self.name = api.text("Graph_GetName", handle)
        self.is_inside = bool(api.pointer("Graph_GetParentNode", handle))
        self.version = api.integer("Graph_GetOnnxIRVersion", handle)
        self._folder = Path(api.path("Graph_GetModelPath", handle)).parent
        self.opsets = self._operator_sets(handle)
        self.inputs = [self._value(value) for value in api.pointers("Graph", "Inputs", handle)]
        self.outputs = [self._value(value) for value in api.pointers("Graph", "Outputs", handle)]
        for value in api.pointers("Graph", "Initializers", handle):
            self._value(value)
        self.nodes = [self._node(node) for node in api.pointers("Graph", "Nodes", handle)]

    def _operator_sets(self, handle: int) -> dict[str, int]:
        count = self._api.integer("Graph_GetNumOperatorSets", handle)
        domains, versions = (ctypes.c_char_p * count)(), (ctypes.c_int64 * count)()
        self._api.call("Graph_GetOperatorSets", handle, domains, versions, count)
        return {(name or b"").decode(): version for name, version in zip(domains, versions, strict=True)}

    def _value(self, handle: int) -> str:
        """Notes a value; returns its name."""
        name = self._api.text("GetValueInfoName", handle)
        if name and name not in self.values:
            element, shape = self._type(handle)
            is_constant = bool(self._api.integer("ValueInfo_IsConstantInitializer", handle) & 1)
            self.values[name] = RuntimeValue(name, element, shape, handle, is_constant)
        return name

    def _type(self, handle: int) -> tuple[int | None, Shape | None]:
        kind = self._api.pointer("GetValueInfoTypeInfo", handle)
        info = self._api.pointer("CastTypeInfoToTensorInfo", kind) if kind else None
        if not info:
            return None, None
        element, shape = self._api.shape_of(info)
        return element or None, shape

    def _node(self, handle: int) -> GraphNode:
        api = self._api
        inputs = [self._value(value) if value else "" for value in api.pointers("Node", "Inputs", handle)]
        outputs = [self._value(value) if value else "" for value in api.pointers("Node", "Outputs", handle)]
        implicit = [self._value(value) for value in api.pointers("Node", "ImplicitInputs", handle) if value]
        name, op_type = api.text("Node_GetName", handle), api.text("Node_GetOperatorType", handle)
        domain = api.text("Node_GetDomain", handle)
        proto = onnx.NodeProto(op_type=op_type, name=name, domain=domain, input=inputs, output=outputs)
        unreadable = "the host decides which graph comes next" if api.integer("Node_GetNumSubgraphs", handle) else None
        for attribute in api.pointers("Node", "Attributes", handle):
            if unreadable is None:
                unreadable = self._add_attribute(proto, attribute)
        reads = tuple(dict.fromkeys(name for name in (*inputs, *implicit) if name))
        version = api.integer("Node_GetSinceVersion", handle)
        _leave_defaults(proto, version)
        return GraphNode(handle, proto, version, unreadable, reads)

    def _add_attribute(self, proto: onnx.NodeProto, handle: int) -> str | None:
        """Adds an attribute to a node; returns why that cannot be done."""
        name, kind = self._api.text("OpAttr_GetName", handle), self._api.integer("OpAttr_GetType", handle)
        made = AttributeProto(name=name)
        if kind == _TENSOR:
            value = self._api.pointer("OpAttr_GetTensorAttributeAsOrtValue", handle)
            if not value:
                return f"the attribute {name!r} cannot be read"
            try:
                made.t.CopyFrom(numpy_helper.from_array(self._api.contents(value)))
            except DmlError as error:
                return f"the attribute {name!r}: {error}"
            finally:
                self._api.call("ReleaseValue", value)
            made.type = AttributeProto.TENSOR
        elif not _INT <= kind <= _STRINGS:
            return f"the attribute {name!r} is of a kind that ONNX Runtime does not hand out"
        else:
            _fill(made, kind, self._bytes(handle, kind))
        proto.attribute.append(made)
        return None

    def _bytes(self, handle: int, kind: int) -> bytes:
        size = ctypes.c_size_t()
        function, _ = self._api.function("ReadOpAttr")
        status = function(handle, kind, None, 0, ctypes.byref(size))  # asks how much there is
        if status:
            self._api.call("ReleaseStatus", status)
        if not size.value:
            return b""
        room = ctypes.create_string_buffer(size.value)
        self._api.call("ReadOpAttr", handle, kind, room, size.value, ctypes.byref(size))
        return room.raw

    # Initializers.

    def constants(self, names: Iterable[str], *, are_kept: bool) -> dict[str, npt.NDArray[Any]]:
        """The contents of initializers.

        Args:
            are_kept: whether they are needed when the call of ONNX Runtime's is over. Large ones that lie in a file
                of the model's are mapped from there, all else copied; ONNX Runtime lets its own memory go afterwards.
                Where they are not kept, they are ONNX Runtime's own memory.
        """
        return {name: self._constant(self.values[name], is_kept=are_kept) for name in dict.fromkeys(names)}

    def _constant(self, value: RuntimeValue, *, is_kept: bool) -> npt.NDArray[Any]:
        api = self._api
        sizes = [size for size in value.shape or () if isinstance(size, int)]
        assert value.element is not None
        if is_kept:
            mapped = self._mapped(value, sizes)
            if mapped is not None:
                return mapped
        tensor = api.pointer("ValueInfo_GetInitializerValue", value.handle)
        if not tensor:
            raise DmlError(f"ONNX Runtime does not hand out the initializer {value.name!r}")
        address, size = api.pointer("GetTensorData", tensor), api.integer("GetTensorSizeInBytes", tensor)
        room = (ctypes.c_char * size).from_address(address) if address and size else b""
        array = array_of(value.element, sizes, room)
        return array.copy() if is_kept else array

    def _mapped(self, value: RuntimeValue, sizes: Sequence[int]) -> npt.NDArray[Any] | None:
        """A large initializer that lies in a file, mapped from there; whoever reads it can tell whether it changed."""
        if value.element is None or value.element not in STORED_AS_IN_MEMORY:
            return None
        info = self._api.pointer("ValueInfo_GetExternalInitializerInfo", value.handle)
        if not info:
            return None
        try:
            name = as_text(self._api.call("ExternalInitializerInfo_GetFilePath", info))
            offset = self._api.call("ExternalInitializerInfo_GetFileOffset", info)
            size = self._api.call("ExternalInitializerInfo_GetByteSize", info)
        finally:
            self._api.call("ReleaseExternalInitializerInfo", info)
        if size < LEAST_BYTES:
            return None
        path = self._folder / name
        try:
            file = self._files.get(path) or self._files.setdefault(path, MappedFile.opened(path))
        except (OSError, ValueError):
            return None  # no file of its own: in memory, or not where it seems to be
        if offset < 0 or offset + size > file.length:
            raise ChangedFileError(
                f"{path}: {size} bytes from byte {offset} on are the initializer {value.name!r}; the file has "
                f"{file.length} bytes now"
            )
        return array_of(value.element, sizes, file.array(np.uint8, offset, (size,)))

    # Models.

    def model(
        self,
        nodes: Sequence[GraphNode],
        inputs: Iterable[str],  # the values that are given to them
        outputs: Iterable[str],
        constants: Mapping[str, npt.NDArray[Any]],
        *,
        name: str = "",  # for messages; as default the graph's
    ) -> OnnxModel:
        """Some of the nodes as a model.

        Raises:
            ModelFileError: when a node breaks a rule of ONNX's.
        """
        given = [self._info(value) for value in inputs]
        graph = helper.make_graph([node.proto for node in nodes], self.name or "graph", given, [])
        graph.output.extend(self._info(value) for value in outputs)
        used = {node.proto.domain for node in nodes} | {""}
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items() if domain in used]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=self.version)
        return reloaded(name or self.name or "graph", made.SerializeToString(), constants)

    def _info(self, name: str) -> onnx.ValueInfoProto:
        value = self.values[name]
        if value.element is None:
            return onnx.ValueInfoProto(name=name)
        return helper.make_tensor_value_info(name, value.element, value.shape)


def read_by(nodes: Iterable[GraphNode]) -> list[str]:
    """The names of what nodes read, in order."""
    return list(dict.fromkeys(name for node in nodes for name in node.reads))


def written_by(nodes: Iterable[GraphNode]) -> list[str]:
    """The names of what nodes write, in order."""
    return [name for node in nodes for name in node.proto.output if name]


def constant_names(graph: RuntimeGraph, names: Collection[str]) -> list[str]:
    return [name for name in names if graph.values[name].is_constant]


def _leave_defaults(proto: onnx.NodeProto, version: int) -> None:
    """Takes away what ONNX Runtime has added to a node: attributes that say what holds without them.

    RNN's default, for one, names two activations, also where there is one direction.
    """
    try:
        known = onnx.defs.get_schema(proto.op_type, version, proto.domain).attributes
    except onnx.defs.SchemaError:
        return
    kept = [
        attribute
        for attribute in proto.attribute
        if attribute.name not in known or not _says_the_same(attribute, known[attribute.name].default_value)
    ]
    del proto.attribute[:]
    proto.attribute.extend(kept)


def _says_the_same(attribute: onnx.AttributeProto, default: onnx.AttributeProto) -> bool:
    return bool(default.name) and helper.get_attribute_value(attribute) == helper.get_attribute_value(default)


def _fill(made: onnx.AttributeProto, kind: int, contents: bytes) -> None:
    if kind in (_INT, _INTS):
        numbers = struct.unpack(f"={len(contents) // 8}q", contents)
        if kind == _INT:
            made.i, made.type = numbers[0], AttributeProto.INT
        else:
            made.ints.extend(numbers)
            made.type = AttributeProto.INTS
    elif kind in (_FLOAT, _FLOATS):
        values = struct.unpack(f"={len(contents) // 4}f", contents)
        if kind == _FLOAT:
            made.f, made.type = values[0], AttributeProto.FLOAT
        else:
            made.floats.extend(values)
            made.type = AttributeProto.FLOATS
    elif kind == _STRING:
        made.s, made.type = contents.removesuffix(b"\0"), AttributeProto.STRING
    else:
        made.strings.extend(contents.split(b"\0")[:-1])
        made.type = AttributeProto.STRINGS
