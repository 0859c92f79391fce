"""NumPy's words for what graphs compute, where DirectML has others: what ``dmlvk.functions`` has beside operators.

Shapes follow NumPy's rules, except that a tensor has at least one dimension: what NumPy gives without any has sizes
(1,). Data types are DirectML's: nothing becomes FLOAT64.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.graphs.operator_functions import bound_arguments, needs_expression
from dmlvk.operators import OPERATORS
from dmlvk.operators.matrix import MatrixTransform
from dmlvk.operators.members import AxisDirection, ReduceFunction, checked_boolean
from dmlvk.support.integers import checked_integer, checked_integers
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, broadcast_sizes

if TYPE_CHECKING:
    from dmlvk.graphs.builder import Graph, Operand

ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan_yx",
    "arctanh": "atanh",
    "bitwise_and": "bit_and",
    "bitwise_count": "bit_count",
    "bitwise_not": "bit_not",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "equal": "logical_equals",
    "fmod": "modulus_truncate",
    "greater": "logical_greater_than",
    "greater_equal": "logical_greater_than_or_equal",
    "invert": "bit_not",
    "isinf": "is_infinity",
    "isnan": "is_nan",
    "left_shift": "bit_shift_left",
    "less": "logical_less_than",
    "less_equal": "logical_less_than_or_equal",
    "negative": "negate",
    "power": "pow",
    "reciprocal": "recip",
    "remainder": "modulus_floor",
    "right_shift": "bit_shift_right",
    "rint": "round",
    "where": "if_",
}
"""NumPy's names of functions that are operators."""

_PLAIN_PRODUCT = {
    "trans_a": MatrixTransform.NONE,
    "trans_b": MatrixTransform.NONE,
    "alpha": 1.0,
    "beta": 1.0,
    "fused_activation": None,
}

_WIDER = {
    DataType.UINT8: DataType.UINT32,
    DataType.UINT16: DataType.UINT32,
    DataType.INT8: DataType.INT32,
    DataType.INT16: DataType.INT32,
}
"""In what integers too small for sums and products are added up and multiplied."""


def _graph_of(word: str, operands: Sequence[object]) -> Graph:
    if not isinstance(operands, (list, tuple)):
        raise InvalidArgumentError(f"functions.{word}: arrays must be a list of operands; got {operands!r}")
    for operand in operands:
        if isinstance(operand, Expression):
            return operand.graph
    raise InvalidArgumentError(f"functions.{word}: {needs_expression(operands)}")


def _expression(word: str, operand: object) -> Expression:
    if not isinstance(operand, Expression):
        raise InvalidArgumentError(f"functions.{word}: needs an expression of a graph; got {operand!r}")
    return operand


def _tensor(graph: Graph, operand: Any) -> Expression:
    return operand if isinstance(operand, Expression) else graph.constant(operand)


