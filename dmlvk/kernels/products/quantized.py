"""Lowers operators of quantized tensors: integer sums first, then one kernel that scales them and rounds once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products.integer_products import stride_of
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import (
    Cast,
    ConvolutionInteger,
    ElementWiseQuantizeLinear,
    MatrixMultiplyInteger,
    Reduce,
    ReduceFunction,
)
from dmlvk.operators.quantized_products import (
    DynamicQuantizeLinear,
    MatrixMultiplyIntegerToFloat,
    QuantizedLinearConvolution,
    QuantizedLinearMatrixMultiply,
)
from dmlvk.tensors import TensorDesc

_BYTES = (DataType.INT8, DataType.UINT8)
_FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_AXES = 4  # Of a scaled sum's output, as in ``shaders/patterns/products/scaled_sums.glsl``

_TERMS_OF_ONE_WORD = (2**31 - 1) // 255**2
"""Products of differences of 8-bit integers of which a 32-bit integer holds every sum."""

_TERMS_AT_ONCE = 16384  # That a launch adds: llvmpipe ends loops, unasked, after 65535 iterations

_WORDS_OF_WIDE_SUM = 3


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in _BYTES:
        yield _variant("requantized_sums", {"OUTPUT": data_type})
        yield _variant("range_scale", {"OUTPUT": data_type})
    for data_type in _FLOATS:
        for words in (1, _WORDS_OF_WIDE_SUM):
            yield _variant("scaled_sums", {"OUTPUT": data_type}, words)
    for data_type in MatrixMultiplyIntegerToFloat.declaration.support[-1].data_types["a_tensor"]:
        yield _variant("wide_sums", {"LEFT": data_type})


def _variant(source: str, types: dict[str, DataType], words: int | None = None) -> ShaderVariant:
    defines = {name: data_type.name.lower() for name, data_type in types.items()}
    if source != "range_scale":  # whose output has one element
        defines |= {f"{name}_BITS": str(data_type.size_in_bits) for name, data_type in types.items()}
    name = ".".join((source, *(data_type.name.lower() for data_type in types.values())))
    if words is not None:
        defines["SUM_WORDS"] = str(words)
        name += f".{words}"
    return ShaderVariant(name, f"quantization/{source}.comp", tuple(sorted(defines.items())))


@dataclasses.dataclass(frozen=True)
class _ScaledOperand:
    """Where an operand of scaled sums lies, and how far a step along each axis of the output goes in it (elements)."""

    region: Region | None  # ``None`` where it is absent
    strides: tuple[int, ...]  # of four axes

    @classmethod
    def of(cls, region: Region | None, tensor: TensorDesc | None, axis: int | None = None) -> _ScaledOperand:
        """A tensor of the output's sizes; or, with an axis, one element for each place along it, or one for all."""
        if region is None or tensor is None:
            return cls(None, (0,) * _AXES)
        if axis is not None:
            return cls(region, tuple(stride_of(tensor) if position == axis else 0 for position in range(_AXES)))
        steps = [0 if n == 1 else step for n, step in zip(tensor.sizes, tensor.element_strides, strict=True)]
        return cls(region, (*[0] * (_AXES - len(steps)), *steps))


_ABSENT = _ScaledOperand(None, (0,) * _AXES)
_STEPS = ("SUMS", "LEFT_SCALE", "RIGHT_SCALE", "SCALE", "ZERO", "BIAS", "OUTPUT")  # What the shader calls its operands


