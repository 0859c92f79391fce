"""DirectML's rules for an operator description, checked before anything reaches a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.operators.declaration import DataTypeRule, OperatorDesc, Support
from dmlvk.operators.fusion import FusedActivation
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.members import Field, accepts_data_type, directml_name
from dmlvk.operators.shapes import check_sizes, tensor_of
from dmlvk.tensors import TensorDesc, TensorFlags, elements_overlap


def check_operator(desc: OperatorDesc, level: FeatureLevel) -> None:
    """Checks everything that DirectML's CreateOperator checks.

    Args:
        level: the feature level that the device was opened at.

    Raises:
        InvalidArgumentError: when tensors do not agree, or an output's elements overlap.
        UnsupportedError: when the level does not have the operator, a data type or a dimension count.
    """
    table = desc.declaration.support_at(level)
    if all(tensor is None for _, tensor in desc.outputs):
        names = ", ".join(field.name for field, _ in desc.outputs)
        raise InvalidArgumentError(f"{desc.operator_name}: at least one output must be given, of {names}; got none")
    tensors = {field.attribute: (field, tensor) for field, tensor in desc.inputs + desc.outputs if tensor is not None}
    for field, optional_tensor in desc.inputs + desc.outputs:
        if optional_tensor is None:
            _check_absence(desc, field, table, level)
        else:
            _check_support(desc, field, optional_tensor, table, level)
    _check_choice(desc, {name: tensor.data_type for name, (_, tensor) in tensors.items()}, table, level)
    for group in table.same_data_type:
        _check_group_of_level(desc, _members_of(group, tensors), table, level)
    for group in desc.same_data_type:
        _check_group(desc, _members_of(group, tensors), "DataType")
    for rule in desc.declaration.data_type_rules:
        if rule.member in tensors and rule.source in tensors:
            _check_data_type_rule(desc, rule, tensors[rule.member][1].data_type, tensors[rule.source][1].data_type)
    for group in desc.same_sizes:
        members = _members_of(group, tensors)
        _check_group(desc, [*(m for m in members[:-1] if not _is_one_element(desc, *m)), members[-1]], "Sizes")
    for field, tensor in tensors.values():
        _check_effective_dimensions(desc, field, tensor)
    for field in desc.fields:
        if field.counted_by is not None and getattr(desc, field.attribute) is not None:
            _check_count(desc, field, field.counted_by, getattr(desc, field.attribute))
    for field, value in desc.attributes:
        _check_attribute(desc, field, value, [tensor for _, tensor in tensors.values()])
        _check_minimum(desc.operator_name, field, value, level)
        _check_level_of_value(desc.operator_name, field, value, level)
        if field.axes_of is not None:
            _check_axes(desc, field, value)
        for fused in value if isinstance(value, tuple) else (value,):
            if isinstance(fused, FusedActivation):
                _check_fused_activation(desc, field, fused, level)
    if desc.declaration.shapes is not None:
        for member, sizes in desc.declaration.shapes(desc).items():
            if tensor_of(desc, member) is not None:
                check_sizes(desc, member, sizes, "as its inputs and attributes say")
    for field, tensor in tensors.values():
        _check_flags_and_overlap(desc, field, tensor)


def _check_count(desc: OperatorDesc, field: Field, counted_by: str, items: Sequence[object]) -> None:
    count = getattr(desc, counted_by)
    if count != len(items):
        shown = "" if field.type == "tensors" else f" {list(items)}"
        raise InvalidArgumentError(
            f"{desc.operator_name}: {directml_name(counted_by)} must be {len(items)}, the number of "
            f"{field.name}{shown}; got {count}"
        )


def _check_absence(desc: OperatorDesc, field: Field, table: Support, level: FeatureLevel) -> None:
    if field.attribute in table.required:
        later = [other.level.label for other in desc.declaration.support if field.attribute not in other.required]
        until = f"is optional from feature level {later[0]} on" if later else "is never optional"
        raise UnsupportedError(
            f"{desc.operator_name}: {field.name} is required at feature level {level.label}; it {until}"
        )


def _check_support(desc: OperatorDesc, field: Field, tensor: TensorDesc, table: Support, level: FeatureLevel) -> None:
    where = f"{desc.operator_name}: {field.name}"
    accepted = table.types_for(field)
    if tensor.data_type not in accepted:
        raise UnsupportedError(
            f"{where}.DataType must be one of {_names(accepted)} at feature level {level.label}; "
            f"got {tensor.data_type.name}{_first_level_with(desc, field, data_type=tensor.data_type)}"
        )
    check_dimensions(desc, field, tensor, table, level)


def check_dimensions(
    desc: OperatorDesc | type[OperatorDesc], field: Field, tensor: TensorDesc, table: Support, level: FeatureLevel
) -> None:
    """Checks that a tensor has as many dimensions as its operator takes.

    Args:
        desc: the description, or its class.
        table: what the operator takes at ``level``.

    Raises:
        UnsupportedError: when it has more or fewer.
    """
    fewest, most = table.dimensions_for(field.member)
    if not fewest <= tensor.dimension_count <= most:
        allowed = str(fewest) if fewest == most else f"from {fewest} to {most}"
        raise UnsupportedError(
            f"{desc.operator_name}: {field.name}.DimensionCount must be {allowed} at feature level {level.label}; "
            f"got {tensor.dimension_count}{_first_level_with(desc, field, dimensions=tensor.dimension_count)}"
        )


def _check_choice(desc: OperatorDesc, given: Mapping[str, DataType], table: Support, level: FeatureLevel) -> None:
    """Data types that depend on an attribute."""
    if table.choices is None:
        return
    attribute, choices = table.choices
    value = getattr(desc, attribute)
    choice = choices[value]
    for member, accepted in choice.data_types.items():
        if given[member] not in accepted:
            raise UnsupportedError(
                f"{desc.operator_name}: {directml_name(member)}.DataType must be one of {_names(accepted)} for "
                f"{directml_name(attribute)} {value.name} at feature level {level.label}; got {given[member].name}"
            )
    if not choice.accepts(given):
        shown = ", ".join(f"{directml_name(member)} {given[member].name}" for member in choice.data_types)
        raise InvalidArgumentError(
            f"{desc.operator_name}: DataTypes must be equal for {directml_name(attribute)} {value.name}; got {shown}"
        )


def _members_of(
    group: tuple[str, ...], tensors: Mapping[str, tuple[Field, TensorDesc]]
) -> list[tuple[Field, TensorDesc]]:
    return [given for member in group for given in tensors.values() if member in (given[0].member, given[0].attribute)]


def _check_group_of_level(
    desc: OperatorDesc, members: list[tuple[Field, TensorDesc]], table: Support, level: FeatureLevel
) -> None:
    """Data types that may only differ from a higher level on; all are held against the group's last one."""
    reference_field, reference = members[-1]
    later = next(other.level for other in desc.declaration.support if other.level > table.level)
    for field, tensor in members[:-1]:
        if tensor.data_type is not reference.data_type:
            raise UnsupportedError(
                f"{desc.operator_name}: {field.name}.DataType must equal {reference_field.name}.DataType "
                f"{reference.data_type.name} at feature level {level.label}; got {tensor.data_type.name}, which needs "
                f"feature level {later.label}"
            )


