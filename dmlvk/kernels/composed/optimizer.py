"""Lowers ADAM_OPTIMIZER: a step's rate by one invocation, then all elements by one pass over memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels import access_orders
from dmlvk.kernels.kernel import ElementwiseKernel, PlainKernel, launch_size
from dmlvk.kernels.layout import fold
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant, elementwise_variant, variant_name
from dmlvk.operators import AdamOptimizer, operator_desc
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc, packed_strides

_STEP_TYPES = (DataType.UINT32, *FLOATS)
_INPUTS = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
_OUTPUTS = ("output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor")
_LEAST_COEFFICIENT, _LEAST_EPSILON = 2.0**-20, 2.0**-100
"""Of what the shader's quick arithmetic is right for, unless they are 0."""


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for step in _STEP_TYPES:
        defines = (("STEP", step.name.lower()), ("STEP_BITS", str(step.size_in_bits)))
        yield ShaderVariant(f"adam_rate.{step.name.lower()}", "training/adam_rate.comp", defines)
    for data_type in FLOATS:
        further = {f"FURTHER_{number}": data_type.name.lower() for number in range(2)}
        further |= {f"{name}_BITS": str(data_type.size_in_bits) for name in further}
        types = (data_type,) * 5
        yield elementwise_variant("adam", "training/adam.comp", types, "contiguous", further, attributes=6)


@lowering(AdamOptimizer)
def lower(desc: AdamOptimizer, target: Target) -> Program:
    """The program of a checked description."""
    builder = ProgramBuilder(desc, target)
    rate = builder.scratch(4)
    builder.launch(_rate(desc), [builder.reads["training_step_tensor"]], [rate], label="rate")
    strides = _common_strides([getattr(desc, name) for name in (*_OUTPUTS, *_INPUTS)])
    reads = [_in_order(builder, getattr(desc, name), builder.reads[name], strides) for name in _INPUTS]
    outputs = [(getattr(desc, name), builder.writes[name]) for name in _OUTPUTS]
    writes = [
        region if _lies_so(tensor, strides) else builder.scratch(_laid_out(tensor, strides).size_in_bytes)
        for tensor, region in outputs
    ]
    builder.launch(_elements(desc, target), [*reads, rate], writes, label="step")
    for (tensor, region), made in zip(outputs, writes, strict=True):
        if made != region:
            _copy(builder, _laid_out(tensor, strides), made, tensor, region)
    return builder.program()


def _rate(desc: AdamOptimizer) -> PlainKernel:
    betas = [int(Fraction(float(np.float32(beta))) * 2**127) for beta in (desc.beta1, desc.beta2)]
    words = [beta >> 32 * position & 0xFFFFFFFF for beta in betas for position in range(4)]
    step = desc.training_step_tensor.data_type.name.lower()
    return PlainKernel(f"adam_rate.{step}", (1, 1, 1), parameters=(float32_bits(desc.learning_rate), *words))


def _elements(desc: AdamOptimizer, target: Target) -> ElementwiseKernel:
    """The kernel that goes through all tensors at once, which lie in the same order without gaps."""
    tensor = desc.input_parameters_tensor
    types = (tensor.data_type,) * 5
    packed = packed_strides(tensor.sizes)
    plan = access_orders.plan(fold(tensor.sizes, [packed] * 5), types, target, lambda access_order: False)
    one = np.float32(1)
    coefficients = [np.float32(beta) for beta in (desc.beta1, desc.beta2)]
    parts = [part for beta in coefficients for part in (beta, one - beta)]
    least = [_LEAST_COEFFICIENT] * 4 + [_LEAST_EPSILON]
    numbers = [*map(float, parts), desc.epsilon]
    is_ordinary = all(x == 0 or low <= x <= 1 for x, low in zip(numbers, least, strict=True))
    return ElementwiseKernel(
        variant=variant_name("adam", types, plan.access_order),
        geometry=plan.geometry,
        work_groups=launch_size(desc.operator_name, plan.invocations, plan.work_group_size),
        work_items=plan.work_items,
        attributes=(*map(float32_bits, numbers), int(is_ordinary)),
        work_group_size=plan.work_group_size,
    )


def _steps_of(tensor: TensorDesc) -> tuple[int, ...]:
    """A tensor's strides where they matter: along axes of more than one element, else 0."""
    pairs = zip(tensor.sizes, tensor.element_strides, strict=True)
    return tuple(stride if size > 1 else 0 for size, stride in pairs)


def _common_strides(tensors: Sequence[TensorDesc]) -> tuple[int, ...]:
    """Strides without gaps that most of the tensors have; packed ones where none has such."""
    sizes = tensors[0].sizes
    candidates = [_steps_of(tensor) for tensor in tensors]
    dense = [strides for strides in candidates if fold(sizes, [strides]).is_contiguous]
    return max(dense, key=dense.count, default=tuple(packed_strides(sizes)))


def _lies_so(tensor: TensorDesc, strides: tuple[int, ...]) -> bool:
    return _steps_of(tensor) == _steps_of(_laid_out(tensor, strides))


def _laid_out(tensor: TensorDesc, strides: tuple[int, ...]) -> TensorDesc:
    return TensorDesc(tensor.data_type, tensor.sizes, strides=strides)


def _in_order(builder: ProgramBuilder, tensor: TensorDesc, region: Region, strides: tuple[int, ...]) -> Region:
    """Where a tensor lies as all others do: itself, or a copy."""
    if _lies_so(tensor, strides):
        return region
    laid_out = _laid_out(tensor, strides)
    copy = builder.scratch(laid_out.size_in_bytes)
    _copy(builder, tensor, region, laid_out, copy)
    return copy


def _copy(builder: ProgramBuilder, source: TensorDesc, read: Region, output: TensorDesc, written: Region) -> None:
    desc = operator_desc("ELEMENT_WISE_IDENTITY", InputTensor=source, OutputTensor=output)
    builder.operator(desc, [read], [written])
