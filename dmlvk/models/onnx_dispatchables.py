"""ONNX models among the ``dispatchables`` of a model file, and what is bound to their inputs and outputs.

As DxDispatch has it, every binding is optional: an input without one is zeros, and an output without one is dropped. A
binding's ``shape`` says what the model leaves open; an input's open sizes are 1 otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dmlvk.errors import ModelFileError
from dmlvk.models.bindings import find_resource
from dmlvk.models.json_source import JsonNode, shortened
from dmlvk.models.resources import Resource, source_path
from dmlvk.models.values import UINT32_MAX, UINT64_MAX, Members, integer, integers, string

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.onnx import InferenceSession

_LEVELS = (0, 1, 2, 3, 99)  # Of graph optimization in ONNX Runtime


@dataclasses.dataclass(frozen=True)
class OnnxBinding:
    """A resource that an input is read from, or an output written to."""

    node: JsonNode  # where it stands
    resource: Resource  # which one
    shape: tuple[int, ...] | None  # of the tensor, where the file says it


@dataclasses.dataclass(frozen=True)
class OnnxDispatchable:
    name: str  # its key in the file
    node: JsonNode  # where it stands
    path: Path  # the model's file
    sizes_by_name: Mapping[str, int]  # open sizes that are fixed, by the model's names for them
    sizes_by_denotation: Mapping[str, int]  # likewise by their denotations

    def session(self, device: Device) -> InferenceSession:
        """Loads the model.

        Raises:
            ModelFileError: with this dispatchable's place, when it cannot be loaded, or there is no onnx package.
        """
        try:
            from dmlvk.onnx import InferenceSession, SessionOptions
        except ImportError as error:
            raise self.node.error(f"the dispatchable {shortened(self.name)}: {error}") from error
        options = SessionOptions()
        for name, size in self.sizes_by_name.items():
            options.add_free_dimension_override_by_name(name, size)
        for name, size in self.sizes_by_denotation.items():
            options.add_free_dimension_override_by_denotation(name, size)
        what = f"the dispatchable {shortened(self.name)}: "
        with self.node.located(what):
            try:
                return InferenceSession(self.path, options, device=device)
            except ModelFileError as error:
                raise self.node.error(f"{what}{error}") from error


def parse_onnx(name: str, members: Members, directory: Path) -> OnnxDispatchable:
    """Reads a dispatchable of the type ``onnx``.

    Args:
        members: its members, without ``type``.
        directory: where the model file lies.

    Raises:
        ModelFileError: when it breaks a rule of the format, or there is no such file.
    """
    what = f"the dispatchable {shortened(name)}"
    path = source_path(members.required("sourcePath"), directory)
    sizes = [_sizes(members, key, what) for key in ("freeDimensionNameOverrides", "freeDimensionDenotationOverrides")]
    entries = members.optional("sessionOptionsConfigEntries")
    if entries is not None:
        for key, node in Members(entries, f"{what}: sessionOptionsConfigEntries").values.items():
            string(node, f"{what}: sessionOptionsConfigEntries: {key}")
    level = members.optional("graphOptimizationLevel")
    if level is not None and integer(level, f"{what}: graphOptimizationLevel", 0, 99) not in _LEVELS:
        raise level.error(f"{what}: graphOptimizationLevel must be one of {_LEVELS}; got {level.value}")
    logging = members.optional("loggingLevel")
    if logging is not None:
        integer(logging, f"{what}: loggingLevel", 0, 4)
    members.finish()
    return OnnxDispatchable(name, members.node, path, *sizes)


def _sizes(members: Members, key: str, what: str) -> dict[str, int]:
    node = members.optional(key)
    if node is None:
        return {}
    given = Members(node, f"{what}: {key}").values
    return {name: integer(item, f"{what}: {key}: {name}", 0, UINT32_MAX) for name, item in given.items()}


def parse_onnx_bindings(bindings: Members, resources: Mapping[str, Resource]) -> dict[str, OnnxBinding]:
    """Reads what is bound, by the names of inputs and outputs; which there are is known when the model is loaded.

    Raises:
        ModelFileError: when a binding breaks a rule of the format.
    """
    return {name: _binding(name, node, resources) for name, node in bindings.values.items()}


def _binding(name: str, node: JsonNode, resources: Mapping[str, Resource]) -> OnnxBinding:
    if isinstance(node.value, list):
        if len(node.value) != 1:
            raise node.error(f"{name}: a tensor of an ONNX model takes one resource; {len(node.value)} are bound")
        node = node.value[0]
    if isinstance(node.value, str):
        return OnnxBinding(node, find_resource(node, resources), None)
    members = Members(node, f"the binding of {name}")
    resource = find_resource(members.required("name"), resources)
    for key in ("elementSizeInBytes", "elementCount"):
        if (found := members.optional(key)) is not None:
            integer(found, key, 0, UINT64_MAX)
    if (found := members.optional("format")) is not None:
        string(found, "format")
    if (found := members.optional("elementOffset")) is not None and integer(found, "elementOffset", 0, UINT64_MAX):
        raise found.error(f"{name}: a tensor of an ONNX model begins with its resource: elementOffset must be 0")
    if (found := members.optional("counter")) is not None:
        raise found.error(f"{name}: a tensor of an ONNX model has no counter")
    shape = members.optional("shape")
    sizes = None if shape is None else tuple(integers(shape, "shape", 0, UINT32_MAX))
    members.finish()
    return OnnxBinding(node, resource, sizes or None)  # an empty one says nothing, as in DxDispatch
