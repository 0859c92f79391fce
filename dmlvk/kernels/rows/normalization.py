"""Lowers operators that shift and scale elements by a mean and a variance."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.kernels.elementwise.elementwise import lower_elementwise_shader
from dmlvk.kernels.kernel import ElementwiseKernel, PlainKernel, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import copy
from dmlvk.kernels.program import BindingKind, KernelStep, Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.rows import reduction, register_rows
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ACCESS_ORDERS, ShaderVariant, elementwise_variant
from dmlvk.kernels.views import View
from dmlvk.operators import (
    OPERATORS,
    BatchNormalization,
    FusedActivation,
    LpNormalization,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    MeanVarianceNormalization2,
)
from dmlvk.operators.normalization import ResidualNormalization
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc, packed_strides

_RELU = "ACTIVATION_RELU"  # The activation that the last step applies itself; all others are a step of their own


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield from register_rows.variants()
    for data_type, access_order in itertools.product(FLOATS, ACCESS_ORDERS):
        of_factor = (data_type, data_type, DataType.FLOAT32)
        yield elementwise_variant(
            "batch_factor", "normalization/batch_factor.comp", of_factor, access_order, {}, attributes=1
        )
        types: tuple[DataType, ...] = (data_type, data_type, DataType.FLOAT32, data_type, data_type)
        for activation in (None, _RELU):
            name, defines = with_activation("batch_normalization", activation)
            yield elementwise_variant(name, "normalization/batch_normalization.comp", types, access_order, defines)
        types = (data_type, DataType.UINT64, DataType.FLOAT32, data_type, data_type, data_type)
        for activation in (None, _RELU):
            name, defines = with_activation("mean_variance_normalization", activation)
            source = "normalization/mean_variance_normalization.comp"
            yield elementwise_variant(name, source, types, access_order, defines, attributes=1)
        of_norm = (data_type, DataType.FLOAT32, data_type)
        yield elementwise_variant(
            "lp_normalization", "normalization/lp_normalization.comp", of_norm, access_order, {}, attributes=1
        )
    factors = (DataType.FLOAT32, DataType.FLOAT32)
    yield elementwise_variant(
        "inverse_deviation", "normalization/inverse_deviation.comp", factors, "contiguous", {}, attributes=1
    )


def with_activation(name: str, activation: str | None) -> tuple[str, Mapping[str, str]]:
    """A variant's name and definitions, with an activation that its shader applies."""
    if activation is None:
        return name, {}
    short = activation.removeprefix("ACTIVATION_")
    return f"{name}.{short.lower()}", {f"FUSED_{short}": "1"}


def applied_at_once(fused: FusedActivation | None) -> str | None:
    """The activation that the last step of an operator applies itself."""
    return _RELU if fused is not None and fused.operator_name == _RELU else None


def add_activation(builder: ProgramBuilder, fused: FusedActivation | None, tensor: TensorDesc, region: Region) -> None:
    """Adds the step that applies an activation in place, where the operator's last step has not done so."""
    if fused is None or fused.operator_name == "ACTIVATION_IDENTITY" or applied_at_once(fused) is not None:
        return
    members: dict[str, Any] = {field.attribute: value for field, value in fused.attributes}
    members |= {"input_tensor": tensor, "output_tensor": tensor}
    builder.operator(OPERATORS[fused.operator_name](**members), [region], [region])


def scratch_tensor(data_type: DataType, sizes: tuple[int, ...]) -> TensorDesc:
    return TensorDesc(data_type, sizes, strides=packed_strides(sizes))


def batch_factor(desc: BatchNormalization) -> TensorDesc:
    """What each element is multiplied by, less its mean: a tensor between the steps of the operator."""
    sizes = tuple(map(max, desc.variance_tensor.sizes, desc.scale_tensor.sizes))
    return scratch_tensor(DataType.FLOAT32, sizes)


def _factor_kernel(desc: BatchNormalization, target: Target) -> ElementwiseKernel:
    tensors = (desc.variance_tensor, desc.scale_tensor, batch_factor(desc))
    return lower_elementwise_shader(desc.operator_name, "batch_factor", tensors, target, (float32_bits(desc.epsilon),))