def _first_level_with(
    desc: OperatorDesc | type[OperatorDesc],
    field: Field,
    data_type: DataType | None = None,
    dimensions: int | None = None,
) -> str:
    for table in desc.declaration.support:
        fewest, most = table.dimensions_for(field.member)
        has_type = data_type is None or data_type in table.types_for(field)
        if has_type and (dimensions is None or fewest <= dimensions <= most):
            return f", which needs feature level {table.level.label}"
    return ", which no feature level has"


def _names(data_types: tuple[DataType, ...]) -> str:
    return ", ".join(data_type.name for data_type in data_types)


def _check_group(desc: OperatorDesc, members: list[tuple[Field, TensorDesc]], what: str) -> None:
    """All tensors of a group must agree with the group's last one, which is the output where there is one."""
    reference_field, reference = members[-1]
    for field, tensor in members[:-1]:
        if what == "DataType":
            agree = tensor.data_type is reference.data_type
        else:
            if tensor.dimension_count != reference.dimension_count:
                raise InvalidArgumentError(
                    f"{desc.operator_name}: {field.name}.DimensionCount must equal {reference_field.name}."
                    f"DimensionCount {reference.dimension_count}; got {tensor.dimension_count} "
                    f"(Sizes {list(tensor.sizes)} and {list(reference.sizes)})"
                )
            agree = tensor.sizes == reference.sizes
        if not agree:
            got, wanted = (
                one.data_type.name if what == "DataType" else str(list(one.sizes)) for one in (tensor, reference)
            )
            hint = " (an input of fewer elements broadcasts by stride 0, not by size 1)" if what == "Sizes" else ""
            raise InvalidArgumentError(
                f"{desc.operator_name}: {field.name}.{what} must equal {reference_field.name}.{what} {wanted}; "
                f"got {got}{hint}"
            )


def _check_data_type_rule(desc: OperatorDesc, rule: DataTypeRule, got: DataType, source_type: DataType) -> None:
    wanted = rule.wanted(source_type)
    if got is not wanted:
        raise InvalidArgumentError(
            f"{desc.operator_name}: {directml_name(rule.member)}.DataType must be {wanted.name} for "
            f"{directml_name(rule.source)}.DataType {source_type.name}; got {got.name}"
        )


