"""From a graph of ATen's operators to a graph of DirectML's: the table, and what its functions work with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import DeviceRemovedError, DmlError, InvalidArgumentError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import ReduceFunction
from dmlvk.support import faults
from dmlvk.torch.sizes import PLAIN, NoNumber, Shown, Sizes, depends_on_data, terms_of
from dmlvk.torch.types import DATA_TYPES, is_on_device

if TYPE_CHECKING:
    from dmlvk.device import Device

Lowering = Callable[..., Any]


@dataclasses.dataclass(frozen=True, eq=False)
class OpenFloat:
    """A floating-point number that follows from open sizes."""

    terms: Any  # SymPy's expression of it
    argument: int | None = None  # the module's argument that is it, where there is one


OpenNumber: TypeAlias = "int | OpenFloat"  # A dynamic size, or a floating-point number

_INPUT, _NUMBER = "input ", "number "

LOWERINGS: dict[str, Lowering] = {}  # What computes each of ATen's operators, by its name with its overload

_CHOOSING: set[str] = set()
"""Those that give elements of their operands, or these with another sign: nothing of them is to be rounded."""


class NotLowered(Exception):
    """The device does not compute a node; the message says why.

    Attributes:
        node: which one, where that is known.
    """

    node: Node | None = None


def lowers(*names: str, chooses: bool = False) -> Callable[[Lowering], Lowering]:
    """Registers a lowering: a function of the context and the node's arguments that gives expressions.

    Args:
        names: of the operators, such as ``"add.Tensor"``.
        chooses: whether they give elements of their operands.
    """

    def register(function: Lowering) -> Lowering:
        for name in names:
            LOWERINGS[name] = function
            if chooses:
                _CHOOSING.add(name)
        return function

    return register


def name_of(node: Node) -> str:
    """An operator's name with its overload; empty for what is none of ATen's or of prims'."""
    target = node.target
    is_operator = node.op == "call_function" and isinstance(target, torch._ops.OpOverload)
    return name_of_operator(target) if is_operator else ""


def name_of_operator(operator: Any) -> str:
    """Of one of PyTorch's operators; ATen's without their space."""
    return str(operator).removeprefix("aten.")