def batch_factor_program(desc: BatchNormalization, target: Target) -> Program:
    """The first step of BATCH_NORMALIZATION alone: reads variance and scale, writes :func:`batch_factor`."""
    reads = [
        Region(BindingKind.INPUT, number, 0, tensor.size_in_bytes)
        for number, tensor in enumerate((desc.variance_tensor, desc.scale_tensor))
    ]
    writes = [Region(BindingKind.OUTPUT, 0, 0, batch_factor(desc).size_in_bytes)]
    return Program((KernelStep("factor", _factor_kernel(desc, target), tuple(reads), tuple(writes)),))


def batch_shift_program(desc: BatchNormalization, target: Target) -> Program:
    """The other steps: reads input, mean, factor and bias, in the places of input, mean, variance and scale."""
    builder = ProgramBuilder(desc, target)
    tensors = (desc.input_tensor, desc.mean_tensor, batch_factor(desc), desc.bias_tensor)
    reads = [Region(BindingKind.INPUT, number, 0, tensor.size_in_bytes) for number, tensor in enumerate(tensors)]
    _add_shift(builder, desc, target, reads)
    return builder.program()


def _add_shift(builder: ProgramBuilder, desc: BatchNormalization, target: Target, reads: list[Region]) -> None:
    name, _ = with_activation("batch_normalization", applied_at_once(desc.fused_activation))
    tensors = (desc.input_tensor, desc.mean_tensor, batch_factor(desc), desc.bias_tensor, desc.output_tensor)
    kernel = lower_elementwise_shader(desc.operator_name, name, tensors, target)
    builder.launch(kernel, reads, [builder.writes["output_tensor"]], label="shift and scale")
    add_activation(builder, desc.fused_activation, desc.output_tensor, builder.writes["output_tensor"])


