"""Makes a function for every operator, from its declaration: what ``dmlvk.functions`` has."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dmlvk.errors import CallError, InvalidArgumentError
from dmlvk.graphs.expression import Expression, GraphOfExpressions
from dmlvk.graphs.outputs import length_of
from dmlvk.operators import Field, IsInfinityMode, OperatorDesc, RandomGeneratorType, RoundingMode
from dmlvk.operators.convolution import ConvolutionDirection, ConvolutionMode
from dmlvk.operators.matrix import MatrixTransform
from dmlvk.operators.members import checked_boolean
from dmlvk.support.suggestions import suggestion

if TYPE_CHECKING:
    from dmlvk.graphs.builder import Graph

_DEFAULTS: dict[str, dict[str, Any]] = {
    "ACTIVATION_CELU": {"alpha": 1.0},
    "ACTIVATION_ELU": {"alpha": 1.0},
    "ACTIVATION_HARD_SIGMOID": {"alpha": 0.2, "beta": 0.5},
    "ACTIVATION_LEAKY_RELU": {"alpha": 0.01},
    "ACTIVATION_SCALED_ELU": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "ACTIVATION_SCALED_TANH": {"alpha": 1.0, "beta": 0.5},
    "ACTIVATION_SHRINK": {"bias": 0.0, "threshold": 0.5},
    "ACTIVATION_SOFTPLUS": {"steepness": 1.0},
    "ACTIVATION_THRESHOLDED_RELU": {"alpha": 1.0},
    "CONVOLUTION": {
        "mode": ConvolutionMode.CROSS_CORRELATION,
        "direction": ConvolutionDirection.FORWARD,
        "group_count": 1,
    },
    "CONVOLUTION_INTEGER": {"group_count": 1},
    "ELEMENT_WISE_IS_INFINITY": {"infinity_mode": IsInfinityMode.EITHER},
    "ELEMENT_WISE_ROUND": {"rounding_mode": RoundingMode.HALVES_TO_NEAREST_EVEN},
    "GEMM": {"trans_a": MatrixTransform.NONE, "trans_b": MatrixTransform.NONE, "alpha": 1.0, "beta": 1.0},
    "RANDOM_GENERATOR": {"type": RandomGeneratorType.PHILOX_4X32_10},
}
"""The defaults of attributes in Microsoft's DirectMLX.h."""

_PER_SPATIAL_AXIS = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0}
"""What windows and convolutions take along every axis behind the first two, where nothing is said."""

_EVERY_FUNCTION = ("output_data_type", "output_strides", "name")

_EVERY_IRREGULAR_FUNCTION = ("output_data_type", "output_sizes", "output_strides", "name")
"""What functions of operators take whose sizes follow a rule of their own."""


def function_name(operator: str) -> str:
    name = operator.removeprefix("ELEMENT_WISE_").lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def made_function(kind: type[OperatorDesc]) -> Callable[..., Any]:
    tensors = {short_name(field): field for field in kind.fields if field.kind == "input"}
    outputs = [field for field in kind.fields if field.kind == "output"]
    of_every_function = _EVERY_FUNCTION if kind.declaration.is_regular else _EVERY_IRREGULAR_FUNCTION
    arrays = [field for field in kind.fields if field.counted_by is not None]
    counts = {str(field.counted_by): field.attribute for field in arrays if field.kind != "output"}
    output_counts = [field.counted_by for field in arrays if field.kind == "output"]
    attributes = [
        field
        for field in kind.fields
        if field.kind == "attribute"
        and not (field.type == "data_type" and field.equals)
        and field.attribute not in counts
    ]
    has_windows = kind.declaration.pattern in ("window", "convolution")
    per_axis = [field.attribute for field in attributes if has_windows and field.attribute in _PER_SPATIAL_AXIS]
    defaults = {**dict.fromkeys(per_axis), **_DEFAULTS.get(kind.operator_name, {})}
    gives_several = len(outputs) > 1 or outputs[0].type == "tensors"
    names = {**tensors, **{field.attribute: field for field in attributes}}
    with_defaults = {name: defaults.get(name) for name in names if name in defaults or name in output_counts}
    flags = [f"with_{short_name(field)}" for field in outputs if field.optional]
    signature = _signature(names, with_defaults, of_every_function, flags, gives_several=gives_several)

    def function(*arguments: Any, **named: Any) -> Expression | tuple[Expression, ...]:
        bound = bound_arguments(function, signature, arguments, named)
        values = dict(bound.arguments)
        options = {name: values.pop(name) for name in of_every_function}
        where = f"functions.{function.__name__}"
        chosen = [field.attribute for field in outputs if field.optional and _is_wanted(where, field, values)]
        operands = {field.attribute: values.pop(name) for name, field in tensors.items()}
        for name in per_axis:
            if values[name] is None:
                values[name] = (_PER_SPATIAL_AXIS[name],) * _spatial_axes(operands)
        for count, counted in counts.items():
            if counted in operands:
                continue  # counted when the arrays are made
            values[count] = length_of(values[counted])
        graph = _graph_of(where, operands, values)
        if kind.declaration.is_regular:
            return graph.apply(kind.operator_name, operands, values, **options)
        made = graph.apply_all(kind.operator_name, operands, values, optional_outputs=chosen, **options)
        return tuple(made.values()) if gives_several else next(iter(made.values()))

    function.__name__ = function.__qualname__ = function_name(kind.operator_name)
    function.__module__ = "dmlvk.functions"
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    function.__doc__ = _described(kind, names, has_graph="graph" in signature.parameters)
    return function


