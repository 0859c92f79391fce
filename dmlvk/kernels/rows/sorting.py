"""Lowers TOP_K and TOP_K1: sorted lists of tiles of rows, which are merged two by two until each row has one.

What is compared are candidates, a key and a place in the row each, no two of which are equal: so the result does not
depend on the order of comparisons. No step but the selection of a few elements waits for other invocations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from dmlvk.datatypes import DataType
from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.layout import fold
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.sorting import TopK, TopK1

RANKED_TILE = 32  # Elements of a tile of which every one is compared with every other

LONGEST_RANKED_ROW = 64  # A row of so many elements is one such tile

SELECTED_TILE = 8192
"""Most elements of a tile of which a work group selects a few: each invocation keeps the keys of 32 of them."""

_REGISTERS_OF_PAIRS = 128  # Of an invocation that so many keys of 64 bits want; with fewer, tiles are half as long

LEAST_SELECTED_TILE = 1024
WORK_GROUPS_WANTED = 512
"""Pieces become shorter, down to the least length, until there are so many: a GPU's cores want work."""

_FEW = 8  # Elements of a tile that a processor's invocation looks for one after the other
_TILE_OF_FEW = 128  # Elements of such a tile

_INVOCATIONS = 256
_BITS = (8, 16, 32, 64)
_FORMS = {DataType.FLOAT32: 2, DataType.FLOAT16: 3}


