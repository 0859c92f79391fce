"""The Python array API standard 2024.12 on Vulkan devices.

    import dmlvk.array_api as xp

    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    print(y / xp.sum(y, axis=-1, keepdims=True))

Consecutive element-wise operations are computed when a value is needed, as one kernel, with the bits that they have one
by one. Types are bool, integers of 8 to 64 bits, float32 and float16; shapes any of 0 to 8 axes.
``dmlvk.array_api.support`` tells what the standard has beyond that.
"""

import math as _math

# ruff: noqa: F403, F405  # the names are those of __all__
from dmlvk.array_api import linalg
from dmlvk.array_api.creation import *
from dmlvk.array_api.dtypes import *
from dmlvk.array_api.elementwise import *
from dmlvk.array_api.indexing import *
from dmlvk.array_api.inspection import __array_namespace_info__
from dmlvk.array_api.manipulation import *
from dmlvk.array_api.powers import *
from dmlvk.array_api.products import *
from dmlvk.array_api.repetition import *
from dmlvk.array_api.searching import *
from dmlvk.array_api.statistics import *
from dmlvk.arrays.array import VERSION as __array_api_version__
from dmlvk.arrays.array import Array
from dmlvk.errors import DataTypeError

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

__all__ = [
    "Array", "DataTypeError", "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add",
    "all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip", "complex128", "complex64",
    "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff",
    "divide", "e", "empty", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "finfo", "flip", "float16",
    "float32", "float64", "floor", "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal",
    "hypot", "iinfo", "imag", "inf", "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isinf", "isnan",
    "less", "less_equal", "linalg", "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid",
    "min", "minimum", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter", "nonzero", "not_equal",
    "ones", "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder", "repeat",
    "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh", "sort", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot",
    "tile", "tril", "triu", "trunc", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
