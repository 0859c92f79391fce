"""Lowers TILE, PADDING and blocks between depth and space to copies from view to view."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from dmlvk.kernels import constants
from dmlvk.kernels.elementwise.elementwise import converted_bits
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import copy, fill, repeated_value
from dmlvk.kernels.movement.indexed_access import UNITS, lanes, variant_name, variant_of
from dmlvk.kernels.program import ProgramBuilder, Region, adds_steps
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.kernels.views import View
from dmlvk.operators.filling import Unfold, blocks_along
from dmlvk.operators.rearrangement import (
    DepthSpaceOrder,
    DepthToSpace,
    DepthToSpace1,
    Padding,
    Padding1,
    PaddingMode,
    SpaceToDepth,
    SpaceToDepth1,
    Tile,
)
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

_PADDED = "padded"


@shader_variants
def variants() -> Iterable[ShaderVariant]:
    for unit in UNITS:
        variant = variant_of(_PADDED, unit, folder="patterns/movement")
        yield variant
        if unit <= 32:
            defines = (("LANES", "4"), ("UNIT_BITS", str(unit)), ("VECTORS", "1"))
            yield dataclasses.replace(variant, name=_of_vectors(unit), defines=defines)


def _of_vectors(unit: int) -> str:
    return variant_name(_PADDED, unit) + ".vectors"


@dataclasses.dataclass(frozen=True)
class _PaddedAxis:
    size: int  # elements
    dense: int  # the target's stride in elements
    sparse: int  # the source's
    start: int  # where the source begins
    length: int  # elements of the source

    @property
    def is_padded(self) -> bool:
        return self.size != self.length

    def around(self, inner: _PaddedAxis) -> _PaddedAxis | None:
        """This axis and the one inside it as one; ``None``: they are none."""
        is_next = self.dense == inner.dense * inner.size and self.sparse == inner.sparse * inner.length
        if inner.is_padded or not is_next:
            return None
        size = inner.size
        return _PaddedAxis(self.size * size, inner.dense, inner.sparse, self.start * size, self.length * size)

    def in_units(self, count: int, *, is_innermost: bool) -> _PaddedAxis:
        if not is_innermost:
            return dataclasses.replace(self, dense=self.dense // count, sparse=self.sparse // count)
        return _PaddedAxis(self.size // count, 1, 1, self.start // count, self.length // count)


def padded(
    operator_name: str, source: View, target: View, starts: Sequence[int], value: Sequence[int], bits: int
) -> PlainKernel | None:
    """The kernel that writes a whole target: the source in its middle, a value around it.

    Args:
        target: all elements of the output, without overlaps.
        starts: where the source begins along each axis.
        value: as many copies of the value as fill four words.

    Returns:
        ``None`` where elements narrower than a word do not lie side by side in the target.
    """
    axes = _folded(source, target, starts)
    unit = _unit(axes, bits)
    if unit > bits:
        axes = [axis.in_units(unit // bits, is_innermost=number == 0) for number, axis in enumerate(axes)]
    elements = math.prod(axis.size for axis in axes)
    is_packed = all(axis.dense == math.prod(inner.size for inner in axes[:number]) for number, axis in enumerate(axes))
    if unit < 32 and not is_packed:
        return None
    # Where a vector of the target lies in two rows at most, its place is found once for all of its units.
    has_vectors = unit <= 32 and is_packed and bool(axes) and axes[0].size >= 128 // unit
    items = -(-elements // (32 // unit)) if unit < 32 else elements
    invocations = -(-elements // (128 // unit)) if has_vectors else -(-items // lanes(unit))
    groups = launch_size(operator_name, invocations)
    missing = MAXIMUM_DIMENSION_COUNT - len(axes)
    strides = {"dense": [axis.dense for axis in axes], "sparse": [axis.sparse for axis in axes]}
    return PlainKernel(
        variant=_of_vectors(unit) if has_vectors else variant_name(_PADDED, unit),
        work_groups=groups,
        constants={
            **constants.axes([axis.size for axis in axes], strides, is_packed=unit < 32),
            **constants.numbered("START", [*(axis.start for axis in axes), *[0] * missing]),
            **constants.numbered("LENGTH", [*(axis.length for axis in axes), *[1] * missing]),
        },
        parameters=(elements, *value),
    )


def _folded(source: View, target: View, starts: Sequence[int]) -> list[_PaddedAxis]:
    """As few axes as possible, the target's innermost first."""
    axes = [
        _PaddedAxis(*each)
        for each in zip(target.sizes, target.strides, source.strides, starts, source.sizes, strict=True)
        if each[0] > 1
    ]
    folded: list[_PaddedAxis] = []
    for axis in sorted(axes, key=lambda axis: axis.dense):
        merged = axis.around(folded[-1]) if folded else None
        if merged is None:
            folded.append(axis)
        else:
            folded[-1] = merged
    return folded


