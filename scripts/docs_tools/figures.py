"""What others document or require of their FLOAT32 functions: figures with their sources.

Every figure is the largest error in units in the last place, as its source defines it.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class FigureSource:
    title: str  # heading of the column
    text: str  # what they are, with a link


CUDA = FigureSource(
    "CUDA",
    "NVIDIA's figures for CUDA's single-precision functions, [CUDA C Programming Guide, mathematical functions]"
    "(https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#standard-functions), as transcribed in "
    "[Intel's comparison of CUDA and OpenCL](https://github.com/intel/llvm/blob/"
    "3216a580a0630cc279ec0182092e87ea8802f8f1/sycl/doc/cuda/cuda-vs-opencl-math-builtin-precisions.md): the largest "
    "difference from the correctly rounded result, from «extensive but not exhaustive tests». Later editions of the "
    "guide may state smaller ones.",
)
JAX = FigureSource(
    "JAX on NVIDIA",
    "What the JAX project measures on H100 and B200, over all inputs for functions of one argument: "
    "[numerical accuracy](https://github.com/jax-ml/jax/blob/031068b03451af03f8797eee4c0e0a228fbbd6de/docs/accuracy.md).",
)
NUMPY = FigureSource(
    "NumPy",
    "What NumPy's own validation sets allow NumPy's float32 functions: [numpy/_core/tests/data]"
    "(https://github.com/numpy/numpy/tree/v1.26.4/numpy/core/tests/data), the column `ulperrortol`. dmlvk is held to "
    "the same sets by `tests/conformance/test_plan.py`.",
)
VULKAN = FigureSource(
    "Vulkan asks",
    "What a Vulkan device must give for its built-in function in a shader: [Vulkan specification, precision of "
    "individual operations](https://registry.khronos.org/vulkan/specs/latest/html/vkspec.html#spirvenv-op-prec). dmlvk "
    "uses none of them.",
)
SOURCES = (CUDA, JAX, NUMPY, VULKAN)

_SIN = "2^-11 absolute in [-π, π], else nothing"
_SQUARE_ROOT = "as 1 / inversesqrt(x), which is 2 ULP"

FIGURES: dict[str, dict[FigureSource, str]] = {
    "ELEMENT_WISE_ACOS": {CUDA: "3", JAX: "1.5", NUMPY: "3", VULKAN: "as atan2(sqrt(1 - x²), x)"},
    "ELEMENT_WISE_ACOSH": {CUDA: "4", JAX: "2.5", NUMPY: "2", VULKAN: "as log(x + sqrt(x² - 1))"},
    "ELEMENT_WISE_ADD": {CUDA: "0.5", VULKAN: "correctly rounded, in any direction"},
    "ELEMENT_WISE_ASIN": {CUDA: "4", JAX: "1.5", NUMPY: "4", VULKAN: "as atan2(x, sqrt(1 - x²))"},
    "ELEMENT_WISE_ASINH": {CUDA: "3", JAX: "2", NUMPY: "2", VULKAN: "as log(x + sqrt(x² + 1))"},
    "ELEMENT_WISE_ATAN": {CUDA: "2", JAX: "1.5", NUMPY: "3", VULKAN: "4096"},
    "ELEMENT_WISE_ATANH": {CUDA: "3", JAX: "3.5", NUMPY: "2", VULKAN: "as log((1 + x) / (1 - x)) / 2"},
    "ELEMENT_WISE_ATAN_YX": {CUDA: "3", JAX: "3", VULKAN: "4096"},
    "ELEMENT_WISE_CONSTANT_POW": {CUDA: "8 (later 4)", VULKAN: "as exp2(y log2(x))"},
    "ELEMENT_WISE_COS": {CUDA: "2", JAX: "2", NUMPY: "2", VULKAN: _SIN},
    "ELEMENT_WISE_COSH": {CUDA: "2", JAX: "2.5", NUMPY: "3", VULKAN: "as (exp(x) + exp(-x)) / 2"},
    "ELEMENT_WISE_DIVIDE": {CUDA: "0.5", VULKAN: "2.5 for divisors from 2^-126 to 2^126"},
    "ELEMENT_WISE_ERF": {CUDA: "2", JAX: "6.5", VULKAN: "no such function"},
    "ELEMENT_WISE_EXP": {CUDA: "2", JAX: "2", NUMPY: "3", VULKAN: "3 + 2 abs(x)"},
    "ELEMENT_WISE_LOG": {CUDA: "1", JAX: "1", NUMPY: "4", VULKAN: "3; 2^-21 absolute in [0.5, 2]"},
    "ELEMENT_WISE_MULTIPLY": {CUDA: "0.5", VULKAN: "correctly rounded, in any direction"},
    "ELEMENT_WISE_POW": {CUDA: "8 (later 4)", VULKAN: "as exp2(y log2(x))"},
    "ELEMENT_WISE_RECIP": {CUDA: "0.5", JAX: "1", VULKAN: "2.5 for divisors from 2^-126 to 2^126"},
    "ELEMENT_WISE_SIN": {CUDA: "2", JAX: "1.5", NUMPY: "2", VULKAN: _SIN},
    "ELEMENT_WISE_SINH": {CUDA: "3", JAX: "3", NUMPY: "2", VULKAN: "as (exp(x) - exp(-x)) / 2"},
    "ELEMENT_WISE_SQRT": {CUDA: "0.5", JAX: "1", VULKAN: _SQUARE_ROOT},
    "ELEMENT_WISE_SUBTRACT": {CUDA: "0.5", VULKAN: "correctly rounded, in any direction"},
    "ELEMENT_WISE_TAN": {CUDA: "4", JAX: "3.5", NUMPY: "4", VULKAN: "as sin(x) / cos(x)"},
    "ELEMENT_WISE_TANH": {CUDA: "2", JAX: "5.5", NUMPY: "2", VULKAN: "as sinh(x) / cosh(x)"},
    "ACTIVATION_SIGMOID": {JAX: "4", VULKAN: "no such function"},
    "ACTIVATION_TANH": {CUDA: "2", JAX: "5.5", NUMPY: "2", VULKAN: "as sinh(x) / cosh(x)"},
}
"""By operator; an empty place where a source says nothing. CUDA's «0 from the rounded result» is 0.5 here."""
