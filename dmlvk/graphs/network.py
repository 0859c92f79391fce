"""A checked graph in a form to work with: nodes that know where their inputs come from.

Rules 84 to 92 of docs/reference/rules.md.
"""

from __future__ import annotations

import dataclasses
import functools
import graphlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.graphs.description import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from dmlvk.operators import FeatureLevel, OperatorDesc
from dmlvk.support.ordering import in_order
from dmlvk.tensors import TensorDesc, TensorFlags

if TYPE_CHECKING:
    from dmlvk.device import Device


MAXIMUM_INPUT_COUNT = 2**16  # Graph inputs that a graph may have


class NetworkValue(NamedTuple):  # not a dataclass: large graphs look up many, and a tuple's hash is quick
    """Bytes that flow along edges: a graph input, a constant, or an output of a node.

    Attributes:
        kind: which of the three.
        index: number of the graph input or of the node.
        output: which output of the node.
    """

    kind: Literal["input", "constant", "node"]
    index: int  # type: ignore[assignment]  # hides the method of tuples, which nobody needs here
    output: int = 0


@dataclasses.dataclass(frozen=True)
class NetworkNode:
    index: int  # its place in the description's ``nodes``
    name: str  # the given one, or operator and index
    desc: OperatorDesc  # what it computes
    inputs: tuple[NetworkValue | None, ...]  # where each input comes from; ``None`` for an absent optional tensor
    outputs: tuple[NetworkValue | None, ...]  # each output; likewise

    def reads(self) -> tuple[tuple[int, TensorDesc, NetworkValue], ...]:
        """The inputs that are there: number, tensor, source."""
        return self._reads

    def writes(self) -> tuple[tuple[int, TensorDesc, NetworkValue], ...]:
        """The outputs that are there: number, tensor, value."""
        return self._writes

    @functools.cached_property
    def _reads(self) -> tuple[tuple[int, TensorDesc, NetworkValue], ...]:
        return _present(self.desc.inputs, self.inputs)

    @functools.cached_property
    def _writes(self) -> tuple[tuple[int, TensorDesc, NetworkValue], ...]:
        return _present(self.desc.outputs, self.outputs)


def _present(
    members: Sequence[tuple[object, TensorDesc | None]], values: Sequence[NetworkValue | None]
) -> tuple[tuple[int, TensorDesc, NetworkValue], ...]:
    return tuple(
        (number, tensor, value)
        for number, ((_, tensor), value) in enumerate(zip(members, values, strict=True))
        if tensor is not None and value is not None
    )


@dataclasses.dataclass(frozen=True)
class Network:
    nodes: tuple[NetworkNode, ...]  # its operators, each behind those that it reads from
    constants: dict[NetworkValue, bytes]  # contents of the constant nodes, by their values
    # the tensor that the graph input's first edge leads to; ``None`` where it has no edge
    inputs: tuple[TensorDesc | None, ...]
    outputs: tuple[tuple[NetworkValue, TensorDesc], ...]  # what each graph output shows, and as which tensor
    sizes: dict[NetworkValue, int]  # bytes of every value
    names: dict[NetworkValue, str]  # of every value, for people


def network(desc: GraphDesc, device: Device) -> Network:
    """Checks a graph against DirectML's rules.

    Raises:
        InvalidArgumentError: naming the node or edge that breaks a rule.
        UnsupportedError: for a constant node below feature level 6_2.
    """
    return _Checker(desc, device).checked()


