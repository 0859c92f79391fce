"""``dmlvk/functions.pyi``: signatures, types and docstrings of the functions that are made from declarations.

    python -m scripts.docs_tools.function_stubs    writes it; set-up and the build of a wheel do

Git does not keep the file. Writing it needs nothing that the build of a wheel does not have.
"""

from __future__ import annotations

import enum
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmlvk import functions
from dmlvk.graphs.numpy_words import BOTH, WORDS
from dmlvk.graphs.operator_functions import short_name
from dmlvk.operators import OPERATORS, Field, OperatorDesc

_TYPES = {
    "tensor": "Operand",
    "tensors": "Sequence[Operand]",
    "float": "float",
    "float_array": "Sequence[float]",
    "bool": "bool",
    "int32": "int",
    "int32_array": "Sequence[int]",
    "uint32": "int",
    "uint32_array": "Sequence[int]",
    "size_2d": "Size2D",
    "scale_bias": "ScaleBias",
    "data_type": "DataTypeLike",
    "scalar_union": "float",
    "operator_desc": "FusedActivation",
    "operator_descs": "Sequence[FusedActivation]",
}

PATH = Path(__file__).resolve().parent.parent.parent / "dmlvk" / "functions.pyi"

_WIDTH = 112  # Of docstrings, inside of their indentation and quotes

_LINE = 120  # Characters: the parameters of a longer signature have a line each

_EVERY_FUNCTION = {
    "output_data_type": "DataTypeLike | None",
    "output_sizes": "Sequence[int] | None",
    "output_strides": "Sequence[int] | None",
    "name": "str",
    "graph": "Graph | None",
}

_HEAD = '''"""Made by scripts/docs_tools/function_stubs.py from the operators' declarations; changes belong there."""

from collections.abc import Sequence

from dmlvk.datatypes import DataTypeLike
from dmlvk.graphs.builder import Graph, Operand
from dmlvk.graphs.expression import Expression
from dmlvk.operators import FusedActivation, ScaleBias, Size2D
'''


def function_stubs() -> str:
    known: dict[int, str] = {}
    parts, classes = [], set[type[enum.IntEnum]]()
    operators = {functions.function_name(name): kind for name, kind in OPERATORS.items()}
    made = {name: getattr(functions, name) for name in functions.__all__}
    for name in sorted(made, key=lambda name: (name not in operators and name not in WORDS, name)):
        function = made[name]
        if id(function) in known:
            parts.append(f"{name} = {known[id(function)]}")
            continue
        known[id(function)] = name
        if name in BOTH:
            own = _declared(name, BOTH[name], _annotations_of(BOTH[name]))
            of_operator = _declared(name, function.__wrapped__, _annotations(operators[name], classes))
            parts += [f"@overload\n{of_operator}", f"@overload\n{own}"]
        elif name in operators:
            parts.append(_declared(name, function, _annotations(operators[name], classes)))
        elif name in WORDS:
            parts.append(_declared(name, function, _annotations_of(function)))
        else:  # a word of NumPy's for an operator whose own name has two meanings
            kind = next(kind for kind in operators.values() if function.__doc__.startswith(f"{kind.operator_name}:"))
            parts.append(_declared(name, function, _annotations(kind, classes)))
    names = "".join(f'    "{name}",\n' for name in functions.__all__)
    imports = "".join(f"from {kind.__module__} import {kind.__name__}\n" for kind in sorted(classes, key=str))
    last = "def function_name(operator: str) -> str:\n" + _docstring(functions.function_name)
    body = "\n\n".join([*parts, last])
    return f"{_HEAD}{imports}from typing import overload\n\n__all__ = [\n{names}]\n\n{body}\n"


def _declared(name: str, function: Callable[..., Any], annotations: dict[str, str]) -> str:
    parameters = []
    keyword_only = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
            keyword_only = True
        text = f"{parameter.name}: {annotations[parameter.name]}"
        parameters.append(text if parameter.default is parameter.empty else f"{text} = {_text(parameter.default)}")
    head = f"def {name}({', '.join(parameters)}) -> {annotations['return']}:"
    if len(head) > _LINE:
        listed = "".join(f"    {parameter},\n" for parameter in parameters)
        head = f"def {name}(\n{listed}) -> {annotations['return']}:"
    return f"{head}\n{_docstring(function)}"


def _docstring(function: Callable[..., Any]) -> str:
    lines = (inspect.getdoc(function) or "").splitlines()
    text = "\n".join(_wrapped(line) for line in lines)
    return textwrap.indent(f'"""{text}\n"""' if "\n" in text else f'"""{text}"""', "    ")


def _wrapped(line: str) -> str:
    """A line of a docstring in as many as it takes, the later ones indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _text(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def _annotations_of(function: Callable[..., Any]) -> dict[str, str]:
    """Those in the source, which are not evaluated."""
    return {name: str(annotation) for name, annotation in function.__annotations__.items()}


def _annotations(kind: type[OperatorDesc], classes: set[type[enum.IntEnum]]) -> dict[str, str]:
    """By parameter of an operator's function; the classes of its enumerations are noted."""
    annotations = dict(_EVERY_FUNCTION)
    outputs = [field for field in kind.fields if field.kind == "output"]
    for field in kind.fields:
        if field.kind == "output":
            annotations[f"with_{short_name(field)}"] = "bool"
            continue
        if field.enumeration is not None:
            classes.add(field.enumeration)
        name = short_name(field) if field.kind == "input" else field.attribute
        annotations[name] = _type(field)
    for parameter in inspect.signature(
        getattr(functions, functions.function_name(kind.operator_name))
    ).parameters.values():
        if parameter.default is None and not annotations[parameter.name].endswith("None"):
            annotations[parameter.name] += " | None"
    gives_several = len(outputs) > 1 or outputs[0].type == "tensors"
    return {**annotations, "return": "tuple[Expression, ...]" if gives_several else "Expression"}


def _type(field: Field) -> str:
    if field.enumeration is not None:
        return field.enumeration.__name__
    return f"{_TYPES[field.type]} | None" if field.optional else _TYPES[field.type]


if __name__ == "__main__":
    PATH.write_text(function_stubs(), encoding="utf-8")
