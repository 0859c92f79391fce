"""What computes an operator for operands of some shapes and types: its nodes, by the table of ``torch.compile``.

An operator is traced once for each form of its arguments, as AOTAutograd traces it, taken apart by the same functions,
and lowered by the same table. Floating-point numbers among the arguments are part of the graph when they are met first.
When an operator comes again with another number, its numbers become inputs, so that no other graph is needed for them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from dmlvk.array_api.lazy import Operation
from dmlvk.arrays.values import Shape
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression
from dmlvk.torch import operators
from dmlvk.torch.decompositions import decompositions
from dmlvk.torch.device.geometry import flattened
from dmlvk.torch.device.tensors import Form, form_of
from dmlvk.torch.empties import EMPTIES
from dmlvk.torch.lowering import (
    LOWERINGS,
    Context,
    NotLowered,
    described,
    has_lowering,
    name_of,
    name_of_operator,
    outputs_of,
)
from dmlvk.torch.modes import without_gradients
from dmlvk.torch.sizes import Shown
from dmlvk.torch.support import NOT_LOWERED
from dmlvk.torch.types import DATA_TYPES, is_on_device

if TYPE_CHECKING:
    from dmlvk.device import Device

assert operators  # importing it registers the lowerings

_SENTINELS = (
    (0.7310585786300049, 0.2689414213699951),
    (1.3132616875182228, 0.6931471805599453),
    (-1.6094379124341003, -0.5772156649015329),
)
"""Numbers that no decomposition has: traces with others tell what follows from a number. Some refuse the last ones."""

_CONSTANTS = frozenset((0.0, 0.5, 1.0, 2.0, -0.5, -1.0, -2.0, math.inf, -math.inf))
"""Numbers for which operators may compute otherwise: they are no operands."""

_PYTORCH_LOG = logging.getLogger("torch._subclasses.fake_tensor")
_PACKAGE = str(Path(__file__).parents[2])

_OF_SOME = ("max.dim", "min.dim", "argmax.default", "argmin.default", "median.dim", "mode.default", "aminmax.default")
"""Those that give an element of those along an axis."""

_OF_STATISTICS = ("native_layer_norm.default", "_native_batch_norm_legit_functional.default")
"""Whose second and third result are FLOAT32 on devices, and have the operand's type on the CPU that traces know."""

_MOST_KNOWN = 64  # Sets of numbers that are found at once

_MOST_NUMBERS = 8  # Sets of numbers for which an operator has graphs of its own, where they cannot be inputs


@dataclasses.dataclass(frozen=True)
class TensorForm:
    """What a trace knows of a tensor among the arguments."""

    place: int  # its number among the tensors
    shape: Shape  # its sizes
    strides: Shape  # in elements
    dtype: torch.dtype  # its type


@dataclasses.dataclass(frozen=True)
class NumberForm:
    """A floating-point number among the arguments, by its place among those."""

    place: int


@dataclasses.dataclass(frozen=True)
class Result:
    """What an operator gives: a tensor of this type and form."""

    dtype: torch.dtype  # PyTorch's type
    data_type: DataType  # the device's
    shape: Shape  # its sizes
    strides: Shape | None  # in elements; ``None``: in row-major order
    operation: Operation | None  # that computes it; ``None``: it has no elements


