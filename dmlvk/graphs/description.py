"""Graph descriptions as DirectML has them (DML_GRAPH_DESC): nodes, and three kinds of edges between them.

Types and ranges of the members are checked here; what a graph must be is checked by ``Device.compile_graph``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError
from dmlvk.objects.compilation import Operator
from dmlvk.support.integers import checked_integer
from dmlvk.support.tokens import token_of

if TYPE_CHECKING:
    from dmlvk.device import Device

_UINT32_MAX = 2**32 - 1


def _check(instance: object, what: str) -> None:
    """Checks the members that every node and edge has: numbers are UINTs, names are text."""
    for name in type(instance).__dataclass_fields__:  # type: ignore[attr-defined]  # called by dataclasses only
        value = getattr(instance, name)
        if name.endswith("_index"):
            if type(value) is not int or not 0 <= value <= _UINT32_MAX:  # a graph has ten thousand edges
                object.__setattr__(instance, name, checked_integer(value, f"{what}: {name}", 0, _UINT32_MAX))
        elif name == "name" and not isinstance(value, str):
            raise InvalidArgumentError(f"{what}: name must be a string; got {value!r}")


@dataclasses.dataclass(frozen=True)
class OperatorGraphNode:
    """A node that runs an operator (DML_OPERATOR_GRAPH_NODE_DESC).

    Args:
        operator: what ``Device.create_operator`` returned. The graph does not need it any more once it is compiled.
        name: for messages, pictures and profiles.
    """

    operator: Operator
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.operator, Operator):
            raise InvalidArgumentError(
                f"OperatorGraphNode: operator must be what create_operator returned; got {self.operator!r}"
            )
        _check(self, "OperatorGraphNode")


@dataclasses.dataclass(frozen=True, eq=False)
class ConstantGraphNode:
    """A node whose output is known when the graph is compiled (DML_CONSTANT_DATA_GRAPH_NODE_DESC, level 6_2).

    Args:
        data: an array, whose bytes are taken in C order; or bytes. Copied when the node is made.
        name: for messages, pictures and profiles.
    """

    data: npt.ArrayLike | bytes
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "ConstantGraphNode")
        try:
            array = np.frombuffer(self.data, np.uint8) if isinstance(self.data, bytes) else np.asarray(self.data)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(f"ConstantGraphNode: data is no array: {error}") from error
        if array.dtype.hasobject or array.dtype.kind == "U" or array.nbytes == 0:
            raise InvalidArgumentError(
                f"ConstantGraphNode: data must have bytes; got {array.size} elements of dtype {array.dtype}"
            )
        object.__setattr__(self, "data", array.tobytes())

    @property
    def contents(self) -> bytes:
        """The data as bytes."""
        assert isinstance(self.data, bytes)  # made so above
        return self.data


@dataclasses.dataclass(frozen=True)
class InputGraphEdge:
    """From a graph input to a node's input (DML_INPUT_GRAPH_EDGE_DESC)."""

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "InputGraphEdge")


@dataclasses.dataclass(frozen=True)
class OutputGraphEdge:
    """From a node's output to a graph output (DML_OUTPUT_GRAPH_EDGE_DESC)."""

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "OutputGraphEdge")


@dataclasses.dataclass(frozen=True)
class IntermediateGraphEdge:
    """From a node's output to another node's input (DML_INTERMEDIATE_GRAPH_EDGE_DESC)."""

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "IntermediateGraphEdge")


GraphNode = OperatorGraphNode | ConstantGraphNode


@dataclasses.dataclass(frozen=True)
class GraphDesc:
    """A graph of operators (DML_GRAPH_DESC).

    It pickles with its operators' descriptions; where it arrives, every device may compile it.

    Args:
        input_count: number of graph inputs. One input may feed many nodes, or none: then nothing is bound to it.
        output_count: number of graph outputs.
        nodes: at least one.
        input_edges: from graph inputs to nodes.
        output_edges: from nodes to graph outputs, one for each.
        intermediate_edges: between nodes.

    Raises:
        InvalidArgumentError: when a member has the wrong type.
    """

    input_count: int
    output_count: int
    nodes: Sequence[GraphNode]
    input_edges: Sequence[InputGraphEdge] = ()
    output_edges: Sequence[OutputGraphEdge] = ()
    intermediate_edges: Sequence[IntermediateGraphEdge] = ()

    def __post_init__(self) -> None:
        for member in ("input_count", "output_count"):
            count = checked_integer(getattr(self, member), f"GraphDesc: {member}", 0, _UINT32_MAX)
            object.__setattr__(self, member, count)
        kinds: dict[str, tuple[type, ...]] = {
            "nodes": (OperatorGraphNode, ConstantGraphNode),
            "input_edges": (InputGraphEdge,),
            "output_edges": (OutputGraphEdge,),
            "intermediate_edges": (IntermediateGraphEdge,),
        }
        for member, accepted in kinds.items():
            object.__setattr__(self, member, tuple(self._checked(member, accepted)))

    def on(self, device: Device) -> GraphDesc:
        """The same graph of operators that another device makes.

        Raises:
            InvalidArgumentError, UnsupportedError: when that one cannot make them.
        """
        nodes = [
            dataclasses.replace(node, operator=device.create_operator(node.operator.desc))
            if isinstance(node, OperatorGraphNode)
            else node
            for node in self.nodes
        ]
        return dataclasses.replace(self, nodes=nodes)

    def __dask_tokenize__(self) -> str:
        return token_of([getattr(self, field.name) for field in dataclasses.fields(self)])

    def _checked(self, member: str, accepted: tuple[type, ...]) -> Iterator[object]:
        values = getattr(self, member)
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            raise InvalidArgumentError(f"GraphDesc: {member} must be a sequence; got {values!r}")
        for number, value in enumerate(values):
            if not isinstance(value, accepted):
                names = " or ".join(kind.__name__ for kind in accepted)
                raise InvalidArgumentError(f"GraphDesc: {member}[{number}] must be an {names}; got {value!r}")
            yield value
