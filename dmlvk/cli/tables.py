"""What ``dmlvk devices`` and ``dmlvk operators`` show: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from dmlvk.conformance.promises import promise_by_data_type, promise_text, rule_text, support_rows
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError
from dmlvk.operators import OPERATORS, Declaration, FeatureLevel, Field, OperatorDesc, Support, operators_named
from dmlvk.operators.shapes import member_text
from dmlvk.runtime.vulkan import DeviceInfo

_WIDTH_OUTSIDE_A_TERMINAL = 160


class PlainConsole(Console):
    """Plain text, as wide as the terminal; leaves broken pipes to the caller instead of exiting on its own."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False)
        if not self.is_terminal:
            self.width = _WIDTH_OUTSIDE_A_TERMINAL

    def on_broken_pipe(self) -> None:
        """Called by rich while it handles the error."""
        raise BrokenPipeError


def devices_as_json(found: Sequence[DeviceInfo]) -> list[dict[str, Any]]:
    """Every fact about every device."""
    return [dataclasses.asdict(device) for device in found]


def show_devices(found: Sequence[DeviceInfo]) -> None:
    """A table with what people choose a device by, and below it why some cannot be chosen."""
    table = Table("", "Name", "Kind", "Driver", "Vulkan", "Memory", "Largest buffer", "Usable", title="Vulkan devices")
    for device in found:
        table.add_row(
            str(device.index),
            device.name,
            device.kind,
            f"{device.driver} {device.driver_version}",
            device.api_version,
            size_text(device.memory),
            size_text(device.limits.max_storage_buffer_range),
            "yes" if device.usable else "no",
        )
    console = PlainConsole()
    console.print(table)
    for device in found:
        if not device.usable:
            console.print(f"{device.index} {device.name}: not usable: {device.unusable_reason}")
    console.print("DMLVK_DEVICE and --device take an index, a part of the name, or what is the same in every process:")
    for device in found:
        names = [("UUID", device.uuid), ("PCI address", device.pci_address)]
        given = ", ".join(f"{what} {name}" for what, name in names if name is not None)
        console.print(f"{device.index} {device.name}: {given or 'its driver tells neither UUID nor PCI address'}")


def size_text(size_in_bytes: int) -> str:
    """A number of bytes in the largest binary unit that it reaches: ``7.8 GiB``."""
    size = float(size_in_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _supported(level: FeatureLevel | None, wanted: Sequence[str]) -> list[type[OperatorDesc]]:
    """The operators that a level has (``None``: all) and that are wanted (none named: all), by name.

    Raises:
        InvalidArgumentError: when a wanted one does not exist or came with a higher level.
    """
    there = {
        name: operator
        for name, operator in sorted(OPERATORS.items())
        if level is None or operator.declaration.support[0].level <= level
    }
    chosen: set[str] = set()
    for text in wanted:
        found = there.keys() & operators_named(text)
        if not found:
            at = "" if level is None else f" at feature level {level.label}"
            raise InvalidArgumentError(f"there is no operator {text!r}{at} (see `dmlvk operators`)")
        chosen |= found
    return [operator for name, operator in there.items() if name in chosen or not wanted]


def _tables_of(declaration: Declaration, level: FeatureLevel | None) -> Sequence[Support]:
    return declaration.support if level is None else [declaration.support_at(level)]


def operators_as_json(level: FeatureLevel | None, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Operators with everything that their declarations say, by name.

    Args:
        level: only the table that holds at this level; ``None`` for all tables.
        wanted: names or patterns of operators; none: all.
    """
    return {operator.operator_name: _operator_as_json(operator, level) for operator in _supported(level, wanted)}


def _field_facts(field: Field) -> dict[str, Any]:
    facts = dataclasses.asdict(field)
    if field.enumeration is not None:
        facts["enumeration"] = {"name": field.enumeration.__name__, "members": list(field.enumeration.__members__)}
    if field.instance_of is not None:
        facts["instance_of"] = field.instance_of.__name__
    return facts


def _operator_as_json(operator: type[OperatorDesc], level: FeatureLevel | None) -> dict[str, Any]:
    declaration = operator.declaration
    names = {field.attribute: field.name for field in operator.fields}
    return {
        "class": operator.__name__,
        "formula": declaration.formula,
        "decisions": list(declaration.decisions),
        "feature_level": declaration.support[0].level.label,
        "fields": [_field_facts(field) for field in operator.fields],
        "same_sizes": [[names[member] for member in group] for group in operator.same_sizes],
        "same_data_type": [[member_text(member) for member in group] for group in operator.same_data_type],
        "data_type_rules": [
            {
                "member": names[rule.member],
                "source": names[rule.source],
                "exceptions": {source.name: wanted.name for source, wanted in rule.exceptions.items()},
            }
            for rule in declaration.data_type_rules
        ],
        "one_element": [names[member] for member in declaration.one_element],
        "in_place_inputs": [names[member] for member in declaration.in_place_inputs],
        "accuracy": {
            **dataclasses.asdict(declaration.accuracy),
            "by_data_type": {data_type.name: words for data_type, words in promise_by_data_type(operator).items()},
        },
        "support": [
            {
                "from_feature_level": table.level.label,
                "dimensions": list(table.dimensions),
                "dimensions_of": {
                    names[member]: list(table.dimensions_for(member))
                    for member in table.data_types
                    if table.dimensions_for(member) != table.dimensions
                },
                "required": [names[member] for member in table.required],
                "data_types": {names[member]: _names(types) for member, types in table.data_types.items()},
            }
            for table in _tables_of(declaration, level)
        ],
    }


def _names(data_types: Iterable[DataType]) -> list[str]:
    return [data_type.name for data_type in data_types]


def show_operators(level: FeatureLevel | None, wanted: Sequence[str] = ()) -> None:
    """For each operator its formula and promise, a table of its members, and one of what it accepts."""
    console = PlainConsole()
    for operator in _supported(level, wanted):
        declaration = operator.declaration
        console.print(operator.operator_name, style="bold")
        console.print(f"  result      {declaration.formula}", soft_wrap=True)
        console.print(f"  promise     {promise_text(operator)}")
        names = {field.attribute: field.name for field in operator.fields}
        console.print(f"  in place    {', '.join(names[member] for member in declaration.in_place_inputs) or 'no'}")
        for rule in declaration.data_type_rules:
            console.print(f"  note        {rule_text(rule, names)}")
        for decision in declaration.decisions:
            console.print(f"  note        {decision}")
        console.print(_members_table(operator))
        console.print(_support_table(declaration, names, level))
        console.print()


def _members_table(operator: type[OperatorDesc]) -> Table:
    table = Table("Member", "Kind", "Type", "Meaning")
    for field in operator.fields:
        table.add_row(field.name, field.kind, f"{field.type}{', optional' if field.optional else ''}", field.meaning)
    return table


def _support_table(declaration: Declaration, names: dict[str, str], level: FeatureLevel | None) -> Table:
    table = Table("From level", "Dimensions", "Tensors", "Data types")
    for support in _tables_of(declaration, level):
        shown = ""
        for i, (dimensions, members, types) in enumerate(support_rows(support, names)):
            level_label = support.level.label if i == 0 else ""
            table.add_row(level_label, dimensions if dimensions != shown else "", members, " ".join(_names(types)))
            shown = dimensions
    return table
