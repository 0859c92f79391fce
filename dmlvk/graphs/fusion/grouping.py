"""Which operators of a graph go into one kernel.

Groups grow along the edges: the value with the most bytes first, whose round trip through memory is saved. Two groups
may become one when their access orders can be brought together (:mod:`dmlvk.graphs.spaces`), no other group would have
to run between them, and the kernel stays within sensible limits. Where all operands are gone through in vectors a
kernel may write several tensors, of elements in the same places; otherwise a value that is read outside of its group,
or is an output of the graph, ends it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_dynamic, when_large
from dmlvk.graphs.fusion.functions import Function
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.graphs.spaces import Axes, NodeOperand, Space, axes_of, joined
from dmlvk.kernels import access_orders
from dmlvk.kernels.layout import FoldedLayout
from dmlvk.kernels.target import GPU, Target
from dmlvk.kernels.variants import ACCESS_ORDERS, AccessOrder, lanes, lines
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT


@dataclasses.dataclass(frozen=True)
class KernelLimits:
    inputs: int = 8  # tensors that it reads, each counted once for each way in which it is read
    outputs: int = 4  # tensors that it writes
    buffers: int = 12  # both together, as the device allows
    push_constant_words: int = 32  # parameters, 128 bytes on every device
    nodes: int = 64  # operators
    # words of SPIR-V that the functions take, times the elements of an invocation: what a driver compiles
    volume: int = 60_000


@dataclasses.dataclass(frozen=True)
class Operand:
    value: NetworkValue  # the bytes
    view: NodeOperand  # how; of several equal views the first one
    bits: int  # width of an element

    @property
    def bits_type(self) -> DataType:
        """An integer data type of its width."""
        return DataType[f"UINT{self.bits}"]


@dataclasses.dataclass(frozen=True)
class Sums:
    """What the operators of a kernel come to together."""

    volume: int = 0  # words of SPIR-V that their functions take
    words: int = 0  # of parameters, for their attributes and for scalar constants
    equal_reads: int = 0  # how often one operator of floats reads the same value, at most
    writes_integers: bool = False  # whether one writes integers
    calculates: bool = False  # whether one's results are not exact

    @classmethod
    def of(cls, node: NetworkNode, function: Function, scalar_words: int) -> Sums:
        """Those of one operator.

        Args:
            scalar_words: parameters for the scalar constants that it reads.
        """
        values = [value for _, _, value in node.reads()]
        return cls(
            function.volume,
            scalar_words + len(function.attributes),
            max(map(values.count, values), default=0) if computes_with_floats(function.types) else 0,
            not computes_with_floats(function.types[-1:]),
            node.desc.declaration.accuracy.promise != "exact",
        )

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.volume + other.volume,
            self.words + other.words,
            max(self.equal_reads, other.equal_reads),
            self.writes_integers or other.writes_integers,
            self.calculates or other.calculates,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    nodes: tuple[NetworkNode, ...]  # in an order in which they can be computed; in any order as long as the group grows
    span: tuple[int, int]  # where the first and the last of them stand in the graph
    space: Space | None = None  # their common access order; ``None`` for an operator that is not fused with others
    functions: tuple[Function, ...] = ()  # what they compute
    inputs: tuple[Operand, ...] = ()  # the tensors that the kernel reads; scalar constants are parameters instead
    # the tensors that it writes; the one of the narrowest elements is the first, by which its access order goes
    outputs: tuple[Operand, ...] = ()
    target: Target = GPU  # the device
    sums: Sums = Sums()  # what its operators come to

    @functools.cached_property
    def written(self) -> frozenset[NetworkValue]:
        return frozenset(value for node in self.nodes for _, _, value in node.writes())

    @functools.cached_property
    def read(self) -> frozenset[NetworkValue]:
        return frozenset(value for node in self.nodes for _, _, value in node.reads()) - self.written

    @property
    def types(self) -> tuple[DataType, ...]:
        """What the inputs and the first output are loaded as: bits of a width, made into operands by each function."""
        return tuple(operand.bits_type for operand in (*self.inputs, self.outputs[0]))

    @functools.cached_property
    def layout(self) -> FoldedLayout:
        """The folded axes of the inputs and the first output, whose strides are the last ones."""
        assert self.space is not None  # what is fused has one
        views = tuple(operand.view for operand in (*self.inputs, self.outputs[0]))
        return self.space.folded(views[-1], views)

    @functools.cached_property
    def plan(self) -> access_orders.AccessPlan:
        """Its access order through memory."""
        return access_orders.plan(self.layout, self.types, self.target, lambda access_order: self._takes_a_while())

    def _takes_a_while(self) -> bool:
        """Whether the functions calculate, and are slower than memory: as for single operators."""
        return self.sums.calculates and self.sums.volume >= LONG_FUNCTION_WORDS

    @property
    def hiding_words(self) -> int:
        """Parameters of value 0, with which values are hidden from the compiler before functions of floats read them.

        llvmpipe takes a product with what it knows to be 0 for 0, and a sum with it for the other operand, though that
        be an infinity, NaN or -0. It knows it where integers cancel, as in ``BIT_XOR(a, a)``, or in
        ``DEQUANTIZE_LINEAR(a, scale, a)``. So integers are hidden, and of equal operands each in another way.
        """
        sums = self.sums
        is_needed = self.target.is_cpu and (sums.writes_integers or sums.equal_reads > 1)
        return sums.equal_reads if is_needed else 0


def computes_with_floats(types: Sequence[DataType]) -> bool:
    return DataType.FLOAT32 in types or DataType.FLOAT16 in types


def grouped(
    network: Network,
    functions: Mapping[int, Function],  # of the nodes that may be fused, by their indices
    limits: KernelLimits,  # what a kernel may be
    target: Target,
    # operators that stay together, and by themselves; all but the last one's results are read there only
    fixed: Iterable[tuple[NetworkNode, ...]] = (),
) -> list[Group]:
    """Finds the groups of a graph, in an order in which they can run."""
    grouping = _Grouping(network, functions, limits, target)
    for nodes in fixed:
        grouping.fix(nodes)
    return grouping.result()


def is_scalar_constant(network: Network, value: NetworkValue, strides: Sequence[int]) -> bool:
    """Whether a view shows one element of a constant everywhere."""
    return value.kind == "constant" and not any(strides)


def _access_order(group: Group, space: Space) -> AccessOrder:
    """That of its plan, which need not be made where all operands are one run of neighbouring elements."""
    operands = (*group.inputs, *group.outputs)
    is_one_run = len(space.sizes) == 1 and all(space.strides[operand.view] == (1,) for operand in operands)
    return "contiguous" if is_one_run and not is_dynamic(space.sizes) else group.plan.access_order


def _outputs_agree(group: Group) -> bool:
    """Whether one access order serves all outputs: with equal strides, in vectors of as many elements."""
    assert group.space is not None
    _, *further = group.outputs
    if not further:
        return True
    first, *others = (group.space.strides[operand.view] for operand in group.outputs)
    if any(first != strides for strides in others):
        return False
    access_order, types = _access_order(group, group.space), group.types
    widened = (*types[:-1], *(operand.bits_type for operand in further), types[-1])
    return access_order in ("contiguous", "rows") and lanes(access_order, types) == lanes(access_order, widened)


def _elements(access_order: AccessOrder, types: tuple[DataType, ...]) -> int:
    return lanes(access_order, types) * (lines(types) if access_order == "tiled" else 1)


@functools.lru_cache(maxsize=256)
def _most_elements(types: tuple[DataType, ...]) -> int:
    """Elements that one invocation computes at most, in whatever access order."""
    return max(_elements(access_order, types) for access_order in ACCESS_ORDERS)


def _add(inputs: list[Operand], operand: Operand, space: Space) -> None:
    """Adds what a kernel reads, unless it reads the same in the same way already."""
    strides = space.strides
    if not any(
        operand.value == known.value and operand.bits == known.bits and strides[operand.view] == strides[known.view]
        for known in inputs
    ):
        inputs.append(operand)


class _Grouping:
    def __init__(
        self, network: Network, functions: Mapping[int, Function], limits: KernelLimits, target: Target
    ) -> None:
        self._network = network
        self._limits = limits
        self._target = target
        self._position = {node.index: number for number, node in enumerate(network.nodes)}
        self._graph_outputs = {value for value, _ in network.outputs}
        self._readers: dict[NetworkValue, list[NetworkNode]] = {}
        for node in network.nodes:
            for value in {value for _, _, value in node.reads()}:
                self._readers.setdefault(value, []).append(node)
        self._readers_outside: dict[Group, tuple[int, ...]] = {}
        self._axes: dict[int, Axes | None] = {}  # by descriptions, which many nodes share
        self._group_of: dict[int, Group] = {}
        for node in network.nodes:
            group = self._single(node, functions.get(node.index))
            self._group_of[node.index] = group

    def fix(self, nodes: tuple[NetworkNode, ...]) -> None:
        """Makes operators a group that nothing joins."""
        positions = [self._position[node.index] for node in nodes]
        group = Group(nodes, (min(positions), max(positions)))
        self._group_of.update(dict.fromkeys((node.index for node in nodes), group))

    def _single(self, node: NetworkNode, function: Function | None) -> Group:
        span = (self._position[node.index],) * 2
        if function is not None and id(node.desc) not in self._axes:
            self._axes[id(node.desc)] = axes_of(node)
        axes = None if function is None else self._axes[id(node.desc)]
        if function is None or axes is None:
            return Group((node,), span)
        space = Space.of_node(node, axes)
        inputs: list[Operand] = []
        scalar_words = 0
        for number, tensor, value in node.reads():
            operand = Operand(value, NodeOperand(node.index, False, number), tensor.data_type.size_in_bits)
            if is_scalar_constant(self._network, value, space.strides[operand.view]):
                scalar_words += max(1, operand.bits // 32)
            else:
                _add(inputs, operand, space)
        outputs = [
            Operand(value, NodeOperand(node.index, True, number), tensor.data_type.size_in_bits)
            for number, tensor, value in node.writes()
        ]
        return Group(
            (node,),
            span,
            space,
            (function,),
            tuple(inputs),
            tuple(sorted(outputs, key=lambda operand: operand.bits)),
            self._target,
            Sums.of(node, function, scalar_words),
        )

    def result(self) -> list[Group]:
        self._join_along_edges()
        groups = [self._in_order(group) for group in dict.fromkeys(self._group_of.values())]
        for group in groups:
            self._group_of.update(dict.fromkeys((node.index for node in group.nodes), group))
        return self._sorted(groups)

    def _in_order(self, group: Group) -> Group:
        if group.space is None or len(group.nodes) == 1:
            return group
        pairs = sorted(zip(group.nodes, group.functions, strict=True), key=lambda pair: self._position[pair[0].index])
        nodes, functions = zip(*pairs, strict=True)
        return dataclasses.replace(group, nodes=nodes, functions=functions)

    def _join_along_edges(self) -> None:
        edges = [
            (value, number, node)
            for node in self._network.nodes
            for number, _, value in node.reads()
            if value.kind == "node"
        ]
        # Which is done first changes no result.
        edges.sort(key=lambda edge: -when_large(self._network.sizes[edge[0]]))
        # What two groups cannot do they can never do: a path between them stays when others on it become one. An edge
        # is tried again when one of its groups has grown.
        refused: dict[int, tuple[Group, Group]] = {}
        joined_some = True
        while joined_some:
            joined_some = False
            for edge, (value, number, node) in enumerate(edges):
                first, second = self._group_of[value.index], self._group_of[node.index]
                if first is second or refused.get(edge) == (first, second):
                    continue
                read = NodeOperand(node.index, False, number)
                if self._join(first, NodeOperand(value.index, True, value.output), second, read):
                    joined_some = True
                else:
                    refused[edge] = first, second

    def _join(self, first: Group, view_of_first: NodeOperand, second: Group, view_of_second: NodeOperand) -> bool:
        if first is second or first.space is None or second.space is None:
            return False
        if len(first.nodes) + len(second.nodes) > self._limits.nodes:
            return False
        space = joined(first.space, view_of_first, second.space, view_of_second)
        if space is None:
            return False
        group = self._merged(first, second, space)
        if group is None or self._something_between(first, second) or self._something_between(second, first):
            return False
        for node in group.nodes:
            self._group_of[node.index] = group
        return True

    def _merged(self, first: Group, second: Group, space: Space) -> Group | None:
        """One group of two; ``None`` when it cannot be one kernel.

        What either reads of the other one, and what only these two read, needs no memory any more. So only their
        operands are looked at: large graphs have groups of many operators.
        """
        strides = space.strides
        between = {operand.value: operand for operand in (*first.outputs, *second.outputs)}
        inputs: list[Operand] = []
        for operand in sorted((*first.inputs, *second.inputs), key=self._position_of):
            source = between.get(operand.value)
            if source is None:
                _add(inputs, operand, space)
            elif strides[operand.view] != strides[source.view] or operand.bits != source.bits:
                return None  # another element, or a part of one: the value must go through memory
        outputs = [operand for operand in between.values() if self._is_needed(operand.value, (first, second))]
        outputs.sort(key=lambda operand: (operand.bits, *self._position_of(operand)))
        group = Group(
            first.nodes + second.nodes,
            (min(first.span[0], second.span[0]), max(first.span[1], second.span[1])),
            space,
            first.functions + second.functions,
            tuple(inputs),
            tuple(outputs),
            self._target,
            first.sums + second.sums,
        )
        return group if self._fits(group) and self._is_quickly_compiled(group) and _outputs_agree(group) else None

    def _position_of(self, operand: Operand) -> tuple[int, int]:
        return self._position[operand.view.node], operand.view.number

    def _fits(self, group: Group) -> bool:
        """Whether it has no more operands and parameters than a kernel may."""
        limits, inputs, outputs = self._limits, len(group.inputs), len(group.outputs)
        return (
            inputs <= limits.inputs
            and 0 < outputs <= limits.outputs
            and inputs + outputs <= limits.buffers
            and 1 + group.hiding_words + group.sums.words + inputs + outputs <= limits.push_constant_words
        )

    def _is_quickly_compiled(self, group: Group) -> bool:
        """Whether a driver compiles the kernel in about a second."""
        assert group.space is not None  # what is fused has one
        volume, most = group.sums.volume, self._limits.volume
        if len(group.space.sizes) <= MAXIMUM_DIMENSION_COUNT and volume * _most_elements(group.types) <= most:
            return True  # in any access order: large groups grow by one operator after the other
        if len(group.layout.sizes) > MAXIMUM_DIMENSION_COUNT:
            return False
        return volume * _elements(group.plan.access_order, group.types) <= most

    def _is_needed(self, value: NetworkValue, inside: tuple[Group, Group]) -> bool:
        """Whether a value is read outside of two groups, one of which writes it."""
        readers = self._readers.get(value, ())
        return value in self._graph_outputs or any(self._group_of[node.index] not in inside for node in readers)

    def _successors(self, group: Group) -> Iterator[Group]:
        readers = self._readers_outside.get(group)
        if readers is None:
            values = group.written if group.space is None else [operand.value for operand in group.outputs]
            reading = {node.index for value in values for node in self._readers.get(value, ())}
            outside = sorted(index for index in reading if self._group_of[index] is not group)
            readers = self._readers_outside[group] = tuple(outside)
        return (self._group_of[reader] for reader in readers)

    def _something_between(self, first: Group, second: Group) -> bool:
        """Whether a path leads from one group to another through a third: one kernel would wait for itself."""
        last = second.span[1]  # what begins behind it cannot lead to it
        pending = [group for group in self._successors(first) if group is not second]
        seen: set[int] = set()
        while pending:
            group = pending.pop()
            if id(group) in seen or group.span[0] > last:
                continue
            seen.add(id(group))
            for successor in self._successors(group):
                if successor is second:
                    return True
                pending.append(successor)
        return False

    def _sorted(self, groups: Sequence[Group]) -> list[Group]:
        """Each group behind those that it reads from; otherwise in the order of their last nodes."""
        order: list[Group] = []
        done: set[int] = set()
        by_last = sorted(groups, key=lambda group: group.span[1])
        for wanted in by_last:
            pending = [wanted]
            while pending:
                group = pending[-1]
                missing = [
                    source
                    for source in sorted(
                        {self._group_of[value.index] for value in group.read if value.kind == "node"},
                        key=lambda source: source.span[1],
                    )
                    if id(source) not in done
                ]
                if missing:
                    pending.append(missing[0])
                    continue
                pending.pop()
                if id(group) not in done:
                    done.add(id(group))
                    order.append(group)
        return order
