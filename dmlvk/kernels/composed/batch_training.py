"""Lowers batch normalization while a network learns: sums of the batch, then a step through all elements."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.elementwise.elementwise import lower_elementwise_shader
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.rows import reduction
from dmlvk.kernels.rows.normalization import add_activation, applied_at_once, scratch_tensor, with_activation
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ACCESS_ORDERS, ShaderVariant, elementwise_variant
from dmlvk.operators import BatchNormalizationTraining, BatchNormalizationTrainingGrad, operator_desc
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc, packed_strides

Operand = tuple[TensorDesc, Region]

_NAME = "batch_normalization_training"


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    """All shader variants that these operators have, beside those of other normalizations."""
    for data_type, access_order in itertools.product(FLOATS, ACCESS_ORDERS):
        types = (data_type, DataType.UINT64, DataType.FLOAT32, data_type, data_type, data_type)
        for activation in (None, "ACTIVATION_RELU"):
            name, defines = with_activation(_NAME, activation)
            yield elementwise_variant(name, f"normalization/{_NAME}.comp", types, access_order, defines, attributes=1)
        for step, of_step, attributes in _gradient_steps(data_type):
            yield elementwise_variant(
                step, f"normalization/{step}.comp", of_step, access_order, {}, attributes=attributes
            )
        of_factor = (DataType.FLOAT32, data_type, DataType.FLOAT32)
        yield elementwise_variant(
            "batch_factor", "normalization/batch_factor.comp", of_factor, access_order, {}, attributes=1
        )


def _gradient_steps(data_type: DataType) -> Iterator[tuple[str, tuple[DataType, ...], int]]:
    """The names of the gradient's shaders, the types of their operands, and how many words of attributes they have."""
    number, two_words = DataType.FLOAT32, DataType.UINT64
    yield "batch_products", (data_type, data_type, two_words, number), 0
    yield "batch_slope", (number, data_type, number), 3
    yield "batch_scale_gradient", (number, number, two_words, data_type, data_type, data_type), 1
    yield "batch_training_gradient", (data_type, data_type, two_words, number, number, number, data_type), 0


