"""Lowers operators whose results come from between the elements of the input: patterns/windows/resample.glsl."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import applied, is_multiple
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import pattern_lowering
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import OperatorDesc
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.resampling import InterpolationMode, Resampled, Resampling, Upsample2d, resamplings
from dmlvk.tensors import TensorDesc

_AXES = 5
_RESAMPLED = "ABCD"  # What the shaders call the resampled axes, from the last one on

_MOST_RESAMPLED = len(_RESAMPLED)
_MOST_PLAIN = 2  # Axes that can be averaged over without a look at denormals on the way

_ELEMENTS_OF_ITEM = 4
_ROWS_OF_BLOCK = 8  # Rows of the output that an invocation takes, four at once

_LEAST_SCALE_OF_BLOCK = 2.0  # From this magnification on, four rows of the output lie between four rows of the input
_AVERAGED_AT_ONCE = 32768  # Of what an element of the output is averaged from, as many as one of several launches takes

_STATE_BYTES = 48  # What such a launch hands on to the next for each element of the output: STATE_WORDS in the shader

NEAREST_OR_LOWER, LOWER, UPPER = range(3)
"""How NEAREST_NEIGHBOR chooses: ROUNDING in the shaders."""

_SAFE_EXPONENT = 60
_LARGEST_SAME = 2**20
_LARGEST_SAME_OFFSET = 4.0
_MOVED_AS = {8: "uint8", 16: "uint16", 32: "uint32"}
_LINEAR_TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT8, DataType.UINT8)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for bits, name in _MOVED_AS.items():
        yield _variant("nearest", name, bits)
    for data_type in _LINEAR_TYPES:
        yield _variant("linear", data_type.name.lower(), data_type.size_in_bits)


def _variant(source: str, type_name: str, bits: int) -> ShaderVariant:
    defines = {"INPUT": type_name, "INPUT_BITS": str(bits), "OUTPUT": type_name, "OUTPUT_BITS": str(bits)}
    return ShaderVariant(f"resample.{source}.{type_name}", f"resample/{source}.comp", tuple(sorted(defines.items())))


@dataclasses.dataclass(frozen=True)
class _ResampledAxis:
    size: int  # its elements
    input_step: int  # what a step adds to the element of the input; of a resampled axis nothing
    output_step: int  # what it adds to the element of the output
    number: int  # which of the resampled axes it is, counted from the last one; -1: none


@pattern_lowering("resample")
def lower(desc: OperatorDesc, target: Target) -> Program:
    """The program that computes a checked description."""
    members = cast("Resampled | Upsample2d", desc)
    source, result = members.input_tensor, members.output_tensor
    is_linear = members.interpolation_mode == InterpolationMode.LINEAR
    mapped = _mapped(members)
    axes = _output_axes(source, result, [axis for axis, _ in mapped])
    averaged, is_in_parts = _averaging([how for _, how in mapped] if is_linear else [])
    is_packed = _is_packed(axes) and not is_in_parts
    is_plain = len(mapped) <= _MOST_PLAIN and not any(how.is_antialiased for _, how in mapped)
    elements = math.prod(result.sizes)
    items = -(-elements // _ELEMENTS_OF_ITEM) if is_packed else elements
    block, doubling = None, (0, 0)
    if is_linear and is_packed and is_plain:
        block, doubling = _blocks(axes, source, result, mapped, target)
    row_step, rows = 0, 1
    if block is not None:
        row_step, rows = axes[block].output_step, axes[block].size
        blocks = -(-rows // _ROWS_OF_BLOCK)
        items = elements // rows * blocks // _ELEMENTS_OF_ITEM
        axes[block] = dataclasses.replace(axes[block], size=blocks, output_step=row_step * _ROWS_OF_BLOCK)
    numbers = {
        "OUTPUT_PACKED": int(is_packed),
        "ROUNDING": rounding_of(members),
        "ROWS_OF_FOUR": int(is_multiple(axes[0].size, _ELEMENTS_OF_ITEM)),
        "IS_PLAIN": int(is_plain),
        "IN_PARTS": int(is_in_parts),
        **_constants_of_axes(axes, block, source, mapped),
    }
    if is_linear:
        numbers |= {
            "IN_BLOCKS": int(block is not None),
            "ROW_OUTPUT_STEP": row_step,
            "OUTPUT_ROWS": rows,
            "IS_DOUBLED": doubling[0],
            "HAS_PAIRS": doubling[1],
        }
    data_type: DataType = result.data_type
    name = f"linear.{data_type.name.lower()}" if is_linear else f"nearest.{_MOVED_AS[data_type.size_in_bits]}"
    builder = ProgramBuilder(desc, target)
    output = builder.writes["output_tensor"]
    state = builder.scratch(_STATE_BYTES * elements) if is_in_parts else output
    step = _AVERAGED_AT_ONCE if is_in_parts else averaged
    for first in range(0, averaged, step):
        kernel = PlainKernel(
            variant=f"resample.{name}",
            work_groups=launch_size(desc.operator_name, items),
            constants={name: number & 0xFFFFFFFF for name, number in numbers.items()},
            parameters=(items, elements, first, first + step),
        )
        builder.launch(kernel, [builder.reads["input_tensor"]], [output, state])
    return builder.program()


def _mapped(members: Resampled | Upsample2d) -> list[tuple[int, Resampling]]:
    """The axes along which elements do not stay where they are, from the last one on."""
    rounding = None if members.interpolation_mode == InterpolationMode.LINEAR else rounding_of(members)
    sizes = zip(members.input_tensor.sizes, members.output_tensor.sizes, resamplings(members), strict=True)
    every = [(axis, how) for axis, (extent, size, how) in enumerate(sizes) if not is_same(how, extent, size, rounding)]
    return every[::-1]


def _constants_of_axes(
    axes: Sequence[_ResampledAxis], block: int | None, source: TensorDesc, mapped: Sequence[tuple[int, Resampling]]
) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for position, axis in enumerate(axes):
        step = _ROWS_OF_BLOCK if position == block else 1
        numbers |= {
            f"SIZE_{position}": 0 if position == _AXES - 1 else axis.size,
            f"INPUT_STEP_{position}": axis.input_step,
            f"OUTPUT_STEP_{position}": axis.output_step,
            **{f"STEP_{name}_{position}": step * int(axis.number == n) for n, name in enumerate(_RESAMPLED)},
        }
    absent = (Resampling(1.0, 0.0, 0.0), 1, 0)
    resampled = [(how, source.sizes[number], source.element_strides[number]) for number, how in mapped]
    for name, of_axis in itertools.zip_longest(_RESAMPLED, resampled, fillvalue=absent):
        numbers |= resampled_axis(str(name), *of_axis)
    return numbers


def _blocks(
    axes: Sequence[_ResampledAxis],
    source: TensorDesc,
    result: TensorDesc,
    mapped: Sequence[tuple[int, Resampling]],
    target: Target,
) -> tuple[int | None, tuple[int, int]]:
    """The axis along which several rows are taken at once, if there is one, and what is known of its doubling."""
    block = _axis_of_blocks(axes, [how for _, how in mapped])
    if block is None:
        return None, (0, 0)
    doubling = _doubling(source, result, mapped)
    return block if doubling[0] or not target.is_cpu else None, doubling


def _axis_of_blocks(axes: Sequence[_ResampledAxis], mapped: Sequence[Resampling]) -> int | None:
    """Which of the output's axes GPUs take several rows at once along, with four neighbours of each; ``None``: none."""
    if len(mapped) != _MOST_PLAIN or axes[0].number != 0 or not is_multiple(axes[0].size, _ELEMENTS_OF_ITEM):
        return None
    if mapped[1].scale < _LEAST_SCALE_OF_BLOCK:
        return None
    return next(position for position, axis in enumerate(axes) if axis.number == 1)


