"""What is measured: an operator on tensors of some data type, size and layout."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.bench.functions import DOMAINS, INTEGER_DOMAINS, attributes_of
from dmlvk.conformance.cases import sweep_sets
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.operators import OPERATORS, FeatureLevel, Field, OperatorDesc, check_operator
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]
Strides = tuple[int, ...]

_ROW = 1024
"""Elements of a row, for operators that look along rows."""


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Sizes and strides of all operands.

    Attributes:
        sizes: of every tensor.
        strides: by operand: the inputs, then the output.
    """

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]


def packed(sizes: tuple[int, ...]) -> Strides:
    """The strides of a tensor without gaps in C order."""
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def _contiguous(elements: int, inputs: int) -> Geometry:
    return Geometry((elements,), ((1,),) * (inputs + 1))


def _square(elements: int) -> tuple[int, int]:
    """Two sizes near each other whose product is at most ``elements``; powers of two."""
    columns = 2 ** (int(math.log2(elements)) // 2)
    return elements // columns, columns


def _with(sizes: tuple[int, ...], inputs: int, number: int, strides: Strides) -> Geometry:
    """All operands packed but the input of one number."""
    every = [packed(sizes)] * (inputs + 1)
    every[number] = strides
    return Geometry(sizes, tuple(every))


def _transposed(elements: int, inputs: int) -> Geometry:
    sizes = _square(elements)
    return _with(sizes, inputs, 0, (1, sizes[0]))


def _row_broadcast(elements: int, inputs: int) -> Geometry:
    return _with(_square(elements), inputs, inputs - 1, (0, 1))


def _column_broadcast(elements: int, inputs: int) -> Geometry:
    return _with(_square(elements), inputs, inputs - 1, (1, 0))


def _four_axes(elements: int) -> tuple[int, int, int, int]:
    rows, columns = _square(elements)
    inner, outer = min(64, columns), min(16, rows)
    return outer, rows // outer, columns // inner, inner


def _permuted(elements: int, inputs: int) -> Geometry:
    sizes = _four_axes(elements)
    a, c, b, d = packed((sizes[0], sizes[2], sizes[1], sizes[3]))
    return _with(sizes, inputs, 0, (a, b, c, d))


def _channels_last(elements: int, inputs: int) -> Geometry:
    batch, height, width, channels = _four_axes(elements)
    sizes = (batch, channels, height, width)
    n, h, w, c = packed((batch, height, width, channels))
    return _with(sizes, inputs, 0, (n, c, h, w))


def _strided(elements: int, inputs: int) -> Geometry:
    rows, columns = _square(elements)
    return _with((rows, columns), inputs, 0, (2 * columns, 2))


def _eight_axes(elements: int, inputs: int) -> Geometry:
    power = int(math.log2(elements))
    sizes = tuple(2 ** (power // 8 + (axis < power % 8)) for axis in range(8))
    strides = packed(tuple(reversed(sizes)))
    return _with(sizes, inputs, 0, tuple(reversed(strides)))


def _rows(elements: int, inputs: int) -> Geometry:
    sizes = (max(1, elements // _ROW), min(_ROW, elements))
    return Geometry(sizes, (packed(sizes),) * (inputs + 1))


LAYOUTS: dict[str, Callable[[int, int], Geometry]] = {
    "contiguous": _contiguous,
    "rows": _rows,
    "transposed": _transposed,
    "row-broadcast": _row_broadcast,
    "column-broadcast": _column_broadcast,
    "permuted": _permuted,
    "channels-last": _channels_last,
    "strided": _strided,
    "eight-axes": _eight_axes,
}
"""By name: all packed; likewise, in rows of 1024 elements; the first input transposed; the last input a row or a column
for all; axes 1 and 2 of the first input exchanged; the first input channels-last beside channels-first; every second
element of the first input; the first input with all of eight axes in the opposite order."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """An operator on tensors of one layout.

    Attributes:
        operator: the operator.
        data_type: of its inputs, and of the output where the operator permits.
        layout: one of ``LAYOUTS``.
        elements: of the output, at most; layouts of several axes round down.
        attributes: what they are instead of ordinary ones, by name; of those that the operator has.
    """

    operator: type[OperatorDesc]
    data_type: DataType
    layout: str
    elements: int
    attributes: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """``"ELEMENT_WISE_SIGN float32 contiguous"``."""
        return f"{self.operator.operator_name} {self.data_type.name.lower()} {self.layout}"

    @functools.cached_property
    def input_fields(self) -> tuple[Field, ...]:
        """The input tensors that are given: those that are not optional."""
        return tuple(field for field in self.operator.fields if field.kind == "input" and not field.optional)

    @functools.cached_property
    def geometry(self) -> Geometry:
        """Sizes and strides."""
        return LAYOUTS[self.layout](self.elements, len(self.input_fields))

    @property
    def is_packed(self) -> bool:
        """Whether all tensors are packed."""
        return all(strides == packed(self.geometry.sizes) for strides in self.geometry.strides)

    @functools.cached_property
    def desc(self) -> OperatorDesc:
        """The description.

        Raises:
            DmlError: when the operator does not take the data type.
        """
        geometry = self.geometry
        members: dict[str, Any] = {f.attribute: None for f in self.operator.fields if f.optional}
        if self.operator.declaration.pattern != "rows":  # which have no attributes but axes
            members |= sweep_sets(self.operator, self.data_type, optional=False)[0]
        members |= attributes_of(self.operator.operator_name, not self.data_type.is_float) | dict(self.attributes)
        for field, strides in zip(self.input_fields, geometry.strides, strict=False):
            members[field.attribute] = TensorDesc(self._type_of(field), geometry.sizes, strides)
        for field in self.operator.fields:
            if field.kind == "output":
                members[field.attribute] = TensorDesc(self._type_of(field), geometry.sizes, geometry.strides[-1])
        desc = self.operator(**members)
        check_operator(desc, FeatureLevel.LEVEL_6_4)
        return desc

    @property
    def given_attributes(self) -> dict[str, float]:
        """The operator's attributes that are numbers, by name."""
        values = {field.attribute: getattr(self.desc, field.attribute) for field in self.operator.fields}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def _type_of(self, field: Field) -> DataType:
        """The workload's type, or where a tensor cannot have it, the smallest that it can (a condition: UINT8)."""
        allowed = self.operator.declaration.support[-1].data_types[field.attribute]
        return self.data_type if self.data_type in allowed else min(allowed, key=lambda each: each.size_in_bits)

    @functools.cached_property
    def arrays(self) -> list[Array]:
        """For each input the elements of its buffer; the first is the one at coordinate 0."""
        random = np.random.default_rng(7)
        low, high = DOMAINS.get(self.operator.operator_name, (0.1, 0.95))
        arrays = []
        for _, tensor in self.desc.inputs:
            if tensor is None:
                continue
            span = 1 + sum((n - 1) * s for n, s in zip(tensor.sizes, tensor.element_strides, strict=True))
            data_type = tensor.data_type.numpy_dtype
            count = min(span, 2**20)
            if tensor.data_type.is_float:
                values = random.uniform(low, high, count).astype(data_type)
            else:  # a condition, or numbers above zero
                usual = INTEGER_DOMAINS.get(self.operator.operator_name, (1, 100))
                low_integer, high_integer = usual if tensor.data_type is self.data_type else (0, 2)
                values = random.integers(low_integer, high_integer, count).astype(data_type)
            arrays.append(np.resize(values, span))
        return arrays

    @property
    def views(self) -> list[Array]:
        """The inputs as logical arrays."""
        return [self.view(number, array) for number, array in enumerate(self.arrays)]

    def view(self, operand: int, array: Array) -> Array:
        """An operand's elements in the array that holds them."""
        strides = tuple(stride * array.itemsize for stride in self.geometry.strides[operand])
        return np.lib.stride_tricks.as_strided(array, self.geometry.sizes, strides)

    @property
    def output_dtype(self) -> np.dtype[Any]:
        """NumPy's name of the output's data type."""
        ((_, tensor),) = self.desc.outputs
        assert tensor is not None
        return tensor.data_type.numpy_dtype

    @property
    def bytes_moved(self) -> int:
        """Each byte of an input that is needed counted once, and each byte of the output."""
        total = 0
        for _, tensor in (*self.desc.inputs, *self.desc.outputs):
            if tensor is not None:
                needed = (n for n, s in zip(tensor.sizes, tensor.element_strides, strict=True) if s)
                total += math.prod(needed) * tensor.data_type.size_in_bytes
        return total

    def of_size(self, elements: int) -> Workload:
        """The same on fewer or more elements."""
        return dataclasses.replace(self, elements=elements)


def workload(
    name: str, data_type: DataType, layout: str, elements: int, attributes: Mapping[str, float] = MappingProxyType({})
) -> Workload | None:
    """A workload; ``None`` where the operator does not take the data type or the layout.

    Args:
        name: an operator's full name.
        data_type: of its tensors.
        layout: one of ``LAYOUTS``.
        elements: of the output.
        attributes: by name; those that the operator does not have are left out.

    Raises:
        DmlError: when the operator forbids such an attribute.
    """
    operator = OPERATORS[name]
    has = {field.attribute for field in operator.fields if field.type == "float"}
    chosen = tuple((key, value) for key, value in attributes.items() if key in has)
    made = Workload(operator, data_type, layout, elements, chosen)
    if made.operator.declaration.pattern == "rows" and layout == "contiguous":
        return None  # a single row of millions is nobody's work
    try:
        _ = made.desc
    except (DmlError, NotImplementedError, IndexError):
        if chosen and workload(name, data_type, layout, elements) is not None:
            raise  # the attributes are at fault
        return None
    used = [tensor for _, tensor in (*made.desc.inputs, *made.desc.outputs) if tensor is not None]
    return made if any(tensor.data_type is data_type for tensor in used) else None
