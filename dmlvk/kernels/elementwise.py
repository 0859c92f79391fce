"""Lowers an element-wise operator description to one kernel."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels import library, special_values, walks
from dmlvk.kernels.layout import fold
from dmlvk.kernels.variants import (
    CONVERSION_TYPES,
    CONVERSION_VARIANT_NAME,
    LOOKUP_TYPES,
    WORK_GROUP_SIZE,
    AttributeWord,
    Walk,
    attribute_words,
    lookup_variant_name,
    operands_of,
    shader_name,
    variant_name,
)
from dmlvk.kernels.volume import LONG_FUNCTION_WORDS, called_words
from dmlvk.operators import OperatorDesc
from dmlvk.spirv import uses_constant, with_work_group_size
from dmlvk.tensors import TensorDesc


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A shader variant with everything but the buffers that it runs on.

    Attributes:
        variant: name of the shader variant.
        geometry: values of the specialization constants that follow from the description.
        work_groups: launch size.
        work_items: how many elements, invocations or tiles there is work for, as the walk counts.
        attributes: the attribute words of the push constants.
        special_attribute: what the shader's constant of that name is.
        work_group_size: invocations of a work group.
        on_processors: the kernel that computes the same bits where the device is a processor, if that is another one.
    """

    variant: str
    geometry: tuple[int, ...]
    work_groups: tuple[int, int, int]
    work_items: int
    attributes: tuple[int, ...]
    special_attribute: int = dataclasses.field(default=0, kw_only=True)
    work_group_size: int = dataclasses.field(default=WORK_GROUP_SIZE, kw_only=True)
    on_processors: Kernel | None = dataclasses.field(default=None, kw_only=True)

    def on(self, device_kind: str) -> Kernel:
        """The kernel for devices of a kind, as ``DeviceInfo.kind`` names it."""
        return self.on_processors if device_kind == "CPU" and self.on_processors is not None else self

    def module(self) -> bytes:
        """The shader as it was compiled."""
        return special_values.load(self.variant, self.special_attribute)

    def spirv(self) -> bytes:
        """The shader."""
        module = self.module()
        return module if self.work_group_size == WORK_GROUP_SIZE else _resized(module, self.work_group_size)

    def specialization(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The specialization constants, from id 0 on, for operands that begin at the given byte offsets."""
        return (int(self.work_groups[1] > 1), int(any(base_offsets)), *self.geometry)

    def push_constants(self, base_offsets: Sequence[int]) -> tuple[int, ...]:
        """The push constants for operands that begin at the given byte offsets (multiples of 16) of their buffers."""
        words = [offset // 4 for offset in base_offsets]
        return (self.work_items, *words, *self.attributes)


@functools.lru_cache(maxsize=256)
def _resized(module: bytes, work_group_size: int) -> bytes:
    return with_work_group_size(module, work_group_size)


def lower(desc: OperatorDesc) -> Kernel:
    """The kernel that computes a checked description.

    Raises:
        DeviceLimitError: when there is more work than Vulkan's guaranteed launch sizes can address.
    """
    tensors = [(field, tensor) for field, tensor in desc.inputs + desc.outputs if tensor is not None]
    types, present = operands_of(desc)
    sizes = tensors[-1][1].sizes
    layout = fold(sizes, [_strides_along(sizes, tensor) for _, tensor in tensors])
    attributes = _attribute_values(desc, present)
    special_attribute = special_values.special_attribute(desc)

    def variant(walk: Walk) -> str:
        return variant_name(shader_name(type(desc), present), types, walk, present)

    def kernel(plan: walks.Plan, on_processors: Kernel | None = None) -> Kernel:
        made = _kernel(desc.operator_name, variant(plan.walk), plan, attributes, on_processors)
        return dataclasses.replace(made, special_attribute=special_attribute)

    plan, on_processors = walks.plans(
        layout,
        types,
        takes_a_while=lambda walk: _takes_a_while(desc, variant(walk)),
        defers_what_is_rare=lambda walk: _defers_what_is_rare(variant(walk)),
    )
    return kernel(plan, None if on_processors is plan else kernel(on_processors))


def _takes_a_while(desc: OperatorDesc, variant: str) -> bool:
    """Whether an operator calculates, and does not only choose, which is quicker than it is long.

    Exact functions of one FLOAT16 tensor calculate too: they do so in FLOAT32.
    """
    types = [tensor.data_type for _, tensor in desc.inputs if tensor is not None]
    calculates = desc.declaration.accuracy.promise != "exact" or types == [DataType.FLOAT16]
    return calculates and _words(variant) >= LONG_FUNCTION_WORDS


@functools.lru_cache(maxsize=512)
def _defers_what_is_rare(variant: str) -> bool:
    return uses_constant(library.load(variant), walks.DEFERS_WHAT_IS_RARE)


@functools.lru_cache(maxsize=512)
def _words(variant: str) -> int:
    return called_words(library.load(variant))


def lower_lookup(desc: OperatorDesc) -> Kernel:
    """The kernel that reads the results of a checked description from a table; it has one 16-bit input and output.

    The table is bound between the two.

    Raises:
        DeviceLimitError: when there is more work than Vulkan's guaranteed launch sizes can address.
    """
    (source,) = (tensor for _, tensor in desc.inputs if tensor is not None)
    (target,) = (tensor for _, tensor in desc.outputs if tensor is not None)
    layout = fold(target.sizes, [_strides_along(target.sizes, source), target.element_strides])

    def kernel(plan: walks.Plan, on_processors: Kernel | None = None) -> Kernel:
        return _kernel(desc.operator_name, lookup_variant_name(plan.walk), plan, (), on_processors)

    plan, on_processors = walks.plans(layout, LOOKUP_TYPES, lambda walk: True)
    return kernel(plan, None if on_processors is plan else kernel(on_processors))


def lower_conversion(elements: int) -> Kernel:
    """The kernel that converts so many packed FLOAT32 to FLOAT16.

    Raises:
        DeviceLimitError: when there is more work than Vulkan's guaranteed launch sizes can address.
    """
    layout = fold((elements,), [(1,), (1,)])
    plan, _ = walks.plans(layout, CONVERSION_TYPES, lambda walk: False)
    return _kernel("FLOAT16 from FLOAT32", CONVERSION_VARIANT_NAME, plan, ())


def _kernel(
    label: str, variant: str, walk: walks.Plan, attributes: tuple[int, ...], on_processors: Kernel | None = None
) -> Kernel:
    return Kernel(
        variant=variant,
        geometry=walk.geometry,
        work_groups=launch_size(label, walk.invocations, walk.work_group_size),
        work_items=walk.work_items,
        attributes=attributes,
        work_group_size=walk.work_group_size,
        on_processors=on_processors,
    )


def _strides_along(sizes: Sequence[int], tensor: TensorDesc) -> tuple[int, ...]:
    """A tensor's strides; zeros for one that holds the single element which is used everywhere."""
    return tensor.element_strides if tensor.sizes == tuple(sizes) else (0,) * len(sizes)


def launch_size(operator_name: str, invocations: int, work_group_size: int = WORK_GROUP_SIZE) -> tuple[int, int, int]:
    """Work groups for a number of invocations, in one or several rows.

    Raises:
        DeviceLimitError: when there are more than Vulkan's guaranteed launch sizes can address.
    """
    columns, rows = walks.work_groups(invocations, work_group_size)
    if rows > walks.WORK_GROUPS_PER_ROW or rows * columns * work_group_size > 2**32:
        raise DeviceLimitError(
            f"{operator_name}: the tensor takes {invocations} invocations; at most {2**32 - 2**16} can be launched"
        )
    return columns, rows, 1


def _attribute_values(desc: OperatorDesc, present: tuple[str, ...]) -> tuple[int, ...]:
    values = []
    for word in attribute_words(type(desc), desc.output_type, present):
        value, own_type = _attribute(desc, word)
        if value is None:
            values.append(0)
        elif word.field.type == "scale_bias":
            values.append(float32_bits((value.scale, value.bias)[word.part]))
        elif word.field.enumeration is not None:
            values.append(int(value))
        elif own_type is None:
            values.append(float32_bits(value))
        else:
            values.append((converted_bits(value, own_type) >> (32 * word.part)) & 0xFFFFFFFF)
    return tuple(values)


def _attribute(desc: OperatorDesc, word: AttributeWord) -> tuple[Any, DataType | None]:
    """An attribute's value, and the data type to which it is converted; ``None``: it stays as it is."""
    converted_to = word.field.converted_to
    if word.is_fused:
        fused = desc.activation
        assert fused is not None  # where its words come from
        # All tensors that a fused activation would have are results of this operator.
        return fused.value_of(word.field.attribute), None if converted_to is None else desc.output_type
    own_type = None if converted_to is None else getattr(desc, converted_to).data_type
    return getattr(desc, word.field.attribute), own_type


_CANONICAL_NAN = {DataType.FLOAT32: 0x7FC00000, DataType.FLOAT16: 0x7E00}


def converted_bits(value: float, data_type: DataType) -> int:
    """A number among the attributes converted to a tensor's data type, as the bits that the shader expects.

    Types narrower than 32 bits are extended to a word. To FLOAT16 rounded to nearest even; to an integer type truncated
    toward zero and saturated, NaN to 0. A NaN of a float type becomes the canonical quiet one.
    """
    if math.isnan(value):
        return _CANONICAL_NAN.get(data_type, 0)
    if data_type is DataType.FLOAT32:
        return float32_bits(value)
    if data_type is DataType.FLOAT16:
        with np.errstate(over="ignore"):
            return int(np.float16(np.float32(value)).view(np.uint16))
    limits = np.iinfo(data_type.numpy_dtype)
    bounded = limits.max if value >= limits.max else limits.min if value <= limits.min else math.trunc(value)
    return int(bounded) & ((1 << max(data_type.size_in_bits, 32)) - 1)