class Context:
    """The graph that is being made, and the node that is being lowered.

    Args:
        names: of the inputs that something reads; ``None``: that is not known yet.
    """

    def __init__(self, graph: Graph, names: Collection[str] | None = None) -> None:
        self.graph = graph
        self.result: Any = None
        self.node: Node | None = None
        self.numbers: list[OpenNumber] = []  # those that are not known before a run, which uploads them
        self._names = names
        self._tensors: list[tuple[Any, Expression]] = []  # of open numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._first.shape)

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = self._first.dtype
        return found

    @property
    def data_type(self) -> DataType:
        return DATA_TYPES[self.dtype]

    @property
    def _first(self) -> Any:
        return self.result[0] if isinstance(self.result, (tuple, list)) else self.result

    def tensor(self, value: Any, data_type: DataType | None = None) -> Expression:
        """An operand: an expression in another data type, or a number as a constant."""
        wanted = self.data_type if data_type is None else data_type
        if isinstance(value, Expression):
            return self.cast(value, wanted)
        if is_dynamic(value):
            return self.cast(self.open_number(value, value, DataType.INT64), wanted)
        if isinstance(value, bool):
            value = int(value)
        try:
            return self.graph.constant(value, wanted)
        except InvalidArgumentError as error:
            raise NotLowered(str(error)) from error

    def operands(self, *values: Any) -> list[Expression]:
        """Operands of one operation.

        With a number that FLOAT16 does not have beside it, FLOAT16 is FLOAT32, in which PyTorch computes with numbers.
        """
        has_wide = self.dtype is torch.float16 and not all(map(_is_float16, values))
        return [self.tensor(value, DataType.FLOAT32 if has_wide else None) for value in values]

    def stored(self, value: Any) -> Any:
        """A number as PyTorch stores it in the result's type, which cuts fractions off for integers.

        Raises:
            NotLowered: the type has no such number.
        """
        if isinstance(value, Expression) or is_dynamic(value):
            return value
        if self.dtype is torch.bool:
            return int(bool(value))
        if self.dtype is torch.bfloat16:
            with _disable_current_modes():  # else a trace's tensors have no elements
                return float(torch.tensor(float(value), dtype=torch.bfloat16, device="cpu"))
        if self.dtype.is_floating_point:
            return value
        if not math.isfinite(value):
            raise NotLowered(f"{self.dtype} has no {value}")
        return math.trunc(value)

    def narrow(self, value: Any) -> Expression:
        """As :meth:`tensor`; in bfloat16 as a number of that, which PyTorch's sums and remainders make of scalars."""
        if self.dtype is not torch.bfloat16 or is_dynamic(value):
            return self.tensor(value)
        if not isinstance(value, Expression):
            return self.tensor(self.stored(value))
        operands = () if self.node is None else self.node.all_input_nodes
        are_narrow = all(getattr(operand.meta["val"], "dtype", None) is torch.bfloat16 for operand in operands)
        return self.tensor(value) if are_narrow else rounded_to_bfloat16(self.tensor(value))

    def is_read(self, number: int) -> bool:
        users = () if self.node is None else self.node.users
        return any(user.args[1:] == (number,) or getattr(user.target, "__name__", "") != "getitem" for user in users)

    def open_number(self, key: object, number: OpenNumber, data_type: DataType) -> Expression:
        """A number that is not known before a run, as a tensor of one element; the same one for the same key."""
        found = next((tensor for known, tensor in self._tensors if known is key), None)
        if found is None:
            name = f"{_NUMBER}{len(self.numbers)}"
            if self._names is None or name in self._names:
                found = self.graph.input(name, data_type, (1,))
            else:
                found = self.graph.constant(0, data_type)
            self.numbers.append(number)
            self._tensors.append((key, found))
        return found

    def plain(self, value: Any) -> float:
        """A number that goes into the operator itself.

        Raises:
            NotLowered: when it is not known before a run.
        """
        if isinstance(value, Expression):
            raise NotLowered(
                "a number that is not known before a run, in the place of one that is part of the operator"
            )
        return float(value)

    def cast(self, value: Expression, data_type: DataType) -> Expression:
        return value if value.data_type is data_type else F.cast(value, output_data_type=data_type)

    def truth(self, value: Expression) -> Expression:
        """1 where a value is not 0, else 0, as UINT8."""
        return value if value.is_truth else F.not_equal(value, self.graph.constant(0, value.data_type))

    def reshaped(self, value: Expression, shape: Sequence[int]) -> Expression:
        """The same elements in another shape, copied where strides cannot say it."""
        wanted = tuple(shape) or (1,)
        if value.sizes == wanted:
            return value
        try:
            return value.reshape(wanted)
        except InvalidArgumentError:
            return F.identity(value).reshape(wanted)


def _is_float16(value: Any) -> bool:
    """Whether it is no number, or one of FLOAT16."""
    if isinstance(value, Expression) or is_dynamic(value) or value != value:
        return True
    with np.errstate(over="ignore"):  # infinity is another number
        return float(np.float16(value)) == value


def is_number(value: Any, wanted: float) -> bool:
    return not isinstance(value, Expression) and bool(value == wanted)


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes from 0 on; all of them for ``None`` or none."""
    if dims is None or dims == []:
        return list(range(max(rank, 1)))
    given: Sequence[int] = [dims] if isinstance(dims, int) else dims
    return sorted({axis_of(axis, rank) for axis in given})


def axis_of(dim: int, rank: int) -> int:
    """An axis from 0 on.

    Raises:
        NotLowered: when there is none: PyTorch's own function, which the node is left to, says so.
    """
    rank = max(rank, 1)
    if not -rank <= dim < rank:
        raise NotLowered(f"axis {dim} of {rank}")
    return int(dim) % rank


def with_equal_zeros(x: Expression) -> Expression:
    """The same numbers with +0 for -0: equal for PyTorch where places are sought, and not for DirectML."""
    if x.data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        return x
    zero = x.graph.constant(0, x.data_type)
    return F.if_(F.logical_equals(x, zero), zero, x)


def reduced(x: Expression, *, function: ReduceFunction, axes: Sequence[int]) -> Expression:
    """REDUCE to the same data type; axes stay with a size of 1."""
    return F.reduce(x, function=function, axes=list(axes), output_data_type=x.data_type)


@dataclasses.dataclass(frozen=True)
class OpenArgument:
    """An input that is a number, not known before a run."""

    number: OpenNumber


@dataclasses.dataclass(frozen=True)
class DescribedModule:
    """A module as a graph of DirectML's operators."""

    graph: Graph  # that builds it
    outputs: dict[str, Expression]  # by their names, ``output 0`` and so on; those that are no tensors are left out
    # which of the module's arguments its inputs are, or which numbers that a run uploads; those on which no output
    # depends are left out
    arguments: list[int | OpenArgument]