def _unit(axes: Sequence[_PaddedAxis], bits: int) -> int:
    """The widest unit of which source, target and padding are made."""
    if not axes or (axes[0].dense, axes[0].sparse) != (1, 1):
        return bits
    inner = axes[0]
    outer = [stride for axis in axes[1:] for stride in (axis.dense, axis.sparse)]
    numbers = (inner.size, inner.start, inner.length, *outer)
    return next(unit for unit in UNITS if unit <= bits or not any(number % (unit // bits) for number in numbers))


_Rearranged: TypeAlias = DepthToSpace | DepthToSpace1 | Padding | Padding1 | SpaceToDepth | SpaceToDepth1 | Tile


def _copy_all(b: ProgramBuilder, desc: _Rearranged, source: View, target: View) -> None:
    bits = desc.output_tensor.data_type.size_in_bits
    copy(b, (b.reads["input_tensor"], source), (b.writes["output_tensor"], target), bits)


@adds_steps(Tile)
def _tile(b: ProgramBuilder, desc: Tile) -> None:
    source, target = View.of(desc.input_tensor), View.of(desc.output_tensor)
    for axis in reversed(range(len(desc.repeats))):
        target = target.split(axis, (desc.repeats[axis], source.sizes[axis]))
        source = source.repeated(axis, desc.repeats[axis])
    _copy_all(b, desc, source, target)


def _blocks(deep: View, flat: View, block: int, order: DepthSpaceOrder) -> tuple[View, View]:
    """The same elements in the same order, of a tensor with deep channels and of one with pixels in blocks."""
    channels = flat.sizes[1]
    pixels = flat.split(3, (deep.sizes[3], block)).split(2, (deep.sizes[2], block))  # n, c, h, i, w, j
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return deep.split(1, (block, block, channels)), pixels.permuted((0, 3, 5, 1, 2, 4))
    return deep.split(1, (channels, block, block)), pixels.permuted((0, 1, 3, 5, 2, 4))


def _order(desc: DepthToSpace | DepthToSpace1 | SpaceToDepth | SpaceToDepth1) -> DepthSpaceOrder:
    return getattr(desc, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW)


@adds_steps(DepthToSpace, DepthToSpace1)
def _depth_to_space(b: ProgramBuilder, desc: DepthToSpace | DepthToSpace1) -> None:
    deep, flat = View.of(desc.input_tensor), View.of(desc.output_tensor)
    _copy_all(b, desc, *_blocks(deep, flat, desc.block_size, _order(desc)))


@adds_steps(SpaceToDepth, SpaceToDepth1)
def _space_to_depth(b: ProgramBuilder, desc: SpaceToDepth | SpaceToDepth1) -> None:
    flat, deep = View.of(desc.input_tensor), View.of(desc.output_tensor)
    target, source = _blocks(deep, flat, desc.block_size, _order(desc))
    _copy_all(b, desc, source, target)


@adds_steps(Padding, Padding1)
def _padding(b: ProgramBuilder, desc: Padding | Padding1) -> None:
    source, whole = View.of(desc.input_tensor), View.of(desc.output_tensor)
    middle = whole.window(desc.start_padding, source.sizes, (1,) * len(source.sizes))
    region, bits = b.writes["output_tensor"], desc.output_tensor.data_type.size_in_bits
    if desc.padding_mode is PaddingMode.CONSTANT:
        value = converted_bits(desc.padding_value, desc.output_tensor.data_type) & ((1 << bits) - 1)
        # Processors gain nothing by it: they copy whole rows faster than they ask where each element lies.
        words = repeated_value(value, bits)
        at_once = None if b.target.is_cpu else padded(b.operator_name, source, whole, desc.start_padding, words, bits)
        if at_once is not None:
            b.launch(at_once, [b.reads["input_tensor"]], [region])
            return
        _copy_all(b, desc, source, middle)
        fill_around(b, (region, whole), desc.start_padding, source.sizes, value, bits)
        return
    _copy_all(b, desc, source, middle)
    _mirror_around(b, desc, region, whole)


def fill_around(
    b: ProgramBuilder,
    target: tuple[Region, View],  # where, and which elements in all
    starts: Sequence[int],  # where the middle begins along each axis
    sizes: Sequence[int],
    value: int,
    bits: int,
) -> None:
    """Adds fills of everything around the middle of a view: of one slab before it and one behind it along each axis."""
    region, whole = target
    left = whole
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        end = start + size
        for first, count in ((0, start), (end, left.sizes[axis] - end)):
            if count:
                slab = left.part(axis, first, count)
                fill(b, (region, slab), bits, value & ((1 << bits) - 1), label="padding", is_independent=True)
        left = left.part(axis, start, size)


@adds_steps(Unfold)
def _unfold(b: ProgramBuilder, desc: Unfold) -> None:
    tensor, bits = desc.input_tensor, desc.input_tensor.data_type.size_in_bits
    batch, channels, *spatial = tensor.sizes
    region, source = b.reads["input_tensor"], View.of(tensor)
    if any(desc.start_padding) or any(desc.end_padding):
        starts = (0, 0, *desc.start_padding)
        padded = View.packed([sum(part) for part in zip(starts, tensor.sizes, (0, 0, *desc.end_padding), strict=True)])
        scratch = b.scratch(-(-math.prod(padded.sizes) * bits // 32) * 4)
        middle = padded.window(starts, tensor.sizes, (1,) * len(starts))
        copy(b, (region, source), (scratch, middle), bits, label="padded input")
        fill_around(b, (scratch, padded), starts, tensor.sizes, 0, bits)
        region, source = scratch, padded
    windows, blocks = tuple(desc.window_sizes), blocks_along(desc, spatial)
    inner = source.strides[2:]
    strides = (
        *source.strides[:2],
        *(stride * step for stride, step in zip(inner, desc.dilations, strict=True)),
        *(stride * step for stride, step in zip(inner, desc.strides, strict=True)),
    )
    moved = View((batch, channels, *windows, *blocks), strides, source.first)
    target = View.of(desc.output_tensor)
    target = View(target.sizes[-3:], target.strides[-3:])  # those before are of size 1
    target = target.split(2, blocks).split(1, (channels, *windows))
    copy(b, (region, moved), (b.writes["output_tensor"], target), bits, label="windows")


def _mirror_around(b: ProgramBuilder, desc: Padding | Padding1, region: Region, whole: View) -> None:
    """Pads axis by axis, from what the output has already."""
    sizes, bits = desc.input_tensor.sizes, desc.output_tensor.data_type.size_in_bits
    rows = whole.window(desc.start_padding, sizes, (1,) * len(sizes))  # full along the axes that are done
    for axis, size in enumerate(sizes):
        start, end = desc.start_padding[axis], desc.end_padding[axis]
        before = View(
            (*rows.sizes[:axis], start + size, *rows.sizes[axis + 1 :]),
            (*rows.strides[:axis], -rows.strides[axis], *rows.strides[axis + 1 :]),
            rows.first + (size - 1) * rows.strides[axis],
        )
        behind = View((*rows.sizes[:axis], size + end, *rows.sizes[axis + 1 :]), rows.strides, rows.first)
        for line in (before, behind):
            _continue(b, (region, line), axis, size, desc.padding_mode, bits)
        rows = View(
            (*rows.sizes[:axis], start + size + end, *rows.sizes[axis + 1 :]),
            rows.strides,
            rows.first - start * rows.strides[axis],
        )


def _continue(
    b: ProgramBuilder, target: tuple[Region, View], axis: int, size: int, mode: PaddingMode, bits: int
) -> None:
    """Continues a view along an axis, whose first ``size`` places are there already."""
    region, line = target
    there, length = size, line.sizes[axis]
    # What follows first: at most so many places, from this one on, in this direction; and after how many all repeats.
    most, first, step, period = {
        PaddingMode.EDGE: (length, size - 1, 0, 1),
        PaddingMode.REFLECTION: (size - 1, size - 2, -1, 2 * (size - 1)),
        PaddingMode.SYMMETRIC: (size, size - 1, -1, 2 * size),
        PaddingMode.WRAP: (size, 0, 1, size),
    }[PaddingMode.EDGE if mode is PaddingMode.REFLECTION and size == 1 else mode]
    while there < length:
        if there == size:
            count = min(most, length - there)
            source = line.part(axis, first, count, step)
        else:
            back = there // period * period
            count = min(back, length - there)
            source = line.part(axis, there - back, count)
        copy(b, (region, source), (region, line.part(axis, there, count)), bits, label="padding")
        there += count
