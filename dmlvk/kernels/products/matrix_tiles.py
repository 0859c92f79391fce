"""The shapes in which products and convolutions are computed; ``matrix_choice.py`` chooses among them.

None of this changes a bit of a result: the order of a sum follows from its number of terms alone. Only where a target
permits the device's own arithmetic have tiles another variant for FLOAT32, which rounds as the device likes, and are
there tiles of cooperative matrices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products.matrix_tile import FAMILIES, HALVES, SEGMENT, SUBGROUP_SIZE, TYPES, MatrixTile, sums_variant
from dmlvk.kernels.target import GPU, LANES
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv import cooperative_types

_DEVICE_ARITHMETIC = dataclasses.replace(GPU, device_arithmetic=True)

_GROUPS_FOR_PROCESSORS = 8  # Work groups that keep a processor busy

CORES = 132  # Of a GPU, as far as choices depend on it: an NVIDIA H100's

_PRODUCTS_OF_A_LOAD = 45  # By a processor, in the time in which it loads an element for each of eight invocations

_WIDE = 64  # The same of AMD's GPUs

_COOPERATIVE_GROUPS = CORES  # Work groups that multiply cooperative matrices and keep a GPU busy


_FEWEST_IN_A_WAVE = CORES * 3 // 4
"""The same of tiles that are chosen by turns: one in which a quarter of the cores have none may still be the best."""


def _shared(
    name: str,
    rows: int,
    columns: int,
    terms: int,
    results: tuple[int, int],
    fewest_groups: int,
    *,
    has_two_tiles: bool = False,
) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_tiles.glsl``."""
    invocations = rows * columns // (results[0] * results[1])
    memory = terms * (rows + columns + 4) * 4 * (2 if has_two_tiles else 1) + terms * 16 + 8  # four behind each line
    sizes = {"ROWS": rows, "COLUMNS": columns, "TERMS": terms}
    defines = {f"TILE_{key}": str(value) for key, value in sizes.items()}
    defines |= {"RESULT_ROWS": str(results[0]), "RESULT_COLUMNS": str(results[1]), "INVOCATIONS": str(invocations)}
    assert invocations % columns == 0  # what convolutions want
    if has_two_tiles:
        defines["TWO_TILES"] = "1"
    source, described = "matrix/tiles.comp", tuple(defines.items())
    return MatrixTile(name, rows, columns, invocations, memory, source, described, fewest_groups, step=terms)


def _windows(name: str, columns: int, invocations: int) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_windows.glsl``: a row of results, so many for each invocation."""
    defines = (("BLOCK_COLUMNS", str(columns)), ("INVOCATIONS", str(invocations)))
    return MatrixTile(
        name, 1, columns * invocations, invocations, 0, "matrix/windows.comp", defines, 0, ("convolution",)
    )


def _planes(name: str, block: tuple[int, int], invocations: int) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_planes.glsl``: a block of an image for each invocation."""
    sizes = {"BLOCK_ROWS": f"{block[0]}u", "BLOCK_COLUMNS": f"{block[1]}u", "INVOCATIONS": str(invocations)}
    results = block[0] * block[1] * invocations
    source, defines = "matrix/planes.comp", tuple(sizes.items())
    return MatrixTile(name, 1, results, invocations, 0, source, defines, 0, ("convolution",), block=block)


