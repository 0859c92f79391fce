"""What is timed: an operator on certain tensors, and the same in PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, Field, OperatorDesc, operator_desc
from dmlvk.operators.members import directml_name
from dmlvk.tensors import TensorDesc

Array: TypeAlias = npt.NDArray[Any]
InTorch: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""The same in PyTorch: called with the module and the input tensors; gives the first output."""


@dataclasses.dataclass(frozen=True)
class Task:
    """An operator on certain tensors.

    Attributes:
        name: ``"CONVOLUTION 3x3, 32x64x56x56 -> 64"``.
        desc: the description.
        data_type: of the first tensor, or of the numbers that integers stand for.
        work: bytes that must be read and written, each once; or floating-point (or integer) operations.
        unit: of what ``work`` counts, a second.
        in_torch: the same in PyTorch, if it has it.
        indices: for inputs that are indices, by DirectML's names, what they must be below.
        permuted: whether indices along the last axis are each there once, so that their order does not matter.
        deviation: of normal numbers: as small as weights are, where others would drive a network into its limits.
        series: what tasks have in common that differ in one extent only: ``"GEMM n x n x n"``; empty: nothing.
        extent: that one, of this task.
        others: makes inputs that are none of these, by DirectML's names.
        weights: what makes numbers of packed weights, the second matrix of a GEMM: both are timed as one graph.
    """

    name: str
    desc: OperatorDesc
    data_type: DataType
    work: int
    unit: Literal["B/s", "OP/s"]
    in_torch: InTorch | None = None
    indices: Mapping[str, int] = dataclasses.field(default_factory=dict)
    permuted: bool = False
    deviation: float = 1.0
    series: str = ""
    extent: int = 0
    others: Callable[[np.random.Generator], Mapping[str, Array]] | None = None
    weights: OperatorDesc | None = None

    def reads(self) -> list[tuple[Field, TensorDesc]]:
        """The inputs that are there; of a graph those of the product first, without what the weights become."""
        found = [(field, tensor) for field, tensor in self.desc.inputs if tensor is not None]
        if self.weights is not None:
            found = [(field, tensor) for field, tensor in found if field.attribute != "b_tensor"]
            found += [(field, tensor) for field, tensor in self.weights.inputs if tensor is not None]
        return found

    def inputs(self) -> dict[str, Array]:
        """An array for each input, the same ones each time: normal numbers, or integers of the whole type."""
        random = np.random.default_rng(1)
        others = {} if self.others is None else self.others(random)
        made: dict[str, Array] = {}
        for field, tensor in self.reads():
            if field.name in others:
                made[field.name] = others[field.name]
                continue
            dtype = tensor.data_type.numpy_dtype
            if field.name in self.indices and self.permuted:
                order = random.permutation(self.indices[field.name])
                made[field.name] = np.broadcast_to(order, tensor.sizes).astype(dtype)
            elif field.name in self.indices:
                made[field.name] = random.integers(0, self.indices[field.name], tensor.sizes).astype(dtype)
            elif tensor.data_type.is_float:
                numbers = random.standard_normal(tensor.sizes, np.float32)
                made[field.name] = (numbers * np.float32(self.deviation)).astype(dtype)
            else:
                least, greatest = tensor.data_type.integer_limits
                made[field.name] = random.integers(least, greatest, tensor.sizes, dtype, endpoint=True)
        return made


def moving(words: str, desc: OperatorDesc, in_torch: InTorch | None = None, **more: Any) -> Task:
    """A task that memory limits: ``work`` are the bytes of all tensors, unless it is given."""
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
    work = more.pop("work", 0) or sum(tensor.data_type.bytes_of(tensor.element_count) for tensor in tensors)
    return Task(f"{desc.operator_name} {words}", desc, tensors[0].data_type, work, "B/s", in_torch, **more)


def images(data_type: DataType, size: int) -> tuple[int, int, int, int]:
    """Sizes of a batch of images with 64 channels, of about so many bytes."""
    side = 112
    return max(1, size // data_type.size_in_bytes // (64 * side * side)), 64, side, side


def pool_members(window: int, stride: int, pad: int) -> dict[str, Any]:
    """Of square windows."""
    pairs = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
    return {"DimensionCount": 2, **{name: (value,) * 2 for name, value in pairs.items()}}


def described(
    operator: str, data_type: DataType, inputs: Mapping[str, Sequence[int]], *outputs: Sequence[int], **members: Any
) -> OperatorDesc:
    """A description by DirectML's names, whose tensors all have one data type but those among ``members``.

    Args:
        operator: DirectML's name.
        data_type: of the tensors.
        inputs: sizes of the tensors that are read, by name.
        outputs: sizes of those that are written, in DirectML's order, but for those among ``members``.
        members: all else, but for numbers of entries.
    """
    fields = OPERATORS[operator].fields
    written = (field.name for field in fields if field.kind == "output" and field.name not in members)
    sizes = {**inputs, **dict(zip(written, outputs, strict=False))}
    members |= {name: TensorDesc(data_type, each) for name, each in sizes.items()}
    counts = {directml_name(f.counted_by): len(members[f.name]) for f in fields if f.counted_by is not None}
    return operator_desc(operator, **{**counts, **members})
