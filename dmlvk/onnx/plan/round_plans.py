"""What a plan consists of: rounds, each a graph for the device and steps for ONNX's own evaluator."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dmlvk.errors import UnsupportedError
from dmlvk.onnx.model.limits import MOST_AXES, Limits
from dmlvk.onnx.model.loading import OnnxModel, Step
from dmlvk.onnx.nodes.assembly import Assembly, fills
from dmlvk.onnx.nodes.values import MOST_DIMENSIONS, NUMPY_TYPES, Array, Derived, NotOnDevice, Tensor
from dmlvk.onnx.plan.pending import Pending


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a node is computed."""

    node: str  # its name, or its first output's
    op_type: str  # its operator
    place: str  # ``"device"``; ``"host"``; ``"constant"``: computed once, when the model is planned
    reason: str = ""  # why it is not on the device, or what else is worth knowing
    # what computes it where the device does not: ``"dmlvk"``, functions whose results are the same bits on every
    # machine; ``"onnxruntime"``; ``"onnx"``, the onnx package's reference evaluator. Empty: nothing yet
    program: str = ""


@dataclasses.dataclass(frozen=True)
class Live:
    """A value that is there when a round begins, other than those that are known."""

    element: int | None  # ONNX's element type; ``None`` for what the device does not have
    shape: tuple[int, ...]  # its shape


@dataclasses.dataclass(frozen=True, eq=False)
class RoundPlan:
    """One round."""

    assembly: Assembly  # the operators of the device's graph
    outputs: dict[str, Tensor]  # what the graph gives, by the values' names
    fetched: dict[str, Tensor]  # views of inputs that the host reads, by the values' names
    host: tuple[Step, ...]  # what the host computes afterwards, in order
    rest: Pending  # what is planned when that is done
    known: dict[str, Any]  # values that are known from now on
    derived: dict[str, Derived]  # integers that follow from open sizes, by the values' names
    prelude: tuple[Step, ...]  # what the host computes of such integers, once for each set of sizes, in order
    contents: dict[str, Array]  # the contents of inputs that were looked at: the plan holds for these only
    placements: dict[int, Placement]  # where each node is computed, by its index in the model

    def leaves_the_same_as(self, other: RoundPlan) -> bool:
        """Whether the rounds behind it can be those behind another one: the same nodes, of which the same is known."""
        if not self.rest.is_same_as(other.rest):
            return False
        known, others = ({n: of.known[n] for n in filter(self.rest.reads, of.known)} for of in (self, other))
        derived, too = (set(filter(self.rest.reads, of.derived)) for of in (self, other))
        same_names = known.keys() == others.keys() and derived == too
        return same_names and all(_same(array, others[name]) for name, array in known.items())


class NotPlannedError(Exception):
    """There is no plan of the kind that is asked for, but there is one of another; the message says why."""


class NotDynamicError(NotPlannedError):
    """A plan can be made for plain sizes only."""


class ContentsNeededError(NotPlannedError):
    """A plan needs contents that are not there before the first run."""


def not_there(name: str) -> Any:
    """Stands for what reads contents, where there are none yet.

    Raises:
        ContentsNeededError: always.
    """
    raise ContentsNeededError(name)


def check_halves(tensor: Tensor) -> None:
    """Refuses views of 4-bit types that are not all of their bytes in order: nothing on the device can copy them."""
    if tensor.data_type.size_in_bits < 8 and not (tensor.is_packed and fills(tensor)):
        raise NotOnDevice(f"the device does not move elements of {tensor.data_type.name}")


def check_views(tensors: Iterable[Tensor], limits: Limits) -> None:
    """Refuses results that nothing could copy."""
    for tensor in tensors:
        check_halves(tensor)
        if 0 in tensor.shape:
            raise NotOnDevice("DirectML has no tensors without elements")
        size = math.prod(tensor.shape) * tensor.data_type.size_in_bits // 8
        if tensor.rank > MOST_AXES or size > limits.result_bytes:
            raise NotOnDevice(f"a tensor {list(tensor.shape)} of {size} bytes")
        if tensor.rank > MOST_DIMENSIONS and (axes := tensor.collapsed().rank) > MOST_DIMENSIONS:
            raise NotOnDevice(f"the device has at most {MOST_DIMENSIONS} axes; this view needs {axes}")


def refuse_host(model: str, placements: Iterable[Placement]) -> None:
    """Refuses nodes on the host."""
    refused = [item for item in placements if item.place == "host"]
    if refused:
        first = refused[0]
        more = f", and {len(refused) - 1} more nodes" if len(refused) > 1 else ""
        raise UnsupportedError(
            f"{model}: strict: node {first.node!r} ({first.op_type}) cannot run on the device: {first.reason}{more}"
        )


def viewed(array: Array, tensor: Tensor) -> Array:
    """An array as a tensor sees the same bytes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype == np.bool_ or tensor.data_type.numpy_dtype.itemsize != flat.dtype.itemsize:
        return np.lib.stride_tricks.as_strided(flat, tensor.shape, [step * flat.itemsize for step in tensor.strides])
    typed = flat.view(NUMPY_TYPES[tensor.element])
    return np.lib.stride_tricks.as_strided(typed, tensor.shape, [step * typed.itemsize for step in tensor.strides])


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    are_arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind != "O"
    return are_arrays and a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def readers_of(model: OnnxModel) -> dict[str, list[Step | None]]:
    """The nodes that read each value; ``None`` among them: it is an output of the model."""
    found: dict[str, list[Step | None]] = {}
    for step in model.steps:
        given = collections.Counter(step.proto.input)
        for name in step.reads:
            found.setdefault(name, []).extend([step] * max(given[name], 1))
    for info in model.outputs:
        found.setdefault(info.name, []).append(None)
    return found