def _depthwise(
    data_type: DataType, columns: int, invocations: int, fewest_groups: int = 0, *, lines: int = 1
) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_depthwise.glsl``: 16 bytes of channels of so many places.

    Args:
        lines: invocations that share a window, in an order of sums of their own.
    """
    channels, block = 128 // data_type.size_in_bits, (1, columns)
    named = {"BLOCK_COLUMNS": f"{columns}u", "INVOCATIONS": f"{invocations * lines}u", "SHARES_LINES": str(lines)}
    return MatrixTile(
        f"depthwise.{columns}" if lines == 1 else f"depthwise.{columns}.by{lines}",
        1,
        columns * invocations,
        invocations * lines,
        (lines - 1) * channels * columns * invocations * 4,
        "matrix/depthwise.comp",
        tuple(named.items()),
        fewest_groups,
        families=("convolution",),
        block=block,
        types=(data_type,),
        channels=channels,
    )


def _single(rows: int, columns: int, terms: int, results: int, fewest_groups: int) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_single.glsl``: so many results downwards for each invocation."""
    invocations = rows * columns // results
    memory = 2 * (rows + columns) * (terms // 4 + 1) * 16 + 8
    sizes = {"TILE_ROWS": rows, "TILE_COLUMNS": columns, "TILE_TERMS": terms, "RESULT_ROWS": results}
    sizes["INVOCATIONS"] = invocations
    defines = tuple((key, str(value)) for key, value in sizes.items())
    return MatrixTile(
        f"{rows}x{columns}", rows, columns, invocations, memory, "matrix/single.comp", defines, fewest_groups
    )


def _rows(
    name: str, rows: int, columns: int, terms: int, stage: int, invocations: int, fewest_groups: int
) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_rows.glsl``: all rows of so many columns for each invocation."""
    sizes = {"BLOCK_ROWS": rows, "BLOCK_COLUMNS": columns, "TERMS_AT_ONCE": terms, "STAGE_TERMS": stage}
    sizes["INVOCATIONS"] = invocations
    defines = tuple((key, str(value)) for key, value in sizes.items())
    memory = rows * stage * 4 + 4
    source = "matrix/rows.comp"
    return MatrixTile(name, rows, columns * invocations, invocations, memory, source, defines, fewest_groups, ("gemm",))


def _shared_rows(rows: int, columns: int, stage: int, fewest_groups: int) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_shared_rows.glsl``: sums whose products all invocations compute."""
    invocations = stage // 4 * columns // 4
    assert invocations >= rows * columns
    assert stage % 16 == 0
    memory = rows * columns * (stage // 4 + 1) * 16 + invocations * 4 + 8
    sizes = {"BLOCK_ROWS": rows, "BLOCK_COLUMNS": columns, "STAGE_TERMS": stage, "INVOCATIONS": invocations}
    defines = tuple((key, str(value)) for key, value in sizes.items())
    name, source = f"shared.{rows}x{columns}", "matrix/shared_rows.comp"
    return MatrixTile(name, rows, columns, invocations, memory, source, defines, fewest_groups, ("gemm",))


def _block(name: str, rows: int, columns: int, invocations: int) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_blocks.glsl``: a block for each invocation."""
    defines = {"BLOCK_ROWS": rows, "BLOCK_COLUMNS": columns, "INVOCATIONS": invocations}
    named = tuple((key, str(value)) for key, value in defines.items())
    groups = _GROUPS_FOR_PROCESSORS
    return MatrixTile(name, rows, columns * invocations, invocations, 0, "matrix/blocks.comp", named, groups)


def _processors(
    name: str,
    rows: int,
    columns: int,
    *,
    is_for_any_shape: bool = True,
    shares_left: bool = False,  # whether invocations hand on what they load of the left operand
    window: int = 0,  # how wide the windows are of a tile of neighbours in a line; 0: it is of any
) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_processors.glsl``: a block for each invocation."""
    invocations = min(columns, LANES)
    left = max(window, 1)
    assert not shares_left or rows * left % invocations == 0
    left_loads = rows * left // (invocations if shares_left else 1)
    defines = {"BLOCK_ROWS": rows, "BLOCK_COLUMNS": columns, "INVOCATIONS": invocations}
    defines |= {"SHAPE_AT_RUN_TIME": int(is_for_any_shape), "SHARES_LEFT": int(shares_left)}
    defines |= {"IN_LINES": int(window > 0), "WINDOW_WIDTH": left}
    named = tuple((key, str(value)) for key, value in defines.items())
    families = FAMILIES if is_for_any_shape and not window else ("convolution",)
    return MatrixTile(
        name if is_for_any_shape else f"{name}_of_a_shape",
        rows,
        columns * invocations,
        invocations,
        0,
        "matrix/processors.comp",
        named,
        _GROUPS_FOR_PROCESSORS,
        families,
        is_for_any_shape,
        block=(1, columns) if window else None,
        toil=columns + left - 1 + left_loads + rows * columns * left // _PRODUCTS_OF_A_LOAD,
    )


def _cooperative(
    family: str,
    data_type: DataType,
    size: tuple[int, int, int],  # rows, columns, and terms at once
    results: tuple[int, int],  # of each subgroup, downwards and across
    segment: int,  # terms that are added up in a row
    fewest_groups: int = _COOPERATIVE_GROUPS,  # work groups from which on it keeps a device busy
    subgroup_size: int = SUBGROUP_SIZE,
) -> MatrixTile:
    """A tile of ``shaders/patterns/products/matrix_cooperative.glsl``."""
    rows, columns, terms = size
    subgroups = rows * columns // (results[0] * results[1])
    spaces = (max(lines * (terms // 8 + 1), terms * (lines // 8 + 1)) for lines in (rows, columns))
    parts = 3 if data_type is DataType.FLOAT32 else 1
    memory = 16 * max(parts * sum(spaces), subgroups * 16 * (results[1] // 4 + 1)) + 16 * terms + 8
    defines = {
        "TILE_ROWS": str(rows),
        "TILE_COLUMNS": str(columns),
        "STEP_TERMS": str(terms),
        "RESULT_ROWS": str(results[0]),
        "RESULT_COLUMNS": str(results[1]),
        "SEGMENT": f"{segment}u",
        "INVOCATIONS": str(subgroup_size * subgroups),
    }
    name = f"cooperative.{rows}x{columns}x{terms}.{results[0]}x{results[1]}"
    if segment < SEGMENT:
        name += f".by{segment}"
    if subgroup_size != SUBGROUP_SIZE:
        defines["SUBGROUP_INVOCATIONS"] = str(subgroup_size)
        name += f".of{subgroup_size}"
    return MatrixTile(
        name,
        rows,
        columns,
        subgroup_size * subgroups,
        memory,
        cooperative_types.FLOATS_SOURCE,
        tuple(defines.items()),
        fewest_groups,
        (family,),
        segment=segment,
        step=terms,
        types=(data_type,),
        subgroup_size=subgroup_size,
    )


def _of_channels(
    size: tuple[int, int, int],
    results: tuple[int, int],
    segment: int,
    fewest_groups: int,
    pace: int = 0,
    groups_of_core: int = 1,
    subgroup_size: int = SUBGROUP_SIZE,
) -> MatrixTile:
    """A tile of ``shaders/patterns/matrix_channels.glsl``: rows are channels of the output, and columns its places."""
    made = _cooperative("convolution", DataType.FLOAT16, size, results, segment, fewest_groups, subgroup_size)
    rows, columns, terms = size
    lines = (rows + columns) * (terms // 8 + 1)
    memory = 16 * max(lines, made.invocations // subgroup_size * 16 * (results[0] // 4 + 1)) + 16 * terms
    name = f"{made.name}.channels" if segment > SEGMENT else f"{made.name}.channels.cut"
    made = dataclasses.replace(made, name=name, source=cooperative_types.CHANNELS_SOURCE, shared_memory=memory)
    return dataclasses.replace(made, pace=pace, groups_of_core=groups_of_core)


_SHORT_SEGMENT = 256  # Of tiles for so little work that segments of the usual length leave most cores without any

_FEWEST_BY_SEGMENTS = CORES // 2  # Work groups from which on tiles of those are faster

_LONG_SEGMENT = 16384  # Of large tiles of FLOAT16, whose totals are too many for registers

_SEGMENT_OF_FEW = 4096
"""Of small tiles: where these are few, so many terms in a row take as long as the launch that adds segments of them."""

_LONG_SEGMENT_OF_PARTS = 4096
"""The same of FLOAT32, whose results have no rounding to FLOAT16 behind which errors of sums are lost."""


def _of_halves(rows: int, results: tuple[int, int], pace: int, groups_of_core: int) -> MatrixTile:
    """A tile of 128 columns for a GEMM of FLOAT16; the pace is TFLOP/s of 4096 x 4096 x 4096 on an NVIDIA H100.

    Their sums take so many registers that a core of that has one work group of 256 invocations at a time, or two of
    128, one of which multiplies while the other waits.
    """
    made = _cooperative("gemm", DataType.FLOAT16, (rows, 128, 64), results, _LONG_SEGMENT, _FEWEST_IN_A_WAVE)
    return dataclasses.replace(made, pace=pace, groups_of_core=groups_of_core)


FLAT_COOPERATIVE = _cooperative("gemm", DataType.FLOAT16, (32, 128, 64), (32, 16), SEGMENT)
"""For few rows and packed weights alone: 0.45 of the time of kernels that keep the order of sums, of 32 rows."""

_FLAT_WIDE = _cooperative("gemm", DataType.FLOAT16, (32, 128, 64), (32, 32), SEGMENT, subgroup_size=_WIDE)
"""The same for subgroups of 64."""

FLAT_COOPERATIVE_BY_SUBGROUP = {tile.subgroup_size: tile for tile in (FLAT_COOPERATIVE, _FLAT_WIDE)}

COOPERATIVE = (
    _of_halves(128, (64, 64), 350, 2),
    _of_halves(128, (64, 32), 284, 1),
    _of_halves(96, (48, 64), 330, 2),
    _cooperative("gemm", DataType.FLOAT16, (64, 64, 64), (32, 32), _LONG_SEGMENT),
    _cooperative("gemm", DataType.FLOAT16, (32, 64, 64), (16, 32), _SEGMENT_OF_FEW, CORES // 2),
    _cooperative("gemm", DataType.FLOAT16, (16, 64, 128), (16, 16), _SEGMENT_OF_FEW, CORES // 4),
    _cooperative("gemm", DataType.FLOAT16, (64, 64, 64), (32, 32), _SHORT_SEGMENT),
    _cooperative("convolution", DataType.FLOAT16, (128, 64, 32), (64, 32), _LONG_SEGMENT, 2 * _COOPERATIVE_GROUPS),
    _cooperative("convolution", DataType.FLOAT16, (128, 64, 32), (32, 32), _LONG_SEGMENT),
    _cooperative("convolution", DataType.FLOAT16, (64, 64, 32), (32, 32), SEGMENT),
    _cooperative("gemm", DataType.FLOAT32, (128, 128, 16), (32, 64), _LONG_SEGMENT_OF_PARTS, 200),
    _cooperative("gemm", DataType.FLOAT32, (64, 64, 16), (32, 32), SEGMENT),
    _cooperative("gemm", DataType.FLOAT16, (128, 128, 64), (64, 64), _LONG_SEGMENT, subgroup_size=_WIDE),
    _cooperative("gemm", DataType.FLOAT16, (64, 64, 64), (32, 32), SEGMENT, subgroup_size=_WIDE),
    _cooperative("convolution", DataType.FLOAT16, (128, 64, 32), (64, 32), _LONG_SEGMENT, subgroup_size=_WIDE),
    _cooperative("convolution", DataType.FLOAT16, (64, 64, 32), (32, 32), SEGMENT, subgroup_size=_WIDE),
)
"""For each family and data type from the larger to the smaller, where a device has such matrices and may round sums as
it likes. The smallest are for little work, which is cut into segments. Convolutions of FLOAT32 are as
fast without, or faster. Those for subgroups of 64 invocations are as large as registers of a GFX11 hold without
spilling; no such card was there to time them."""

LARGE = _shared("64x128", 64, 128, 16, (8, 4), 500)
"""For products of large matrices, and convolutions with many results."""

LARGE_FUSED = dataclasses.replace(
    _shared("64x128.8x8", 64, 128, 16, (8, 8), 500, has_two_tiles=True), families=("gemm",)
)
"""As ``LARGE`` for products whose additions are one instruction with them. (Convolutions lose by it.)"""

TALL = _shared("128x64", 128, 64, 16, (8, 4), 350)
"""The same for convolutions of many channels: what is loaded of the input, element by element, serves twice as many."""

MEDIUM = _shared("64x32", 64, 32, 16, (4, 4), 200)

FLAT = _shared("32x64", 32, 64, 32, (4, 4), 200)
"""For products of 17 to 32 rows: twice as fast there as what is next, FLOAT16."""

SINGLE = (_single(32, 32, 16, 4, 200), _single(16, 32, 32, 2, 200))
"""From the larger to the smaller. The fewer results an invocation has, the sooner it is through its terms."""

OF_CHANNELS = (
    _of_channels((128, 128, 64), (64, 64), _LONG_SEGMENT, 90, 290, 2),
    _of_channels((128, 128, 64), (64, 32), _LONG_SEGMENT, 90, 264),
    _of_channels((32, 128, 64), (32, 32), _LONG_SEGMENT, _COOPERATIVE_GROUPS),
    _of_channels((64, 64, 64), (32, 32), _LONG_SEGMENT, _COOPERATIVE_GROUPS),
    _of_channels((64, 64, 64), (32, 32), SEGMENT, _FEWEST_BY_SEGMENTS),
    _of_channels((64, 64, 64), (32, 32), _SHORT_SEGMENT, _COOPERATIVE_GROUPS),
    _of_channels((128, 128, 64), (64, 64), _LONG_SEGMENT, 90, subgroup_size=_WIDE),
    _of_channels((64, 64, 64), (32, 32), _LONG_SEGMENT, _COOPERATIVE_GROUPS, subgroup_size=_WIDE),
    _of_channels((64, 64, 64), (32, 32), SEGMENT, _COOPERATIVE_GROUPS, subgroup_size=_WIDE),
)
"""The same for convolutions of FLOAT16 whose channels lie behind one another. On an NVIDIA H100 the first has 308
TFLOP/s for a window of 3 x 3, two work groups of it being on a core; that of 32 is for as few channels alone, and the
last for little work, which is cut into segments."""

ROWS_ACROSS = (_rows("row_of_fours", 1, 4, 8, 1024, 64, 264), _rows("eight_rows_of_fours", 8, 4, 8, 256, 128, 264))
"""For products of few rows, whose right operand has neighbouring columns next to one another."""

EIGHT_ROWS = _rows("eight_rows", 8, 1, 16, 256, 128, 264)  # The same for more than two rows and any right operand

ROWS_OF_HALVES = (
    _rows("row_of_many_fours", 1, 4, 16, 1024, 64, 264),
    _rows("eight_rows_of_many_fours", 8, 4, 16, 256, 128, 264),
)
"""As ``ROWS_ACROSS`` for FLOAT16, whose elements are half as large: more of them are on their way at once. 32 terms of
one row were as fast on an NVIDIA H100 (0.96 to 1.02), and spill on AMD's GFX1100, whose compiler expects twice the
time."""

FOUR_ROWS = (_rows("four_rows_of_fours", 4, 4, 16, 512, 128, 200), _rows("four_rows", 4, 1, 32, 512, 128, 264))
"""Where tiles of eight rows would be too few, or half empty: across, and of any right operand. What a second one reads
of it is cached."""

SHARED_ROW = (_shared_rows(1, 32, 64, 256), _shared_rows(1, 16, 128, 200))
"""For one row where sums are too few for the former, or terms lie next to one another. An
invocation for each sum would wait for each term of its own, twice as long and longer (docs/notes/speed.md)."""

SHARED_ROWS = (_shared_rows(2, 16, 64, 400), _shared_rows(2, 8, 128, 200))
"""The same for two rows; the second one for up to eight, if columns are few."""

FEW_ROWS = (
    dataclasses.replace(_single(4, 32, 32, 1, 256), families=("gemm",)),
    dataclasses.replace(_single(8, 32, 32, 2, 400), families=("gemm",)),
)
"""For up to four and up to eight rows, where ``EIGHT_ROWS`` are too few, and ``SHARED_ROWS`` would be many."""

SIXTEEN_ROWS = dataclasses.replace(_single(16, 32, 32, 4, 200), name="16x32x4", families=("gemm",))
"""For nine rows and more, where terms lie next to one another."""

FEW_CHANNELS = tuple(
    dataclasses.replace(tile, families=("convolution",))
    for tile in (_single(4, 64, 16, 4, 200), _single(8, 64, 16, 4, 200))
)
"""For convolutions, or groups of one, with as few channels: what is loaded of the input serves no empty rows."""

WINDOWS = _windows("windows", 4, 64)  # For convolutions of one segment and few rows, depthwise ones above all

PLANES = (_planes("planes_of_fours", (4, 4), 128), _planes("planes", (4, 2), 128))
"""The same where windows overlap: what each invocation loads serves all windows that see it. The first is for outputs
whose rows are whole fours."""

DEPTHWISE = {data_type: (_depthwise(data_type, 4, 64, 4 * CORES), _depthwise(data_type, 1, 32)) for data_type in TYPES}
"""For depthwise convolutions whose channels lie behind one another; the latter for so few results that invocations with
four columns would leave most of a GPU idle: two thirds of the time on an NVIDIA H200."""

DEPTHWISE_LINES = (_depthwise(DataType.FLOAT16, 1, 32, lines=8), _depthwise(DataType.FLOAT16, 1, 32, lines=4))
"""Instead of the latter where a device may have its own order of sums: for windows of more than 16 places, and others.
With four the windows of 7 x 7 of ConvNeXt-T took 8.7 instead of 13.8 us on an NVIDIA H200."""

_BLOCKS = (("wide", 16, 16), ("blocks", 8, 8), ("small", 4, 4))

ON_PROCESSORS = tuple(_processors(*block) for block in _BLOCKS)  # From the largest to the smallest

ON_PROCESSORS_OF_A_SHAPE = tuple(_processors(*block, is_for_any_shape=False) for block in _BLOCKS)
"""The same for convolutions whose shape does not go into push constants: see ``Product.shape``."""

ROW_ON_PROCESSORS_OF_A_SHAPE = _processors("1x16", 1, 16, is_for_any_shape=False)
"""Likewise for one row, as depthwise ones have: of blocks most would be empty."""

ON_PROCESSORS_IN_SUBGROUPS = (
    _processors("32x8_shared", 32, 8, shares_left=True),
    _processors("8x8_shared", 8, 8, shares_left=True),
    _processors("1x16", 1, 16),
    ON_PROCESSORS[-1],
)
"""Where subgroups of ``LANES`` invocations hand on to one another what they load. A block has at most 32 rows: shaders
mark each by a bit, and more than 490 results would be more iterations than llvmpipe lets an invocation go through."""

LINES = (
    _processors("32x14_in_lines", 32, 14, shares_left=True, window=3),
    _processors("32x8_in_lines", 32, 8, shares_left=True, window=3),
    _processors("8x14_in_lines", 8, 14, shares_left=True, window=3),
    _processors("1x14_in_lines", 1, 14, window=3),
)
"""Likewise for convolutions whose windows are 3 wide, and next to one another."""

ON_NAIVE_PROCESSORS = (_block("few", 4, 4, 4),)
"""Likewise, where a driver keeps in memory what others keep in registers."""

TILES = (
    LARGE,
    LARGE_FUSED,
    TALL,
    FLAT,
    MEDIUM,
    *SINGLE,
    *ROWS_ACROSS,
    EIGHT_ROWS,
    *ROWS_OF_HALVES,
    *FOUR_ROWS,
    *SHARED_ROW,
    *SHARED_ROWS,
    *FEW_ROWS,
    SIXTEEN_ROWS,
    *FEW_CHANNELS,
    WINDOWS,
    *PLANES,
    *(tile for tiles in DEPTHWISE.values() for tile in tiles),
    *DEPTHWISE_LINES,
    *ON_PROCESSORS,
    *ON_PROCESSORS_IN_SUBGROUPS[:-1],
    *LINES,
    *ON_PROCESSORS_OF_A_SHAPE,
    ROW_ON_PROCESSORS_OF_A_SHAPE,
    *ON_NAIVE_PROCESSORS,
)
"""For both data types."""


@shader_variants
def matrix_variants() -> Iterator[ShaderVariant]:
    for tile in FLAT_COOPERATIVE_BY_SUBGROUP.values():
        yield tile.variant("gemm", DataType.FLOAT16, GPU, is_packed=True)
    for family in FAMILIES:
        for data_type in TYPES:
            yield sums_variant(family, data_type)
            for tile in (*TILES, *COOPERATIVE, *OF_CHANNELS):
                if data_type not in tile.types:
                    continue
                if family in tile.families:
                    targets = (GPU, _DEVICE_ARITHMETIC) if data_type is DataType.FLOAT32 else (GPU,)
                    yield from dict.fromkeys(tile.variant(family, data_type, target) for target in targets)
                if family == "convolution" and tile.may_have_epilogue:
                    yield from dict.fromkeys(
                        tile.variant(family, data_type, target, has_epilogue=True)
                        for target in (GPU, _DEVICE_ARITHMETIC)
                    )
                if family == "gemm" and tile.may_have_product_epilogue:
                    yield tile.variant(family, data_type, GPU, has_epilogue=True)
            if family == "convolution" or data_type in HALVES:
                yield sums_variant(family, data_type, has_epilogue=True)
