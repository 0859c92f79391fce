"""Puts together the graph of operators that a stretch of a model becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlvk.graphs.description import (
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from dmlvk.graphs.outputs import WantedOutputs, complete_members, made_outputs
from dmlvk.onnx.nodes.values import (
    DATA_TYPES,
    MOST_DIMENSIONS,
    Array,
    Derived,
    DeviceSource,
    NotOnDevice,
    Tensor,
    dense,
    described,
    memory_of,
    size_in_bytes,
    strides_in,
)
from dmlvk.operators import OPERATORS, Field, OperatorDesc
from dmlvk.operators.declaration import OWN_OPERATORS
from dmlvk.tensors import TensorDesc, packed_strides

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.objects.compilation import Operator
    from dmlvk.onnx.decoding.caches import Lengths
    from dmlvk.onnx.nodes.ranges import Range


Parts = dict[tuple[tuple[int, int], int, int, int], tuple[Array, Array]]
"""Parts of constants by the whole's memory, axis and bounds; each with the whole, which it keeps alive."""


@dataclasses.dataclass(frozen=True)
class New:
    """An output that an operator is to write, packed.

    Attributes:
        element: ONNX's element type.
        shape: as ONNX has it.
    """

    element: int
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class _AssembledNode:
    """An operator with where its inputs come from and what it writes."""

    node: OperatorGraphNode
    reads: tuple[tuple[int, DeviceSource], ...]  # number of the input, bytes
    writes: tuple[tuple[int, DeviceSource], ...]
    values: dict[int, str] = dataclasses.field(default_factory=dict)  # names of outputs, where the model has one


@dataclasses.dataclass(frozen=True)
class Assembled:
    """A graph with what its inputs and outputs are.

    Attributes:
        desc: the graph.
        inputs: the sources of its inputs, in order.
        input_tensors: as which their bytes are bound.
        output_tensors: what its outputs show.
        values: the model's names of what each of its nodes writes, by the number of the output.
    """

    desc: GraphDesc
    inputs: tuple[DeviceSource, ...]
    output_tensors: tuple[Tensor, ...]
    values: tuple[Mapping[int, str], ...]


