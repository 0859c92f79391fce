"""What callers give operators of graphs, checked before shapes are worked out from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlvk.arrays.tensor_bytes import plain_array
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.expression import Expression
from dmlvk.operators import FeatureLevel, Field, OperatorDesc
from dmlvk.operators.checks import check_dimensions
from dmlvk.operators.members import checked_member
from dmlvk.support.suggestions import suggestion
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.graphs.builder import Operand, Operands


def check_given(kind: type[OperatorDesc], tensors: Mapping[str, object], attributes: Mapping[str, object]) -> None:
    """Refuses members that the operator does not have, and missing tensors."""
    inputs = {field.attribute: field for field in kind.fields if field.kind == "input"}
    others = {field.attribute: field for field in kind.fields if field.kind == "attribute"}
    for given, known in ((tensors, inputs), (attributes, others)):
        for member in given:
            if member not in known:
                hint = suggestion(member, known) if isinstance(member, str) else ""
                has = f"; it has {', '.join(known)}" if known else ""
                raise InvalidArgumentError(f"{kind.operator_name}: has no {member!r}{hint or has}")
    for member, field in inputs.items():
        if not field.optional and tensors.get(member) is None:
            raise InvalidArgumentError(
                f"{kind.operator_name}: {member} must be an expression, an array or a number; got None"
            )


def check_mappings(operator: str, tensors: object, attributes: object) -> None:
    for what, given in (("tensors", tensors), ("attributes", {} if attributes is None else attributes)):
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(f"{operator}: {what} must be given by name, in a dict; got {given!r}")


def check_outputs_named(kind: type[OperatorDesc], what: str, names: object) -> None:
    """Refuses names of outputs that the operator does not have.

    Args:
        what: the argument, for messages.
        names: the outputs' Python names, those of arrays with an index or without.
    """
    if isinstance(names, (str, bytes)) or not isinstance(names, (Sequence, Mapping)):
        raise InvalidArgumentError(f"{kind.operator_name}: {what} must be a sequence of names; got {names!r}")
    known = [field.attribute for field in kind.fields if field.kind == "output"]
    for name in names:
        if not isinstance(name, str) or name.partition("[")[0] not in known:
            raise InvalidArgumentError(
                f"{kind.operator_name}: {what}: there is no output {name!r}; there are {', '.join(known)}"
            )


def single(kind: type[OperatorDesc], member: str, operand: Operands) -> Operand | None:
    """What is given for a tensor that is no array of tensors: a list of numbers is an array.

    Raises:
        InvalidArgumentError: when it is a list of expressions, or NumPy makes no array of it.
    """
    if isinstance(operand, (list, tuple)):
        if any(isinstance(item, Expression) for item in operand):
            raise InvalidArgumentError(
                f"{kind.operator_name}: {member} must be an expression, an array or a number; got {operand!r}"
            )
        return plain_array(operand, f"{kind.operator_name}: {member}")
    return operand  # type: ignore[return-value]  # any other sequence is refused as an operand


def flat_operands(kind: type[OperatorDesc], tensors: Mapping[str, Operands]) -> dict[str, Operand]:
    """The operands that are given, by Python name, those of arrays one by one: ``"input_tensors[1]"``.

    Raises:
        InvalidArgumentError: when one is an array of tensors and should not be, or the other way round.
    """
    flat: dict[str, Operand] = {}
    for field in kind.fields:
        operand = tensors.get(field.attribute)
        if field.kind != "input" or operand is None:
            continue
        if field.type != "tensors":
            alone = single(kind, field.attribute, operand)
            if alone is not None:
                flat[field.attribute] = alone
        elif isinstance(operand, (list, tuple)):
            flat |= {f"{field.attribute}[{number}]": item for number, item in enumerate(operand)}
        else:
            raise InvalidArgumentError(
                f"{kind.operator_name}: {field.attribute} must be a list of expressions, arrays and numbers; "
                f"got {operand!r}"
            )
    return flat


def checked_attributes(kind: type[OperatorDesc], given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes as a description will keep them, which is what shape rules expect.

    Those that follow from others, the lengths of arrays and the data types of tensors, may be missing.

    Raises:
        InvalidArgumentError: when one is missing, or has the wrong type.
    """
    checked = dict(given)
    counts = {field.counted_by for field in kind.fields}
    for field in kind.fields:
        if field.kind != "attribute":
            continue
        if field.attribute in given:
            if field.typed_by is None or field.typed_by in checked:
                checked[field.attribute] = checked_member(kind.operator_name, field, given[field.attribute], checked)
        elif not field.optional and field.attribute not in counts and field.equals is None:
            raise InvalidArgumentError(f"{kind.operator_name}: member {field.name} is required")
    return checked


def check_input_dimensions(kind: type[OperatorDesc], members: Mapping[str, Any], level: FeatureLevel) -> None:
    """Checks that inputs have as many dimensions as the operator takes, which is what shape rules expect.

    Args:
        members: TensorDescs by Python name, and lists of them.

    Raises:
        UnsupportedError: naming the tensor and the numbers.
    """
    table = kind.declaration.support_at(level)
    for field in kind.fields:
        if field.kind == "input":
            for each, tensor in _tensors_of(field, members.get(field.attribute)):
                check_dimensions(kind, each, tensor, table, level)


def _tensors_of(field: Field, value: object) -> Iterator[tuple[Field, TensorDesc]]:
    if isinstance(value, TensorDesc):
        yield field, value
    elif isinstance(value, list):
        yield from ((field.element(number), tensor) for number, tensor in enumerate(value))
