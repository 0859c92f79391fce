"""What a session says of its model: inputs, outputs and metadata, by ONNX Runtime's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx

from dmlvk.onnx.api.ort_values import type_name
from dmlvk.onnx.model.loading import OnnxModel, ValueInfo

_NOT_KNOWN = "unk__"  # How names begin that the onnx package gives to sizes that it does not know


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
    return _described(info.proto, info.shape)


def output_args(model: OnnxModel, outputs: Sequence[onnx.ValueInfoProto]) -> list[NodeArg]:
    """What a session says of its outputs.

    Args:
        model: the model.
        outputs: as :func:`dmlvk.onnx.api.described.described_outputs` has them.
    """
    own = {size for info in (*model.inputs, *model.outputs) for size in info.shape or () if isinstance(size, str)}
    return [_described(info, _sizes_of(info, own)) for info in outputs]


def _described(info: onnx.ValueInfoProto, shape: Sequence[int | str | None] | None) -> NodeArg:
    return NodeArg(info.name, list(shape or ()), type_name(info.type))


def _sizes_of(info: onnx.ValueInfoProto, own: Collection[str]) -> list[int | str | None]:
    """A tensor's sizes; the names that the onnx package gives to those that it does not know are none."""
    kind = info.type
    if kind.WhichOneof("value") == "optional_type":
        kind = kind.optional_type.elem_type
    sizes: list[int | str | None] = []
    for dimension in kind.tensor_type.shape.dim:
        name = dimension.dim_param
        if dimension.HasField("dim_value"):
            sizes.append(dimension.dim_value if dimension.dim_value >= 0 else None)
        else:
            sizes.append(None if name not in own and name.startswith(_NOT_KNOWN) else name or None)
    return sizes
