"""Reads a model and checks it, before anything is made of it. A model file may come from anywhere.

Whatever is wrong ends in one ModelFileError that names the node, and the attribute where there is one. External data
is read only from files inside the model's folder, and only when its size is what the tensor's shape says.
"""

from __future__ import annotations

import dataclasses
import graphlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no annotations
from onnx import AttributeProto, TensorProto, helper, inliner, numpy_helper

from dmlvk.errors import InvalidArgumentError, ModelFileError
from dmlvk.onnx.api.exceptions import InvalidModel, InvalidProtobuf, NoSuchFile, NotAModel
from dmlvk.onnx.model.external_data import ExternalData
from dmlvk.onnx.model.local_functions import count_nodes, key_of, state_defaults
from dmlvk.onnx.model.node_attributes import subgraphs
from dmlvk.onnx.nodes.values import Array
from dmlvk.support.ordering import in_order

_PADDINGS = ("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{
        (op_type, "auto_pad"): _PADDINGS
        for op_type in ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv")
    },
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("Gelu", "approximate"): ("none", "tanh"),
    ("RoiAlign", "mode"): ("avg", "max"),
}
"""By operator and attribute; of operators that say of themselves what they do not know, none."""


def unknown_word(proto: onnx.NodeProto, attribute: onnx.AttributeProto) -> str | None:
    """What is wrong with the word that an attribute of one of ONNX's own operators is; ``None``: nothing."""
    words = _WORDS.get((proto.op_type, attribute.name))
    said = attribute.s.decode(errors="replace")
    if words is None or said in words:
        return None
    return f"must be one of {', '.join(word for word in words if word)}; got {said[:100]!r}"


_MOST_ELEMENTS = 2**32 - 1
_MOST_PROTO_BYTES = 2**31 - 2**20  # Bytes of a message that Protocol Buffers write; larger models have external data

_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}

_MOST_SHOWN = 64  # Axes of a shape in a message

_MOST_NESTED = 64  # Graphs inside graphs; deeper ones would exhaust Python's stack

_ORT_FORMAT = b"ORTM"  # Bytes 4 to 8 of a file in ONNX Runtime's own format

_DEPRECATED_IN_TIME = frozenset({"GroupNormalization"})
"""Operators that a version deprecated which defines them: models of that version have them."""

_LARGE_CONSTANT = 2**12  # Bytes of a Constant node's tensor from which on it is kept as an initializer is

_OF_ONNX_RUNTIME = {"SimplifiedLayerNormalization": None, "LayerNormalization": 17}
"""Operators that ONNX Runtime writes into ONNX's own domain where that does not have them, and from which version on it
has the same."""


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    index: int  # its place in the model's file; -1 for a node of a function's body
    proto: onnx.NodeProto  # the node
    schema: onnx.defs.OpSchema | None  # ``None`` for an operator that is not ONNX's own
    # the names of all values that it needs, those that its subgraphs take from outside among them
    reads: tuple[str, ...]
    owner: int = -1  # the place of the node in whose stead it is, where it is in none of the file's own; -1: of none

    @property
    def domain(self) -> str:
        """The operator's domain; empty for ONNX's own."""
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain

    @property
    def version(self) -> int:
        return 1 if self.schema is None else self.schema.since_version

    @property
    def label(self) -> str:
        return label_of(self.proto)


@dataclasses.dataclass(frozen=True)
class ValueInfo:
    name: str  # its name
    element: int | None  # ONNX's element type; ``None`` for what is no tensor
    # sizes, names of sizes, ``None`` for sizes of which nothing is known; ``None`` altogether where even their number
    # is unknown
    shape: tuple[int | str | None, ...] | None
    proto: onnx.ValueInfoProto  # all that is said


