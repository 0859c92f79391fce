"""The outputs of an operator in a graph: their sizes by its shape rule, their data types by its declaration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.operators import Field, OperatorDesc
from dmlvk.operators.declaration import TypeChoice
from dmlvk.operators.shapes import Draft, member_text
from dmlvk.support.integers import checked_integers
from dmlvk.tensors import TensorDesc

_USUAL_TYPES = (DataType.UINT8, DataType.UINT32, DataType.FLOAT32)
"""The data types of outputs that nothing decides: the first one that the operator has."""


@dataclasses.dataclass(frozen=True)
class WantedOutputs:
    # of all of them that inputs do not decide, or by Python name
    data_type: DataType | Mapping[str, DataType] | None = None
    # of the only one whose sizes nothing decides, or by Python name
    sizes: Sequence[int] | Mapping[str, Sequence[int]] | None = None
    strides: Sequence[int] | None = None  # of the only output; ``None``: packed
    optional: tuple[str, ...] = ()  # the optional ones that are wanted, by Python name


def complete_members(kind: type[OperatorDesc], members: dict[str, Any]) -> None:
    """Fills in what follows from other members: the lengths of arrays, and optional ones that are absent.

    Args:
        members: by Python name, what was given; lengths and ``None`` are added.
    """
    for field in kind.fields:
        if field.counted_by is not None and members.get(field.counted_by) is None and field.attribute in members:
            members[field.counted_by] = length_of(members[field.attribute])
        if field.kind == "attribute" and field.optional:
            members.setdefault(field.attribute, None)


def complete_types(kind: type[OperatorDesc], members: dict[str, Any], outputs: Mapping[str, Any]) -> None:
    """Fills in the members that repeat the data type of a tensor, where nothing else was said.

    Args:
        members: by Python name; data types are added.
        outputs: tensors that are not among the members.
    """
    for field in kind.fields:
        if field.type == "data_type" and field.equals is not None and members.get(field.attribute) is None:
            tensor = outputs.get(field.equals) or members.get(field.equals)
            members[field.attribute] = tensor.data_type if isinstance(tensor, TensorDesc) else None


def length_of(items: object) -> int:
    """How many items an array has that another member counts: none where it is ``None``.

    1 where it is no array: the member's own check has words for it, and this is none that is in its way.
    """
    try:
        return 0 if items is None else len(items)  # type: ignore[arg-type]  # what has no length is dealt with here
    except TypeError:
        return 1


def made_outputs(kind: type[OperatorDesc], members: Mapping[str, Any], wanted: WantedOutputs) -> dict[str, Any]:
    """The output tensors of an operator, by Python name: a TensorDesc, a list for an array, ``None`` for an absent one.

    Args:
        members: all of its other members, by Python name.

    Raises:
        InvalidArgumentError: when shapes do not fit, or sizes or types are missing.
    """
    given = _given_sizes(kind, wanted)
    drafted = {member: _Sized(sizes) for member, sizes in given.items()}
    outputs = [field for field in kind.fields if field.kind == "output"]
    shown = {f.attribute: [drafted[k] for k in drafted if k.startswith(f"{f.attribute}[")] or None for f in outputs}
    rule = kind.declaration.shapes
    known = dict(given)
    if rule is not None:
        known |= {m: tuple(s) for m, s in rule(Draft(kind.operator_name, {**members, **shown, **drafted})).items()}
    made: dict[str, Any] = {}
    for field in outputs:
        if field.type == "tensors":
            numbers = [key for key in known if key.startswith(f"{field.attribute}[")]
            made[field.attribute] = [_tensor(kind, field, members, made, known[key], wanted) for key in numbers]
        elif field.optional and field.attribute not in wanted.optional:
            made[field.attribute] = None
        else:
            sizes = known.get(field.attribute) or _common_sizes(kind, field, members)
            if sizes is None:
                raise InvalidArgumentError(
                    f"{kind.operator_name}: nothing tells the sizes of {member_text(field.attribute)}: "
                    "give output_sizes"
                )
            made[field.attribute] = _tensor(kind, field, members, made, sizes, wanted)
    return made


@dataclasses.dataclass(frozen=True)
class _Sized:
    """What is known of an output while its shape rule runs."""

    sizes: tuple[int, ...]

    @property
    def dimension_count(self) -> int:
        return len(self.sizes)


def _given_sizes(kind: type[OperatorDesc], wanted: WantedOutputs) -> dict[str, tuple[int, ...]]:
    if wanted.sizes is None:
        return {}
    if isinstance(wanted.sizes, Mapping):
        return {member: _checked_sizes(kind, sizes) for member, sizes in wanted.sizes.items()}
    required = [field for field in kind.fields if field.kind == "output" and not field.optional]
    if len(required) != 1 or required[0].type == "tensors":
        raise InvalidArgumentError(f"{kind.operator_name}: has several outputs: give output_sizes by their names")
    return {required[0].attribute: _checked_sizes(kind, wanted.sizes)}


def _checked_sizes(kind: type[OperatorDesc], sizes: object) -> tuple[int, ...]:
    return tuple(checked_integers(sizes, f"{kind.operator_name}: output_sizes", 1, 2**32 - 1))


def _common_sizes(kind: type[OperatorDesc], field: Field, members: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The sizes of the tensors that must agree with an output."""
    for group in kind.same_sizes:
        if field.attribute in group:
            for member in group:
                if isinstance(members.get(member), TensorDesc):
                    return tuple(members[member].sizes)
    return None


