"""Copies from one view to another, and fills of views: the steps of everything that moves data by sizes alone.

A copy is folded first: axes in the target's order of memory, neighbours that lie behind one another in both views
merged, elements joined to wider ones where both have them side by side and aligned. What is left goes through
``shaders/patterns/movement/copies.comp``, or, where it is a transposition, through the tiles of element-wise kernels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_dynamic, is_multiple
from dmlvk.kernels import access_orders, constants
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, ElementwiseKernel, Kernel, PlainKernel, launch_size
from dmlvk.kernels.layout import FoldedLayout
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.interleaved import interleaved
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant, variant_name
from dmlvk.kernels.views import View
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

_WIDTHS = (8, 16)
_TILES = ((64, 32), (32, 64), (128, 16), (16, 128))  # Elements along the target's neighbours, and along the source's

_SHORTEST = 3  # Elements along either axis: two of them are as fast one by one


@shader_variants
def turned_variants() -> Iterator[ShaderVariant]:
    for bits in _WIDTHS:
        yield ShaderVariant(_variant_name(bits), "patterns/movement/turned.comp", (("BITS", str(bits)),))


def _variant_name(bits: int) -> str:
    return f"turned.bits{bits}"


def turned(folded: FoldedCopy, operator_name: str) -> PlainKernel | None:
    """The kernel of such a copy; ``None``: it is none.

    Args:
        folded: the copy, of 8 axes at most, of sizes that are known.
    """
    if folded.bits not in _WIDTHS or len(folded.sizes) < 2 or folded.target[0] != 1 or 1 not in folded.source[1:]:
        return None
    lines = folded.source.index(1, 1)
    if min(folded.sizes[0], folded.sizes[lines]) < _SHORTEST or min(folded.source) < 0:
        return None
    order = [0, lines, *(axis for axis in range(1, len(folded.sizes)) if axis != lines)]
    sizes, source, target = ([each[axis] for axis in order] for each in (folded.sizes, folded.source, folded.target))

    def tiles(tile: tuple[int, int]) -> int:
        return -(-sizes[0] // tile[0]) * -(-sizes[1] // tile[1])

    tile = min(_TILES, key=tiles)  # the first of the fewest
    items = tiles(tile) * math.prod(sizes[2:])
    return PlainKernel(
        variant=_variant_name(folded.bits),
        work_groups=launch_size(operator_name, items * WORK_GROUP_SIZE),
        constants={
            **constants.axes(sizes, {"source": source, "target": target}),
            "TILE_ALONG": tile[0],
            "TILE_LINES": tile[1],
        },
        parameters=(items, folded.first_source, folded.first_target),
    )


WIDTHS = (8, 16, 32, 64, 128)  # Bits of what shaders move at once

SMALL_IN_BYTES = 2**16
"""Up to so many bytes, a pipeline that is there already counts for more than the speed of its index arithmetic."""

_MANY_BLOCKS = 10  # of an axis, a part of the last of which may be without elements: a tenth at most
_LANES = 4  # what an invocation moves of a tensor that is not small
_MOST_INTERLEAVE = 256
_MOVED_AS = {8: DataType.UINT8, 16: DataType.UINT16, 32: DataType.UINT32, 64: DataType.UINT64}


@dataclasses.dataclass(frozen=True)
class FoldedCopy:
    """A copy without superfluous axes, the innermost first."""

    bits: int  # of an element
    sizes: tuple[int, ...]  # elements along each axis
    target: tuple[int, ...]  # strides in the target, all above 0, rising
    source: tuple[int, ...]  # strides in the source, of either sign
    first_target: int  # the element of the target whose coordinates are all 0
    first_source: int  # the same of the source

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def is_packed(self) -> bool:
        """Whether elements narrower than a word lie side by side in the target."""
        return self.bits < 32 and bool(self.sizes) and self.target[0] == 1

    @property
    def writes_whole_words(self) -> bool:
        """Whether no 32-bit word of the target has elements of others too."""
        return self.bits >= 32


def fold_copy(source: View, target: View, bits: int) -> FoldedCopy:
    """Folds a copy.

    Args:
        target: where they go to; of the same sizes, and without overlaps.
        bits: of an element: 8, 16, 32 or 64.
    """
    assert source.sizes == target.sizes  # both are made from one rule
    folded = _folded(source, target, bits)
    while (wider := _widened(folded)) is not None:
        folded = wider
    return folded


def _folded(source: View, target: View, bits: int) -> FoldedCopy:
    axes = []
    first_source, first_target = source.first, target.first
    for size, step, target_step in zip(source.sizes, source.strides, target.strides, strict=True):
        if size == 1:
            continue
        if target_step < 0:  # gone through from its other end
            first_source += (size - 1) * step
            first_target += (size - 1) * target_step
            axes.append((size, -target_step, -step))
        else:
            axes.append((size, target_step, step))
    merged: list[tuple[int, int, int]] = []
    for size, target_step, step in sorted(axes, key=lambda axis: axis[1]):
        if merged and target_step == merged[-1][1] * merged[-1][0] and step == merged[-1][2] * merged[-1][0]:
            merged[-1] = (merged[-1][0] * size, *merged[-1][1:])
        else:
            merged.append((size, target_step, step))
    sizes, target_steps, steps = (tuple(axis[i] for axis in merged) for i in range(3))
    return FoldedCopy(bits, sizes, target_steps, steps, first_target, first_source)


def _widened(folded: FoldedCopy) -> FoldedCopy | None:
    """Elements of twice the width, where both views have pairs of them."""
    if folded.bits == WIDTHS[-1] or not folded.sizes or folded.target[0] != 1 or folded.source[0] != 1:
        return None
    outer = (*folded.target[1:], *folded.source[1:], folded.first_target, folded.first_source, folded.sizes[0])
    if not all(is_multiple(number, 2) for number in outer):
        return None
    sizes = (folded.sizes[0] // 2, *folded.sizes[1:])
    source = View(sizes, (1, *(step // 2 for step in folded.source[1:])), folded.first_source // 2)
    target = View(sizes, (1, *(step // 2 for step in folded.target[1:])), folded.first_target // 2)
    return _folded(source, target, 2 * folded.bits)


def copy(
    builder: ProgramBuilder,
    source: tuple[Region, View],  # what is read, and which elements
    target: tuple[Region, View],  # what is written, and which elements: of the same sizes, without overlaps
    bits: int,  # of an element: 8, 16, 32 or 64
    *,
    label: str = "",  # what the step is called, for people
    # whether it writes other elements than the step before; it may wait all the same, where the two share a word
    is_independent: bool = False,
) -> None:
    folded = fold_copy(source[1], target[1], bits)
    independent = is_independent and folded.writes_whole_words
    for number, part in enumerate(_of_few_axes(folded)):
        kernel = kernel_of(part, builder.target, builder.operator_name)
        is_free = independent if number == 0 else folded.writes_whole_words
        builder.launch(kernel, [source[0]], [target[0]], label=label, is_independent=is_free)


def fill(
    builder: ProgramBuilder,
    target: tuple[Region, View],  # what is written, and which elements; without overlaps
    bits: int,  # of an element: 8, 16, 32 or 64
    value: int,  # its bits, as an unsigned number
    *,
    label: str = "",  # what the step is called, for people
    is_independent: bool = False,
) -> None:
    """Adds the launches that write one value to all elements of a view."""
    region, view = target
    folded = fold_copy(view, view, bits)
    words = repeated_value(value, bits)
    for number, part in enumerate(_of_few_axes(folded)):
        kernel = _kernel(part, "fill", builder.operator_name, words)
        is_free = (is_independent or number > 0) and folded.writes_whole_words
        builder.launch(kernel, [], [region], label=label, is_independent=is_free)


def repeated_value(value: int, bits: int) -> tuple[int, ...]:
    """As many copies of a value as fill four words."""
    whole = sum(value << position for position in range(0, 128, bits))
    return tuple(whole >> position & 0xFFFFFFFF for position in range(0, 128, 32))


def _of_few_axes(folded: FoldedCopy) -> Iterator[FoldedCopy]:
    """The copy as several of 8 axes at most: one for each place along the shortest of the others."""
    if len(folded.sizes) <= MAXIMUM_DIMENSION_COUNT:
        yield folded
        return
    axis = min(range(1, len(folded.sizes)), key=lambda number: folded.sizes[number])

    def without(numbers: Sequence[int]) -> tuple[int, ...]:
        return (*numbers[:axis], *numbers[axis + 1 :])

    for position in range(folded.sizes[axis]):
        part = dataclasses.replace(
            folded,
            sizes=without(folded.sizes),
            target=without(folded.target),
            source=without(folded.source),
            first_target=folded.first_target + position * folded.target[axis],
            first_source=folded.first_source + position * folded.source[axis],
        )
        yield from _of_few_axes(part)


def kernel_of(folded: FoldedCopy, target: Target, operator_name: str) -> Kernel:
    """The kernel that copies.

    Args:
        folded: the copy, of 8 axes at most.
    """
    if target.is_cpu or _is_small(folded):
        return _kernel(folded, "copy", operator_name, ())
    in_access_order = _in_access_order(folded, operator_name) or interleaved(folded, operator_name)
    return in_access_order or _turned(folded, operator_name) or _kernel(folded, "copy", operator_name, ())


def narrow_transposition(source: View, target: View, bits: int, device: Target, operator_name: str) -> Kernel | None:
    """The kernel that copies one view to another of the same sizes, where no element-wise kernel has tiles for it.

    Returns:
        ``None`` where it is no transposition, or one that element-wise kernels compute as well.
    """
    if device.is_cpu or bits >= WIDTHS[2]:
        return None
    folded = fold_copy(source, target, bits)
    if len(folded.sizes) > MAXIMUM_DIMENSION_COUNT or _is_small(folded) or _in_access_order(folded, operator_name):
        return None
    return _turned(folded, operator_name)


def _turned(folded: FoldedCopy, operator_name: str) -> PlainKernel | None:
    numbers = (*folded.sizes, *folded.source, *folded.target)
    return None if any(map(is_dynamic, numbers)) else turned(folded, operator_name)


def _is_small(folded: FoldedCopy) -> bool:
    return folded.elements * folded.bits <= 8 * SMALL_IN_BYTES


def _in_access_order(folded: FoldedCopy, operator_name: str) -> ElementwiseKernel | None:
    """An element-wise access order: one vector for an invocation, or in tiles.

    In vectors where both views are made of such; they are read once where the target repeats them. In tiles where the
    source has its neighbours along another axis than the target.
    """
    if folded.bits == WIDTHS[-1]:  # which element-wise kernels do not know
        if folded.target[0] != 1 or folded.source[0] != 1:
            return None
        folded = _halved(folded)
    first = (folded.first_source, folded.first_target)
    is_aligned = not any(number * folded.bits % 128 for number in first)
    if not is_aligned or any(stride < 0 for stride in folded.source):
        return None
    data_type = _MOVED_AS[folded.bits]
    layout, types = FoldedLayout(folded.sizes, (folded.source, folded.target)), (data_type, data_type)
    plan = access_orders.vectors(layout, types) or access_orders.tiles(layout, types)
    if plan is None:
        return None
    return ElementwiseKernel(
        variant=variant_name("ELEMENT_WISE_IDENTITY", (data_type, data_type), plan.access_order),
        geometry=plan.geometry,
        work_groups=launch_size(operator_name, plan.invocations, plan.work_group_size),
        work_items=plan.work_items,
        attributes=(),
        work_group_size=plan.work_group_size,
        first_words=tuple(number * folded.bits // 32 for number in first),
    )


def _halved(folded: FoldedCopy) -> FoldedCopy:
    """The same in elements of half the width, which are neighbours along axis 0."""
    return FoldedCopy(
        bits=folded.bits // 2,
        sizes=(2 * folded.sizes[0], *folded.sizes[1:]),
        target=(1, *(2 * step for step in folded.target[1:])),
        source=(1, *(2 * step for step in folded.source[1:])),
        first_target=2 * folded.first_target,
        first_source=2 * folded.first_source,
    )


def _kernel(folded: FoldedCopy, kind: str, operator_name: str, value: tuple[int, ...]) -> PlainKernel:
    row_elements = folded.sizes[0] if folded.sizes else 1
    sizes = list(folded.sizes)
    if folded.is_packed:
        sizes[0] = _words_of_a_row(folded)
    missing = MAXIMUM_DIMENSION_COUNT - len(sizes)
    padded = [*sizes, *[1] * missing]
    strides = [*folded.target, *[0] * missing]
    source_strides = [*folded.source, *[0] * missing]
    firsts = (folded.first_target, *value, *([folded.first_source] if kind == "copy" else []))
    if _is_small(folded):
        items = math.prod(sizes)
        own_strides = source_strides if kind == "copy" else []
        parameters = (items, *firsts, row_elements, *padded, *strides, *own_strides)
        groups = launch_size(operator_name, items)
        return PlainKernel(variant=f"{kind}.bits{folded.bits}.small", work_groups=groups, parameters=parameters)
    axis, interleave = _lanes(padded)
    block = _LANES * interleave
    along = -(-padded[axis] // block) * interleave
    items = math.prod(padded) // padded[axis] * along
    groups = launch_size(operator_name, items)
    numbers = {
        "ROW_ELEMENTS": row_elements,
        "LANE_AXIS": axis,
        "INTERLEAVE": interleave,
        **constants.numbered("SIZE", padded),
        **constants.numbered("TARGET_STRIDE", strides),
        **constants.numbered("SOURCE_STRIDE", source_strides),
    }
    return PlainKernel(
        variant=f"{kind}.bits{folded.bits}.large",
        work_groups=groups,
        constants={name: number & 0xFFFFFFFF for name, number in numbers.items()},
        parameters=(items, *firsts),
    )


def _words_of_a_row(folded: FoldedCopy) -> int:
    """Words that a row touches at most, wherever in a word it begins."""
    per_word = 32 // folded.bits
    if not all(is_multiple(stride, per_word) for stride in folded.target[1:]):
        return (folded.sizes[0] + 2 * per_word - 2) // per_word
    return -(-(folded.first_target % per_word + folded.sizes[0]) // per_word)


def _lanes(sizes: Sequence[int]) -> tuple[int, int]:
    """The axis along which an invocation takes its four elements, and how far apart.

    Along axis 0, far apart, where it is long: then neighbours stay neighbours. Else along the axis that leaves the
    fewest of them without an element, the outermost of several. Of an open size it is known only whether it is long.
    """
    candidates = [(0, interleave) for interleave in (256, 128, 64, 32) if sizes[0] >= _LANES * interleave]
    candidates += [(axis, 1) for axis in range(len(sizes) - 1, 0, -1)] or [(0, 1)]

    def waste(candidate: tuple[int, int]) -> float:
        axis, interleave = candidate
        block = _LANES * interleave
        if is_dynamic(sizes[axis]):
            return 1.1 if sizes[axis] >= _MANY_BLOCKS * block else 2.0
        return round(-(-sizes[axis] // block) * block / sizes[axis], 1)

    return min(candidates, key=waste)  # the first of the best


@shader_variants
def variants() -> list[ShaderVariant]:
    found = []
    for kind in ("copy", "fill"):
        for bits in WIDTHS:
            defines = [("WIDTH", str(bits))] + [("FILL", "1")] * (kind == "fill")
            for size in ("small", "large"):
                own = defines + [("SMALL", "1")] * (size == "small")
                found.append(
                    ShaderVariant(f"{kind}.bits{bits}.{size}", "patterns/movement/copies.comp", tuple(sorted(own)))
                )
    return found