@dataclasses.dataclass(frozen=True, eq=False)
class OnnxModel:
    name: str  # for messages
    proto: onnx.ModelProto  # everything that the file says, but for the contents of its initializers
    steps: tuple[Step, ...]  # its nodes, each behind those that it reads from
    constants: Mapping[str, Array]  # the contents of its initializers
    inputs: tuple[ValueInfo, ...]  # what must be given to run it
    outputs: tuple[ValueInfo, ...]  # what it gives
    opsets: Mapping[str, int]  # versions of the operator sets, by domain
    # whether the operators that drop NaN by DirectML's rules keep it, as ONNX Runtime does
    propagates_nan: bool = False
    overridable: tuple[ValueInfo, ...] = ()  # inputs that are initializers, too


def load(
    # a path, the bytes of a file, or what the onnx package read
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    most_nodes: int = 2**17,  # that it may have, with its functions' bodies in place and graphs inside of nodes
    given: Mapping[str, Array] | None = None,  # contents for initializers in the place of the file's, by name
) -> OnnxModel:
    """Reads and checks a model.

    Raises:
        ModelFileError: when it cannot be read or breaks a rule.
        InvalidArgumentError: when it is something else, or contents are of another type or shape than it says.
    """
    external = ExternalData(None)
    if isinstance(source, onnx.ModelProto):
        name = source.graph.name or "model"
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
    else:
        if isinstance(source, (bytes, bytearray)):
            name, contents = "model", external.model_in(bytes(source))
        else:
            if not isinstance(source, (str, os.PathLike)):
                raise NotAModel(
                    f"InferenceSession: takes a path, the bytes of a model's file, or a ModelProto; got {source!r}"
                )
            path = Path(source)
            name, external = str(path), ExternalData(path)
            try:
                contents = external.model_at(path)
            except FileNotFoundError as error:
                raise NoSuchFile(f"{name}: {error.strerror or error}") from error
            except IsADirectoryError as error:
                raise InvalidProtobuf(f"{name}: {error}") from error
            except (OSError, ValueError) as error:
                raise ModelFileError(f"{name}: {error}") from error
        if contents[4:8] == _ORT_FORMAT:
            raise ModelFileError(
                f"{name}: is in ONNX Runtime's own format (.ort), made for its own kernels; give the .onnx "
                "file that it was made from"
            )
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(contents)
        except (DecodeError, RuntimeError, ValueError) as error:
            raise InvalidProtobuf(f"{name}: is no ONNX model: {error}") from error
    return _Loader(name, proto, external, most_nodes, given).loaded()


