"""How operators and their members are named by people: in full, in short, by DirectML's names, several at once."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from typing import Any

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.operators.declaration import OPERATORS, OperatorDesc
from dmlvk.operators.fusion import FusedActivation
from dmlvk.operators.members import named_value
from dmlvk.operators.shapes import Draft
from dmlvk.tensors import TensorDesc

_PREFIXES = ("", "ELEMENT_WISE_", "ACTIVATION_")


def operators_named(text: str) -> list[str]:
    """The names of the operators that a text means, in the order in which they are declared.

    Args:
        text: a name or a glob (``*``, ``?``, ``[...]``), in upper or lower case, with or without ``DML_OPERATOR_``,
            ``ELEMENT_WISE_`` and ``ACTIVATION_``. A short name that two operators have, such as ``TANH``, is the one
            that is ELEMENT_WISE; a glob matches both.

    Returns:
        None at all where it means no operator.
    """
    pattern = text.upper().removeprefix("DML_OPERATOR_")
    is_glob = any(character in pattern for character in "*?[")
    found: set[str] = set()
    for prefix in _PREFIXES:
        if not is_glob and found:
            break
        found |= {name for name in OPERATORS if fnmatch.fnmatchcase(name, prefix + pattern)}
    return [name for name in OPERATORS if name in found]


def operator_desc(name: str, **members: object) -> OperatorDesc:
    """Makes a description by DirectML's own names.

    For example ``operator_desc("ELEMENT_WISE_SIGN", InputTensor=t, OutputTensor=t)``.

    Args:
        name: the operator, with or without ``DML_OPERATOR_``, or as ``DML_ELEMENT_WISE_SIGN_OPERATOR_DESC``.
        members: DirectML's member names; optional ones may be left out. Enumerations and data types may be given by
            DirectML's names, with or without their beginning, and by its numbers:
            ``"DML_ROUNDING_MODE_TOWARD_ZERO"``, ``"TOWARD_ZERO"``, 1.

    Raises:
        UnsupportedError: when dmlvk has no operator of that name.
        InvalidArgumentError: when a member is unknown, missing or of the wrong type.
    """
    desc_class = _operator(name)
    values = _by_attribute(desc_class, members)
    missing = [field.name for field in desc_class.fields if not field.optional and values.get(field.attribute) is None]
    if missing:
        raise InvalidArgumentError(f"{desc_class.operator_name}: member {missing[0]} is required")
    return desc_class(**values)


def inferred_desc(name: str, members: Mapping[str, Any], types: Mapping[str, DataType]) -> OperatorDesc:
    """A description whose outputs have the sizes that follow from its inputs, and whose arrays are counted.

    Args:
        name: the operator, ``"GEMM"``.
        members: by their Python names, but for numbers of entries; what is optional and not among them is absent.
            An output may be a tensor, sizes that do not follow, or ``None``: absent.
        types: data types of outputs by their Python names; where sizes do not follow, they are the first input's.
    """
    kind = OPERATORS[name]
    known: dict[str, Any] = {field.attribute: None for field in kind.fields if field.optional}
    known |= {f.counted_by: len(members[f.attribute]) for f in kind.fields if f.counted_by and f.attribute in members}
    for field in kind.fields:
        if field.attribute in members:
            known[field.attribute] = named_value(field, members[field.attribute], f"{name}: {field.name}")
    outputs = [field.attribute for field in kind.fields if field.kind == "output" and field.attribute in types]
    sizes = {member: known.pop(member) for member in outputs if members.get(member) is not None}
    outputs = [member for member in outputs if member not in members or member in sizes]
    if len(sizes) < len(outputs) and kind.declaration.shapes is not None:
        sizes = {**kind.declaration.shapes(Draft(name, known)), **sizes}
    alike = next((tuple(each.sizes) for each in members.values() if isinstance(each, TensorDesc)), ())
    known |= {member: TensorDesc(types[member], sizes.get(member, alike)) for member in outputs}
    return kind(**known)


def fused_activation(name: str, **members: object) -> FusedActivation:
    """Makes a fused activation by DirectML's own names: ``fused_activation("ACTIVATION_ELU", Alpha=1.0)``.

    Args:
        name: the activation, as for :func:`operator_desc`.
        members: DirectML's member names; InputTensor and OutputTensor are left out or ``None``.

    Raises:
        UnsupportedError: when dmlvk has no operator of that name.
        InvalidArgumentError: when a member is unknown, missing or of the wrong type, or a tensor is given.
    """
    desc_class = _operator(name)
    return FusedActivation(desc_class, **_by_attribute(desc_class, members))


def _operator(name: str) -> type[OperatorDesc]:
    if not isinstance(name, str):
        raise InvalidArgumentError(f"an operator's name must be a string; got {name!r}")
    short = name.removeprefix("DML_OPERATOR_").removeprefix("DML_").removesuffix("_OPERATOR_DESC")
    if short not in OPERATORS:
        raise UnsupportedError(f"{short}: dmlvk has no such operator; {other_operators(short)}")
    return OPERATORS[short]


def other_operators(name: str) -> str:
    """What may have been meant by a name that no operator has, or where those are listed that there are."""
    longer = [known for known in sorted(OPERATORS) if known.endswith(f"_{name.upper()}")]
    close = longer or difflib.get_close_matches(name.upper(), OPERATORS, 1, 0.7)
    return f"did you mean {' or '.join(close)}?" if close else "'dmlvk operators' lists those that there are"


def _by_attribute(desc_class: type[OperatorDesc], members: Mapping[str, object]) -> dict[str, Any]:
    by_name = {field.name: field for field in desc_class.fields}
    unknown = [member for member in members if member not in by_name]
    if unknown:
        raise InvalidArgumentError(
            f"{desc_class.operator_name}: has no member {unknown[0]}; its members are {', '.join(by_name)}"
        )
    return {
        by_name[member].attribute: named_value(by_name[member], value, f"{desc_class.operator_name}: {member}")
        for member, value in members.items()
    }
