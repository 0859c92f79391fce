"""Puts together the graph of operators that a stretch of a model becomes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlvk.dynamic.sizes import as_size
from dmlvk.graphs.description import GraphDesc, OperatorGraphNode
from dmlvk.graphs.nodes import SourcedNode, graph_of, needed_nodes
from dmlvk.graphs.operand_types import gives_truths, shares_sizes
from dmlvk.graphs.outputs import WantedOutputs, complete_members, made_outputs
from dmlvk.onnx.nodes.values import (
    DATA_TYPES,
    MOST_DIMENSIONS,
    Array,
    Derived,
    DeviceSource,
    NotOnDevice,
    Tensor,
    broadcast_shape,
    dense,
    described,
    memory_of,
    size_in_bytes,
    strides_in,
)
from dmlvk.operators import OPERATORS, Field, OperatorDesc, Slice1
from dmlvk.operators.declaration import OWN_OPERATORS
from dmlvk.support.file_arrays import is_of_files
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
    """An output that an operator is to write, packed."""

    element: int  # ONNX's element type
    shape: tuple[int, ...]  # as ONNX has it


@dataclasses.dataclass(frozen=True)
class Assembled:
    """A graph with what its inputs and outputs are.

    Attributes:
        input_tensors: as which their bytes are bound.
    """

    desc: GraphDesc  # the graph
    inputs: tuple[DeviceSource, ...]  # the sources of its inputs, in order
    output_tensors: tuple[Tensor, ...]  # what its outputs show
    # the model's names of what each of its nodes writes, by the number of the output
    values: tuple[Mapping[int, str], ...]


class Assembly:
    """A graph that is being put together.

    Args:
        device: where it will run; operators are checked against its feature level as they are added.
        parts: parts of constants that were made for other graphs of the same model.
        capacities: how many rows the caches have that stay in memory of their own, by the outputs that show them.
    """

    def __init__(self, device: Device, parts: Parts | None = None, capacities: Mapping[str, int] | None = None) -> None:
        self.device = device
        self.label = ""  # for messages and pictures, of the operators that are added next
        self._capacities = {} if capacities is None else capacities
        self.lengths: list[Lengths] = []  # what nodes read that append to such caches
        self.appended: set[str] = set()  # the outputs that show caches to which nodes append
        # from where to where numbers may go that nodes read, each once
        self.ranges: dict[tuple[str, int, int], Range] = {}
        self.propagates_nan = False  # as for :class:`~dmlvk.onnx.model.loading.OnnxModel`
        self._parts: Parts = {} if parts is None else parts
        self._nodes: list[SourcedNode[DeviceSource]] = []
        self._written: list[list[tuple[DeviceSource, New]]] = []  # by nodes; tensors would refer to what keeps them
        self._names: dict[DeviceSource, str] = {}
        self._operators: dict[object, tuple[Operator, Mapping[str, Any]]] = {}
        self._constants: dict[tuple[int, int], DeviceSource] = {}
        self._scalars: dict[tuple[bytes, int], Array] = {}
        self.of_sizes: dict[str, DeviceSource] = {}
        # integers that nodes made of open sizes, and that no value of the model has, by names of their own
        self.follows: dict[str, Derived] = {}

    def capacity_of(self, output: str) -> int | None:
        """How many rows the cache has that an output shows and that is written where it lies; ``None``: it is none."""
        return self._capacities.get(output)

    def mark(self) -> int:
        """The state of now, for :meth:`back_to`."""
        return len(self._nodes)

    def back_to(self, mark: int) -> None:
        """Forgets what was added since."""
        del self._nodes[mark:], self._written[mark:]

    def input(self, name: str, element: int, shape: Sequence[int]) -> Tensor:
        sizes = tuple(map(as_size, shape))
        source = DeviceSource("input", size_in_bytes(DATA_TYPES[element], sizes), name=name)
        return Tensor(self, source, element, sizes, packed_strides(sizes))

    def constant(self, array: Array, element: int) -> Tensor:
        """A tensor whose contents are uploaded once; the same bytes for arrays that are views of the same memory."""
        whole = dense(array)
        strides = strides_in(array, whole)
        source = self._constants.get(memory_of(whole))
        if source is None:
            source = DeviceSource("constant", size_in_bytes(DATA_TYPES[element], whole.shape), array=whole)
            self._constants[memory_of(whole)] = source
        return Tensor(self, source, element, array.shape, strides)

    def scalar(self, value: float, element: int) -> Tensor:
        """A tensor of one element that is known, without dimensions."""
        array = np.full((), value, DATA_TYPES[element].numpy_dtype)
        return self.constant(self._scalars.setdefault((array.tobytes(), element), array), element)

    def derived(self, value: Derived) -> Tensor:
        """A tensor of integers that follow from open sizes, which the host writes where these are bound."""
        source = self.of_sizes.get(value.name)
        if source is None:
            size = size_in_bytes(DATA_TYPES[value.element], value.numbers.shape)
            source = self.of_sizes[value.name] = DeviceSource("input", size, name=value.name)
        return Tensor(self, source, value.element, value.numbers.shape, packed_strides(value.numbers.shape))

    def size(self, number: int, element: int) -> Tensor:
        """A tensor of one integer that follows from open sizes.

        Args:
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
            self._parts[key] = array, chosen if is_of_files(chosen) else np.ascontiguousarray(chosen)
        return self.constant(self._parts[key][1], tensor.element)

    def converted(self, array: Array, word: tuple[int, int, int], convert: Callable[[], Array], element: int) -> Tensor:
        """A constant that is made from others once, whatever is planned with it afterwards.

        Args:
            array: one of those, which is kept alive with what is made.
            word: tells what else it is made with.
        """
        key = (memory_of(array), *word)
        if key not in self._parts:
            self._parts[key] = array, np.ascontiguousarray(convert())
        return self.constant(self._parts[key][1], element)

    def add(
        self, operator: str, members: Mapping[str, Any], element: int | None = None, label: str | None = None
    ) -> tuple[Tensor, ...]:
        """Adds an operator.

        Args:
            operator: DirectML's name, or that of an operator of dmlvk's own.
            members: by their Python names: tensors, :class:`New` for outputs, lists of these, and attributes. Lengths
                of arrays follow from these. Tensors of an element-wise operator broadcast, and numbers may stand in
                their places. Outputs that are left out are as the operator's shape rule has them; optional ones are
                absent.
            element: ONNX's type of the outputs that are left out; ``None``: that of the inputs whose data type they
                have, BOOL of comparisons.
            label: for messages and pictures; ``None``: :attr:`label`.

        Returns:
            What it writes, in the order of its outputs.

        Raises:
            NotOnDevice: when dmlvk has no such operator, or shapes do not broadcast.
            DmlError: when the description breaks a rule.
        """
        kind = OPERATORS.get(operator) or OWN_OPERATORS.get(operator)
        if kind is None:
            raise NotOnDevice(f"this version of dmlvk has no {operator} yet")
        if kind.declaration.is_regular:
            members = self._broadcast(kind, members)
        field_of = {field.attribute: field for field in kind.fields}.get
        described = {member: _as_member(value, field_of(member)) for member, value in members.items()}
        complete_members(kind, described)
        following = _following_outputs(kind, members, described, element)
        described |= {member: _as_member(new, None) for member, new in following.items()}
        operator_of = self._operator(kind, described)
        given = {member: iter(_listed(value)) for member, value in {**members, **following}.items()}
        sources = tuple(
            None if tensor is None else next(_tensors(given[_member_of(field)])).source
            for field, tensor in operator_of.desc.inputs
        )
        written: list[tuple[DeviceSource, New]] = []
        for position, (field, tensor) in enumerate(operator_of.desc.outputs):
            if tensor is None:
                continue
            new = next(item for item in given[_member_of(field)] if isinstance(item, New))
            source = DeviceSource("node", tensor.size_in_bytes, index=len(self._nodes), output=position)
            written.append((source, new))
        node = OperatorGraphNode(operator_of, self.label if label is None else label)
        self._nodes.append(SourcedNode(node, sources))
        self._written.append(written)
        return tuple(self._tensor(source, new) for source, new in written)

    def cut(self, tensor: Tensor) -> tuple[Tensor, Slice1] | None:
        """The whole tensor that SLICE1 made a tensor of, and how; ``None``: that was not what made it."""
        source = tensor.source
        made = self._nodes[source.index] if source.kind == "node" else None
        if made is None or not isinstance(made.node, OperatorGraphNode):
            return None
        desc, (whole, *_) = made.node.operator.desc, made.sources
        if not isinstance(desc, Slice1) or whole is None or desc.has_dynamic_sizes:
            return None
        if not tensor.is_packed or tensor.shape != desc.output_tensor.sizes:
            return None
        cut = desc.input_tensor
        return Tensor(self, whole, tensor.element, tuple(cut.sizes), tuple(cut.element_strides)), desc

    def _tensor(self, source: DeviceSource, new: New) -> Tensor:
        return Tensor(self, source, new.element, new.shape, packed_strides(new.shape))

    def _broadcast(self, kind: type[OperatorDesc], members: Mapping[str, Any]) -> dict[str, Any]:
        """The members of an element-wise operator: numbers as tensors, and tensors in the shape of all."""
        tensors = {member: value for member, value in members.items() if isinstance(value, Tensor)}
        for field in kind.fields:
            value = members.get(field.attribute)
            if field.kind == "input" and not isinstance(value, (Tensor, list, type(None))):
                tensors[field.attribute] = self.scalar(value, _agreeing(kind, field.attribute, tensors)[0].element)
        single = kind.declaration.one_element
        sharing = [
            member
            for member, tensor in tensors.items()
            if shares_sizes(kind, member) and not (member in single and math.prod(tensor.shape) == 1)
        ]
        shape = broadcast_shape(*(tensors[member].shape for member in sharing))
        return {**members, **tensors, **{member: tensors[member].broadcast(shape) for member in sharing}}

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
        self._names.setdefault(tensor.source, name)

    def as_written(self, tensor: Tensor, label: str) -> Tensor:
        """The tensor as an operator's own packed output: a copy, where it is a view or no operator writes it."""
        if tensor.source.kind == "node" and tensor.is_packed and fills(tensor):
            return tensor
        if tensor.data_type.size_in_bits < 8:  # all of its source's bytes, as the planner sees to
            contents = tensor.viewed((tensor.source.size_in_bytes,), element=TensorProto.UINT8)
            return self.as_written(contents, label).viewed(tensor.shape, element=tensor.element)
        if tensor.rank > MOST_DIMENSIONS:
            return self.as_written(tensor.collapsed(), label).viewed(tensor.shape)
        return self.add("ELEMENT_WISE_IDENTITY", {"input_tensor": tensor}, label=label)[0]

    def assembled(self, outputs: Sequence[Tensor]) -> Assembled | None:
        """The graph of what leads to the outputs; ``None`` where there is nothing to compute."""
        if not outputs:
            return None
        needed = needed_nodes(self._nodes, [tensor.source for tensor in outputs])
        used = {tensor.source for tensor in outputs} | {read for index in needed for read in self._nodes[index].reads}
        # Every output of a node needs an edge, also one that nobody reads.
        written = [one for index in needed for one in self._written[index]]
        shown = [*outputs, *(self._tensor(source, new) for source, new in written if source not in used)]
        inputs: dict[DeviceSource, int] = {}
        graph = graph_of(self._nodes, needed, [tensor.source for tensor in shown], inputs)
        names = [
            {source.output: self._names[source] for source, _ in self._written[index] if source in self._names}
            for index in needed
        ]
        return Assembled(graph, tuple(inputs), tuple(shown), tuple(names))


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


