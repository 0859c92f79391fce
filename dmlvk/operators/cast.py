"""CAST: elements as another data type."""

from __future__ import annotations

from dmlvk.operators.words import *


class ElementWiseRoundBfloat16(OneInput, is_listed=False):
    """Rounds to the 8 significant bits of bfloat16 (dmlvk's own operator)."""

    output_tensor: TensorDesc = tensor_output("the nearest numbers that bfloat16 has, ties to even, as FLOAT32")
    declaration: ClassVar = elementwise(
        "x rounded to the nearest number of bfloat16, ties to even",
        "NaN gives the canonical quiet NaN. What lies beyond the largest number by half a step or more is infinite.",
        "Denormals are the numbers they are.",
        support=(Support("1_0", (1, 8), (DataType.FLOAT32,)),),
    )


_SHORT = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT16, DataType.INT8, DataType.UINT16, DataType.UINT8)


class Cast(OperatorDesc):
    """Elements converted to another data type (DML_CAST_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the elements")
    output_tensor: TensorDesc = tensor_output("the same in another data type")
    declaration: ClassVar = Declaration(
        "conversion",
        "x, as the output's data type",
        decisions=(
            "Integers become integers by their low bits: INT32 -1 is UINT32 4294967295 and UINT8 255, INT32 300 is "
            "INT8 44.",
            "Floats become integers by truncation toward zero; what lies beyond the type's range gives its nearest "
            "end, infinities too, and NaN gives 0.",
            "Integers and floats become floats by one rounding to nearest even, with infinity beyond the largest "
            "number. Denormals are the numbers they are, of FLOAT32 and FLOAT64 too.",
            "NaN becomes the canonical quiet NaN of the other type. The same data type on both sides is a copy, bit by "
            "bit.",
        ),
        same_sizes=(("input_tensor", "output_tensor"),),
        same_data_type=(),
        support=(
            Support("1_0", (4, 4), _SHORT),
            Support("3_0", (4, 4), TYPES_TO_64),
            Support("3_1", (1, 8), TYPES_TO_64),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )
