"""Which tile computes how much work, and how the segments of its sums come together.

None of this changes a bit of a result, but for tiles of cooperative matrices, which are only for those who permit a
device its own arithmetic.
"""

from __future__ import annotations

import dataclasses
import operator

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import typical
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, PARALLEL, SEGMENT, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import (
    COOPERATIVE,
    CORES,
    DEPTHWISE,
    DEPTHWISE_LINES,
    EIGHT_ROWS,
    FEW_CHANNELS,
    FEW_ROWS,
    FLAT,
    FLAT_COOPERATIVE_BY_SUBGROUP,
    FOUR_ROWS,
    LARGE,
    LARGE_FUSED,
    LINES,
    MEDIUM,
    OF_CHANNELS,
    ON_NAIVE_PROCESSORS,
    ON_PROCESSORS,
    ON_PROCESSORS_IN_SUBGROUPS,
    ON_PROCESSORS_OF_A_SHAPE,
    PLANES,
    ROW_ON_PROCESSORS_OF_A_SHAPE,
    ROWS_ACROSS,
    ROWS_OF_HALVES,
    SHARED_ROW,
    SHARED_ROWS,
    SINGLE,
    SIXTEEN_ROWS,
    TALL,
    WINDOWS,
)
from dmlvk.kernels.target import Target

_FOLD_FOR_WAVES = 4
"""How many times as many work groups as keep a GPU busy make segments in turn as fast as side by side."""

_MOST_SCRATCH = 2**28  # Bytes of totals up to which segments are computed side by side

_FEWEST_COOPERATIVE = {DataType.FLOAT16: (17, 16, 16), DataType.FLOAT32: (64, 64, 16)}
"""Rows, columns and terms from which on their tiles are not empty for the most part."""

_FEWEST_OF_CHANNELS = (8, 16, 16)
"""The same where channels lie behind one another: what else is there looks for each element's place."""

_FEWEST_TILES_OF_PARTS = 48
"""Work groups from which on matrices of the parts of FLOAT32 are faster than fused additions."""

_EIGHT = 8  # Elements of FLOAT16 that kernels of cooperative matrices load at once

_FEW_REGISTERS = 64
_MOST_SUMS = 16  # Of an invocation where it has so few registers

_FEWEST_ROWS_FOR_TALL = 65

_MOST_ROWS = 16  # Rows up to which tiles of few rows are used: a second one of them finds the right operand cached

_MOST_TOIL = 3  # Times that of the best tile, for a smaller one of which more run at once

_FEW_PLACES = 16  # Of a window, whose lines few invocations share

_ROWS_FOR_WINDOWS = 4
_FEW_TERMS, _MANY_INVOCATIONS = 64, 1024 * CORES
"""An invocation that goes through all terms by itself waits for each: that takes few of them, or many others beside."""

_LARGE_AT_ONCE = 3 * CORES  # Work groups of the largest tiles of convolutions that a GPU runs at once


@dataclasses.dataclass(frozen=True)
class Choice:
    tile: MatrixTile  # the tile
    segments_come: int  # ``ONE_SEGMENT``, ``SEQUENTIAL`` or ``PARALLEL``
    segments_at_once: int = 2**32  # how many a launch computes of those that come in turn


@dataclasses.dataclass(frozen=True)
class Work:
    family: str  # ``"gemm"`` or ``"convolution"``
    rows: int  # of each product
    columns: int  # of each product
    terms: int  # of each result
    batches: int  # products, or groups of a convolution
    gives_results: bool = True  # whether results are wanted, and not sums
    right_along_terms: bool = False  # whether the right operand's neighbours in memory are neighbouring terms
    has_any_shape: bool = True  # whether kernels can be told the shape at run time
    plane: tuple[int, int] | None = None  # height and width of a convolution's output, where windows overlap in planes
    data_type: DataType = DataType.FLOAT32  # of the operands
    has_eights: bool = False  # whether both operands of a product can be loaded by eights
    has_channels: bool = False  # whether channels of a convolution's input and output lie behind one another, in eights
    left_along_terms: bool = True  # whether the left operand's neighbours in memory are neighbouring terms
    # whether the right operand is one of packed weights, of which there is a tile for few rows alone
    is_packed: bool = False
    beside: int = 1  # such products that run beside one another, this one among them
    # whether each channel of a convolution has a filter of its own, and channels lie behind one another in 16 bytes
    is_depthwise: bool = False
    # whether windows of a convolution that overlap in planes are 3 wide, and next to one another
    is_in_lines: bool = False

    def groups(self, tile: MatrixTile) -> int:
        return tile.groups(self.rows, self.columns, self.plane, self.batches)