def described(module: GraphModule, device: Device, sizes: Sizes = PLAIN) -> DescribedModule:
    """A module whose nodes all have a lowering, as a graph.

    Args:
        sizes: what stands for sizes that are open.

    Raises:
        NotLowered: with the node that cannot be computed.
    """
    context, outputs = _graph_of(module, device, None, sizes)
    names = context.graph.inputs_of(outputs.values())
    if len(names) < context.graph.input_count:  # an argument that only results need which nobody reads
        context, outputs = _graph_of(module, device, set(names), sizes)

    def argument(name: str) -> int | OpenArgument:
        if name.startswith(_INPUT):
            return int(name.removeprefix(_INPUT))
        return OpenArgument(context.numbers[int(name.removeprefix(_NUMBER))])

    return DescribedModule(context.graph, outputs, [argument(name) for name in names])


def _graph_of(
    module: GraphModule, device: Device, names: set[str] | None, sizes: Sizes
) -> tuple[Context, dict[str, Expression]]:
    """The graph and its outputs; of the inputs only those of these names are there, others are constants."""
    graph = Graph(device)
    context = Context(graph, names)

    def operand(index: int, example: Shown) -> Expression:
        name, data_type, shape = f"{_INPUT}{index}", DATA_TYPES[example.dtype], example.shape or (1,)
        if names is None or name in names:
            return graph.input(name, data_type, shape)
        return graph.constant(0, data_type).broadcast_to(shape)

    return context, outputs_of(context, module, operand, sizes)


def outputs_of(
    context: Context, module: GraphModule, operand: Callable[[int, Shown], Expression], sizes: Sizes = PLAIN
) -> dict[str, Expression]:
    """The outputs of a module whose nodes all have a lowering, by their names, ``output 0`` and so on.

    Args:
        context: of the graph to which they are added.
        operand: gives what an argument that is a tensor is, by its place and what is known of it.
        sizes: what stands for sizes that are open.

    Raises:
        NotLowered: with the node that cannot be computed.
    """
    values: dict[Node, Any] = {}
    outputs: dict[str, Expression] = {}
    index = 0
    for node in module.graph.nodes:
        example = sizes.shown(node.meta.get("val"))
        if node.op == "placeholder":
            if isinstance(example, Shown) and node.users:
                values[node] = operand(index, example)
                values[node].is_truth = example.dtype is torch.bool
            elif isinstance(example, torch.SymFloat):
                values[node] = _open_float(context, example, index)
            elif not isinstance(example, Shown):
                values[node] = example
            index += 1
        elif node.op == "output":
            given = node.args[0] if isinstance(node.args[0], (tuple, list)) else node.args
            for number, item in enumerate(given):
                is_number = isinstance(item, Node) and isinstance(item.meta.get("val"), torch.SymFloat)
                if isinstance(item, Node) and not is_number and isinstance(values[item], Expression):
                    outputs[f"output {number}"] = values[item]
        elif isinstance(node.meta.get("val"), torch.SymInt):
            values[node] = example
        elif isinstance(example, torch.SymFloat):
            values[node] = _open_float(context, example)
        else:
            values[node] = _value(context, node, values, example)
    return outputs


def _open_float(context: Context, example: torch.SymFloat, argument: int | None = None) -> Expression:
    number = OpenFloat(terms_of(example), argument)
    return context.open_number(number, number, DataType.FLOAT32)


