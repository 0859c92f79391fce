"""Which module computes which pattern, and of some patterns which operator."""

from __future__ import annotations

from collections.abc import Mapping

from dmlvk.kernels import catalog  # noqa: F401  # a checkout compiles what it names
from dmlvk.kernels.composed import attention, batch_training, cached_attention, optimizer, recurrent
from dmlvk.kernels.elementwise import casts, elementwise, fills, quantized_blocks, random
from dmlvk.kernels.movement import indexed, movement
from dmlvk.kernels.products import convolution, integer_products, matrix, quantized
from dmlvk.kernels.program import of_kernel
from dmlvk.kernels.registry import LOWERINGS, Lowering, lower
from dmlvk.kernels.rows import along_axes, normalization, reduction, residual_normalization, scan, sorting
from dmlvk.kernels.windows import regions, resample, resample_gradient, window
from dmlvk.operators.declaration import Pattern

_PRODUCTS: Mapping[str, Lowering] = {
    "GEMM": matrix.lower_gemm,
    "MATRIX_MULTIPLY_INTEGER": integer_products.lower_matrix,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": quantized.lower_matrix,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": quantized.lower_matrix_to_float,
    "CONVOLUTION": convolution.lower_convolution,
    "CONVOLUTION_INTEGER": integer_products.lower_convolution,
    "QUANTIZED_LINEAR_CONVOLUTION": quantized.lower_convolution,
}
_COMPOSED: Mapping[str, Lowering] = {
    "ADAM_OPTIMIZER": optimizer.lower,
    "CACHED_ATTENTION": cached_attention.lower,
    "DYNAMIC_QUANTIZE_LINEAR": quantized.lower_dynamic,
    "MULTIHEAD_ATTENTION": attention.lower,
    "MULTIHEAD_ATTENTION1": attention.lower,
    "RESIDUAL_NORMALIZATION": residual_normalization.lower,
}
_RESAMPLINGS: Mapping[str, Lowering] = {
    "RESAMPLE_GRAD": resample_gradient.lower,
    "RESAMPLE_GRAD1": resample_gradient.lower,
}

_NORMALIZATIONS: Mapping[str, Lowering] = {
    "BATCH_NORMALIZATION_TRAINING": batch_training.lower,
    "BATCH_NORMALIZATION_TRAINING_GRAD": batch_training.lower_gradient,
}

_BY_PATTERN: Mapping[Pattern, Lowering] = {
    "elementwise": lambda desc, target: of_kernel(desc, elementwise.lower(desc, target)),
    "rows": lambda desc, target: of_kernel(desc, along_axes.lower(desc, target)),
    "normalization": lambda desc, target: _NORMALIZATIONS.get(desc.operator_name, normalization.lower)(desc, target),
    "reduction": reduction.lower,
    "scan": scan.lower,
    "indexed": indexed.lower,
    "sort": sorting.lower,
    "random": random.lower,
    "matrix": lambda desc, target: _PRODUCTS[desc.operator_name](desc, target),
    "convolution": lambda desc, target: _PRODUCTS[desc.operator_name](desc, target),
    "recurrent": recurrent.lower,
    "copies": movement.lower,
    "window": window.lower,
    "conversion": casts.lower,
    "resample": lambda desc, target: _RESAMPLINGS.get(desc.operator_name, resample.lower)(desc, target),
    "regions": regions.lower,
    "fill": fills.lower,
    "quantization": quantized_blocks.lower,
    "composed": lambda desc, target: _COMPOSED[desc.operator_name](desc, target),
}
"""By pattern. Each module of a pattern knows its shaders' variants, too: :mod:`dmlvk.kernels.catalog`."""

LOWERINGS.update(_BY_PATTERN)

__all__ = ["LOWERINGS", "Lowering", "lower"]