def _agreeing(kind: type[OperatorDesc], member: str, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    return [tensors[other] for group in kind.same_data_type if member in group for other in group if other in tensors]


def _following_outputs(
    kind: type[OperatorDesc], members: Mapping[str, Any], described: Mapping[str, Any], element: int | None
) -> dict[str, New]:
    """The outputs that an operator has and nobody states, as its shape rule gives them.

    Args:
        members: tensors, and :class:`New` for outputs.
        described: the same as descriptions have them.
        element: ONNX's type of theirs, where the inputs do not say it.
    """
    left_out = [field.attribute for field in kind.fields if field.kind == "output" and not field.optional]
    left_out = [member for member in left_out if member not in members]
    if not left_out:
        return {}
    if element is None and gives_truths(kind):
        element = TensorProto.BOOL
    tensors = [one for value in members.values() for one in _tensors(iter(_listed(value)))]
    by_member = {member: value for member, value in members.items() if isinstance(value, Tensor)}
    usual = tensors[0].data_type if tensors else None
    by_rule = made_outputs(kind, described, WantedOutputs(usual if element is None else DATA_TYPES[element]))
    made: dict[str, New] = {}
    for member in left_out:
        data_type, sizes = by_rule[member].data_type, tuple(by_rule[member].sizes)
        alike = (
            each.element for each in (*_agreeing(kind, member, by_member), *tensors) if each.data_type is data_type
        )
        known = (number for number, known_type in DATA_TYPES.items() if known_type is data_type)
        found = next(alike, None) or next(known) if element is None else element
        made[member] = New(found, sizes if any(one.rank for one in tensors) else ())
    return made


def fills(tensor: Tensor) -> bool:
    """Whether a packed view shows all bytes of its source."""
    return size_in_bytes(tensor.data_type, tensor.shape) == tensor.source.size_in_bytes


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