@shader_variants
def variants() -> Iterable[ShaderVariant]:
    for bits in _BITS:
        words = 2 if bits == 64 else 1
        defines = (("KEY_WORDS", str(words)), ("UNIT_BITS", str(bits)))
        for name in ("ranked_tiles", "best_of_tiles"):
            yield ShaderVariant(f"{name}.{bits}bits", f"patterns/rows/{name}.comp", defines)
        for longest in (SELECTED_TILE, SELECTED_TILE // 2) if bits == 64 else (SELECTED_TILE,):
            elements = longest // _INVOCATIONS
            given = (("COLLECTED", f"{most_selected(bits) * elements}u"), ("REGISTERS", str(elements)))
            for name in ("selected_tiles", "selected_rows"):
                variant = f"{name}.{bits}bits{_suffix(longest)}"
                yield ShaderVariant(variant, f"sorting/{name}.comp", (*given, *defines))
        yield ShaderVariant(f"ordered_results.{bits}bits", "patterns/rows/ordered_results.comp", defines)
    for words in (1, 2):
        word_defines = (("KEY_WORDS", str(words)),)
        yield ShaderVariant(f"merged_lists.{32 * words}bits", "patterns/rows/merged_lists.comp", word_defines)


def _suffix(longest: int) -> str:
    """Of the names of variants whose longest tiles have so many elements."""
    return "" if longest == SELECTED_TILE else f".{longest // _INVOCATIONS}"


def most_selected(bits: int) -> int:
    """How many elements of a tile a work group selects at most: as shared memory has room for."""
    return 16 if bits == 64 else 32


@dataclasses.dataclass(frozen=True)
class _SortedRows:
    bits: int  # of an element
    rows: int  # how many there are
    length: int  # elements of a row
    wanted: int  # elements that are kept of a row
    geometry: Mapping[str, int]  # the specialization constants

    def kernel(
        self, name: str, work: int, tiles: int, tile: int, kept: int, groups: tuple[int, int, int], suffix: str = ""
    ) -> PlainKernel:
        """A kernel of shaders/patterns/rows/ordered_rows.glsl."""
        return PlainKernel(
            variant=f"{name}.{self.bits}bits{suffix}",
            work_groups=groups,
            constants=self.geometry,
            parameters=(work, self.length, tiles, tile, kept),
        )


@lowering(TopK, TopK1)
def lower(desc: TopK | TopK1, target: Target) -> Program:
    """The program of a checked description."""
    rows = _rows(desc)
    name = desc.operator_name
    builder = ProgramBuilder(desc, target)
    source = builder.reads["input_tensor"]
    has_few_wanted = target.is_cpu and rows.length > LONGEST_RANKED_ROW and rows.wanted <= _FEW
    is_selected = not target.is_cpu and rows.length > LONGEST_RANKED_ROW and rows.wanted <= most_selected(rows.bits)
    if is_selected:
        has_few = rows.bits == 64 and target.registers < _REGISTERS_OF_PAIRS
        longest = SELECTED_TILE // 2 if has_few else SELECTED_TILE
        suffix = _suffix(longest)
        tile = _selected_tile(rows, longest)
        tiles = -(-rows.length // tile)
        work = rows.rows * tiles
        groups = launch_size(name, work * _INVOCATIONS)
    else:
        suffix, longest = "", _TILE_OF_FEW if has_few_wanted else RANKED_TILE
        tile = rows.length if rows.length <= LONGEST_RANKED_ROW else longest
        tiles = -(-rows.length // tile)
        work = rows.rows * tiles * (1 if has_few_wanted else tile)
        groups = launch_size(name, work)
    kept = min(rows.wanted, tile)
    results = [builder.writes["output_value_tensor"], builder.writes["output_index_tensor"]]
    if is_selected and tiles == 1:
        builder.launch(rows.kernel("selected_rows", work, tiles, tile, kept, groups, suffix), [source], results)
        return builder.program()
    lists = _lists(builder, rows, tiles * kept)
    step = "selected_tiles" if is_selected else "best_of_tiles" if has_few_wanted else "ranked_tiles"
    kernel = rows.kernel(step, work, tiles, tile, kept, groups, suffix)
    builder.launch(kernel, [source], [lists], label="pieces of rows")
    lists = _merged(builder, name, rows, lists, tiles, kept)
    work = rows.rows * rows.wanted
    kernel = rows.kernel("ordered_results", work, 1, rows.length, rows.wanted, launch_size(name, work))
    builder.launch(kernel, [source, lists], results, label="results")
    return builder.program()


def _selected_tile(rows: _SortedRows, longest: int) -> int:
    tile = longest
    while tile > LEAST_SELECTED_TILE and rows.rows * -(-rows.length // tile) < WORK_GROUPS_WANTED:
        tile //= 2
    return tile


def _lists(builder: ProgramBuilder, rows: _SortedRows, candidates: int) -> Region:
    return builder.scratch(-(-rows.rows * candidates * (16 if rows.bits == 64 else 8) // 16) * 16)


def _merged(
    builder: ProgramBuilder, name: str, rows: _SortedRows, lists: Region, count: int, list_length: int
) -> Region:
    """Adds the steps that leave one list of each row, and says where these lists are."""
    other: Region | None = None
    while count > 1:
        kept = min(rows.wanted, 2 * list_length)
        pairs = -(-count // 2)
        # The first merged lists are the longest ones of all but for what is rounded up: there are two places in turn.
        size = _candidate_bytes(rows) * rows.rows * pairs * kept
        if other is None or other.size_in_bytes < size:
            other = _lists(builder, rows, pairs * kept)
        work = rows.rows * pairs * 2 * list_length
        groups = launch_size(name, work)
        kernel = PlainKernel(
            variant=f"merged_lists.{64 if rows.bits == 64 else 32}bits",
            work_groups=groups,
            parameters=(work, count, list_length, kept),
        )
        builder.launch(kernel, [lists], [other], label="lists merged")
        lists, other = other, lists
        count, list_length = pairs, kept
    return lists


def _candidate_bytes(rows: _SortedRows) -> int:
    return 16 if rows.bits == 64 else 8


def _rows(desc: TopK | TopK1) -> _SortedRows:
    source, values, positions = desc.input_tensor, desc.output_value_tensor, desc.output_index_tensor
    others = [axis for axis in range(source.dimension_count) if axis != desc.axis]
    strides = [[tensor.element_strides[axis] for axis in others] for tensor in (positions, source, values)]
    layout = fold([source.sizes[axis] for axis in others], strides)
    of_positions, of_source, of_values = layout.strides
    geometry = {
        **constants.axes(layout.sizes, {"input": of_source, "values": of_values, "positions": of_positions}),
        "INPUT_STEP": source.element_strides[desc.axis],
        "VALUES_STEP": values.element_strides[desc.axis],
        "POSITIONS_STEP": positions.element_strides[desc.axis],
        "ELEMENT_FORM": _FORMS.get(source.data_type, int(source.data_type.name.startswith("INT"))),
        "SMALLEST_FIRST": int(isinstance(desc, TopK1) and desc.axis_direction is AxisDirection.INCREASING),
        "POSITIONS_ARE_PAIRS": int(positions.data_type is DataType.UINT64),
    }
    return _SortedRows(
        bits=source.data_type.size_in_bits,
        rows=math.prod(layout.sizes),
        length=source.sizes[desc.axis],
        wanted=desc.k,
        geometry=geometry,
    )