def _doubling(source: TensorDesc, result: TensorDesc, mapped: Sequence[tuple[int, Resampling]]) -> tuple[int, int]:
    """Whether both axes are doubled around the middles of elements, and whether two neighbours lie in a vector."""
    extents = [source.sizes[axis] for axis, _ in mapped]
    is_doubled = all(
        (how.scale, how.input_offset, how.output_offset) == (2.0, 0.5, -0.5) and extent <= _LARGEST_SAME
        for (_, how), extent in zip(mapped, extents, strict=True)
    )
    column = mapped[0][0]
    steps = [stride for axis, stride in enumerate(source.element_strides) if axis != column and source.sizes[axis] > 1]
    has_pairs = (
        source.element_strides[column] == 1
        and extents[0] % 2 == 0
        and result.sizes[column] <= 2 * extents[0]
        and not any(step % 2 for step in steps)
        and source.data_type.size_in_bits == 32
    )
    return int(is_doubled), int(has_pairs)


def _averaging(mapped: Sequence[Resampling]) -> tuple[int, bool]:
    """The most elements that one of the output is averaged from, and whether several launches take them."""
    around = [_most_around(how) for how in mapped]
    iterations = sum(math.prod(around[number:]) + math.prod(around[number + 1 :]) for number in range(len(around)))
    return math.prod(around), _ELEMENTS_OF_ITEM * (iterations + _MOST_RESAMPLED + 1) > MAX_LOOP_ITERATIONS


def _most_around(how: Resampling) -> int:
    """The most elements along an axis that one of the output is averaged from."""
    return 2 * (int(np.float32(1) / np.float32(how.scale)) + 1) + 2 if how.is_antialiased else 2