class Recipe:
    """An operator for arguments of one form.

    Args:
        module: its nodes, each with a lowering, of placeholders for tensors and then for numbers.
        device: on which it must be computable.

    Raises:
        NotLowered: the device does not compute it.
    """

    def __init__(self, module: GraphModule, device: Device) -> None:
        self._module = module
        output = next(iter(reversed(module.graph.nodes)))
        given = output.args[0]
        self.is_single = isinstance(given, Node)  # whether it gives one tensor instead of a tuple
        nodes = [given] if isinstance(given, Node) else given
        # what it gives; ``None`` where PyTorch gives none
        self.results = [self._result(number, node) for number, node in enumerate(nodes)]
        self.only = self._only()  # as what is computed, and of which form, if it gives one tensor in row-major order
        is_computed = [result is not None and result.operation is not None for result in self.results]
        if not self.is_single:
            output.args = (tuple(node if one else None for node, one in zip(nodes, is_computed, strict=True)),)
        module.graph.eliminate_dead_code()  # such as indices without elements
        if any(is_computed):
            for node in module.graph.nodes:
                if node.op not in ("placeholder", "output") and not has_lowering(node):
                    raise NotLowered(_why_not(node))
            described(module, device)
        names = {name_of(node).partition(".")[0] for node in module.graph.nodes}
        # whether it has a product, a convolution or something else that a graph begins with
        self.is_product = not names.isdisjoint(("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"))

    def _result(self, number: int, node: Any) -> Result | None:
        if node is None:
            return None
        if not isinstance(node, Node):
            raise NotLowered("its results are lists of tensors")
        example = node.meta["val"]
        if not isinstance(example, torch.Tensor):
            raise NotLowered("its result is no tensor")
        if example.dtype not in DATA_TYPES:
            raise NotLowered(f"the device has no {example.dtype}")
        shape, strides = tuple(example.shape), tuple(example.stride())
        lies = None if example.is_contiguous() or flattened(shape, strides) is None else strides
        operation = Operation(self, number=number) if example.numel() else None
        return Result(example.dtype, DATA_TYPES[example.dtype], shape, lies, operation)

    def _only(self) -> tuple[DataType, Operation, Form] | None:
        result = self.results[0] if self.is_single else None
        if result is None or result.operation is None or result.strides is not None:
            return None
        return result.data_type, result.operation, form_of(result.shape, result.dtype)

    def __call__(self, *operands: Any) -> tuple[Expression | None, ...]:
        """Its results, of tensors and numbers, or of the graph where there are none."""
        graph: Graph = operands[0] if isinstance(operands[0], Graph) else operands[0].graph

        def operand(index: int, _: Shown) -> Expression:
            value: Expression = operands[index]
            return value

        outputs = outputs_of(Context(graph), self._module, operand)
        return tuple([outputs.get(f"output {number}") for number in range(len(self.results))])


def _why_not(node: Node) -> str:
    name = name_of(node) or str(node.target)
    if has_type_problem(node):
        return f"{name}: the device lacks its data types, or has no such tensors"
    return f"{name}: {NOT_LOWERED.get(name, 'it has no lowering')}"


def has_type_problem(node: Node) -> bool:
    """Whether an operand or result of a node is none of the device's."""
    listed = [node.meta.get("val"), *(operand.meta.get("val") for operand in node.all_input_nodes)]
    flat = [item for value in listed for item in (value if isinstance(value, (tuple, list)) else [value])]
    return any(isinstance(item, torch.Tensor) and not is_on_device(item) for item in flat)


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    return decompositions()


def _nodes(operator: Any, tensors: Sequence[TensorForm], arguments: Any, numbers: Sequence[float]) -> GraphModule:
    """As :func:`traced`, of an operator that the table has, with placeholders for its numbers, too."""
    graph = torch.fx.Graph()
    given: dict[Any, Node] = {one: graph.placeholder(f"tensor_{one.place}") for one in tensors}
    given |= {NumberForm(place): graph.placeholder(f"number_{place}") for place in range(len(numbers))}

    def filled(values: Mapping[Any, Any]) -> Any:
        return tree_map(lambda form: values[form] if isinstance(form, TensorForm | NumberForm) else form, arguments)

    with _faking():
        examples = {one: torch.empty_strided(one.shape, one.strides, dtype=one.dtype, device="cpu") for one in tensors}
        plain = examples | {NumberForm(place): value for place, value in enumerate(numbers)}
        positional, named = filled(plain)
        result = operator(*positional, **named)
        if name_of_operator(operator) in _OF_STATISTICS:
            result = result[0], *(one.float() for one in result[1:3]), *result[3:]
        number = torch.empty((), dtype=torch.float32, device="cpu") if numbers else None
    for form, placeholder in given.items():
        placeholder.meta["val"] = examples.get(form, number)
    positional, named = filled(given)
    node = graph.call_function(operator, tuple(positional), named)
    node.meta["val"] = result
    if isinstance(result, torch.Tensor):
        graph.output(node)
        return GraphModule({}, graph)
    parts = []
    for place, example in enumerate(result):
        part = graph.call_function(getitem, (node, place))
        part.meta["val"] = example
        parts.append(part if isinstance(example, torch.Tensor) else None)
    graph.output(tuple(parts))
    return GraphModule({}, graph)


@contextlib.contextmanager
def _faking() -> Iterator[None]:
    """For traces: nothing of what the program has switched on, and tensors without elements.

    PyTorch logs whatever a trace raises; who called the operator gets it from the CPU, once.

    Raises:
        NotLowered: PyTorch refuses the arguments, computes something from data, or has no shapes for the results.
    """
    was_disabled, _PYTORCH_LOG.disabled = _PYTORCH_LOG.disabled, True
    try:
        with _disable_current_modes(), torch._C._DisableAutocast(), without_gradients(), FakeTensorMode():
            yield
    except Exception as error:
        raise NotLowered(f"its results cannot be told from shapes: {type(error).__name__}") from error
    finally:
        _PYTORCH_LOG.disabled = was_disabled


