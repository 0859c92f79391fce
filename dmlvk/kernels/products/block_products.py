"""Lowers products with packed weights: kernels read them as they are, or parts are made numbers first.

A few rows wait for the weights: kernels of their own read each once, and have it as a float in registers alone. For
many rows the tiles of :mod:`dmlvk.kernels.products.matrix_tiles` are faster, and parts of the weights go through
scratch memory as numbers. The bits are the same, and those of DEQUANTIZE and GEMM; but FLOAT16 rows by weights whose
zeros are integers are multiplied by exact integers (:mod:`dmlvk.kernels.products.packed_integers`).
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.compiler import DEVICE_ARITHMETIC
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products import block_matrices, packed_integers, packed_matrices
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.block_weights import LEAST_BLOCK, WORD_BITS, BlockWeights, ZeroKind, weights_of_blocks
from dmlvk.kernels.products.matrix import PackedRight, Product, gemm_product
from dmlvk.kernels.products.matrix import lower_product as lower_dense
from dmlvk.kernels.products.packed_right import packed_right
from dmlvk.kernels.program import BindingKind, Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm, MatrixTransform
from dmlvk.operators.block_weights import DequantizeBlocks
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_BITS = (2, 4, 8)
_SEGMENT = 1024
"""As in ``shaders/patterns/products/block_products.glsl``."""

_EIGHT = 8
"""Neighbours that an invocation of ``shaders/patterns/products/block_numbers.glsl`` makes."""

_RELU = "ACTIVATION_RELU"
_NOTHING = "ACTIVATION_IDENTITY"

_PROCESSOR_INVOCATIONS = 8
_MOST_ROWS = 32
"""Rows up to which a GPU multiplies packed weights; each needs its own sum of every weight that was made a float."""

_MOST_ROWS_OF_PROCESSORS = 3
"""Each is computed by itself: with several rows of a column llvmpipe keeps in memory what others keep in registers."""

_WHOLE_BYTES = 128 * 2**20
"""Up to so many of a GPU's weights become numbers at once: small parts leave most of its cores without a tile."""

_PART_BYTES = 32 * 2**20
"""Of larger weights, and on processors, become numbers at once, but for two parts that take turns."""

_BUFFERS = 6
"""That a kernel here binds, at most."""

_BUFFERS_OF_GATED = 9

_PART_COLUMNS = 64
"""Parts begin at multiples of so many columns: then results of theirs begin at multiples of 16 bytes."""

_COUNTERS = 12
"""Bytes of what a kernel looks for among FLOAT32 operands."""

_INVOCATIONS = 64
"""Of most work groups."""

_BUSY_GROUPS = 264
"""Work groups that keep a GPU busy."""

_LONG = 4
"""Segments of sums from which on other tiles were found to be faster with weights of 4 bits."""


