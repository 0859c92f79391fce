"""Each feature level accepts what its tables list and refuses all else, naming the level that brings it.

What is expected comes from ``tests/specification``, not from the declarations that the checks read.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.operators import OPERATORS, REGULAR_OPERATORS, Field, OperatorDesc, check_operator, operator_desc
from tests.specification.facts import FEATURE_LEVELS, OperatorFacts, TensorFacts, all_facts

FACTS = {name: facts for name, facts in all_facts().items() if name in REGULAR_OPERATORS}
EACH_OPERATOR = pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))
LIMITED = {name: facts for name, facts in FACTS.items() if facts.most_effective_dimensions is not None}
EACH_LEVEL = pytest.mark.parametrize("label", FEATURE_LEVELS)
TYPES = [data_type for data_type in DataType if data_type is not DataType.UNKNOWN]


@functools.cache
def _tensor(data_type: DataType, dimensions: int) -> dml.TensorDesc:
    """With no more than two dimensions that are not of size 1: some operators take no others."""
    return dml.TensorDesc(data_type, (1,) * (dimensions - 2) + (2,) * min(dimensions, 2))


def _desc(facts: OperatorFacts, types: Mapping[str, DataType], dimensions: int) -> OperatorDesc:
    tensors = {member: _tensor(data_type, dimensions) for member, data_type in types.items()}
    fields = {field.name: field for field in OPERATORS[facts.name].fields}
    required = [m["name"] for m in facts.members if m["kind"] == "attribute" and not m["optional"]]
    attributes = {name: _attribute(fields[name], types[facts.tensors()[-1]]) for name in required}
    return operator_desc(facts.name, **tensors, **attributes)


def _attribute(field: Field, output_type: DataType) -> Any:
    if field.enumeration is not None:
        return next(iter(field.enumeration))
    if field.type == "data_type":
        # No scalar has the types that the operator does not take either.
        return output_type if 8 <= output_type.size_in_bits <= 64 and output_type is not DataType.FLOAT64 else dml.INT8
    return (0,) if field.type == "uint32_array" else 1


def _combinations(facts: OperatorFacts) -> Iterator[dict[str, DataType]]:
    """Data types for all tensors that are given, those that must agree agreeing, those that follow following.

    All data types with all others where that is not too many, else beside all that the highest level accepts. Where all
    types are such as that level accepts, optional tensors are absent too, in all combinations.
    """
    groups = _independent(facts)
    last = list(facts.support.values())[-1]
    accepted = [last[group[0]].data_types for group in groups]
    if len(groups) <= 3:
        choices: set[tuple[DataType, ...]] = set(itertools.product(TYPES, repeat=len(groups)))
    else:
        choices = {
            choice for i in range(len(groups)) for choice in itertools.product(*accepted[:i], TYPES, *accepted[i + 1 :])
        }
    optional = [member["name"] for member in facts.members if member["type"] == "tensor" and member["optional"]]
    for choice in sorted(choices):
        types = _complete(facts, dict(zip((group[0] for group in groups), choice, strict=True)))
        yield types
        if all(data_type in allowed for data_type, allowed in zip(choice, accepted, strict=True)):
            for count in range(1, len(optional) + 1):
                for absent in itertools.combinations(optional, count):
                    yield {member: types[member] for member in types if member not in absent}


def _independent(facts: OperatorFacts) -> list[list[str]]:
    """The groups of tensors that agree, and all others alone; without those that follow from others."""
    following = {rule["member"] for rule in facts.data_type_rules}
    alone = [member for member in facts.tensors() if not any(member in group for group in facts.same_data_type)]
    return [*facts.same_data_type, *([member] for member in alone if member not in following)]


def _complete(facts: OperatorFacts, chosen: Mapping[str, DataType]) -> dict[str, DataType]:
    types = {member: chosen[group[0]] for group in _independent(facts) for member in group}
    for rule in facts.data_type_rules:
        source = types[rule["source"]]
        types[rule["member"]] = DataType[rule["exceptions"].get(source.name, source.name)]
    return {member: types[member] for member in facts.tensors()}


def _expected_refusal(facts: OperatorFacts, label: str, types: Mapping[str, DataType], dimensions: int) -> str | None:
    """The message, or ``None`` when the level accepts it. Members are checked in their order, data type first."""
    table = facts.support_at(label)
    if table is None:
        first = next(iter(facts.support))
        return f"{facts.name}: needs feature level {first}; this device was opened at {label}"
    for member in facts.tensors():
        allowed = table[member]
        where = f"{facts.name}: {member}"
        if member not in types:
            if not allowed.optional:
                later = _first_level(facts, member, lambda tensor: tensor.optional).removeprefix("which needs ")
                return f"{where} is required at feature level {label}; it is optional from {later} on"
            continue
        if types[member] not in allowed.data_types:
            names = ", ".join(data_type.name for data_type in allowed.data_types)
            later = _first_level(facts, member, lambda tensor, wanted=types[member]: wanted in tensor.data_types)
            return (
                f"{where}.DataType must be one of {names} at feature level {label}; got {types[member].name}, {later}"
            )
        if not allowed.fewest <= dimensions <= allowed.most:
            fewest, most = allowed.fewest, allowed.most
            counts = str(fewest) if fewest == most else f"from {fewest} to {most}"
            later = _first_level(facts, member, lambda tensor: tensor.fewest <= dimensions <= tensor.most)
            return f"{where}.DimensionCount must be {counts} at feature level {label}; got {dimensions}, {later}"
    for *members, reference in facts.groups_at(label):
        for member in members:
            if types[member] is not types[reference]:
                return (
                    f"{facts.name}: {member}.DataType must equal {reference}.DataType {types[reference].name} at "
                    f"feature level {label}; got {types[member].name}, which needs feature level "
                    f"{facts.level_that_lifts(label)}"
                )
    return None


def _first_level(facts: OperatorFacts, member: str, has: Any) -> str:
    levels = [level for level, table in facts.support.items() if has(table[member])]
    return f"which needs feature level {levels[0]}" if levels else "which no feature level has"


def _unordered(message: str) -> tuple[str, ...]:
    """The message with its list of data types in a fixed order: the pages' order and the declarations' may differ."""
    match = re.fullmatch(r"(.* must be one of )([A-Z0-9, ]+)( at feature level .*)", message)
    return (match[1], *sorted(match[2].split(", ")), match[3]) if match else (message,)


@EACH_OPERATOR
def test_every_data_type_and_dimension_count_at_every_level(facts: OperatorFacts) -> None:
    accepted: collections.Counter[str] = collections.Counter()
    for types, dimensions in itertools.product(_combinations(facts), range(1, 9)):
        desc = _desc(facts, types, dimensions)
        for label, number in FEATURE_LEVELS.items():
            expected = _expected_refusal(facts, label, types, dimensions)
            if expected is None:
                check_operator(desc, dml.FeatureLevel(number))
                accepted[label] += 1
                continue
            with pytest.raises(UnsupportedError) as refusal:
                check_operator(desc, dml.FeatureLevel(number))
            assert _unordered(str(refusal.value)) == _unordered(expected)
    for label in FEATURE_LEVELS:
        assert accepted[label] == _accepted_combinations(facts.support_at(label), facts, label), label


def _accepted_combinations(table: Mapping[str, TensorFacts] | None, facts: OperatorFacts, label: str) -> int:
    """Counted by multiplication. A group of this level alone follows its last member."""
    if table is None:
        return 0
    following = {member for group in facts.groups_at(label) for member in group[:-1]}
    groups = [group for group in _independent(facts) if group[0] not in following]
    count = table[groups[0][0]].most - table[groups[0][0]].fewest + 1
    for group in groups:
        count *= len(table[group[0]].data_types)
    for member in facts.tensors():
        count *= 2 if table[member].optional else 1
    return count


@EACH_LEVEL
def test_a_device_enforces_the_level_that_it_was_opened_at(label: str) -> None:
    info = next(info for info in dml.list_devices() if info.usable)
    with dml.Device(info.index, feature_level=dml.FeatureLevel(FEATURE_LEVELS[label])) as device:
        assert device.feature_level.label == label
        for facts in FACTS.values():
            for types in _a_few(facts):
                for dimensions in (1, 4, 8):
                    expected = _expected_refusal(facts, label, types, dimensions)
                    desc = _desc(facts, types, dimensions)
                    if expected is None:
                        assert device.create_operator(desc).desc == desc
                    else:
                        with pytest.raises(UnsupportedError) as refusal:
                            device.create_operator(desc)
                        assert _unordered(str(refusal.value)) == _unordered(expected)


def _a_few(facts: OperatorFacts) -> Iterator[dict[str, DataType]]:
    """The types of the first and the last table's beginnings and ends."""
    tables = list(facts.support.values())
    for table in (tables[0], tables[-1]):
        for position in (0, -1):
            chosen = {group[0]: table[group[0]].data_types[position] for group in _independent(facts)}
            types = _complete(facts, chosen)
            yield types
            yield {member: t for member, t in types.items() if not tables[-1][member].optional}


