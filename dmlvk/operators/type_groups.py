"""The sets of data types that DirectML's support tables repeat, and the promises that operators share."""

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Accuracy

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
BOOLEANS = (DataType.UINT32, DataType.UINT8)
FLOATS_AND_WORDS = (*FLOATS, DataType.INT32, DataType.UINT32)
FLOATS_WORDS_AND_PAIRS = (*FLOATS, DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
UNSIGNED_TO_32 = (DataType.UINT32, DataType.UINT16, DataType.UINT8)
UNSIGNED_TO_64 = (DataType.UINT64, *UNSIGNED_TO_32)
SIGNED_TO_32 = (*FLOATS, DataType.INT32, DataType.INT16, DataType.INT8)
SIGNED_TO_64 = (*FLOATS, DataType.INT64, DataType.INT32, DataType.INT16, DataType.INT8)
TYPES_TO_32 = (*SIGNED_TO_32, *UNSIGNED_TO_32)
TYPES_TO_64 = (*SIGNED_TO_64, *UNSIGNED_TO_64)
ALL_TYPES = (DataType.FLOAT64, *TYPES_TO_64)

CORRECTLY_ROUNDED = Accuracy("correctly rounded", 0.5)
CORRECTLY_ROUNDED_AFTER_SCALE_BIAS = Accuracy(
    "correctly rounded", 0.5, "x * Scale + Bias is correctly rounded (0.5 ULP) as an operation of its own"
)
EXACT_AFTER_SCALE_BIAS = Accuracy("exact", 0.0, "x * Scale + Bias is correctly rounded (0.5 ULP) as one operation")

SCALE_BIAS_DECISION = (
    "x * Scale + Bias is computed exactly and converted once to the tensor's data type: rounded to nearest even for "
    "FLOAT types, truncated toward zero and saturated for integer types. FLOAT32 denormals count as zero in Scale, "
    "Bias, FLOAT32 inputs and FLOAT32 results of this step, also in operators that otherwise keep them."
)
"""What holds for every operator with a ScaleBias."""

DENORMALS_DECISION = (
    "FLOAT32 denormals count as zeros of their sign, in operands and in results (below 2^-126 after rounding to 24 "
    "bits); FLOAT16 denormals are the numbers they are. Every NaN among the results is the canonical quiet NaN."
)
"""What holds for every operator that computes with floats."""

FLOAT_ATTRIBUTES_DECISION = "FLOAT attributes are used as they are, as FLOAT32 numbers, also with FLOAT16 tensors."
"""What holds where attributes are computed with, not converted to the tensor's data type."""
