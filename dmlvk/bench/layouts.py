"""Tasks of element-wise operators, and of those along rows: tensors of some data type, size and layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from dmlvk.bench.functions import DOMAINS, INTEGER_DOMAINS, attributes_of
from dmlvk.bench.task import Task
from dmlvk.conformance.cases import sweep_sets
from dmlvk.datatypes import DataType
from dmlvk.errors import DmlError
from dmlvk.operators import OPERATORS, FeatureLevel, Field, OperatorDesc, check_operator
from dmlvk.tensors import TensorDesc, packed_strides

Strides: TypeAlias = tuple[int, ...]
Geometry: TypeAlias = tuple[tuple[int, ...], list[Strides]]
"""The sizes of all operands, and the strides of each: of the inputs, then of the output."""

_ROW = 1024  # Elements of a row, for operators that look along rows


_JUDGED_ELEMENTS = 2**16


def _contiguous(elements: int, inputs: int) -> Geometry:
    return (elements,), [(1,)] * (inputs + 1)


def _square(elements: int) -> tuple[int, int]:
    """Two sizes near each other whose product is at most ``elements``; powers of two."""
    columns = 2 ** (int(math.log2(elements)) // 2)
    return elements // columns, columns


def _with(sizes: tuple[int, ...], inputs: int, number: int, strides: Strides) -> Geometry:
    """All operands packed but the input of one number."""
    every = [packed_strides(sizes)] * (inputs + 1)
    every[number] = strides
    return sizes, every


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
    a, c, b, d = packed_strides((sizes[0], sizes[2], sizes[1], sizes[3]))
    return _with(sizes, inputs, 0, (a, b, c, d))


def _channels_last(elements: int, inputs: int) -> Geometry:
    batch, height, width, channels = _four_axes(elements)
    sizes = (batch, channels, height, width)
    n, h, w, c = packed_strides((batch, height, width, channels))
    return _with(sizes, inputs, 0, (n, c, h, w))


def _strided(elements: int, inputs: int) -> Geometry:
    rows, columns = _square(elements)
    return _with((rows, columns), inputs, 0, (2 * columns, 2))


def _eight_axes(elements: int, inputs: int) -> Geometry:
    power = int(math.log2(elements))
    sizes = tuple(2 ** (power // 8 + (axis < power % 8)) for axis in range(8))
    strides = packed_strides(tuple(reversed(sizes)))
    return _with(sizes, inputs, 0, tuple(reversed(strides)))


def _rows(elements: int, inputs: int) -> Geometry:
    sizes = (max(1, elements // _ROW), min(_ROW, elements))
    return sizes, [packed_strides(sizes)] * (inputs + 1)


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


def regular_tasks(
    name: str, data_type: DataType, layout: str, size_in_bytes: int, attributes: Mapping[str, float]
) -> Iterator[Task]:
    """The task of an operator; none where it does not take the data type or the layout.

    Args:
        layout: one of ``LAYOUTS``.
        size_in_bytes: of the largest tensor; layouts of several axes round down.
        attributes: instead of ordinary ones, by name; those that the operator does not have are left out.

    Raises:
        DmlError: when the operator forbids such an attribute.
    """
    operator = OPERATORS[name]
    if operator.declaration.pattern == "rows" and layout == "contiguous":
        return  # a single row of millions is nobody's work
    has = {field.attribute for field in operator.fields if field.type == "float"}
    chosen = {key: value for key, value in attributes.items() if key in has}
    elements = max(1, 8 * size_in_bytes // max(8, data_type.size_in_bits))
    try:
        desc = _described(operator, data_type, layout, elements, chosen)
    except (DmlError, NotImplementedError, IndexError):
        if chosen and list(regular_tasks(name, data_type, layout, size_in_bytes, {})):
            raise  # the attributes are at fault
        return
    if not any(tensor is not None and tensor.data_type is data_type for _, tensor in (*desc.inputs, *desc.outputs)):
        return
    judged = _described(operator, data_type, layout, min(elements, _JUDGED_ELEMENTS), chosen)
    yield task_of(desc, data_type, layout, task_of(judged, data_type, layout))


def task_of(desc: OperatorDesc, data_type: DataType, layout: str, judged: Task | None = None) -> Task:
    """A task of an element-wise operator as it is described.

    Args:
        data_type: of its inputs, and of the output where the operator permits.
        judged: as of :class:`Task`.
    """
    name = desc.operator_name
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
    moved = sum(  # each byte that is needed once
        math.prod(size for size, step in zip(tensor.sizes, tensor.element_strides, strict=True) if step)
        * tensor.data_type.size_in_bytes
        for tensor in tensors
    )
    numbers = {field.attribute: getattr(desc, field.attribute) for field in desc.fields}
    return Task(
        f"{name.removeprefix('ELEMENT_WISE_')} {layout}, {math.prod(tensors[-1].sizes)}",
        desc,
        data_type,
        moved,
        "B/s",
        series=f"{name}, {layout}",
        extent=moved,
        layout=layout,
        domains={field.name: _domain(desc, tensor, data_type) for field, tensor in desc.inputs if tensor is not None},
        attributes={name: number for name, number in numbers.items() if isinstance(number, float)},
        judged=judged,
    )


def _domain(desc: OperatorDesc, tensor: TensorDesc, data_type: DataType) -> tuple[float, float]:
    """Values of an input: a condition's, or numbers that are usual for the operator."""
    if tensor.data_type.is_float:
        return DOMAINS.get(desc.operator_name, (0.1, 0.95))
    return INTEGER_DOMAINS.get(desc.operator_name, (1, 100)) if tensor.data_type is data_type else (0, 2)


def _described(
    operator: type[OperatorDesc], data_type: DataType, layout: str, elements: int, attributes: Mapping[str, float]
) -> OperatorDesc:
    """The operator without its optional tensors.

    Raises:
        DmlError: when it does not take the data type.
    """

    def tensor(field: Field, strides: Strides) -> TensorDesc:
        """Of the type that is asked for, or where it cannot have it, of the smallest (a condition: UINT8)."""
        allowed = operator.declaration.support[-1].data_types[field.attribute]
        chosen = data_type if data_type in allowed else min(allowed, key=lambda each: each.size_in_bits)
        return TensorDesc(chosen, sizes, strides)

    inputs = [field for field in operator.fields if field.kind == "input" and not field.optional]
    sizes, strides = LAYOUTS[layout](elements, len(inputs))
    members: dict[str, Any] = {field.attribute: None for field in operator.fields if field.optional}
    if operator.declaration.pattern != "rows":  # which have no attributes but axes
        members |= sweep_sets(operator, data_type, optional=False)[0]
    members |= attributes_of(operator.operator_name, not data_type.is_float) | dict(attributes)
    members |= {field.attribute: tensor(field, each) for field, each in zip(inputs, strides, strict=False)}
    members |= {field.attribute: tensor(field, strides[-1]) for field in operator.fields if field.kind == "output"}
    desc = operator(**members)
    check_operator(desc, FeatureLevel.LEVEL_6_4)
    return desc
