"""What can be mapped over blocks: models, asked for the shapes that they give without any device, and run on one."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from dask.base import tokenize

from dmlvk.datatypes import DataType
from dmlvk.device import Device
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.compiled import CompiledGraph, GraphOrigin
from dmlvk.graphs.description import GraphDesc
from dmlvk.graphs.expression import Expression
from dmlvk.objects.compilation import CompiledOperator, ExecutionFlags, Operator
from dmlvk.objects.portable import default_device, pending
from dmlvk.operators import FeatureLevel, OperatorDesc, check_operator
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]


class Block(NamedTuple):
    """What is known of a block before it is there."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class BlockModel(abc.ABC):
    """A model that takes blocks and gives blocks. It pickles, and opens the process's device when it is run.

    Attributes:
        label: for the names of results and for messages.
        input_names: of the inputs, in order; ``None`` where any number of them goes.
        output_names: of the outputs that are wanted, in order; ``None`` where inputs tell them.
    """

    label: str
    input_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None

    @abc.abstractmethod
    def results(self, blocks: Sequence[Block]) -> dict[str, Block]:
        """The outputs for inputs like these, by name.

        Raises:
            InvalidArgumentError: when the model does not take them.
        """

    @abc.abstractmethod
    def run(self, blocks: Sequence[Array]) -> list[Array]:
        """Computes the outputs."""

    @abc.abstractmethod
    def __dask_tokenize__(self) -> object: ...


class TensorModel(BlockModel):
    """An operator's description, or a compiled operator or graph: of tensors that have the sizes that they have."""

    def __init__(self, model: OperatorDesc | CompiledOperator, outputs: Sequence[str] | None) -> None:
        self._model = model
        if isinstance(model, OperatorDesc):
            check_operator(model, FeatureLevel.LEVEL_6_4)
            self.label = model.operator_name
            given = [(field.name, tensor) for field, tensor in model.inputs]
            made = [(field.name, tensor) for field, tensor in model.outputs]
        else:
            self.label = model.name
            given = [(point.name, tensor) for point, tensor in zip(model.inputs, model.input_tensors, strict=True)]
            made = [(point.name, point.tensor) for point in model.outputs]
        self._inputs = {name: _block(tensor) for name, tensor in given if tensor is not None}
        there = {name: _block(tensor) for name, tensor in made if tensor is not None}
        self._outputs = chosen(self.label, there, outputs)
        self.input_names = tuple(self._inputs)
        self.output_names = tuple(self._outputs)

    def results(self, blocks: Sequence[Block]) -> dict[str, Block]:
        for (name, wanted), got in zip(self._inputs.items(), blocks, strict=True):
            if got.shape != wanted.shape:
                raise InvalidArgumentError(
                    f"{self.label}: {name} is a tensor of the sizes {list(wanted.shape)}, but a block has the shape "
                    f"{list(got.shape)}: rechunk the array, or give a function of expressions, which takes blocks of "
                    "any shape"
                )
            if got.dtype != wanted.dtype and not (got.dtype == np.bool_ and wanted.dtype == np.uint8):
                raise InvalidArgumentError(f"{self.label}: {name} must be of the dtype {wanted.dtype}; got {got.dtype}")
        return dict(self._outputs)

    def run(self, blocks: Sequence[Array]) -> list[Array]:
        inputs = dict(zip(self._inputs, blocks, strict=True))
        if isinstance(self._model, OperatorDesc):
            results = default_device().run(self._model, inputs)
        else:
            self._model = compiled = in_working_order(self._model)
            results = compiled.device.run(compiled, inputs)
        return [results[name] for name in self._outputs]

    def __dask_tokenize__(self) -> object:
        return (*_token(self._model), self.output_names)


