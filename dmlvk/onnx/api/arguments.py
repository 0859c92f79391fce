"""What a session says of its model: inputs, outputs and metadata, by ONNX Runtime's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from dmlvk.onnx.api.ort_values import type_name
from dmlvk.onnx.model.loading import OnnxModel, ValueInfo

if TYPE_CHECKING:
    from dmlvk.onnx.plan.dynamic_execution import DynamicRound
    from dmlvk.onnx.plan.made_rounds import MadeRound

_MOST_KNOWN = 4096
"""Elements of initializers from whose contents shapes may follow."""

_WITHOUT_INPUTS = 4
"""The version of files from which on initializers need not be inputs, too."""

_NOT_KNOWN = "unk__"
"""How names begin that the onnx package gives to sizes that it does not know."""


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


def output_args(model: OnnxModel, rounds: Sequence[MadeRound | DynamicRound] = ()) -> list[NodeArg]:
    """What a session says of its outputs: where the model is silent, what follows from its inputs by ONNX's own rules.

    So does ONNX Runtime, and programs take sizes from there. What does not follow stays as the model has it.

    Args:
        model: the model.
        rounds: what was planned or run last: where all inputs have given sizes, outputs are as they are planned.
    """
    if all(info.element is not None and info.shape and None not in info.shape for info in model.outputs):
        return [node_arg(info) for info in model.outputs]
    is_fixed = all(isinstance(size, int) for info in model.inputs for size in info.shape or (None,))
    try:  # what is computed of shapes is followed only where these are given, as ONNX Runtime does
        found = shape_inference.infer_shapes(_with_constants(model), data_prop=is_fixed).graph.output
    except (ValueError, TypeError, RuntimeError, shape_inference.InferenceError):  # the onnx package's own kinds
        return [node_arg(info) for info in model.outputs]
    own = {size for info in (*model.inputs, *model.outputs) for size in info.shape or () if isinstance(size, str)}
    planned = _planned(rounds) if is_fixed else {}
    return [_described(info, planned.get(info.name) or _sizes_of(info, own)) for info in found]


def _planned(rounds: Sequence[MadeRound | DynamicRound]) -> dict[str, Sequence[int]]:
    """The sizes of outputs that follow from those of inputs alone, as far as they were planned."""
    plan = rounds[0].plan if rounds else None
    if plan is None or plan.contents:
        return {}
    return {name: [int(size) for size in tensor.shape] for name, tensor in plan.outputs.items()}


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


def _with_constants(model: OnnxModel) -> onnx.ModelProto:
    """A model with its initializers again: the contents of those that shapes may follow from, of others the shapes."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    kept = [node for node in graph.node if not (node.op_type == "Constant" and node.output[0] in model.constants)]
    del graph.node[:]
    graph.node.extend(kept)
    given = [info for info in graph.input if info.name not in model.constants]  # of others the contents have a shape
    del graph.input[:]
    graph.input.extend(given)
    proto.ir_version = max(proto.ir_version, _WITHOUT_INPUTS)
    for name, array in model.constants.items():
        if array.size <= _MOST_KNOWN:
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        else:
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.initializer.append(TensorProto(name=name, data_type=element, dims=array.shape))
    return proto