def choose(work: Work, target: Target) -> Choice:
    plane = None if work.plane is None else (typical(work.plane[0]), typical(work.plane[1]))
    rows, columns, batches = typical(work.rows), typical(work.columns), typical(work.batches)
    work = dataclasses.replace(work, rows=rows, columns=columns, batches=batches, plane=plane)
    is_short = work.terms <= SEGMENT
    is_convolution = work.family == "convolution" and work.gives_results
    if is_convolution and is_short and work.is_depthwise and not target.is_cpu:
        wide, narrow = DEPTHWISE[work.data_type]
        has_own_order = target.device_arithmetic and target.multiplies_matrices_of(work.data_type)
        if has_own_order and work.data_type is DataType.FLOAT16:
            narrow = DEPTHWISE_LINES[int(work.terms <= _FEW_PLACES)]
        return Choice(wide if work.groups(wide) >= wide.fewest_groups else narrow, ONE_SEGMENT)
    if is_convolution and is_short and work.rows <= _ROWS_FOR_WINDOWS and not target.is_cpu:
        tile = WINDOWS if work.plane is None else PLANES[int(work.plane[1] % 4 > 0)]
        if work.terms <= _FEW_TERMS or work.groups(tile) * tile.invocations >= _MANY_INVOCATIONS:
            return Choice(tile, ONE_SEGMENT)
    tiles = _tiles_for(work, target)
    for tile in tiles:
        segments = tile.segments(work.terms)
        fits = segments * work.rows * work.columns * work.batches * 4 <= _MOST_SCRATCH
        groups = work.groups(tile)
        is_enough = groups >= tile.fewest_groups
        may_be_tiled = fits and tile.segment <= SEGMENT  # longer ones would be few, and of unequal length
        if is_enough or tile is tiles[-1] or (may_be_tiled and groups * segments >= tile.fewest_groups):
            if segments == 1:
                return Choice(tile, ONE_SEGMENT)
            is_plenty = groups >= tile.fewest_groups * (1 if target.is_cpu else _FOLD_FOR_WAVES)
            come = SEQUENTIAL if is_plenty or not fits else PARALLEL
            return Choice(tile, come, tile.segments_at_once(target))
    raise AssertionError("a device without tiles")