def _is_one_element(desc: OperatorDesc, field: Field, tensor: TensorDesc) -> bool:
    """Whether a member holds the one element that the operator uses everywhere, in as many dimensions as the others."""
    output = next(tensor for _, tensor in desc.outputs if tensor is not None)
    return (
        field.attribute in desc.declaration.one_element
        and tensor.element_count == 1
        and tensor.dimension_count == output.dimension_count
    )


def _check_attribute(desc: OperatorDesc, field: Field, value: object, tensors: list[TensorDesc]) -> None:
    where = f"{desc.operator_name}: {field.name}"
    if isinstance(value, DataType) and field.equals is not None:
        wanted: DataType = getattr(desc, field.equals).data_type
        if value is not wanted:
            raise InvalidArgumentError(
                f"{where} must equal {directml_name(field.equals)}.DataType {wanted.name}; got {value.name}"
            )
    for tensor in tensors:
        if value is not None and not accepts_data_type(field, tensor.data_type):
            raise UnsupportedError(f"{where} cannot be given for tensors of {tensor.data_type.name}")


def _check_minimum(where: str, field: Field, value: Any, level: FeatureLevel) -> None:
    minimum = field.minimum
    if minimum is not None and level < minimum.lifted_at and not value >= minimum.value:
        raise UnsupportedError(
            f"{where}: {field.name} must be at least {minimum.value:g} at feature level {level.label}; "
            f"got {value:g}, which needs feature level {minimum.lifted_at.label}"
        )


def _check_level_of_value(where: str, field: Field, value: Any, level: FeatureLevel) -> None:
    needed = dict(field.since).get(value) if field.since else None
    if needed is not None and level < needed:
        raise UnsupportedError(
            f"{where}: {field.name} cannot be {value.name} at feature level {level.label}; it needs {needed.label}"
        )


def _check_effective_dimensions(desc: OperatorDesc, field: Field, tensor: TensorDesc) -> None:
    most = desc.declaration.most_effective_dimensions
    effective = list(itertools.dropwhile(lambda size: size == 1, tensor.sizes))
    if most is not None and len(effective) > most:
        raise InvalidArgumentError(
            f"{desc.operator_name}: {field.name}.Sizes must have at most {most} dimensions behind leading ones of "
            f"size 1; got {list(tensor.sizes)}"
        )


def _check_fused_activation(desc: OperatorDesc, field: Field, fused: FusedActivation, level: FeatureLevel) -> None:
    where = f"{desc.operator_name}: {field.name}"
    if fused.operator_name not in field.fusable:
        raise UnsupportedError(
            f"{where} cannot be {fused.operator_name}; the operators that may be fused are {', '.join(field.fusable)}"
        )
    needed = dict(field.fusable_from).get(fused.operator_name)
    if needed is not None and level < needed:
        raise UnsupportedError(
            f"{where} cannot be {fused.operator_name} at feature level {level.label}; it needs feature level "
            f"{needed.label}"
        )
    try:
        table = fused.activation.declaration.support_at(level)
    except UnsupportedError as error:
        raise UnsupportedError(f"{where}: {error}") from error
    output = next(field.attribute for field in fused.activation.fields if field.kind == "output")
    accepted = table.data_types[output]
    if desc.output_type not in accepted:
        raise UnsupportedError(
            f"{where}: {fused.operator_name} must have results of {_names(accepted)} at feature level {level.label}; "
            f"got {desc.output_type.name}"
        )
    for member, value in fused.attributes:
        _check_minimum(f"{where}: {fused.operator_name}", member, value, level)


def _check_axes(desc: OperatorDesc, field: Field, axes: tuple[int, ...]) -> None:
    where = f"{desc.operator_name}: {field.name}"
    assert field.axes_of is not None  # what makes it axes
    tensor: TensorDesc = getattr(desc, field.axes_of)
    if not axes:
        raise InvalidArgumentError(f"{where} must name at least one axis")
    for i, axis in enumerate(axes):
        if axis >= tensor.dimension_count:
            raise InvalidArgumentError(
                f"{where}[{i}] must be below {directml_name(field.axes_of)}.DimensionCount {tensor.dimension_count}; "
                f"got {axis}"
            )
    if len(set(axes)) < len(axes):
        raise InvalidArgumentError(f"{where} must not name an axis twice; got {list(axes)}")


def _check_flags_and_overlap(desc: OperatorDesc, field: Field, tensor: TensorDesc) -> None:
    where = f"{desc.operator_name}: {field.name}"
    if field.kind == "output" and tensor.flags & TensorFlags.OWNED_BY_DML:
        raise InvalidArgumentError(f"{where}.Flags: OWNED_BY_DML is for input tensors only")
    # DirectML's pages leave outputs with overlapping elements open; the order of their writes would decide the result.
    if field.kind == "output" and elements_overlap(tensor.sizes, tensor.element_strides):
        raise InvalidArgumentError(
            f"{where}.Strides must give every element of an output a place of its own; "
            f"got Sizes {list(tensor.sizes)} with Strides {list(tensor.element_strides)}"
        )
