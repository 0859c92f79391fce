"""The ``commands`` of a model file, as the file states them: dispatch, print, writeFile and dmlvk's own ``expect``.

``expect`` compares a resource with known values. DxDispatch has no such command; everything else in a file that uses it
stays as the tool reads it. Its form::

    { "type": "expect", "resource": "Out", "values": [1, 0, 1] }
    { "type": "expect", "resource": "Out", "values": { "valueCount": 64, "value": 0.5 }, "ulp": 1 }
    { "type": "expect", "resource": "Out", "sourcePath": "out.npy", "atol": 1e-6 }
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from dmlvk.datatypes import DataType
from dmlvk.models import images
from dmlvk.models.bindings import Binding, find_resource, parse_bindings
from dmlvk.models.dispatchables import ModelDispatchable
from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.onnx_dispatchables import OnnxBinding, OnnxDispatchable, parse_onnx_bindings
from dmlvk.models.resources import NpyValues, RawValues, Resource, Values, parse_values, source_path
from dmlvk.models.values import UINT32_MAX, Members, boolean, integer, integers, real, string, suggestion


@dataclasses.dataclass(frozen=True)
class DispatchCommand:
    """Runs a dispatchable; one tuple of bindings for each of its bind points, empty for an absent optional tensor."""

    node: JsonNode
    dispatchable: ModelDispatchable
    bindings: tuple[tuple[Binding, ...], ...]


@dataclasses.dataclass(frozen=True)
class OnnxDispatchCommand:
    """Runs an ONNX model; what is bound, by the names of its inputs and outputs."""

    node: JsonNode
    dispatchable: OnnxDispatchable
    bindings: Mapping[str, OnnxBinding]


@dataclasses.dataclass(frozen=True)
class PrintCommand:
    """Prints a resource's values, in one line or (verbose) one value in a line with its bits."""

    node: JsonNode
    resource: Resource
    is_verbose: bool


@dataclasses.dataclass(frozen=True)
class WriteFileCommand:
    """Writes a resource to ``target`` below the output directory; ``dimensions`` may be empty."""

    node: JsonNode
    resource: Resource
    target: Path
    dimensions: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How far a value may lie from the expected one: ``kind`` "exact", or within ``amount`` by another measure."""

    kind: Literal["exact", "ulp", "atol", "rtol"]
    amount: float = 0.0


@dataclasses.dataclass(frozen=True)
class ExpectCommand:
    """Compares a resource's values with ``values``."""

    node: JsonNode
    resource: Resource
    values: Values
    tolerance: Tolerance


Command = DispatchCommand | OnnxDispatchCommand | PrintCommand | WriteFileCommand | ExpectCommand


@dataclasses.dataclass(frozen=True)
class CommandNames:
    """What commands may refer to, and where the model file lies."""

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, ModelDispatchable | OnnxDispatchable]
    directory: Path


def parse_command(node: JsonNode, index: int, names: CommandNames) -> Command:
    """Reads one element of ``commands``.

    Raises:
        ModelFileError: when it breaks a rule of the format, or names something that is not there.
    """
    members = Members(node, f"commands[{index}]")
    type_node = members.required("type")
    name = string(type_node, f"commands[{index}]: type")
    parser = _PARSERS.get(name.lower())
    if parser is None:
        close = suggestion(name, ("dispatch", "print", "writeFile", "expect"))
        raise type_node.error(f"commands[{index}]: unknown command {shortened(name)}{close}")
    return parser(members, names)


def _parse_dispatch(members: Members, names: CommandNames) -> DispatchCommand | OnnxDispatchCommand:
    name_node = members.required("dispatchable")
    name = string(name_node, "dispatchable")
    if name not in names.dispatchables:
        raise name_node.error(f"there is no dispatchable {shortened(name)}{suggestion(name, names.dispatchables)}")
    dispatchable = names.dispatchables[name]
    groups = members.optional("threadGroupCount")
    if groups is not None and len(integers(groups, "threadGroupCount", 1)) != 3:  # operators choose their own
        raise groups.error("threadGroupCount must have 3 elements")
    bindings = Members(members.required("bindings"), "bindings")
    if isinstance(dispatchable, OnnxDispatchable):
        members.finish()
        return OnnxDispatchCommand(members.node, dispatchable, parse_onnx_bindings(bindings, names.resources))
    bound = parse_bindings(bindings, dispatchable.bind_points, names.resources)
    members.finish()
    return DispatchCommand(members.node, dispatchable, bound)


def _parse_print(members: Members, names: CommandNames) -> PrintCommand:
    resource = find_resource(members.required("resource"), names.resources)
    verbose_node = members.optional("verbose")
    verbose = verbose_node is not None and boolean(verbose_node, "verbose")
    members.finish()
    return PrintCommand(members.node, resource, verbose)


