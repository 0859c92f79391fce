"""Lowers operators that make one element of each row, and the reductions that other operators begin with."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.layout import FoldedLayout, fold, fold_in_order
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Argmax, Argmin, AxisDirection, Reduce, ReduceFunction
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc

CHUNK = 16384  # Elements of a row that are reduced at once: ``CHUNK`` in shaders/patterns/rows/reduction_operands.glsl

CHUNK_OF_STATES = 4096  # The same where elements are states of chunks

_ELEMENTS_OF_LANE = 16
_ELEMENTS_OF_BLOCK = 4
_BLOCKS_AT_ONCE = 4  # Of neighbouring lanes that an invocation goes through together

_MOST_LANES = 256
_LANES_OF_COLUMN = 16  # How many invocations share a chunk, at most, where rows are neighbours in memory

_LARGER_GROUPS = (1024, 512)
"""Invocations of a work group where rows are neighbours, on GPUs that have so many: tiles of memory are longer."""

_MOST_OF_WIDE_SUBGROUPS = 512
"""Of them where subgroups have 64 invocations: AMD's GCN has 64 registers for each of 1024, and sums need 65."""

_FEWEST_GROUPS = 128  # How many work groups there are at least where they are larger

_FEWEST_ON_PROCESSORS = 16  # From so many chunks on a processor's invocations take whole ones

_FEWEST_ELEMENTS_IN_TILES = 2**19
_SHORTEST_IN_TILES = 64
"""Of so many elements in all, and so long rows, processors cut the chunks of rows that are neighbours into tiles
(patterns/rows/reduction_tiles.glsl). Naive drivers do not: they lose by it, and SwiftShader's compiler does not
come to an end over tiles of integers."""

_FEWEST_LANES_OF_TILE = 4
_ELEMENTS_OF_TILE = 256  # A tile has at most so many elements, if it has more lanes than the fewest

_UNSIGNED, _SIGNED, _FLOAT = 0, 1, 2
AS_IT_IS, DIVIDED, SQUARE_ROOT, LOGARITHM, LOGARITHM_AND_PEAK, MEAN_IN_TWO_WORDS, ROUNDED_MEAN = range(7)
"""What becomes of a sum: ``ENDING`` in shaders/reduction/sum.comp."""

_OF_MAGNITUDES = 1  # The mode of sums of magnitudes


@dataclasses.dataclass(frozen=True)
class Reduction:
    shader: str  # of which shader, without its width: ``"sum"``
    state_words: int  # words of what a chunk comes to, for elements of 32 bits or less
    state_words_of_wide: int = 0  # the same for elements of 64 bits; 0: there are none
    defines: tuple[tuple[str, str], ...] = ()  # the shader's definitions
    mode: int = 0  # its ``MODE``
    ending: int = AS_IT_IS  # its ``ENDING``
    name: str = ""  # what its variants are called, where that is not the shader's name
    # words of what a tile of a chunk comes to, for elements of 32 bits or less; 0: chunks are not cut into tiles
    tile_words: int = 0

    def variant(self, is_wide: bool, of_states: bool, several_lanes: bool, loads_ahead: bool) -> ShaderVariant:
        """The shader variant for a width of elements, at the first launch or a later one, by lanes of an invocation.

        Args:
            is_wide: whether elements have 64 bits.
            of_states: whether its elements are the states of chunks.
            several_lanes: whether an invocation goes through several lanes.
            loads_ahead: whether it loads four blocks, or four states, at once, as GPUs want it.
        """
        words = {"wide": is_wide, "states": of_states, "lanes": several_lanes, "ahead": loads_ahead}
        name = ".".join(["reduction", self.name or self.shader, *(word for word, holds in words.items() if holds)])
        switches = {"PARTIALS": of_states, "SEVERAL_LANES": several_lanes, "LOADS_AHEAD": loads_ahead}
        defines = [*self.defines, *((switch, str(int(holds))) for switch, holds in switches.items())]
        defines += [("WIDE", "1")] * is_wide
        return ShaderVariant(name, f"reduction/{self.shader}.comp", tuple(sorted(defines)))

    def variant_of_tiles(self, of_pairs: bool) -> ShaderVariant:
        """The shader variant that reduces tiles of chunks.

        Args:
            of_pairs: whether an invocation has two rows that are neighbours.
        """
        return self._variant({"pieces": True, "pairs": of_pairs}, {"IN_TILES": True, "ROW_PAIRS": of_pairs})

    def variant_that_joins(self) -> ShaderVariant:
        """The shader variant that joins the tiles of each chunk."""
        return self._variant({"joined": True}, {"JOINS_TILES": True})

    def _variant(self, words: dict[str, bool], defines: dict[str, bool]) -> ShaderVariant:
        name = ".".join(["reduction", self.name or self.shader, *(word for word, holds in words.items() if holds)])
        switches = (("PARTIALS", "0"), ("SEVERAL_LANES", "1"), ("LOADS_AHEAD", "0"))
        others = ((define, "1") for define, holds in defines.items() if holds)
        return ShaderVariant(name, f"reduction/{self.shader}.comp", tuple(sorted((*self.defines, *switches, *others))))

    def words(self, is_wide: bool) -> int:
        return self.state_words_of_wide if is_wide else self.state_words