class Assembly:
    """A graph that is being put together.

    Args:
        device: where it will run; operators are checked against its feature level as they are added.
        parts: parts of constants that were made for other graphs of the same model.
        capacities: how many rows the caches have that stay in memory of their own, by the outputs that show them.

    Attributes:
        lengths: what nodes read that append to such caches.
        appended: the outputs that show caches to which nodes append.
        ranges: from where to where numbers may go that nodes read, each once.
        propagates_nan: as for :class:`~dmlvk.onnx.model.loading.OnnxModel`.
        follows: integers that nodes made of open sizes, and that no value of the model has, by names of their own.
    """

    def __init__(self, device: Device, parts: Parts | None = None, capacities: Mapping[str, int] | None = None) -> None:
        self.device = device
        self._capacities = {} if capacities is None else capacities
        self.lengths: list[Lengths] = []
        self.appended: set[str] = set()
        self.ranges: dict[tuple[str, int, int], Range] = {}
        self.propagates_nan = False
        self._parts: Parts = {} if parts is None else parts
        self._nodes: list[_AssembledNode] = []
        self._operators: dict[object, tuple[Operator, Mapping[str, Any]]] = {}
        self._constants: dict[tuple[int, int], DeviceSource] = {}
        self.of_sizes: dict[str, DeviceSource] = {}
        self.follows: dict[str, Derived] = {}

    def capacity_of(self, output: str) -> int | None:
        """How many rows the cache has that an output shows and that is written where it lies; ``None``: it is none."""
        return self._capacities.get(output)

    def mark(self) -> int:
        """The state of now, for :meth:`back_to`."""
        return len(self._nodes)

    def back_to(self, mark: int) -> None:
        """Forgets what was added since."""
        del self._nodes[mark:]

    def constant(self, array: Array, element: int) -> Tensor:
        """A tensor whose contents are uploaded once; the same bytes for arrays that are views of the same memory."""
        whole = dense(array)
        strides = strides_in(array, whole)
        source = self._constants.get(memory_of(whole))
        if source is None:
            source = DeviceSource("constant", size_in_bytes(DATA_TYPES[element], whole.shape), array=whole)
            self._constants[memory_of(whole)] = source
        return Tensor(source, element, array.shape, strides)

    def derived(self, value: Derived) -> Tensor:
        """A tensor of integers that follow from open sizes, which the host writes where these are bound."""
        source = self.of_sizes.get(value.name)
        if source is None:
            size = size_in_bytes(DATA_TYPES[value.element], value.numbers.shape)
            source = self.of_sizes[value.name] = DeviceSource("input", size, name=value.name)
        return Tensor(source, value.element, value.numbers.shape, packed_strides(value.numbers.shape))

    def size(self, number: int, element: int) -> Tensor:
        """A tensor of one integer that follows from open sizes.

        Args:
            number: a dynamic size.
            element: INT32 or INT64.
        """
        name = f"size {len(self.follows)}"
        value = self.follows[name] = Derived(name, element, np.array([number], object))
        return self.derived(value)

    def part(self, tensor: Tensor, axis: int, start: int, stop: int) -> Tensor:
        """A part of a constant along an axis, as a constant of its own."""
        array = tensor.source.array
        assert array is not None  # a constant has one
        key = (memory_of(array), axis, start, stop)
        if key not in self._parts:
            whole = array.reshape(tensor.shape)
            chosen = whole[(slice(None),) * axis + (slice(start, stop),)]
            self._parts[key] = array, np.ascontiguousarray(chosen)
        return self.constant(self._parts[key][1], tensor.element)

    def converted(self, array: Array, word: tuple[int, int, int], convert: Callable[[], Array], element: int) -> Tensor:
        """A constant that is made from others once, whatever is planned with it afterwards.

        Args:
            array: one of those, which is kept alive with what is made.
            word: tells what else it is made with.
            convert: makes it.
            element: its ONNX type.
        """
        key = (memory_of(array), *word)
        if key not in self._parts:
            self._parts[key] = array, np.ascontiguousarray(convert())
        return self.constant(self._parts[key][1], element)

    def add(self, operator: str, name: str, members: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Adds an operator.

        Args:
            operator: DirectML's name, or that of an operator of dmlvk's own.
            name: for messages and pictures.
            members: by their Python names: tensors, :class:`New` for outputs, lists of these, and attributes. Lengths
                of arrays follow from these. Outputs that are left out are as the operator's shape rule has them, of
                the first tensor's type where they have its data type; optional ones are absent.

        Returns:
            What it writes, in the order of its outputs.

        Raises:
            NotOnDevice: when dmlvk has no such operator.
            DmlError: when the description breaks a rule.
        """
        kind = OPERATORS.get(operator) or OWN_OPERATORS.get(operator)
        if kind is None:
            raise NotOnDevice(f"this version of dmlvk has no {operator} yet")
        field_of = {field.attribute: field for field in kind.fields}.get
        described = {member: _as_member(value, field_of(member)) for member, value in members.items()}
        complete_members(kind, described)
        following = _following_outputs(kind, members, described)
        described |= {member: _as_member(new, None) for member, new in following.items()}
        members = {**members, **following}
        made = self._operator(kind, described)
        desc, node = made.desc, OperatorGraphNode(made, name)
        number = len(self._nodes)
        given = {member: iter(_listed(value)) for member, value in members.items()}
        reads = []
        for position, (field, tensor) in enumerate(desc.inputs):
            if tensor is not None:
                reads.append((position, next(_tensors(given[_member_of(field)])).source))
        written: list[Tensor] = []
        writes = []
        for position, (field, tensor) in enumerate(desc.outputs):
            if tensor is None:
                continue
            new = next(item for item in given[_member_of(field)] if isinstance(item, New))
            source = DeviceSource("node", tensor.size_in_bytes, node=number, output=position)
            writes.append((position, source))
            written.append(Tensor(source, new.element, new.shape, packed_strides(new.shape)))
        self._nodes.append(_AssembledNode(node, tuple(reads), tuple(writes)))
        return tuple(written)

    def _operator(self, kind: type[OperatorDesc], members: Mapping[str, Any]) -> Operator:
        """An operator; the same one for members that are alike, so that it is checked and lowered once."""
        try:
            key = kind, *((member, _alike(value)) for member, value in members.items())
        except _NothingAlikeError:
            return self.device.create_operator(kind(**members))
        if key not in self._operators:  # what it was made of is kept: its tensors are told apart as objects
            self._operators[key] = self.device.create_operator(kind(**members)), members
        return self._operators[key][0]

    def name(self, tensor: Tensor, name: str) -> None:
        """Notes how the model calls what an operator writes: the first name counts, those of views come later."""
        if tensor.source.kind == "node":
            self._nodes[tensor.source.node].values.setdefault(tensor.source.output, name)

    def as_written(self, tensor: Tensor, name: str) -> Tensor:
        """The tensor as an operator's own packed output: a copy, where it is a view or no operator writes it."""
        if tensor.source.kind == "node" and tensor.is_packed and fills(tensor):
            return tensor
        if tensor.data_type.size_in_bits < 8:  # all of its source's bytes, as the planner sees to
            contents = tensor.viewed((tensor.source.size_in_bytes,), element=TensorProto.UINT8)
            return self.as_written(contents, name).viewed(tensor.shape, element=tensor.element)
        if tensor.rank > MOST_DIMENSIONS:
            return self.as_written(tensor.collapsed(), name).viewed(tensor.shape)
        (copy,) = self.add(
            "ELEMENT_WISE_IDENTITY",
            name,
            {"input_tensor": tensor, "output_tensor": New(tensor.element, tensor.shape)},
        )
        return copy

    def assembled(self, outputs: Sequence[Tensor]) -> Assembled | None:
        """The graph of what leads to the outputs; ``None`` where there is nothing to compute.

        Args:
            outputs: as :meth:`as_written` gives them.
        """
        if not outputs:
            return None
        needed: set[int] = set()
        pending = [tensor.source for tensor in outputs]
        while pending:
            source = pending.pop()
            if source.kind == "node" and source.node not in needed:
                needed.add(source.node)
                pending += [read for _, read in self._nodes[source.node].reads]
        numbers = {index: number for number, index in enumerate(sorted(needed))}
        inputs: dict[DeviceSource, int] = {}
        input_edges: list[InputGraphEdge] = []
        between: list[IntermediateGraphEdge] = []
        used: set[DeviceSource] = {tensor.source for tensor in outputs}
        for index, number in numbers.items():
            for position, source in self._nodes[index].reads:
                used.add(source)
                if source.kind == "node":
                    between.append(IntermediateGraphEdge(numbers[source.node], source.output, number, position))
                else:
                    entry = inputs.setdefault(source, len(inputs))
                    input_edges.append(InputGraphEdge(entry, number, position))
        shown = list(outputs)
        for index in numbers:  # every output of a node needs an edge, also one that nobody reads
            node = self._nodes[index]
            for position, source in node.writes:
                if source not in used:
                    desc = node.node.operator.desc.outputs[position][1]
                    assert desc is not None  # it is written
                    shown.append(_raw(source, desc))
        edges = [
            OutputGraphEdge(numbers[tensor.source.node], tensor.source.output, entry)
            for entry, tensor in enumerate(shown)
        ]
        nodes = [self._nodes[index].node for index in numbers]
        graph = GraphDesc(len(inputs), len(shown), nodes, input_edges, edges, between)
        return Assembled(graph, tuple(inputs), tuple(shown), tuple(self._nodes[index].values for index in numbers))


class _NothingAlikeError(Exception):
    """A member is of a kind whose values are not compared: an activation, say, or an open size."""


def _alike(value: Any) -> object:
    """What equal members have in common. Numbers are told apart by their bits, tensors as objects: they are shared.

    Raises:
        _NothingAlikeError: when the member is of another kind.
    """
    if value is None or isinstance(value, TensorDesc):
        return id(value)
    if isinstance(value, (bool, int, float, str)):
        return type(value), repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_alike, value))
    raise _NothingAlikeError


