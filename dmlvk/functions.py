"""A function for every operator, to build graphs with: ``from dmlvk import functions as F``.

    y = F.if_(F.is_nan(x), 0.0, F.clip(x, min=-1, max=1))

The functions are made from the operators' declarations and named after them: ELEMENT_WISE_CLIP is ``clip``,
ACTIVATION_RELU is ``activation_relu``; a Python keyword gets an underscore, ``if_``. Tensors come first, without
``_tensor`` in their names; then the attributes, with DirectMLX's defaults where it has some, and without those that
count others (AxisCount). ``output_data_type``, ``output_strides`` and ``name`` may be given to all of them: see
:meth:`dmlvk.Graph.apply`.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Sized
from typing import Any

from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.operators import OPERATORS, IsInfinityMode, OperatorDesc, RoundingMode

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
    "ELEMENT_WISE_IS_INFINITY": {"infinity_mode": IsInfinityMode.EITHER},
    "ELEMENT_WISE_ROUND": {"rounding_mode": RoundingMode.HALVES_TO_NEAREST_EVEN},
}
"""The defaults of attributes in Microsoft's DirectMLX.h."""

_EVERY_FUNCTION = ("output_data_type", "output_strides", "name")


def function_name(operator: str) -> str:
    """What an operator's function is called."""
    name = operator.removeprefix("ELEMENT_WISE_").lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def _made(kind: type[OperatorDesc]) -> Callable[..., Expression]:
    """The function of an operator."""
    tensors = {field.attribute.removesuffix("_tensor"): field for field in kind.fields if field.kind == "input"}
    counts = {field.counted_by: field.attribute for field in kind.fields if field.counted_by is not None}
    attributes = [
        field
        for field in kind.fields
        if field.kind == "attribute"
        and not (field.type == "data_type" and field.equals)
        and field.attribute not in counts
    ]
    defaults = _DEFAULTS.get(kind.operator_name, {})
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    required: list[inspect.Parameter] = []
    optional: list[inspect.Parameter] = []
    for name, field in [*tensors.items(), *((field.attribute, field) for field in attributes)]:
        if field.optional or name in defaults:
            optional.append(inspect.Parameter(name, positional, default=defaults.get(name)))
        else:
            required.append(inspect.Parameter(name, positional))
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="" if name == "name" else None)
        for name in _EVERY_FUNCTION
    ]
    signature = inspect.Signature([*required, *optional, *extra], return_annotation=Expression)

    def function(*arguments: Any, **named: Any) -> Expression:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise InvalidArgumentError(f"functions.{function.__name__}{signature}: {error}") from error
        bound.apply_defaults()
        values = dict(bound.arguments)
        options = {name: values.pop(name) for name in _EVERY_FUNCTION}
        operands = {field.attribute: values.pop(name) for name, field in tensors.items()}
        for count, counted in counts.items():
            values[count] = len(values[counted]) if isinstance(values[counted], Sized) else 1
        graphs = [operand.graph for operand in operands.values() if isinstance(operand, Expression)]
        if not graphs:
            raise InvalidArgumentError(f"functions.{function.__name__}: needs at least one expression of a graph")
        return graphs[0].apply(kind.operator_name, operands, values, **options)

    function.__name__ = function.__qualname__ = function_name(kind.operator_name)
    function.__module__ = __name__
    function.__signature__ = signature  # type: ignore[attr-defined]  # what help() and editors show
    members = "\n".join(f"    {name}: {field.meaning}" for name, field in tensors.items())
    members += "".join(f"\n    {field.attribute}: {field.meaning}" for field in attributes)
    function.__doc__ = f"{kind.operator_name}: {kind.declaration.formula}\n\nArgs:\n{members}\n"
    return function


_functions = {function_name(name): _made(kind) for name, kind in sorted(OPERATORS.items())}

__all__ = sorted(_functions)  # made from the declarations


def __getattr__(name: str) -> Callable[..., Expression]:
    """The function of that name."""
    try:
        return _functions[name]
    except KeyError:
        raise AttributeError(f"dmlvk.functions has no {name!r}; it has {', '.join(__all__)}") from None


def __dir__() -> list[str]:
    return [*__all__, "function_name"]