@dataclasses.dataclass(frozen=True)
class RowTile:
    """A kernel of ``shaders/patterns/products/block_rows.glsl``.

    Attributes:
        bits: of a weight.
        rows: of each invocation.
        columns: of each invocation.
        line_vectors: vectors of 16 bytes of a column in a stage.
        left_lines: rows, times segments beside one another, that a stage has room for.
        invocations: of a work group.
        is_gated: whether the second of two columns is of other weights, and the first one its gate; where invocations
            have one column, that of half of them is the gate.
        fewest_segments: of the sums of products for which it is chosen.
        registers: of an invocation that it wants: with fewer (``Target.registers``) drivers keep some in memory.
    """

    bits: int
    rows: int
    columns: int
    line_vectors: int
    left_lines: int
    invocations: int = _INVOCATIONS
    is_gated: bool = False
    fewest_segments: int = 1
    registers: int = 64

    @property
    def stage_terms(self) -> int:
        return self.line_vectors * 4 * WORD_BITS // self.bits

    @property
    def shared_memory(self) -> int:
        """Bytes that a work group needs: of lines (or sums), and of the left operand."""
        lines = self.invocations * self.columns
        vectors = max(lines * (self.line_vectors + 1), self.invocations * self.rows * self.columns // 4)
        return 16 * vectors + 16 * self.left_lines * (self.stage_terms // 4 + 1) + _COUNTERS

    def segments_beside(self, segments: int) -> int:
        """Segments that a work group computes at one time: so many that its turns are alike."""
        passes = -(-segments // (self.left_lines // self.rows))
        return -(-segments // passes)

    def across(self, segments: int) -> int:
        """Columns of a work group, for sums of so many segments."""
        columns = 1 if self.is_gated else self.columns
        sides = 2 if self.is_gated and self.columns == 1 else 1
        lanes = self.invocations // sides // self.segments_beside(segments)
        return lanes // 2 * 2 * columns  # neighbours may share a word

    def groups(self, product: Product) -> int:
        across = self.across(-(-product.terms // _SEGMENT))
        return -(-product.rows // self.rows) * -(-product.columns // across)

    def cost(self, product: Product) -> int:
        """What a product takes, in about the same units for all: a work group's time, as often as it counts."""
        segments = -(-product.terms // _SEGMENT)
        iterations = -(-segments // self.segments_beside(segments))
        groups = max(self.groups(product) * self.invocations // _INVOCATIONS, _BUSY_GROUPS)
        return iterations * self.columns * (28 + 8 * self.rows) * groups

    def variant(self, data_type: DataType, target: Target) -> ShaderVariant:
        sums = self.rows * self.columns
        defines = {
            "BLOCK_ROWS": str(self.rows),
            "BLOCK_COLUMNS": str(self.columns),
            "INVOCATIONS": str(self.invocations),
            "LINE_VECTORS": str(self.line_vectors),
            "LEFT_LINES": str(self.left_lines),
            "UNIT_WORDS": str(4 if sums <= 2 else 2 if sums <= 4 else 1),
        }
        size = f".{self.rows}x{self.columns}.{self.invocations}x{self.line_vectors}x{self.left_lines}"
        if self.is_gated:
            defines["IS_GATED"] = "1"
            size += ".gated"
        return _variant("rows", data_type, self.bits, size, defines, target)


def row_tiles(bits: int, *, is_gated: bool = False) -> list[RowTile]:
    """The tiles among which a GPU chooses: of those that cost the same, the first that its registers suffice for."""
    return _gated_tiles(bits) if is_gated else _plain_tiles(bits)


def _plain_tiles(bits: int) -> list[RowTile]:
    if bits == 8:
        return [*(RowTile(bits, rows, 1, 4, 8) for rows in (1, 2, 4)), RowTile(bits, 8, 1, 2, 32)]
    if bits == 2:
        return [*(RowTile(bits, rows, 1, 2, 8) for rows in (1, 2, 4)), RowTile(bits, 8, 1, 1, 32, registers=128)]
    return [
        RowTile(bits, 1, 1, 4, 8),
        *(RowTile(bits, rows, 1, 4, 8, registers=128) for rows in (2, 4)),
        RowTile(bits, 8, 1, 2, 32, registers=128),
        *(RowTile(bits, rows, 1, 2, 8) for rows in (2, 4)),
        RowTile(bits, 8, 1, 1, 32),
    ]


def _gated_tiles(bits: int) -> list[RowTile]:
    gated = functools.partial(RowTile, bits, columns=2, left_lines=8, is_gated=True)
    if bits == 8:
        return [gated(rows, line_vectors=2) for rows in (1, 4)]
    if bits == 2:
        return [gated(1, line_vectors=1), gated(4, line_vectors=1, registers=128)]
    return [
        RowTile(bits, 1, 1, 4, 4, 32, is_gated=True, fewest_segments=_LONG),
        gated(1, line_vectors=4, registers=256),
        gated(4, line_vectors=2, registers=128),
        gated(8, line_vectors=2, left_lines=32, fewest_segments=_LONG, registers=256),
        gated(1, line_vectors=1),
        gated(4, line_vectors=1),
    ]


def tile_for(product: Product, bits: int, target: Target, *, is_gated: bool = False) -> RowTile:
    """The tile in which a GPU computes a product."""
    tiles = row_tiles(bits, is_gated=is_gated)
    segments = -(-product.terms // _SEGMENT)
    fitting = [
        tile
        for tile in tiles
        if tile.shared_memory <= target.shared_memory
        and tile.registers <= target.registers
        and tile.fewest_segments <= segments
    ]
    return min(fitting, key=lambda tile: tile.cost(product))


def _processor_variant(data_type: DataType, bits: int, target: Target) -> ShaderVariant:
    defines = {"BLOCK_ROWS": "1", "INVOCATIONS": str(_PROCESSOR_INVOCATIONS)}
    return _variant("processors", data_type, bits, "", defines, target)


def _numbers_variant(data_type: DataType, bits: int) -> ShaderVariant:
    return _variant("numbers", data_type, bits, "", {}, Target())


def _variant(
    way: str, data_type: DataType, bits: int, size: str, defines: dict[str, str], target: Target
) -> ShaderVariant:
    type_name = data_type.name.lower()
    given = {**defines, "OPERAND": type_name, "OPERAND_BITS": str(data_type.size_in_bits), "WEIGHT_BITS": str(bits)}
    name = f"blocks.{type_name}.{bits}.{way}{size}"
    if target.device_arithmetic and data_type is DataType.FLOAT32:
        given[DEVICE_ARITHMETIC] = "1"
        name += ".device"
    return ShaderVariant(name, f"matrix/block_{way}.comp", tuple(sorted(given.items())))


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in FLOATS:
        targets = [Target()] + [Target(device_arithmetic=True)] * (data_type is DataType.FLOAT32)
        for bits in _BITS:
            yield _numbers_variant(data_type, bits)
            for target in targets:
                for tile in [*row_tiles(bits), *row_tiles(bits, is_gated=True)]:
                    yield tile.variant(data_type, target)
                yield _processor_variant(data_type, bits, target)
    yield from packed_integers.variants()
    yield from packed_matrices.variants()
    yield from block_matrices.variants()


def can_multiply(product: Gemm, weights: BlockWeights, target: Target) -> bool:
    """Whether a product with packed weights can be computed so on a device, and gains by it."""
    fused = product.fused_activation
    is_plain = fused is None or fused.operator_name in (_NOTHING, _RELU)
    is_single = all(size == 1 for size in product.output_tensor.sizes[:-2])
    has_blocks = weights.has_groups or any(
        (blocks.term_step == 0 or blocks.term_block > 1) or (blocks.column_step == 0 or blocks.column_block > 1)
        for blocks in (weights.scale,)
    )
    is_bound = target.buffers >= _BUFFERS
    return is_bound and is_plain and is_single and has_blocks and product.a_tensor.data_type is weights.data_type


@lowering(DequantizeBlocks)
def lower_blocks(desc: DequantizeBlocks, target: Target) -> Program:
    """The program of DMLVK_DEQUANTIZE_BLOCKS.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    if target.buffers < _BUFFERS:
        raise DeviceLimitError(f"{desc.operator_name}: needs {_BUFFERS} buffers in a kernel; got {target.buffers}")
    builder, weights = ProgramBuilder(desc, target), weights_of_blocks(desc)
    packed, scale, zero, groups, factor = (builder.reads.get(member) for member in _MEMBERS)
    regions = [packed, scale, zero or factor, groups]
    _add_numbers(builder, weights, regions, desc.output_tensor, builder.writes["output_tensor"], (0, weights.columns))
    return builder.program()


_MEMBERS = ("packed_tensor", "scale_tensor", "zero_point_tensor", "group_index_tensor", "factor_tensor")


def lower_product(desc: Gemm, weights: BlockWeights, sizes: Sequence[int], target: Target) -> Program:
    """The program of a GEMM with packed weights.

    Args:
        desc: the product, as of numbers.
        weights: what they are made of.
        sizes: bytes of the weights' operands: integers, scales, and zeros (or factors) and groups where there are. The
            program's inputs are the first matrix, these, and the addend where there is one.
        target: the device.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    builder = ProgramBuilder(desc, target)
    left = builder.reads["a_tensor"]
    given = iter(Region(BindingKind.INPUT, 1 + number, 0, size) for number, size in enumerate(sizes))
    packed, scale = next(given), next(given)
    zero = next(given) if weights.zero_kind is not ZeroKind.NUMBER else None
    groups = next(given) if weights.has_groups else None
    addend = None
    if desc.c_tensor is not None:
        addend = Region(BindingKind.INPUT, 1 + len(sizes), 0, desc.c_tensor.size_in_bytes)
    regions = [packed, scale, zero, groups]
    product = gemm_product(desc)
    most_rows = _most_rows(weights, target)
    is_of_matrices = block_matrices.multiplies(desc, weights, target)
    of_matrices = None if is_of_matrices else packed_right(desc, weights, target)
    if of_matrices is not None:
        constants, of_device = of_matrices
        lower_dense(builder, desc, of_device, target, left, packed, addend, None, PackedRight(scale, zero, constants))
    elif weights.lies_along_terms and product.rows <= most_rows:
        _add_rows(builder, desc, product, weights, _RowOperands(left, packed, scale, zero, addend))
    else:
        _add_parts(builder, desc, weights, left, regions, addend)
    return builder.program()


def _most_rows(weights: BlockWeights, target: Target) -> int:
    """Rows up to which kernels read packed weights: any number of those that have an order of their own."""
    if packed_integers.has_own_order(weights) and not target.device_arithmetic:
        return sys.maxsize
    return _MOST_ROWS_OF_PROCESSORS if target.is_cpu else _MOST_ROWS


def can_gate(product: Gemm, weights: BlockWeights, target: Target) -> bool:
    """Whether one kernel computes a product and another one that is its gate, with weights that lie alike."""
    plain = product.fused_activation is None and product.c_tensor is None and product.alpha == 1.0
    has_room = not target.is_cpu and target.buffers >= _BUFFERS_OF_GATED
    if plain and has_room and block_matrices.multiplies(product, weights, target, is_gated=True):
        return True
    is_few = gemm_product(product).rows <= _most_rows(weights, target)
    is_few = is_few and packed_right(product, weights, target) is None
    return plain and has_room and weights.lies_along_terms and is_few


def lower_gated(desc: Gemm, weights: BlockWeights, sizes: Sequence[int], target: Target) -> Program:
    """The program of swish(gate) * product, where both are products of the same matrix, and weights lie alike.

    Args:
        desc: the product, as of numbers; its output is the result.
        weights: what its own are made of.
        sizes: bytes of the weights' operands, as of :func:`lower_product`. The program's inputs are the first matrix,
            those of the gate, and those of the product.
        target: the device.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    builder = ProgramBuilder(desc, target)
    regions = [Region(BindingKind.INPUT, 1 + number, 0, size) for number, size in enumerate([*sizes, *sizes])]
    (packed, scale, *zero), up = regions[: len(sizes)], regions[len(sizes) :]
    operands = _RowOperands(builder.reads["a_tensor"], packed, scale, zero[0] if zero else None, None, tuple(up))
    _add_rows(builder, desc, gemm_product(desc), weights, operands)
    return builder.program()


@dataclasses.dataclass(frozen=True)
class _RowOperands:
    """What a kernel of few rows reads; of a product with a gate, ``up`` has what the gate has before."""

    left: Region
    packed: Region
    scale: Region
    zero: Region | None
    addend: Region | None
    up: tuple[Region, ...] = ()

    def bound(self) -> list[Region]:
        found = [self.left, self.packed, self.scale, self.zero or self.scale, self.addend or self.left]
        return found if not self.up else [*found, self.up[0], self.up[1], self.up[-1]]


def _add_rows(
    builder: ProgramBuilder, desc: Gemm, product: Product, weights: BlockWeights, operands: _RowOperands
) -> None:
    target = builder.target
    relu = desc.fused_activation is not None and desc.fused_activation.operator_name == _RELU
    constants = {
        **weights.constants(),
        "HAS_ADDEND": int(operands.addend is not None),
        "APPLIES_RELU": int(relu),
        "LEFT_HAS_VECTORS": int(product.left_along_terms and product.left_has_vectors),
        "OUTPUT_HAS_PAIRS": int(product.output_has_pairs and product.data_type is DataType.FLOAT16),
    }
    is_gated = bool(operands.up)
    if block_matrices.multiplies(desc, weights, target, is_gated=is_gated):
        block_matrices.add_product(builder, desc, product, operands.bound(), constants, is_gated=is_gated)
        return
    if packed_matrices.multiplies(product, weights, target):
        packed_matrices.add_product(builder, desc, weights, operands.bound(), constants, is_gated=is_gated)
        return
    if packed_integers.has_own_order(weights):
        packed_integers.add_rows(builder, desc, product, weights, operands.bound(), constants, is_gated=is_gated)
        return
    if target.is_cpu:
        rows, variant = 1, _processor_variant(weights.data_type, weights.bits, target)
        invocations = across = _PROCESSOR_INVOCATIONS
        constants["BLOCK"] = weights.common_block(_SEGMENT)
    else:
        tile = tile_for(product, weights.bits, target, is_gated=is_gated)
        variant = tile.variant(weights.data_type, target)
        rows, invocations = tile.rows, tile.invocations
        segments = -(-product.terms // _SEGMENT)
        beside, across = tile.segments_beside(segments), tile.across(segments)
        block = weights.common_block(tile.stage_terms)
        is_whole = weights.has_whole_segments and product.terms % _SEGMENT == 0
        constants |= {
            "BLOCK": block,
            "SEGMENTS_BESIDE": beside,
            "PACKED_HAS_VECTORS": int(weights.has_vectors),
            "ENTRIES": tile.stage_terms // block,
            "SEGMENTS_ARE_WHOLE": int(is_whole),
            "SCALES_AT_ONCE": weights.scales_at_once(tile.stage_terms) if is_whole else 0,
            "ZEROS_AT_ONCE": weights.zeros_at_once(tile.stage_terms) if is_whole else 1,
        }
    tiles = -(-product.rows // rows), -(-product.columns // across)
    groups = tiles[0] * tiles[1]
    work_groups = launch_size(builder.operator_name, groups * invocations, invocations)
    kernel = PlainKernel(
        variant.name,
        work_groups,
        constants,
        (groups, *product_parameters(desc, product, tiles)),
        work_group_size=invocations,
    )
    builder.launch(kernel, operands.bound(), [builder.writes["output_tensor"]], label="packed weights")


def _add_parts(
    builder: ProgramBuilder,
    desc: Gemm,
    weights: BlockWeights,
    left: Region,
    regions: Sequence[Region | None],
    addend: Region | None,
) -> None:
    """Parts of the weights become numbers, and are multiplied, one after the other."""
    along_terms = weights.term_step <= weights.column_step
    width = weights.data_type.size_in_bits // 8
    line = -(-weights.terms // _EIGHT) * _EIGHT  # of a column's numbers
    at_once = max(_PART_BYTES // (line * width) // _PART_COLUMNS * _PART_COLUMNS, _PART_COLUMNS)
    columns = weights.columns
    if not builder.target.is_cpu and line * width * columns <= _WHOLE_BYTES:
        at_once = columns
    parts = [(first, min(first + at_once, columns)) for first in range(0, columns, at_once)]
    widest = min(at_once, columns)
    if not along_terms:
        line = -(-widest // _EIGHT) * _EIGHT
    size = (widest if along_terms else weights.terms) * line * width
    scratch = [builder.scratch(size) for _ in parts[:2]]
    output = builder.writes["output_tensor"]
    for number, (first, end) in enumerate(parts):
        count = end - first
        sizes, steps = ((count, weights.terms) if along_terms else (weights.terms, count)), (line, 1)
        leading = (1,) * (desc.output_tensor.dimension_count - 2)
        numbers = TensorDesc(weights.data_type, sizes, steps)
        region = scratch[number % 2].part(0, size)
        _add_numbers(builder, weights, regions, numbers, region, (first, end), along_terms=along_terms, is_padded=True)
        of_part = dataclasses.replace(
            desc,
            b_tensor=TensorDesc(weights.data_type, (*leading, *sizes), (*(0 for _ in leading), *steps)),
            trans_b=MatrixTransform.TRANSPOSE if along_terms else MatrixTransform.NONE,
            c_tensor=None if desc.c_tensor is None else _columns(desc.c_tensor, count),
            output_tensor=_columns(desc.output_tensor, count),
        )
        reads = [left, region]
        if addend is not None:
            assert desc.c_tensor is not None  # which it is
            reads.append(_from(addend, first * desc.c_tensor.element_strides[-1] * width))
        result = _from(output, first * desc.output_tensor.element_strides[-1] * width)
        builder.operator(of_part, reads, [result], "numbers of packed weights")


def _columns(tensor: TensorDesc, count: int) -> TensorDesc:
    return TensorDesc(tensor.data_type, (*tensor.sizes[:-1], count), tensor.element_strides)


def _from(region: Region, offset: int) -> Region:
    return region.part(offset, region.size_in_bytes - offset)


def _add_numbers(
    builder: ProgramBuilder,
    weights: BlockWeights,
    regions: Sequence[Region | None],
    numbers: TensorDesc,
    output: Region,
    part: tuple[int, int],
    *,
    along_terms: bool = True,
    is_padded: bool = False,
) -> None:
    """The kernel that makes numbers of some columns, in lines along the terms or across the columns."""
    first, end = part
    lines, inner = (end - first, weights.terms) if along_terms else (weights.terms, end - first)
    line, step = numbers.element_strides
    eights = -(-inner // _EIGHT)
    inner_step, outer_step = weights.term_step, weights.column_step
    scales = (weights.scale, weights.zero)
    shared = weights.common_block(_EIGHT) == _EIGHT and weights.terms % _EIGHT == 0
    if not along_terms:
        inner_step, outer_step = outer_step, inner_step
        shared = all(blocks.column_step == 0 or blocks.column_block % _EIGHT == 0 for blocks in scales)
        shared = shared and weights.columns % _EIGHT == 0
    are_words = inner_step == 1 and outer_step % max(_EIGHT, weights.word_terms) == 0
    stores_eights = step == 1 and line % _EIGHT == 0 and (is_padded or inner % _EIGHT == 0)
    assert step == 1 or lines * inner == 0 or inner == 1  # outputs whose lines are not runs are made elsewhere
    work_groups = launch_size(builder.operator_name, lines * eights)
    constants = {
        **weights.constants(),
        "LINES_ARE_TERMS": int(along_terms),
        "HAS_GROUPS": int(weights.has_groups),
        "EIGHTS_SHARE_A_BLOCK": int(shared and not weights.has_groups),
        "EIGHTS_ARE_WORDS": int(are_words),
        "STORES_EIGHTS": int(stores_eights),
    }
    kernel = PlainKernel(
        _numbers_variant(weights.data_type, weights.bits).name,
        work_groups,
        constants,
        (lines * eights, eights, inner, first, weights.columns, weights.terms, line),
    )
    packed, scale, zero, groups = regions
    assert packed is not None  # weights have both
    assert scale is not None
    builder.launch(kernel, [packed, scale, zero or scale, groups or scale], [output], label="packed weights as numbers")


__all__ = ["LEAST_BLOCK", "can_gate", "can_multiply", "lower_blocks", "lower_gated", "lower_product", "variants"]