def _tensor(
    kind: type[OperatorDesc],
    field: Field,
    members: Mapping[str, Any],
    made: Mapping[str, Any],
    sizes: Sequence[int],
    wanted: WantedOutputs,
) -> TensorDesc:
    data_type = _data_type(kind, field, {**members, **made}, wanted.data_type)
    return TensorDesc(data_type, tuple(sizes), wanted.strides)


def _data_type(
    kind: type[OperatorDesc], field: Field, members: Mapping[str, Any], wanted: DataType | Mapping[str, DataType] | None
) -> DataType:
    """That of the tensors and attributes which decide it, else the one that is asked for, else a usual one."""
    for group in kind.same_data_type:
        if field.attribute in group:
            for member in group:
                for tensor in _tensors_named(members, member):
                    return tensor.data_type
    for rule in kind.declaration.data_type_rules:
        if rule.member == field.attribute:
            for tensor in _as_tensors(members.get(rule.source)):
                return rule.wanted(tensor.data_type)
    for attribute in kind.fields:
        if attribute.equals == field.attribute and isinstance(members.get(attribute.attribute), DataType):
            decided: DataType = members[attribute.attribute]
            return decided
    chosen = wanted.get(field.attribute) if isinstance(wanted, Mapping) else wanted
    accepted = kind.declaration.support[-1].data_types[field.attribute]
    if chosen is not None and (isinstance(wanted, Mapping) or chosen in accepted):
        return chosen
    choice = _choice(kind, members)
    if choice is not None and field.attribute in choice.data_types:
        for member in choice.data_types if choice.are_same else ():
            for tensor in _tensors_named(members, member):
                return tensor.data_type
        accepted = choice.data_types[field.attribute]
    return next((data_type for data_type in _USUAL_TYPES if data_type in accepted), accepted[0])


def _choice(kind: type[OperatorDesc], members: Mapping[str, Any]) -> TypeChoice | None:
    """The data types of the operator with the value that an attribute has, where one decides: REDUCE's Function."""
    choices = kind.declaration.support[-1].choices
    return None if choices is None else choices[1].get(members.get(choices[0]))


def _tensors_named(members: Mapping[str, Any], member: str) -> Sequence[TensorDesc]:
    """Those of a member, or one of an array: ``"quantization_tensors[1]"``; none where it is not known."""
    name, bracket, index = member.partition("[")
    tensors = _as_tensors(members.get(name))
    return tensors[int(index[:-1]) :][:1] if bracket else tensors


def _as_tensors(value: object) -> Sequence[TensorDesc]:
    if isinstance(value, TensorDesc):
        return (value,)
    return value if isinstance(value, (list, tuple)) and value and isinstance(value[0], TensorDesc) else ()
