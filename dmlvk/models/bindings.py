"""The ``bindings`` of dispatch commands and of dispatchables: which resources lie at which tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.resources import Resource
from dmlvk.models.values import UINT64_MAX, Members, array, integer, string, suggestion
from dmlvk.tensors import TensorDesc


@dataclasses.dataclass(frozen=True)
class ModelBindPoint:
    """A place of a dispatchable that resources are bound to."""

    name: str  # the tensor member's name, ``InputTensor``
    tensors: tuple[TensorDesc, ...]  # the tensors bound there, one for each resource
    is_output: bool  # whether they are written


@dataclasses.dataclass(frozen=True)
class Binding:
    """A range of a resource, from a byte offset to the buffer's end."""

    node: JsonNode
    resource: Resource
    offset_in_bytes: int


Bound = tuple[tuple[Binding, ...], ...]  # The bindings of each bind point; empty for one that is absent


def find_resource(node: JsonNode, resources: Mapping[str, Resource]) -> Resource:
    """The resource of a name.

    Raises:
        ModelFileError: when there is none.
    """
    name = string(node, "the name of a resource")
    if name not in resources:
        raise node.error(f"there is no resource {shortened(name)}{suggestion(name, resources)}")
    return resources[name]


def parse_bindings(
    bindings: Members, points: Sequence[ModelBindPoint | None], resources: Mapping[str, Resource]
) -> Bound:
    """Reads an object of bindings: one member for each bind point that is there.

    Raises:
        ModelFileError: when one is missing, unknown, or breaks a rule of the format.
    """
    bound: list[tuple[Binding, ...]] = []
    for point in points:
        if point is None:
            bound.append(())
            continue
        node = bindings.required(point.name)
        sources = node.value if isinstance(node.value, list) else [node]
        if len(sources) != len(point.tensors):
            raise node.error(f"{point.name} takes {len(point.tensors)} resources; {len(sources)} are bound")
        bound.append(tuple(_parse_binding(source, point.name, resources) for source in sources))
    bindings.finish()
    return tuple(bound)


def _parse_binding(node: JsonNode, point: str, resources: Mapping[str, Resource]) -> Binding:
    """A resource's name, or an object with its name and an offset in elements.

    What else the format allows in the object is for shaders and ONNX models; for operators the bound range goes from
    the offset to the buffer's end, whatever ``elementCount`` says, as in DxDispatch.
    """
    if isinstance(node.value, str):
        return Binding(node, find_resource(node, resources), 0)
    members = Members(node, f"the binding of {point}")
    resource = find_resource(members.required("name"), resources)
    size_node = members.optional("elementSizeInBytes")
    size = 0 if size_node is None else integer(size_node, "elementSizeInBytes", 0, UINT64_MAX)
    offset_node = members.optional("elementOffset")
    offset = 0 if offset_node is None else integer(offset_node, "elementOffset", 0, UINT64_MAX)
    if (stride_node := members.optional("elementStride")) is not None:
        raise stride_node.error("'elementStride' is not read by DxDispatch; write 'elementSizeInBytes'")
    if (count_node := members.optional("elementCount")) is not None:
        integer(count_node, "elementCount", 0, UINT64_MAX)
    if (format_node := members.optional("format")) is not None:
        string(format_node, "format")
    if (shape_node := members.optional("shape")) is not None:
        array(shape_node, "shape")
    if (counter_node := members.optional("counter")) is not None:
        find_resource(counter_node, resources)
    if (counter_offset_node := members.optional("counterOffsetBytes")) is not None:
        integer(counter_offset_node, "counterOffsetBytes", 0, UINT64_MAX)
    members.finish()
    if size == 0 and offset:
        if resource.element_type is None:
            raise node.error(
                f"the resource {shortened(resource.name)} has no single data type: give elementSizeInBytes"
            )
        size = resource.element_type.size_in_bytes
    if offset * size >= resource.size_in_bytes and offset:
        raise node.error(
            f"elementOffset {offset} x {size} bytes is outside the resource {shortened(resource.name)}, "
            f"which has {resource.size_in_bytes} bytes"
        )
    return Binding(node, resource, offset * size)
