"""What a session says of its model: inputs, outputs and metadata, by ONNX Runtime's names."""

from __future__ import annotations

import dataclasses

from dmlvk.onnx.api.ort_values import type_name
from dmlvk.onnx.model.loading import ValueInfo


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or an output of a model.

    Attributes:
        name: its name.
        shape: sizes, names of sizes that differ from run to run, ``None`` for unknown ones.
        type: ``"tensor(float)"`` and so on.
    """

    name: str
    shape: list[int | str | None]
    type: str


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says of itself."""

    custom_metadata_map: dict[str, str]
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


def node_arg(info: ValueInfo) -> NodeArg:
    """What a session says of one of its inputs or outputs."""
    return NodeArg(info.name, list(info.shape or ()), type_name(info.proto.type))
