"""Lowers QUANTIZE and DEQUANTIZE: ``patterns/elementwise/quantized_blocks.glsl``, or the element-wise operators."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import ElementWiseDequantizeLinear, ElementWiseQuantizeLinear, OperatorDesc
from dmlvk.operators.quantization import QUANTIZED, Dequantize, Quantize
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for operator in (Quantize, Dequantize):
        for number in FLOATS:
            for integer in QUANTIZED:
                defines = [
                    ("INTEGER", integer.name.lower()),
                    ("INTEGER_BITS", str(integer.size_in_bits)),
                    ("NUMBER", number.name.lower()),
                    ("NUMBER_BITS", str(number.size_in_bits)),
                ]
                source = f"quantization/{operator.operator_name.lower()}.comp"
                yield ShaderVariant(_variant_name(operator, number, integer), source, tuple(defines))


def _variant_name(operator: type[OperatorDesc], number: DataType, integer: DataType) -> str:
    return f"{operator.operator_name.lower()}.{number.name.lower()}.{integer.name.lower()}"


@dataclasses.dataclass(frozen=True)
class _BlockAxis:
    """An axis of the output, and the steps along it in elements."""

    size: int  # its elements
    source: int  # a step's in the input
    scale: tuple[int, int]  # the length of a block, and a step's from block to block in the scale
    zero: tuple[int, int]  # the same of the zero point
    output: int  # a step's in the output

    def constants(self, position: int) -> dict[str, int]:
        """The specialization constants of the axis at this place, the innermost one's 0."""
        return {
            f"SIZE_{position}": self.size,
            f"SOURCE_STEP_{position}": self.source,
            f"SCALE_BLOCK_{position}": self.scale[0],
            f"SCALE_STEP_{position}": self.scale[1],
            f"ZERO_BLOCK_{position}": self.zero[0],
            f"ZERO_STEP_{position}": self.zero[1],
            f"OUTPUT_STEP_{position}": self.output,
        }

    def with_outer(self, outer: _BlockAxis) -> _BlockAxis | None:
        """This axis and the next one outwards as one; ``None`` where that is not possible."""
        evenly = outer.source == self.size * self.source and outer.output == self.size * self.output
        parameters = zip((self.scale, self.zero), (outer.scale, outer.zero), strict=True)
        blocks = all(own[0] == other[0] == 1 and other[1] == self.size * own[1] for own, other in parameters)
        size = self.size * outer.size
        return dataclasses.replace(self, size=size) if evenly and blocks else None


def _blocks(size: int, tensor: TensorDesc | None, axis: int) -> tuple[int, int]:
    """The length of a block along an axis, and the step between blocks: a single block counts as steps of 0."""
    if tensor is None or tensor.sizes[axis] == 1:
        return 1, 0
    return size // tensor.sizes[axis], tensor.element_strides[axis]


def _axes(source: TensorDesc, scale: TensorDesc, zero: TensorDesc | None, output: TensorDesc) -> list[_BlockAxis]:
    """The axes of more than one element, the innermost of the output's memory first, as few as say it."""
    found = [
        _BlockAxis(
            size, source.element_strides[i], _blocks(size, scale, i), _blocks(size, zero, i), output.element_strides[i]
        )
        for i, size in enumerate(output.sizes)
        if size > 1
    ]
    folded: list[_BlockAxis] = []
    for axis in sorted(found, key=lambda axis: axis.output):
        joined = folded[-1].with_outer(axis) if folded else None
        if joined is None:
            folded.append(axis)
        else:
            folded[-1] = joined
    return folded


@lowering(Quantize, Dequantize)
def lower(desc: Quantize | Dequantize, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, output = desc.input_tensor, desc.output_tensor
    scale, *zeros = desc.quantization_tensors
    if min(source.data_type.size_in_bits, output.data_type.size_in_bits) > 4:
        split = _split_axes(output.sizes, desc.quantization_tensors)
        if split is not None:
            return _lower_element_wise(desc, builder, split)
    axes = _axes(source, scale, zeros[0] if zeros else None, output)
    expected, is_packed = 1, True
    for axis in axes:
        is_packed &= axis.output == expected
        expected *= axis.size
    elements, bits = math.prod(output.sizes), output.data_type.size_in_bits
    items = -(-elements * bits // 32) if is_packed and bits < 32 else elements
    groups = launch_size(desc.operator_name, items)
    constants = {"OUTPUT_PACKED": int(is_packed), "HAS_ZERO": len(zeros)}
    missing = [_BlockAxis(1, 0, (1, 0), (1, 0), 0)] * (MAXIMUM_DIMENSION_COUNT - len(axes))
    for position, axis in enumerate([*axes, *missing]):
        constants |= axis.constants(position)
    number, integer = scale.data_type, (output if isinstance(desc, Quantize) else source).data_type
    kernel = PlainKernel(_variant_name(type(desc), number, integer), groups, constants, (items, elements))
    reads = list(builder.reads.values())
    reads += [reads[0]] * (3 - len(reads))  # what stands in for an absent zero point
    builder.launch(kernel, reads, [builder.writes["output_tensor"]])
    return builder.program()


def _split_axes(sizes: Sequence[int], parameters: Sequence[TensorDesc]) -> list[tuple[int, int, int]] | None:
    """Axes along which each scale or zero point either goes on with every step, or stays.

    Returns:
        The axis that each is a part of, its size, and how many elements of that axis a step is; ``None`` where the
        blocks of an axis overlap one another, or the axes are too many.
    """
    found: list[tuple[int, int, int]] = []
    for axis, size in enumerate(sizes):
        lengths = sorted({size // tensor.sizes[axis] for tensor in parameters} | {1, size}, reverse=True)
        for outer, inner in itertools.pairwise(lengths):
            if outer % inner:
                return None
            found.append((axis, outer // inner, inner))
    return (found or [(0, 1, 1)]) if len(found) <= MAXIMUM_DIMENSION_COUNT else None


def _lower_element_wise(
    desc: Quantize | Dequantize, builder: ProgramBuilder, axes: Sequence[tuple[int, int, int]]
) -> Program:
    """By the operator that gives the same bits of scales that broadcast by strides of 0, and has faster kernels."""
    whole = tuple(desc.output_tensor.sizes)

    def split(tensor: TensorDesc) -> TensorDesc:
        strides = []
        for axis, _, step in axes:
            block = whole[axis] // tensor.sizes[axis]
            strides.append(tensor.element_strides[axis] * (step // block) if step >= block else 0)
        return TensorDesc(tensor.data_type, [size for _, size, _ in axes], strides, tensor.size_in_bytes)

    scale, *zeros = map(split, desc.quantization_tensors)
    operator = ElementWiseQuantizeLinear if isinstance(desc, Quantize) else ElementWiseDequantizeLinear
    same = operator(
        input_tensor=split(desc.input_tensor),
        scale_tensor=scale,
        zero_point_tensor=zeros[0] if zeros else None,
        output_tensor=split(desc.output_tensor),
    )
    builder.operator(same, list(builder.reads.values()), list(builder.writes.values()))
    return builder.program()
