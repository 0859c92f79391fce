"""What is timed: an operator on certain tensors, and the same in other libraries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.tensor_bytes import has_views, lay_out
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, Field, OperatorDesc
from dmlvk.operators.naming import inferred_desc
from dmlvk.tensors import TensorDesc, packed_strides

Array: TypeAlias = npt.NDArray[Any]
InTorch: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""The same in PyTorch: called with the module and the input tensors; gives the first output."""


@dataclasses.dataclass(frozen=True)
class Task:
    name: str  # ``"CONVOLUTION 3x3, 32x64x56x56 -> 64"``
    desc: OperatorDesc  # the description
    data_type: DataType  # of the first tensor, or of the numbers that integers stand for
    work: int  # bytes that must be read and written, each once; or floating-point (or integer) operations
    unit: Literal["B/s", "OP/s"]  # of what ``work`` counts, a second
    in_torch: InTorch | None = None  # the same in PyTorch, if it has it
    # for inputs that are indices, by DirectML's names, what they must be below
    indices: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # whether indices along the last axis are each there once, so that their order does not matter
    permuted: bool = False
    # of normal numbers: as small as weights are, where others would drive a network into its limits
    deviation: float = 1.0
    series: str = ""  # what tasks have in common that differ in one extent only: ``"GEMM n x n x n"``; empty: nothing
    extent: int = 0  # that one, of this task
    # makes inputs that are none of these, by DirectML's names
    others: Callable[[np.random.Generator], Mapping[str, Array]] | None = None
    # what makes numbers of packed weights, the second matrix of a GEMM: both are timed as one graph
    weights: OperatorDesc | None = None
    layout: str = ""  # of an element-wise operator's tensors
    # of an element-wise operator: values of its inputs, by DirectML's names, from and to
    domains: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, float] = dataclasses.field(default_factory=dict)  # its numbers, by name
    judged: Task | None = None  # the same on few elements, by whose results the operator's promise is checked

    @property
    def operator_name(self) -> str:
        return self.desc.operator_name

    def reads(self) -> list[tuple[Field, TensorDesc]]:
        """The inputs that are there; of a graph those of the product first, without what the weights become."""
        found = [(field, tensor) for field, tensor in self.desc.inputs if tensor is not None]
        if self.weights is not None:
            found = [(field, tensor) for field, tensor in found if field.attribute != "b_tensor"]
            found += [(field, tensor) for field, tensor in self.weights.inputs if tensor is not None]
        return found

    def inputs(self) -> dict[str, Array]:
        """An array for each input, the same ones each time, with the tensor's strides; see :func:`in_memory`."""
        random = np.random.default_rng(1)
        others = {} if self.others is None else self.others(random)
        made: dict[str, Array] = {}
        for field, tensor in self.reads():
            if field.name in others:
                made[field.name] = others[field.name]
                continue
            values = self._values(field, tensor, random)
            steps = tensor.element_strides if has_views(tensor) else packed_strides(tensor.sizes)
            made[field.name] = np.lib.stride_tricks.as_strided(
                values, tensor.sizes, [step * values.itemsize for step in steps]
            )
        return made

    def _values(self, field: Field, tensor: TensorDesc, random: np.random.Generator) -> Array:
        """An input's elements as they lie in memory: of its domain, indices, normal numbers, or any integers."""
        dtype, count = tensor.data_type.numpy_dtype, tensor.span_in_elements
        if field.name in self.domains:
            low, high = self.domains[field.name]
            few = min(count, _FRESH_ELEMENTS)
            if tensor.data_type.is_float:
                return np.resize(random.uniform(low, high, few).astype(dtype), count)
            return np.resize(random.integers(int(low), int(high), few).astype(dtype), count)
        if field.name in self.indices:
            below = self.indices[field.name]
            if self.permuted:
                return np.resize(random.permutation(below), count).astype(dtype)
            return random.integers(0, below, count).astype(dtype)
        if tensor.data_type.is_float:
            return (random.standard_normal(count, np.float32) * np.float32(self.deviation)).astype(dtype)
        least, greatest = tensor.data_type.integer_limits
        return random.integers(least, greatest, count, dtype, endpoint=True)


_FRESH_ELEMENTS = 2**20  # After so many, values of a domain come again: large tensors are filled soon


def in_memory(tensor: TensorDesc, array: Array) -> Array:
    """An input's elements in the order of their addresses, gaps among them; of 4-bit types the bytes."""
    if has_views(tensor):
        span = 1 + sum(
            (size - 1) * step // array.itemsize for size, step in zip(array.shape, array.strides, strict=True)
        )
        return np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
    contents = np.zeros(tensor.size_in_bytes, np.uint8)
    lay_out(array, tensor, contents, "bench")
    return contents


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
    pairs = {"Strides": stride, "WindowSize": window, "StartPadding": pad, "EndPadding": pad}
    return {"DimensionCount": 2, **{name: (value,) * 2 for name, value in pairs.items()}}


def described(
    operator: str, data_type: DataType, inputs: Mapping[str, Sequence[int] | TensorDesc], **members: Any
) -> OperatorDesc:
    """A description by DirectML's names, whose tensors have one data type unless they are given.

    Args:
        inputs: tensors that are read, or their sizes, by name.
        members: all else, but for numbers of entries and outputs that follow; sizes of outputs that do not, or tensors.
    """
    names = {field.name: field.attribute for field in OPERATORS[operator].fields}
    tensors = {name: t if isinstance(t, TensorDesc) else TensorDesc(data_type, t) for name, t in inputs.items()}
    given = {names[name]: value for name, value in {**tensors, **members}.items()}
    written = [field.attribute for field in OPERATORS[operator].fields if field.kind == "output"]
    types = {name: data_type for name in written if not isinstance(given.get(name), TensorDesc)}
    return inferred_desc(operator, given, types)
