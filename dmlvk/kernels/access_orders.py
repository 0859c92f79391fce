"""Chooses how a kernel goes through memory, and works out the specialization constants of that access order."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import applied, is_dynamic, is_multiple, tells_multiples, typical
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, work_groups
from dmlvk.kernels.layout import ANY_SIZE, FoldedLayout, open_ended
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import (
    ACCESS_ORDERS,
    TILES_IN_BYTES,
    WORK_GROUP_SIZE_WITH_TWO_VECTORS,
    AccessOrder,
    lanes,
    tile_size,
    tiles_at_once,
)
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT

_MOST_INTERLEAVE = 64
"""How far apart an invocation's elements lie at most in the strided access order; more gains nothing."""

_MOST_SPLIT = 2**19
"""How many elements at most, along the only axis, the strided access order takes in rows of few, so that one kernel
serves all such sizes: a large GPU has cores for an invocation each. More of them are worth a kernel of their own, in
which every invocation has four."""

_MOST_REPEATS = 8
"""How often an invocation stores one result at most; more leave no time for others to read in the meantime."""

_FEWEST_INVOCATIONS = 2**16
"""What is left at least for a GPU's cores when an invocation stores one result several times."""

_FEWEST_WITH_TWO_VECTORS = 2**18
"""What is left at least for a GPU's cores when an invocation computes two vectors: as many as a large GPU runs."""

_FEWEST_WITH_TWO_TILES = 2**18  # The same for work groups that have two tiles

DEFERS_SLOW_PATH = 5
"""The ``constant_id`` by which a contiguous kernel that can do so is told to compute operands of the slow path after
the others."""

_VECTORS_ON_PROCESSORS = 8
"""How many vectors an invocation computes on a processor that leaves the slow path for the end."""

_FEWEST_ON_PROCESSORS = 2**13  # What is left at least for a processor's cores then: 32 work groups

_MOST_OF_ANY_REST = 2**16
"""Elements of dynamic sizes that are not gone through in vectors, for whose rest there would be another kernel."""

_NOT_TILED = 2**32 - 1  # Where the tiles begin of an input that has none


@dataclasses.dataclass(frozen=True)
class AccessPlan:
    """An access order over a folded layout."""

    access_order: AccessOrder  # which
    invocations: int  # how many there is work for
    # what the shader's ``work_items`` counts: elements (contiguous), vectors (rows), invocations (strided), or work
    # groups (tiled)
    work_items: int
    geometry: tuple[int, ...]  # the specialization constants from id 2 on
    repeats: int = 1  # how often an invocation stores each of its results
    work_group_size: int = WORK_GROUP_SIZE  # invocations of a work group


def plan(
    layout: FoldedLayout,  # of all operands, the output last
    types: tuple[DataType, ...],  # the operands' data types as the shader sees them, the output's last
    target: Target,
    # tells whether the function, in an access order's kernel, is slower than memory; asked for large tensors
    takes_a_while: Callable[[AccessOrder], bool],
    # tells whether an access order's kernel can compute operands of the slow path after the others; asked for large
    # tensors
    defers_slow_path: Callable[[AccessOrder], bool] = lambda access_order: False,
    orders: Sequence[AccessOrder] = ACCESS_ORDERS,  # those that there are kernels for, strided among them
) -> AccessPlan:
    """The fastest access order that a layout allows on a device."""
    if _is_small_of_any_rest(layout, types):
        return _strided(layout, types)
    # Tiles gain processors nothing, and waiting for others costs them much.
    chosen = _plan(layout, types, may_tile=not target.is_cpu)
    if chosen.access_order not in orders:
        one = FoldedLayout((1,), ((1,),) * len(layout.strides))
        return _strided(layout if layout.sizes else one, types)
    if not target.is_cpu:
        return _with_two_vectors(chosen, types, takes_a_while)
    return _with_deferral(chosen, defers_slow_path)


def _plan(layout: FoldedLayout, types: tuple[DataType, ...], *, may_tile: bool) -> AccessPlan:
    if layout.is_contiguous:
        return _contiguous(layout, types)
    if _has_vector_rows(layout, lanes("rows", types)):
        return _rows(layout, types)
    tiled = _tiled_axis(layout, types) if may_tile else None
    return _strided(layout, types) if tiled is None else _tiles(layout, types, tiled)