@lowering(BatchNormalizationTraining)
def lower(desc: BatchNormalizationTraining, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    reads, writes = builder.reads, builder.writes
    source, sizes = desc.input_tensor, tuple(desc.scale_tensor.sizes)
    mean = add_means(builder, (source, reads["input_tensor"]), sizes)
    variance = scratch_tensor(DataType.FLOAT32, sizes)
    of_variance = variance, builder.scratch(variance.size_in_bytes)
    reduction.add_reduction(
        builder,
        dataclasses.replace(reduction.SUM_OF_SQUARED_DIFFERENCES, ending=reduction.DIVIDED),
        reduction.Rows.of(source, reduced_axes(sizes), variance),
        reads["input_tensor"],
        of_variance[1],
        width=32,
        companion=mean[1],
        label="variances",
    )
    factor = add_factor(builder, of_variance, (desc.scale_tensor, reads["scale_tensor"]), desc.epsilon)
    _add_results(builder, desc, mean, factor)
    _copy(builder, _first_words(mean), (desc.output_mean_tensor, writes["output_mean_tensor"]))
    _copy(builder, of_variance, (desc.output_variance_tensor, writes["output_variance_tensor"]))
    return builder.program()


@lowering(BatchNormalizationTrainingGrad)
def lower_gradient(desc: BatchNormalizationTrainingGrad, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    sizes, epsilon = tuple(desc.mean_tensor.sizes), float32_bits(desc.epsilon)
    x, gradient, given, variance, scale = (
        (tensor, builder.reads[field.attribute]) for field, tensor in desc.inputs if tensor is not None
    )
    of_values, of_scale, of_bias = (
        (tensor, builder.writes[field.attribute]) for field, tensor in desc.outputs if tensor is not None
    )
    mean = add_means(builder, x, sizes)
    terms = _scratch(builder, tuple(x[0].sizes))
    add_elementwise(builder, "batch_products", [x, gradient, mean], terms, label="products")
    products = _add_sums(builder, terms, sizes, label="sums of products")
    gradients = _add_sums(builder, gradient, sizes, label="sums of gradients")
    share, slope = _scratch(builder, sizes), _scratch(builder, sizes)
    count = float32_bits(math.prod(x[0].sizes) / math.prod(sizes))
    add_elementwise(
        builder, "batch_slope", [gradients, variance], share, (count, epsilon, 1), label="means of gradients"
    )
    add_elementwise(builder, "batch_slope", [products, variance], slope, (count, epsilon, 0), label="slopes")
    factor = add_factor(builder, variance, scale, desc.epsilon)
    inputs = [products, gradients, mean, given, variance]
    add_elementwise(builder, "batch_scale_gradient", inputs, of_scale, (epsilon,), label="gradients of the scale")
    inputs = [x, gradient, mean, share, slope, factor]
    add_elementwise(builder, "batch_training_gradient", inputs, of_values, label="gradients of the values")
    _copy(builder, gradients, of_bias)
    return builder.program()


def _scratch(builder: ProgramBuilder, sizes: tuple[int, ...]) -> Operand:
    """A FLOAT32 tensor of its own."""
    tensor = scratch_tensor(DataType.FLOAT32, sizes)
    return tensor, builder.scratch(tensor.size_in_bytes)


def _add_sums(builder: ProgramBuilder, source: Operand, sizes: tuple[int, ...], *, label: str) -> Operand:
    """Adds sums over the axes along which the result has size 1."""
    made = _scratch(builder, sizes)
    rows = reduction.Rows.of(source[0], reduced_axes(sizes), made[0])
    reduction.add_reduction(builder, reduction.SUM, rows, source[1], made[1], width=32, label=label)
    return made


def reduced_axes(parameters: Sequence[int]) -> tuple[int, ...]:
    """The axes over which sums run, by the sizes of what has an element for each."""
    return tuple(axis for axis, size in enumerate(parameters) if size == 1)


def add_means(builder: ProgramBuilder, source: Operand, sizes: tuple[int, ...]) -> Operand:
    """Adds the means of a tensor, in two words each."""
    mean = scratch_tensor(DataType.UINT64, sizes)
    means = builder.scratch(mean.size_in_bytes)
    rows = reduction.Rows.of(source[0], reduced_axes(sizes), mean)
    of_mean = dataclasses.replace(reduction.SUM, ending=reduction.MEAN_IN_TWO_WORDS)
    reduction.add_reduction(builder, of_mean, rows, source[1], means, width=64, label="means")
    return mean, means


def add_factor(builder: ProgramBuilder, variance: Operand, numerator: Operand, epsilon: float) -> Operand:
    factor = scratch_tensor(DataType.FLOAT32, tuple(variance[0].sizes))
    made = factor, builder.scratch(factor.size_in_bytes)
    add_elementwise(builder, "batch_factor", [variance, numerator], made, (float32_bits(epsilon),), label="factors")
    return made


def add_elementwise(
    builder: ProgramBuilder,
    name: str,
    inputs: Sequence[Operand],
    output: Operand,
    attributes: tuple[int, ...] = (),
    *,
    label: str,
) -> None:
    """Adds a kernel that goes through elements; inputs of size 1 are broadcast."""
    tensors = [*(tensor for tensor, _ in inputs), output[0]]
    kernel = lower_elementwise_shader(builder.operator_name, name, tensors, builder.target, attributes)
    builder.launch(kernel, [region for _, region in inputs], [output[1]], label=label)


def _add_results(builder: ProgramBuilder, desc: BatchNormalizationTraining, mean: Operand, factor: Operand) -> None:
    """Adds the step that goes through all elements."""
    reads, written = builder.reads, builder.writes["output_tensor"]
    bias = desc.bias_tensor, reads["bias_tensor"]
    # An absent tensor is taken from the bias, and not looked at.
    added = bias if desc.fused_add_tensor is None else (desc.fused_add_tensor, reads["fused_add_tensor"])
    name, _ = with_activation(_NAME, applied_at_once(desc.fused_activation))
    inputs = [(desc.input_tensor, reads["input_tensor"]), mean, factor, bias, added]
    has_added = int(desc.fused_add_tensor is not None)
    add_elementwise(builder, name, inputs, (desc.output_tensor, written), (has_added,), label="shift and scale")
    add_activation(builder, desc.fused_activation, desc.output_tensor, written)


def _first_words(mean: Operand) -> Operand:
    """Means in two words, as FLOAT32 tensors of the first ones, which are the means rounded."""
    sizes = tuple(mean[0].sizes)
    strides = tuple(2 * stride for stride in packed_strides(sizes))
    return TensorDesc(DataType.FLOAT32, sizes, strides=strides), mean[1]


def _copy(builder: ProgramBuilder, source: Operand, output: Operand) -> None:
    """Adds what brings FLOAT32 numbers to an output of either type."""
    is_same = output[0].data_type is DataType.FLOAT32
    name = "ELEMENT_WISE_IDENTITY" if is_same else "CAST"
    desc = operator_desc(name, InputTensor=source[0], OutputTensor=output[0])
    builder.operator(desc, [source[1]], [output[1]])