def _following_outputs(
    kind: type[OperatorDesc], members: Mapping[str, Any], described: Mapping[str, Any]
) -> dict[str, New]:
    """The outputs that an operator has and nobody states, as its shape rule gives them.

    Args:
        kind: the operator.
        members: tensors, and :class:`New` for outputs.
        described: the same as descriptions have them.
    """
    left_out = [field.attribute for field in kind.fields if field.kind == "output" and not field.optional]
    left_out = [member for member in left_out if member not in members]
    if not left_out:
        return {}
    tensors = [one for value in members.values() for one in _tensors(iter(_listed(value)))]
    by_rule = made_outputs(kind, described, WantedOutputs(tensors[0].data_type if tensors else None))
    made: dict[str, New] = {}
    for member in left_out:
        tensor = by_rule[member]
        like = (e for e, known in DATA_TYPES.items() if known is tensor.data_type)
        element = next((one.element for one in tensors if one.data_type is tensor.data_type), None) or next(like)
        made[member] = New(element, tuple(tensor.sizes) if any(one.rank for one in tensors) else ())
    return made


def fills(tensor: Tensor) -> bool:
    """Whether a packed view shows all bytes of its source."""
    return size_in_bytes(tensor.data_type, tensor.shape) == tensor.source.size_in_bytes


def _raw(source: DeviceSource, desc: TensorDesc) -> Tensor:
    element = next(element for element, data_type in DATA_TYPES.items() if data_type is desc.data_type)
    return Tensor(source, element, tuple(desc.sizes), desc.element_strides)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _tensors(values: Iterator[Any]) -> Iterator[Tensor]:
    return (value for value in values if isinstance(value, Tensor))


def _member_of(field: Field) -> str:
    """The Python name of a member; of an array's element that of the array."""
    return field.attribute.partition("[")[0]


def _as_member(value: Any, field: Field | None) -> Any:
    """A member's value as descriptions have it: numbers of enumerations as their members."""
    if isinstance(value, Tensor):
        return value.desc
    if isinstance(value, New):
        return described(DATA_TYPES[value.element], tuple(value.shape))
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Tensor, New)) for item in value):
        return [_as_member(item, None) for item in value]
    if field is not None and field.enumeration is not None and isinstance(value, int):
        return field.enumeration(value)
    if field is not None and field.type in ("uint32", "int32") and isinstance(value, bool):
        return int(value)
    return value
