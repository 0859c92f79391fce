"""The ELEMENT_WISE operators: what each of them is. How they are computed is in ``dmlvk.kernels`` and ``shaders/``."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import (
    Accuracy,
    Declaration,
    OperatorDesc,
    ScaleBias,
    Support,
    float_attribute,
    input_tensor,
    output_tensor,
    scale_bias_attribute,
)
from dmlvk.tensors import TensorDesc

_FLOAT16_AND_32 = (DataType.FLOAT32, DataType.FLOAT16)
_INTEGERS_TO_32 = (
    DataType.INT32,
    DataType.INT16,
    DataType.INT8,
    DataType.UINT32,
    DataType.UINT16,
    DataType.UINT8,
)
_TYPES_TO_32 = _FLOAT16_AND_32 + _INTEGERS_TO_32
_TYPES_TO_64 = (*_TYPES_TO_32, DataType.INT64, DataType.UINT64)
_TYPES_TO_64_AND_FLOAT64 = (*_TYPES_TO_64, DataType.FLOAT64)

_EXACT = Accuracy("exact", 0.0)


class ElementWiseIf(OperatorDesc):
    """Selects elements of two tensors (DML_ELEMENT_WISE_IF_OPERATOR_DESC).

    ``output = a if condition != 0 else b``. Values are moved, never computed: NaN payloads, denormals and the sign of
    zero stay as they are.
    """

    condition_tensor: TensorDesc = input_tensor("UINT8; any non-zero value selects ATensor, zero selects BTensor")
    a_tensor: TensorDesc = input_tensor("values taken where the condition is not zero")
    b_tensor: TensorDesc = input_tensor("values taken where the condition is zero")
    output_tensor: TensorDesc = output_tensor("the selected values")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_IF",
        formula="a if condition != 0 else b",
        same_sizes=(("condition_tensor", "a_tensor", "b_tensor", "output_tensor"),),
        same_data_type=(("a_tensor", "b_tensor", "output_tensor"),),
        moves=("a_tensor", "b_tensor", "output_tensor"),
        accuracy=_EXACT,
        support=(
            Support(
                "2_0",
                (4, 4),
                condition_tensor=(DataType.UINT8,),
                a_tensor=(DataType.FLOAT16,),
                b_tensor=(DataType.FLOAT16,),
                output_tensor=(DataType.FLOAT16,),
            ),
            Support(
                "3_0",
                (1, 8),
                condition_tensor=(DataType.UINT8,),
                a_tensor=_TYPES_TO_32,
                b_tensor=_TYPES_TO_32,
                output_tensor=_TYPES_TO_32,
            ),
            Support(
                "5_0",
                (1, 8),
                condition_tensor=(DataType.UINT8,),
                a_tensor=_TYPES_TO_64_AND_FLOAT64,
                b_tensor=_TYPES_TO_64_AND_FLOAT64,
                output_tensor=_TYPES_TO_64_AND_FLOAT64,
            ),
        ),
    )


class ElementWiseLogicalGreaterThan(OperatorDesc):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OPERATOR_DESC).

    ``output = 1 if a > b else 0``. Denormals are compared as the numbers they are, and both zeros are equal.
    """

    a_tensor: TensorDesc = input_tensor("left operand")
    b_tensor: TensorDesc = input_tensor("right operand")
    output_tensor: TensorDesc = output_tensor("1 where a is greater, else 0")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_LOGICAL_GREATER_THAN",
        formula="1 if a > b else 0",
        decisions=("A comparison with NaN is false.",),
        same_sizes=(("a_tensor", "b_tensor", "output_tensor"),),
        same_data_type=(("a_tensor", "b_tensor"),),
        accuracy=_EXACT,
        support=(
            Support(
                "1_0",
                (4, 4),
                a_tensor=_FLOAT16_AND_32,
                b_tensor=_FLOAT16_AND_32,
                output_tensor=(DataType.UINT32,),
            ),
            Support(
                "2_0",
                (4, 4),
                a_tensor=_FLOAT16_AND_32,
                b_tensor=_FLOAT16_AND_32,
                output_tensor=(DataType.UINT32, DataType.UINT8),
            ),
            Support(
                "2_1",
                (4, 4),
                a_tensor=_TYPES_TO_32,
                b_tensor=_TYPES_TO_32,
                output_tensor=(DataType.UINT32, DataType.UINT8),
            ),
            Support(
                "3_0",
                (1, 8),
                a_tensor=_TYPES_TO_32,
                b_tensor=_TYPES_TO_32,
                output_tensor=(DataType.UINT32, DataType.UINT8),
            ),
            Support(
                "4_1",
                (1, 8),
                a_tensor=_TYPES_TO_64,
                b_tensor=_TYPES_TO_64,
                output_tensor=(DataType.UINT32, DataType.UINT8),
            ),
        ),
    )


