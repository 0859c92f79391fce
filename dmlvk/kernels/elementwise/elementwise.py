"""Lowers an element-wise operator description to one kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels import access_orders, special_values
from dmlvk.kernels.kernel import ElementwiseKernel, Kernel, launch_size
from dmlvk.kernels.layout import fold
from dmlvk.kernels.library.facts import facts_of
from dmlvk.kernels.movement.copies import narrow_transposition
from dmlvk.kernels.program import Program, of_kernel
from dmlvk.kernels.registry import pattern_lowering
from dmlvk.kernels.target import GPU, Target
from dmlvk.kernels.variants import (
    CONVERSION_TYPES,
    CONVERSION_VARIANT_NAME,
    LOOKUP_TYPES,
    AccessOrder,
    AttributeWord,
    access_orders_of,
    attribute_words,
    lookup_variant_name,
    operands_of,
    shader_name,
    variant_name,
)
from dmlvk.kernels.views import View
from dmlvk.operators import ElementWiseIdentity, OperatorDesc
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS
from dmlvk.tensors import TensorDesc


@pattern_lowering("elementwise")
def lower_alone(desc: OperatorDesc, target: Target) -> Program:
    """The program of one kernel: see :func:`lower`."""
    kernel = _transposition(desc, target) if isinstance(desc, ElementWiseIdentity) else None
    return of_kernel(desc, kernel or lower(desc, target))


def _transposition(desc: ElementWiseIdentity, target: Target) -> Kernel | None:
    """The kernel of an identity that only moves narrow elements, where lines begin anywhere in a word."""
    source, output = desc.input_tensor, desc.output_tensor
    if desc.scale_bias is not None or desc.has_dynamic_sizes:
        return None
    bits = output.data_type.size_in_bits
    return narrow_transposition(View.of(source), View.of(output), bits, target, desc.operator_name)


def lower(desc: OperatorDesc, target: Target) -> ElementwiseKernel:
    """The kernel that computes a checked description on a device."""
    tensors = [(field, tensor) for field, tensor in desc.inputs + desc.outputs if tensor is not None]
    types, present = operands_of(desc)
    sizes = tensors[-1][1].sizes
    layout = fold(sizes, [_strides_along(sizes, tensor) for _, tensor in tensors])
    attributes = _attribute_values(desc, present)
    special_attribute = special_values.special_attribute(desc)

    def variant(access_order: AccessOrder) -> str:
        return variant_name(shader_name(type(desc), present), types, access_order, present)

    plan = access_orders.plan(
        layout,
        types,
        target,
        takes_a_while=lambda access_order: _takes_a_while(desc, variant(access_order)),
        defers_slow_path=lambda access_order: facts_of(variant(access_order)).defers,
        orders=access_orders_of(type(desc), types),
    )
    made = _kernel(desc.operator_name, variant(plan.access_order), plan, attributes)
    return dataclasses.replace(made, special_attribute=special_attribute)


def _takes_a_while(desc: OperatorDesc, variant: str) -> bool:
    """Whether an operator calculates, and does not only choose, which is quicker than it is long.

    Exact functions of one FLOAT16 tensor calculate too: they do so in FLOAT32.
    """
    types = [tensor.data_type for _, tensor in desc.inputs if tensor is not None]
    calculates = desc.declaration.accuracy.promise != "exact" or types == [DataType.FLOAT16]
    return calculates and facts_of(variant).words >= LONG_FUNCTION_WORDS


def lower_lookup(desc: OperatorDesc, target: Target) -> ElementwiseKernel:
    """The kernel that reads the results of a checked description from a table; it has one 16-bit input and output.

    The table is bound between the two.
    """
    (source,) = (tensor for _, tensor in desc.inputs if tensor is not None)
    (written,) = (tensor for _, tensor in desc.outputs if tensor is not None)
    layout = fold(written.sizes, [_strides_along(written.sizes, source), written.element_strides])
    plan = access_orders.plan(layout, LOOKUP_TYPES, target, lambda access_order: True)
    return _kernel(desc.operator_name, lookup_variant_name(plan.access_order), plan, ())


def lower_elementwise_shader(
    label: str, name: str, tensors: Sequence[TensorDesc], target: Target, attributes: tuple[int, ...] = ()
) -> ElementwiseKernel:
    """A kernel that goes through the elements of tensors, for one step of an operator that takes several.

    Args:
        name: of the shader's variants but for data types and access order:
            :func:`dmlvk.kernels.variants.elementwise_variant`.
        tensors: the inputs and, last, the output; where an input has size 1 and the output has not, it is broadcast.
        attributes: the attribute words of the push constants.
    """
    sizes, types = tensors[-1].sizes, tuple(tensor.data_type for tensor in tensors)
    layout = fold(sizes, [_strides_of_broadcast(sizes, tensor) for tensor in tensors])
    plan = access_orders.plan(layout, types, target, lambda access_order: False)
    return _kernel(label, variant_name(name, types, plan.access_order), plan, attributes)


def lower_conversion(elements: int) -> ElementwiseKernel:
    """The kernel that converts so many packed FLOAT32 to FLOAT16."""
    layout = fold((elements,), [(1,), (1,)])
    plan = access_orders.plan(layout, CONVERSION_TYPES, GPU, lambda access_order: False)  # contiguous on all devices
    return _kernel("FLOAT16 from FLOAT32", CONVERSION_VARIANT_NAME, plan, ())


def _kernel(
    label: str, variant: str, access_order: access_orders.AccessPlan, attributes: tuple[int, ...]
) -> ElementwiseKernel:
    return ElementwiseKernel(
        variant=variant,
        geometry=access_order.geometry,
        work_groups=launch_size(label, access_order.invocations, access_order.work_group_size),
        work_items=access_order.work_items,
        attributes=attributes,
        work_group_size=access_order.work_group_size,
    )


def _strides_along(sizes: Sequence[int], tensor: TensorDesc) -> tuple[int, ...]:
    """A tensor's strides; zeros for one that holds the single element which is used everywhere."""
    return tensor.element_strides if tensor.sizes == tuple(sizes) else (0,) * len(sizes)


def _strides_of_broadcast(sizes: Sequence[int], tensor: TensorDesc) -> tuple[int, ...]:
    """A tensor's strides, zeros along axes where it has one element for all."""
    steps = zip(sizes, tensor.sizes, tensor.element_strides, strict=True)
    return tuple(0 if own == 1 and size > 1 else stride for size, own, stride in steps)


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


_CANONICAL_NAN = {DataType.FLOAT64: 0x7FF8000000000000, DataType.FLOAT32: 0x7FC00000, DataType.FLOAT16: 0x7E00}


def converted_bits(value: float, data_type: DataType) -> int:
    """A number among the attributes converted to a tensor's data type, as the bits that the shader expects.

    Types narrower than 32 bits are extended to a word. To FLOAT16 rounded to nearest even; to an integer type truncated
    toward zero and saturated, NaN to 0. A NaN of a float type becomes the canonical quiet one.
    """
    if math.isnan(value):
        return _CANONICAL_NAN.get(data_type, 0)
    if data_type is DataType.FLOAT64:
        return int(np.float64(value).view(np.uint64))
    if data_type is DataType.FLOAT32:
        return float32_bits(value)
    if data_type is DataType.FLOAT16:
        with np.errstate(over="ignore"):
            return int(np.float16(np.float32(value)).view(np.uint16))
    limits = np.iinfo(data_type.numpy_dtype)
    bounded = limits.max if value >= limits.max else limits.min if value <= limits.min else math.trunc(value)
    return int(bounded) & ((1 << max(data_type.size_in_bits, 32)) - 1)