def _described(kind: type[OperatorDesc], members: Mapping[str, Field], *, has_graph: bool) -> str:
    """A function's docstring."""
    lines = [f"    {name}: {field.meaning}" for name, field in members.items()]
    lines += ["    graph: where it belongs when no operand is an expression"] if has_graph else []
    return "\n".join([f"{kind.operator_name}: {kind.declaration.formula}", "", "Args:", *lines, ""])


def _signature(
    fields: Mapping[str, Field],
    defaults: Mapping[str, Any],
    of_every_function: Sequence[str],
    flags: Sequence[str],
    *,
    gives_several: bool,
) -> inspect.Signature:
    """What a function takes, members without a default first, and gives."""
    positional, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    required: list[inspect.Parameter] = []
    optional: list[inspect.Parameter] = []
    for name, field in fields.items():
        if field.optional or name in defaults:
            optional.append(inspect.Parameter(name, positional, default=defaults.get(name)))
        else:
            required.append(inspect.Parameter(name, positional))
    extra = [inspect.Parameter(name, by_name, default="" if name == "name" else None) for name in of_every_function]
    extra += [inspect.Parameter(name, by_name, default=False) for name in flags]
    if not any(fields[parameter.name].kind == "input" for parameter in required):
        extra.append(inspect.Parameter("graph", by_name, default=None))
    returned = tuple[Expression, ...] if gives_several else Expression
    return inspect.Signature([*required, *optional, *extra], return_annotation=returned)


def bound_arguments(
    function: Callable[..., Any], signature: inspect.Signature, arguments: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call, with defaults.

    Raises:
        CallError: when they do not fit the signature.
    """
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        unknown = [name for name in named if name not in signature.parameters]
        problem = f"has no parameter {unknown[0]!r}{suggestion(unknown[0], signature.parameters)}" if unknown else error
        plain = signature.replace(return_annotation=inspect.Signature.empty)
        raise CallError(f"functions.{function.__name__}{plain}: {problem}") from error
    bound.apply_defaults()
    return bound


def _graph_of(where: str, operands: Mapping[str, Any], values: dict[str, Any]) -> Graph:
    """The graph of the operands, or the one that was given where an operator needs none.

    Raises:
        InvalidArgumentError: when there is no graph.
    """
    given = values.pop("graph", None)
    if isinstance(given, GraphOfExpressions):
        return cast("Graph", given)
    if given is not None:
        raise InvalidArgumentError(f"{where}: graph must be a dmlvk.Graph; got {given!r}")
    graphs = [operand.graph for operand in _each(operands.values()) if isinstance(operand, Expression)]
    if not graphs and not operands:
        raise InvalidArgumentError(f"{where}: has no operand that tells its graph: give graph=")
    if not graphs:
        raise InvalidArgumentError(f"{where}: {needs_expression(_each(operands.values()))}")
    return graphs[0]


def needs_expression(operands: Iterable[object]) -> str:
    """What is wrong with operands of which none is an expression."""
    kinds = ", ".join(dict.fromkeys(type(operand).__name__ for operand in operands if operand is not None))
    return f"needs at least one expression of a graph (Graph.input makes one); got {kinds or 'none'}"


def _is_wanted(where: str, field: Field, values: dict[str, Any]) -> bool:
    """Whether an optional output was asked for."""
    name = f"with_{short_name(field)}"
    return checked_boolean(values.pop(name), f"{where}: {name}")


def short_name(field: Field) -> str:
    """``input`` for ``input_tensor``, ``inputs`` for ``input_tensors``, ``index`` for ``output_index_tensor``."""
    name = field.attribute.removesuffix("_tensor")
    if field.type == "tensors":
        name = f"{field.attribute.removesuffix('_tensors')}s"
    return name.removeprefix("output_") if field.kind == "output" else name


def _spatial_axes(operands: Mapping[str, Any]) -> int:
    """How many axes the first operand has behind batch and channels."""
    first = next(iter(operands.values()), None)
    return max(1, len(first.sizes) - 2) if isinstance(first, Expression) else 1


def _each(operands: Iterable[Any]) -> Iterator[Any]:
    for operand in operands:
        yield from operand if isinstance(operand, (list, tuple)) else (operand,)
