"""What NumPy's own functions do with expressions: ``np.sin(x)`` is ``functions.sin(x)``.

NumPy asks the class of an operand (``__array_ufunc__``, ``__array_function__``). What has a Python operator means that
operator; the rest the function of :mod:`dmlvk.functions` of NumPy's name, called as NumPy's is. What there is none for,
and arguments that have no counterpart (``out``, ``where``, ``dtype``), are refused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression, GraphOfExpressions
from dmlvk.graphs.numpy_words import BOTH, WORDS, clip, matmul, sign
from dmlvk.support.suggestions import suggestion

if TYPE_CHECKING:
    from dmlvk.graphs.builder import Operand

_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "divmod": "divmod", "power": "pow", "matmul": "matmul", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "left_shift": "lshift", "right_shift": "rshift",
}  # fmt: skip
"""Python's operators by NumPy's names: of the methods ``__add__`` and ``__radd__``."""

_COMPARISONS = {
    "less": ("lt", "gt"), "less_equal": ("le", "ge"), "greater": ("gt", "lt"), "greater_equal": ("ge", "le"),
    "equal": ("eq", "eq"), "not_equal": ("ne", "ne"),
}  # fmt: skip
"""Of the left operand, and of the right one."""

_UNARY = {"negative": "neg", "positive": "pos", "absolute": "abs", "invert": "invert"}

_BY_NAME = (
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    *("exp", "log", "sqrt", "floor", "ceil", "rint", "reciprocal", "isnan", "isinf", "bitwise_count"),
    *("arctan2", "maximum", "minimum", "fmod", "logical_and", "logical_or", "logical_xor", "logical_not"),
)
"""Universal functions that ``dmlvk.functions`` has by the same name."""

_OTHER_NAMES = {"amax": "max", "amin": "min", "true_divide": "divide"}  # Before NumPy 2

_BOUNDS = {"a_min": "min", "a_max": "max"}


class GraphWithNumPyWords(GraphOfExpressions):
    def matrix_product(self, first: Operand, second: Operand) -> Expression:
        return matmul(first, second)

    def universal_function(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a universal function of NumPy gives: see :func:`universal`."""
        return universal(ufunc, method, inputs, named)

    def numpy_function(self, called: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What another function of NumPy gives: see :func:`function`."""
        return function(called, arguments, named)


def universal(ufunc: np.ufunc, method: str, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a universal function gives for expressions.

    Raises:
        InvalidArgumentError: when there is no such function of expressions.
    """
    from dmlvk import functions

    name = _OTHER_NAMES.get(ufunc.__name__, ufunc.__name__)
    if method != "__call__" or named:
        how = f"numpy.{name}" if method == "__call__" else f"numpy.{name}.{method}"
        arguments = f" with {', '.join(named)}" if named else ""
        raise InvalidArgumentError(f"{how}{arguments} is not for expressions of graphs; see dmlvk.functions")
    if name in _UNARY:
        return getattr(inputs[0], f"__{_UNARY[name]}__")()
    if name in _BINARY or name in _COMPARISONS:
        left, right = inputs
        own, swapped = _COMPARISONS.get(name) or (_BINARY[name], f"r{_BINARY[name]}")
        if isinstance(left, Expression):
            return getattr(left, f"__{own}__")(right)
        return getattr(right, f"__{swapped}__")(left)
    if name == "sign":
        return sign(*inputs)
    if name in _BY_NAME:
        return getattr(functions, name)(*inputs)
    raise _no_function(name)


def function(called: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What another function of NumPy gives for expressions.

    Raises:
        InvalidArgumentError: when there is no such function of expressions.
    """
    from dmlvk import functions

    name = _OTHER_NAMES.get(called.__name__, called.__name__)
    if name in ("shape", "ndim", "size"):
        expression = arguments[0]
        return math.prod(expression.shape) if name == "size" else getattr(expression, name)
    if name in BOTH:  # first: of these dmlvk.functions has others that take two tensors
        axis = {"axis": arguments[1]} if len(arguments) == 2 else {}
        return _called(BOTH[name], name, arguments[:1] if axis else arguments, {**axis, **named})
    if name in WORDS:
        return _called(WORDS[name], name, arguments, named)
    if name == "where" and len(arguments) == 3:
        return functions.where(*arguments)
    if name == "clip":
        bounds = {_BOUNDS.get(word, word): value for word, value in named.items()}
        return _called(clip, name, arguments, bounds)
    raise _no_function(name)


def _called(own: Callable[..., Any], name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    signature = inspect.signature(own)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise InvalidArgumentError(f"numpy.{name} of expressions of graphs takes {signature}: {error}") from None
    return own(*arguments, **named)


def _no_function(name: str) -> InvalidArgumentError:
    from dmlvk import functions

    hint = suggestion(name, functions.__all__) if name not in functions.__all__ else f": call functions.{name}"
    return InvalidArgumentError(f"numpy.{name} is not for expressions of graphs; see dmlvk.functions{hint}")