def fault_of(refusal: NotLowered) -> Exception | None:
    """What a decomposition of dmlvk's raised and should not have, where that is why there is no trace.

    Arguments that PyTorch refuses raise likewise: then its CPU refuses them, too.
    """
    cause = refusal.__cause__
    if not isinstance(cause, Exception) or isinstance(cause, (RuntimeError, NotImplementedError, DmlError)):
        return None
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(cause.__traceback__)]
    is_own = any(file.startswith(_PACKAGE) and file != __file__ for file in files)
    return cause if is_own else None


def traced(operator: Any, tensors: Sequence[TensorForm], arguments: Any, numbers: Sequence[float]) -> GraphModule:
    """An operator's nodes.

    Args:
        tensors: the forms of the tensors among its arguments.
        arguments: positional and named ones, with :class:`TensorForm` and :class:`NumberForm` in their places.
        numbers: what stands for the latter.
    """

    def call(*given: torch.Tensor) -> Any:
        def filled(form: Any) -> Any:
            if isinstance(form, TensorForm):
                return given[form.place]
            return numbers[form.place] if isinstance(form, NumberForm) else form

        positional, named = tree_map(filled, arguments)
        return operator(*positional, **named)

    with _faking():
        fakes = [torch.empty_strided(one.shape, one.strides, dtype=one.dtype, device="cpu") for one in tensors]
        if any(0 in one.shape for one in tensors):  # of which decompositions check little
            call(*fakes)
        made: GraphModule = make_fx(call, decomposition_table=_decompositions())(*fakes)
    return made


def _check_axis(operator: Any, tensors: Sequence[TensorForm], arguments: Any) -> None:
    """Leaves an axis that there is not, or that has no largest element, to the CPU, which refuses it.

    Args:
        tensors: the operands, of which the first has it; of a list the one with most axes.

    Raises:
        NotLowered: it is such an axis.
    """
    is_list = bool(arguments[0]) and isinstance(arguments[0][0], list)
    shape = max((one.shape for one in tensors), key=len) if is_list else tensors[0].shape
    rank = max(len(shape), 1)
    for declared, axis in zip(operator._schema.arguments, arguments[0], strict=False):
        if declared.name != "dim" or not isinstance(axis, int):
            continue
        if not -rank <= axis < rank:
            raise NotLowered(f"axis {axis} of {rank}")
        if name_of_operator(operator) in _OF_SOME and shape and not shape[axis]:
            raise NotLowered(f"nothing along axis {axis}")


