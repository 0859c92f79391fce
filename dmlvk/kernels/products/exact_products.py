"""Lowers GEMM; large products of FLOAT32 by exact integers, for those who permit a device its own arithmetic.

Both operands are made integers of blocks first (``shaders/patterns/products/exact_layout.glsl``), and multiplied by
matrices of bytes. What is not certified to be within the stated error is computed as it is without (docs/notes/
exact-products.md): results that are few of a tile one by one, and all of a tile where they are many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import typical
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.compiler import DEVICE_ARITHMETIC
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products.matrix import (
    Product,
    Ways,
    gemm_product,
    lower_product,
    product_constants,
    sum_kernels,
    with_activation,
)
from dmlvk.kernels.products.matrix_choice import Choice
from dmlvk.kernels.products.matrix_tile import ONE_SEGMENT, SEQUENTIAL
from dmlvk.kernels.products.matrix_tiles import LARGE_FUSED
from dmlvk.kernels.products.padded_products import lower_padded, padded_gemm
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import GPU, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm
from dmlvk.spirv import cooperative_types

BLOCK_TERMS = 256  # Terms of a line that have an exponent together: ``shaders/patterns/products/exact_layout.glsl``

_ROWS, _COLUMNS, _INVOCATIONS = 64, 128, 256
"""Of a tile: ``shaders/patterns/products/exact_tiles.glsl``."""

_SHARED_MEMORY = 49152
_BUFFERS = 5
_LINES_AT_ONCE = 16
"""Of a work group that makes integers of an operand: ``shaders/patterns/products/exact_operand.glsl``."""

_FEWEST_TERMS, _MOST_TERMS = 2048, 2**16
"""Of fewer, three parts are as fast; with more, sums of magnitudes would not be 32-bit integers, and rounding sums of
blocks would take most of what is stated."""

_FEWEST_GROUPS, _LEAST_SIDE = 128, 900
"""Tiles, and the harmonic mean of rows and columns, for which making integers of the operands pays: docs/notes/
device-arithmetic.md."""

_MOST_SCRATCH = 2**30
"""Bytes of both operands as integers: a card shall not lack memory for what it would compute without."""

_TYPE = DataType.FLOAT32
_DEFINES = {"CONVOLUTION": "0", "OPERAND": "float32", "OPERAND_BITS": "32"}
_PREFIX = "gemm.float32.cooperative.exact"

TILES = ShaderVariant(_PREFIX, cooperative_types.EXACT_SOURCE, tuple(sorted(_DEFINES.items())))
"""Tiles by six products of bytes."""

OTHERS = ShaderVariant(
    f"{_PREFIX}.others", cooperative_types.EXACT_SOURCE, tuple(sorted({**_DEFINES, "ADDS_OTHERS": "1"}.items()))
)
"""The other three, for tiles that need them."""

REST = ShaderVariant(
    "gemm.float32.exact_rest.device",
    "matrix/exact_rest.comp",
    tuple(sorted({**_DEFINES, DEVICE_ARITHMETIC: "1"}.items())),
)
"""Results one by one."""

REST_TILE = dataclasses.replace(
    LARGE_FUSED,
    name=f"{LARGE_FUSED.name}.rest",
    defines=(*LARGE_FUSED.defines, ("READS_REST", "1")),
    families=("gemm",),
    types=(_TYPE,),
)
"""All results of a tile."""


OPERAND = ShaderVariant(f"{_PREFIX}.operand", "matrix/exact_operand.comp", ())  # An operand as integers


@dataclasses.dataclass(frozen=True)
class _Operand:
    is_right: bool  # which one it is
    lines: int  # rows or columns, with those that fill up tiles
    copies: int  # batches that it differs between
    blocks: int  # of each line

    @property
    def size_in_bytes(self) -> int:
        """Four bytes for each term, and a vector for each block."""
        return self.copies * self.lines * self.blocks * (4 * BLOCK_TERMS + 16)


def _operands(product: Product) -> tuple[_Operand, _Operand]:
    blocks = -(-product.terms // BLOCK_TERMS)
    is_shared = (
        product.batches == 1 or not any(product.left[2:]),
        product.batches == 1 or not any(product.others[2:4]),
    )
    lines = (-(-product.rows // _ROWS) * _ROWS, -(-product.columns // _COLUMNS) * _COLUMNS)
    left, right = (
        _Operand(bool(number), lines[number], 1 if is_shared[number] else product.batches, blocks) for number in (0, 1)
    )
    return left, right


def multiplies(product: Product, target: Target) -> bool:
    is_able = target.device_arithmetic and target.has_cooperative_bytes and target.buffers >= _BUFFERS
    is_able = is_able and target.shared_memory >= _SHARED_MEMORY and target.work_group_size >= _INVOCATIONS
    if not is_able or product.data_type is not _TYPE or not _FEWEST_TERMS <= product.terms <= _MOST_TERMS:
        return False
    rows, columns, batches = typical(product.rows), typical(product.columns), typical(product.batches)
    if 2 * rows * columns < _LEAST_SIDE * (rows + columns):
        return False
    if -(-rows // _ROWS) * -(-columns // _COLUMNS) * batches < _FEWEST_GROUPS:
        return False
    return sum(operand.size_in_bytes for operand in _operands(product)) <= min(_MOST_SCRATCH, target.buffer_size)


@lowering(Gemm)
def lower_gemm(desc: Gemm, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    addend = builder.reads.get("c_tensor")
    left, right = builder.reads["a_tensor"], builder.reads["b_tensor"]
    product = gemm_product(desc, with_eights=target.device_arithmetic)
    if multiplies(product, target):

        def add_sums(result: Region, relu: bool) -> None:
            _add(builder, product, (left, right, addend), result, relu)

        with_activation(builder, desc, add_sums)
    elif (padded := padded_gemm(desc, product, target)) is not None:
        return lower_padded(desc, padded, target)
    else:
        lower_product(builder, desc, product, target, left, right, addend)
    return builder.program()


def _add(
    builder: ProgramBuilder,
    product: Product,
    operands: tuple[Region, Region, Region | None],
    result: Region,
    relu: bool,
) -> None:
    left, right, addend = operands
    sides = _operands(product)
    integers = [builder.scratch(side.size_in_bytes) for side in sides]
    for side, source, region in zip(sides, (left, right), integers, strict=True):
        _add_integers(builder, product, side, source, region)
    tiles = (sides[0].lines // _ROWS, sides[1].lines // _COLUMNS)
    groups = tiles[0] * tiles[1] * product.batches
    rest = builder.scratch(4 * groups * (_INVOCATIONS + 1))
    ways = Ways(ONE_SEGMENT, addend is not None, relu, writes_totals=False)
    constants = product_constants(product, ways)
    parameters = (groups, product.rows, product.columns, product.terms, *tiles, 0, 0, *product.left, *product.others)
    work_groups = launch_size(builder.operator_name, groups * _INVOCATIONS, _INVOCATIONS)
    shared = {"LEFT_IS_SHARED": int(sides[0].copies == 1), "RIGHT_IS_SHARED": int(sides[1].copies == 1)}
    for variant, label in ((TILES, "exact products"), (OTHERS, "products of small bytes")):
        kernel = PlainKernel(variant.name, work_groups, {**constants, **shared}, parameters)
        builder.launch(kernel, [*integers, addend or integers[0]], [result, rest], label=label)
    kernel = PlainKernel(REST.name, work_groups, constants, parameters)
    builder.launch(kernel, [left, right, addend or left, rest], [result], label="results that are not certified")
    come = ONE_SEGMENT if product.segments == 1 else SEQUENTIAL
    choice = Choice(REST_TILE, come, REST_TILE.segments_at_once(builder.target))
    for tile in sum_kernels(product, choice, dataclasses.replace(ways, come=come), groups, builder.target):
        builder.launch(tile, [left, right, addend or left, rest], [result], label="tiles that are not certified")


def _add_integers(builder: ProgramBuilder, product: Product, side: _Operand, source: Region, region: Region) -> None:
    along = product.right_along_terms if side.is_right else product.left_along_terms
    has_vectors = along and (product.right_has_vectors if side.is_right else product.left_has_vectors)
    groups = side.copies * side.blocks * side.lines // _LINES_AT_ONCE
    sizes = (groups, product.rows, product.columns, product.terms, side.lines, side.copies, 0, 0)
    kernel = PlainKernel(
        OPERAND.name,
        launch_size(builder.operator_name, groups * _INVOCATIONS, _INVOCATIONS),
        {"IS_RIGHT": int(side.is_right), "ALONG_TERMS": int(along), "HAS_VECTORS": int(has_vectors)},
        (*sizes, *product.left, *product.others),
    )
    label = f"the {'right' if side.is_right else 'left'} operand as integers"
    builder.launch(kernel, [source], [region], label=label)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield TILES
    yield OTHERS
    yield REST
    yield REST_TILE.variant("gemm", _TYPE, dataclasses.replace(GPU, device_arithmetic=True))
    yield OPERAND