class _Checker:
    """Follows the edges of one description."""

    def __init__(self, desc: GraphDesc, device: Device) -> None:
        self._desc = desc
        self._device = device
        self._sources: dict[tuple[int, int], NetworkValue] = {}  # by node and input
        self._edge_to: dict[tuple[int, int], str] = {}
        self._sizes: dict[NetworkValue, int] = {}
        self._names: dict[NetworkValue, str] = {}
        self._inputs: list[TensorDesc | None] = []
        self._used_outputs: set[tuple[int, int]] = set()

    def checked(self) -> Network:
        desc = self._desc
        if not desc.nodes:
            raise InvalidArgumentError("GraphDesc: nodes must not be empty")
        if desc.input_count > MAXIMUM_INPUT_COUNT:
            raise InvalidArgumentError(
                f"GraphDesc: input_count must be at most {MAXIMUM_INPUT_COUNT}; got {desc.input_count}"
            )
        self._inputs += [None] * desc.input_count
        for number, node in enumerate(desc.nodes):
            self._check_node(number, node)
        for number, edge in enumerate(desc.input_edges):
            self._follow_input(self._edge_name("input_edges", number, edge), edge)
        for number, between in enumerate(desc.intermediate_edges):
            self._follow_intermediate(self._edge_name("intermediate_edges", number, between), between)
        outputs = self._outputs()
        nodes = [
            self._connected(number, node)
            for number, node in enumerate(desc.nodes)
            if isinstance(node, OperatorGraphNode)
        ]
        constants = {
            NetworkValue("constant", number): node.contents
            for number, node in enumerate(desc.nodes)
            if isinstance(node, ConstantGraphNode)
        }
        self._check_constants()
        return Network(
            tuple(self._sorted(nodes)), constants, tuple(self._inputs), tuple(outputs), self._sizes, self._names
        )

    @staticmethod
    def _edge_name(member: str, number: int, edge: InputGraphEdge | OutputGraphEdge | IntermediateGraphEdge) -> str:
        return f"GraphDesc: {member}[{number}]" + (f" ({edge.name!r})" if edge.name else "")

    def _node_name(self, index: int) -> str:
        node = self._desc.nodes[index]
        if isinstance(node, ConstantGraphNode):
            return node.name or f"constant {index}"
        return node.name or f"{node.operator.desc.operator_name} {index}"

    def _check_node(self, number: int, node: OperatorGraphNode | ConstantGraphNode) -> None:
        if isinstance(node, OperatorGraphNode):
            if not node.operator.is_for(self._device):
                raise InvalidArgumentError(
                    f"GraphDesc: nodes[{number}] ({self._node_name(number)}): created by another device"
                )
            for _, tensor, value in self._node_outputs(number, node):
                self._sizes[value] = tensor.size_in_bytes
                self._names[value] = self._node_name(number)
        else:
            if self._device.feature_level < FeatureLevel.LEVEL_6_2:
                raise UnsupportedError(
                    f"GraphDesc: nodes[{number}]: a constant node needs feature level 6_2; "
                    f"this device was opened at {self._device.feature_level.label}"
                )
            self._sizes[NetworkValue("constant", number)] = len(node.contents)
            self._names[NetworkValue("constant", number)] = self._node_name(number)

    @staticmethod
    def _node_outputs(number: int, node: OperatorGraphNode) -> list[tuple[int, TensorDesc, NetworkValue]]:
        return [
            (output, tensor, NetworkValue("node", number, output))
            for output, (_, tensor) in enumerate(node.operator.desc.outputs)
            if tensor is not None
        ]

    def _target(self, where: str, node_index: int, input_index: int) -> TensorDesc:
        """The tensor that an edge leads to, which must be there and must not have an edge yet."""
        if node_index >= len(self._desc.nodes):
            raise InvalidArgumentError(
                f"{where}: to_node_index must be below {len(self._desc.nodes)}, the number of nodes; got {node_index}"
            )
        node, name = self._desc.nodes[node_index], self._node_name(node_index)
        inputs = node.operator.desc.inputs if isinstance(node, OperatorGraphNode) else ()
        if input_index >= len(inputs):
            raise InvalidArgumentError(
                f"{where}: to_node_input_index must be below {len(inputs)}, the inputs of {name}; got {input_index}"
            )
        field, tensor = inputs[input_index]
        if tensor is None:
            raise InvalidArgumentError(f"{where}: {field.name} of {name} is absent, so no edge may lead to it")
        if (node_index, input_index) in self._edge_to:
            raise InvalidArgumentError(
                f"{where}: {self._edge_to[node_index, input_index]} leads to {field.name} of {name} already"
            )
        self._edge_to[node_index, input_index] = where.removeprefix("GraphDesc: ")
        return tensor

    def _source(self, where: str, node_index: int, output_index: int) -> tuple[NetworkValue, TensorDesc | None]:
        """The value that an edge begins at, with its tensor where an operator made it."""
        if node_index >= len(self._desc.nodes):
            raise InvalidArgumentError(
                f"{where}: from_node_index must be below {len(self._desc.nodes)}, the number of nodes; got {node_index}"
            )
        node, name = self._desc.nodes[node_index], self._node_name(node_index)
        outputs = node.operator.desc.outputs if isinstance(node, OperatorGraphNode) else (None,)
        if output_index >= len(outputs):
            raise InvalidArgumentError(
                f"{where}: from_node_output_index must be below {len(outputs)}, the outputs of {name}; "
                f"got {output_index}"
            )
        self._used_outputs.add((node_index, output_index))
        if isinstance(node, ConstantGraphNode):
            return NetworkValue("constant", node_index), None
        field, tensor = node.operator.desc.outputs[output_index]
        if tensor is None:
            raise InvalidArgumentError(f"{where}: {field.name} of {name} is absent, so no edge may begin there")
        return NetworkValue("node", node_index, output_index), tensor

    def _follow_input(self, where: str, edge: InputGraphEdge) -> None:
        if edge.graph_input_index >= self._desc.input_count:
            raise InvalidArgumentError(
                f"{where}: graph_input_index must be below input_count {self._desc.input_count}; "
                f"got {edge.graph_input_index}"
            )
        tensor = self._target(where, edge.to_node_index, edge.to_node_input_index)
        value = NetworkValue("input", edge.graph_input_index)
        first = self._inputs[edge.graph_input_index]
        if first is None:
            self._inputs[edge.graph_input_index] = tensor
            self._sizes[value] = tensor.size_in_bytes
            self._names[value] = edge.name or f"Input{edge.graph_input_index}"
        elif (first.flags ^ tensor.flags) & TensorFlags.OWNED_BY_DML:
            raise InvalidArgumentError(
                f"{where}: all tensors at graph input {edge.graph_input_index} must be OWNED_BY_DML, or none of them"
            )
        self._connect(where, value, edge.to_node_index, edge.to_node_input_index, tensor)

    def _follow_intermediate(self, where: str, edge: IntermediateGraphEdge) -> None:
        value, _ = self._source(where, edge.from_node_index, edge.from_node_output_index)
        tensor = self._target(where, edge.to_node_index, edge.to_node_input_index)
        if tensor.flags & TensorFlags.OWNED_BY_DML:
            raise InvalidArgumentError(
                f"{where}: {self._node_name(edge.to_node_index)}'s tensor is OWNED_BY_DML, so it must hang on a graph "
                "input"
            )
        self._connect(where, value, edge.to_node_index, edge.to_node_input_index, tensor)

    def _connect(self, where: str, value: NetworkValue, node_index: int, input_index: int, tensor: TensorDesc) -> None:
        if self._sizes[value] != tensor.size_in_bytes:
            raise InvalidArgumentError(
                f"{where}: TotalTensorSizeInBytes must be the same at both ends; "
                f"it is {self._sizes[value]} of {self._names[value]}, and {tensor.size_in_bytes} of the input of "
                f"{self._node_name(node_index)}"
            )
        self._sources[node_index, input_index] = value

    def _outputs(self) -> list[tuple[NetworkValue, TensorDesc]]:
        found: dict[int, tuple[NetworkValue, TensorDesc]] = {}
        for number, edge in enumerate(self._desc.output_edges):
            where = self._edge_name("output_edges", number, edge)
            if edge.graph_output_index >= self._desc.output_count:
                raise InvalidArgumentError(
                    f"{where}: graph_output_index must be below output_count {self._desc.output_count}; "
                    f"got {edge.graph_output_index}"
                )
            if edge.graph_output_index in found:
                raise InvalidArgumentError(f"{where}: graph output {edge.graph_output_index} has an edge already")
            value, tensor = self._source(where, edge.from_node_index, edge.from_node_output_index)
            if tensor is None:
                raise InvalidArgumentError(
                    f"{where}: {self._names[value]} is a constant, which cannot be a graph output"
                )
            found[edge.graph_output_index] = value, tensor
        for index in range(self._desc.output_count):  # ends at the first that is missing, however many are asked for
            if index not in found:
                raise InvalidArgumentError(f"GraphDesc: no output edge leads to graph output {index}")
        return [found[index] for index in range(self._desc.output_count)]

    def _connected(self, number: int, node: OperatorGraphNode) -> NetworkNode:
        """A node with all its inputs, each of which needs an edge, as its outputs do."""
        desc, name = node.operator.desc, self._node_name(number)
        inputs: list[NetworkValue | None] = []
        for index, (field, tensor) in enumerate(desc.inputs):
            value = self._sources.get((number, index))
            if tensor is not None and value is None:
                raise InvalidArgumentError(f"GraphDesc: no edge leads to {field.name} of nodes[{number}] ({name})")
            inputs.append(value)
        outputs: list[NetworkValue | None] = [None] * len(desc.outputs)
        given = self._node_outputs(number, node)
        # Of several outputs one must be used: nothing would be left out for the sake of the others.
        is_used = len(given) > 1 and any((number, index) in self._used_outputs for index, _, _ in given)
        for index, _, value in given:
            if not is_used and (number, index) not in self._used_outputs:
                raise InvalidArgumentError(
                    f"GraphDesc: no edge begins at {desc.outputs[index][0].name} of nodes[{number}] ({name})"
                )
            outputs[index] = value
        return NetworkNode(number, name, desc, tuple(inputs), tuple(outputs))

    def _check_constants(self) -> None:
        """Their outputs need an edge, as all do."""
        for number, node in enumerate(self._desc.nodes):
            if isinstance(node, ConstantGraphNode) and (number, 0) not in self._used_outputs:
                raise InvalidArgumentError(f"GraphDesc: no edge begins at nodes[{number}] ({self._node_name(number)})")

    def _sorted(self, nodes: Sequence[NetworkNode]) -> list[NetworkNode]:
        """The nodes in the order of the description, but each behind those that it reads from."""
        by_index = {node.index: node for node in nodes}
        sources = {
            node.index: {value.index for value in node.inputs if value is not None and value.kind == "node"}
            for node in nodes
        }
        try:
            return [by_index[index] for index in in_order(sources)]
        except graphlib.CycleError as error:
            chain = " -> ".join(map(self._node_name, error.args[1]))
            raise InvalidArgumentError(f"GraphDesc: nodes form a cycle: {chain}") from None