class ElementWiseSign(OperatorDesc):
    """The sign of each element (DML_ELEMENT_WISE_SIGN_OPERATOR_DESC).

    ``output = -1 if x < 0, 1 if x > 0, 0 otherwise``. Denormals are the numbers they are: their sign is -1 or 1.
    """

    input_tensor: TensorDesc = input_tensor("the values")
    output_tensor: TensorDesc = output_tensor("their signs, in the input's data type")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_SIGN",
        formula="-1 if x < 0; 1 if x > 0; 0 otherwise",
        decisions=("NaN and both zeros give +0: they are the formula's «otherwise».",),
        same_sizes=(("input_tensor", "output_tensor"),),
        same_data_type=(("input_tensor", "output_tensor"),),
        in_place=("input_tensor",),
        accuracy=_EXACT,
        support=(
            Support("2_0", (4, 4), input_tensor=_FLOAT16_AND_32, output_tensor=_FLOAT16_AND_32),
            Support("2_1", (4, 4), input_tensor=_TYPES_TO_32, output_tensor=_TYPES_TO_32),
            Support("3_0", (1, 8), input_tensor=_TYPES_TO_32, output_tensor=_TYPES_TO_32),
            Support("4_1", (1, 8), input_tensor=_TYPES_TO_64, output_tensor=_TYPES_TO_64),
        ),
    )


class ElementWiseThreshold(OperatorDesc):
    """Replaces values below a bound by the bound (DML_ELEMENT_WISE_THRESHOLD_OPERATOR_DESC).

    ``output = max(x * scale + bias, min)``, without the first step when ``scale_bias`` is ``None``.
    """

    input_tensor: TensorDesc = input_tensor("the values")
    output_tensor: TensorDesc = output_tensor("the bounded values, in the input's data type")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )
    min: float = float_attribute("the bound", converted_to="output_tensor")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_THRESHOLD",
        formula="max(x, Min), x being x * Scale + Bias when ScaleBias is given",
        decisions=(
            "Min is converted to the tensor's data type once: to FLOAT16 rounded to nearest even; to an integer type "
            "truncated toward zero and saturated, NaN to 0.",
            "Of a number and NaN the number is the result; two NaN give the canonical quiet NaN. +0 is above -0.",
            "x * Scale + Bias is computed exactly and converted once to the tensor's data type: rounded to nearest "
            "even for FLOAT types, truncated toward zero and saturated for integer types. FLOAT32 denormals count as "
            "zero in Scale, Bias, FLOAT32 inputs and FLOAT32 results of this step. Without ScaleBias they are kept.",
        ),
        same_sizes=(("input_tensor", "output_tensor"),),
        same_data_type=(("input_tensor", "output_tensor"),),
        in_place=("input_tensor",),
        accuracy=Accuracy("exact", 0.0, "x * Scale + Bias is correctly rounded (0.5 ULP) as one operation"),
        support=(
            Support("1_0", (4, 4), input_tensor=_FLOAT16_AND_32, output_tensor=_FLOAT16_AND_32),
            Support("2_1", (4, 4), input_tensor=_TYPES_TO_32, output_tensor=_TYPES_TO_32),
            Support("3_0", (1, 8), input_tensor=_TYPES_TO_32, output_tensor=_TYPES_TO_32),
        ),
    )
