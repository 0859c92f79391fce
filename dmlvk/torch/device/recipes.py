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
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
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
from dmlvk.torch.sizes import Shown
from dmlvk.torch.support import NOT_LOWERED
from dmlvk.torch.types import DATA_TYPES, is_on_device

if TYPE_CHECKING:
    from dmlvk.device import Device

assert operators  # importing it registers the lowerings

_SENTINELS = (0.7310585786300049, 0.2689414213699951), (1.3132616875182228, 0.6931471805599453)
"""Numbers that no decomposition has: two traces with others tell what follows from a number."""

_PYTORCH_LOG = logging.getLogger("torch._subclasses.fake_tensor")
_PACKAGE = str(Path(__file__).parents[2])

_MOST_NUMBERS = 8
"""Sets of numbers for which an operator has graphs of its own, where they cannot be inputs."""


@dataclasses.dataclass(frozen=True)
class TensorForm:
    """What a trace knows of a tensor among the arguments.

    Attributes:
        place: its number among the tensors.
        shape: its sizes.
        strides: in elements.
        dtype: its type.
    """

    place: int
    shape: Shape
    strides: Shape
    dtype: torch.dtype


@dataclasses.dataclass(frozen=True)
class NumberForm:
    """A floating-point number among the arguments, by its place among those."""

    place: int


@dataclasses.dataclass(frozen=True)
class Result:
    """What an operator gives: a tensor of this type and form.

    Attributes:
        dtype: PyTorch's type.
        data_type: the device's.
        shape: its sizes.
        strides: in elements; ``None``: in row-major order.
        operation: that computes it; ``None``: it has no elements.
    """

    dtype: torch.dtype
    data_type: DataType
    shape: Shape
    strides: Shape | None
    operation: Operation | None


class Recipe:
    """An operator for arguments of one form.

    Args:
        module: its nodes, each with a lowering, of placeholders for tensors and then for numbers.
        device: on which it must be computable.

    Attributes:
        results: what it gives; ``None`` where PyTorch gives none.
        is_single: whether it gives one tensor instead of a tuple.
        is_product: whether it has a product, a convolution or something else that a graph begins with.

    Raises:
        NotLowered: the device does not compute it.
    """

    def __init__(self, module: GraphModule, device: Device) -> None:
        self._module = module
        given = next(iter(reversed(module.graph.nodes))).args[0]
        self.is_single = isinstance(given, Node)
        nodes = [given] if isinstance(given, Node) else given
        self.results = [self._result(number, node) for number, node in enumerate(nodes)]
        if any(result is not None and result.operation is not None for result in self.results):
            for node in module.graph.nodes:
                if node.op not in ("placeholder", "output") and not has_lowering(node):
                    raise NotLowered(_why_not(node))
            described(module, device)
        names = {name_of(node).partition(".")[0] for node in module.graph.nodes}
        self.is_product = not names.isdisjoint(("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"))

    def _result(self, number: int, node: Node | None) -> Result | None:
        if node is None:
            return None
        example = node.meta["val"]
        if not isinstance(example, torch.Tensor):
            raise NotLowered("its result is no tensor")
        if example.dtype not in DATA_TYPES:
            raise NotLowered(f"the device has no {example.dtype}")
        shape, strides = tuple(example.shape), tuple(example.stride())
        lies = None if example.is_contiguous() or flattened(shape, strides) is None else strides
        operation = Operation(self, (number,), is_elementwise=True) if example.numel() else None
        return Result(example.dtype, DATA_TYPES[example.dtype], shape, lies, operation)

    def __call__(self, graph: Graph, *operands: Any) -> Expression:
        """One of the results.

        Args:
            graph: where it is computed.
            operands: tensors and numbers, and which result is meant.
        """

        def operand(index: int, _: Shown) -> Expression:
            value: Expression = operands[index]
            return value

        return outputs_of(Context(graph), self._module, operand)[f"output {operands[-1]}"]


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
        with _disable_current_modes(), torch._C._DisableAutocast(), torch.no_grad(), FakeTensorMode():
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