def _sum(name: str, terms: int, mode: int = 0, ending: int = AS_IT_IS) -> Reduction:
    tiles = 3 if terms < 2 else 0
    return Reduction("sum", 7, defines=(("TERMS", str(terms)),), mode=mode, ending=ending, name=name, tile_words=tiles)


_EXTREME = Reduction("extreme", 1, 2, (("ARG", "0"),), name="extreme", tile_words=1)
_ARG = Reduction("extreme", 2, 3, (("ARG", "1"),), name="place", tile_words=2)
_INTEGERS = Reduction("integers", 1, 2, tile_words=1)
_PRODUCT = Reduction("product", 5)
SUM = _sum("sum", 0)
SUM_OF_MAGNITUDES = _sum("sum", 0, mode=_OF_MAGNITUDES)
SUM_OF_SQUARES = _sum("squares", 1)
SUM_OF_POWERS = _sum("powers", 2, ending=LOGARITHM_AND_PEAK)
SUM_OF_SQUARED_DIFFERENCES = _sum("differences", 3)
SUM_OF_ROUNDED_SQUARES = _sum("rounded_squares", 4)
"""Of differences from a mean, for normalizations: shaders/include/rounded_squares.glsl says how exact it is."""

MEAN = dataclasses.replace(SUM, ending=DIVIDED)
MEAN_OF_FEW = dataclasses.replace(SUM, ending=ROUNDED_MEAN)
"""Of up to 256 elements of FLOAT16: rounded correctly."""

NORM_OF_SQUARES = dataclasses.replace(SUM_OF_SQUARES, ending=SQUARE_ROOT)
MAXIMUM = _EXTREME
MINIMUM = dataclasses.replace(_EXTREME, mode=1)

_OF_FLOATS = {
    ReduceFunction.SUM: SUM,
    ReduceFunction.AVERAGE: MEAN,
    ReduceFunction.L1: SUM_OF_MAGNITUDES,
    ReduceFunction.L2: NORM_OF_SQUARES,
    ReduceFunction.SUM_SQUARE: SUM_OF_SQUARES,
    ReduceFunction.LOG_SUM: dataclasses.replace(SUM, ending=LOGARITHM),
    ReduceFunction.LOG_SUM_EXP: SUM_OF_POWERS,
    ReduceFunction.MULTIPLY: _PRODUCT,
}
_OF_INTEGERS = {
    ReduceFunction.SUM: _INTEGERS,
    ReduceFunction.L1: dataclasses.replace(_INTEGERS, mode=1),
    ReduceFunction.SUM_SQUARE: dataclasses.replace(_INTEGERS, mode=2),
    ReduceFunction.MULTIPLY: dataclasses.replace(_INTEGERS, mode=3),
}
_OF_ALL = {
    ReduceFunction.MAX: MAXIMUM,
    ReduceFunction.MIN: MINIMUM,
    ReduceFunction.ARGMAX: _ARG,
    ReduceFunction.ARGMIN: dataclasses.replace(_ARG, mode=1),
}
_SUMS = (SUM, SUM_OF_SQUARES, SUM_OF_POWERS, SUM_OF_SQUARED_DIFFERENCES, SUM_OF_ROUNDED_SQUARES)
_SHADERS = (_EXTREME, _ARG, _INTEGERS, _PRODUCT, *_SUMS)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for reduction in _SHADERS:
        for is_wide in (False, True):
            if reduction.words(is_wide):
                for of_states, several_lanes in itertools.product((False, True), repeat=2):
                    yield reduction.variant(is_wide, of_states, several_lanes, False)
                    yield reduction.variant(is_wide, of_states, several_lanes, True)
        if reduction.tile_words:
            yield from map(reduction.variant_of_tiles, (False, True))
            yield reduction.variant_that_joins()