class Family:
    """An operator for arguments that are alike but for their numbers.

    Args:
        operator: PyTorch's, which changes nothing.
        tensors: the forms of the tensors among its arguments.
    """

    def __init__(self, operator: Any, tensors: Sequence[TensorForm], arguments: Any) -> None:
        self._operator, self._tensors, self._arguments = operator, tensors, arguments
        self._exact: dict[tuple[str, ...], Recipe | str] = {}  # or why there is none
        self._of_all: dict[tuple[str | None, ...], Recipe | None] = {}  # by those that are no operands
        self._known: dict[tuple[float, ...], tuple[Recipe, bool]] = {}  # what :meth:`recipe` gave
        has_empties = self._has_empties = any(0 in one.shape for one in tensors)
        is_whole = operator not in _decompositions() or (operator in EMPTIES and not has_empties)
        self._is_single = name_of_operator(operator) in LOWERINGS and is_whole
        floats = [one.dtype for one in tensors if one.dtype.is_floating_point]
        dtype = arguments[1].get("dtype")  # integers and truths of a number are made of the number itself
        has_floats = not isinstance(dtype, torch.dtype) or dtype.is_floating_point
        self._takes_numbers = bool(floats) and has_floats
        self._is_wide = all(dtype is torch.float32 for dtype in floats)

    def recipe(self, numbers: tuple[float, ...], device: Device) -> tuple[Recipe, bool]:
        """What computes it for these numbers, and whether these are operands.

        Raises:
            NotLowered: the device does not compute it.
        """
        known = self._known.get(numbers)
        if known is None:
            with compile_lock:  # PyTorch's traces have global state
                known = self._recipe(numbers, device)
            if all(numbers):  # -0 equals 0
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[numbers] = known
        return known

    def _recipe(self, numbers: tuple[float, ...], device: Device) -> tuple[Recipe, bool]:
        constants = tuple([repr(one) if one in _CONSTANTS or one != one else None for one in numbers])
        of_all = self._of_all.get(constants)
        if of_all is not None:
            return of_all, True
        key = tuple(map(repr, numbers))
        known = self._exact.get(key)
        if isinstance(known, str):
            raise NotLowered(known)
        if known is not None:
            return known, False
        if self._exact and self._takes_numbers and None in constants and constants not in self._of_all:
            places = {place: number for place, number in enumerate(numbers) if constants[place] is not None}
            self._known.clear()
            of_all = self._of_all[constants] = self._with_numbers(len(numbers), places, device)
            if of_all is not None:
                return of_all, True
        if len(self._exact) >= _MOST_NUMBERS:
            self._exact.pop(next(iter(self._exact)))
        try:
            made = self._exact[key] = Recipe(self._module(numbers), device)
        except NotLowered as reason:
            self._exact[key] = str(reason)
            raise
        return made, False

    def _module(self, numbers: tuple[float, ...]) -> GraphModule:
        if self._has_empties and isinstance(self._operator, torch._ops.OpOverload):
            _check_axis(self._operator, self._tensors, self._arguments)
        if not self._is_single:
            return traced(self._operator, self._tensors, self._arguments, numbers)
        arguments = tree_map(
            lambda form: numbers[form.place] if isinstance(form, NumberForm) else form, self._arguments
        )
        return _nodes(self._operator, self._tensors, arguments, ())

    def _with_numbers(self, count: int, constants: Mapping[int, float], device: Device) -> Recipe | None:
        """Takes numbers as operands, but for constants by their places; ``None``: what is computed depends on them."""
        arguments = tree_map(
            lambda form: constants.get(form.place, form) if isinstance(form, NumberForm) else form, self._arguments
        )
        if self._is_single:
            if not self._is_wide:
                return None
            try:
                return Recipe(_nodes(self._operator, self._tensors, arguments, _SENTINELS[0][:1] * count), device)
            except NotLowered:
                return None
        if count > len(_SENTINELS[0]):
            return None
        traces = []
        for numbers in _SENTINELS:
            try:
                traces.append(traced(self._operator, self._tensors, arguments, numbers))
            except NotLowered:
                break
        if len(traces) < 2:
            return None
        first, *others = traces
        nodes = list(first.graph.nodes)
        if any([str(node) for node in nodes] != [str(node) for node in other.graph.nodes] for other in others):
            return None
        placeholders: dict[int, Node] = {}
        last = [node for node in nodes if node.op == "placeholder"][-1]
        for number in range(count):
            with first.graph.inserting_after(last):
                last = placeholders[number] = first.graph.placeholder(f"number_{number}")
                last.meta["val"] = torch.empty((), dtype=torch.float32, device="cpu")
        alike = zip(nodes, *(other.graph.nodes for other in others), strict=True)
        if not all(_take_numbers(each, placeholders) for each in alike):
            return None
        users = [user for placeholder in placeholders.values() for user in placeholder.users]
        if not self._is_wide and any(getattr(user.meta["val"], "dtype", None) is not torch.float32 for user in users):
            return None  # beside shorter types constants are rounded to these; what gives several results may do so
        try:
            return Recipe(first, device)
        except NotLowered:
            return None


def _take_numbers(nodes: Sequence[Node], placeholders: dict[int, Node]) -> bool:
    """Puts placeholders for numbers that are not the same in all traces; whether those are the arguments' own."""

    def same(*values: Any) -> Any:
        first = values[0]
        if isinstance(first, Node):
            return first
        if isinstance(first, (tuple, list)):
            if any(len(value) != len(first) for value in values):
                raise LookupError
            return type(first)(map(same, *values))
        if all(type(value) is type(first) and value == first for value in values):
            return first
        place = next((n for n, each in enumerate(zip(*_SENTINELS, strict=True)) if each[: len(values)] == values), None)
        if place is None:
            raise LookupError
        return placeholders[place]

    node, *others = nodes
    if node.op == "call_function" and any(node.target != other.target for other in others):
        return False
    try:
        node.args = tuple(map(same, *(each.args for each in nodes)))
        node.kwargs = {name: same(*(each.kwargs[name] for each in nodes)) for name in node.kwargs}
    except LookupError:
        return False
    return True
