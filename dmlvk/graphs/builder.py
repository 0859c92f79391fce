"""Builds graphs from expressions, in the style of Microsoft's DirectMLX.

    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (3, 64, 64))
    bias = graph.input("bias", dml.FLOAT32, (3, 1, 1))
    y = F.clip(2 * x + bias, min=0, max=1)          # from dmlvk import functions as F
    model = graph.compile(y=y)
    device.run(model, {"x": pixels, "bias": biases})["y"]

Shapes broadcast as NumPy's do, through strides of 0: nothing is copied for it. Numbers and arrays become constants.
Transposing, reshaping and broadcasting are views of the same bytes, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.conversion import converted
from dmlvk.arrays.tensor_bytes import check_range, lay_out, plain_array
from dmlvk.datatypes import DataType, DataTypeLike, checked_data_type
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.graphs.description import ConstantGraphNode, GraphDesc, OperatorGraphNode
from dmlvk.graphs.expression import Expression, Source, shape_text
from dmlvk.graphs.given_members import (
    check_given,
    check_input_dimensions,
    check_mappings,
    check_outputs_named,
    checked_attributes,
    flat_operands,
    single,
)
from dmlvk.graphs.nodes import SourcedNode, graph_of, needed_nodes
from dmlvk.graphs.numpy_dispatch import GraphWithNumPyWords
from dmlvk.graphs.operand_types import (
    common_sizes,
    data_type_of,
    fitting,
    gives_truths,
    output_type_of,
    shares_sizes,
    type_beside,
)
from dmlvk.graphs.outputs import WantedOutputs, complete_members, complete_types, made_outputs
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.operators import OPERATORS, OWN_OPERATORS, OperatorDesc
from dmlvk.operators.members import scalar_value
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc, TensorFlags

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

Operand = Expression | float | int | np.generic | npt.NDArray[Any]
"""What an operator of a graph can be applied to."""

Operands = Operand | Sequence[Expression] | None
"""What a member of an operator can be given: an operand, several where it is an array of tensors, or nothing."""


class Graph(GraphWithNumPyWords):
    """A graph that is being built.

    Args:
        device: where it will run; operators are checked against its feature level as they are made.

    Raises:
        InvalidArgumentError: when it is no device.
    """

    def __init__(self, device: Device) -> None:
        if not hasattr(device, "create_operator"):  # dmlvk.dask looks at models without a device, by a stand-in
            raise InvalidArgumentError(f"Graph: device must be a dmlvk.Device; got {device!r}")
        self.device = device
        self._inputs: dict[str, TensorDesc] = {}
        self._nodes: list[SourcedNode[Source]] = []
        self._known: dict[tuple[object, ...], int] = {}

    def input(
        self,
        name: str,
        data_type: DataTypeLike,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        owned_by_dml: bool = False,
    ) -> Expression:
        """An input of the graph.

        Args:
            name: what ``Device.run`` knows it by.
            data_type: of its elements, by DirectML's or NumPy's name.
            sizes: its shape.
            strides: in elements, as the buffer will have them; ``None``: packed.
            owned_by_dml: whether it is given once, when the graph is initialized, and kept (weights).

        Raises:
            InvalidArgumentError: when the name is taken, or the tensor breaks a rule.
        """
        if not isinstance(name, str) or not name or name in self._inputs:
            raise InvalidArgumentError(f"Graph.input: name must be a string that no other input has; got {name!r}")
        flags = TensorFlags.OWNED_BY_DML if owned_by_dml else TensorFlags.NONE
        tensor = TensorDesc(data_type, sizes, strides, flags=flags)
        self._inputs[name] = tensor
        return Expression(self, Source("input", len(self._inputs) - 1), tensor, name)

    @property
    def input_count(self) -> int:
        """How many inputs there are so far."""
        return len(self._inputs)

    def constant(self, value: npt.ArrayLike, data_type: DataTypeLike | None = None, name: str = "") -> Expression:
        """A tensor whose values are known.

        Args:
            value: an array, or a number.
            data_type: of the elements, by DirectML's or NumPy's name; ``None``: the array's own. Values are converted
                where none changes; a number is rounded to a type of floats.
            name: for messages and pictures.

        Raises:
            InvalidArgumentError: when the value has no such type.
        """
        wanted = None if data_type is None else checked_data_type(data_type, "Graph.constant: data_type")
        if isinstance(value, (bool, int, float)) and wanted is not None:
            return self._scalar(value, wanted, name or f"{value!r}")
        array = plain_array(value, "Graph.constant")
        data_type = data_type_of(array) if wanted is None else wanted
        if array.dtype == np.bool_ and data_type is DataType.UINT8:
            array = array.view(np.uint8)
        if array.dtype != data_type.numpy_dtype and array.dtype.kind in "biuf" and wanted is not None:
            array = converted(array, data_type.numpy_dtype, "Graph.constant")
        if array.dtype != data_type.numpy_dtype or array.ndim > MAXIMUM_DIMENSION_COUNT or array.size == 0:
            raise InvalidArgumentError(
                f"Graph.constant: needs an array of {data_type.name} that is not empty, of at most "
                f"{MAXIMUM_DIMENSION_COUNT} dimensions; got {array.dtype} of shape {shape_text(array.shape)}"
            )
        tensor = TensorDesc(data_type, array.shape or (1,))
        check_range(array, data_type, "Graph.constant")
        contents = np.zeros(tensor.size_in_bytes, np.uint8)
        lay_out(array.reshape(tensor.sizes), tensor, contents, "Graph.constant")
        return self._constant(contents.tobytes(), tensor, name)

    def _scalar(self, value: float, data_type: DataType, name: str) -> Expression:
        checked = scalar_value(value, data_type, f"the constant {value!r}")
        with np.errstate(over="ignore"):
            contents = np.array(checked, data_type.numpy_dtype).tobytes()
        tensor = TensorDesc(data_type, (1,))
        return self._constant(contents + bytes(tensor.size_in_bytes - len(contents)), tensor, name)

    def _constant(self, contents: bytes, tensor: TensorDesc, name: str) -> Expression:
        key = ("constant", contents)
        if key not in self._known:
            self._nodes.append(SourcedNode(ConstantGraphNode(contents, name), ()))
            self._known[key] = len(self._nodes) - 1
        return Expression(self, Source("node", self._known[key]), tensor, name)

    def apply(
        self,
        operator: str,
        tensors: Mapping[str, Operands],
        attributes: Mapping[str, Any] | None = None,
        *,
        output_data_type: DataTypeLike | None = None,
        output_sizes: Sequence[int] | None = None,
        output_strides: Sequence[int] | None = None,
        name: str = "",
    ) -> Expression:
        """Applies an operator of one output: what the functions of :mod:`dmlvk.functions` do.

        Args:
            operator: DirectML's name, ``"ELEMENT_WISE_CLIP"``.
            tensors: its inputs, by their Python names, ``"input_tensor"``; arrays of tensors are sequences.
            attributes: its other members.
            output_data_type: where the inputs do not decide it; ``None``: UINT8, UINT32 or FLOAT32, the first that the
                operator has.
            output_sizes: of an output whose sizes inputs and attributes do not decide.
            output_strides: of the output; ``None``: packed.
            name: for messages and pictures.

        Raises:
            InvalidArgumentError: when shapes do not broadcast, types do not agree, or the operator's own rules are
                broken.
            UnsupportedError: when dmlvk, or the device's feature level, does not have it.
        """
        made = self.apply_all(
            operator,
            tensors,
            attributes,
            output_data_type=output_data_type,
            output_sizes=output_sizes,
            output_strides=output_strides,
            name=name,
        )
        if len(made) != 1:
            raise InvalidArgumentError(f"{operator}: has the outputs {', '.join(made)}: take them from Graph.apply_all")
        return next(iter(made.values()))

    def apply_all(
        self,
        operator: str,
        tensors: Mapping[str, Operands],
        attributes: Mapping[str, Any] | None = None,
        *,
        output_data_type: DataTypeLike | Mapping[str, DataTypeLike] | None = None,
        output_sizes: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        output_strides: Sequence[int] | None = None,
        optional_outputs: Sequence[str] = (),
        name: str = "",
    ) -> dict[str, Expression]:
        """Applies an operator of any number of outputs.

        Args:
            operator: DirectML's name, ``"TOP_K1"``.
            tensors: its inputs, by their Python names; arrays of tensors are sequences.
            attributes: its other members. Those that count others (``axis_count``) may be left out.
            output_data_type: as for :meth:`apply`, for all outputs or by their Python names.
            output_sizes: of outputs whose sizes inputs and attributes do not decide; for the only one, or by name.
            output_strides: of the only output; ``None``: packed.
            optional_outputs: the optional outputs that are wanted, by their Python names.
            name: for messages and pictures.

        Returns:
            The outputs, by their Python names (``"output_tensors[1]"`` in an array), in order.

        Raises:
            InvalidArgumentError, UnsupportedError: as for :meth:`apply`.
        """
        kind = OPERATORS.get(operator) or OWN_OPERATORS.get(operator) if isinstance(operator, str) else None
        if kind is None:
            raise UnsupportedError(f"{operator}: this version of dmlvk has no such operator")
        if not isinstance(name, str):
            raise InvalidArgumentError(f"{operator}: name must be a string; got {name!r}")
        check_mappings(operator, tensors, attributes)
        wanted_type = _checked_types(output_data_type, operator)
        if kind.declaration.is_regular:
            if output_sizes is not None or isinstance(wanted_type, Mapping):
                raise InvalidArgumentError(f"{operator}: the sizes and types of its output follow from its inputs")
            alone = {member: single(kind, member, operand) for member, operand in tensors.items()}
            made = self._apply_regular(kind, alone, attributes, wanted_type, output_strides, name)
            return {next(field.attribute for field in kind.fields if field.kind == "output"): made}
        for what, given in (("output_data_type", wanted_type), ("output_sizes", output_sizes)):
            if isinstance(given, Mapping):
                check_outputs_named(kind, what, given)
        check_outputs_named(kind, "optional_outputs", optional_outputs)
        wanted = WantedOutputs(wanted_type, output_sizes, output_strides, tuple(optional_outputs))
        return self._apply_by_rule(kind, tensors, attributes or {}, wanted, name)

    def _apply_by_rule(
        self,
        kind: type[OperatorDesc],
        tensors: Mapping[str, Operands],
        attributes: Mapping[str, Any],
        wanted: WantedOutputs,
        name: str,
    ) -> dict[str, Expression]:
        check_given(kind, tensors, attributes)
        members = checked_attributes(kind, attributes)
        flat = flat_operands(kind, tensors)
        expressions = self._expressions(kind, flat, None)
        for field in kind.fields:
            if field.kind == "input":
                of_array = [e.tensor for key, e in expressions.items() if key.startswith(f"{field.attribute}[")]
                single = expressions[field.attribute].tensor if field.attribute in expressions else None
                members[field.attribute] = of_array if field.type == "tensors" else single
        check_input_dimensions(kind, members, self.device.feature_level)
        complete_members(kind, members)
        outputs = made_outputs(kind, members, wanted)
        complete_types(kind, members, outputs)
        for field in kind.fields:
            if field.kind == "output" and field.counted_by is not None:
                members[field.counted_by] = len(outputs[field.attribute])
        desc = kind(**members, **outputs)
        sources = [expressions[f.attribute].source if f.attribute in expressions else None for f, _ in desc.inputs]
        index = self._operator_node(desc, tuple(sources), name)
        return {
            field.attribute: Expression(self, Source("node", index, number), tensor, name or kind.operator_name)
            for number, (field, tensor) in enumerate(desc.outputs)
            if tensor is not None
        }

    def _apply_regular(
        self,
        kind: type[OperatorDesc],
        tensors: Mapping[str, Operand | None],
        attributes: Mapping[str, Any] | None,
        output_data_type: DataType | None,
        output_strides: Sequence[int] | None,
        name: str,
    ) -> Expression:
        operator = kind.operator_name
        check_given(kind, tensors, attributes or {})
        present = {member: operand for member, operand in tensors.items() if operand is not None}
        expressions = self._expressions(kind, present, output_data_type)
        sizes = common_sizes(kind, expressions)
        rank = max(len(sizes), self._fewest_dimensions(kind))
        padded = (1,) * (rank - len(sizes)) + sizes
        members: dict[str, Any] = dict(attributes or {})
        for member, expression in expressions.items():
            seen = expression.broadcast_to(padded) if shares_sizes(kind, member) else expression
            members[member] = seen.tensor
        (output,) = (field for field in kind.fields if field.kind == "output")
        data_type = output_type_of(kind, output, members, output_data_type)
        strides: tuple[int, ...] | None = None
        if output_strides is not None:
            given = checked_integers(output_strides, f"{operator}: output_strides", 0, 2**32 - 1)
            strides = (0,) * (rank - len(sizes)) + tuple(given)
        members[output.attribute] = result = TensorDesc(data_type, padded, strides)
        for field in kind.fields:
            if field.type == "uint32_array" and isinstance(members.get(field.attribute), Sequence):
                members[field.attribute] = [_axis(axis, len(sizes), rank) for axis in members[field.attribute]]
        complete_types(kind, members, {})
        desc = kind(**members)
        sources = [
            expressions[field.attribute].source if field.attribute in expressions else None for field, _ in desc.inputs
        ]
        index = self._operator_node(desc, tuple(sources), name)
        made = Expression(self, Source("node", index), result, name or operator, is_truth=gives_truths(kind))
        return made if rank == len(sizes) else made.reinterpret(sizes, result.element_strides[rank - len(sizes) :])

    def _operator_node(self, desc: OperatorDesc, sources: tuple[Source | None, ...], name: str) -> int:
        is_open = desc.has_dynamic_sizes  # then a hash would make plain numbers of them
        key = (desc, sources, name)
        if is_open or key not in self._known:
            node = OperatorGraphNode(self.device.create_operator(desc), name)
            self._nodes.append(SourcedNode(node, sources))
        if is_open:
            return len(self._nodes) - 1
        return self._known.setdefault(key, len(self._nodes) - 1)

    def _fewest_dimensions(self, kind: type[OperatorDesc]) -> int:
        return kind.declaration.support_at(self.device.feature_level).dimensions[0]

    def _expressions(
        self, kind: type[OperatorDesc], operands: Mapping[str, Operand], output_type: DataType | None
    ) -> dict[str, Expression]:
        """Every operand as an expression: numbers take the type of a tensor that they must agree with."""
        found = {member: operand for member, operand in operands.items() if isinstance(operand, Expression)}
        for member, operand in operands.items():
            if member in found:
                if found[member].graph is not self:
                    raise InvalidArgumentError(f"{kind.operator_name}: {member} belongs to another graph")
            elif isinstance(operand, np.ndarray):
                array = plain_array(operand, f"{kind.operator_name}: {member}")
                found[member] = self.constant(fitting(kind, member, array, found, output_type))
            elif isinstance(operand, (bool, int, float, np.integer, np.floating)):
                number = operand.item() if isinstance(operand, np.generic) else operand
                data_type = type_beside(kind, member.partition("[")[0], found, output_type)
                found[member] = self._scalar(number, data_type, f"{number!r}")
            else:
                raise InvalidArgumentError(
                    f"{kind.operator_name}: {member} must be an expression, an array or a number; got {operand!r}"
                )
        return {
            member: found[member]
            for field in kind.fields
            for member in operands
            if member.partition("[")[0] == field.attribute
        }

    def compile(
        self,
        outputs: Mapping[str, Expression] | Expression | None = None,
        *,
        flags: ExecutionFlags = ExecutionFlags.NONE,
        fuse: bool = True,
        lasting_inputs: Collection[str] = (),
        **named: Expression,
    ) -> CompiledGraph:
        """Makes the graph ready to run.

        Args:
            outputs: the graph's outputs by name; a single one without a name is called ``output``.
            flags: as for ``Device.compile_operator``.
            fuse: as for ``Device.compile_graph``.
            lasting_inputs: likewise, by their names.
            named: further outputs.

        Raises:
            InvalidArgumentError: when there is no output, or an input leads to none.
        """
        if not isinstance(outputs, (Expression, Mapping, type(None))):
            raise InvalidArgumentError(f"Graph.compile: outputs must be given by name; got {outputs!r}")
        wanted: dict[str, Expression] = {"output": outputs} if isinstance(outputs, Expression) else dict(outputs or {})
        wanted |= named
        desc, written = self.described(wanted)
        return self.device.compile_graph(
            desc,
            flags,
            fuse=fuse,
            input_names=list(self._inputs),
            output_names=list(wanted),
            input_tensors=list(self._inputs.values()),
            output_tensors=written,
            lasting_inputs=[index for index, name in enumerate(self._inputs) if name in lasting_inputs],
        )

    def described(self, wanted: Mapping[str, Expression]) -> tuple[GraphDesc, list[TensorDesc]]:
        """The graph as ``Device.compile_graph`` takes it, and how its outputs are seen.

        Args:
            wanted: the outputs.

        Raises:
            InvalidArgumentError: when there is no output, or an input leads to none.
        """
        if not wanted:
            raise InvalidArgumentError("Graph.compile: needs at least one output")
        for name, expression in wanted.items():
            if not isinstance(expression, Expression) or expression.graph is not self:
                raise InvalidArgumentError(
                    f"Graph.compile: {name} must be an expression of this graph; got {expression!r}"
                )
        written = [self._as_written(expression) for expression in wanted.values()]
        sources = [source for source, _ in written]
        needed = needed_nodes(self._nodes, sources)
        used = {source for index in needed for source in self._nodes[index].reads}
        numbers = {Source("input", number): number for number in range(len(self._inputs))}
        unused = [name for name, source in zip(self._inputs, numbers, strict=True) if source not in used]
        if unused:
            raise InvalidArgumentError(f"Graph.compile: no output depends on the input {unused[0]!r}")
        graph = graph_of(self._nodes, needed, sources, numbers, list(self._inputs))
        return graph, [tensor for _, tensor in written]

    def _as_written(self, expression: Expression) -> tuple[Source, TensorDesc]:
        """A node that writes the expression, packed, and how its output is seen.

        A view, an input or a constant is copied by a node of its own. An output that was given strides keeps them.
        """
        source = expression.source
        if source.kind == "node":
            node = self._nodes[source.index].node
            if isinstance(node, OperatorGraphNode):
                _, tensor = node.operator.desc.outputs[source.output]
                if expression.tensor.is_packed or _is_the_same(tensor, expression.tensor):
                    return source, expression.tensor
        copy = self.apply("ELEMENT_WISE_IDENTITY", {"input_tensor": expression}, name=expression.name)
        return copy.source, copy.tensor

    def inputs_of(self, expressions: Iterable[Expression]) -> list[str]:
        """The names of the inputs on which expressions depend: all others must not be there when they are compiled."""
        sources = [expression.source for expression in expressions]
        needed = needed_nodes(self._nodes, [source for source in sources if source.kind == "node"])
        sources += [source for index in needed for source in self._nodes[index].reads]
        indices = {source.index for source in sources if source.kind == "input"}
        return [name for position, name in enumerate(self._inputs) if position in indices]


def _checked_types(
    given: DataTypeLike | Mapping[str, DataTypeLike] | None, operator: str
) -> DataType | Mapping[str, DataType] | None:
    """The data types that are asked for: of all outputs, or by their names."""
    where = f"{operator}: output_data_type"
    if isinstance(given, Mapping):
        return {member: checked_data_type(data_type, f"{where} of {member}") for member, data_type in given.items()}
    return None if given is None else checked_data_type(given, where)


def _axis(axis: object, expression_rank: int, operator_rank: int) -> object:
    """An axis of an expression, counted from the end when it is negative, as one of the operator's tensors."""
    if not isinstance(axis, int) or not -expression_rank <= axis < expression_rank:
        return axis  # the operator's own check has words for it
    return axis % expression_rank + operator_rank - expression_rank


def _is_the_same(written: TensorDesc | None, seen: TensorDesc) -> bool:
    """Whether a view shows an output as it was written, perhaps without leading axes of size 1."""
    if written is None or written.data_type is not seen.data_type:
        return False
    leading = len(written.sizes) - len(seen.sizes)
    return (1,) * leading + tuple(seen.sizes) == written.sizes and written.element_strides[
        leading:
    ] == seen.element_strides