@lowering(Argmax, Argmin, Reduce)
def lower(desc: Argmax | Argmin | Reduce, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, result = desc.input_tensor, desc.output_tensor
    read, written = builder.reads["input_tensor"], builder.writes["output_tensor"]
    function = desc.function if isinstance(desc, Reduce) else _searched(desc)
    reduction = _OF_ALL.get(function) or (_OF_FLOATS if source.data_type.is_float else _OF_INTEGERS)[function]
    if not isinstance(desc, Reduce) and desc.axis_direction is AxisDirection.DECREASING:
        reduction = dataclasses.replace(reduction, mode=reduction.mode + 2)
    companion = None
    rows = Rows.of(source, desc.axes)
    if reduction == SUM_OF_POWERS:
        companion = builder.scratch(4 * rows.count)
        add_reduction(builder, MAXIMUM, rows, read, companion, width=32, label="peaks")
    add_reduction(
        builder,
        reduction,
        Rows.of(source, desc.axes, result),
        read,
        written,
        width=result.data_type.size_in_bits,
        companion=companion,
    )
    return builder.program()


def _searched(desc: Argmax | Argmin) -> ReduceFunction:
    return ReduceFunction.ARGMAX if isinstance(desc, Argmax) else ReduceFunction.ARGMIN


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a tensor, and where each one's result lies.

    Rows are numbered through the axes that lead from row to row, from the smallest stride in the tensor upwards.
    """

    source: TensorDesc  # the tensor
    row: FoldedLayout  # the axes of a row, the last one first
    others: FoldedLayout  # the other axes; operands are the tensor and the result

    @classmethod
    def of(cls, source: TensorDesc, axes: Sequence[int], result: TensorDesc | None = None) -> Rows:
        """The rows along some axes.

        Args:
            result: what has an element for each row; without one, results lie one behind the other by row number.
        """
        along = sorted(axes)
        other = [axis for axis in range(len(source.sizes)) if axis not in along]
        strides = source.element_strides
        row = fold_in_order([source.sizes[axis] for axis in along], [[strides[axis] for axis in along]])
        if not row.sizes:
            row = FoldedLayout((1,), ((0,),))
        sizes, steps = [source.sizes[axis] for axis in other], [strides[axis] for axis in other]
        if result is not None:
            folded = fold(sizes, [[result.element_strides[axis] for axis in other], steps])
            return cls(source, row, FoldedLayout(folded.sizes, (folded.strides[1], folded.strides[0])))
        folded = fold(sizes, [steps])
        packed = tuple(math.prod(folded.sizes[:axis]) for axis in range(len(folded.sizes)))
        return cls(source, row, FoldedLayout(folded.sizes, (folded.strides[0], packed)))

    @property
    def count(self) -> int:
        return math.prod(self.others.sizes)

    @property
    def length(self) -> int:
        return math.prod(self.row.sizes)

    @property
    def are_neighbours(self) -> bool:
        """Whether elements of different rows lie closer together than those of one row."""
        return bool(self.others.sizes) and 0 < self.others.strides[0][0] < self.row.strides[0][0]

    @property
    def have_pairs(self) -> bool:
        """Whether every second row is followed by the next one in memory, at an even place."""
        further = (*self.row.strides[0], *self.others.strides[0][1:])
        is_even = is_multiple(self.others.sizes[0], 2) and all(is_multiple(stride, 2) for stride in further)
        return self.others.strides[0][0] == 1 and is_even

    @property
    def have_blocks(self) -> bool:
        """Whether every whole group of four neighbours begins at a multiple of four elements."""
        strides = self.row.strides[0]
        within = len(self.row.sizes) == 1 or is_multiple(self.row.sizes[0], 4)
        further = (*strides[1:], *self.others.strides[0])
        return within and strides[0] == 1 and all(is_multiple(stride, 4) for stride in further)


def lanes(length: int) -> int:
    """How many lanes a chunk of a row has: shaders/patterns/rows/reduction.glsl says why."""
    count = 1
    while count < _MOST_LANES and count * _ELEMENTS_OF_LANE < length:
        count *= 4
    return count


def add_reduction(
    builder: ProgramBuilder,  # what they are added to
    reduction: Reduction,
    rows: Rows,  # the rows, with the places of their results
    read: Region,
    written: Region,
    *,
    width: int,
    # where two words (or one) for each row are, by row number, for functions that need them
    companion: Region | None = None,
    label: str = "",
) -> None:
    """Adds the launches that reduce rows."""
    is_wide = rows.source.data_type.size_in_bits == 64
    length, chunk_size, of_states = rows.length, CHUNK, False
    tiles = _tiles(builder.target, reduction, rows)
    while True:
        chunks = -(-length // chunk_size)
        made = companion
        if tiles:
            made = builder.scratch(4 * reduction.tile_words * rows.count * chunks * tiles)
            kernel = _kernel_of_tiles(builder, reduction, rows, chunks, tiles)
            builder.launch(kernel, [read, read], [made], label=f"{label} pieces".strip())
        kernel = _kernel(builder, reduction, rows, length, chunks, of_states, width, tiles)
        size = 4 * reduction.words(is_wide) * rows.count * chunks
        target_region = written if chunks == 1 else builder.scratch(size)
        builder.launch(kernel, [read, made or read], [target_region], label=label)
        if chunks == 1:
            return
        read, length, chunk_size, of_states, tiles = target_region, chunks, CHUNK_OF_STATES, True, 0


def _kernel(
    builder: ProgramBuilder,
    reduction: Reduction,
    rows: Rows,
    length: int,
    chunks: int,
    of_states: bool,
    width: int,
    tiles: int,
) -> PlainKernel:
    is_wide = rows.source.data_type.size_in_bits == 64
    of_chunk = lanes(length)
    are_neighbours = rows.are_neighbours and not of_states
    own = _lanes_of_invocation(builder.target, of_chunk, rows.count * chunks, are_neighbours)
    loads_ahead = not builder.target.is_cpu and length >= _ELEMENTS_OF_LANE * of_chunk
    variant = reduction.variant(is_wide, of_states, own > 1, loads_ahead)
    group_size = WORK_GROUP_SIZE
    if are_neighbours and own > 1:
        state_bytes = 4 * reduction.words(is_wide)
        group_size = _invocations_of_group(builder.target, of_chunk // own, rows.count * chunks, state_bytes)
    chunks_of_group = group_size * own // of_chunk
    groups = launch_size(builder.operator_name, -(-rows.count * chunks // chunks_of_group) * WORK_GROUP_SIZE)
    return PlainKernel(
        variant=(reduction.variant_that_joins() if tiles else variant).name,
        work_groups=groups,
        work_group_size=group_size,
        constants={
            **_constants(rows, of_chunk, own, are_neighbours, chunks == 1, width),
            "HAS_WHOLE_FOURS": int(is_multiple(length, _BLOCKS_AT_ONCE * _ELEMENTS_OF_BLOCK)),
            "GROUP_SIZE": group_size,
            "OF_MAGNITUDES": int(reduction.mode == _OF_MAGNITUDES),
            **({"TILES": tiles} if tiles else {}),
        },
        parameters=_parameters(reduction, rows, length, chunks),
    )


def _kernel_of_tiles(builder: ProgramBuilder, reduction: Reduction, rows: Rows, chunks: int, tiles: int) -> PlainKernel:
    of_chunk = lanes(rows.length)
    of_pairs = rows.have_pairs
    invocations = rows.count // (2 if of_pairs else 1) * chunks * tiles
    groups = launch_size(builder.operator_name, invocations)
    blocks, remainder = divmod(min(rows.length, CHUNK), _ELEMENTS_OF_BLOCK * of_chunk)
    are_alike = remainder == 0 and (chunks == 1 or rows.length % CHUNK == 0)
    return PlainKernel(
        variant=reduction.variant_of_tiles(of_pairs).name,
        work_groups=groups,
        constants={
            **_constants(rows, of_chunk, of_chunk // tiles, True, False, 32),
            "BLOCKS_OF_LANE": blocks if are_alike else 0,
            "OF_MAGNITUDES": int(reduction.mode == _OF_MAGNITUDES),
            "TILES": tiles,
        },
        parameters=_parameters(reduction, rows, rows.length, chunks),
    )


def _constants(rows: Rows, of_chunk: int, own: int, are_neighbours: bool, is_last: bool, width: int) -> dict[str, int]:
    """Those of shaders/patterns/rows/reduction_operands.glsl that every kernel has."""
    data_type = rows.source.data_type
    kind = _FLOAT if data_type.is_float else _SIGNED if data_type.name.startswith("INT") else _UNSIGNED
    return {
        "ROW_AXES": len(rows.row.sizes), "OTHER_AXES": len(rows.others.sizes), "LANES_OF_CHUNK": of_chunk,
        "LANES_OF_INVOCATION": own, "WIDTH": data_type.size_in_bits, "KIND": kind,
        "HAS_BLOCKS": int(rows.have_blocks), "ROWS_ARE_NEIGHBOURS": int(are_neighbours), "IS_LAST": int(is_last),
        "OUTPUT_WIDTH": width,
    }  # fmt: skip


def _parameters(reduction: Reduction, rows: Rows, length: int, chunks: int) -> tuple[int, ...]:
    sizes = [*rows.row.sizes, *rows.others.sizes]
    missing = MAXIMUM_DIMENSION_COUNT - len(sizes)
    zeros = [0] * missing
    return (
        rows.count,
        length,
        chunks,
        rows.length,
        reduction.mode + 256 * reduction.ending,
        *sizes,
        *[1] * missing,
        *[*rows.row.strides[0], *rows.others.strides[0], *zeros],
        *[*[0] * len(rows.row.sizes), *rows.others.strides[1], *zeros],
    )


def _tiles(target: Target, reduction: Reduction, rows: Rows) -> int:
    """Into how many tiles a chunk is cut, which are reduced by a launch of their own; 0: it is not."""
    chunks = rows.count * -(-rows.length // CHUNK)
    chunks, length = typical(chunks), typical(rows.length)
    is_small = typical(rows.count) * length < _FEWEST_ELEMENTS_IN_TILES or length < _SHORTEST_IN_TILES
    is_possible = reduction.tile_words and rows.are_neighbours and rows.source.data_type.size_in_bits < 64
    if not is_possible or is_small or not target.is_cpu or target.is_naive or chunks < _FEWEST_ON_PROCESSORS:
        return 0
    of_chunk = own = lanes(rows.length)
    elements = -(-min(rows.length, CHUNK) // of_chunk)
    while own > _FEWEST_LANES_OF_TILE and own * elements > _ELEMENTS_OF_TILE:
        own //= 4
    return of_chunk // own


def _lanes_of_invocation(target: Target, of_chunk: int, chunks: int, are_neighbours: bool) -> int:
    if target.is_cpu and typical(chunks) >= _FEWEST_ON_PROCESSORS:
        return of_chunk
    return max(1, of_chunk // _LANES_OF_COLUMN) if are_neighbours or target.is_cpu else 1


def _invocations_of_group(target: Target, of_chunk: int, chunks: int, state_bytes: int) -> int:
    """How many invocations a work group has where rows are neighbours in memory."""
    most = _MOST_OF_WIDE_SUBGROUPS if target.subgroup_size == 64 else target.work_group_size
    for size in _LARGER_GROUPS:
        has_limits = size <= min(most, target.work_group_size) and size * state_bytes <= target.shared_memory
        if has_limits and not target.is_cpu and typical(chunks) * of_chunk >= _FEWEST_GROUPS * size:
            return size
    return WORK_GROUP_SIZE