def _value(context: Context, node: Node, values: Mapping[Node, Any], example: Any) -> Any:
    """What a node gives, of the shape and type that PyTorch says."""

    def known(item: Node) -> Any:
        return values[item]

    arguments = torch.fx.map_arg(node.args, known)
    named = torch.fx.map_arg(node.kwargs, known)
    if getattr(node.target, "__name__", "") == "getitem" and node.op == "call_function":
        return arguments[0][arguments[1]]
    context.result = example
    context.node = node
    try:
        made = LOWERINGS[name_of(node)](context, *arguments, **named)
        if isinstance(made, tuple):
            return tuple(
                None if one is None or like is None or 0 in like.shape else _fitting(context, one, like)
                for one, like in zip(made, example, strict=False)
            )
        return _fitting(context, made, example)
    except NotLowered as error:
        error.node = node
        raise
    except DeviceRemovedError:
        raise
    except Exception as error:
        if not isinstance(error, (DmlError, NoNumber)):
            faults.report(error, f"lowering {name_of(node)}")
        refusal = NotLowered(f"{type(error).__name__}: {error}")
        refusal.node = node
        raise refusal from error


def _fitting(context: Context, value: Expression, example: Shown) -> Expression:
    made = context.cast(value, DATA_TYPES[example.dtype])
    if example.dtype is torch.bfloat16 and not _chooses_bfloat16(context.node):
        made = rounded_to_bfloat16(made)
    shape = example.shape or (1,)
    if made.sizes != shape:
        made = context.reshaped(made, shape)
    return made


def rounded_to_bfloat16(x: Expression) -> Expression:
    """FLOAT32 as PyTorch stores it in bfloat16: the nearest number of 8 significant bits, ties to even."""
    return x.graph.apply("ELEMENT_WISE_ROUND_BFLOAT16", {"input_tensor": x})


def _chooses_bfloat16(node: Node | None) -> bool:
    """Whether a node gives nothing but elements of operands that are of bfloat16 already."""
    if node is None or name_of(node) not in _CHOOSING:
        return False
    examples = [operand.meta.get("val") for operand in node.all_input_nodes]
    floats = [item for item in examples if isinstance(item, torch.Tensor) and item.dtype not in _PLACES]
    return bool(floats) and all(item.dtype is torch.bfloat16 for item in floats)


_PLACES = (torch.int64, torch.int32, torch.bool)  # Types of what says which elements are chosen


def has_lowering(node: Node) -> bool:
    """Whether the table has a node, and the device the types of its operands and results."""
    if node.op != "call_function" or any(depends_on_data(one.meta.get("val")) for one in (node, *node.all_input_nodes)):
        return False
    if isinstance(node.meta.get("val"), torch.SymFloat):
        return all(symbol.is_integer for symbol in terms_of(node.meta["val"]).free_symbols)  # follows from open sizes
    if isinstance(node.meta.get("val"), torch.SymInt):  # follows from open sizes
        return all(not isinstance(operand.meta.get("val"), torch.SymFloat) for operand in node.all_input_nodes)
    is_item = getattr(node.target, "__name__", "") == "getitem"
    if not is_item and name_of(node) not in LOWERINGS:
        return False
    listed = _results_used(node)
    if is_item:
        source = node.args[0]
        return isinstance(source, Node) and has_lowering(source)
    operands = [operand.meta.get("val") for operand in node.all_input_nodes]
    flat = [item for value in operands for item in (value if isinstance(value, (tuple, list)) else [value])]
    used = [item for item in listed if item is not None]
    return (
        bool(used)
        and all(isinstance(item, torch.Tensor) for item in used)
        and all(is_on_device(item) for item in [*used, *flat])
    )


def _results_used(node: Node) -> list[Any]:
    """Examples of those of a node's results that something reads."""
    results = node.meta.get("val")
    if not isinstance(results, (tuple, list)):
        return [results]
    indices = [user.args[1] for user in node.users if getattr(user.target, "__name__", "") == "getitem"]
    return [results[index] for index in indices if isinstance(index, int)]
