"""Lowers the operators that fill tensors from attributes and places, and VALUE_SCALE_2D."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels import constants
from dmlvk.kernels.elementwise.elementwise import converted_bits, lower_elementwise_shader
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import copy, fill
from dmlvk.kernels.program import ProgramBuilder, Region, adds_steps
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS
from dmlvk.kernels.variants import ACCESS_ORDERS, ShaderVariant, elementwise_variant
from dmlvk.kernels.views import View
from dmlvk.operators.filling import (
    DiagonalMatrix,
    DiagonalMatrix1,
    FillValueConstant,
    FillValueSequence,
    Fold,
    ValueScale2d,
    blocks_along,
)
from dmlvk.operators.pooling import AveragePoolingGrad, MaxPooling2, MaxPoolingGrad
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_FOLD_STATE_BYTES = 16
"""What one of several launches of FOLD hands on for each element of the output: STATE_WORDS in the shader."""


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    """The shaders of diagonals, sequences and scaled values."""
    for bits in (8, 16, 32, 64):
        own = {"OUTPUT": f"uint{bits}", "OUTPUT_BITS": str(bits)}
        for has_input in (0, 1):
            defines = {**own, "HAS_INPUT": str(has_input)}
            name = f"diagonal.uint{bits}{'.input' * has_input}"
            yield ShaderVariant(name, "fill/diagonal.comp", tuple(sorted(defines.items())))
        for is_float in (0, 1) if bits in (16, 32) else (0,):
            defines = {"OUTPUT_BITS": str(bits), "HAS_INPUT": "0", "IS_FLOAT": str(is_float)}
            name = f"sequence.{'float' if is_float else 'uint'}{bits}"
            yield ShaderVariant(name, "fill/sequence.comp", tuple(sorted(defines.items())))
    for data_type in FLOATS:
        name, bits = data_type.name.lower(), data_type.size_in_bits
        for has_indices in (0, 1):
            defines = {"OUTPUT": name, "OUTPUT_BITS": str(bits), "HAS_INDICES": str(has_indices)}
            variant = f"fold{'.indices' * has_indices}.{name}"
            yield ShaderVariant(variant, "fill/fold.comp", tuple(sorted(defines.items())))
        for access_order in ACCESS_ORDERS:
            types = (data_type, DataType.FLOAT32, data_type)
            yield elementwise_variant(
                "value_scale", "conversion/value_scale.comp", types, access_order, {}, attributes=1
            )


def _packed(
    b: ProgramBuilder, tensor: TensorDesc, make: Callable[[Region], None], member: str = "output_tensor"
) -> None:
    """Adds what makes the packed elements of the output, and a copy where it is not packed."""
    bits = tensor.data_type.size_in_bits
    region = b.writes[member]
    if tensor.is_packed:
        make(region)
        return
    packed = b.scratch(-(-tensor.element_count * bits // 32) * 4)
    make(packed)
    copy(b, (packed, View.packed(tensor.sizes)), (region, View.of(tensor)), bits, label="to its strides")


def _positions_kernel(
    name: str, tensor: TensorDesc, operator: str, last_sizes: tuple[int, int], *words: int
) -> PlainKernel:
    """A kernel of ``offsets.glsl``, which asks for width and height where places in them matter."""
    per_word = max(1, 32 // tensor.data_type.size_in_bits)
    groups = launch_size(operator, -(-tensor.element_count // per_word))
    attributes = (*words, *[0] * (5 - len(words)))
    return PlainKernel(
        variant=name,
        work_groups=groups,
        constants={"WIDTH": last_sizes[0], "HEIGHT": last_sizes[1]},
        parameters=(tensor.element_count, *attributes),
    )


def _two_words(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF


def _diagonal(
    b: ProgramBuilder, desc: DiagonalMatrix | DiagonalMatrix1, first: int, last: int, is_outside: bool
) -> None:
    tensor: TensorDesc = desc.output_tensor
    bits = tensor.data_type.size_in_bits
    source: TensorDesc | None = getattr(desc, "input_tensor", None)
    value = _two_words(converted_bits(desc.value, tensor.data_type))
    reads: list[Region] = []
    if source is not None:
        reads = [b.reads["input_tensor"]]
        if not source.is_packed:
            packed = b.scratch(-(-source.element_count * bits // 32) * 4)
            copy(b, (reads[0], View.of(source)), (packed, View.packed(source.sizes)), bits, label="packed input")
            reads = [packed]
    name = f"diagonal.uint{bits}{'.input' * (source is not None)}"
    height, width = tensor.sizes[-2:]
    words = (first, last, int(is_outside), *value)
    kernel = _positions_kernel(name, tensor, desc.operator_name, (width, height), *words)
    _packed(b, tensor, lambda region: b.launch(kernel, reads, [region]))


@adds_steps(DiagonalMatrix)
def _diagonal_matrix(b: ProgramBuilder, desc: DiagonalMatrix) -> None:
    _diagonal(b, desc, desc.offset, desc.offset, False)


@adds_steps(DiagonalMatrix1)
def _diagonal_matrix1(b: ProgramBuilder, desc: DiagonalMatrix1) -> None:
    begin, end = desc.diagonal_fill_begin, desc.diagonal_fill_end
    first, last = (begin, end - 1) if begin < end else (end, begin - 1)
    if begin == end:
        first, last = 1, 0  # no diagonal
    _diagonal(b, desc, first, last, begin > end)


@adds_steps(FillValueConstant)
def _constant(b: ProgramBuilder, desc: FillValueConstant) -> None:
    data_type = desc.output_tensor.data_type
    bits = data_type.size_in_bits
    value = converted_bits(desc.value, data_type) & ((1 << bits) - 1)
    fill(b, (b.writes["output_tensor"], View.of(desc.output_tensor)), bits, value)


@adds_steps(FillValueSequence)
def _sequence(b: ProgramBuilder, desc: FillValueSequence) -> None:
    tensor: TensorDesc = desc.output_tensor
    data_type = tensor.data_type
    if data_type is DataType.FLOAT16:  # the numbers of the type, as FLOAT32
        numbers = [_of_half(desc.value_start), _of_half(desc.value_delta)]
        words = [word for number in numbers for word in (float32_bits(number), 0)]
    elif data_type is DataType.FLOAT32:
        words = [float32_bits(desc.value_start), 0, float32_bits(desc.value_delta), 0]
    else:
        words = [*_two_words(int(desc.value_start)), *_two_words(int(desc.value_delta))]
    kind = "float" if data_type.is_float else "uint"
    kernel = _positions_kernel(f"sequence.{kind}{data_type.size_in_bits}", tensor, desc.operator_name, (1, 1), *words)
    _packed(b, tensor, lambda region: b.launch(kernel, [], [region]))


def _of_half(value: float) -> float:
    """The FLOAT16 number that is nearest to a value."""
    with np.errstate(over="ignore"):
        return float(np.float16(np.float32(value)))


_SPATIAL_AXES = 6


@dataclasses.dataclass(frozen=True)
class _Folded:
    """What is added up at the places of a window's positions.

    Attributes:
        source, result: names of the tensors' members.
        blocks: positions along each spatial dimension.
        window, dilations: the window's places along each, and how far apart they are.
        divisor: what sums are divided by.
        is_alike_in_window: whether the source has an element for each position, that of all places of the window.
        divides_by_taps_inside: whether each addend is divided by how many of its window's places lie in the result.
        indices: for each element of the source, the number of the result's element that it belongs to.
    """

    source: str
    result: str
    blocks: tuple[int, ...]
    window: Sequence[int]
    dilations: Sequence[int]
    divisor: int = 1
    is_alike_in_window: bool = False
    divides_by_taps_inside: bool = False
    indices: Region | None = None

    def iterations(self, strides: Sequence[int]) -> _Iterations:
        """What an element of the result's addends are found by."""
        rows = zip(self.blocks, self.window, self.dilations, strides, strict=True)
        candidates = tuple(
            min(blocks, (positions - 1) * dilation // stride + 1) for blocks, positions, dilation, stride in rows
        )
        by_taps, by_positions = math.prod(self.window), math.prod(candidates)
        return _Iterations(by_positions < by_taps, min(by_positions, by_taps), candidates)


@dataclasses.dataclass(frozen=True)
class _Iterations:
    """How the addends of an element are gone through."""

    by_positions: bool  # by the positions that a window may have over the element; else by the window's places
    count: int  # of either, how many there are
    candidates: tuple[int, ...]  # the positions along each spatial dimension

    @property
    def constants(self) -> dict[str, int]:
        """The constants that tell of it; the last dimension is the innermost one."""
        missing = (1,) * (_SPATIAL_AXES - len(self.candidates))
        candidates = constants.numbered("CANDIDATES", (*missing, *self.candidates))
        return {"BY_POSITIONS": int(self.by_positions), "ITERATIONS": self.count, **candidates}


@adds_steps(Fold)
def _fold(b: ProgramBuilder, desc: Fold) -> None:
    blocks = blocks_along(desc, desc.output_tensor.sizes[2:])
    folded = _Folded("input_tensor", "output_tensor", blocks, desc.window_sizes, desc.dilations)
    _fold_windows(b, desc, folded)


@adds_steps(AveragePoolingGrad)
def _average_pooling_grad(b: ProgramBuilder, desc: AveragePoolingGrad) -> None:
    """Each window's gradient falls on all its elements alike."""
    blocks = tuple(desc.input_gradient_tensor.sizes[2:])
    padded = any((*desc.start_padding, *desc.end_padding))
    counts_inside = padded and not desc.include_padding
    divisor = 1 if counts_inside else math.prod(desc.window_size)
    names = ("input_gradient_tensor", "output_gradient_tensor")
    dilations = (1,) * len(blocks)
    _fold_windows(b, desc, _Folded(*names, blocks, desc.window_size, dilations, divisor, True, counts_inside))


@adds_steps(MaxPoolingGrad)
def _max_pooling_grad(b: ProgramBuilder, desc: MaxPoolingGrad) -> None:
    """The forward operator finds each window's largest element, which its gradient belongs to."""
    gradients = desc.input_gradient_tensor
    maxima = TensorDesc(gradients.data_type, gradients.sizes)
    positions = TensorDesc(DataType.UINT32, gradients.sizes)
    indices = b.scratch(positions.size_in_bytes)
    with b.passing_scratch():
        members = {field.attribute: value for field, value in desc.attributes}
        forward = MaxPooling2(
            input_tensor=desc.input_tensor, output_tensor=maxima, output_indices_tensor=positions, **members
        )
        b.operator(forward, [b.reads["input_tensor"]], [b.scratch(maxima.size_in_bytes), indices], "largest elements")
    blocks = tuple(gradients.sizes[2:])
    names = ("input_gradient_tensor", "output_gradient_tensor")
    _fold_windows(b, desc, _Folded(*names, blocks, desc.window_size, desc.dilations, 1, True, False, indices))


def _fold_windows(b: ProgramBuilder, desc: AveragePoolingGrad | Fold | MaxPoolingGrad, folded: _Folded) -> None:
    source, tensor, blocks = getattr(desc, folded.source), getattr(desc, folded.result), folded.blocks
    bits, spatial = tensor.data_type.size_in_bits, tensor.sizes[2:]
    region = b.reads[folded.source]
    if not source.is_packed:
        packed = b.scratch(-(-source.element_count * bits // 32) * 4)
        copy(b, (region, View.of(source)), (packed, View.packed(source.sizes)), bits, label="packed input")
        region = packed
    missing = _SPATIAL_AXES - len(spatial)  # the last axis is the innermost one

    def of_axes(name: str, numbers: Sequence[int], absent: int = 1) -> dict[str, int]:
        return constants.numbered(name, [*[absent] * missing, *numbers])

    groups = launch_size(desc.operator_name, -(-tensor.element_count * bits // 32))
    iterations, elements_of_word = folded.iterations(desc.strides), 32 // bits
    # An invocation goes through the elements of a word, and twice through the turns of each; a loop's end is one, too.
    is_in_parts = elements_of_word * (2 * iterations.count + 3) + 1 > MAX_LOOP_ITERATIONS
    reads = [region] if folded.indices is None else [region, folded.indices]
    name = f"fold{'.indices' * (folded.indices is not None)}.{tensor.data_type.name.lower()}"
    state = b.scratch(_FOLD_STATE_BYTES * tensor.element_count) if is_in_parts else None

    geometry = {
        "WINDOW_POSITIONS": math.prod(folded.window),
        "POSITIONS": math.prod(blocks),
        **of_axes("SIZE", spatial),
        **of_axes("WINDOW", folded.window),
        **of_axes("DILATION", folded.dilations),
        **of_axes("STRIDE", desc.strides),
        **of_axes("START", desc.start_padding, 0),
        **of_axes("BLOCKS", blocks),
        "IN_PARTS": int(is_in_parts),
        "IS_ALIKE_IN_WINDOW": int(folded.is_alike_in_window),
        "DIVISOR": folded.divisor,
        "DIVIDES_BY_POSITIONS_INSIDE": int(folded.divides_by_taps_inside),
        **iterations.constants,
    }

    def launches(written: Region) -> None:
        step = (MAX_LOOP_ITERATIONS - 1) // elements_of_word - 2 if is_in_parts else iterations.count
        for adds in (0, 1) if is_in_parts else (0,):
            for first in range(0, iterations.count, step):
                kernel = PlainKernel(
                    variant=name,
                    work_groups=groups,
                    constants=geometry,
                    parameters=(tensor.element_count, first, first + step, adds),
                )
                b.launch(kernel, reads, [written, state or written])

    _packed(b, tensor, launches, folded.result)


@adds_steps(ValueScale2d)
def _value_scale(b: ProgramBuilder, desc: ValueScale2d) -> None:
    tensor: TensorDesc = desc.input_tensor
    channels = len(desc.bias)
    bias = TensorDesc(DataType.FLOAT32, (1, channels, 1, 1))
    region = b.scratch(bias.size_in_bytes)
    for channel, value in enumerate(desc.bias):
        position = View((1,), (1,), channel)
        fill(b, (region, position), 32, float32_bits(value), label="bias", is_independent=True)
    tensors = (tensor, bias, desc.output_tensor)
    kernel = lower_elementwise_shader(desc.operator_name, "value_scale", tensors, b.target, (float32_bits(desc.scale),))
    b.launch(kernel, [b.reads["input_tensor"], region], [b.writes["output_tensor"]])