@lowering(BatchNormalization)
def _batch_normalization(desc: BatchNormalization, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    factors = builder.scratch(batch_factor(desc).size_in_bytes)
    kernel = _factor_kernel(desc, target)
    builder.launch(kernel, [builder.reads["variance_tensor"], builder.reads["scale_tensor"]], [factors], label="factor")
    reads = [builder.reads["input_tensor"], builder.reads["mean_tensor"], factors, builder.reads["bias_tensor"]]
    _add_shift(builder, desc, target, reads)
    return builder.program()


_HAS_MEAN, _HAS_FACTOR, _HAS_SCALE, _HAS_BIAS = 1, 2, 4, 8
"""What shaders/normalization/mean_variance_normalization.comp is told of its operands."""

MeanVariance = MeanVarianceNormalization | MeanVarianceNormalization1 | MeanVarianceNormalization2


def _axes_of(desc: MeanVariance) -> tuple[int, ...]:
    """The axes over which mean and variance are taken."""
    if isinstance(desc, MeanVarianceNormalization):
        return (1, 2, 3) if desc.cross_channel else (2, 3)
    return tuple(desc.axes)


@lowering(MeanVarianceNormalization, MeanVarianceNormalization1, MeanVarianceNormalization2)
def _mean_variance_normalization(desc: MeanVariance, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    has_mean = not isinstance(desc, MeanVarianceNormalization2) or desc.use_mean
    has_factor = desc.use_variance if isinstance(desc, MeanVarianceNormalization2) else desc.normalize_variance
    if not (has_mean and has_factor and _add_register_rows(builder, desc)):
        _add_steps(builder, desc, has_mean, has_factor)
    add_activation(builder, desc.fused_activation, desc.output_tensor, builder.writes["output_tensor"])
    return builder.program()


def _add_register_rows(builder: ProgramBuilder, desc: MeanVariance) -> bool:
    """Adds the one step that normalizes rows which GPUs can hold, if these are such; processors gain nothing by it.

    Rows of elements that are no neighbours, as behind a transposition, are copied before it: four steps touch as much.
    """
    if builder.target.is_cpu:
        return False
    source, read = desc.input_tensor, builder.reads["input_tensor"]
    kernel = _register_rows(desc, source)
    if kernel is None:
        packed = TensorDesc(source.data_type, source.sizes)
        kernel = _register_rows(desc, packed)
        if kernel is None:
            return False
        copied = builder.scratch(packed.size_in_bytes)
        views = View.of(source), View.packed(source.sizes)
        copy(builder, (read, views[0]), (copied, views[1]), source.data_type.size_in_bits, label="rows of neighbours")
        read = copied
    scale, bias = (builder.reads.get(name, read) for name in ("scale_tensor", "bias_tensor"))
    builder.launch(kernel, [read, scale, bias], [builder.writes["output_tensor"]], label="rows")
    return True


def _register_rows(desc: MeanVariance, source: TensorDesc) -> PlainKernel | None:
    """The kernel of that step for an input that lies so."""
    return register_rows.kernel(
        desc.operator_name,
        source,
        desc.output_tensor,
        desc.scale_tensor,
        desc.bias_tensor,
        _axes_of(desc),
        desc.epsilon,
        has_relu=applied_at_once(desc.fused_activation) is not None,
    )


def _add_steps(builder: ProgramBuilder, desc: MeanVariance, has_mean: bool, has_factor: bool) -> None:
    """Adds the steps that sum up rows of any length and lie, and then go through all elements."""
    axes, source = _axes_of(desc), desc.input_tensor
    read = builder.reads["input_tensor"]
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(source.sizes))
    factor, mean = scratch_tensor(DataType.FLOAT32, sizes), scratch_tensor(DataType.UINT64, sizes)
    rows = reduction.Rows.of(source, axes, factor)
    # What is absent is taken from here, and not looked at.
    absent = builder.scratch(16)
    means = factors = absent
    if has_mean:
        means = builder.scratch(mean.size_in_bytes)
        of_mean = dataclasses.replace(reduction.SUM, ending=reduction.MEAN_IN_TWO_WORDS)
        reduction.add_reduction(builder, of_mean, rows, read, means, width=64, label="means")
    if has_factor:
        factors = builder.scratch(-(-factor.size_in_bytes // 16) * 16)
        squares = reduction.SUM_OF_ROUNDED_SQUARES if has_mean else reduction.SUM_OF_SQUARES
        of_variance = dataclasses.replace(squares, ending=reduction.DIVIDED)
        companion = means if has_mean else None
        reduction.add_reduction(
            builder, of_variance, rows, read, factors, width=32, companion=companion, label="variances"
        )
        # Scratch memory goes on behind the factors: no kernel is needed for what is left over of four of them.
        whole = TensorDesc(factor.data_type, (-(-factor.element_count // 4) * 4,))
        kernel = lower_elementwise_shader(
            desc.operator_name, "inverse_deviation", (whole, whole), builder.target, (float32_bits(desc.epsilon),)
        )
        builder.launch(kernel, [factors], [factors], label="factors")
    _add_shift_and_scale(builder, desc, (mean if has_mean else None, means), (factor if has_factor else None, factors))


def _add_shift_and_scale(
    builder: ProgramBuilder,
    desc: MeanVariance,
    mean: tuple[TensorDesc | None, Region],
    factor: tuple[TensorDesc | None, Region],
) -> None:
    """Adds the step that goes through all elements; the absent region is that of an absent mean or factor."""
    source, absent = desc.input_tensor, builder.scratch(16)
    ones = (1,) * source.dimension_count
    scale, bias = (
        (tensor, builder.reads[name] if tensor is not None else absent)
        for name, tensor in (("scale_tensor", desc.scale_tensor), ("bias_tensor", desc.bias_tensor))
    )
    operands = (mean, factor, scale, bias)
    types = (DataType.UINT64, DataType.FLOAT32, source.data_type, source.data_type)
    tensors = [
        tensor or scratch_tensor(data_type, ones) for (tensor, _), data_type in zip(operands, types, strict=True)
    ]
    present = zip((_HAS_MEAN, _HAS_FACTOR, _HAS_SCALE, _HAS_BIAS), operands, strict=True)
    has = sum(bit for bit, (tensor, _) in present if tensor is not None)
    name, _ = with_activation("mean_variance_normalization", applied_at_once(desc.fused_activation))
    kernel = lower_elementwise_shader(
        desc.operator_name, name, (source, *tensors, desc.output_tensor), builder.target, (has,)
    )
    reads = [builder.reads["input_tensor"], *(region for _, region in operands)]
    builder.launch(kernel, reads, [builder.writes["output_tensor"]], label="shift and scale")


@lowering(LpNormalization)
def _lp_normalization(desc: LpNormalization, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, read = desc.input_tensor, builder.reads["input_tensor"]
    sizes = tuple(1 if axis == desc.axis else size for axis, size in enumerate(source.sizes))
    norm = scratch_tensor(DataType.FLOAT32, sizes)
    norms = builder.scratch(norm.size_in_bytes)
    root = dataclasses.replace(reduction.SUM_OF_SQUARES, ending=reduction.SQUARE_ROOT)
    of_norm = reduction.SUM_OF_MAGNITUDES if desc.p == 1 else root
    rows = reduction.Rows.of(source, (desc.axis,), norm)
    reduction.add_reduction(builder, of_norm, rows, read, norms, width=32, label="norms")
    tensors = (source, norm, desc.output_tensor)
    kernel = lower_elementwise_shader(
        desc.operator_name, "lp_normalization", tensors, target, (float32_bits(desc.epsilon),)
    )
    builder.launch(kernel, [read, norms], [builder.writes["output_tensor"]], label="quotients")
    return builder.program()


BUFFERS = 6  # That the kernel binds

_CHAINS = 256  # Invocations that add, as in the shader

_MANY_INVOCATIONS = 1024
"""Of a work group of GPUs that may have so many, for a few rows that are as long: they wait for one another."""

_FEW_ROWS = 64  # Up to so many, a GPU has cores that have nothing else to do

_MOST_KEPT = {DataType.FLOAT16: 2048, DataType.FLOAT32: 1024}
"""Pairs of a row that a work group keeps at most: as in the shader."""


@shader_variants
def residual_variants() -> Iterator[ShaderVariant]:
    for data_type in FLOATS:
        bits = ("ELEMENT_BITS", str(data_type.size_in_bits))
        for invocations in (_CHAINS, _MANY_INVOCATIONS):
            defines = (bits, ("INVOCATIONS", f"{invocations}u"))
            source = "patterns/rows/residual_normalization.comp"
            yield ShaderVariant(_name(data_type, invocations), source, defines)


def _name(data_type: DataType, invocations: int) -> str:
    many = "" if invocations == _CHAINS else f".{invocations}"
    return f"residual_normalization.{data_type.name.lower()}{many}"


@lowering(ResidualNormalization)
def lower(desc: ResidualNormalization, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    reads, writes = builder.reads, builder.writes
    rows, length = desc.input_tensor.sizes
    columns, lines = work_groups(rows, 1)
    skip = desc.skip_tensor
    data_type = desc.input_tensor.data_type
    has_room = not target.is_cpu and target.work_group_size >= _MANY_INVOCATIONS
    is_few = has_room and length // 2 >= _MANY_INVOCATIONS and typical(rows) <= _FEW_ROWS
    invocations = _MANY_INVOCATIONS if is_few else _CHAINS
    pairs_of_invocation = -(-(length // 2) // invocations)
    most_loaded = _MOST_KEPT[data_type] // invocations
    loaded = min(pairs_of_invocation, most_loaded)
    constants = {
        "LOADED": loaded,
        "ALL_ARE_LOADED": int(pairs_of_invocation <= most_loaded),
        "TILES_ARE_WHOLE": int(is_multiple(length, 2 * invocations * max(loaded, 1))),
        "HAS_SKIP": int(skip is not None),
        "HAS_BIAS": int(desc.bias_tensor is not None),
        "GIVES_SUM": int(desc.sum_tensor is not None),
    }
    repeated = 1 if skip is None else skip.sizes[0]
    parameters = (rows, length // 2, repeated, float32_bits(desc.epsilon))
    name = _name(data_type, invocations)
    kernel = PlainKernel(name, (columns, lines, 1), constants, parameters, work_group_size=invocations)
    given = reads["input_tensor"]
    operands = [given, reads.get("skip_tensor", given), reads["scale_tensor"], reads.get("bias_tensor", given)]
    output = writes["output_tensor"]
    builder.launch(kernel, operands, [output, writes.get("sum_tensor", output)])
    return builder.program()