# --- attributes with a least value ------------------------------------------------------------------------------------


@EACH_LEVEL
def test_least_values_of_attributes(label: str) -> None:
    members = [(facts, member) for facts in FACTS.values() for member in facts.members]
    limited = [(facts, member, member["minimum"]) for facts, member in members if "minimum" in member]
    assert [(facts.name, member["name"]) for facts, member, _ in limited] == [("ACTIVATION_SOFTPLUS", "Steepness")]
    level = dml.FeatureLevel(FEATURE_LEVELS[label])
    for facts, member, minimum in limited:
        least = minimum["value"]
        for value in (least, least + 0.5, math.inf, least - 2.0**-24, 0.0, -least, -math.inf, math.nan):
            desc = _changed(facts, member["name"], value, dimensions=4)
            if value >= least or level >= FEATURE_LEVELS[minimum["lifted_at"]]:
                check_operator(desc, level)
                continue
            with pytest.raises(UnsupportedError) as refusal:
                check_operator(desc, level)
            assert str(refusal.value) == (
                f"{facts.name}: {member['name']} must be at least {least:g} at feature level {label}; "
                f"got {value:g}, which needs feature level {minimum['lifted_at']}"
            )


# --- tensors that must agree ------------------------------------------------------------------------------------------


def _widest(facts: OperatorFacts) -> dict[str, DataType]:
    table = list(facts.support.values())[-1]
    return {member: tensor.data_types[0] for member, tensor in table.items()}