def traced(
    operator: Callable[..., Any], tensors: Sequence[TensorForm], arguments: Any, numbers: Sequence[float]
) -> GraphModule:
    """An operator's nodes.

    Args:
        operator: to be called.
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
        made: GraphModule = make_fx(call, decomposition_table=_decompositions())(*fakes)
    return made


class Family:
    """An operator for arguments that are alike but for their numbers.

    Args:
        operator: PyTorch's, which changes nothing.
        tensors: the forms of the tensors among its arguments.
        arguments: as :func:`traced` takes them.
    """

    def __init__(self, operator: Any, tensors: Sequence[TensorForm], arguments: Any) -> None:
        self._operator, self._tensors, self._arguments = operator, tensors, arguments
        self._exact: dict[tuple[str, ...], Recipe] = {}
        self._of_all: Recipe | None = None
        self._is_single = name_of_operator(operator) in LOWERINGS and operator not in _decompositions()
        self._is_tried = not all(one.dtype is torch.float32 for one in tensors if one.dtype.is_floating_point)

    def recipe(self, numbers: tuple[float, ...], device: Device) -> tuple[Recipe, bool]:
        """What computes it for these numbers, and whether these are operands.

        Raises:
            NotLowered: the device does not compute it.
        """
        if self._of_all is not None:
            return self._of_all, True
        key = tuple(map(repr, numbers))
        known = self._exact.get(key)
        if known is not None:
            return known, False
        if self._exact and not self._is_tried:
            self._is_tried = True
            self._of_all = self._with_numbers(len(numbers), device)
            if self._of_all is not None:
                return self._of_all, True
        if len(self._exact) >= _MOST_NUMBERS:
            self._exact.pop(next(iter(self._exact)))
        if self._is_single:
            arguments = tree_map(
                lambda form: numbers[form.place] if isinstance(form, NumberForm) else form, self._arguments
            )
            module = _nodes(self._operator, self._tensors, arguments, ())
        else:
            module = traced(self._operator, self._tensors, self._arguments, numbers)
        made = self._exact[key] = Recipe(module, device)
        return made, False

    def _with_numbers(self, count: int, device: Device) -> Recipe | None:
        """Takes numbers as operands; ``None``: what is computed depends on them otherwise."""
        if not self._tensors:
            return None
        if self._is_single:
            try:
                return Recipe(_nodes(self._operator, self._tensors, self._arguments, _SENTINELS[0][:1] * count), device)
            except NotLowered:
                return None
        if count > len(_SENTINELS[0]):
            return None
        first, second = (traced(self._operator, self._tensors, self._arguments, sentinels) for sentinels in _SENTINELS)
        nodes = list(first.graph.nodes)
        if [str(node) for node in nodes] != [str(node) for node in second.graph.nodes]:
            return None
        placeholders: dict[int, Node] = {}
        last = [node for node in nodes if node.op == "placeholder"][-1]
        for number in range(count):
            with first.graph.inserting_after(last):
                last = placeholders[number] = first.graph.placeholder(f"number_{number}")
                last.meta["val"] = torch.empty((), dtype=torch.float32, device="cpu")
        if not all(_take_numbers(*pair, placeholders) for pair in zip(nodes, second.graph.nodes, strict=True)):
            return None
        try:
            return Recipe(first, device)
        except NotLowered:
            return None


def _take_numbers(node: Node, other: Node, placeholders: dict[int, Node]) -> bool:
    """Puts placeholders for numbers that are not the same in two traces; whether those are the arguments' own."""

    def same(a: Any, b: Any) -> Any:
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            return type(a)(same(x, y) for x, y in zip(a, b, strict=True))
        if not isinstance(a, float) or not isinstance(b, float) or a == b:
            return a
        place = next((n for n, pair in enumerate(zip(*_SENTINELS, strict=True)) if pair == (a, b)), None)
        if place is None:
            raise LookupError
        return placeholders[place]

    if node.target != other.target and node.op == "call_function":
        return False
    try:
        node.args = tuple(same(a, b) for a, b in zip(node.args, other.args, strict=True))
        node.kwargs = {name: same(value, other.kwargs[name]) for name, value in node.kwargs.items()}
    except LookupError:
        return False
    return True


__all__ = ["Family", "NumberForm", "Recipe", "Result", "TensorForm", "traced"]
