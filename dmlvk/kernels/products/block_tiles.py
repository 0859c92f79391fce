"""Products of 5 to 32 rows with packed weights of 4 bits, on GPUs: sums of segments by one kernel, added by another.

A core reads less from shared memory than it multiplies, so an invocation multiplies each number that it reads by two
columns' weights, and sums of segments go through memory: then all cores have work. The bits are those of
:mod:`dmlvk.kernels.products.block_products`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.block_parts import add_in_parts, product_parameters
from dmlvk.kernels.products.block_weights import BlockWeights, ZeroKind
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm

_SEGMENT = 1024
"""As in ``shaders/patterns/products/block_products.glsl``."""

_ROWS = 8
"""Of a work group of ``shaders/patterns/products/block_tiles.glsl``."""

_COLUMNS = 2
"""Of an invocation there."""

_INVOCATIONS = 32
_STAGE = 32
"""Terms that share a scale there."""

_FEWEST_ROWS = 5
_FEWEST_GROUPS = 768
"""Work groups from which on this is the fastest way: fewer leave cores idle while each goes through its terms."""

_FEWEST_TIMES = 4
"""Tiles of rows, times segments, likewise: few of them wait for the weights."""

_BITS = 4
_TYPE = DataType.FLOAT16
_BUFFERS = 7
_BUFFERS_OF_GATED = 10


def variants() -> Iterator[ShaderVariant]:
    """The shaders."""
    for is_gated in (False, True):
        yield _variant("totals", is_gated=is_gated)
        for has_halves in (False, True):
            yield _variant("tiles", is_gated=is_gated, has_halves=has_halves)


def _variant(way: str, *, is_gated: bool, has_halves: bool = False) -> ShaderVariant:
    given = {"OPERAND": "float16", "OPERAND_BITS": "16", "WEIGHT_BITS": str(_BITS)}
    if way == "tiles":
        given |= {"BLOCK_ROWS": f"{_ROWS}u", "BLOCK_COLUMNS": f"{_COLUMNS}u"}
    else:
        given["HAS_PARTS"] = "1"
    name = f"blocks.float16.{_BITS}.{way}"
    if is_gated:
        given["IS_GATED"] = "1"
        name += ".gated"
    if has_halves:
        given["HALF_ARITHMETIC"] = "1"
        name += ".halves"
    return ShaderVariant(name, f"matrix/block_{way}.comp", tuple(sorted(given.items())))


def totals_variant(*, is_gated: bool) -> ShaderVariant:
    """The shader that adds what kernels gave of segments or parts."""
    return _variant("totals", is_gated=is_gated)


def _groups(product: Product, *, is_gated: bool) -> tuple[int, int, int]:
    """Work groups along the rows, along the columns, and along the segments."""
    across = _INVOCATIONS * _COLUMNS // (2 if is_gated else 1)
    return -(-product.rows // _ROWS), -(-product.columns // across), product.terms // _SEGMENT


def is_faster(product: Product, weights: BlockWeights, target: Target, *, is_gated: bool) -> bool:
    """Whether a product, which a GPU is to compute with packed weights, is computed so."""
    are_such = weights.data_type is _TYPE and weights.bits == _BITS and weights.common_block(_STAGE) == _STAGE
    are_whole = product.terms % _SEGMENT == 0 and weights.has_whole_segments and weights.has_vectors
    has_left = product.left_along_terms and product.left_has_vectors
    is_bound = target.buffers >= (_BUFFERS_OF_GATED if is_gated else _BUFFERS) and not target.is_cpu
    if product.rows < _FEWEST_ROWS or not (are_such and are_whole and has_left and is_bound):
        return False
    rows, columns, segments = _groups(product, is_gated=is_gated)
    return rows * segments >= _FEWEST_TIMES and rows * columns * segments >= _FEWEST_GROUPS


def add_product(
    builder: ProgramBuilder,
    desc: Gemm,
    product: Product,
    weights: BlockWeights,
    operands: Sequence[Region],
    given: Mapping[str, int],
    *,
    is_gated: bool,
) -> None:
    """Adds both kernels.

    Args:
        builder: to which they are added.
        desc: the product, as of numbers.
        product: the same.
        weights: what its numbers are made of.
        operands: as all kernels of these products bind them.
        given: the specialization constants that these have in common.
        is_gated: whether there are weights of a gate.
    """
    rows, columns, segments = _groups(product, is_gated=is_gated)
    pairs = given["OUTPUT_HAS_PAIRS"] and product.columns % 2 == 0
    constants = {**given, "OUTPUT_HAS_PAIRS": int(pairs), "BLOCK": _STAGE}
    has_halves = builder.target.has_half_arithmetic and weights.zero_kind is not ZeroKind.FLOAT
    groups = rows * columns * segments
    kernel = PlainKernel(
        _variant("tiles", is_gated=is_gated, has_halves=has_halves).name,
        launch_size(builder.operator_name, groups * _INVOCATIONS, _INVOCATIONS),
        constants,
        (groups, *product_parameters(desc, product, (rows, columns))),
        work_group_size=_INVOCATIONS,
    )
    add_in_parts(
        builder,
        product,
        operands,
        kernel,
        totals_variant(is_gated=is_gated),
        constants,
        parts=segments,
        part_terms=_SEGMENT,
        is_gated=is_gated,
    )


__all__ = ["add_product", "is_faster", "totals_variant", "variants"]