def _changed(facts: OperatorFacts, member: str, value: object, dimensions: int = 2) -> OperatorDesc:
    desc = _desc(facts, _widest(facts), dimensions)
    members = {field.name: getattr(desc, field.attribute) for field in desc.fields}
    return operator_desc(facts.name, **{**members, member: value})


def _refusal(desc: OperatorDesc) -> str:
    with pytest.raises(InvalidArgumentError) as refusal:
        check_operator(desc, dml.FeatureLevel.LEVEL_6_4)
    return str(refusal.value)


@EACH_OPERATOR
def test_data_types_that_must_agree(facts: OperatorFacts) -> None:
    table = list(facts.support.values())[-1]
    for group in facts.same_data_type:
        for member in group:
            own, other = table[member].data_types[0], table[member].data_types[1]
            message = _refusal(_changed(facts, member, _tensor(other, 2)))
            if member == group[-1]:  # the others are held against the last one
                assert (
                    message
                    == f"{facts.name}: {group[0]}.DataType must equal {member}.DataType {other.name}; got {own.name}"
                )
            else:
                last = group[-1]
                assert (
                    message
                    == f"{facts.name}: {member}.DataType must equal {last}.DataType {own.name}; got {other.name}"
                )


@EACH_OPERATOR
def test_data_types_that_follow_from_others(facts: OperatorFacts) -> None:
    table = list(facts.support.values())[-1]
    for rule in facts.data_type_rules:
        member, source = rule["member"], rule["source"]
        for source_type, data_type in itertools.product(table[source].data_types, table[member].data_types):
            types = {**_widest(facts), source: source_type, member: data_type}
            wanted = rule["exceptions"].get(source_type.name, source_type.name)
            if data_type.name == wanted:
                check_operator(_desc(facts, types, 2), dml.FeatureLevel.LEVEL_6_4)
            else:
                assert _refusal(_desc(facts, types, 2)) == (
                    f"{facts.name}: {member}.DataType must be {wanted} for {source}.DataType {source_type.name}; "
                    f"got {data_type.name}"
                )


@EACH_OPERATOR
def test_tensors_of_one_element(facts: OperatorFacts) -> None:
    """Some members may have Sizes of ones, in as many dimensions as the output; the others may not."""
    for member in facts.tensors()[:-1]:
        ones = _changed(facts, member, dml.TensorDesc(_widest(facts)[member], (1, 1)))
        if member in facts.one_element:
            check_operator(ones, dml.FeatureLevel.LEVEL_6_4)
            assert "must equal" in _refusal(_changed(facts, member, dml.TensorDesc(_widest(facts)[member], (1, 1, 1))))
            assert "must equal" in _refusal(_changed(facts, member, dml.TensorDesc(_widest(facts)[member], (2, 1))))
        elif any(member in group for group in facts.same_sizes):
            assert f"{member}.Sizes must equal" in _refusal(ones)


@EACH_OPERATOR
def test_sizes_that_must_agree(facts: OperatorFacts) -> None:
    hint = " (an input of fewer elements broadcasts by stride 0, not by size 1)"
    for group in facts.same_sizes:
        for member, sizes in itertools.product(group, [(2, 3), (1, 2), (3, 2)]):
            tensor = dml.TensorDesc(_widest(facts)[member], sizes)
            message = _refusal(_changed(facts, member, tensor))
            if member == group[-1]:
                refused, reference, wanted, got = group[0], member, list(sizes), [2, 2]
            else:
                refused, reference, wanted, got = member, group[-1], [2, 2], list(sizes)
            assert message == f"{facts.name}: {refused}.Sizes must equal {reference}.Sizes {wanted}; got {got}{hint}"