def _is_full_across(tile: MatrixTile, work: Work) -> bool:
    """Whether its tiles compute at most a quarter more columns than smaller ones would."""
    padded = [-(-work.columns // columns) * columns for columns in (tile.columns, MEDIUM.columns)]
    return 4 * padded[0] <= 5 * padded[1]


def _cooperative_tiles_for(work: Work, target: Target) -> list[MatrixTile]:
    """Those of cooperative matrices; none where they are not to be had, or would be empty for the most part."""
    shape = (work.rows, work.columns, work.terms)
    if not (target.multiplies_matrices_of(work.data_type) and target.device_arithmetic and work.gives_results):
        return []
    if work.is_packed:
        return [FLAT_COOPERATIVE_BY_SUBGROUP[target.subgroup_size]]
    every = OF_CHANNELS if work.has_channels else COOPERATIVE
    tiles = [
        tile
        for tile in every
        if work.family in tile.families and work.data_type in tile.types and tile.subgroup_size == target.subgroup_size
        if tile.segment >= SEGMENT or work.terms > SEGMENT  # which a launch adds up anyway
    ]
    fewest = _FEWEST_OF_CHANNELS if work.has_channels else _FEWEST_COOPERATIVE[work.data_type]
    if not tiles or any(map(operator.lt, shape, fewest)):
        return []
    if work.family == "gemm" and not work.has_eights:
        return []  # element by element they are slower than what rounds each sum
    if work.data_type is DataType.FLOAT32:
        smallest = tiles[-1]
        groups = work.groups(smallest) * smallest.segments(work.terms)
        if groups < _FEWEST_TILES_OF_PARTS:
            return []
    fitting = [
        tile
        for tile in tiles
        if (tile.rows <= tiles[-1].rows or 2 * work.rows > tile.rows)
        and (tile.is_as_large_as(tiles[-1]) or 2 * work.columns > tile.columns)
        and (work.family == "gemm" or tile.rows >= tiles[-1].rows or work.rows <= tile.rows)
        and tile.shared_memory <= target.shared_memory
        and tile.invocations <= target.work_group_size
        and (work.left_along_terms or tile.invocations % (tile.rows // _EIGHT) == 0)  # or rows are not loaded evenly
    ]
    timed = [tile for tile in fitting if tile.pace and work.groups(tile) >= tile.fewest_groups]
    return [*sorted(timed, key=lambda tile: _waves(work, tile)), *(tile for tile in fitting if tile not in timed)]


def _waves(work: Work, tile: MatrixTile) -> float:
    """How long all work groups of a tile take: in each turn every core has one or two, of whichever product."""
    waves = -(-work.groups(tile) * work.beside // (CORES * tile.groups_of_core))
    return waves * tile.groups_of_core * tile.rows * tile.columns / tile.pace


def _keep_busy(groups: int, tile: MatrixTile) -> bool:
    """Whether so many work groups of a large tile keep a GPU busy, and few do not wait for a second turn."""
    waves = -(-groups // _LARGE_AT_ONCE)
    return groups >= tile.fewest_groups and 5 * groups >= 3 * waves * _LARGE_AT_ONCE


def _tiles_for_few_rows(work: Work) -> list[MatrixTile]:
    """Those that wait for the right operand."""
    across = [] if work.right_along_terms else _tiles_across(work)
    if work.rows == 1:
        return [*across, *SHARED_ROW]
    if work.rows <= SHARED_ROWS[0].rows:
        return [*across, *SHARED_ROWS]
    four, eight = FEW_ROWS
    if work.rows <= four.rows:
        if not work.right_along_terms:
            return [*across, EIGHT_ROWS, dataclasses.replace(four, fewest_groups=400), *SHARED_ROWS]
        lines = [FOUR_ROWS[1]] if work.data_type is DataType.FLOAT16 else []
        return [*lines, EIGHT_ROWS, four, *SHARED_ROWS]
    sixteen = SIXTEEN_ROWS if work.right_along_terms else SINGLE[-1]
    if work.rows <= eight.rows:
        return [*across, EIGHT_ROWS, eight, dataclasses.replace(sixteen, fewest_groups=128), SHARED_ROWS[-1]]
    return [*across, *([sixteen] if work.right_along_terms else []), EIGHT_ROWS, SINGLE[-1]]


def _tiles_across(work: Work) -> list[MatrixTile]:
    """Those whose invocations have four neighbouring columns, which lie next to one another."""
    is_half = work.data_type is DataType.FLOAT16
    row, eight = ROWS_OF_HALVES if is_half else ROWS_ACROSS
    if work.rows == 1:
        return [row]
    four = FOUR_ROWS[0]
    if is_half and work.rows <= SHARED_ROWS[0].rows:
        return [dataclasses.replace(four, fewest_groups=264)]
    if is_half and work.rows <= four.rows:
        return [dataclasses.replace(four, fewest_groups=128)]
    if is_half and eight.rows < work.rows <= 3 * four.rows:
        return [four]
    return [eight, four] if is_half or work.rows > eight.rows else [eight]


def _tiles_in_subgroups(work: Work) -> list[MatrixTile]:
    """Those of processors whose invocations hand on what they load: what is soonest through comes first."""

    def takes(tile: MatrixTile) -> float:
        across = work.columns if tile.block is None or work.plane is None else work.plane[1]
        columns = tile.columns // tile.invocations
        return -(-work.rows // tile.rows) * -(-across // columns) * tile.toil

    if work.is_in_lines:
        return [min(LINES, key=takes)]
    *shared, smallest = ON_PROCESSORS_IN_SUBGROUPS
    most = _MOST_TOIL * min(map(takes, shared))
    return [*(tile for tile in sorted(shared, key=takes) if takes(tile) <= most), smallest]


def _tiles_for(work: Work, target: Target) -> list[MatrixTile]:
    """The tiles among which a device chooses, from the largest to the smallest."""
    if tiles := _cooperative_tiles_for(work, target):
        return tiles
    if target.is_cpu:
        if target.is_naive:
            return list(ON_NAIVE_PROCESSORS)
        if work.has_any_shape and target.has_shuffles:
            return _tiles_in_subgroups(work)
        if work.rows == 1 and not work.has_any_shape:
            return [ROW_ON_PROCESSORS_OF_A_SHAPE]
        *larger, smallest = ON_PROCESSORS if work.has_any_shape else ON_PROCESSORS_OF_A_SHAPE
        return [*(tile for tile in larger if tile.rows < 2 * work.rows), smallest]
    if work.family == "gemm":
        is_fused = work.data_type is DataType.FLOAT16 or target.device_arithmetic
        widest = LARGE_FUSED if is_fused else LARGE
        wide = [FLAT] if work.rows <= FLAT.rows else [widest] if _is_full_across(widest, work) else []
        tiles = _tiles_for_few_rows(work) if work.rows <= _MOST_ROWS else [*wide, MEDIUM, *SINGLE]
    else:
        # The largest are for whom they suffice without a cut through the terms: what is cut has to be put together.
        large = [LARGE] if work.rows < _FEWEST_ROWS_FOR_TALL else [LARGE, TALL]
        few = [tile for tile in FEW_CHANNELS if work.rows <= tile.rows][:1]
        tiles = [*(tile for tile in large if _keep_busy(work.groups(tile), tile)), MEDIUM, *few, *SINGLE]
    most_rows = -(-work.rows // SINGLE[-1].rows) * SINGLE[-1].rows  # a tile shall not be empty for the most part
    fitting = [
        tile
        for tile in tiles
        if tile.rows <= most_rows
        and tile.shared_memory <= target.shared_memory
        and tile.invocations <= target.work_group_size
        and (target.registers > _FEW_REGISTERS or tile.rows * tile.columns <= _MOST_SUMS * tile.invocations)
    ]
    return fitting or [ON_NAIVE_PROCESSORS[-1]]  # which needs neither shared memory nor more than four invocations