def _is_small_of_any_rest(layout: FoldedLayout, types: tuple[DataType, ...]) -> bool:
    """Whether there are few elements in order, and plans do not tell apart how many are left over of vectors."""
    if not layout.is_contiguous:
        return False
    elements = math.prod(layout.sizes)
    is_known = not is_dynamic(elements) or is_multiple(elements, lanes("contiguous", types))
    return not is_known and not tells_multiples(elements) and elements <= _MOST_OF_ANY_REST


def tiles(layout: FoldedLayout, types: tuple[DataType, ...]) -> AccessPlan | None:
    """The access order in tiles of a layout that is a transposition; ``None``: another access order serves it
    better.
    """
    axis = _tiled_axis(layout, types)
    return None if axis is None else _tiles(layout, types, axis)


def vectors(layout: FoldedLayout, types: tuple[DataType, ...]) -> AccessPlan | None:
    """The access order of a layout in whole vectors, one for an invocation; ``None``: its rows are not made of such."""
    if layout.is_contiguous:
        return None if _is_small_of_any_rest(layout, types) else _contiguous(layout, types)
    return _rows(layout, types) if _has_vector_rows(layout, lanes("rows", types)) else None


def _with_two_vectors(
    chosen: AccessPlan, types: tuple[DataType, ...], takes_a_while: Callable[[AccessOrder], bool]
) -> AccessPlan:
    """The same access order with two vectors for every invocation, where that is faster; else the one that was chosen.

    Both are loaded before anything is computed. That gains 8 to 14% where the function takes a while, or where vectors
    of the output are short; a simple function loses 1%, results that are stored several times lose 3%.
    """
    vectors = chosen.invocations
    if (
        chosen.access_order not in ("contiguous", "rows")
        or chosen.repeats > 1
        or vectors < 2 * _FEWEST_WITH_TWO_VECTORS
    ):
        return chosen
    is_narrow = types[-1].size_in_bits < max(data_type.size_in_bits for data_type in types)
    if not is_narrow and not takes_a_while(chosen.access_order):
        return chosen
    size = WORK_GROUP_SIZE_WITH_TWO_VECTORS
    invocations = -(-vectors // (2 * size)) * size  # the two lie a work group apart
    geometry = (*chosen.geometry[:-1], 1)
    if chosen.access_order == "contiguous":
        whole_groups = chosen.work_items // lanes("contiguous", types)
        exceeds = is_dynamic(whole_groups) or 2 * math.prod(work_groups(invocations, size)) * size > whole_groups
        geometry = (int(exceeds), chosen.geometry[1], 1, 0)
    return dataclasses.replace(chosen, invocations=invocations, geometry=geometry, work_group_size=size)


def _with_deferral(chosen: AccessPlan, defers_slow_path: Callable[[AccessOrder], bool]) -> AccessPlan:
    """The same access order with the slow path computed after the rest: processors execute both sides of a branch."""
    invocations = -(-chosen.invocations // _VECTORS_ON_PROCESSORS)
    if (
        chosen.access_order != "contiguous"
        or invocations < _FEWEST_ON_PROCESSORS
        or not defers_slow_path(chosen.access_order)
    ):
        return chosen
    groups = -(-invocations // WORK_GROUP_SIZE)  # an invocation's vectors lie a work group apart
    return dataclasses.replace(chosen, invocations=groups * WORK_GROUP_SIZE, geometry=(*chosen.geometry[:-1], 1))


def _contiguous(layout: FoldedLayout, types: tuple[DataType, ...]) -> AccessPlan:
    elements = math.prod(layout.sizes)
    whole_groups, left_over = divmod(elements, lanes("contiguous", types))
    groups = whole_groups + (left_over > 0)
    # That there are too many is told where it could be so for some sizes: it only costs a comparison.
    exceeds = is_dynamic(groups) or math.prod(work_groups(groups)) * WORK_GROUP_SIZE > whole_groups
    return AccessPlan("contiguous", groups, elements, (int(exceeds), int(left_over > 0), 0, 0))


def _has_vector_rows(layout: FoldedLayout, lane_count: int) -> bool:
    """Whether every row is a whole number of aligned vectors in each operand, or one element that is repeated."""
    if not is_multiple(layout.sizes[0], lane_count) or layout.strides[-1][0] != 1:
        return False
    return all(
        strides[0] == 0 or (strides[0] == 1 and all(is_multiple(stride, lane_count) for stride in strides[1:]))
        for strides in layout.strides
    )


def _rows(layout: FoldedLayout, types: tuple[DataType, ...]) -> AccessPlan:
    lane_count = lanes("rows", types)
    vectors = math.prod(layout.sizes) // lane_count
    layout, repeats, stride = _without_repeats(layout, lane_count, vectors)
    size, *others = layout.sizes
    groups_per_row = size // lane_count if others else ANY_SIZE  # a single row ends where the work does
    sizes = (size if others else ANY_SIZE, *open_ended(others))
    repeat_stride = stride // lane_count if repeats > 1 else 0
    geometry = _geometry(layout, sizes, groups_per_row, False, repeats, repeat_stride, 0)
    return AccessPlan("rows", vectors // repeats, vectors // repeats, geometry, repeats)


def _without_repeats(layout: FoldedLayout, lane_count: int, vectors: int) -> tuple[FoldedLayout, int, int]:
    """Takes a few repeats of every result out of an axis along which no input changes.

    Args:
        vectors: how many there are; what is left of them has to keep the device busy.

    Returns:
        what is left of the layout, the number of repeats, and how far apart in the output they lie, in elements.
    """
    repeats, axis = 1, 0
    for number, size in enumerate(layout.sizes):
        if not any(strides[number] for strides in layout.strides[:-1]):
            count = size // lane_count if number == 0 else size
            most = min(typical(vectors) // _FEWEST_INVOCATIONS, _MOST_REPEATS)
            repeats, axis = max((repeats, axis), (_largest_divisor(count, most), number))
    output = layout.strides[-1][axis]
    left = layout.sizes[axis] // repeats
    strides = [list(operand) for operand in layout.strides]
    if axis > 0:
        strides[-1][axis] = output * repeats
    sizes = (*layout.sizes[:axis], left, *layout.sizes[axis + 1 :])
    transposed = FoldedLayout(sizes, tuple(tuple(operand) for operand in strides))
    return transposed, repeats, output if axis > 0 else left


def _largest_divisor(number: int, most: int) -> int:
    return next((divisor for divisor in range(most, 1, -1) if is_multiple(number, divisor)), 1)


def _tiled_axis(layout: FoldedLayout, types: tuple[DataType, ...]) -> int | None:
    """The axis along which inputs have their neighbours that the output has along axis 0; ``None`` without such inputs.

    Words must begin at multiples of their elements, and neither axis may fill less than a quarter of a tile's side.
    """
    per_word = max(1, 32 // types[-1].size_in_bits)
    output = layout.strides[-1]
    has_words = output[0] == 1 and all(is_multiple(stride, per_word) for stride in output[1:])
    if not has_words:
        return None
    side = tile_size(types)
    axes = (axis for axis in range(1, len(layout.sizes)) if _tiled_inputs(layout, types, axis))
    return next((axis for axis in axes if 4 * layout.sizes[0] >= side and 4 * layout.sizes[axis] >= side), None)


def _tile_words(inputs: int, types: tuple[DataType, ...], tiles: int) -> tuple[int, ...]:
    """The words of shared memory for so many tiles of those inputs whose bits are set, and where each input's begin."""
    words, first_words = 0, []
    for number, data_type in enumerate(types[:-1]):
        is_tiled = inputs >> number & 1
        first_words.append(words if is_tiled else _NOT_TILED)
        words += is_tiled * tiles * tile_size(types) ** 2 * data_type.size_in_bits // 32
    return words, *first_words


def _tiled_inputs(layout: FoldedLayout, types: tuple[DataType, ...], axis: int) -> int:
    """A bit for each input that goes through shared memory when tiles reach along ``axis``.

    These are those with the widest elements, where it does not hold all: the others are read element by element, and
    the narrower they are, the more of a tile's lines lie in the same sector of a cache, 32 of 8 bits.
    """
    inputs = 0
    for number in sorted(range(len(types) - 1), key=lambda number: -types[number].size_in_bits):
        strides, per_word = layout.strides[number], max(1, 32 // types[number].size_in_bits)
        aligned = all(is_multiple(stride, per_word) for i, stride in enumerate(strides) if i != axis)
        fits = 4 * _tile_words(inputs | 1 << number, types, 1)[0] <= TILES_IN_BYTES
        if strides[axis] == 1 and strides[0] > 1 and aligned and fits:
            inputs |= 1 << number
    return inputs


def _tiles(layout: FoldedLayout, types: tuple[DataType, ...], axis: int) -> AccessPlan:
    order = [0, axis, *(i for i in range(1, len(layout.sizes)) if i != axis)]
    transposed = FoldedLayout(
        tuple(layout.sizes[i] for i in order), tuple(tuple(strides[i] for i in order) for strides in layout.strides)
    )
    tiles_along, groups = _tiles_of_groups(transposed, types)
    tiled_inputs = _tiled_inputs(transposed, types, 1)
    vectors = _vector_operands(transposed, types) & ~tiled_inputs
    words = _tile_words(tiled_inputs, types, math.prod(tiles_along))
    geometry = _geometry(transposed, transposed.sizes, 1, False, vectors, *tiles_along, *words)
    return AccessPlan("tiled", groups * WORK_GROUP_SIZE, groups, geometry)


def _tiles_of_groups(layout: FoldedLayout, types: tuple[DataType, ...]) -> tuple[tuple[int, int], int]:
    """How many tiles a work group has along axes 0 and 1, and how many work groups that makes.

    Two tiles lie along that axis of which fewer parts are left over: channels of an image often fill one tile only.
    """

    def groups(tiles_along: tuple[int, int]) -> int:
        tiled = zip(layout.sizes[:2], tiles_along, strict=True)
        return math.prod(-(-size // (tile_size(types) * tiles)) for size, tiles in tiled) * math.prod(layout.sizes[2:])

    chosen = (1, 1)
    if tiles_at_once(types) == 2 and typical(groups(chosen)) * WORK_GROUP_SIZE >= 2 * _FEWEST_WITH_TWO_TILES:
        chosen = min((chosen, (1, 2), (2, 1)), key=lambda along: typical(groups(along)))
    return chosen, groups(chosen)


def _vector_operands(layout: FoldedLayout, types: tuple[DataType, ...]) -> int:
    """A bit for each operand, the output last, in which what an invocation takes along axis 0 is an aligned vector."""
    lane_count = lanes("tiled", types)
    if not is_multiple(layout.sizes[0], lane_count):
        return 0
    return sum(
        1 << number
        for number, strides in enumerate(layout.strides)
        if strides[0] == 1 and all(is_multiple(stride, lane_count) for stride in strides[1:])
    )


def _strided(layout: FoldedLayout, types: tuple[DataType, ...]) -> AccessPlan:
    lane_count = lanes("strided", types)
    packed = types[-1].size_in_bits < 32 and layout.strides[-1][0] == 1
    is_split = len(layout.sizes) == 1 and not is_dynamic(layout.sizes[0])  # which is told at launch anyway
    if is_split and layout.sizes[0] <= _MOST_SPLIT and not packed:
        layout = _split(layout, math.gcd(layout.sizes[0], lane_count * _MOST_INTERLEAVE))
    size, output = layout.sizes[0], layout.strides[-1]
    interleave = 1
    if packed and not all(is_multiple(stride, lane_count) for stride in output[1:]):
        groups_per_row = (size + 2 * (lane_count - 1)) // lane_count  # a row may begin in the middle of a group of four
    else:
        # Any interleave serves any size: so it is a number of the launch where the size is one.
        interleave = 1 if packed else applied(_interleave, size // lane_count)
        groups_per_row = -(-size // (lane_count * interleave)) * interleave
    invocations = math.prod(layout.sizes[1:]) * groups_per_row
    sizes = (size, *open_ended(layout.sizes[1:]))
    return AccessPlan("strided", invocations, invocations, _geometry(layout, sizes, groups_per_row, packed, interleave))


def _interleave(vectors: int) -> int:
    """How far apart an invocation's elements lie along an axis with so many elements for each that it takes."""
    return max(1, min(_MOST_INTERLEAVE, 1 << vectors.bit_length() >> 1))


def _geometry(
    layout: FoldedLayout, sizes: tuple[int, ...], groups_per_row: int, packed: bool, *own: int
) -> tuple[int, ...]:
    """The constants of ``axes.glsl``, the strides of the output and of each input for 8 axes, and the access order's
    own.
    """
    missing = MAXIMUM_DIMENSION_COUNT - len(sizes)
    constants = [groups_per_row, int(packed), *sizes, *[1] * missing]
    for strides in (layout.strides[-1], *layout.strides[:-1]):
        constants += [*strides, *[0] * missing]
    return (*constants, *own)


def _split(layout: FoldedLayout, row: int) -> FoldedLayout:
    """The only axis as rows of so many elements, a divisor: their number is not compiled into the kernel."""
    (size,) = layout.sizes
    return FoldedLayout((row, size // row), tuple((stride, row * stride) for (stride,) in layout.strides))
