"""Every shader variant that the package has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dmlvk.kernels import trials
from dmlvk.kernels.composed import batch_training, cached_attention, optimizer, recurrent_steps
from dmlvk.kernels.elementwise import casts, fills, quantized_blocks, random
from dmlvk.kernels.library.named import VARIANTS
from dmlvk.kernels.movement import copies, indexed, interleaved, padded, parts
from dmlvk.kernels.products import block_products, integer_products, matrix_tiles, quantized
from dmlvk.kernels.rows import normalization, reduction, residual_normalization, scan, sorting
from dmlvk.kernels.variants import ShaderVariant, regular_variants
from dmlvk.kernels.windows import region_alignment, region_gradient, regions, resample, resample_gradient, window

SOURCES: tuple[Callable[[], Iterable[ShaderVariant]], ...] = (
    regular_variants,
    integer_products.variants,
    quantized.variants,
    quantized_blocks.variants,
    fills.variants,
    casts.variants,
    copies.variants,
    interleaved.variants,
    padded.variants,
    parts.variants,
    normalization.variants,
    batch_training.variants,
    cached_attention.variants,
    optimizer.variants,
    reduction.variants,
    scan.variants,
    indexed.variants,
    sorting.variants,
    random.variants,
    matrix_tiles.matrix_variants,
    block_products.variants,
    recurrent_steps.variants,
    window.variants,
    resample.variants,
    resample_gradient.variants,
    residual_normalization.variants,
    regions.variants,
    region_alignment.variants,
    region_gradient.variants,
    trials.variants,
)
"""What names the variants of each pattern."""


def all_variants() -> list[ShaderVariant]:
    """Every variant that the package has, sorted by name."""
    found = {variant.name: variant for source in SOURCES for variant in source()}
    return [found[name] for name in sorted(found)]


VARIANTS.append(all_variants)