def _scale_sums(
    builder: ProgramBuilder, variant: ShaderVariant, output: TensorDesc, operands: Sequence[_ScaledOperand]
) -> None:
    """Launches what makes an output of sums, left and right scales, output scale, zero point and bias."""
    bits, rank = output.data_type.size_in_bits, len(output.sizes)
    sizes = (*[1] * (_AXES - rank), *output.sizes)
    written = _ScaledOperand.of(builder.writes["output_tensor"], output)
    order = sorted(range(_AXES), key=lambda axis: (sizes[axis] > 1, written.strides[axis], -axis))
    expected, is_packed = 1, True
    for axis in order:
        if sizes[axis] > 1:
            is_packed &= written.strides[axis] == expected
            expected *= sizes[axis]
    elements = math.prod(sizes)
    items = -(-elements * bits // 32) if is_packed and bits < 32 else elements
    groups = launch_size(builder.operator_name, items)
    zero, bias = operands[4:]
    constants = {
        "OUTPUT_PACKED": int(is_packed),
        "HAS_ZERO": int(zero.region is not None),
        "HAS_BIAS": int(bias.region is not None),
    }
    for position, axis in enumerate(order):
        # The last axis' size is left out: what is left of an element's number is its coordinate.
        constants[f"SIZE_{position}"] = 0 if position == _AXES - 1 else sizes[axis]
        steps = zip(_STEPS, (*operands, written), strict=True)
        constants |= {f"{name}_STEP_{position}": one.strides[axis] for name, one in steps}
    stand_in = operands[0].region
    assert stand_in is not None  # sums are never absent
    kernel = PlainKernel(variant.name, groups, constants, (items, elements))
    reads = [one.region or stand_in for one in operands]
    builder.launch(kernel, reads, [builder.writes["output_tensor"]], label="scaled sums")


def _integer_matrix(
    desc: QuantizedLinearMatrixMultiply | MatrixMultiplyIntegerToFloat, builder: ProgramBuilder
) -> tuple[Region, TensorDesc]:
    """The product of the matrices as MATRIX_MULTIPLY_INTEGER has it, in scratch memory."""
    sums = TensorDesc(DataType.INT32, desc.output_tensor.sizes)
    region = builder.scratch(sums.size_in_bytes)
    product = MatrixMultiplyInteger(
        a_tensor=desc.a_tensor,
        a_zero_point_tensor=desc.a_zero_point_tensor,
        b_tensor=desc.b_tensor,
        b_zero_point_tensor=desc.b_zero_point_tensor,
        output_tensor=sums,
    )
    members = ("a_tensor", "a_zero_point_tensor", "b_tensor", "b_zero_point_tensor")
    builder.operator(product, [builder.reads[name] for name in members if name in builder.reads], [region], "sums")
    return region, sums


@lowering(QuantizedLinearMatrixMultiply)
def lower_matrix(desc: QuantizedLinearMatrixMultiply, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    rows, columns = _AXES - 2, _AXES - 1
    read = builder.reads.get
    operands = [
        _ScaledOperand.of(*_integer_matrix(desc, builder)),
        _ScaledOperand.of(read("a_scale_tensor"), desc.a_scale_tensor, rows),
        _ScaledOperand.of(read("b_scale_tensor"), desc.b_scale_tensor, columns),
        _ScaledOperand.of(read("output_scale_tensor"), desc.output_scale_tensor, rows),
        _ScaledOperand.of(read("output_zero_point_tensor"), desc.output_zero_point_tensor, rows),
        _ABSENT,
    ]
    variant = _variant("requantized_sums", {"OUTPUT": desc.output_tensor.data_type})
    _scale_sums(builder, variant, desc.output_tensor, operands)
    return builder.program()


@lowering(QuantizedLinearConvolution)
def lower_convolution(desc: QuantizedLinearConvolution, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    sums = TensorDesc(DataType.INT32, desc.output_tensor.sizes)
    region = builder.scratch(sums.size_in_bytes)
    attributes = ("dimension_count", "strides", "dilations", "start_padding", "end_padding", "group_count")
    tensors = ("input_tensor", "input_zero_point_tensor", "filter_tensor", "filter_zero_point_tensor")
    convolution = ConvolutionInteger(
        output_tensor=sums, **{name: getattr(desc, name) for name in (*tensors, *attributes)}
    )
    read = builder.reads.get
    builder.operator(convolution, [builder.reads[name] for name in tensors if name in builder.reads], [region], "sums")
    channels = _AXES - len(desc.output_tensor.sizes) + 1
    operands = [
        _ScaledOperand.of(region, sums),
        _ScaledOperand.of(read("input_scale_tensor"), desc.input_scale_tensor, channels),
        _ScaledOperand.of(read("filter_scale_tensor"), desc.filter_scale_tensor, channels),
        _ScaledOperand.of(read("output_scale_tensor"), desc.output_scale_tensor, channels),
        _ScaledOperand.of(read("output_zero_point_tensor"), desc.output_zero_point_tensor, channels),
        _ScaledOperand.of(read("bias_tensor"), desc.bias_tensor, channels),
    ]
    variant = _variant("requantized_sums", {"OUTPUT": desc.output_tensor.data_type})
    _scale_sums(builder, variant, desc.output_tensor, operands)
    return builder.program()


@lowering(MatrixMultiplyIntegerToFloat)
def lower_matrix_to_float(desc: MatrixMultiplyIntegerToFloat, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    is_short = desc.a_tensor.data_type in _BYTES and desc.a_tensor.sizes[-1] <= _TERMS_OF_ONE_WORD
    region, sums = (_integer_matrix if is_short else _wide_sums)(desc, builder)
    read = builder.reads.get
    operands = [
        _ScaledOperand.of(region, sums),
        _ScaledOperand.of(read("a_scale_tensor"), desc.a_scale_tensor, _AXES - 2),
        _ScaledOperand.of(read("b_scale_tensor"), desc.b_scale_tensor, _AXES - 1),
        _ABSENT,
        _ABSENT,
        _ScaledOperand.of(read("bias_tensor"), desc.bias_tensor),
    ]
    words = 1 if is_short else _WORDS_OF_WIDE_SUM
    _scale_sums(
        builder, _variant("scaled_sums", {"OUTPUT": desc.output_tensor.data_type}, words), desc.output_tensor, operands
    )
    return builder.program()


def _wide_sums(desc: MatrixMultiplyIntegerToFloat, builder: ProgramBuilder) -> tuple[Region, TensorDesc]:
    """The product of the matrices, exactly, in scratch memory: three words for each sum, in the output's order."""
    a, b = desc.a_tensor, desc.b_tensor
    batches, channels, rows, columns = (*[1] * (_AXES - len(a.sizes)), *a.sizes[:-1], b.sizes[-1])
    terms, elements = a.sizes[-1], batches * channels * rows * columns
    region = builder.scratch(4 * _WORDS_OF_WIDE_SUM * elements)
    zeros = [builder.reads.get(f"{name}_zero_point_tensor") for name in ("a", "b")]
    operands = [builder.reads["a_tensor"], builder.reads["b_tensor"]]
    groups = launch_size(builder.operator_name, elements)
    variant = _variant("wide_sums", {"LEFT": a.data_type})
    strides = [
        *(0,) * (_AXES - len(a.sizes)), *a.element_strides, *(0,) * (_AXES - len(b.sizes)), *b.element_strides,
        stride_of(desc.a_zero_point_tensor), stride_of(desc.b_zero_point_tensor),
    ]  # fmt: skip
    for first in range(0, terms, _TERMS_AT_ONCE):
        kernel = PlainKernel(
            variant.name,
            groups,
            {f"HAS_{side}_ZERO": int(zero is not None) for side, zero in zip(("LEFT", "RIGHT"), zeros, strict=True)},
            (elements, rows, columns, channels, first, min(first + _TERMS_AT_ONCE, terms), *strides),
        )
        bound = [*operands, *(zero or operands[0] for zero in zeros)]
        builder.launch(kernel, bound, [region], label="sums")
    return region, TensorDesc(DataType.INT32, desc.output_tensor.sizes)


@lowering(DynamicQuantizeLinear)
def lower_dynamic(desc: DynamicQuantizeLinear, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, region = desc.input_tensor, builder.reads["input_tensor"]
    if source.data_type is not DataType.FLOAT32:
        numbers = TensorDesc(DataType.FLOAT32, source.sizes)
        converted = builder.scratch(numbers.size_in_bytes)
        builder.operator(Cast(input_tensor=source, output_tensor=numbers), [region], [converted], "as FLOAT32")
        source, region = numbers, converted
    rank = len(source.sizes)
    one = TensorDesc(DataType.FLOAT32, (1,) * rank)
    ends = []
    for function in (ReduceFunction.MIN, ReduceFunction.MAX):
        ends.append(builder.scratch(one.size_in_bytes))
        end = Reduce(function=function, input_tensor=source, output_tensor=one, axis_count=rank, axes=range(rank))
        builder.operator(end, [region], [ends[-1]], function.name.lower())
    scale, zero = builder.writes["output_scale_tensor"], builder.writes["output_zero_point_tensor"]
    byte = desc.output_tensor.data_type
    kernel = PlainKernel(_variant("range_scale", {"OUTPUT": byte}).name, (1, 1, 1))
    builder.launch(kernel, ends, [scale, zero], label="scale and zero point")
    quantized = ElementWiseQuantizeLinear(
        input_tensor=source,
        scale_tensor=TensorDesc(DataType.FLOAT32, source.sizes, (0,) * rank),
        zero_point_tensor=TensorDesc(byte, source.sizes, (0,) * rank),
        output_tensor=desc.output_tensor,
    )
    builder.operator(quantized, [region, scale, zero], [builder.writes["output_tensor"]], "quantized")
    return builder.program()
