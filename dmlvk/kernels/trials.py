"""The kernels by which a device's arithmetic is tried: those of shaders/trial/."""

from __future__ import annotations

from collections.abc import Iterator

from dmlvk.kernels.kernel import PlainKernel, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import KernelStep, Region
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv.cooperative_types import TRIAL_SOURCE

OPERANDS, RESULTS = 3, 12
"""Words of each invocation's operands and results."""

_VARIANT = ShaderVariant("trial.arithmetic", "patterns/elementwise/arithmetic_trial.comp", ())
_HALF_PRODUCTS = ShaderVariant("trial.half_products", "patterns/elementwise/half_products.comp", ())
MATRIX_QUADS = ShaderVariant("trial.float16.cooperative.quads", TRIAL_SOURCE, ())
NARROW_MATRICES = ShaderVariant(
    "trial.float16.cooperative.narrow", TRIAL_SOURCE, (("MATRIX_COLUMNS", "8"), ("MATRIX_ROWS", "16"))
)


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    yield _VARIANT
    yield _HALF_PRODUCTS
    yield MATRIX_QUADS
    yield NARROW_MATRICES


def arithmetic_step(count: int, read: Region, write: Region) -> KernelStep:
    """Computes all results of so many times three operands."""
    columns, rows = work_groups(count)
    assert rows == 1
    kernel = PlainKernel(variant=_VARIANT.name, work_groups=(columns, 1, 1), parameters=(count,))
    return KernelStep("arithmetic", kernel, (read,), (write,))


def half_products_step(pairs: int, factors: int, numbers: Region, by: Region, write: Region) -> KernelStep:
    """Multiplies so many pairs of FLOAT16 by each of so many factors."""
    columns, rows = work_groups(pairs * factors)
    assert rows == 1
    kernel = PlainKernel(_HALF_PRODUCTS.name, (columns, 1, 1), parameters=(pairs * factors, pairs))
    return KernelStep("products of FLOAT16", kernel, (numbers, by), (write,))


def matrix_quads_step(variant: ShaderVariant, write: Region) -> KernelStep:
    """Numbers the elements of cooperative matrices, 16 x 16 or narrow ones, by the invocations that have them."""
    return KernelStep("matrices", PlainKernel(variant.name, (1, 1, 1)), (), (write,))
