"""The data types and the common shape of an operator's operands in a graph, numbers and arrays among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.conversion import converted
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression, shape_text
from dmlvk.operators import Field, OperatorDesc

_OUTPUT_TYPES = (DataType.UINT8, DataType.FLOAT32)
"""The data types of outputs that no input decides, as DirectMLX has them: the first one that the operator has."""


def data_type_of(array: npt.NDArray[Any]) -> DataType:
    """The data type of a constant that is given without one."""
    name = "UINT8" if array.dtype == np.bool_ else array.dtype.name.upper()
    if name not in DataType.__members__:
        raise InvalidArgumentError(f"Graph.constant: no tensor has elements of dtype {array.dtype}")
    return DataType[name]


def gives_truths(kind: type[OperatorDesc]) -> bool:
    """Whether an operator's results are 0 and 1."""
    return kind.operator_name.startswith(("ELEMENT_WISE_LOGICAL_", "ELEMENT_WISE_IS_"))


def shares_sizes(kind: type[OperatorDesc], member: str) -> bool:
    outputs = {field.attribute for field in kind.fields if field.kind == "output"}
    return any(member in group and outputs & set(group) for group in kind.same_sizes)


def common_sizes(kind: type[OperatorDesc], expressions: Mapping[str, Expression]) -> tuple[int, ...]:
    sharing = {member: e for member, e in expressions.items() if shares_sizes(kind, member)} or dict(expressions)
    rank = max((len(e.sizes) for e in sharing.values()), default=1)
    common = [1] * rank
    for member, expression in sharing.items():
        padded = (1,) * (rank - len(expression.sizes)) + expression.sizes
        for axis, size in enumerate(padded):
            if size != 1 and common[axis] not in (1, size):
                others = ", ".join(f"{m} {shape_text(e.sizes)}" for m, e in sharing.items())
                raise InvalidArgumentError(
                    f"{kind.operator_name}: the shapes do not broadcast: {others} (axis {axis}: {common[axis]} and "
                    f"{size} of {member})"
                )
            common[axis] = max(common[axis], size)
    return tuple(common)


_DEFAULT_TYPES = (np.dtype(np.float64), np.dtype(np.int64))
"""What NumPy takes for Python's numbers, and where it is told nothing: no wish of the caller's."""


def fitting(
    kind: type[OperatorDesc],
    member: str,
    array: npt.NDArray[Any],
    known: Mapping[str, Expression],
    output_type: DataType | None,
) -> npt.NDArray[Any]:
    """An array of one of NumPy's default types in the one that it must agree with, where no value changes."""
    if array.dtype not in _DEFAULT_TYPES:
        return array
    attribute = member.partition("[")[0]
    wanted = _agreed_type(kind, attribute, known, output_type)
    accepted = kind.declaration.support[-1].data_types[attribute]
    if wanted is None and known and not any(each.numpy_dtype == array.dtype for each in accepted):
        first = next(iter(known.values())).data_type
        wanted = first if first in accepted else None
    if wanted is None or wanted.size_in_bits < 8 or wanted.numpy_dtype == array.dtype:
        return array
    return converted(array, wanted.numpy_dtype, f"{kind.operator_name}: {member}")


def _agreed_type(
    kind: type[OperatorDesc], member: str, known: Mapping[str, Expression], output_type: DataType | None
) -> DataType | None:
    for group in kind.same_data_type:
        if member in group:
            for other in group:
                if other in known:
                    return known[other].data_type
            outputs = {field.attribute for field in kind.fields if field.kind == "output"}
            if output_type is not None and outputs & set(group):
                return output_type
    return None


def type_beside(
    kind: type[OperatorDesc], member: str, known: Mapping[str, Expression], output_type: DataType | None
) -> DataType:
    """The data type of a number among the operands: that of the tensors which it must agree with."""
    agreed = _agreed_type(kind, member, known, output_type)
    if agreed is not None:
        return agreed
    for rule in kind.declaration.data_type_rules:
        if rule.member == member and rule.source in known:
            return rule.wanted(known[rule.source].data_type)
    accepted = kind.declaration.support[-1].data_types[member]
    if len(accepted) == 1:
        return accepted[0]
    if known:
        first = next(iter(known.values())).data_type
        if first in accepted:
            return first
    raise InvalidArgumentError(
        f"{kind.operator_name}: a number does not tell the data type of {member}: give graph.constant(number, type)"
    )


def output_type_of(
    kind: type[OperatorDesc], output: Field, members: Mapping[str, Any], wanted: DataType | None
) -> DataType:
    """The data type of the output: that of the inputs that it must agree with, else the one that is asked for."""
    for group in kind.same_data_type:
        if output.attribute in group:
            agreeing: list[DataType] = [members[member].data_type for member in group if member in members]
            if agreeing:
                if wanted not in (None, agreeing[0]):
                    raise InvalidArgumentError(
                        f"{kind.operator_name}: the output is {agreeing[0].name}, as its inputs are; got {wanted}"
                    )
                return agreeing[0]
    if wanted is not None:
        return wanted
    accepted = kind.declaration.support[-1].data_types[output.attribute]
    return next((data_type for data_type in _OUTPUT_TYPES if data_type in accepted), accepted[0])