class FunctionModel(BlockModel):
    """A function of expressions, of which a graph is made for each set of shapes: here, where they are known before."""

    def __init__(self, function: Callable[..., Any], outputs: Sequence[str] | None) -> None:
        self._function: Callable[..., Any] | None = function
        self._token = tokenize(function)
        self._wanted = None if outputs is None else list(outputs)
        self._made: dict[tuple[Block, ...], CompiledGraph] = {}
        self.label = getattr(function, "__name__", type(function).__name__).strip("<>_")
        self.input_names = None
        self.output_names = None

    def results(self, blocks: Sequence[Block]) -> dict[str, Block]:
        made = self._graph(tuple(blocks)).origin
        assert isinstance(made, GraphOrigin)
        tensors = {name: _block(t) for name, t in zip(made.output_names, made.output_tensors, strict=True) if t}
        return chosen(self.label, tensors, self._wanted)

    def run(self, blocks: Sequence[Array]) -> list[Array]:
        key = tuple(Block(block.shape, block.dtype) for block in blocks)
        graph = self._made[key] = in_working_order(self._graph(key))
        inputs = {point.name: block for point, block in zip(graph.inputs, blocks, strict=True)}
        results = graph.device.run(graph, inputs)
        return [results[name] for name in self._wanted or results]

    def without_function(self) -> FunctionModel:
        """The same for the shapes that it was asked for until now; nothing of the function travels with it."""
        other = FunctionModel.__new__(FunctionModel)
        other.__dict__.update(self.__dict__, _function=None, _made=dict(self._made))
        return other

    def _graph(self, blocks: tuple[Block, ...]) -> CompiledGraph:
        if blocks not in self._made:
            if self._function is None:
                raise InvalidArgumentError(
                    f"{self.label}: blocks have other shapes than was said: {[list(block.shape) for block in blocks]}"
                )
            self._made[blocks] = drawn(self._function, blocks, self.label)
        return self._made[blocks]

    def __dask_tokenize__(self) -> object:
        if self._function is not None:
            return "function", self._token, self._wanted
        made = {repr(blocks): graph.origin.token for blocks, graph in self._made.items()}
        return "graphs", sorted(made.items()), self._wanted


class _Sketchpad:
    """What :class:`Graph` needs of a device, without one: operators are checked, the graph is compiled later."""

    feature_level = FeatureLevel.LEVEL_6_4

    def create_operator(self, desc: OperatorDesc) -> Operator:
        check_operator(desc, self.feature_level)
        return Operator(None, desc)

    def compile_graph(
        self,
        desc: GraphDesc,
        flags: ExecutionFlags,
        *,
        fuse: bool,
        lasting_inputs: Sequence[int],
        **names_and_tensors: Sequence[Any],
    ) -> CompiledGraph:
        assert not lasting_inputs  # a block's graph has none, and would have to be prepared where it is made
        listed: dict[str, Any] = {member: tuple(values) for member, values in names_and_tensors.items()}
        return pending(CompiledGraph, GraphOrigin(self.feature_level, desc, flags, fuse, **listed))


def drawn(function: Callable[..., Any], blocks: Sequence[Block], label: str) -> CompiledGraph:
    """The graph that a function of expressions draws for inputs like these; compiled where it is run first.

    Args:
        function: gives an expression, or several by name.
        blocks: the inputs' shapes and dtypes.
    """
    graph = Graph(cast(Device, _Sketchpad()))
    inputs = []
    for number, block in enumerate(blocks):
        if not 1 <= len(block.shape) <= 8 or 0 in block.shape:
            raise InvalidArgumentError(
                f"{label}: blocks must have 1 to 8 axes and elements; input {number} has the shape {list(block.shape)}"
            )
        inputs.append(graph.input(f"input{number}", DataType(block.dtype), block.shape))
    try:
        inspect.signature(function).bind(*inputs)
    except TypeError as error:
        raise InvalidArgumentError(f"{label}: does not take {len(inputs)} arrays: {error}") from error
    except ValueError:  # it has no signature that Python knows
        pass
    made = function(*inputs)
    if not isinstance(made, (Expression, Mapping)):
        raise InvalidArgumentError(f"{label}: must give an expression, or several by name; got {made!r}")
    return graph.compile(made)


def chosen(label: str, there: Mapping[str, Any], wanted: Sequence[str] | None) -> dict[str, Any]:
    """The outputs that are wanted, in the order in which they are."""
    if wanted is None:
        return dict(there)
    unknown = [name for name in wanted if not isinstance(name, str) or name not in there]
    if unknown or not wanted:
        raise InvalidArgumentError(f"{label}: outputs must name some of {list(there)}; got {list(wanted)}")
    return {name: there[name] for name in wanted}


def in_working_order(model: Any) -> Any:
    """A compiled operator, a graph or a session; made anew where its device was lost or closed."""
    if not model.is_pending and model.device.engine.is_removed:
        return model.on(default_device(model.device.feature_level))
    return model


def _block(tensor: TensorDesc) -> Block:
    return Block(tuple(tensor.sizes), tensor.data_type.numpy_dtype)


def _token(model: Any) -> tuple[str, object]:
    return type(model).__name__, model.__dask_tokenize__()