def _parse_write_file(members: Members, names: CommandNames) -> WriteFileCommand:
    resource = find_resource(members.required("resource"), names.resources)
    target_node = members.required("targetPath")
    target = _target_path(target_node)
    dimensions_node = members.optional("dimensions")
    dimensions = () if dimensions_node is None else integers(dimensions_node, "dimensions", 1, UINT32_MAX)
    members.finish()
    if images.is_picture(target):
        dimensions = _picture_dimensions(target_node, dimensions_node, resource, dimensions)
    elif target.suffix.lower() == ".npy" and resource.is_mixed:
        raise target_node.error(
            f"the resource {shortened(resource.name)} has no single data type: write it to a raw file"
        )
    if dimensions_node is not None and resource.element_type is not None and not resource.is_deferred:
        size = math.prod(dimensions) * resource.element_type.size_in_bytes
        if size > resource.size_in_bytes:
            raise dimensions_node.error(
                f"dimensions {list(dimensions)} need {size} bytes of {resource.element_type.name}; the resource "
                f"{shortened(resource.name)} has {resource.size_in_bytes}"
            )
    return WriteFileCommand(members.node, resource, target, dimensions)


def _target_path(node: JsonNode) -> Path:
    """A path that stays below the output directory: a model file from elsewhere must not write just anywhere."""
    name = string(node, "targetPath")
    target = Path(name.replace("\\", "/"))
    if not name or "\0" in name or not target.name:
        raise node.error(f"targetPath must name a file; got {shortened(name)}")
    if target.is_absolute() or target.drive or ".." in target.parts:
        raise node.error(f"targetPath must stay inside the output directory; got {shortened(name)}")
    return target


def _picture_dimensions(
    target_node: JsonNode, dimensions_node: JsonNode | None, resource: Resource, dimensions: tuple[int, ...]
) -> tuple[int, ...]:
    if resource.element_type not in images.DATA_TYPES:
        accepted = ", ".join(accepted.name for accepted in images.DATA_TYPES)
        given = "a mixed list" if resource.element_type is None else resource.element_type.name
        raise target_node.error(
            f"a picture is written from {accepted}; the resource {shortened(resource.name)} is {given}"
        )
    if dimensions_node is None:
        if resource.sizes is None:
            raise target_node.error('a picture needs its dimensions: add "dimensions": [1, C, H, W]')
        dimensions = resource.sizes
    with (dimensions_node or target_node).located("dimensions: "):
        shape = images.PictureShape.from_sizes(dimensions)
        images.check_channels(Path(str(target_node.value)), shape)
    return dimensions


def _parse_expect(members: Members, names: CommandNames) -> ExpectCommand:
    resource_node = members.required("resource")
    resource = find_resource(resource_node, names.resources)
    if resource.element_type is None:
        raise resource_node.error(f"the resource {shortened(resource.name)} has no single data type to compare by")
    if resource.element_type is DataType.UNKNOWN:
        raise resource_node.error(
            f"the resource {shortened(resource.name)} is deferred: say its initialValuesDataType to compare with it"
        )
    values, values_node = _expected_values(members, resource.element_type, names.directory)
    tolerance = _parse_tolerance(members, resource.element_type)
    members.finish()
    wanted = resource.element_count * resource.element_type.size_in_bytes
    if values.size_in_bytes != wanted and not resource.is_deferred:
        raise values_node.error(
            f"the resource {shortened(resource.name)} has {resource.element_count} values; "
            f"{values.size_in_bytes // resource.element_type.size_in_bytes} are expected"
        )
    return ExpectCommand(members.node, resource, values, tolerance)


def _expected_values(members: Members, element_type: DataType, directory: Path) -> tuple[Values, JsonNode]:
    given = [name for name in ("values", "sourcePath") if name in members]
    if len(given) != 1:
        raise members.node.error("expect needs either 'values' or 'sourcePath'")
    node = members.required(given[0])
    if given[0] == "values":
        values, _ = parse_values(node, element_type, directory, "values")
        if isinstance(values, RawValues):
            raise node.error("values: a file to compare with must be a .npy file")
        return values, node
    path = source_path(node, directory)
    if path.suffix.lower() != ".npy":
        raise node.error("sourcePath: a file to compare with must be a .npy file")
    with node.located("sourcePath: "):
        return NpyValues.open(path, element_type), node


def _parse_tolerance(members: Members, element_type: DataType) -> Tolerance:
    given = [name for name in ("ulp", "atol", "rtol") if name in members]
    if not given:
        return Tolerance("exact")
    node = members.required(given[0])
    if len(given) > 1:
        raise members.node.key_error(
            given[1], f"expect takes one of 'ulp', 'atol' and 'rtol'; it has {', '.join(given)}"
        )
    if given[0] == "ulp":
        return Tolerance("ulp", integer(node, "ulp", 0, UINT32_MAX))
    amount = real(node, given[0])
    if not (math.isfinite(amount) and amount >= 0):
        raise node.error(f"{given[0]} must be a finite number, at least 0; got {node.kind}")
    return Tolerance("atol" if given[0] == "atol" else "rtol", amount)


_PARSERS: dict[str, Callable[[Members, CommandNames], Command]] = {
    "dispatch": _parse_dispatch,
    "print": _parse_print,
    "writefile": _parse_write_file,
    "expect": _parse_expect,
}
"""The commands by their names in lower case: DxDispatch does not mind the case of these."""