@EACH_OPERATOR
def test_dimension_counts_that_must_agree(facts: OperatorFacts) -> None:
    for group in facts.same_sizes:
        for member in group[:-1]:
            message = _refusal(_changed(facts, member, dml.TensorDesc(_widest(facts)[member], (1, 2, 2))))
            assert message == (
                f"{facts.name}: {member}.DimensionCount must equal {group[-1]}.DimensionCount 2; got 3 "
                "(Sizes [1, 2, 2] and [2, 2])"
            )


@EACH_OPERATOR
def test_owned_by_dml(facts: OperatorFacts) -> None:
    for member in facts.members:
        if member["type"] != "tensor":
            continue
        tensor = dml.TensorDesc(_widest(facts)[member["name"]], (2, 2), flags=dml.TensorFlags.OWNED_BY_DML)
        desc = _changed(facts, member["name"], tensor)
        where = f"{facts.name}: {member['name']}.Flags: "
        if member["kind"] == "output":
            assert _refusal(desc) == f"{where}OWNED_BY_DML is for input tensors only"
        else:
            check_operator(desc, dml.FeatureLevel.LEVEL_6_4)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 1, 1), (1, 2, 1, 5), (2, 1, 1, 1, 1)])
@pytest.mark.parametrize("facts", LIMITED.values(), ids=list(LIMITED))
def test_effective_dimensions(facts: OperatorFacts, sizes: tuple[int, ...]) -> None:
    """Leading dimensions of size 1 do not count; all others do."""
    types = _widest(facts)
    tensors = {member: dml.TensorDesc(data_type, sizes) for member, data_type in types.items()}
    message = (
        f"{facts.name}: {facts.tensors()[0]}.Sizes must have at most {facts.most_effective_dimensions} dimensions "
        f"behind leading ones of size 1; got {list(sizes)}"
    )
    assert _refusal(operator_desc(facts.name, **tensors)) == message
    fewer = {member: dml.TensorDesc(data_type, (1, 1, *sizes[-2:])) for member, data_type in types.items()}
    check_operator(operator_desc(facts.name, **fewer), dml.FeatureLevel.LEVEL_6_4)


AXES_OPERATORS = [name for name, facts in FACTS.items() if any(m["type"] == "uint32_array" for m in facts.members)]


def _with_axes(name: str, axes: Any, count: int | None = None) -> OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (2, 3, 4))
    return operator_desc(
        name, InputTensor=tensor, OutputTensor=tensor, AxisCount=len(axes) if count is None else count, Axes=axes
    )


@pytest.mark.parametrize("name", AXES_OPERATORS)
@pytest.mark.parametrize(
    ("axes", "count", "message"),
    [
        ((), None, "Axes must name at least one axis"),
        ((0, 1), 1, "AxisCount must be 2, the number of Axes [0, 1]; got 1"),
        ((1,), 0, "AxisCount must be 1, the number of Axes [1]; got 0"),
        ((0, 3), None, "Axes[1] must be below InputTensor.DimensionCount 3; got 3"),
        ((2**32 - 1,), None, "Axes[0] must be below InputTensor.DimensionCount 3; got 4294967295"),
        ((2, 0, 2), None, "Axes must not name an axis twice; got [2, 0, 2]"),
    ],
)
def test_axes_that_are_refused(name: str, axes: tuple[int, ...], count: int | None, message: str) -> None:
    assert _refusal(_with_axes(name, axes, count)) == f"{name}: {message}"


@pytest.mark.parametrize("name", AXES_OPERATORS)
def test_axes_in_any_order_are_accepted(name: str) -> None:
    for axes in ((0,), (2, 0), [1, 2], (2, 1, 0)):
        desc = _with_axes(name, axes)
        check_operator(desc, dml.FeatureLevel.LEVEL_6_4)
        assert desc.row_axes == tuple(sorted(axes))
        assert desc == _with_axes(name, tuple(axes))


@pytest.mark.parametrize("name", AXES_OPERATORS)
@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (1, "Axes must be a sequence of integers; got 1"),
        ("01", "Axes must be a sequence of integers; got '01'"),
        ((0, 1.0), "Axes[1] must be an integer; got 1.0"),
        ((-1,), "Axes[0] must be from 0 to 4294967295; got -1"),
    ],
)
def test_axes_of_the_wrong_type(name: str, axes: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        _with_axes(name, axes, 1)
    assert str(refusal.value) == f"{name}: {message}"
