"""Lowers RESAMPLE_GRAD and RESAMPLE_GRAD1: shaders/patterns/windows/resample_gradient.glsl."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import copy
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.kernels.views import View
from dmlvk.kernels.windows.resample import NEAREST_OR_LOWER, UPPER, is_same, position_constants, rounding_of
from dmlvk.operators.resampling import InterpolationMode, ResampleGrad, ResampleGrad1, Resampling, resamplings
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_AXES = 4

_STATE_BYTES = 24
"""What one of several launches hands on to the next for each element of the output: STATE_WORDS in the shader."""

_LEAST_EXPONENT, _WEIGHT_BITS = -101, 24
"""The least addend, and how much less than a gradient one may be for each axis."""

_LOOKED_AT_ONCE = 2**20

_BLOCKS = "resample.block_gradient.float32"

_DOUBLED = "resample.doubled_gradient.float32"

_NEIGHBOURS = 2  # Elements of an invocation where a shader is for one kind of resampling

_BLOCK_COLUMNS, _MOST_BLOCK_ROWS = 2, 4
"""Of the blocks that elements go into for ``shaders/resample/block_gradient.comp``."""


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield ShaderVariant("resample.begins", "resample/begins.comp", ())
    for data_type in FLOATS:
        name, bits = data_type.name.lower(), str(data_type.size_in_bits)
        defines = (("OUTPUT", name), ("OUTPUT_BITS", bits))
        yield ShaderVariant(f"resample.gradient.{name}", "resample/gradient.comp", defines)
        if data_type is DataType.FLOAT32:
            yield ShaderVariant(_BLOCKS, "resample/block_gradient.comp", defines)
            yield ShaderVariant(_DOUBLED, "resample/doubled_gradient.comp", defines)


@dataclasses.dataclass(frozen=True)
class _GradientAxis:
    how: Resampling | None  # how it was resampled; ``None``: each element came from that with its own number
    extent: int  # elements of its input, which are those of the output here
    size: int  # elements of its output
    begins: int = 0  # where its part of the table begins

    @property
    def entries(self) -> int:
        return 0 if self.how is None else self.extent + 1

    @property
    def positions(self) -> dict[str, int]:
        """The constants by which places are found."""
        return position_constants(self.how or Resampling(1.0, 0.0, 0.0), self.extent)

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """From which element of its output to which, of those that are looked at together."""
        for first in range(0, self.size, _LOOKED_AT_ONCE):
            yield first, min(self.size, first + _LOOKED_AT_ONCE)

    @property
    def is_doubled(self) -> bool:
        """Whether its output has twice as many elements, which lie between the middles of those of its input."""
        if self.how is None or self.size != 2 * self.extent:
            return False
        return all(
            np.array_equal(
                _positions(self.how, first, end, self.extent),
                (np.arange(first, end) / 2 - 0.25).clip(0, self.extent - 1),
            )
            for first, end in self._stretches()
        )

    def block(self, rounding: int | None) -> int | None:
        """How many neighbours each element became, if all became as many and nothing is averaged.

        Args:
            rounding: how a nearest element is chosen; ``None``: elements are averaged.
        """
        if self.how is None:
            return 1
        block, rest = divmod(self.size, self.extent)
        if rounding is None or rest:
            return None
        for first, end in self._stretches():
            if not np.array_equal(
                _sources(self.how, first, end, self.extent, rounding), np.arange(first, end) // block
            ):
                return None
        return block

    def most_addends(self, rounding: int | None) -> int:
        """The most elements of the forward operator's output that one of its input has a part in.

        Args:
            rounding: how a nearest element is chosen; ``None``: elements are averaged.
        """
        if self.how is None:
            return 1
        most = 1
        last: npt.NDArray[np.float64] = np.zeros(0)  # numbers whose elements may go on in the next stretch
        counts_of_last: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        for first, end in self._stretches():
            numbers, counts = np.unique(_sources(self.how, first, end, self.extent, rounding), return_counts=True)
            if last.size and last[-1] == numbers[0]:
                counts[0] += counts_of_last[-1]
                last, counts_of_last = last[:-1], counts_of_last[:-1]
            numbers, counts = np.concatenate([last, numbers]), np.concatenate([counts_of_last, counts])
            most = max(most, int(counts.max()))
            if rounding is None:  # an element is the lower one of two, or the upper one
                pairs = (counts[1:] + counts[:-1])[np.diff(numbers) == 1]
                most = max(most, int(pairs.max(initial=0)))
            last, counts_of_last = numbers[-2:], counts[-2:]
        return most


def _shortcut(axes: Sequence[_GradientAxis], rounding: int | None, data_type: DataType) -> tuple[str, int] | None:
    """The shader for this kind of resampling, and the rows of its blocks; ``None`` where it is one of any kind."""
    columns, rows, *outer = axes
    if data_type is not DataType.FLOAT32 or columns.extent % _NEIGHBOURS or any(axis.how is not None for axis in outer):
        return None
    if rounding is None:
        return (_DOUBLED, 1) if columns.is_doubled and rows.is_doubled else None
    height = rows.block(rounding)
    is_so = columns.block(rounding) == _BLOCK_COLUMNS and height is not None and height <= _MOST_BLOCK_ROWS
    return (_BLOCKS, height or 1) if is_so else None


def _sources(how: Resampling, first: int, end: int, extent: int, rounding: int | None) -> npt.NDArray[np.float64]:
    """The numbers of the elements that those of the output come from: of two that are averaged the lower ones."""
    inside = _positions(how, first, end, extent)
    if rounding == NEAREST_OR_LOWER:
        inside = np.maximum(inside - 0.5, 0.0)
    numbers: npt.NDArray[np.float64] = np.ceil(inside) if rounding in (NEAREST_OR_LOWER, UPPER) else np.floor(inside)
    return numbers


def _positions(how: Resampling, first: int, end: int, extent: int) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore", under="ignore"):
        offsets = np.arange(first, end).astype(np.float32) - np.float32(how.output_offset)
        positions = offsets / np.float32(how.scale) - np.float32(how.input_offset)
    inside: npt.NDArray[np.float64] = np.clip(positions.astype(np.float64), 0, extent - 1)
    return inside


@lowering(ResampleGrad, ResampleGrad1)
def lower(desc: ResampleGrad | ResampleGrad1, target: Target) -> Program:
    """The program that computes a checked description."""
    source, result = desc.input_gradient_tensor, desc.output_gradient_tensor
    rounding = None if desc.interpolation_mode == InterpolationMode.LINEAR else rounding_of(desc)
    builder = ProgramBuilder(desc, target)
    axes = _axes_of(desc, rounding)
    table = builder.scratch(max(4, 4 * sum(axis.entries for axis in axes)))
    for axis in axes:
        if axis.how is not None:
            _launch_table(builder, axis, rounding, table)
    bits = result.data_type.size_in_bits
    reads = builder.reads["input_gradient_tensor"]
    if not source.is_packed:
        packed = builder.scratch(-(-source.element_count * bits // 32) * 4)
        copy(builder, (reads, View.of(source)), (packed, View.packed(source.sizes)), bits, label="packed input")
        reads = packed
    written = builder.writes["output_gradient_tensor"]
    if result.is_packed:
        _launch(builder, axes, rounding, result, [reads, table], written)
        return builder.program()
    packed = builder.scratch(-(-result.element_count * bits // 32) * 4)
    _launch(builder, axes, rounding, result, [reads, table], packed)
    copy(builder, (packed, View.packed(result.sizes)), (written, View.of(result)), bits, label="to its strides")
    return builder.program()


def _axes_of(desc: ResampleGrad | ResampleGrad1, rounding: int | None) -> list[_GradientAxis]:
    """Four axes from the innermost one to the outermost."""
    extents, sizes = desc.output_gradient_tensor.sizes, desc.input_gradient_tensor.sizes
    axes: list[_GradientAxis] = []
    begins = 0
    for how, extent, size in reversed(list(zip(resamplings(desc), extents, sizes, strict=True))):
        axes.append(_GradientAxis(None if is_same(how, extent, size, rounding) else how, extent, size, begins))
        begins += axes[-1].entries
    return [*axes, *[_GradientAxis(None, 1, 1)] * (_AXES - len(axes))]


def _launch_table(builder: ProgramBuilder, axis: _GradientAxis, rounding: int | None, table: Region) -> None:
    groups = launch_size(builder.operator_name, axis.entries)
    kernel = PlainKernel(
        variant="resample.begins",
        work_groups=groups,
        constants={"IS_LINEAR": int(rounding is None), "ROUNDING": rounding or 0, **axis.positions},
        parameters=(axis.begins, axis.entries, axis.size),
    )
    builder.launch(kernel, [], [table], label="where elements begin")


def _launch(
    builder: ProgramBuilder,
    axes: list[_GradientAxis],
    rounding: int | None,
    result: TensorDesc,
    reads: list[Region],
    written: Region,
) -> None:
    bits = result.data_type.size_in_bits
    elements_of_word, rounds = 32 // bits, 3 if bits == 32 else 1
    most = math.prod(axis.most_addends(rounding) for axis in axes)
    # An invocation goes through the elements of a word, and as often as there are rounds through the addends of each; a
    # loop's end is an iteration, too.
    is_in_parts = elements_of_word * (rounds * (most + 2) + 2) + 1 > MAX_LOOP_ITERATIONS
    of_weights = _WEIGHT_BITS * sum(axis.how is not None for axis in axes) if rounding is None else 0
    groups = launch_size(builder.operator_name, -(-result.element_count * bits // 32))
    constants = {
        "IN_PARTS": int(is_in_parts),
        "IS_LINEAR": int(rounding is None),
        "LEAST_MAGNITUDE": (_LEAST_EXPONENT + of_weights + 127) << 23,
    }
    for name, axis in zip("ABCD", axes, strict=True):
        constants |= {
            f"SIZE_{name}": axis.extent,
            f"COUNT_{name}": axis.size,
            f"IS_RESAMPLED_{name}": int(axis.how is not None),
            **{f"{constant}_{name}": value for constant, value in axis.positions.items()},
            f"BEGINS_{name}": axis.begins,
        }
    shortcut = None if is_in_parts or builder.target.is_cpu else _shortcut(axes, rounding, result.data_type)
    if shortcut is not None:
        variant, block_rows = shortcut
        groups = launch_size(builder.operator_name, result.element_count // _NEIGHBOURS)
        numbers = {**constants, "BLOCK_ROWS": block_rows}
        builder.launch(
            PlainKernel(variant, groups, numbers, (result.element_count, 0, most, 0)), reads, [written, written]
        )
        return
    state = builder.scratch(_STATE_BYTES * result.element_count) if is_in_parts else written
    step = (MAX_LOOP_ITERATIONS - 1) // elements_of_word - 4 if is_in_parts else most
    for round in range(rounds) if is_in_parts else (0,):
        for first in range(0, most, step):
            kernel = PlainKernel(
                variant=f"resample.gradient.{result.data_type.name.lower()}",
                work_groups=groups,
                constants={**constants, "BLOCK_ROWS": 1},
                parameters=(result.element_count, first, first + step, round),
            )
            builder.launch(kernel, reads, [written, state])