def save_as_it_is(source: str | os.PathLike[str] | bytes | onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Writes a model to a file of its own, with its external data: what a plan changes is no ONNX."""
    if isinstance(source, onnx.ModelProto):
        made = source
    else:
        made = onnx.load_from_string(bytes(source)) if isinstance(source, (bytes, bytearray)) else onnx.load(source)
    onnx.save(made, os.fspath(path), save_as_external_data=made.ByteSize() >= _MOST_PROTO_BYTES)


def reloaded(name: str, contents: bytes, constants: Mapping[str, Array]) -> OnnxModel:
    """A model that was loaded before, in another process perhaps.

    Args:
        contents: its ``proto``, as bytes.
        constants: the contents of its initializers.
    """
    proto = onnx.ModelProto()
    proto.ParseFromString(contents)
    return _Loader(name, proto, ExternalData(None)).loaded(constants)


def subgraph(model: OnnxModel, graph: onnx.GraphProto) -> OnnxModel:
    """A graph inside one of a model's nodes as a model of its own; what it takes from outside are further inputs."""
    return _Loader(model.name, model.proto, ExternalData(None)).inside(model, graph)


def label_of(proto: onnx.NodeProto) -> str:
    """``node 'conv1' (Conv)``; a node without a name is named by its first output."""
    name = f"{proto.name!r}" if proto.name else f"of {next(iter(proto.output), '')!r}"
    return f"node {name} ({proto.op_type})"


class _Loader:
    def __init__(
        self,
        name: str,
        proto: onnx.ModelProto,  # the model, which is changed
        external: ExternalData,  # reads what does not lie in it
        most_nodes: int | None = None,  # that it may have; ``None``: that was checked before
        given: Mapping[str, Array] | None = None,  # contents of initializers, by name
    ) -> None:
        self._given = dict(given or {})
        self._most_nodes = most_nodes
        self._name = name
        self._proto = proto
        self._external = external
        self._opsets: dict[str, int] = {}

    def _error(self, message: str) -> ModelFileError:
        return ModelFileError(f"{self._name}: {message}")

    def loaded(self, contents: Mapping[str, Array] | None = None) -> OnnxModel:
        """The model, with the contents of initializers that it has no more itself."""
        proto = self._proto
        if not proto.HasField("graph") or (not proto.graph.node and not proto.graph.output):
            raise InvalidModel(f"{self._name}: is no ONNX model: it has no graph")
        self._read_opsets()
        self._check_count()
        if proto.functions:
            state_defaults(proto)
            try:
                self._proto = proto = inliner.inline_local_functions(proto)
            except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
                raise self._error(f"its functions cannot be put in place: {error}") from error
        constants = self._initializers(proto.graph, "the graph") | dict(contents or {})
        del proto.graph.initializer[:]
        del proto.graph.sparse_initializer[:]
        of_nodes = {node.output[0] for node in proto.graph.node if _is_constant(node)}
        constants |= self._taken_from_nodes(proto.graph)
        self._proto = onnx.ModelProto()
        self._proto.CopyFrom(proto)  # what was deleted keeps its memory as long as the rest is there
        proto = self._proto
        graph = proto.graph
        inputs = tuple(self._value_info(info) for info in graph.input if info.name not in constants)
        outputs = tuple(self._value_info(info) for info in graph.output)
        if len({info.name for info in inputs}) != len(inputs):
            raise self._error("two inputs have one name")
        known = {info.name for info in inputs} | (set(constants) - of_nodes)
        steps = self._sorted(self._steps(graph, known, 0), known)
        written = known | {name for step in steps for name in step.proto.output}
        for info in outputs:
            if info.name not in written:
                raise self._error(f"the output {info.name!r} is computed by no node")
        listed = tuple(self._value_info(info) for info in graph.input if info.name in constants)
        return OnnxModel(
            self._name, proto, tuple(steps), constants, inputs, outputs, dict(self._opsets), overridable=listed
        )

    def _taken_from_nodes(self, graph: onnx.GraphProto) -> dict[str, Array]:
        """The contents of large Constant nodes, which keep a tensor of no elements in their place."""
        found: dict[str, Array] = {}
        for node in graph.node:
            tensor = node.attribute[0].t if _is_constant(node) else TensorProto()
            if len(tensor.raw_data) < _LARGE_CONSTANT and tensor.data_location != TensorProto.EXTERNAL:
                continue
            if node.output[0] in found:
                raise self._error(f"{label_of(node)}: the value {node.output[0]!r} is there already")
            found[node.output[0]] = self._array(tensor, f"{label_of(node)}: attribute 'value'", may_be_mapped=True)
            element = tensor.data_type
            tensor.Clear()
            tensor.data_type = element
            tensor.dims.append(0)
        return found

    def _check_count(self) -> None:
        """Counts all nodes before functions' bodies are put in place: these may double at each of many levels."""
        if self._most_nodes is None:
            return
        try:
            count = count_nodes(self._proto.graph, {key_of(function): function for function in self._proto.functions})
        except ValueError as error:
            raise self._error(f"its functions cannot be put in place: {error}") from error
        if count > self._most_nodes:
            raise self._error(
                f"has {count} nodes, with its functions in place; {self._most_nodes} at most "
                "(SessionOptions.most_nodes)"
            )

    def inside(self, model: OnnxModel, graph: onnx.GraphProto) -> OnnxModel:
        """A graph inside the model; see :func:`subgraph`."""
        self._opsets = dict(model.opsets)
        constants = self._initializers(graph, "a subgraph")
        inputs = [self._value_info(info) for info in graph.input if info.name not in constants]
        for name in captured_by(graph):
            inputs.append(ValueInfo(name, None, None, onnx.ValueInfoProto(name=name)))
        known = {info.name for info in inputs} | set(constants)
        steps = self._sorted(self._steps(graph, known, 1), known)
        outputs = tuple(self._value_info(info) for info in graph.output)
        return dataclasses.replace(
            model, steps=tuple(steps), constants=constants, inputs=tuple(inputs), outputs=outputs
        )

    def _read_opsets(self) -> None:
        for entry in self._proto.opset_import:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            newest = onnx.defs.onnx_opset_version()
            if domain == "" and not 1 <= entry.version <= newest:
                raise self._error(
                    f"is written for version {entry.version} of ONNX's operators; the onnx package here knows 1 to "
                    f"{newest}"
                )
            self._opsets[domain] = entry.version
        if not self._opsets:
            if self._proto.ir_version >= 3:
                raise self._error("does not say which version of ONNX's operators it uses (opset_import)")
            self._opsets[""] = 1

    # Values.

    def _value_info(self, info: onnx.ValueInfoProto) -> ValueInfo:
        if not info.name:
            raise self._error("an input or an output has no name")
        if info.type.WhichOneof("value") != "tensor_type":
            return ValueInfo(info.name, None, None, info)
        tensor = info.type.tensor_type
        if tensor.elem_type not in _ELEMENT_TYPES:
            raise self._error(f"{info.name!r} has the unknown element type {tensor.elem_type}")
        if not tensor.HasField("shape"):
            return ValueInfo(info.name, tensor.elem_type, None, info)
        sizes: list[int | str | None] = []
        for dimension in tensor.shape.dim:
            kind = dimension.WhichOneof("value")
            if kind == "dim_value":  # some exporters write -1 for a size that is open
                sizes.append(dimension.dim_value if dimension.dim_value >= 0 else None)
            else:
                sizes.append(dimension.dim_param or None)
        if math.prod(size for size in sizes if isinstance(size, int)) > _MOST_ELEMENTS:
            raise self._error(f"{info.name!r} has more than {_MOST_ELEMENTS} elements: {sizes}")
        return ValueInfo(info.name, tensor.elem_type, tuple(sizes), info)

    def _initializers(self, graph: onnx.GraphProto, where: str) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for tensor in graph.initializer:
            if not tensor.name or tensor.name in found:
                raise self._error(f"{where}: two initializers are called {tensor.name!r}, or one has no name")
            given = self._given.get(tensor.name)
            if given is None:
                found[tensor.name] = self._array(tensor, f"the initializer {tensor.name!r}", may_be_mapped=True)
            else:
                found[tensor.name] = self._given_contents(tensor, given)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            if not name or name in found:
                raise self._error(f"{where}: two initializers are called {name!r}, or one has no name")
            found[name] = self._dense(sparse, f"the sparse initializer {name!r}")
        return found

    def _array(self, tensor: onnx.TensorProto, what: str, *, may_be_mapped: bool = False) -> Array:
        """The contents of a tensor, whose shape and size must agree.

        Args:
            tensor: what is read; without its contents afterwards where these are mapped.
            may_be_mapped: whether large contents in a file may stay there, and be read when they are needed.
        """
        shape = tuple(tensor.dims)
        if min(shape, default=1) < 0 or math.prod(shape) > _MOST_ELEMENTS:
            raise self._error(f"{what} has the impossible shape {_shown(shape)}")
        if tensor.data_type not in _ELEMENT_TYPES:
            raise self._error(f"{what} has the unknown element type {tensor.data_type}")
        mapped = None
        if tensor.data_location == TensorProto.EXTERNAL:
            try:
                mapped = self._external.read(tensor, may_be_mapped=may_be_mapped)
            except (OSError, ValueError) as error:
                raise self._error(f"{what}: {error}") from error
        try:
            array = numpy_helper.to_array(tensor) if mapped is None else mapped
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError, RuntimeError) as error:
            raise self._error(f"{what} of shape {_shown(shape)} is not valid: {error}") from error
        if array.shape != shape:
            raise self._error(f"{what} has {array.size} elements, which do not fit its shape {_shown(shape)}")
        return array

    def _given_contents(self, tensor: onnx.TensorProto, given: Array) -> Array:
        """Contents that a program gave, which must be of the initializer's type and shape."""
        wanted = helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
        if (given.dtype, given.shape) != wanted:
            raise InvalidArgumentError(
                f"{self._name}: the initializer {tensor.name!r} is {wanted[0]}{list(wanted[1])}; what was given in its "
                f"place is {given.dtype}{list(given.shape)}"
            )
        return given

    def _dense(self, sparse: onnx.SparseTensorProto, what: str) -> Array:
        values, indices = self._array(sparse.values, what), self._array(sparse.indices, what)
        shape = tuple(sparse.dims)
        if min(shape, default=1) < 0 or math.prod(shape) > _MOST_ELEMENTS or indices.dtype != np.int64:
            raise self._error(f"{what} has the impossible shape {list(shape)}")
        try:
            flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
            if (
                values.ndim != 1
                or flat.shape != values.shape
                or (flat.size and not 0 <= flat.min() <= flat.max() < math.prod(shape))
            ):
                raise ValueError("its indices lie outside")
            dense = np.zeros(math.prod(shape), values.dtype)
            dense[flat] = values
        except (ValueError, TypeError, MemoryError) as error:
            raise self._error(f"{what} is not valid: {error}") from error
        return dense.reshape(shape)

    # Nodes.

    def _steps(self, graph: onnx.GraphProto, outside: set[str], depth: int) -> list[Step]:
        """The nodes of a graph, checked one by one."""
        if depth > _MOST_NESTED:
            raise self._error("its graphs are nested too deeply")
        written = set(outside)
        steps = []
        for index, proto in enumerate(graph.node):
            schema = self._schema(proto)
            self._check_attributes(proto, schema, depth)
            self._check_counts(proto, schema)
            for name in proto.output:
                if name and name in written:
                    raise self._error(f"{label_of(proto)}: the value {name!r} is there already")
                written.add(name)
            captured = [name for graph_inside in subgraphs(proto) for name in captured_by(graph_inside)]
            reads = dict.fromkeys([*(name for name in proto.input if name), *captured])
            steps.append(Step(index, proto, schema, tuple(reads)))
        return steps

    def _schema(self, proto: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        if not proto.op_type:
            raise self._error(f"{label_of(proto)}: has no op_type")
        if domain not in self._opsets:
            raise self._error(f"{label_of(proto)}: the model imports no operators of the domain {domain!r}")
        version = self._opsets[domain]
        if domain and not domain.startswith("ai.onnx"):
            return None
        try:
            schema = onnx.defs.get_schema(proto.op_type, version, domain)
        except (onnx.defs.SchemaError, TypeError, OverflowError) as error:
            if proto.op_type in _OF_ONNX_RUNTIME and not domain:
                since = _OF_ONNX_RUNTIME[proto.op_type]
                return None if since is None else onnx.defs.get_schema(proto.op_type, since, domain)
            raise self._error(
                f"{label_of(proto)}: version {version} of the operators {domain or 'ai.onnx'!r} has no such one"
            ) from error
        if schema.deprecated and proto.op_type not in _DEPRECATED_IN_TIME:
            raise self._error(f"{label_of(proto)}: is no operator any more in version {version}")
        return schema

    def _check_counts(self, proto: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
        if schema is None:
            return
        for what, names, least, most in (
            ("inputs", proto.input, schema.min_input, schema.max_input),
            ("outputs", proto.output, schema.min_output, schema.max_output),
        ):
            if not least <= len(names) <= most:
                raise self._error(f"{label_of(proto)}: needs {least} to {most} {what}; got {len(names)}")
        single = onnx.defs.OpSchema.FormalParameterOption.Single
        for name, formal in zip(proto.input, schema.inputs, strict=False):
            if not name and formal.option == single:
                raise self._error(f"{label_of(proto)}: its input {formal.name} is missing")

    def _check_attributes(self, proto: onnx.NodeProto, schema: onnx.defs.OpSchema | None, depth: int) -> None:
        seen: set[str] = set()
        for attribute in proto.attribute:
            where = f"{label_of(proto)}: attribute {attribute.name!r}"
            if attribute.name in seen:
                raise self._error(f"{where} is there twice")
            seen.add(attribute.name)
            if attribute.ref_attr_name:
                raise self._error(f"{where} refers to {attribute.ref_attr_name!r}, outside of a function")
            if schema is not None:
                known = schema.attributes.get(attribute.name)
                if known is None:
                    raise self._error(f"{where} is none of {proto.op_type}'s in version {schema.since_version}")
                kind: Any = known.type  # an enumeration that the package's annotations leave empty
                if int(kind.value) != attribute.type:
                    kinds = {number: name for name, number in AttributeProto.AttributeType.items()}
                    got = kinds.get(attribute.type, str(attribute.type))
                    raise self._error(f"{where} must be {kind.name}; got {got}")
                wrong = None if proto.domain else unknown_word(proto, attribute)
                if wrong is not None:
                    raise self._error(f"{where} {wrong}")
            for tensor in [attribute.t] if attribute.HasField("t") else list(attribute.tensors):
                self._array(tensor, where)
            for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
                self._check_subgraph(graph, depth + 1)
        if schema is not None:
            for name, known in schema.attributes.items():
                if known.required and name not in seen:
                    raise self._error(f"{label_of(proto)}: attribute {name!r} is missing")

    def _check_subgraph(self, graph: onnx.GraphProto, depth: int) -> None:
        for tensor in graph.initializer:
            self._array(tensor, f"the initializer {tensor.name!r} of a subgraph")
        for info in (*graph.input, *graph.output):
            if info.type.WhichOneof("value") == "tensor_type":
                self._value_info(info)
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        self._steps(graph, own, depth)

    def _sorted(self, steps: Sequence[Step], known: set[str]) -> list[Step]:
        """The nodes in the order of the file, but each behind those that it reads from."""
        writers = {name: step.index for step in steps for name in step.proto.output if name}
        reads: dict[int, set[int]] = {}
        for step in steps:
            reads[step.index] = {writers[name] for name in step.reads if name in writers}
            for name in step.reads:
                if name not in writers and name not in known:
                    raise InvalidModel(f"{self._name}: {step.label}: reads {name!r}, which nothing computes")
        try:
            return [steps[index] for index in in_order(reads)]
        except graphlib.CycleError as error:
            stuck = steps[min(error.args[1])]
            raise self._error(f"{stuck.label}: waits for its own result: the nodes form a cycle") from None


def _shown(shape: Sequence[int]) -> str:
    """A shape for messages, which may claim any number of axes."""
    return str(list(shape)) if len(shape) <= _MOST_SHOWN else f"[{len(shape)} axes]"


def _is_constant(node: onnx.NodeProto) -> bool:
    is_ours = node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1
    return is_ours and len(node.attribute) == 1 and node.attribute[0].name == "value"


def captured_by(graph: onnx.GraphProto) -> list[str]:
    """The names that a subgraph reads and does not define."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    wanted: dict[str, Any] = {}
    for node in graph.node:
        names = [*node.input, *(name for inside in subgraphs(node) for name in captured_by(inside))]
        wanted.update(dict.fromkeys(name for name in names if name and name not in own))
    wanted.update(dict.fromkeys(info.name for info in graph.output if info.name and info.name not in own))
    return list(wanted)