def _axes(word: str, axis: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes as integers from 0 on; all of them for ``None``."""
    if axis is None:
        return list(range(rank))
    given = axis if isinstance(axis, (list, tuple)) else [axis]
    axes = [number % rank for number in checked_integers(given, f"functions.{word}: axis", -rank, rank - 1)]
    if not axes or len(set(axes)) < len(axes):
        raise InvalidArgumentError(f"functions.{word}: axis must name each axis once; got {axis!r}")
    return axes


def _without(expression: Expression, axes: Sequence[int]) -> Expression:
    """The expression without axes of size 1."""
    kept = [axis for axis in range(expression.ndim) if axis not in axes]
    strides = expression.tensor.element_strides
    return expression.reinterpret(
        [expression.sizes[axis] for axis in kept] or [1], [strides[axis] for axis in kept] or [1]
    )


def _widened(source: Expression) -> Expression:
    """In integers that sums and products need."""
    if source.data_type not in _WIDER:
        return source
    return source.graph.apply("CAST", {"input_tensor": source}, output_data_type=_WIDER[source.data_type])


def _reduced(
    word: str, function: ReduceFunction, a: Expression, axis: int | Sequence[int] | None, keepdims: bool
) -> Expression:
    source = _expression(word, a)
    if function in (ReduceFunction.SUM, ReduceFunction.MULTIPLY):
        source = _widened(source)
    axes = _axes(word, axis, source.ndim)
    made = source.graph.apply(
        "REDUCE", {"input_tensor": source}, {"function": function, "axes": axes}, output_data_type=source.data_type
    )
    return made if checked_boolean(keepdims, f"functions.{word}: keepdims") else _without(made, axes)


def sum(a: Expression, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The sum along one axis, several, or all of them (REDUCE).

    Args:
        a: what is added up; integers of 8 and 16 bits in 32 bits.
        axis: the axis or axes, counted from the end when below 0; ``None``: all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        InvalidArgumentError: when there is no such axis.
    """
    return _reduced("sum", ReduceFunction.SUM, a, axis, keepdims)


def prod(a: Expression, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The product along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""
    return _reduced("prod", ReduceFunction.MULTIPLY, a, axis, keepdims)


def _cumulative(word: str, operator_name: str, a: Expression, axis: int | None) -> Expression:
    source = _widened(_expression(word, a))
    if axis is None:
        source = source.reshape((source.tensor.element_count,))
    rank = source.ndim
    number = checked_integer(0 if axis is None else axis, f"functions.{word}: axis", -rank, rank - 1) % rank
    own = {"CUMULATIVE_SUMMATION": {"has_exclusive_sum": False}, "CUMULATIVE_PRODUCT": {"has_exclusive_product": False}}
    attributes = {"axis": number, "axis_direction": AxisDirection.INCREASING, **own[operator_name]}
    return source.graph.apply(operator_name, {"input_tensor": source}, attributes)


def cumsum(a: Expression, axis: int | None = None) -> Expression:
    """The running sum along an axis (CUMULATIVE_SUMMATION).

    Args:
        a: what is added up; integers of 8 and 16 bits in 32 bits.
        axis: counted from the end when below 0; ``None``: all elements in a row.

    Raises:
        InvalidArgumentError: when there is no such axis.
    """
    return _cumulative("cumsum", "CUMULATIVE_SUMMATION", a, axis)


def cumprod(a: Expression, axis: int | None = None) -> Expression:
    """The running product along an axis (CUMULATIVE_PRODUCT): arguments as for ``cumsum``."""
    return _cumulative("cumprod", "CUMULATIVE_PRODUCT", a, axis)


def _max(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The largest element along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""
    return _reduced("max", ReduceFunction.MAX, a, axis, keepdims)


def _min(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The smallest element along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""
    return _reduced("min", ReduceFunction.MIN, a, axis, keepdims)


def _mean(a: Expression, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expression:
    """The mean along one axis, several, or all of them (REDUCE): arguments as for ``sum``."""
    return _reduced("mean", ReduceFunction.AVERAGE, a, axis, keepdims)


def with_equal_zeros(a: Expression) -> Expression:
    """The elements, with +0 for -0: before places of extremes are sought, for whom both zeros are one number."""
    if not a.data_type.is_float:
        return a
    return (a == 0).where(0, a)


def _arg_extreme(word: str, a: Expression, axis: int | None, keepdims: bool) -> Expression:
    source = with_equal_zeros(_expression(word, a))
    axes = _axes(word, axis, source.ndim)
    attributes = {"axes": axes, "axis_direction": AxisDirection.INCREASING}
    made = source.graph.apply(word.upper(), {"input_tensor": source}, attributes)
    return made if checked_boolean(keepdims, f"functions.{word}: keepdims") else _without(made, axes)


def _argmax(a: Expression, *, axis: int | None = None, keepdims: bool = False) -> Expression:
    """Where the first largest element lies along an axis, or in the whole tensor (ARGMAX), as UINT32."""
    return _arg_extreme("argmax", a, axis, keepdims)


def _argmin(a: Expression, *, axis: int | None = None, keepdims: bool = False) -> Expression:
    """Where the first smallest element lies along an axis, or in the whole tensor (ARGMIN), as UINT32."""
    return _arg_extreme("argmin", a, axis, keepdims)


def matmul(a: Operand, b: Operand) -> Expression:
    """The product of matrices in the last two axes; the others broadcast (GEMM).

    Args:
        a: (…, M, K), or (K,).
        b: (…, K, N), or (K,).

    Returns:
        (…, M, N), without the axis of an operand that has only one.

    Raises:
        InvalidArgumentError: when the shapes do not fit, or the operands are no FLOAT32 or FLOAT16.
    """
    graph = _graph_of("matmul", (a, b))
    left, right = _tensor(graph, a), _tensor(graph, b)
    dropped = [axis for axis, operand in ((-2, left), (-1, right)) if operand.ndim == 1]
    left = left[None] if left.ndim == 1 else left
    right = right[:, None] if right.ndim == 1 else right
    if left.sizes[-1] != right.sizes[-2]:
        raise InvalidArgumentError(
            f"functions.matmul: {list(left.sizes)} and {list(right.sizes)}: the last axis of the first one must be as "
            "long as the last but one of the second one"
        )
    batch = broadcast_sizes(left.sizes[:-2], right.sizes[:-2])
    if batch is None:
        raise InvalidArgumentError(
            f"functions.matmul: the shapes do not broadcast: {list(left.sizes[:-2])} and {list(right.sizes[:-2])}"
        )
    fewest, most = OPERATORS["GEMM"].declaration.support_at(graph.device.feature_level).dimensions
    padded = (1,) * (fewest - 2 - len(batch)) + batch
    left = left.broadcast_to((*padded, *left.sizes[-2:]))
    right = right.broadcast_to((*padded, *right.sizes[-2:]))
    if left.ndim > most:
        left, right = (_copied(e).reshape((-1, *e.sizes[-2:])) for e in (left, right))
    made = graph.apply("GEMM", {"a_tensor": left, "b_tensor": right}, _PLAIN_PRODUCT)
    made = made.reshape((*batch, *made.sizes[-2:]))
    return _without(made, [axis % made.ndim for axis in dropped]) if dropped else made


def _copied(expression: Expression) -> Expression:
    """Packed elements: themselves, or a copy."""
    return expression if expression.tensor.is_packed else expression.elementwise("IDENTITY", input_tensor=expression)


def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Expression:
    """Tensors behind one another along an axis that they have (JOIN).

    Args:
        arrays: of equal sizes along all other axes.
        axis: counted from the end when below 0.

    Raises:
        InvalidArgumentError: when shapes or data types differ, or there is no such axis.
    """
    graph = _graph_of("concatenate", arrays)
    tensors = [_tensor(graph, array) for array in arrays]
    (dimension,) = _axes("concatenate", [axis], tensors[0].ndim)
    return graph.apply("JOIN", {"input_tensors": tensors}, {"axis": dimension})


def stack(arrays: Sequence[Operand], axis: int = 0) -> Expression:
    """Tensors of one shape behind one another along a new axis (JOIN).

    Args:
        arrays: of equal sizes.
        axis: where the new axis stands in the result; counted from the end when below 0.

    Raises:
        InvalidArgumentError: when shapes or data types differ, or there is no such axis.
    """
    graph = _graph_of("stack", arrays)
    return concatenate([expand_dims(_tensor(graph, array), axis) for array in arrays], axis)


def transpose(a: Expression, axes: Sequence[int] | None = None) -> Expression:
    """The axes in another order, ``None``: in the opposite one: a view, nothing is copied."""
    return _expression("transpose", a).transpose(*(() if axes is None else (axes,)))


def reshape(a: Expression, shape: int | Sequence[int]) -> Expression:
    """The same elements in another shape, as a view: see :meth:`dmlvk.Expression.reshape`."""
    return _expression("reshape", a).reshape(shape)


def broadcast_to(a: Expression, shape: Sequence[int]) -> Expression:
    """The elements repeated along axes of size 1, and along new leading ones: a view, nothing is copied."""
    return _expression("broadcast_to", a).broadcast_to(shape)


def expand_dims(a: Expression, axis: int) -> Expression:
    """A new axis of size 1, which stands at ``axis`` in the result: a view, nothing is copied."""
    source = _expression("expand_dims", a)
    rank = source.ndim + 1
    dimension = checked_integer(axis, "functions.expand_dims: axis", -rank, rank - 1) % rank
    if rank > MAXIMUM_DIMENSION_COUNT:
        raise InvalidArgumentError(f"functions.expand_dims: {source!r} has as many axes as a tensor may have")
    return source[(slice(None),) * dimension + (None,)]


def squeeze(a: Expression, axis: int | Sequence[int] | None = None) -> Expression:
    """Without axes of size 1, ``None``: without all of them: a view, nothing is copied.

    Raises:
        InvalidArgumentError: when there is no such axis, or it is of another size.
    """
    source = _expression("squeeze", a)
    if axis is None:
        return _without(source, [number for number, size in enumerate(source.sizes) if size == 1])
    axes = _axes("squeeze", axis, source.ndim)
    if any(source.sizes[number] != 1 for number in axes):
        raise InvalidArgumentError(f"functions.squeeze: {source!r}: axis {axis!r} is not of size 1")
    return _without(source, axes)


def maximum(a: Operand, b: Operand) -> Expression:
    """The larger of two elements; NaN where one of them is, which ``max`` passes over."""
    return _extreme_of_two("maximum", "GREATER_THAN", a, b)


def minimum(a: Operand, b: Operand) -> Expression:
    """The smaller of two elements; NaN where one of them is, which ``min`` passes over."""
    return _extreme_of_two("minimum", "LESS_THAN", a, b)


def _extreme_of_two(word: str, comparison: str, a: Operand, b: Operand) -> Expression:
    graph = _graph_of(word, (a, b))
    data_type = next(each.data_type for each in (a, b) if isinstance(each, Expression))
    a, b = (graph.constant(each, data_type) if isinstance(each, (int, float)) else each for each in (a, b))
    both = {"a_tensor": a, "b_tensor": b}
    if not data_type.is_float:
        return graph.apply("ELEMENT_WISE_MAX" if word == "maximum" else "ELEMENT_WISE_MIN", both)

    def compared(operator: str, first: Operand, second: Operand) -> Expression:
        return graph.apply(f"ELEMENT_WISE_LOGICAL_{operator}", {"a_tensor": first, "b_tensor": second})

    second = compared(f"{comparison}_OR_EQUAL", b, a).where(b, graph.apply("ELEMENT_WISE_ADD", both))
    return compared(comparison, a, b).where(a, second)


def clip(a: Expression, min: Operand | None = None, max: Operand | None = None) -> Expression:
    """Each element, but none below ``min`` and none above ``max``; NaN where it or a bound is."""
    if not a.data_type.is_float and isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return a.elementwise("CLIP", input_tensor=a, min=min, max=max)
    made = a if min is None else maximum(a, min)
    return made if max is None else minimum(made, max)


def sign(a: Expression) -> Expression:
    """-1, 0 or 1; NaN of NaN."""
    made = a.elementwise("SIGN", input_tensor=a)
    return a.elementwise("IS_NAN", input_tensor=a).where(a, made) if a.data_type.is_float else made


def not_equal(a: Operand, b: Operand) -> Expression:
    """1 where the elements differ, else 0, as UINT8; NaN differs from everything."""
    graph = _graph_of("not_equal", (a, b))
    equal = graph.apply("ELEMENT_WISE_LOGICAL_EQUALS", {"a_tensor": a, "b_tensor": b})
    return graph.apply("ELEMENT_WISE_LOGICAL_NOT", {"input_tensor": equal})


WORDS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        sum, prod, cumsum, cumprod, matmul, concatenate, stack, transpose, reshape, broadcast_to, expand_dims, squeeze,
        not_equal, maximum, minimum,
    )
}  # fmt: skip
"""Functions that are no operator."""

BOTH: dict[str, Callable[..., Any]] = {"max": _max, "min": _min, "mean": _mean, "argmax": _argmax, "argmin": _argmin}
"""Functions of one tensor whose names operators have, too."""


def either(operator: Callable[..., Any], of_one: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is an operator's, or NumPy's of one tensor: by how it is called."""
    signature = inspect.signature(of_one)
    second = list(inspect.signature(operator).parameters)[1]

    def function(*arguments: Any, **named: Any) -> Any:
        is_of_one = len(arguments) == 1 and second not in named
        if not (is_of_one or named.keys() & signature.parameters.keys() - {"a"}):
            return operator(*arguments, **named)
        bound = bound_arguments(function, signature, arguments, named)
        return of_one(*bound.args, **bound.kwargs)

    function.__name__ = function.__qualname__ = operator.__name__
    function.__module__ = "dmlvk.functions"
    function.__doc__ = f"{operator.__doc__}\n{operator.__name__}{signature}: {of_one.__doc__}"
    function.__signature__ = inspect.signature(operator)  # type: ignore[attr-defined]  # what help() shows
    function.__wrapped__ = operator  # type: ignore[attr-defined]  # what inspect.unwrap() follows
    return function