def is_same(how: Resampling, extent: int, size: int, rounding: int | None) -> bool:
    """Whether every element along an axis comes from the one with its own number.

    Args:
        extent: elements of the input along it.
        size: elements of the output along it.
        rounding: how a nearest element is chosen; ``None``: elements are averaged.
    """
    moved = -how.output_offset - how.input_offset
    is_exact = moved % 0.25 == 0 and abs(how.output_offset) <= _LARGEST_SAME_OFFSET
    if how.scale != 1.0 or not is_exact or size > min(extent, _LARGEST_SAME):
        return False
    if rounding is None:
        return moved == 0.0
    return {NEAREST_OR_LOWER: -0.5 < moved <= 0.5, LOWER: 0 <= moved < 1, UPPER: -1 < moved <= 0}[rounding]


def rounding_of(desc: OperatorDesc) -> int:
    """How NEAREST_NEIGHBOR chooses: ROUNDING in the shaders."""
    direction = getattr(desc, "rounding_direction", None)
    if direction is None:
        return NEAREST_OR_LOWER
    return UPPER if direction == AxisDirection.INCREASING else LOWER


def _output_axes(source: TensorDesc, result: TensorDesc, mapped: Sequence[int]) -> list[_ResampledAxis]:
    """Five axes from the innermost one in the output's memory to the outermost; such as can be one are merged."""
    found = [
        _ResampledAxis(
            result.sizes[axis],
            0 if axis in mapped else source.element_strides[axis],
            result.element_strides[axis],
            mapped.index(axis) if axis in mapped else -1,
        )
        for axis in range(result.dimension_count)
        if result.sizes[axis] > 1
    ]
    found.sort(key=lambda axis: axis.output_step)
    merged: list[_ResampledAxis] = []
    for axis in found:
        inner = merged[-1] if merged else None
        if inner is not None and axis.number == inner.number == -1 and _follows(axis, inner):
            merged[-1] = dataclasses.replace(inner, size=inner.size * axis.size)
        else:
            merged.append(axis)
    missing = [_ResampledAxis(1, 0, 0, -1)] * (_AXES - len(merged))
    return [*merged[:-1], *missing, *merged[-1:]] if len(merged) > 1 else [*merged, *missing]


def _follows(axis: _ResampledAxis, inner: _ResampledAxis) -> bool:
    return axis.output_step == inner.size * inner.output_step and axis.input_step == inner.size * inner.input_step


def _is_packed(axes: Sequence[_ResampledAxis]) -> bool:
    """Whether the output is one run of neighbouring elements in this order of axes."""
    expected = 1
    for axis in axes:
        if axis.size > 1:
            if axis.output_step != expected:
                return False
            expected *= axis.size
    return True


def resampled_axis(name: str, how: Resampling, extent: int, stride: int) -> dict[str, int]:
    """The constants of a resampled axis, by what the shader calls it."""
    radius = float(np.float32(1) / np.float32(how.scale)) if how.is_antialiased else 0.0
    return {
        **{f"{constant}_{name}": value for constant, value in position_constants(how, extent).items()},
        f"EXTENT_{name}": extent,
        f"STRIDE_{name}": stride,
        f"RADIUS_{name}": float32_bits(radius),
    }


def position_constants(how: Resampling, extent: int) -> dict[str, int]:
    """The constants by which shaders find places in the input, as bits of FLOAT32."""
    return {
        "SCALE": float32_bits(float(np.float32(how.scale))),
        "INVERSE": float32_bits(_exact_inverse(how)),
        "INPUT_OFFSET": float32_bits(_without_denormal(how.input_offset)),
        "OUTPUT_OFFSET": float32_bits(_without_denormal(how.output_offset)),
        "LAST": applied(_bits_rounded_down, extent - 1),
    }


def _bits_rounded_down(number: int) -> int:
    """The bits of the largest FLOAT32 that is not above an integer."""
    rounded = np.float32(number)
    return float32_bits(float(np.nextafter(rounded, np.float32(0)) if float(rounded) > number else rounded))


def _exact_inverse(how: Resampling) -> float:
    """The reciprocal of a scale by which quotients are products; 0 where they are not, or may be denormal."""
    significand, exponent = math.frexp(how.scale)
    offset = abs(_without_denormal(how.output_offset))
    is_safe = abs(exponent) < _SAFE_EXPONENT and (offset == 0.0 or offset >= 2.0**-_SAFE_EXPONENT)
    return 1.0 / how.scale if significand == 0.5 and is_safe else 0.0


def _without_denormal(value: float) -> float:
    return 0.0 if abs(value) < float(np.finfo(np.float32).tiny) else value
